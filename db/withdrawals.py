"""Withdrawals as they stand: found by id, external id, status or gate, and the whole history of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, select, update

from db.rows import WITHDRAWALS, read_attempts, read_withdrawals, withdrawal
from db.schema import (
    accounts,
    attempts,
    broadcast_attempts,
    confirmations,
    hashes,
    ledger_entries,
    transaction_details,
    transaction_events,
    transactions,
    withdrawals,
)
from db.session import Part, chunks, ordered, whole
from gateway.core.errors import StaleWrite
from gateway.core.ids import TransactionId, WithdrawalId, WorkspaceId
from gateway.core.lifecycle import Status
from gateway.core.records import (
    Broadcast,
    Confirmation,
    Event,
    Filter,
    History,
    LedgerEntry,
    Withdrawal,
)

AT_THE_GATES = (Status.SUBMITTED, Status.PENDING_ENRICHMENT)


class WithdrawalReader(Part):
    """Reads."""

    async def withdrawal(self, withdrawal_id: WithdrawalId) -> Withdrawal | None:
        found = await read_withdrawals(self._sql, WITHDRAWALS.where(withdrawals.c.id == withdrawal_id))
        return found[0] if found else None

    async def withdrawals(self, ids: Sequence[WithdrawalId]) -> Sequence[Withdrawal]:
        """Return those that exist, in the order asked for."""
        rows = await self._sql.rows_among(WITHDRAWALS, withdrawals.c.id, ordered(ids))
        found = {row.id: withdrawal(row) for row in rows}
        return [found[wanted] for wanted in ids if wanted in found]

    async def by_external_id(self, workspace_id: WorkspaceId, external_id: str) -> Withdrawal | None:
        found = await read_withdrawals(
            self._sql,
            WITHDRAWALS.where(
                transaction_details.c.workspace_id == workspace_id,
                transaction_details.c.external_id == external_id,
            ),
        )
        # MariaDB compares without trailing blanks.
        return found[0] if found and found[0].external_id == external_id else None

    async def by_transaction(self, transaction_id: TransactionId) -> Withdrawal | None:
        found = await read_withdrawals(self._sql, WITHDRAWALS.where(transactions.c.id == transaction_id))
        return found[0] if found else None

    async def by_hash(self, tx_hash: str) -> Sequence[Withdrawal]:
        """The withdrawals of which an attempt has this hash, on whichever chain, oldest first."""
        carriers = (
            select(attempts.c.withdrawal_id)
            .join(hashes, hashes.c.attempt_id == attempts.c.id)
            # Naming the chains lets the primary key serve.
            .where(hashes.c.chain.in_(select(accounts.c.chain)), hashes.c.tx_hash == tx_hash)
        )
        return await read_withdrawals(
            self._sql, WITHDRAWALS.where(withdrawals.c.id.in_(carriers)).order_by(withdrawals.c.id)
        )

    async def search(self, wanted: Filter) -> Sequence[Withdrawal]:
        statement = WITHDRAWALS.order_by(withdrawals.c.id.desc()).limit(wanted.limit)
        if wanted.status is not None:
            statement = statement.where(transactions.c.status == wanted.status)
        if wanted.chain is not None:
            statement = statement.where(transactions.c.chain == wanted.chain)
        return await read_withdrawals(self._sql, statement)

    async def passing(self, chain: str, limit: int) -> Sequence[Withdrawal]:
        """Withdrawals at the gates (SUBMITTED, PENDING_ENRICHMENT), oldest first."""
        return await read_withdrawals(
            self._sql,
            WITHDRAWALS.where(transactions.c.chain == chain, transactions.c.status.in_(AT_THE_GATES))
            .order_by(transactions.c.created_at, withdrawals.c.id)
            .limit(limit),
        )

    async def all_withdrawals(self, after: WithdrawalId | None, limit: int) -> Sequence[Withdrawal]:
        """Withdrawals in order of id, from after the given one."""
        statement = WITHDRAWALS.order_by(withdrawals.c.id).limit(limit)
        if after is not None:
            statement = statement.where(withdrawals.c.id > after)
        return await read_withdrawals(self._sql, statement)

    async def history(self, withdrawal_id: WithdrawalId) -> History | None:
        found = await self.withdrawal(withdrawal_id)
        if found is None:
            return None
        sends = await self._sql.rows(
            select(broadcast_attempts)
            .where(broadcast_attempts.c.withdrawal_id == withdrawal_id)
            .order_by(broadcast_attempts.c.attempt_number)
        )
        blocks = await self._sql.rows(
            select(confirmations)
            .join(broadcast_attempts, broadcast_attempts.c.id == confirmations.c.broadcast_attempt_id)
            .where(broadcast_attempts.c.withdrawal_id == withdrawal_id)
            .order_by(confirmations.c.id)
        )
        return History(
            withdrawal=found,
            events=await self._events(found.transaction_id),
            attempts=tuple(await read_attempts(self._sql, attempts.c.withdrawal_id == withdrawal_id)),
            broadcasts=tuple(_broadcast(row) for row in sends),
            confirmations=tuple(_confirmation(row) for row in blocks),
            ledger=await self._ledger(found.transaction_id),
        )

    async def _events(self, transaction_id: TransactionId) -> tuple[Event, ...]:
        rows = await self._sql.rows(
            select(transaction_events)
            .where(transaction_events.c.transaction_id == transaction_id)
            .order_by(transaction_events.c.occurred_at, transaction_events.c.id)
        )
        return tuple(
            Event(
                transaction_id=row.transaction_id,
                source=None if row.from_status is None else Status(row.from_status),
                target=Status(row.to_status),
                reason=row.reason or "",
                at=row.occurred_at,
            )
            for row in rows
        )

    async def _ledger(self, transaction_id: TransactionId) -> tuple[LedgerEntry, ...]:
        rows = await self._sql.rows(
            select(ledger_entries)
            .where(ledger_entries.c.transaction_id == transaction_id)
            .order_by(ledger_entries.c.occurred_at, ledger_entries.c.id)
        )
        return tuple(
            LedgerEntry(row.transaction_id, row.account_id, row.book, row.amount, row.kind, row.occurred_at)
            for row in rows
        )


def _broadcast(row: Row[Any]) -> Broadcast:
    return Broadcast(
        id=row.id,
        withdrawal_id=row.withdrawal_id,
        attempt_number=row.attempt_number,
        payload=bytes(row.raw_payload_cbor),
        raw=bytes(row.signed_payload),
        node=row.broadcasted_to_node,
        at=row.broadcasted_at,
        tx_hash=row.tx_hash,
        outcome=row.outcome,
    )


def _confirmation(row: Row[Any]) -> Confirmation:
    return Confirmation(row.broadcast_attempt_id, row.block_hash, row.block_height, row.confirmed_at, row.reorged_at)


class DetailWriter(WithdrawalReader):
    """Writes that change no status."""

    @whole
    async def set_sub_status(self, ids: Sequence[WithdrawalId], sub_status: str) -> None:
        for chunk in chunks(await self._transactions_of(ids)):
            await self._sql.run(
                update(transaction_details)
                .where(transaction_details.c.transaction_id.in_(chunk))
                .values(sub_status=sub_status)
            )

    @whole
    async def set_confirmations(self, counts: Mapping[WithdrawalId, int]) -> None:
        """Raise the reported numbers; a lower one is ignored."""
        by_count: dict[int, list[WithdrawalId]] = {}
        for withdrawal_id, count in counts.items():
            by_count.setdefault(count, []).append(withdrawal_id)
        for count, ids in by_count.items():
            for chunk in chunks(await self._transactions_of(ids)):
                await self._sql.run(
                    update(transaction_details)
                    .where(transaction_details.c.transaction_id.in_(chunk), transaction_details.c.confirmations < count)
                    .values(confirmations=count)
                )

    @whole
    async def alarm(self, withdrawal_id: WithdrawalId, text: str) -> None:
        await self._sql.run(
            update(transaction_details)
            .where(transaction_details.c.transaction_id.in_(await self._transactions_of([withdrawal_id])))
            .values(alarm=text)
        )

    async def _transactions_of(self, ids: Sequence[WithdrawalId]) -> list[TransactionId]:
        """Return the transactions of withdrawals; StaleWrite when one is missing.

        Asked apart: MariaDB runs an UPDATE with a subquery through every row of the table.
        """
        wanted = ordered(ids)
        rows = await self._sql.rows_among(select(withdrawals.c.transaction_id), withdrawals.c.id, wanted)
        if len(rows) != len(wanted):
            raise StaleWrite(f"{len(wanted) - len(rows)} of {len(wanted)} withdrawals are not in the store")
        return ordered(row.transaction_id for row in rows)
