"""Between rows and records: the two joined reads that everything uses, withdrawals and attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, select

from db.schema import attempt_claims, attempts, transaction_details, transactions, withdrawals
from db.session import Sql
from gateway.core.chain import BlockRef
from gateway.core.ids import AttemptId
from gateway.core.records import Attempt, Withdrawal
from gateway.core.substatus import SubStatus

_w, _t, _d = withdrawals.c, transactions.c, transaction_details.c

WITHDRAWALS: Select[Any] = (
    select(
        _w.id,
        _w.transaction_id,
        _t.workspace_id,
        _w.withdrawal_vault_id,
        _d.account_id,
        _w.chain,
        _t.asset_id,
        _d.amount_base,
        _d.decimals,
        _w.destination_address,
        _w.destination_type,
        _w.tag_or_memo,
        _d.fee_level,
        _d.max_fee,
        _t.status,
        _d.sub_status,
        _t.status_changed_at,
        _t.created_at,
        _d.external_id,
        _d.note,
        _d.threshold,
        _w.retry_count,
        _t.tx_hash,
        _d.confirmations,
        _d.fee_paid,
        _d.alarm,
        _t.pending_auth_at,
        _t.pending_sign_at,
    )
    .join_from(transactions, withdrawals, _w.transaction_id == _t.id)
    .join(transaction_details, _d.transaction_id == _t.id)
)


def withdrawal(row: Row[Any]) -> Withdrawal:
    """Return the record for a row of `WITHDRAWALS`."""
    return Withdrawal(
        id=row.id,
        transaction_id=row.transaction_id,
        workspace_id=row.workspace_id,
        vault_id=row.withdrawal_vault_id,
        account_id=row.account_id,
        chain=row.chain,
        asset=row.asset_id,
        amount=row.amount_base,
        decimals=row.decimals,
        destination=row.destination_address,
        destination_type=row.destination_type,
        memo=row.tag_or_memo,
        fee_level=row.fee_level,
        max_fee=row.max_fee,
        status=row.status,
        sub_status=SubStatus(row.sub_status),
        status_changed_at=row.status_changed_at,
        created_at=row.created_at,
        external_id=row.external_id,
        note=row.note,
        threshold=row.threshold,
        retry_count=row.retry_count,
        tx_hash=row.tx_hash,
        confirmations=row.confirmations,
        fee_paid=row.fee_paid,
        alarm=row.alarm,
        pending_auth_at=row.pending_auth_at,
        pending_sign_at=row.pending_sign_at,
    )


async def read_attempts(sql: Sql, *conditions: ColumnElement[bool]) -> list[Attempt]:
    """Return the attempts that meet the conditions (on table `attempts`), oldest first."""
    found = await sql.rows(select(attempts).where(*conditions).order_by(attempts.c.id))
    if not found:
        return []
    claims: dict[AttemptId, list[str]] = {}
    listed = await sql.rows(
        select(attempt_claims.c.attempt_id, attempt_claims.c.claim)
        .join(attempts, attempts.c.id == attempt_claims.c.attempt_id)
        .where(*conditions)
        .order_by(attempt_claims.c.attempt_id, attempt_claims.c.position)
    )
    for row in listed:
        claims.setdefault(row.attempt_id, []).append(row.claim)
    return [attempt(row, tuple(claims.get(row.id, ()))) for row in found]


def attempt(row: Row[Any], claims: tuple[str, ...]) -> Attempt:
    """Return the record for a row of `attempts` and its claims."""
    included = None
    if row.included_hash is not None:
        included = BlockRef(row.included_height, row.included_hash, row.included_parent)
    return Attempt(
        id=row.id,
        withdrawal_id=row.withdrawal_id,
        account_id=row.account_id,
        chain=row.chain,
        kind=row.kind,
        payload=bytes(row.payload),
        claims=claims,
        window_end=row.window_end,
        fee_max=row.fee_max,
        built_at=row.built_at,
        raw=b"" if row.raw is None else bytes(row.raw),
        tx_hash=row.tx_hash or "",
        signed_at=row.signed_at,
        included=included,
        ok=bool(row.ok),
        fee=row.fee,
        recorded=bool(row.recorded),
        sends=row.sends,
        last_sent_at=row.last_sent_at,
        closed=bool(row.closed),
    )


async def read_withdrawals(sql: Sql, statement: Select[Any]) -> Sequence[Withdrawal]:
    """Return the records for a query that is `WITHDRAWALS` with more conditions."""
    return [withdrawal(row) for row in await sql.rows(statement)]
