"""The only writer of a status: acceptance and moves, with event, ledger and clocks in the same commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Row, bindparam, insert, select, update

from db.ledger import Change, hold, post
from db.schema import transaction_details, transaction_events, transactions
from db.schema import withdrawals as withdrawal_rows
from db.session import Part, chunks, ordered, whole
from db.types import DIGITS, fits
from gateway.core.errors import BadRequest, Duplicate, IllegalMove, StaleWrite
from gateway.core.ids import TransactionId, WorkspaceId, uuid7
from gateway.core.lifecycle import Status, check_path
from gateway.core.money import to_decimal
from gateway.core.records import Move, Withdrawal

TICK = timedelta(microseconds=1)
_Way = tuple[Status, tuple[Status, ...]]
REASON_LENGTH = 255

_CLOCKS = {
    Status.PENDING_AUTHORIZATION: transactions.c.pending_auth_at,
    Status.PENDING_SIGNATURE: transactions.c.pending_sign_at,
}

_FACTS = select(
    transactions.c.id,
    transactions.c.status,
    transactions.c.status_changed_at,
    transaction_details.c.account_id,
    transaction_details.c.amount_base,
    transaction_details.c.max_fee,
    transaction_details.c.fee_paid,
).join_from(transactions, transaction_details, transaction_details.c.transaction_id == transactions.c.id)


@dataclass(frozen=True, slots=True)
class _Step:
    """One event to be written."""

    transaction_id: TransactionId
    source: Status | None
    target: Status
    reason: str
    at: datetime

    def row(self) -> dict[str, Any]:
        return {
            "id": uuid7(self.at),
            "transaction_id": self.transaction_id,
            "from_status": self.source,
            "to_status": self.target,
            "reason": self.reason[:REASON_LENGTH],
            "occurred_at": self.at,
        }


class StatusWriter(Part):
    """Writes of statuses."""

    @whole
    async def accept(self, withdrawals: Sequence[Withdrawal], *, reason: str) -> None:
        """Insert withdrawals in their first status with event and reserve posting. Duplicate: external id."""
        if not withdrawals:
            return
        for withdrawal in withdrawals:
            check_path(None, (withdrawal.status,))
            _check_amounts(withdrawal)
        await self._check_external_ids(withdrawals)
        changes = [_acceptance(w) for w in withdrawals]
        await hold(self._sql, changes)
        await self._sql.run(insert(transactions), [_transaction_row(w) for w in withdrawals])
        await self._sql.run(insert(withdrawal_rows), [_withdrawal_row(w) for w in withdrawals])
        await self._sql.run(insert(transaction_details), [_detail_row(w) for w in withdrawals])
        await self._write_events(
            _Step(w.transaction_id, None, w.status, reason, w.status_changed_at) for w in withdrawals
        )
        await post(self._sql, changes)

    @whole
    async def move(self, moves: Sequence[Move]) -> None:
        """Move statuses; StaleWrite when one of them is not where it was read, IllegalMove: not in the table."""
        if not moves:
            return
        by_id: dict[TransactionId, Move] = {}
        for move in moves:
            check_path(move.withdrawal.status, move.path)
            if move.withdrawal.transaction_id in by_id:
                raise IllegalMove(f"withdrawal {move.withdrawal.id} is twice in one batch")
            by_id[move.withdrawal.transaction_id] = move
        facts = await self._lock_statuses(by_id)
        # The database's order of events is their time: a step is never before the one that it follows.
        starts = {
            transaction_id: max(move.at, facts[transaction_id].status_changed_at + TICK)
            for transaction_id, move in by_id.items()
        }
        await self._swap(by_id, starts)
        await self._write_events(_steps(by_id, starts))
        await self._stamp_cancels(by_id, starts)
        await self._set_details(by_id)
        changes = [_change(move, facts[key], _end(starts[key], move)) for key, move in by_id.items()]
        await hold(self._sql, changes)
        await post(self._sql, changes)

    @whole
    async def set_fee(self, withdrawal: Withdrawal, fee_paid: int, at: datetime) -> None:
        """Correct the fee that the chain took, with its ledger posting; StaleWrite: not as it was read."""
        key = withdrawal.transaction_id
        rows = await self._sql.rows_among(_FACTS.with_for_update(key_share=True), transactions.c.id, [key])
        if not rows or rows[0].status != withdrawal.status or rows[0].fee_paid != withdrawal.fee_paid:
            raise StaleWrite(f"withdrawal {withdrawal.id} has another status or fee than was read")
        await self._sql.run(
            update(transaction_details).where(transaction_details.c.transaction_id == key).values(fee_paid=fee_paid)
        )
        facts = rows[0]
        change = Change(
            transaction_id=key,
            account_id=facts.account_id,
            source=withdrawal.status,
            target=withdrawal.status,
            amount=facts.amount_base,
            max_fee=facts.max_fee,
            fee_before=facts.fee_paid,
            fee_after=fee_paid,
            at=at,
            kind="fee correction",
        )
        await post(self._sql, [change])

    async def _lock_statuses(self, by_id: dict[TransactionId, Move]) -> dict[TransactionId, Row[Any]]:
        """Read, under lock, what the moves start from."""
        rows = await self._sql.rows_among(
            _FACTS.with_for_update(key_share=True).order_by(transactions.c.id),
            transactions.c.id,
            ordered(by_id),
        )
        facts = {row.id: row for row in rows}
        for transaction_id, move in by_id.items():
            row = facts.get(transaction_id)
            if row is None or row.status != move.withdrawal.status:
                now = "gone" if row is None else row.status
                raise StaleWrite(f"withdrawal {move.withdrawal.id} is {now}, not {move.withdrawal.status}")
        return facts

    async def _swap(self, by_id: dict[TransactionId, Move], starts: dict[TransactionId, datetime]) -> None:
        """Compare and swap, one statement for all that go the same way at the same time."""
        ways: dict[_Way, dict[datetime, list[TransactionId]]] = defaultdict(lambda: defaultdict(list))
        for transaction_id, move in by_id.items():
            ways[move.withdrawal.status, move.path][starts[transaction_id]].append(transaction_id)
        for (source, path), by_start in ways.items():
            what = f"{source} → {path[-1]}"
            here = transactions.c.status == source
            if len(by_start) == 1:
                ((start, ids),) = by_start.items()
                for chunk in chunks(ordered(ids)):
                    among = update(transactions).where(transactions.c.id.in_(chunk), here)
                    await self._sql.change(among.values(_values(path, start)), len(chunk), what)
            else:
                columns = [column.key for column in _values(path, min(by_start))]
                each = update(transactions).where(transactions.c.id == bindparam("row"), here)
                await self._sql.change_each(
                    each.values({name: bindparam(f"new_{name}") for name in columns}),
                    [
                        {"row": key} | {f"new_{c.key}": value for c, value in _values(path, start).items()}
                        for start, ids in by_start.items()
                        for key in ids
                    ],
                    what,
                )

    async def _write_events(self, steps: Iterable[_Step]) -> None:
        await self._sql.run(insert(transaction_events), [step.row() for step in steps])

    async def _stamp_cancels(self, by_id: dict[TransactionId, Move], starts: dict[TransactionId, datetime]) -> None:
        """Set the withdrawals' own columns about a cancel; the completion is set once."""
        columns = withdrawal_rows.c
        for transaction_id, move in by_id.items():
            ours = columns.transaction_id == transaction_id
            for index, status in enumerate(move.path):
                at = starts[transaction_id] + index * TICK
                before = move.path[index - 1] if index else move.withdrawal.status
                if status is Status.CANCELLING:
                    await self._sql.run(update(withdrawal_rows).where(ours).values(cancel_attempted_at=at))
                elif status is Status.CANCELLED and before is Status.CANCELLING:
                    await self._sql.run(
                        update(withdrawal_rows)
                        .where(ours, columns.cancel_completed_at.is_(None))
                        .values(cancel_completed_at=at)
                    )

    async def _set_details(self, by_id: dict[TransactionId, Move]) -> None:
        columns = transaction_details.c
        plain: dict[str, list[TransactionId]] = defaultdict(list)
        paid: list[dict[str, Any]] = []
        for transaction_id, move in by_id.items():
            if move.fee_paid is None:
                plain[move.sub_status].append(transaction_id)
            else:
                paid.append({"key": transaction_id, "why": move.sub_status, "fee": move.fee_paid})
        for sub_status, ids in plain.items():
            for chunk in chunks(ordered(ids)):
                await self._sql.run(
                    update(transaction_details).where(columns.transaction_id.in_(chunk)).values(sub_status=sub_status)
                )
        if paid:
            await self._sql.run(
                update(transaction_details)
                .where(columns.transaction_id == bindparam("key"))
                .values(sub_status=bindparam("why"), fee_paid=bindparam("fee")),
                paid,
            )

    async def _check_external_ids(self, accepted: Sequence[Withdrawal]) -> None:
        wanted: dict[WorkspaceId, list[str]] = defaultdict(list)
        for withdrawal in accepted:
            if withdrawal.external_id is not None:
                wanted[withdrawal.workspace_id].append(withdrawal.external_id)
        for workspace_id, external_ids in wanted.items():
            if len(set(external_ids)) != len(external_ids):
                raise Duplicate("one external id is twice in one batch")
            taken = await self._sql.rows_among(
                select(transaction_details.c.external_id).where(transaction_details.c.workspace_id == workspace_id),
                transaction_details.c.external_id,
                external_ids,
            )
            if taken:
                raise Duplicate(f"external id {taken[0].external_id!r} belongs to another withdrawal")


