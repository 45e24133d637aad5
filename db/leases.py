"""Leases on the database's clock, with a token that grows, and the fences that writes are checked against."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, insert, select, text, update

from db.engine import Kind
from db.schema import leases
from db.session import Sql, ordered
from gateway.core.errors import LeaseLost
from gateway.core.records import Lease

_NOW = {
    Kind.SQLITE: "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
    Kind.POSTGRES: "SELECT clock_timestamp()",
    Kind.MARIADB: "SELECT SYSDATE(6)",  # the session's time zone is UTC
}

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


async def check_fences(sql: Sql, fences: Sequence[Lease]) -> None:
    """Raise LeaseLost unless every lease is the present one; it stays so until the transaction ends."""
    if not fences:
        return
    rows = await sql.rows(
        select(leases)
        .where(leases.c.name.in_(ordered(fence.name for fence in fences)))
        .order_by(leases.c.name)
        .with_for_update(read=True)
    )
    present = {row.name: row.token for row in rows}
    for fence in fences:
        if present.get(fence.name) != fence.token:
            raise LeaseLost(f"lease {fence.name} is no longer {fence.owner}'s")


async def acquire(sql: Sql, name: str, owner: str, seconds: float) -> Lease | None:
    """Take a lease that is free, over, or one's own; None while another owner's runs."""
    row = await _locked(sql, name)
    now = await _now(sql)
    ends_at = now + timedelta(seconds=seconds)
    if row is None:
        await sql.run(insert(leases).values(name=name, owner=owner, token=1, ends_at=ends_at))
        return Lease(name, owner, 1)
    if row.owner != owner and row.ends_at > now:
        return None
    token: int = row.token + 1
    await _set(sql, name, owner=owner, token=token, ends_at=ends_at)
    return Lease(name, owner, token)


async def renew(sql: Sql, lease: Lease, seconds: float) -> None:
    """Prolong a lease; LeaseLost when it is another's by now."""
    row = await _locked(sql, lease.name)
    if row is None or row.token != lease.token:
        raise LeaseLost(f"lease {lease.name} is no longer {lease.owner}'s")
    await _set(sql, lease.name, ends_at=await _now(sql) + timedelta(seconds=seconds))


async def give_back(sql: Sql, lease: Lease) -> None:
    """End a lease early. Its token ends with it, so that no write of this owner comes after."""
    row = await _locked(sql, lease.name)
    if row is not None and row.token == lease.token:
        await _set(sql, lease.name, token=lease.token + 1, ends_at=LONG_AGO)


async def _locked(sql: Sql, name: str) -> Row[Any] | None:
    return (await sql.run(select(leases).where(leases.c.name == name).with_for_update())).one_or_none()


async def _now(sql: Sql) -> datetime:
    """Return the time on the database's clock, read after the row was locked."""
    found = (await sql.run(text(_NOW[sql.kind]))).scalar_one()
    now = datetime.fromisoformat(found) if isinstance(found, str) else found
    return now.replace(tzinfo=UTC) if now.tzinfo is None else now.astimezone(UTC)


async def _set(sql: Sql, name: str, **values: object) -> None:
    await sql.run(update(leases).where(leases.c.name == name).values(**values))
