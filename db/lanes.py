"""Lanes: the queue of an account, the claims that it has taken, attempts from build to write-ahead to send."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, delete, exists, func, insert, or_, select, update

from db.rows import WITHDRAWALS, read_attempts, read_withdrawals, withdrawal
from db.schema import (
    accounts,
    attempt_claims,
    broadcast_attempts,
    hashes,
    slots,
    transactions,
    withdrawals,
)
from db.schema import attempts as attempt_rows
from db.session import Part, chunks, ordered, whole
from gateway.core.chain import Held, Signed
from gateway.core.errors import StaleWrite
from gateway.core.ids import AccountId, AttemptId, TransactionId, WithdrawalId, uuid7
from gateway.core.lifecycle import Status
from gateway.core.records import Attempt, NewBroadcast, Withdrawal

IN_LANES = (Status.QUEUED, Status.PENDING_SIGNATURE)


class LaneReader(Part):
    """Reads."""

    async def queued(self, account_id: AccountId, limit: int) -> Sequence[Withdrawal]:
        """QUEUED withdrawals of an account, oldest first."""
        place = (
            await self._sql.run(select(accounts.c.chain, accounts.c.vault_id).where(accounts.c.id == account_id))
        ).one_or_none()
        if place is None:
            return []
        # By chain and vault, since that is what the index of the queue goes by.
        return await read_withdrawals(
            self._sql,
            WITHDRAWALS.where(
                transactions.c.chain == place.chain,
                transactions.c.status == Status.QUEUED,
                transactions.c.source_vault_id == place.vault_id,
            )
            .order_by(transactions.c.created_at, withdrawals.c.id)
            .limit(limit),
        )

    async def busy_accounts(self, chain: str) -> Sequence[AccountId]:
        """Accounts of a chain with QUEUED or PENDING_SIGNATURE withdrawals, or signed attempts never recorded."""
        waiting = (
            select(transactions.c.source_vault_id)
            .where(transactions.c.chain == chain, transactions.c.status.in_(IN_LANES))
            .distinct()
        )
        unsent = exists().where(
            attempt_rows.c.account_id == accounts.c.id,
            attempt_rows.c.closed.is_(False),
            attempt_rows.c.recorded.is_(False),
            attempt_rows.c.raw.is_not(None),
        )
        rows = await self._sql.rows(
            select(accounts.c.id)
            .where(accounts.c.chain == chain, or_(accounts.c.vault_id.in_(waiting), unsent))
            .order_by(accounts.c.id)
        )
        return [row.id for row in rows]

    async def held(self, account_id: AccountId) -> Sequence[Held]:
        """Claims taken for an account: all that are open, and the newest one that is closed."""
        ours = select(slots.c.claim, slots.c.withdrawal_id, slots.c.signed).where(slots.c.account_id == account_id)
        newest = await self._sql.rows(
            ours.where(slots.c.closed.is_(True)).order_by(slots.c.taken_by.desc(), slots.c.claim.desc()).limit(1)
        )
        running = await self._sql.rows(ours.where(slots.c.closed.is_(False)).order_by(slots.c.taken_by, slots.c.claim))
        return [Held(row.claim, row.withdrawal_id, bool(row.signed)) for row in [*newest, *running]]

    async def open_attempts(self, account_id: AccountId) -> Sequence[Attempt]:
        """Attempts of an account that are not closed, oldest first."""
        return await read_attempts(self._sql, *_open(account_id))

    async def unsigned(self, account_id: AccountId) -> Sequence[tuple[Withdrawal, Attempt]]:
        """PENDING_SIGNATURE withdrawals of an account with their open unsigned attempt, oldest first."""
        found = await read_attempts(self._sql, *_open(account_id), attempt_rows.c.raw.is_(None))
        return [
            (withdrawal, attempt)
            for withdrawal, attempt in await self._with_withdrawals(found)
            if withdrawal.status is Status.PENDING_SIGNATURE
        ]

    async def unsent(self, account_id: AccountId) -> Sequence[tuple[Withdrawal, Attempt]]:
        """Open signed attempts of an account that no `broadcast_attempts` row records, oldest first."""
        found = await read_attempts(
            self._sql, *_open(account_id), attempt_rows.c.raw.is_not(None), attempt_rows.c.recorded.is_(False)
        )
        return await self._with_withdrawals(found)

    async def family(self, withdrawal_id: WithdrawalId) -> Sequence[Attempt]:
        """Every attempt of a withdrawal, oldest first."""
        return (await self.families([withdrawal_id]))[withdrawal_id]

    async def families(self, ids: Sequence[WithdrawalId]) -> Mapping[WithdrawalId, Sequence[Attempt]]:
        """`family` of each of these withdrawals; one without attempts has an empty one."""
        found: dict[WithdrawalId, list[Attempt]] = {wanted: [] for wanted in ids}
        for chunk in chunks(ordered(ids)):
            for attempt in await read_attempts(self._sql, attempt_rows.c.withdrawal_id.in_(chunk)):
                found[attempt.withdrawal_id].append(attempt)
        return found

    async def known_attempts(self, ids: Sequence[AttemptId]) -> frozenset[AttemptId]:
        rows = await self._sql.rows_among(select(attempt_rows.c.id), attempt_rows.c.id, ordered(ids))
        return frozenset(row.id for row in rows)

    async def _with_withdrawals(self, found: Sequence[Attempt]) -> list[tuple[Withdrawal, Attempt]]:
        rows = await self._sql.rows_among(
            WITHDRAWALS, withdrawals.c.id, ordered(attempt.withdrawal_id for attempt in found)
        )
        by_id = {row.id: withdrawal(row) for row in rows}
        return [(by_id[attempt.withdrawal_id], attempt) for attempt in found if attempt.withdrawal_id in by_id]


def _open(account_id: AccountId) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return attempt_rows.c.account_id == account_id, attempt_rows.c.closed.is_(False)


class LaneWriter(LaneReader):
    """Writes."""

    @whole
    async def take(self, attempts: Sequence[Attempt]) -> None:
        """Insert built attempts with their claims. StaleWrite: a claim is taken by another withdrawal."""
        if not attempts:
            return
        await self._sql.run(insert(attempt_rows), [_attempt_row(attempt) for attempt in attempts])
        claims = [
            {"attempt_id": attempt.id, "position": position, "claim": claim}
            for attempt in attempts
            for position, claim in enumerate(attempt.claims)
        ]
        if claims:
            await self._sql.run(insert(attempt_claims), claims)
        await self._take_slots(attempts)
        await self._set_payloads(attempts)

    async def _take_slots(self, taken: Sequence[Attempt]) -> None:
        wanted: dict[str, dict[str, Attempt]] = defaultdict(dict)
        for attempt in taken:
            for claim in attempt.claims:
                first = wanted[attempt.chain].setdefault(claim, attempt)
                _check_owner(claim, first.withdrawal_id, attempt.withdrawal_id)
        for chain, claims in wanted.items():
            rows = await self._sql.rows_among(
                select(slots.c.claim, slots.c.withdrawal_id)
                .where(slots.c.chain == chain)
                .order_by(slots.c.claim)
                .with_for_update(key_share=True),
                slots.c.claim,
                ordered(claims),
            )
            for row in rows:
                _check_owner(row.claim, row.withdrawal_id, claims[row.claim].withdrawal_id)
            shared = {row.claim for row in rows}
            for chunk in chunks(ordered(shared)):
                await self._sql.run(
                    update(slots).where(slots.c.chain == chain, slots.c.claim.in_(chunk)).values(closed=False)
                )
            fresh = [_slot_row(claim, claims[claim]) for claim in ordered(claims) if claim not in shared]
            if fresh:
                await self._sql.run(insert(slots), fresh, taken=StaleWrite)

    async def _set_payloads(self, taken: Sequence[Attempt]) -> None:
        first: dict[WithdrawalId, Attempt] = {}
        for attempt in taken:
            first.setdefault(attempt.withdrawal_id, attempt)
        rows = await self._sql.rows_among(
            select(withdrawals.c.id, withdrawals.c.transaction_id)
            .join(transactions, transactions.c.id == withdrawals.c.transaction_id)
            .where(transactions.c.raw_payload_cbor.is_(None)),
            withdrawals.c.id,
            ordered(first),
        )
        if rows:
            await self._sql.run(
                update(transactions)
                .where(transactions.c.id == bindparam("key"), transactions.c.raw_payload_cbor.is_(None))
                .values(raw_payload_cbor=bindparam("payload")),
                [{"key": row.transaction_id, "payload": first[row.id].payload} for row in rows],
            )

    @whole
    async def release(self, attempt_id: AttemptId) -> None:
        """Close an attempt for which nothing was ever signed and free its claims. StaleWrite: it is signed.

        A claim stays taken while another attempt of the withdrawal holds it that is open or was signed.
        Releasing twice is harmless.
        """
        (row,) = (await self._lock_attempts([attempt_id])).values()
        if row.raw is not None:
            raise StaleWrite(f"attempt {attempt_id} is signed")
        if row.closed:
            return
        await self._sql.run(update(attempt_rows).where(attempt_rows.c.id == attempt_id).values(closed=True))
        family = await self.family(row.withdrawal_id)
        ours = {claim for attempt in family if attempt.id == attempt_id for claim in attempt.claims}
        others = [attempt for attempt in family if attempt.id != attempt_id]
        kept = {claim for a in others if a.raw or not a.closed for claim in a.claims}
        running = {claim for a in others if not a.closed for claim in a.claims}
        for chunk in chunks(ordered(ours - kept)):
            await self._sql.run(delete(slots).where(slots.c.chain == row.chain, slots.c.claim.in_(chunk)))
        for chunk in chunks(ordered((ours & kept) - running)):
            await self._sql.run(
                update(slots).where(slots.c.chain == row.chain, slots.c.claim.in_(chunk)).values(closed=True)
            )

    @whole
    async def store_signed(self, signed: Mapping[AttemptId, Signed], at: datetime) -> None:
        """The write-ahead: from the commit on, these bytes count as sent. Duplicate: a hash of another attempt.

        StaleWrite: an attempt is signed already, or was released.
        """
        if not signed:
            return
        rows = await self._lock_attempts(signed)
        for attempt_id, row in rows.items():
            if row.raw is not None or row.closed:
                raise StaleWrite(f"attempt {attempt_id} is {'closed' if row.closed else 'signed already'}")
            if not signed[attempt_id].raw or not signed[attempt_id].tx_hash:
                raise ValueError("signed bytes and their hash cannot be empty")
        await self._sql.run(
            insert(hashes),
            [{"chain": row.chain, "tx_hash": signed[key].tx_hash, "attempt_id": key} for key, row in rows.items()],
        )
        await self._sql.run(
            update(attempt_rows)
            .where(attempt_rows.c.id == bindparam("key"))
            .values(raw=bindparam("bytes"), tx_hash=bindparam("hash"), signed_at=bindparam("at")),
            [{"key": key, "bytes": signed[key].raw, "hash": signed[key].tx_hash, "at": at} for key in rows],
        )
        claims = await self._sql.rows_among(
            select(attempt_rows.c.chain, attempt_claims.c.claim).join_from(
                attempt_claims, attempt_rows, attempt_rows.c.id == attempt_claims.c.attempt_id
            ),
            attempt_claims.c.attempt_id,
            ordered(signed),
        )
        for chain, names in _by_chain(claims).items():
            for chunk in chunks(names):
                await self._sql.change(
                    update(slots).where(slots.c.chain == chain, slots.c.claim.in_(chunk)).values(signed=True),
                    len(chunk),
                    "claims of signed attempts",
                )

    @whole
    async def record(self, sends: Sequence[NewBroadcast]) -> None:
        """Insert `broadcast_attempts` rows (a `first` one that exists already is skipped), set hashes if unset."""
        if not sends:
            return
        facts = await self._lock_attempts([send.attempt.id for send in sends])
        existing = await self._sql.rows_among(select(broadcast_attempts.c.id), broadcast_attempts.c.id, ordered(facts))
        numbers = await self._last_numbers([row.withdrawal_id for row in facts.values()])
        done = {row.id for row in existing}
        rows: list[dict[str, Any]] = []
        counted: dict[AttemptId, tuple[int, datetime]] = {}
        found_hashes: dict[TransactionId, str] = {}
        for send in sends:
            fact = facts[send.attempt.id]
            if fact.raw is None:
                raise StaleWrite(f"attempt {fact.id} is not signed")
            if send.first and fact.id in done:
                continue
            if send.first:
                done.add(fact.id)
            numbers[fact.withdrawal_id] = numbers.get(fact.withdrawal_id, 0) + 1
            rows.append(_broadcast_row(send, fact, numbers[fact.withdrawal_id]))
            counted[fact.id] = counted.get(fact.id, (0, send.at))[0] + 1, send.at
            if fact.transaction_hash is None:
                found_hashes.setdefault(fact.transaction_id, fact.tx_hash)
        if rows:
            await self._sql.run(insert(broadcast_attempts), rows, taken=StaleWrite)
            await self._note_sends(counted, done)
        if found_hashes:
            await self._sql.run(
                update(transactions)
                .where(transactions.c.id == bindparam("key"), transactions.c.tx_hash.is_(None))
                .values(tx_hash=bindparam("hash")),
                [{"key": key, "hash": value} for key, value in found_hashes.items()],
            )

    async def _last_numbers(self, ids: Sequence[WithdrawalId]) -> dict[WithdrawalId, int]:
        column = broadcast_attempts.c.withdrawal_id
        rows = await self._sql.rows_among(
            select(column, func.max(broadcast_attempts.c.attempt_number).label("number")).group_by(column),
            column,
            ordered(ids),
        )
        return {row.withdrawal_id: row.number for row in rows}

    async def _note_sends(self, counted: Mapping[AttemptId, tuple[int, datetime]], recorded: set[AttemptId]) -> None:
        await self._sql.run(
            update(attempt_rows)
            .where(attempt_rows.c.id == bindparam("key"))
            .values(
                sends=attempt_rows.c.sends + bindparam("more"),
                last_sent_at=bindparam("at"),
                recorded=bindparam("known"),
            ),
            [{"key": key, "more": more, "at": at, "known": key in recorded} for key, (more, at) in counted.items()],
        )

    @whole
    async def count_resends(self, ids: Sequence[AttemptId], at: datetime) -> None:
        for chunk in chunks(ordered(ids)):
            await self._sql.run(
                update(attempt_rows)
                .where(attempt_rows.c.id.in_(chunk))
                .values(sends=attempt_rows.c.sends + 1, last_sent_at=at)
            )

    async def _lock_attempts(self, ids: Any) -> dict[AttemptId, Row[Any]]:
        """Read attempts with what stands above them, under lock; StaleWrite when one is missing.

        The withdrawal's row is locked too, so that its sends are numbered one after the other.
        """
        wanted = ordered(ids)
        rows = await self._sql.rows_among(
            select(
                attempt_rows.c.id,
                attempt_rows.c.withdrawal_id,
                attempt_rows.c.chain,
                attempt_rows.c.payload,
                attempt_rows.c.raw,
                attempt_rows.c.tx_hash,
                attempt_rows.c.closed,
                withdrawals.c.transaction_id,
                transactions.c.tx_hash.label("transaction_hash"),
            )
            .join_from(attempt_rows, withdrawals, withdrawals.c.id == attempt_rows.c.withdrawal_id)
            .join(transactions, transactions.c.id == withdrawals.c.transaction_id)
            .order_by(attempt_rows.c.id)
            .with_for_update(key_share=True),
            attempt_rows.c.id,
            wanted,
        )
        found = {row.id: row for row in rows}
        for attempt_id in wanted:
            if attempt_id not in found:
                raise StaleWrite(f"attempt {attempt_id} is not in the store")
        return found


def _check_owner(claim: str, owner: WithdrawalId, asking: WithdrawalId) -> None:
    if owner != asking:
        raise StaleWrite(f"claim {claim} is taken by withdrawal {owner}")


def _by_chain(rows: Sequence[Row[Any]]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row.chain].add(row.claim)
    return {chain: ordered(claims) for chain, claims in found.items()}


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    if attempt.raw or attempt.tx_hash:
        raise ValueError("an attempt is taken before it is signed")
    return {
        "id": attempt.id,
        "withdrawal_id": attempt.withdrawal_id,
        "account_id": attempt.account_id,
        "chain": attempt.chain,
        "kind": attempt.kind,
        "payload": attempt.payload,
        "window_end": attempt.window_end,
        "fee_max": attempt.fee_max,
        "built_at": attempt.built_at,
        "ok": True,
        "recorded": False,
        "sends": 0,
        "closed": False,
        "indexed": False,
    }


def _slot_row(claim: str, attempt: Attempt) -> dict[str, Any]:
    return {
        "chain": attempt.chain,
        "claim": claim,
        "account_id": attempt.account_id,
        "withdrawal_id": attempt.withdrawal_id,
        "taken_by": attempt.id,
        "signed": False,
        "closed": False,
    }


def _broadcast_row(send: NewBroadcast, fact: Row[Any], number: int) -> dict[str, Any]:
    return {
        "id": fact.id if send.first else uuid7(send.at),
        "withdrawal_id": fact.withdrawal_id,
        "attempt_number": number,
        "raw_payload_cbor": fact.payload,
        "signed_payload": fact.raw,
        "broadcasted_to_node": send.node,
        "broadcasted_at": send.at,
        "tx_hash": fact.tx_hash,
        "outcome": send.outcome,
    }