def _check_amounts(withdrawal: Withdrawal) -> None:
    if withdrawal.amount < 0 or withdrawal.max_fee < 0:
        raise BadRequest("an amount is below zero", field="amount")
    if withdrawal.amount + withdrawal.max_fee >= 10**DIGITS:
        raise BadRequest(f"amount and fee have more than {DIGITS} digits", field="amount")
    if not fits(to_decimal(withdrawal.amount, withdrawal.decimals)):
        raise BadRequest("the amount does not fit the column for coins", field="amount")


def _transaction_row(withdrawal: Withdrawal) -> dict[str, Any]:
    return {
        "id": withdrawal.transaction_id,
        "workspace_id": withdrawal.workspace_id,
        "source_vault_id": withdrawal.vault_id,
        "destination_type": withdrawal.destination_type,
        "asset_id": withdrawal.asset,
        "amount_decimal": to_decimal(withdrawal.amount, withdrawal.decimals),
        "chain": withdrawal.chain,
        "status": withdrawal.status,
        "status_changed_at": withdrawal.status_changed_at,
        "created_at": withdrawal.created_at,
    }


def _withdrawal_row(withdrawal: Withdrawal) -> dict[str, Any]:
    return {
        "id": withdrawal.id,
        "transaction_id": withdrawal.transaction_id,
        "withdrawal_vault_id": withdrawal.vault_id,
        "destination_type": withdrawal.destination_type,
        "destination_address": withdrawal.destination,
        "tag_or_memo": withdrawal.memo,
        "chain": withdrawal.chain,
        "retry_count": withdrawal.retry_count,
    }


