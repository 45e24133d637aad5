"""The store: one database behind the port, with every error of the driver turned into ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import leases
from db.engine import ANSWER_SECONDS, Database, FileWatch, connect, durability
from db.errors import translate
from db.lanes import LaneReader, LaneWriter
from db.ledger import LedgerReader
from db.moves import StatusWriter
from db.places import PlaceReader, PlaceWriter
from db.session import Sql, to_the_end
from db.tracking import TrackReader, TrackWriter
from db.upgrade import schema_problems
from db.withdrawals import DetailWriter, WithdrawalReader
from gateway.core.errors import ConfigError, Duplicate, StaleWrite, StoreUnavailable
from gateway.core.records import Lease


class SqlReader(PlaceReader, WithdrawalReader, LaneReader, TrackReader, LedgerReader):
    """All reads of one moment."""


class SqlWriter(PlaceWriter, DetailWriter, StatusWriter, LaneWriter, TrackWriter, LedgerReader):
    """All reads and writes of one database transaction."""


class SqlStore:
    """A store on SQLite, PostgreSQL or MariaDB, named by a URL."""

    def __init__(self, url: str) -> None:
        """Prepare the store; ConfigError: the URL is wrong. Nothing is connected before `open`."""
        self._database: Database = connect(url)
        self._file: FileWatch | None = None

    async def open(self) -> None:
        """Connect; ConfigError: schema not current, or commits are not durable."""
        if self._database.path is not None:
            if not self._database.path.exists():
                raise ConfigError([f"database: there is no file {self._database.path}; run `gateway db upgrade`"])
            self._file = FileWatch(self._database.path)
        try:
            async with self._database.writing.connect() as connection:
                problems = await connection.run_sync(schema_problems)
                problems += await durability(self._database.kind, connection)
        except (SQLAlchemyError, OSError) as problem:
            raise translate(problem) from problem
        if problems:
            raise ConfigError(problems)

    async def close(self) -> None:
        """Close every connection."""
        await self._database.dispose()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[SqlReader]:
        """Read one moment; nothing can be written."""
        async with self._session(self._database.reading) as sql:
            yield SqlReader(sql)

    @asynccontextmanager
    async def write(self, *fences: Lease) -> AsyncIterator[SqlWriter]:
        """One database transaction, committed durably on exit. LeaseLost: a fence is not the present one."""
        async with self._transaction() as sql:
            await leases.check_fences(sql, fences)
            yield SqlWriter(sql)

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a lease on the database's clock; None while another owner's runs. Own lease: a new token."""
        try:
            async with self._transaction() as sql:
                return await leases.acquire(sql, name, owner, seconds)
        except (Duplicate, StaleWrite):
            return None  # another owner took it at this moment

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Prolong; LeaseLost: it is another's."""
        async with self._transaction() as sql:
            await leases.renew(sql, lease, seconds)

    async def yield_lease(self, lease: Lease) -> None:
        """End a lease early; harmless when it was lost."""
        async with self._transaction() as sql:
            await leases.give_back(sql, lease)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Sql]:
        async with self._session(self._database.writing) as sql:
            yield sql
            if sql.broken:
                raise StaleWrite("a write of this transaction failed, so all of it was rolled back")
            if self._file is not None:
                self._file.check()
            try:
                await to_the_end(_commit(sql.connection))
            except (SQLAlchemyError, OSError) as problem:
                raise _commit_error(translate(problem)) from problem

    @asynccontextmanager
    async def _session(self, engine: AsyncEngine) -> AsyncIterator[Sql]:
        """Open a connection in a transaction; it is rolled back unless it was committed."""
        if self._file is not None:
            self._file.check()
        connection = engine.connect()
        try:
            await to_the_end(_begin(connection))
            yield Sql(connection, self._database.kind)
        finally:
            if connection.sync_connection is not None:
                await to_the_end(connection.close())


async def _begin(connection: AsyncConnection) -> None:
    try:
        await connection.start()
        await connection.begin()
    except (SQLAlchemyError, OSError) as problem:
        raise translate(problem) from problem


async def _commit(connection: AsyncConnection) -> None:
    async with asyncio.timeout(ANSWER_SECONDS):
        await connection.commit()


def _commit_error(error: Exception) -> Exception:
    if isinstance(error, StoreUnavailable):
        return StoreUnavailable(f"{error} (at commit: read again to learn whether it was stored)")
    return error
