"""Guards: triggers by which the database itself refuses to change history, whoever asks.

On all three: UPDATE (a no-op too), DELETE, and what hides them (REPLACE, ON CONFLICT, ON DUPLICATE KEY).
TRUNCATE: a trigger on PostgreSQL; on MariaDB a foreign key from an empty table that refers to each guarded one (only an
account that may drop tables and turns off foreign key checks gets past it); SQLite has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Column, Connection, ForeignKeyConstraint, MetaData, Table, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable, SchemaItem

TAKEN = "UNIQUE: a row with this key exists"
"""What the guard against INSERT OR REPLACE says on SQLite, in place of the database's own message."""

ANCHOR = "never_truncated"


@dataclass(frozen=True, slots=True)
class Guard:
    """What may happen to the rows of a table once they stand.

    `once`: columns that may go from NULL to a value. `free`: columns that may change at will. `rising`: booleans that
    may become true. Every other column keeps its value. Without a free or rising column an UPDATE that sets nothing
    once is refused as well. `deletable`: a column that must be false for a row to be deleted ("": never).
    """

    table: str
    once: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    rising: tuple[str, ...] = ()
    deletable: str = ""


GUARDS: tuple[Guard, ...] = (
    Guard("transaction_events"),
    Guard("broadcast_attempts"),
    Guard("withdrawal_operations"),
    Guard("ledger_entries"),
    Guard("lane_events"),
    Guard("attempt_claims"),
    Guard("hashes"),
    Guard("confirmations", once=("reorged_at",)),
    Guard(
        "transactions",
        once=("raw_payload_cbor", "tx_hash"),
        free=("source_vault_id", "status", "status_changed_at", "pending_auth_at", "pending_sign_at"),
    ),
    Guard(
        "withdrawals",
        once=("cancel_completed_at",),
        free=(
            "withdrawal_vault_id",
            "chain_validity_expires_at",
            "retry_count",
            "last_boost_at",
            "cancel_attempted_at",
        ),
    ),
    Guard(
        "transaction_details",
        free=(
            "account_id",
            "max_fee",
            "fee_level",
            "fee_paid",
            "sub_status",
            "note",
            "threshold",
            "confirmations",
            "alarm",
        ),
    ),
    Guard(
        "attempts",
        once=("raw", "tx_hash", "signed_at"),
        free=("included_height", "included_hash", "included_parent", "ok", "fee", "sends", "last_sent_at"),
        rising=("recorded", "closed", "indexed"),
    ),
    Guard("slots", free=("closed",), rising=("signed",), deletable="signed"),
)


def names(guards: Sequence[Guard], dialect: str) -> set[str]:
    """Return the names of the triggers that a database must have."""
    operations = {"sqlite": ("insert", "update", "delete"), "postgresql": ("update", "delete", "truncate")}
    return {
        f"guard_{guard.table}_{operation}"
        for guard in guards
        for operation in operations.get(dialect, ("update", "delete"))
    }


def create(connection: Connection, guards: Sequence[Guard], tables: Sequence[Table]) -> None:
    """Create the guards of tables that exist already."""
    for statement in statements(guards, tables, connection.dialect):
        connection.exec_driver_sql(statement)


def statements(guards: Sequence[Guard], tables: Sequence[Table], dialect: Dialect) -> Iterator[str]:
    """Return the DDL of the guards for a dialect."""
    by_name = {table.name: table for table in tables}
    if dialect.name == "postgresql":
        yield (
            "CREATE FUNCTION guard_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'guard: % of % is refused', TG_OP, TG_TABLE_NAME "
            "USING ERRCODE = 'integrity_constraint_violation'; END $$"
        )
    for guard in guards:
        table = by_name[guard.table]
        if dialect.name == "sqlite":
            yield from _sqlite(guard, table)
        elif dialect.name == "postgresql":
            yield from _postgres(guard, table)
        else:
            yield from _mariadb(guard, table)
    if dialect.name == "mysql":
        yield _anchor(guards, by_name, dialect)


