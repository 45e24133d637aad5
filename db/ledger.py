"""The ledger's rows and the amounts that accounts have promised, kept in step with each status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, func, insert, select, update

from db.engine import Kind
from db.schema import SUM_DIGITS, accounts, ledger_entries
from db.session import Part, Sql, ordered
from db.types import BaseUnits
from gateway.core.errors import StaleWrite
from gateway.core.ids import AccountId, TransactionId, uuid7
from gateway.core.ledger import HOLDS, books, kind, posting
from gateway.core.lifecycle import Status
from gateway.core.records import Book


class LedgerReader(Part):
    """Reads."""

    async def ledger_sums(self) -> Mapping[TransactionId, Mapping[Book, int]]:
        sums: dict[TransactionId, dict[Book, int]] = defaultdict(lambda: dict.fromkeys(Book, 0))
        entries = ledger_entries.c
        if self._sql.kind is Kind.SQLITE:  # amounts are text there
            statement = select(entries.transaction_id, entries.book, entries.amount)
        else:
            total = func.sum(entries.amount, type_=BaseUnits(SUM_DIGITS)).label("amount")
            statement = select(entries.transaction_id, entries.book, total).group_by(
                entries.transaction_id, entries.book
            )
        for row in await self._sql.rows(statement):
            sums[row.transaction_id][row.book] += row.amount
        return dict(sums)


@dataclass(frozen=True, slots=True)
class Change:
    """One withdrawal's way from a status to another, in terms of money."""

    transaction_id: TransactionId
    account_id: AccountId
    source: Status | None
    target: Status
    amount: int
    max_fee: int
    fee_before: int
    fee_after: int
    at: datetime
    kind: str = ""


async def post(sql: Sql, changes: Sequence[Change]) -> None:
    """Write the entries that the changes call for."""
    entries = [
        {
            "id": uuid7(change.at),
            "transaction_id": change.transaction_id,
            "account_id": change.account_id,
            "book": book,
            "amount": amount,
            "kind": change.kind or kind(change.source, change.target),
            "occurred_at": change.at,
        }
        for change in changes
        for book, amount in _legs(change).items()
    ]
    if entries:
        await sql.run(insert(ledger_entries), entries)


def _legs(change: Change) -> dict[Book, int]:
    before = books(change.source, amount=change.amount, max_fee=change.max_fee, fee_paid=change.fee_before)
    after = books(change.target, amount=change.amount, max_fee=change.max_fee, fee_paid=change.fee_after)
    return posting(before, after)


async def hold(sql: Sql, changes: Sequence[Change]) -> None:
    """Correct what the accounts have promised, for changes that cross the line between promised and not."""
    deltas: dict[AccountId, int] = defaultdict(int)
    for change in changes:
        crossing = (change.target in HOLDS) - (change.source in HOLDS)
        if crossing:
            deltas[change.account_id] += crossing * (change.amount + change.max_fee)
    touched = ordered(account for account, delta in deltas.items() if delta)
    if not touched:
        return
    # Read, add, write: on SQLite the number is text. The rows are locked, in one order for everyone.
    rows = await sql.rows_among(
        select(accounts.c.id, accounts.c.held).order_by(accounts.c.id).with_for_update(key_share=True),
        accounts.c.id,
        touched,
    )
    if len(rows) != len(touched):
        raise StaleWrite("an account is missing")
    await sql.run(
        update(accounts).where(accounts.c.id == bindparam("account")).values(held=bindparam("sum")),
        [{"account": row.id, "sum": row.held + deltas[row.id]} for row in rows],
    )
