"""Fresh databases of each kind for tests, and loud words where a server is missing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from db.engine import Kind
from db.engine import connect as connect_database

VARIABLES = {Kind.POSTGRES: "GATEWAY_TEST_POSTGRES_URL", Kind.MARIADB: "GATEWAY_TEST_MARIADB_URL"}


@dataclass(frozen=True)
class Place:
    """One database of a test."""

    kind: Kind
    url: str

    @contextlib.asynccontextmanager
    async def connect(self) -> Any:
        """Open a connection like the store's own, but with SQL of one's own; each statement commits."""
        database = connect_database(self.url)
        try:
            async with database.writing.connect() as connection:
                yield connection
        finally:
            await database.dispose()


@contextlib.contextmanager
def fresh(kind: Kind, folder: Path) -> Iterator[Place]:
    """Make an empty database, and drop it at the end."""
    name = f"gateway_db_test_{secrets.token_hex(6)}"
    if kind is Kind.SQLITE:
        yield Place(kind, f"sqlite:///{folder / name}.sqlite")
        return
    server = _server(kind)
    asyncio.run(_on_server(server, f"CREATE DATABASE {name}"))
    try:
        yield Place(kind, server.set(database=name).render_as_string(hide_password=False))
    finally:
        force = " WITH (FORCE)" if kind is Kind.POSTGRES else ""
        asyncio.run(_on_server(server, f"DROP DATABASE {name}{force}"))


def _server(kind: Kind) -> URL:
    text = os.environ.get(VARIABLES[kind])
    if text is None:
        message = f"{kind} IS NOT TESTED: {VARIABLES[kind]} is not set"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        print(f"!!! {message}", file=sys.stderr, flush=True)
        pytest.skip(message)
    return make_url(text)


async def _on_server(server: URL, statement: str) -> None:
    engine: AsyncEngine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.exec_driver_sql(statement)
    finally:
        await engine.dispose()