def _condition(guard: Guard, table: Table, dialect: str) -> str:
    """Return the SQL condition under which an UPDATE is refused, "" for always."""
    if not (guard.once or guard.free or guard.rising):
        return ""

    def differs(column: str) -> str:
        if dialect == "sqlite":
            return f"OLD.{column} IS NOT NEW.{column}"
        if dialect == "postgresql":
            return f"OLD.{column} IS DISTINCT FROM NEW.{column}"
        # As bytes: the collation takes a text with a blank after it for the same.
        return f"NOT (CAST(OLD.{column} AS BINARY) <=> CAST(NEW.{column} AS BINARY))"

    may_change = {*guard.once, *guard.free, *guard.rising}
    refused = [differs(column.name) for column in table.columns if column.name not in may_change]
    refused += [f"(OLD.{column} IS NOT NULL AND {differs(column)})" for column in guard.once]
    refused += [f"(OLD.{column} AND NOT NEW.{column})" for column in guard.rising]
    if not guard.free and not guard.rising:
        sets = [f"(OLD.{column} IS NULL AND NEW.{column} IS NOT NULL)" for column in guard.once]
        refused.append(f"NOT ({' OR '.join(sets)})")
    return " OR ".join(refused)


def _sqlite(guard: Guard, table: Table) -> Iterator[str]:
    name = guard.table
    condition = _condition(guard, table, "sqlite")
    when = f" WHEN {condition}" if condition else ""
    yield (
        f"CREATE TRIGGER guard_{name}_update BEFORE UPDATE ON {name} FOR EACH ROW{when} "
        f"BEGIN SELECT RAISE(ABORT, 'guard: UPDATE of {name} is refused'); END"
    )
    when = f" WHEN OLD.{guard.deletable}" if guard.deletable else ""
    yield (
        f"CREATE TRIGGER guard_{name}_delete BEFORE DELETE ON {name} FOR EACH ROW{when} "
        f"BEGIN SELECT RAISE(ABORT, 'guard: DELETE of {name} is refused'); END"
    )
    # INSERT OR REPLACE deletes without calling delete triggers.
    matches = [
        f"EXISTS (SELECT 1 FROM {name} WHERE {' AND '.join(f'{c} = NEW.{c}' for c in key)})" for key in _keys(table)
    ]
    yield (
        f"CREATE TRIGGER guard_{name}_insert BEFORE INSERT ON {name} FOR EACH ROW WHEN {' OR '.join(matches)} "
        f"BEGIN SELECT RAISE(ABORT, '{TAKEN} in {name}'); END"
    )


def _keys(table: Table) -> list[tuple[str, ...]]:
    unique = [item for item in table.constraints if isinstance(item, UniqueConstraint)]
    unique.sort(key=lambda item: str(item.name))
    return [
        tuple(column.name for column in table.primary_key.columns),
        *(tuple(column.name for column in item.columns) for item in unique),
    ]


def _postgres(guard: Guard, table: Table) -> Iterator[str]:
    name = guard.table
    condition = _condition(guard, table, "postgresql")
    when = f" WHEN ({condition})" if condition else ""
    yield (
        f"CREATE TRIGGER guard_{name}_update BEFORE UPDATE ON {name} FOR EACH ROW{when} EXECUTE FUNCTION guard_refuse()"
    )
    when = f" WHEN (OLD.{guard.deletable})" if guard.deletable else ""
    yield (
        f"CREATE TRIGGER guard_{name}_delete BEFORE DELETE ON {name} FOR EACH ROW{when} EXECUTE FUNCTION guard_refuse()"
    )
    yield (
        f"CREATE TRIGGER guard_{name}_truncate BEFORE TRUNCATE ON {name} FOR EACH STATEMENT "
        "EXECUTE FUNCTION guard_refuse()"
    )


def _mariadb(guard: Guard, table: Table) -> Iterator[str]:
    name = guard.table

    def trigger(operation: str, condition: str) -> str:
        # With SQLSTATE 45000 the driver would take a refusal for a lost connection.
        signal = (
            f"SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1451, MESSAGE_TEXT = 'guard: {operation} of {name} is refused'"
        )
        body = f"IF {condition} THEN {signal}; END IF" if condition else signal
        return f"CREATE TRIGGER guard_{name}_{operation.lower()} BEFORE {operation} ON {name} FOR EACH ROW {body}"

    yield trigger("UPDATE", _condition(guard, table, "mysql"))
    yield trigger("DELETE", f"OLD.{guard.deletable}" if guard.deletable else "")


def _anchor(guards: Sequence[Guard], by_name: dict[str, Table], dialect: Dialect) -> str:
    """Return an empty table whose foreign keys make InnoDB refuse to truncate the guarded ones."""
    items: list[SchemaItem] = []
    for guard in guards:
        keys = list(by_name[guard.table].primary_key.columns)
        columns = [Column(f"{guard.table}_{key.name}", key.type) for key in keys]
        items += columns
        items.append(ForeignKeyConstraint(columns, keys, name=f"fk_{ANCHOR}_{guard.table}"))
    anchor = Table(
        ANCHOR,
        MetaData(),
        *items,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    return str(CreateTable(anchor).compile(dialect=dialect))
