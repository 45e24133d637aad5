"""A database that is gone, read-only or wrong: clear words, no secrets, and nothing half stored."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from db.engine import Kind, connect, not_durable, parse
from db.store import SqlStore
from db.upgrade import check, upgrade
from gateway.core.errors import ConfigError, StoreUnavailable
from tests.db.places import Place
from tests.db.world import World

SECRET = "s3cr3t-pass"


@pytest.fixture
async def own_store(empty_place: Place) -> AsyncIterator[SqlStore]:
    await upgrade(empty_place.url)
    store = SqlStore(empty_place.url)
    await store.open()
    yield store
    await store.close()


async def test_a_read_only_database_is_unavailable_and_stores_nothing(empty_place: Place, own_store: SqlStore) -> None:
    world = await World.make(own_store)
    withdrawal = world.withdrawal()
    statement = {
        Kind.SQLITE: "PRAGMA query_only = ON",
        Kind.POSTGRES: "SET default_transaction_read_only = on",
        Kind.MARIADB: "SET SESSION TRANSACTION READ ONLY",
    }[empty_place.kind]

    def make_read_only(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        connection.commit()
        cursor.close()

    writing = own_store._database.writing
    event.listen(writing.sync_engine, "connect", make_read_only)
    await writing.dispose()
    world.store = own_store
    with pytest.raises(StoreUnavailable, match=r"(?i)read.?only"):
        await world.accept(withdrawal)
    async with own_store.read() as reader:
        assert await reader.withdrawal(withdrawal.id) is None


async def test_a_lost_connection_loses_the_transaction_and_nothing_else(
    empty_place: Place, own_store: SqlStore
) -> None:
    if empty_place.kind is Kind.SQLITE:
        pytest.skip("SQLite has no connection to lose")
    world = await World.make(own_store)
    first, second = world.withdrawal(), world.withdrawal()
    postgres = empty_place.kind is Kind.POSTGRES
    ask = "SELECT pg_backend_pid()" if postgres else "SELECT CONNECTION_ID()"

    async def lose_it() -> None:
        async with own_store.write() as writer, empty_place.connect() as other:
            await writer.accept([first], reason="accepted")
            number = (await writer._sql.run(text(ask))).scalar_one()
            await other.execute(text(f"SELECT pg_terminate_backend({number})" if postgres else f"KILL {number}"))
            await writer.accept([second], reason="accepted")

    with pytest.raises(StoreUnavailable):
        await lose_it()
    async with own_store.read() as reader:
        assert await reader.withdrawals([first.id, second.id]) == []
    await world.accept(first)
    assert (await world.get(first.id)).id == first.id


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_vanished_is_never_written_to(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "store.sqlite"
    url = f"sqlite:///{path}"
    await upgrade(url)
    store = SqlStore(url)
    await store.open()
    world = await World.make(store)
    held = await store.acquire("lane", "one", 60)
    assert held is not None

    async def vanish_half_way() -> None:
        async with store.write() as writer:
            await writer.accept([world.withdrawal()], reason="accepted")
            path.rename(tmp_path / "elsewhere.sqlite")
            if replaced:
                path.write_bytes(b"")

    with pytest.raises(StoreUnavailable, match=r"store\.sqlite"):
        await vanish_half_way()
    for work in (world.accept(world.withdrawal()), world.held_amount(), store.renew(held, 60)):
        with pytest.raises(StoreUnavailable, match=r"store\.sqlite"):
            await work
    path.unlink(missing_ok=True)
    with pytest.raises(ConfigError, match="no file"):
        await SqlStore(url).open()
    (tmp_path / "elsewhere.sqlite").rename(path)
    async with store.read() as reader:
        assert await reader.withdrawals([]) == []
    assert await world.held_amount() == 0
    await world.accept(world.withdrawal())
    await store.close()


async def test_a_full_disk_is_unavailable(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    await upgrade(url)
    store = SqlStore(url)
    await store.open()
    world = await World.make(store)
    async with store.write() as writer:
        pages = (await writer._sql.run(text("PRAGMA page_count"))).scalar_one()
        await writer._sql.run(text(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreUnavailable, match="full"):
        await world.accept(*(world.withdrawal(note="x" * 4000) for _ in range(20)))
    assert await world.held_amount() == 0
    await store.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://someone:{SECRET}@127.0.0.1:1/gone",
        f"mysql://someone:{SECRET}@127.0.0.1:1/gone",
        f"sqlite:////nowhere/{SECRET}/../no.sqlite",
    ],
)
async def test_a_database_that_is_not_there_is_reported_without_its_password(url: str) -> None:
    if url.startswith("sqlite"):
        with pytest.raises(ConfigError, match="no file"):
            await SqlStore(url).open()
        with pytest.raises(ConfigError, match="no folder"):
            await upgrade(url)
        return
    store = SqlStore(url)
    with pytest.raises(StoreUnavailable) as problem:
        await store.open()
    await store.close()
    assert SECRET not in "".join(traceback.format_exception(problem.value))
    assert str(problem.value).startswith("the database")
    with pytest.raises(StoreUnavailable):
        await upgrade(url)
    (line,) = await check(url)
    assert SECRET not in line


@pytest.mark.parametrize(
    "url",
    [
        f"oracle://someone:{SECRET}@host/db",
        f"postgresql://someone:{SECRET}@host",
        f"postgresql+psycopg://someone:{SECRET}@host/db",
        f"postgresql://someone:{SECRET}@host:port/db",
        f"{SECRET}",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "",
    ],
)
async def test_a_url_that_cannot_be_a_store_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError) as problem:
        SqlStore(url)
    assert SECRET not in "".join(traceback.format_exception(problem.value))
    assert await check(url) == list(problem.value.problems)


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("sqlite:///a.db", "sqlite+aiosqlite:///a.db"),
        ("sqlite+aiosqlite:////a.db", "sqlite+aiosqlite:////a.db"),
        ("postgres://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("postgresql+asyncpg://u@h/d", "postgresql+asyncpg://u@h/d"),
        ("mariadb://u@h/d", "mysql+asyncmy://u@h/d"),
        ("mariadb+asyncmy://u@h/d", "mysql+asyncmy://u@h/d"),
        ("mysql://u@h/d", "mysql+asyncmy://u@h/d"),
    ],
)
def test_a_short_url_stands_for_a_full_one(short: str, full: str) -> None:
    assert parse(short)[1].render_as_string() == full


async def test_a_value_never_shows_in_an_error(store: SqlStore, world: World) -> None:
    withdrawal = await world.accepted(note=SECRET)
    with pytest.raises(Exception, match=r".") as problem:
        await world.accept(withdrawal)
    assert SECRET not in "".join(traceback.format_exception(problem.value))


async def test_a_store_without_the_present_schema_does_not_open(empty_place: Place) -> None:
    store = SqlStore(empty_place.url)
    with pytest.raises(ConfigError, match="gateway db upgrade"):
        await store.open()
    await upgrade(empty_place.url)
    await store.open()
    drop = "DROP TRIGGER guard_ledger_entries_update"
    if empty_place.kind is Kind.POSTGRES:
        drop += " ON ledger_entries"
    async with empty_place.connect() as connection:
        await connection.execute(text(drop))
        await connection.commit()
    with pytest.raises(ConfigError, match="guard_ledger_entries_update is missing"):
        await store.open()
    assert await check(empty_place.url) == ["database: guard guard_ledger_entries_update is missing"]
    await store.close()


def test_what_may_lose_a_commit_is_named() -> None:
    assert not_durable(Kind.SQLITE, {"journal_mode": "wal", "synchronous": "2"}) == []
    assert not_durable(Kind.POSTGRES, {"synchronous_commit": "on", "fsync": "on"}) == []
    fine = {"innodb_flush_log_at_trx_commit": "1", "log_bin": "0", "sync_binlog": "0"}
    assert not_durable(Kind.MARIADB, fine) == []
    for kind, settings, name in (
        (Kind.SQLITE, {"journal_mode": "wal", "synchronous": "1"}, "synchronous"),
        (Kind.SQLITE, {"journal_mode": "memory", "synchronous": "2"}, "journal_mode"),
        (Kind.POSTGRES, {"synchronous_commit": "off", "fsync": "on"}, "synchronous_commit"),
        (Kind.POSTGRES, {"synchronous_commit": "on", "fsync": "off"}, "fsync"),
        (Kind.MARIADB, fine | {"innodb_flush_log_at_trx_commit": "2"}, "innodb_flush_log_at_trx_commit"),
        (Kind.MARIADB, fine | {"log_bin": "1"}, "sync_binlog"),
    ):
        (problem,) = not_durable(kind, settings)
        assert name in problem


async def test_a_session_is_durable_whatever_the_database_says_by_default(empty_place: Place) -> None:
    if empty_place.kind is not Kind.POSTGRES:
        pytest.skip("the others cannot be set apart for one database")
    await upgrade(empty_place.url)
    async with empty_place.connect() as connection:
        name = connection.engine.url.database
        await connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
        await connection.commit()
    assert await check(empty_place.url) == []


async def test_a_writer_that_is_cancelled_leaves_all_or_nothing_and_a_working_store(world: World) -> None:
    stored = 0
    for number in range(40):
        batch = [world.withdrawal(), world.withdrawal()]
        task = asyncio.create_task(world.accept(*batch))
        await asyncio.wait([task], timeout=number * 0.0005)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        async with world.store.read() as reader:
            found = len(await reader.withdrawals([w.id for w in batch]))
        assert found in (0, 2)
        stored += found
    assert await world.held_amount() == stored * 1_005_000


async def test_a_store_reads_one_moment(world: World) -> None:
    async with world.store.read() as reader:
        before = await reader.passing(world.chain, 10)
        await world.accepted()
        assert await reader.passing(world.chain, 10) == before == []


async def test_nothing_is_prepared_by_making_a_store() -> None:
    database = connect("sqlite:////nowhere/at/all.sqlite")
    await database.dispose()
