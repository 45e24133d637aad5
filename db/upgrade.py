"""Bring a database's schema up to date, or say what is wrong with it (`gateway db upgrade`, `gateway db check`)."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from db import triggers
from db.engine import Kind, connect, durability
from db.errors import translate
from db.schema import REVISION, metadata
from gateway.core.errors import ConfigError, StoreError

_LOCK_NUMBER = 0x6761746577617900
_LOCK_SECONDS = 60

_TRIGGERS = {
    Kind.SQLITE: "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    Kind.POSTGRES: "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')",
    Kind.MARIADB: "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
}


async def upgrade(url: str) -> None:
    """Apply the migrations that are missing; SQLite's file is created. Doing it twice is harmless."""
    database = connect(url, create=True)
    try:
        async with database.writing.begin() as connection:
            await connection.run_sync(_migrate)
    except (SQLAlchemyError, OSError) as problem:
        raise translate(problem) from problem
    finally:
        await database.dispose()


async def check(url: str) -> list[str]:
    """Return everything for which the gateway would refuse this database; empty when all is well."""
    try:
        database = connect(url)
    except ConfigError as problem:
        return list(problem.problems)
    if database.path is not None and not database.path.exists():
        return [f"database: there is no file {database.path}"]
    try:
        async with database.writing.connect() as connection:
            problems = await connection.run_sync(schema_problems)
            return problems + await durability(database.kind, connection)
    except (SQLAlchemyError, OSError, StoreError) as problem:
        return [f"database: {translate(problem)}"]
    finally:
        await database.dispose()


def schema_problems(connection: Connection) -> list[str]:
    """Compare a database with what this version of the gateway needs."""
    tables = set(inspect(connection).get_table_names())
    present = None
    if "alembic_version" in tables:
        present = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if present != REVISION:
        found = "has no schema" if present is None else f"has schema {present}"
        return [f"database: it {found}, this version needs {REVISION}; run `gateway db upgrade`"]
    problems = [f"database: table {name} is missing" for name in sorted(set(metadata.tables) - tables)]
    kind = Kind(connection.dialect.name)
    guards = set(connection.execute(text(_TRIGGERS[kind])).scalars())
    missing = sorted(triggers.names(triggers.GUARDS, kind) - guards)
    return problems + [f"database: guard {name} is missing" for name in missing]


def _migrate(connection: Connection) -> None:
    # One at a time, when several processes start at once (SQLite: the file's own lock).
    if connection.dialect.name == Kind.POSTGRES:
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
    if connection.dialect.name == Kind.MARIADB:
        connection.execute(text(f"SELECT GET_LOCK(CONCAT(DATABASE(), '.upgrade'), {_LOCK_SECONDS})"))
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
