"""From a URL to two pools of connections: one that reads one moment, one that writes durably."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, AsyncAdaptedQueuePool, Connection, event, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway.core.errors import ConfigError, StoreUnavailable

WAIT_SECONDS = 30
"""How long a writer waits for a lock or for its turn before it gives up."""
CONNECT_SECONDS = 10
ANSWER_SECONDS = 120
"""How long a statement may take before the database counts as gone."""


class Kind(StrEnum):
    """The databases that we know, by the name that SQLAlchemy has for their dialect."""

    SQLITE = "sqlite"
    POSTGRES = "postgresql"
    MARIADB = "mysql"


_SCHEMES = {
    "sqlite": (Kind.SQLITE, "sqlite+aiosqlite"),
    "postgres": (Kind.POSTGRES, "postgresql+asyncpg"),
    "postgresql": (Kind.POSTGRES, "postgresql+asyncpg"),
    "mysql": (Kind.MARIADB, "mysql+asyncmy"),
    "mariadb": (Kind.MARIADB, "mysql+asyncmy"),
}

_MARIADB_SESSION = (
    "SET time_zone = '+00:00', innodb_lock_wait_timeout = "
    + str(WAIT_SECONDS)
    + ", sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
)


@dataclass(frozen=True, slots=True)
class Database:
    """One opened database. `path`: the file of SQLite."""

    kind: Kind
    path: Path | None
    reading: AsyncEngine
    writing: AsyncEngine

    async def dispose(self) -> None:
        """Close every connection."""
        await self.reading.dispose()
        await self.writing.dispose()


def parse(text: str) -> tuple[Kind, URL]:
    """Return the kind and the full URL for a short or long one; ConfigError never repeats the password."""
    try:
        url = make_url(text)
        scheme = url.drivername.split("+")[0]
    except Exception:  # whatever is wrong with it, its text may hold a password
        raise ConfigError(["database: the URL cannot be read"]) from None
    if scheme not in _SCHEMES:
        known = ", ".join(sorted(_SCHEMES))
        raise ConfigError([f"database: {scheme!r} is not one of {known}"])
    kind, driver = _SCHEMES[scheme]
    if url.drivername not in (scheme, driver, driver.replace("mysql", "mariadb")):
        raise ConfigError([f"database: the driver for {scheme} is {driver}"])
    if not url.database or (kind is Kind.SQLITE and url.database.startswith((":", "file:"))):
        what = "a file, since a store in memory is not durable" if kind is Kind.SQLITE else "a database"
        raise ConfigError([f"database: the URL must name {what}"])
    return kind, url.set(drivername=driver)


def connect(text: str, *, create: bool = False, readers: int = 5, writers: int = 5) -> Database:
    """Prepare the pools for a URL; nothing is connected yet. `create`: make SQLite's file if it is missing."""
    kind, url = parse(text)
    if kind is Kind.SQLITE:
        return _sqlite(url, create=create, readers=readers)
    pool: dict[str, Any] = {
        "poolclass": AsyncAdaptedQueuePool,
        "pool_timeout": WAIT_SECONDS,
        "pool_recycle": 1800,
        "hide_parameters": True,
        "connect_args": _postgres_arguments() if kind is Kind.POSTGRES else _mariadb_arguments(),
    }
    try:
        reading = create_async_engine(
            url, isolation_level="REPEATABLE READ", pool_size=readers, max_overflow=readers, **pool
        )
        writing = create_async_engine(
            url, isolation_level="READ COMMITTED", pool_size=writers, max_overflow=writers, **pool
        )
    except ImportError:
        extra = "postgres" if kind is Kind.POSTGRES else "mariadb"
        raise ConfigError([f"database: install withdrawal-gateway[{extra}] for {kind}"]) from None
    return Database(kind, None, reading, writing)


def _postgres_arguments() -> dict[str, Any]:
    return {
        "timeout": CONNECT_SECONDS,
        "server_settings": {
            "application_name": "withdrawal-gateway",
            "timezone": "UTC",
            "synchronous_commit": "on",
            "lock_timeout": f"{WAIT_SECONDS}s",
        },
    }


