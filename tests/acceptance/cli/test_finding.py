"""Withdrawals that were paid by the real process: found by every name they have, listed, and audited."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devnets.network import Devnet
from gateway.app import opened
from gateway.cli.sandbox import prepare
from gateway.intake import Request
from tests.acceptance.cli.conftest import EVM_SECRET, fund, secrets_of
from tests.acceptance.cli.desk import PATIENCE, Desk
from tests.acceptance.cli.test_requests import ALICE, LTC, REGTEST, given

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def paid(both: dict[str, Devnet], tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """One withdrawal on each chain, paid by the process and COMPLETED."""
    folder = tmp_path_factory.mktemp("paid") / "gateway"
    urls = {"evm": [both["evm"].url.replace("://", f"://operator:{EVM_SECRET}@")]}
    config = await prepare(folder, both, urls=urls, chain_settings={"bitcoin": {"threshold": 1}})
    await fund(folder, both)
    desk = Desk(folder, secrets_of(folder, both))
    async with opened(config) as gateway:
        vault = (await gateway.vault("hot-1")).id
        for number, (asset, to, amount) in enumerate([("ETH", ALICE, "0.25"), given([LTC, REGTEST, "0.5"], both)]):
            await gateway.intake.accept(Request(vault, asset, amount, to, external_id=f"order-{number}"))
        for adapter in gateway.adapters.values():
            await adapter.node.close()
    with desk.serving() as server:
        deadline = time.monotonic() + PATIENCE
        while completed(desk) < 2:
            for devnet in both.values():
                await devnet.mine()
            assert time.monotonic() < deadline, server.log.read_text()
            await asyncio.sleep(0.1)
    return desk


def completed(desk: Desk) -> int:
    with closing(sqlite3.connect(desk.database)) as connection:
        found: int = connection.execute("SELECT count(*) FROM transactions WHERE status = 'COMPLETED'").fetchone()[0]
        return found


@pytest.fixture
def found(paid: Desk) -> Iterator[list[dict[str, Any]]]:
    """Both withdrawals as `tx list` has them, newest first."""
    ran = paid.run("tx", "list", "--json")
    assert ran.code == 0, ran.err
    yield [json.loads(line) for line in ran.out.splitlines()]
    paid.no_secret_is_out()


def test_the_list_has_every_withdrawal_newest_first(paid: Desk, found: list[dict[str, Any]]) -> None:
    assert [(w["chain"], w["status"], w["amount"]) for w in found] == [
        ("bitcoin", "COMPLETED", "0.5"),
        ("evm", "COMPLETED", "0.25"),
    ]
    assert len(paid.run("tx", "list", "--json", "--chain", "evm").out.splitlines()) == 1
    assert len(paid.run("tx", "list", "--json", "--limit", "1").out.splitlines()) == 1
    assert paid.run("tx", "list", "--json", "--status", "FAILED").out == ""
    assert "order" not in paid.run("tx", "list").err


@pytest.mark.parametrize("name", ["withdrawal_id", "transaction_id", "external_id", "tx_hash"])
def test_a_withdrawal_is_found_by_every_name_it_has(paid: Desk, found: list[dict[str, Any]], name: str) -> None:
    for withdrawal in found:
        ran = paid.run("tx", "show", withdrawal[name], "--json")
        assert ran.code == 0, ran.err
        shown = json.loads(ran.out)
        assert shown["withdrawal_id"] == withdrawal["withdrawal_id"]
        assert [e["to"] for e in shown["events"]][-3:] == ["BROADCASTING", "CONFIRMING", "COMPLETED"]
        assert [a["tx_hash"] for a in shown["attempts"]] == [withdrawal["tx_hash"]]


def test_a_hash_may_be_typed_in_capitals(paid: Desk, found: list[dict[str, Any]]) -> None:
    for withdrawal in found:
        assert paid.run("tx", "show", withdrawal["tx_hash"].upper().replace("0X", "0x")).code == 0


def test_the_time_line_is_for_people(paid: Desk, found: list[dict[str, Any]]) -> None:
    ran = paid.run("tx", "show", "order-0")
    assert ran.code == 0, ran.err
    whole = "".join(ran.out.split())
    for text in ("SUBMITTED", "signed payment", "send 1 to 127.0.0.1", "block ", "COMPLETED", ALICE):
        assert text in ran.out
    assert found[1]["tx_hash"] in whole, "a hash is cut short"


@pytest.mark.parametrize(
    "name", ["order-9", "0x" + "ab" * 32, "01a22efb-ee0c-740b-b773-8c94aee40a92", "", "'; DROP TABLE withdrawals; --"]
)
def test_what_nobody_knows_is_not_found(paid: Desk, name: str) -> None:
    paid.refused("tx", "show", name, saying=["no withdrawal has the id, external id or hash"])


def test_the_audit_finds_nothing(paid: Desk) -> None:
    ran = paid.run("audit", "--json")
    assert ran.code == 0, ran.out + ran.err
    report = json.loads(ran.out)
    assert (report["withdrawals"], report["blocks"], report["findings"], report["unchecked"]) == (2, 2, [], [])


def tamper(desk: Desk, table: str, change: str) -> None:
    """Change history as somebody with the file in his hands would: without the guards, and with them back."""
    with closing(sqlite3.connect(desk.database)) as connection:
        guards = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (table,)
        ).fetchall()
        assert guards, f"nothing guards {table}"
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(change).rowcount > 0
        for _, text in guards:
            connection.execute(text)
        connection.commit()


def test_the_audit_finds_a_ledger_that_was_changed(paid: Desk, tmp_path: Path) -> None:
    copy = paid.copy(tmp_path / "copy")
    tamper(copy, "ledger_entries", "UPDATE ledger_entries SET amount = amount + 1 WHERE book = 'paid'")
    assert copy.run("db", "check").code == 0
    ran = copy.run("audit", "--json")
    assert ran.code == 1
    assert any("book paid" in f["text"] for f in json.loads(ran.out)["findings"])


def test_the_audit_finds_a_block_that_is_not_on_the_chain(paid: Desk, tmp_path: Path) -> None:
    copy = paid.copy(tmp_path / "copy")
    tamper(copy, "attempts", f"UPDATE attempts SET included_hash = '0x{'ab' * 32}' WHERE chain = 'evm'")
    ran = copy.run("audit")
    assert ran.code == 1
    assert "is not on the chain" in ran.out


def test_the_audit_says_what_it_could_not_check(paid: Desk, tmp_path: Path, nobody_there: str) -> None:
    copy = paid.copy(tmp_path / "copy")
    copy.setting("urls", f'["{nobody_there}"]', chain="bitcoin")
    ran = copy.run("audit")
    assert ran.code == 1
    assert "not checked on chain: bitcoin" in ran.out
    copy.no_secret_is_out()
