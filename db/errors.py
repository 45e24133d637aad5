"""What a database's error means to the caller: the one place where SQLAlchemy's errors end."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from db.triggers import TAKEN
from gateway.core.errors import Duplicate, StaleWrite, StoreError, StoreUnavailable

# PostgreSQL: SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html)
_PG_UNIQUE = "23505"
_PG_RACE = frozenset({"40001", "40P01", "55P03"})
_PG_NO_TABLE = "42P01"
_PG_OUR_FAULT = ("22", "23", "42", "0A", "P0")

# MariaDB: error numbers (https://mariadb.com/kb/en/mariadb-error-codes/)
_MARIADB_UNIQUE = 1062
_MARIADB_RACE = frozenset({1020, 1205, 1213})
_MARIADB_OUR_FAULT = frozenset(
    {1048, 1054, 1064, 1216, 1217, 1264, 1265, 1292, 1364, 1366, 1406, 1451, 1452, 1644, 4025}
)


def translate(problem: Exception) -> Exception:
    """Return the error of the port for whatever a statement, a commit or a connect raised.

    A table that is missing counts as a database that is gone: `open` has seen them all.

    A value that cannot be stored (ValueError, from our column types) comes back as itself.
    """
    if isinstance(problem, StoreError):
        return problem
    if isinstance(problem, DBAPIError):
        return _from_driver(problem)
    if isinstance(problem, StatementError) and isinstance(problem.orig, Exception):
        return problem.orig
    if isinstance(problem, OSError | TimeoutError):
        return StoreUnavailable(f"the database does not answer: {_first_line(problem)}")
    if isinstance(problem, SQLAlchemyError):
        return StoreUnavailable(f"the database does not answer: {_first_line(problem)}")
    return problem


def _from_driver(problem: DBAPIError) -> StoreError:
    driver: Any = problem.orig
    text = _first_line(driver)
    if isinstance(driver, sqlite3.Error):
        return _from_sqlite(driver, text)
    # MariaDB's driver has an SQLSTATE too, but only the number tells its errors apart.
    number = driver.args[0] if driver is not None and driver.args else None
    if isinstance(number, int):
        return _from_mariadb(number, text)
    state = getattr(driver, "sqlstate", None)
    if isinstance(state, str):
        return _from_postgres(state, text)
    return StoreUnavailable(f"the database does not answer: {text}")


def _from_sqlite(driver: sqlite3.Error, text: str) -> StoreError:
    name = getattr(driver, "sqlite_errorname", "") or ""
    if name in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY") or TAKEN in text:
        return Duplicate(text)
    our_fault = name == "SQLITE_ERROR" and not text.startswith("no such table")
    if isinstance(driver, sqlite3.IntegrityError | sqlite3.DataError) or our_fault:
        return StoreError(f"the database refused: {text}")
    return StoreUnavailable(f"the database cannot be used: {text}")


def _from_postgres(state: str, text: str) -> StoreError:
    if state == _PG_UNIQUE:
        return Duplicate(text)
    if state in _PG_RACE:
        return StaleWrite(f"another writer was first: {text}")
    if state.startswith(_PG_OUR_FAULT) and state != _PG_NO_TABLE:
        return StoreError(f"the database refused: {text}")
    return StoreUnavailable(f"the database cannot be used: {text}")


def _from_mariadb(number: int, text: str) -> StoreError:
    if number == _MARIADB_UNIQUE:
        return Duplicate(text)
    if number in _MARIADB_RACE:
        return StaleWrite(f"another writer was first: {text}")
    if number in _MARIADB_OUR_FAULT:
        return StoreError(f"the database refused: {text}")
    return StoreUnavailable(f"the database cannot be used: {text}")


def _first_line(problem: object) -> str:
    """Return what the driver says, without the statement and its values."""
    text = str(problem).strip().splitlines()
    return text[0] if text else type(problem).__name__
