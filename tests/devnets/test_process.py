"""A child process on a port: readiness, lost ports, and an end that nothing survives."""

import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from devnets import process
from devnets.network import DevnetError, LeverMissing
from devnets.process import External, Process, free_port

ROOT = Path(__file__).parents[2]
LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"


def listener(port: int) -> list[str]:
    return [sys.executable, "-c", LISTEN, str(port)]


async def at_once(port: int) -> bool:
    return True


def is_alive(pid: int) -> bool:
    """Say whether the process runs; a dead one that nobody has collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_for_death(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 10)[0], f"process {pid} still runs"
    finally:
        os.close(handle)


async def test_it_is_ready_only_when_the_child_itself_listens(tmp_path: Path) -> None:
    child = Process(listener, at_once, tmp_path / "log")
    await child.start()
    try:
        socket.create_connection(("127.0.0.1", child.port)).close()
    finally:
        await child.stop()


async def test_a_port_lost_to_another_process_is_replaced_by_another_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        ports = iter([stranger.getsockname()[1], free_port()])
        monkeypatch.setattr(process, "free_port", lambda: next(ports))
        child = Process(listener, at_once, tmp_path / "log")
        await child.start()
        assert child.port != stranger.getsockname()[1]
        await child.stop()


async def test_a_child_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    child = Process(lambda _: [sys.executable, "-c", "print('no licence'); exit(3)"], at_once, tmp_path / "log")
    with pytest.raises(DevnetError, match=r"(?s)ended with 3.*no licence"):
        await child.start()


async def test_a_child_that_never_answers_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 0.2)
    started: list[int] = []

    async def never(port: int) -> bool:
        return False

    def command(port: int) -> list[str]:
        started.append(port)
        return listener(port)

    with pytest.raises(DevnetError, match="no answer"):
        await Process(command, never, tmp_path / "log").start()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", started[0]))


async def test_a_child_that_ignores_term_is_killed(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + LISTEN
    child = Process(lambda port: [sys.executable, "-c", deaf, str(port)], at_once, tmp_path / "log", stop_seconds=0.2)
    await child.start()
    pid = child.pid
    await child.stop()
    assert not is_alive(pid)


async def test_the_end_of_a_child_can_be_awaited(tmp_path: Path) -> None:
    child = Process(listener, at_once, tmp_path / "log")
    await child.start()
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    await child.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
@pytest.mark.parametrize("paused", [False, True])
def test_nothing_survives_when_the_parent_is_killed(tmp_path: Path, paused: bool) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, LISTEN, str(tmp_path / "log"), str(int(paused))],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    wait_for_death(pid)


PARENT = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from devnets.process import Process

    async def at_once(port):
        return True

    async def main():
        child = Process(lambda port: [sys.executable, "-c", sys.argv[1], str(port)], at_once, Path(sys.argv[2]))
        await child.start()
        if sys.argv[3] == "1":
            await child.pause()
        print(child.pid, flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())
""")


async def test_a_node_of_somebody_else_cannot_be_frozen() -> None:
    external = External()
    await external.start()
    await external.stop()
    for lever in (external.pause, external.resume):
        with pytest.raises(LeverMissing):
            await lever()