def _detail_row(withdrawal: Withdrawal) -> dict[str, Any]:
    return {
        "transaction_id": withdrawal.transaction_id,
        "workspace_id": withdrawal.workspace_id,
        "account_id": withdrawal.account_id,
        "amount_base": withdrawal.amount,
        "decimals": withdrawal.decimals,
        "max_fee": withdrawal.max_fee,
        "fee_level": withdrawal.fee_level,
        "fee_paid": withdrawal.fee_paid,
        "sub_status": withdrawal.sub_status,
        "external_id": withdrawal.external_id,
        "note": withdrawal.note,
        "threshold": withdrawal.threshold,
        "confirmations": withdrawal.confirmations,
        "alarm": withdrawal.alarm,
    }


def _steps(by_id: dict[TransactionId, Move], starts: dict[TransactionId, datetime]) -> Iterable[_Step]:
    for transaction_id, move in by_id.items():
        source, at = move.withdrawal.status, starts[transaction_id]
        for target in move.path:
            yield _Step(transaction_id, source, target, move.reason, at)
            source, at = target, at + TICK


def _values(path: tuple[Status, ...], start: datetime) -> dict[Column[Any], Any]:
    """Return what a move along the path writes into the transaction's row."""
    values: dict[Column[Any], Any] = {
        transactions.c.status: path[-1],
        transactions.c.status_changed_at: start + (len(path) - 1) * TICK,
    }
    for index, status in enumerate(path):
        if status in _CLOCKS:
            values[_CLOCKS[status]] = start + index * TICK
    return values


def _end(start: datetime, move: Move) -> datetime:
    return start + (len(move.path) - 1) * TICK


def _acceptance(withdrawal: Withdrawal) -> Change:
    return Change(
        transaction_id=withdrawal.transaction_id,
        account_id=withdrawal.account_id,
        source=None,
        target=withdrawal.status,
        amount=withdrawal.amount,
        max_fee=withdrawal.max_fee,
        fee_before=0,
        fee_after=withdrawal.fee_paid,
        at=withdrawal.status_changed_at,
    )


def _change(move: Move, facts: Row[Any], at: datetime) -> Change:
    return Change(
        transaction_id=facts.id,
        account_id=facts.account_id,
        source=move.withdrawal.status,
        target=move.path[-1],
        amount=facts.amount_base,
        max_fee=facts.max_fee,
        fee_before=facts.fee_paid,
        fee_after=facts.fee_paid if move.fee_paid is None else move.fee_paid,
        at=at,
    )
