"""One database transaction as the repositories see it: statements in, rows out, our errors only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, CursorResult, Executable, Row, Select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from db.engine import ANSWER_SECONDS, Kind
from db.errors import translate
from gateway.core.errors import Duplicate, StaleWrite

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

CHUNK = 500
"""How many values one `IN (…)` holds."""


class Sql:
    """The open transaction. `broken`: a write failed half-way, so nothing may be committed any more."""

    def __init__(self, connection: AsyncConnection, kind: Kind) -> None:
        self.connection = connection
        self.kind = kind
        self.broken = False

    async def run(
        self, statement: Executable, parameters: Any = None, *, taken: type[Exception] = Duplicate
    ) -> CursorResult[Any]:
        """Execute a statement. `taken`: what it means here that a unique key exists already."""
        try:
            return await to_the_end(self._execute(statement, parameters))
        except (SQLAlchemyError, OSError) as problem:
            self.broken = True
            error = translate(problem)
            if isinstance(error, Duplicate) and taken is not Duplicate:
                error = taken(str(error))
            raise error from problem

    async def _execute(self, statement: Executable, parameters: Any) -> CursorResult[Any]:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self.connection.execute(statement, parameters)

    async def rows(self, statement: Executable) -> Sequence[Row[Any]]:
        """Return all rows of a query."""
        return (await self.run(statement)).all()

    async def rows_among(self, statement: Select[Any], column: ColumnElement[T], values: Sequence[T]) -> list[Row[Any]]:
        """Return the rows whose `column` is among `values`, in the order of the chunks."""
        found: list[Row[Any]] = []
        for chunk in chunks(values):
            found += await self.rows(statement.where(column.in_(chunk)))
        return found

    async def change(self, statement: Executable, expected: int, what: str) -> None:
        """Execute an UPDATE that must meet exactly so many rows; StaleWrite otherwise."""
        changed = (await self.run(statement)).rowcount
        if changed != expected:
            raise StaleWrite(f"{what}: {changed} of {expected} rows were as expected")

    async def change_each(self, statement: Executable, parameters: list[dict[str, Any]], what: str) -> None:
        """Execute an UPDATE that must meet one row for each set of values; StaleWrite otherwise.

        PostgreSQL's driver does not count here, so the rows must have been read under lock before.
        """
        changed = (await self.run(statement, parameters)).rowcount
        if changed not in (len(parameters), -1):
            raise StaleWrite(f"{what}: {changed} of {len(parameters)} rows were as expected")


class Part:
    """A repository's share of a transaction."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql


S = TypeVar("S", bound=Part)


def whole(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Make a write all or nothing: after it failed, its transaction cannot be committed."""

    @wraps(method)
    async def wrapped(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await method(self, *args, **kwargs)
        except BaseException:
            self._sql.broken = True
            raise

    return wrapped


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do what must not be left half-way, also when the caller is cancelled meanwhile; then tell it so.

    A driver that is stopped within a statement leaves a connection whose state, and on SQLite whose lock, nobody
    knows. And whoever was told of the cancellation may read what was stored: nothing more comes.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as problem:
            cancelled = problem
    if cancelled is not None:
        task.exception()  # seen: the caller gives up anyway
        raise cancelled
    return task.result()


def chunks(values: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """Cut a sequence into pieces."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def ordered(ids: Any) -> list[Any]:
    """Return distinct ids in one order for everyone, so that two writers never wait for each other in a ring."""
    return sorted(set(ids))
