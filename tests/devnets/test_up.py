"""`up`: networks that run until they are told to stop, and leave nothing behind."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devnets.registry import CHAINS
from devnets.up import Running, as_json, as_text
from tests.devnets.presence import need

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin]

ROOT = Path(__file__).parents[2]
PROGRAM = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from devnets.up import as_json, up

    say = lambda running: print(as_json(running), flush=True)
    asyncio.run(up(sys.argv[2:], Path(sys.argv[1]), say=say))
""")


@contextmanager
def running_up(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[dict[str, Any]]]]:
    for chain in CHAINS:
        need(chain)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), *CHAINS],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        try:
            assert program.stdout is not None
            yield program, [json.loads(program.stdout.readline()) for _ in CHAINS]
        finally:
            program.kill()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def assert_dies(handle: int) -> None:
    assert select.select([handle], [], [], 10)[0], "a node still runs"
    os.close(handle)


def assert_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_it_says_what_runs_where(tmp_path: Path) -> None:
    with running_up(tmp_path) as (_, said):
        evm, bitcoin = said
        assert (evm["name"], evm["kind"], evm["network"]) == ("evm", "real node", "31337")
        assert evm["account"].startswith("0x")
        assert bitcoin["name"] == "bitcoin"
        assert bitcoin["network"] in ("bitcoin-regtest", "litecoin-regtest")
        for each in said:
            assert Path(each["log"]).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_runs_on_after(number: signal.Signals, tmp_path: Path) -> None:
    with running_up(tmp_path) as (program, said):
        nodes = [os.pidfd_open(pid) for pid in children_of(program.pid)]
        assert len(nodes) == len(CHAINS)
        program.send_signal(number)
        assert program.wait(20) == (-number if number is signal.SIGKILL else 0)
        assert program.stderr is not None
        assert program.stderr.read() == ""
        for node in nodes:
            assert_dies(node)
        for each in said:
            assert_free(int(each["url"].rpartition(":")[2]))


def test_it_ends_with_an_error_when_a_node_ends_by_itself(tmp_path: Path) -> None:
    with running_up(tmp_path) as (program, _):
        first, *others = [(pid, os.pidfd_open(pid)) for pid in children_of(program.pid)]
        os.kill(first[0], signal.SIGKILL)
        assert program.wait(20) == 1
        assert program.stderr is not None
        assert "ended by itself" in program.stderr.read()
        for _, node in (first, *others):
            assert_dies(node)


def test_what_it_says_can_be_read_by_people_and_programs() -> None:
    running = Running("evm", "real node", "http://127.0.0.1:1", "31337", "0xabc", "0xdef", "/tmp/log")
    assert json.loads(as_json(running))["url"] == "http://127.0.0.1:1"
    assert "0xabc" in as_text(running)
    assert "account" not in as_text(Running("bitcoin", "real node", "u", "bitcoin-regtest", None, None, None))
