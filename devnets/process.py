"""A node as a child process: a free port, readiness by asking, freezing, and an end that nothing survives."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from devnets.network import DevnetError, LeverMissing

Command = Callable[[int], Sequence[str]]
Ready = Callable[[int], Awaitable[bool]]

START_SECONDS = 30.0
STOP_SECONDS = 10.0
ASK_EVERY_SECONDS = 0.01
PORT_ATTEMPTS = 5
PR_SET_PDEATHSIG = 1
# Below the range from which systems hand out ports to outgoing connections, so that a node which is
# down for a restart does not lose its port to somebody's client socket.
PORTS = range(12_000, 32_000)

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Runner(Protocol):
    """Whoever keeps the node alive: ourselves (`Process`) or somebody else (`External`)."""

    @property
    def port(self) -> int: ...

    @property
    def log(self) -> Path | None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def wait(self) -> None: ...


class External:
    """A node that somebody else started: it can be used, but neither stopped nor frozen."""

    log = None

    @property
    def port(self) -> int:
        raise LeverMissing("the node is not ours: only its URL is known")

    async def start(self) -> None:
        """Do nothing: it runs already."""

    async def stop(self) -> None:
        """Do nothing: it is not ours to stop."""

    async def pause(self) -> None:
        raise LeverMissing("cannot freeze a node that we did not start")

    async def resume(self) -> None:
        raise LeverMissing("cannot thaw a node that we did not start")

    async def wait(self) -> None:
        await asyncio.get_running_loop().create_future()


class Process:
    """One child process that listens on one port of 127.0.0.1.

    `command(port)` gives the arguments; `ready(port)` says whether the node answers, and may raise OSError
    for "not yet". The port stays the same over `stop` and `start`, unless it was never won.
    Start it from a thread that lives as long as the process should: Linux ends the child with that thread.
    """

    def __init__(self, command: Command, ready: Ready, log: Path, *, stop_seconds: float = STOP_SECONDS) -> None:
        self._command = command
        self._ready = ready
        self._log = log
        self._stop_seconds = stop_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._port: int | None = None

    @property
    def port(self) -> int:
        if self._port is None:
            raise DevnetError("not started yet: no port")
        return self._port

    @property
    def log(self) -> Path:
        return self._log

    @property
    def pid(self) -> int:
        return self._running().pid

    async def start(self) -> None:
        """Start the child and return when it answers; take another port when this one was lost in a race."""
        if self._child is not None and self._child.poll() is None:
            raise DevnetError("already running")
        fixed = self._port
        for _ in range(PORT_ATTEMPTS):
            port = fixed or free_port()
            child = _spawn(self._command(port), self._log)
            try:
                won = await self._answers(child, port)
            except BaseException:
                await _end(child, self._stop_seconds)
                raise
            if won:
                self._child, self._port = child, port
                return
            await _end(child, self._stop_seconds)
        raise DevnetError(f"no port could be won for {self._command(0)[0]}; see {self._log}")

    async def stop(self) -> None:
        """Ask the child to end, insist after `stop_seconds`, return when it is gone."""
        child, self._child = self._child, None
        if child is not None:
            await _end(child, self._stop_seconds)

    async def pause(self) -> None:
        """Freeze the child and return when it stands still."""
        child = self._running()
        os.killpg(child.pid, signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    async def resume(self) -> None:
        """Let a frozen child go on."""
        _signal_group(self._running(), signal.SIGCONT)

    async def wait(self) -> None:
        """Return when the child has ended."""
        child = self._running()
        while child.poll() is None:  # noqa: ASYNC110 - a waiting thread could not be cancelled
            await asyncio.sleep(0.1)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise DevnetError("not running")
        return self._child

    async def _answers(self, child: subprocess.Popen[bytes], port: int) -> bool:
        """Wait until the child itself answers on the port; False when another process has the port."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if child.poll() is not None:
                if not _is_free(port):
                    return False
                raise DevnetError(f"{child.args!r} ended with {child.returncode}:\n{_tail(self._log)}")
            if _listens(child.pid, port):
                try:
                    if await self._ready(port):
                        return True
                except OSError:
                    pass
            await asyncio.sleep(ASK_EVERY_SECONDS)
        raise DevnetError(f"no answer within {START_SECONDS:.0f} s:\n{_tail(self._log)}")


def free_port() -> int:
    """Find a port of 127.0.0.1 on which nothing listens at this moment."""
    for port in random.sample(PORTS, k=200):
        if _is_free(port):
            return port
    raise DevnetError("no free port found")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do, so that connections still in TIME_WAIT do not make the port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _listens(pid: int, port: int) -> bool:
    """Say whether this very process listens there, so that a stranger's node is never taken for ours."""
    if sys.platform != "linux":
        return True
    wanted = f"0100007F:{port:04X}"
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    inodes = {f"socket:[{row[9]}]" for row in rows if row[1] == wanted and row[3] == "0A"}
    if not inodes:
        return False
    try:
        return any(os.readlink(entry) in inodes for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # a file closed, or the process ended, while we looked
        return False


def _spawn(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def die_with_parent() -> None:
        if _libc is not None:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before we asked
                os._exit(1)

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


async def _end(child: subprocess.Popen[bytes], seconds: float) -> None:
    """TERM, then KILL; a frozen process gets CONT first, because it could not act on TERM."""
    if child.poll() is None:
        _signal_group(child, signal.SIGTERM)
        _signal_group(child, signal.SIGCONT)
        try:
            await asyncio.to_thread(child.wait, seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also when we were cancelled, or when only the child's own children are left
            _signal_group(child, signal.SIGKILL)
    child.wait()


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)


def _tail(log: Path, lines: int = 12) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
