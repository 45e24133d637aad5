# ruff: noqa: ARG002 (SQLAlchemy names the arguments)
"""Column types that mean the same on SQLite, PostgreSQL and MariaDB, and keep every digit, byte and microsecond."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import DateTime, LargeBinary, Numeric, String
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

E = TypeVar("E", bound=StrEnum)

DIGITS = 38
PLACES = 18
LIMIT = int("9" * DIGITS) + 1

Blob = LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql")
"""Payloads: MariaDB's BLOB would end at 65 535 bytes."""


class Id(TypeDecorator[UUID]):
    """A UUID in 16 bytes."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.BINARY(16))
        return dialect.type_descriptor(LargeBinary())

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> bytes | None:
        return None if value is None else value.bytes

    def process_result_value(self, value: Any, dialect: Dialect) -> UUID | None:
        return None if value is None else UUID(bytes=bytes(value))


class Moment(TypeDecorator[datetime]):
    """A moment with microseconds, stored as UTC. A naive one is refused: nobody knows when it is."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sqlite.DATETIME())  # type: ignore[no-untyped-call]
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError("a naive datetime cannot be stored")
        moment = value.astimezone(UTC)
        return moment if dialect.name == "postgresql" else moment.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class BaseUnits(TypeDecorator[int]):
    """A whole number of base units, exact. On SQLite it is text, so it is added up in Python there."""

    impl = Numeric
    cache_ok = True

    def __init__(self, digits: int = DIGITS) -> None:
        super().__init__(digits, 0)
        self.digits = digits

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(self.digits + 1))
        return dialect.type_descriptor(Numeric(self.digits, 0))

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Decimal | str | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("an amount in base units is an int")
        if abs(value) >= 10**self.digits:
            raise ValueError(f"an amount has more than {self.digits} digits")
        return str(value) if dialect.name == "sqlite" else Decimal(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        return None if value is None else int(value)


class Coins(TypeDecorator[Decimal]):
    """DECIMAL(38,18), exact. On SQLite it is text with all 18 places, so equal numbers are equal texts."""

    impl = Numeric
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(DIGITS, PLACES)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(DIGITS + 2))
        return dialect.type_descriptor(Numeric(DIGITS, PLACES))

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> Decimal | str | None:
        if value is None:
            return None
        if not fits(value):
            raise ValueError(f"an amount does not fit {DIGITS} digits with {PLACES} places exactly")
        # Written out in full: MariaDB would read 1E-18 as a floating point number.
        return value if dialect.name == "postgresql" else f"{value:.{PLACES}f}"

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


def fits(value: Decimal) -> bool:
    """Say whether a number can be stored in DECIMAL(38,18) without loss."""
    if not value.is_finite():
        return False
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number, rest = int("".join(map(str, digits))), 0
    shift: int = PLACES + exponent
    if shift < 0:
        number, rest = divmod(number, int("1" + "0" * -shift))
    else:
        number *= int("1" + "0" * shift)
    return not rest and number < LIMIT


class Text(TypeDecorator[str]):
    """A text of at most so many characters; SQLite alone would take a longer one."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        if len(value) > self.length:
            raise ValueError(f"a text has {len(value)} characters, {self.length} are allowed")
        return str(value)


class Choice(TypeDecorator[E]):
    """A value of an enum: ENUM on MariaDB, elsewhere text (the table adds a CHECK, see `schema.choices`)."""

    impl = String
    cache_ok = True

    def __init__(self, values: type[E] | Iterable[str], length: int = 64) -> None:
        super().__init__(length)
        self.length = length
        self.enum: type[E] | None = values if isinstance(values, type) else None
        self.values = tuple(str(value) for value in values)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.ENUM(*self.values))
        return dialect.type_descriptor(String(self.length))

    def process_bind_param(self, value: E | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return value if value is None or self.enum is None else self.enum(value)
