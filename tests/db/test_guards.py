"""The database itself refuses to change history: every form of SQL that could, on every guarded table."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Table, bindparam, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from db.engine import Kind
from db.schema import (
    Operation,
    attempts,
    confirmations,
    metadata,
    slots,
    transactions,
    withdrawal_operations,
    withdrawals,
)
from db.triggers import GUARDS
from gateway.core.lifecycle import Status
from gateway.core.records import Confirmation
from tests.db.places import Place
from tests.db.world import World, new_id, now

APPEND_ONLY = [guard.table for guard in GUARDS if not (guard.free or guard.once or guard.rising)]
GUARDED = [guard.table for guard in GUARDS]


@dataclass
class Scene:
    """A withdrawal with a row in every guarded table, and a connection to attack them with."""

    kind: Kind
    connection: AsyncConnection
    rows: dict[str, Any]

    def where(self, name: str) -> Any:
        table = metadata.tables[name]
        return [column == self.rows[name]._mapping[column.name] for column in table.primary_key.columns]

    async def read(self, name: str) -> Any:
        await self.connection.rollback()
        found = (await self.connection.execute(select(metadata.tables[name]).where(*self.where(name)))).one_or_none()
        await self.connection.rollback()
        return found

    async def run(self, statement: Any) -> None:
        try:
            await self.connection.execute(statement)
            await self.connection.commit()
        finally:
            await self.connection.rollback()

    def sql(self, name: str, form: str) -> Any:
        """Fill in a form: {t} the table, {k} its first key column, {w} the condition that names the row."""
        table = metadata.tables[name]
        keys = list(table.primary_key.columns)
        names = [key.name for key in keys]
        condition = " AND ".join(f"{key} = :{key}" for key in names)
        filled = form.format(t=name, k=names[0], w=condition, keys=", ".join(names))
        statement = text(filled)
        return statement.bindparams(
            *(
                bindparam(key.name, self.rows[name]._mapping[key.name], type_=key.type)
                for key in keys
                if f":{key.name}" in filled
            )
        )

    def copy(self, name: str, changes: dict[str, str], verb: str = "INSERT") -> Any:
        """Return the INSERT of a copy of the row with some columns changed; `:fresh` is a new id."""
        columns = [column.name for column in metadata.tables[name].columns]
        values = ", ".join(changes.get(column, column) for column in columns)
        form = f"{verb} INTO {{t}} ({', '.join(columns)}) SELECT {values} FROM {{t}} WHERE {{w}}"
        return self.sql(name, form).bindparams(fresh=new_id().bytes)

    async def is_refused(self, name: str, form: str) -> None:
        before = await self.read(name)
        assert before is not None
        try:
            await self.run(self.sql(name, form))
        except IntegrityError:
            pass
        else:
            pytest.fail(f"not refused: {name}: {form}")
        assert await self.read(name) == before

    async def changes_nothing(self, name: str, form: str) -> None:
        """IGNORE may turn the refusal into silence; what matters is that the row stays."""
        before = await self.read(name)
        assert before is not None
        with contextlib.suppress(IntegrityError):
            await self.run(self.sql(name, form))
        assert await self.read(name) == before


@pytest.fixture
async def scene(place: Place, world: World) -> AsyncIterator[Scene]:
    withdrawal, attempt = await world.sent(f"claim-{new_id()}")
    async with world.store.write() as writer:
        await writer.confirm([Confirmation(attempt.id, f"block-{new_id()}", 7, now())])
        await writer.halt(withdrawal.account_id, "a spend that nobody knows", now())
    async with place.connect() as connection:
        await connection.execute(
            insert(withdrawal_operations).values(
                id=new_id(),
                withdrawal_id=withdrawal.id,
                operation=Operation.CANCEL,
                actor_user_id=new_id(),
                parameters_cbor=None,
                occurred_at=now(),
            )
        )
        await connection.commit()
        scene = Scene(place.kind, connection, {})
        for name, column, value in (
            ("transactions", "id", withdrawal.transaction_id),
            ("transaction_details", "transaction_id", withdrawal.transaction_id),
            ("transaction_events", "transaction_id", withdrawal.transaction_id),
            ("ledger_entries", "transaction_id", withdrawal.transaction_id),
            ("lane_events", "account_id", withdrawal.account_id),
            ("withdrawals", "id", withdrawal.id),
            ("withdrawal_operations", "withdrawal_id", withdrawal.id),
            ("broadcast_attempts", "withdrawal_id", withdrawal.id),
            ("confirmations", "broadcast_attempt_id", attempt.id),
            ("attempts", "id", attempt.id),
            ("attempt_claims", "attempt_id", attempt.id),
            ("slots", "withdrawal_id", withdrawal.id),
            ("hashes", "attempt_id", attempt.id),
        ):
            table = metadata.tables[name]
            scene.rows[name] = (await connection.execute(select(table).where(table.c[column] == value))).first()
        yield scene


def test_every_guarded_table_is_in_the_schema_and_the_history_is_guarded() -> None:
    assert set(GUARDED) <= set(metadata.tables)
    assert {"transaction_events", "broadcast_attempts", "withdrawal_operations", "ledger_entries"} <= set(APPEND_ONLY)


async def test_an_append_only_row_refuses_even_an_update_that_changes_nothing(scene: Scene) -> None:
    for name in APPEND_ONLY:
        await scene.is_refused(name, "UPDATE {t} SET {k} = {k} WHERE {w}")
        for column in metadata.tables[name].columns:
            await scene.is_refused(name, f"UPDATE {{t}} SET {column.name} = NULL WHERE {{w}}")


async def test_no_guarded_row_can_be_deleted(scene: Scene) -> None:
    for name in GUARDED:
        await scene.is_refused(name, "DELETE FROM {t} WHERE {w}")
        if scene.kind is Kind.MARIADB:
            await scene.changes_nothing(name, "DELETE IGNORE FROM {t} WHERE {w}")
            await scene.changes_nothing(name, "DELETE {t} FROM {t} WHERE {w}")


async def test_no_guarded_row_can_be_replaced(scene: Scene) -> None:
    for name in GUARDED:
        if scene.kind is Kind.SQLITE:
            forms = [
                "INSERT OR REPLACE INTO {t} SELECT * FROM {t} WHERE {w}",
                "REPLACE INTO {t} SELECT * FROM {t} WHERE {w}",
            ]
        elif scene.kind is Kind.MARIADB:
            forms = ["REPLACE INTO {t} SELECT * FROM {t} WHERE {w}"]
        else:
            pytest.skip("PostgreSQL has no REPLACE")
        for form in forms:
            await scene.is_refused(name, form)


async def test_an_insert_cannot_turn_into_an_update(scene: Scene) -> None:
    for name in [*APPEND_ONLY, "confirmations"]:
        if scene.kind is Kind.MARIADB:
            form = "INSERT INTO {t} SELECT * FROM {t} WHERE {w} ON DUPLICATE KEY UPDATE {k} = VALUES({k})"
        else:
            form = "INSERT INTO {t} SELECT * FROM {t} WHERE {w} ON CONFLICT ({keys}) DO UPDATE SET {k} = excluded.{k}"
        await scene.is_refused(name, form)


async def test_conflict_clauses_do_not_switch_the_guards_off(scene: Scene) -> None:
    for name in APPEND_ONLY:
        if scene.kind is Kind.POSTGRES:
            pytest.skip("PostgreSQL has no such clauses")
        column = next(c.name for c in metadata.tables[name].columns if not c.primary_key)
        if scene.kind is Kind.MARIADB:
            forms = [
                f"UPDATE IGNORE {{t}} SET {column} = 'x' WHERE {{w}}",
                "INSERT IGNORE INTO {t} SELECT * FROM {t} WHERE {w}",
            ]
        else:
            forms = [
                f"UPDATE OR IGNORE {{t}} SET {column} = 'x' WHERE {{w}}",
                f"UPDATE OR REPLACE {{t}} SET {column} = 'x' WHERE {{w}}",
                "INSERT OR IGNORE INTO {t} SELECT * FROM {t} WHERE {w}",
            ]
        for form in forms:
            await scene.changes_nothing(name, form)


async def test_no_guarded_table_can_be_truncated(scene: Scene) -> None:
    for name in GUARDED:
        if scene.kind is Kind.SQLITE:
            await scene.is_refused(name, "DELETE FROM {t}")  # the optimisation that SQLite calls truncate
            continue
        forms = ["TRUNCATE {t}", "TRUNCATE {t} CASCADE"] if scene.kind is Kind.POSTGRES else ["TRUNCATE TABLE {t}"]
        for form in forms:
            before = await scene.read(name)
            with pytest.raises(DBAPIError):
                await scene.run(scene.sql(name, form))
            assert await scene.read(name) == before


async def test_a_key_that_is_not_the_primary_one_cannot_be_used_to_replace_a_row(scene: Scene) -> None:
    if scene.kind is Kind.POSTGRES:
        pytest.skip("PostgreSQL has no REPLACE")
    for name in ("broadcast_attempts", "withdrawals"):
        before = await scene.read(name)
        with pytest.raises(IntegrityError):
            await scene.run(scene.copy(name, {"id": ":fresh"}, "REPLACE"))
        assert await scene.read(name) == before


async def test_a_confirmation_changes_once_and_only_by_its_reorg(scene: Scene) -> None:
    await scene.is_refused("confirmations", "UPDATE {t} SET block_height = 8 WHERE {w}")
    await scene.is_refused("confirmations", "UPDATE {t} SET reorged_at = NULL WHERE {w}")
    await scene.is_refused("confirmations", "UPDATE {t} SET id = id WHERE {w}")
    at = now()
    moved = update(confirmations).where(*scene.where("confirmations"))
    with pytest.raises(IntegrityError):
        await scene.run(moved.values(reorged_at=at, block_height=8))
    await scene.run(moved.values(reorged_at=at))
    for again in (at, now(), None):
        with pytest.raises(IntegrityError):
            await scene.run(moved.values(reorged_at=again))
    assert (await scene.read("confirmations")).reorged_at == at


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        (transactions, "raw_payload_cbor", b"other"),
        (transactions, "tx_hash", "other"),
        (attempts, "raw", b"other"),
        (attempts, "tx_hash", "other"),
        (attempts, "signed_at", now()),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "name", "value"),
)
async def test_what_is_set_once_keeps_its_first_value(scene: Scene, table: Table, column: str, value: Any) -> None:
    before = await scene.read(table.name)
    for second in (value, None):
        with pytest.raises(IntegrityError):
            await scene.run(update(table).where(*scene.where(table.name)).values({column: second}))
    assert await scene.read(table.name) == before


async def test_a_cancel_is_completed_once(scene: Scene) -> None:
    moved = update(withdrawals).where(*scene.where("withdrawals"))
    at = now()
    await scene.run(moved.values(cancel_completed_at=at))
    for second in (now(), None):
        with pytest.raises(IntegrityError):
            await scene.run(moved.values(cancel_completed_at=second))
    await scene.run(moved.values(cancel_attempted_at=now()))
    assert (await scene.read("withdrawals")).cancel_completed_at == at


async def test_an_intent_and_what_was_built_for_it_never_change(scene: Scene) -> None:
    for table, column, value in (
        ("transactions", "amount_decimal", "1"),
        ("transactions", "asset_id", "'OTHER'"),
        ("transactions", "destination_type", "'vault'"),
        ("transactions", "workspace_id", "id"),
        ("withdrawals", "destination_address", "'elsewhere'"),
        ("withdrawals", "destination_address", "'somewhere '"),
        ("withdrawals", "destination_address", "'Somewhere'"),
        ("withdrawals", "tag_or_memo", "'memo'"),
        ("transaction_details", "amount_base", "1"),
        ("transaction_details", "external_id", "'other'"),
        ("attempts", "payload", "id"),
        ("attempts", "kind", "'drop'"),
        ("attempts", "fee_max", "1"),
        ("attempts", "withdrawal_id", "id"),
        ("slots", "withdrawal_id", "taken_by"),
        ("slots", "claim", "'other'"),
    ):
        await scene.is_refused(table, f"UPDATE {{t}} SET {column} = {value} WHERE {{w}}")


@pytest.mark.parametrize("column", ["recorded", "closed"])
async def test_a_milestone_of_an_attempt_is_not_taken_back(scene: Scene, column: str) -> None:
    moved = update(attempts).where(*scene.where("attempts"))
    await scene.run(moved.values({column: True}))
    with pytest.raises(IntegrityError):
        await scene.run(moved.values({column: False}))


async def test_a_slot_that_was_signed_for_is_taken_for_ever(scene: Scene, world: World) -> None:
    moved = update(slots).where(*scene.where("slots"))
    with pytest.raises(IntegrityError):
        await scene.run(moved.values(signed=False))
    await scene.run(moved.values(closed=True))
    await scene.is_refused("slots", "DELETE FROM {t} WHERE {w}")


async def test_a_closed_list_takes_no_other_value(scene: Scene) -> None:
    unique = {"broadcast_attempts": {"attempt_number": "99"}, "withdrawals": {"transaction_id": ":fresh"}}
    for table, column in (
        ("transactions", "status"),
        ("transactions", "destination_type"),
        ("withdrawals", "destination_type"),
        ("broadcast_attempts", "outcome"),
        ("withdrawal_operations", "operation"),
        ("transaction_events", "to_status"),
        ("transaction_events", "from_status"),
        ("transaction_details", "fee_level"),
        ("ledger_entries", "book"),
        ("attempts", "kind"),
    ):
        key = next(iter(metadata.tables[table].primary_key.columns)).name
        for value in ("'WRONG'", "''", "'Queued'"):
            changes = {key: ":fresh", **unique.get(table, {}), column: value}
            with pytest.raises(DBAPIError) as refusal:
                await scene.run(scene.copy(table, changes))
            assert any(word in str(refusal.value.orig) for word in ("ck_", column)), refusal.value


async def test_a_status_cannot_be_left_out(scene: Scene) -> None:
    for table, column in ((transactions, "status"), (withdrawals, "destination_address"), (attempts, "payload")):
        with pytest.raises(DBAPIError):
            await scene.run(update(table).where(*scene.where(table.name)).values({column: None}))
    assert (await scene.read("transactions")).status is Status.BROADCASTING
