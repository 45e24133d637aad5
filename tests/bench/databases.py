"""Databases for one measurement each: a file, or a database of its own on the PostgreSQL that is there."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

SQLITE = "sqlite:///gateway.db"
POSTGRES = "GATEWAY_TEST_POSTGRES_URL"
USUAL = "postgresql://postgres@127.0.0.1:5432/postgres"


async def postgres_server() -> str | None:
    """Return the URL of a PostgreSQL that answers: the one of the environment, else the one of this machine."""
    url = os.environ.get(POSTGRES, USUAL)
    try:
        await _on_server(url, "SELECT 1")
    except (SQLAlchemyError, OSError):
        return None
    return url


@asynccontextmanager
async def fresh(server: str | None) -> AsyncIterator[str]:
    """Give the URL of an empty database, gone afterwards; None: a SQLite file in the gateway's folder."""
    if server is None:
        yield SQLITE
        return
    name = f"gateway_bench_{secrets.token_hex(6)}"
    await _on_server(server, f"CREATE DATABASE {name}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        await _on_server(server, f"DROP DATABASE {name} WITH (FORCE)")


async def _on_server(url: str, statement: str) -> None:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.execute(text(statement))
    finally:
        await engine.dispose()
