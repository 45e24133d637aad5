"""The migrations lead to the schema in code, and the shared tables are the ones that were agreed on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from db import triggers
from db.engine import Kind, connect
from db.schema import REVISION, metadata
from db.upgrade import check, upgrade
from tests.db.places import Place, fresh

SHARED = {
    "transactions": "id workspace_id source_vault_id destination_type asset_id amount_decimal chain status"
    " status_changed_at created_at raw_payload_cbor tx_hash pending_auth_at pending_sign_at",
    "transaction_events": "id transaction_id from_status to_status reason occurred_at",
    "withdrawals": "id transaction_id withdrawal_vault_id destination_type destination_address tag_or_memo chain"
    " chain_validity_expires_at retry_count last_boost_at cancel_attempted_at cancel_completed_at",
    "broadcast_attempts": "id withdrawal_id attempt_number raw_payload_cbor signed_payload broadcasted_to_node"
    " broadcasted_at tx_hash outcome",
    "confirmations": "id broadcast_attempt_id block_hash block_height confirmed_at reorged_at",
    "withdrawal_operations": "id withdrawal_id operation actor_user_id parameters_cbor occurred_at",
}

TRIGGER_TEXTS = {
    Kind.SQLITE: "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'",
    Kind.POSTGRES: "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    Kind.MARIADB: "SELECT trigger_name, CONCAT(action_timing, ' ', event_manipulation, ' ', event_object_table, ' ',"
    " action_statement) FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
}

TABLE_TEXTS = {
    Kind.SQLITE: "SELECT sql FROM sqlite_master WHERE name = '{}'",
    Kind.MARIADB: "SELECT CONCAT(engine, ' ', table_collation) FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = '{}'",
}


def _describe(connection: Connection) -> dict[str, Any]:
    found = inspect(connection)
    kind = Kind(connection.dialect.name)
    description: dict[str, Any] = {}
    for name in found.get_table_names():
        if name == "alembic_version":
            continue
        description[name] = {
            "columns": [
                (c["name"], repr(c["type"]), c["nullable"], str(c["default"])) for c in found.get_columns(name)
            ],
            "key": found.get_pk_constraint(name)["constrained_columns"],
            "unique": sorted((str(c["name"]), c["column_names"]) for c in found.get_unique_constraints(name)),
            "indexes": sorted((str(c["name"]), c["column_names"], c["unique"]) for c in found.get_indexes(name)),
            "foreign": sorted((str(c["name"]), c["referred_table"]) for c in found.get_foreign_keys(name)),
            "checks": sorted((str(c["name"]), str(c["sqltext"])) for c in found.get_check_constraints(name)),
        }
        if kind in TABLE_TEXTS:
            made = str(connection.execute(text(TABLE_TEXTS[kind].format(name))).scalar_one())
            description[name]["made"] = made.rsplit(")", 1)[-1].strip()  # what comes after the columns
    guards = connection.execute(text(TRIGGER_TEXTS[kind])).all()
    description["triggers"] = {row[0]: row[1] for row in guards}
    return description


async def _description(place: Place) -> dict[str, Any]:
    async with place.connect() as connection:
        return await connection.run_sync(_describe)  # type: ignore[no-any-return]


def _create(connection: Connection) -> None:
    metadata.create_all(connection)
    triggers.create(connection, triggers.GUARDS, list(metadata.tables.values()))


async def _create_from_code(place: Place) -> None:
    database = connect(place.url, create=True)
    async with database.writing.begin() as connection:
        await connection.run_sync(_create)
    await database.dispose()


def test_migrated_and_created_schemas_are_the_same(empty_place: Place, tmp_path: Path) -> None:
    with fresh(empty_place.kind, tmp_path) as created:
        asyncio.run(upgrade(empty_place.url))
        asyncio.run(_create_from_code(created))
        one, other = asyncio.run(_description(empty_place)), asyncio.run(_description(created))
    assert set(one) == set(other)
    for name in one:
        assert one[name] == other[name], name
    assert set(one["triggers"]) == triggers.names(triggers.GUARDS, empty_place.kind)
    assert (triggers.ANCHOR in one) == (empty_place.kind is Kind.MARIADB)


async def test_an_upgrade_may_be_repeated_and_run_by_many_at_once(empty_place: Place) -> None:
    await asyncio.gather(*(upgrade(empty_place.url) for _ in range(3)))
    await upgrade(empty_place.url)
    assert await check(empty_place.url) == []


def test_the_schema_in_code_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(triggers.__file__).with_name("migrations")))
    assert ScriptDirectory.from_config(config).get_heads() == [REVISION]


def test_the_shared_tables_have_exactly_the_agreed_columns() -> None:
    for name, columns in SHARED.items():
        assert [column.name for column in metadata.tables[name].columns] == columns.split()


def test_every_text_column_of_mariadb_tells_letters_apart(place: Place) -> None:
    if place.kind is not Kind.MARIADB:
        return

    async def ask() -> list[str]:
        async with place.connect() as connection:
            rows = await connection.execute(
                text(
                    "SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns"
                    " WHERE table_schema = DATABASE() AND collation_name <> 'utf8mb4_bin'"
                    " AND table_name <> 'alembic_version'"
                )
            )
            return list(rows.scalars())

    assert asyncio.run(ask()) == []


def test_no_word_of_one_chain_stands_in_the_store() -> None:
    words = r"nonce|utxo|\bgas|mempool|outpoint|lamport|blockhash|counter|extrinsic"
    for path in Path(triggers.__file__).parent.rglob("*.py"):
        assert not re.search(words, path.read_text(), re.IGNORECASE), path
