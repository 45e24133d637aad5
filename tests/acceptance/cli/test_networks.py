"""`gateway demo` and `gateway devnet up` as processes: what they print, what they leave, what they leave behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from devnets.registry import CHAINS
from tests.acceptance.cli.desk import GATEWAY, PATIENCE, Desk
from tests.devnets.presence import need

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin, pytest.mark.slow]

TOLD = {"chain", "withdrawal_id", "status", "tx_hash", "confirmations", "attempts", "amount", "destination"}


@pytest.fixture
def anywhere(tmp_path: Path) -> Desk:
    for chain in CHAINS:
        need(chain)
    return Desk(tmp_path)


def test_the_demo_pays_on_every_chain_and_keeps_its_database(anywhere: Desk, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "here"
    ran = anywhere.process("demo", "--json", "--count", "2", "--keep", str(kept), config=False, seconds=110)
    assert ran.code == 0, ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert sorted(w["chain"] for w in found) == sorted(list(CHAINS) * 2)
    for withdrawal in found:
        assert withdrawal.keys() >= TOLD
        assert withdrawal["status"] == "COMPLETED"
        assert withdrawal["arrived"] == withdrawal["amount"]
        assert withdrawal["attempts"] == 1
        assert withdrawal["confirmations"] >= 1
    assert "Traceback" not in ran.err
    desk = Desk(kept, [(kept / "password").read_text()])
    assert desk.database.exists()
    listed = desk.run("tx", "list", "--json")
    assert {json.loads(line)["withdrawal_id"] for line in listed.out.splitlines()} == {
        w["withdrawal_id"] for w in found
    }
    desk.said.append(ran.out + ran.err)
    desk.no_secret_is_out()


def test_the_demo_keeps_nothing_where_a_database_is(anywhere: Desk, tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_text("precious")
    ran = anywhere.run("demo", "--keep", str(tmp_path), config=False)
    anywhere.check_refusal(ran, ["gateway.db exists already"])
    assert (tmp_path / "gateway.db").read_text() == "precious"


def test_the_demo_keeps_nothing_where_no_folder_can_be(anywhere: Desk, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = anywhere.run("demo", "--keep", str(tmp_path / "file"), config=False)
    anywhere.check_refusal(ran, ["error: --keep: "])


@pytest.mark.parametrize("command", [["demo", "--chains", "nope"], ["devnet", "up", "nope"]])
def test_an_unknown_network_is_a_usage_error(anywhere: Desk, command: list[str]) -> None:
    ran = anywhere.run(*command, config=False)
    anywhere.check_refusal(ran, ["no devnet for nope; there are: evm, bitcoin"], code=2)
    assert ran.out == ""


def test_devnet_up_ended_by_ctrl_c_leaves_no_process(anywhere: Desk) -> None:
    with subprocess.Popen(
        [str(GATEWAY), "devnet", "up", "--json"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        try:
            assert program.stdout is not None
            told = [json.loads(program.stdout.readline()) for _ in CHAINS]
            assert [t["name"] for t in told] == list(CHAINS)
            assert all(t["kind"] == "real node" and t["url"].startswith("http://") for t in told)
            nodes = [os.pidfd_open(int(child)) for child in children_of(program.pid)]
            assert len(nodes) >= len(CHAINS)
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=PATIENCE)
        finally:
            program.kill()
    assert (program.returncode, out, "Traceback" in err) == (0, "", False), err
    for node in nodes:
        assert select.select([node], [], [], 10)[0], "a node still runs"
        os.close(node)


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