def _mariadb_arguments() -> dict[str, Any]:
    return {"connect_timeout": CONNECT_SECONDS, "charset": "utf8mb4", "init_command": _MARIADB_SESSION}


def _sqlite(url: URL, *, create: bool, readers: int) -> Database:
    assert url.database is not None
    path = Path(os.path.abspath(url.database))
    if create and not path.parent.is_dir():
        raise ConfigError([f"database: there is no folder {path.parent}"])
    # mode=rw: a connection made later must not put an empty file where ours has vanished.
    address = URL.create(
        url.drivername,
        database=f"file:{quote(str(path))}",
        query={"mode": "rwc" if create else "rw", "uri": "true"},
    )
    pool: dict[str, Any] = {
        "poolclass": AsyncAdaptedQueuePool,
        "pool_timeout": WAIT_SECONDS,
        "hide_parameters": True,
        "connect_args": {"timeout": WAIT_SECONDS},
    }
    reading = create_async_engine(address, pool_size=readers, max_overflow=readers, **pool)
    # One connection: writers of this process queue here, those of others at the file's lock.
    writing = create_async_engine(address, pool_size=1, max_overflow=0, **pool)
    for engine, begin in ((reading, "BEGIN"), (writing, "BEGIN IMMEDIATE")):
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _beginner(begin))
    return Database(Kind.SQLITE, path, reading, writing)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself; `_beginner` does
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "recursive_triggers = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _beginner(statement: str) -> Any:
    # IMMEDIATE: a transaction that reads first and then writes would lose with "database is locked".
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return begin


class FileWatch:
    """Notices that SQLite's file was deleted or replaced: writes to it would succeed and be lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._stat()

    def check(self) -> None:
        """Raise StoreUnavailable unless the path still leads to the file that was opened."""
        if self._stat() != self._identity:
            raise StoreUnavailable(f"the database file {self._path} was replaced while it was in use")

    def _stat(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError as problem:
            raise StoreUnavailable(f"the database file {self._path} is gone: {problem.strerror}") from problem
        return found.st_dev, found.st_ino


_SETTINGS = {
    Kind.SQLITE: {"journal_mode": "PRAGMA journal_mode", "synchronous": "PRAGMA synchronous"},
    Kind.POSTGRES: {"synchronous_commit": "SHOW synchronous_commit", "fsync": "SHOW fsync"},
    Kind.MARIADB: {
        "innodb_flush_log_at_trx_commit": "SELECT @@global.innodb_flush_log_at_trx_commit",
        "log_bin": "SELECT @@global.log_bin",
        "sync_binlog": "SELECT @@global.sync_binlog",
    },
}

_WANTED: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    Kind.SQLITE: {"journal_mode": ("wal",), "synchronous": ("2", "3")},
    Kind.POSTGRES: {"synchronous_commit": ("on", "remote_write", "remote_apply"), "fsync": ("on",)},
    Kind.MARIADB: {"innodb_flush_log_at_trx_commit": ("1",)},
}


async def durability(kind: Kind, connection: AsyncConnection) -> list[str]:
    """Ask the database whether a commit survives a power loss; return what speaks against it."""
    found = {
        name: str((await connection.exec_driver_sql(query)).scalar_one()).lower()
        for name, query in _SETTINGS[kind].items()
    }
    return not_durable(kind, found)


def not_durable(kind: Kind, settings: Mapping[str, str]) -> list[str]:
    """Name the settings under which a commit may be lost after it was reported."""
    wanted = dict(_WANTED[kind])
    if settings.get("log_bin") == "1":
        # After a crash InnoDB asks the binary log which prepared commits to keep.
        wanted["sync_binlog"] = ("1",)
    return [
        f"database: commits are not durable: {name} is {settings[name]}, not {values[0]}"
        for name, values in wanted.items()
        if settings[name] not in values
    ]
