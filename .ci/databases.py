"""Run a command with PostgreSQL and MariaDB to test on: those already there, or private ones of its own."""

import argparse
import asyncio
import contextlib
import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import asyncmy
import asyncpg

TEST_DATABASE = "gateway_test"
PROBE_SECONDS = 5.0
START_SECONDS = 60.0
PR_SET_PDEATHSIG = 1
# Both servers take this as: end now. (SIGTERM makes PostgreSQL wait for its clients.)
END_NOW = signal.SIGQUIT


@dataclass(frozen=True)
class Kind:
    """What differs between the two servers."""

    name: str
    variable: str
    scheme: str
    port: int
    users: tuple[str, ...]
    server_account: str
    packages: tuple[str, ...]
    prepare: Callable[[str, int], None]
    """Connect as a user on a port of 127.0.0.1 and see that TEST_DATABASE exists."""
    programs: Callable[[], tuple[str, str] | None]
    commands: Callable[[tuple[str, str], Path, int], tuple[list[str], list[str]]]
    """From programs, a folder and a port: the command that fills the folder, and the one that serves it."""

    def url(self, user: str, port: int) -> str:
        return f"{self.scheme}://{user}@127.0.0.1:{port}/{TEST_DATABASE}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", action="store_true", help="start private servers where none is found")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    private_only = os.environ.get("GATEWAY_CI_PRIVATE_DB") == "1"
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)

    with contextlib.ExitStack() as servers:
        for kind in (POSTGRES, MARIADB):
            if os.environ.get(kind.variable):
                continue
            url = None if private_only else _find(kind)
            if url is None and (arguments.start or private_only):
                url = servers.enter_context(_private_server(kind))
            if url is None:
                _warn_untested(kind)
            else:
                os.environ[kind.variable] = url
        return _run(arguments.command)


def _run(command: list[str]) -> int:
    with subprocess.Popen(command) as process:
        try:
            code = process.wait()
        except BaseException:
            # Interrupted: let the command clean up before its databases go.
            process.terminate()
            process.wait()
            raise
    return code if code >= 0 else 128 - code


def _find(kind: Kind) -> str | None:
    for user in kind.users:
        with contextlib.suppress(Exception):
            kind.prepare(user, kind.port)
            return kind.url(user, kind.port)
    return None


def _warn_untested(kind: Kind) -> None:
    accounts = " or ".join(dict.fromkeys(kind.users))
    lines = (
        f"{kind.name} IS NOT TESTED: 127.0.0.1:{kind.port} lets no {accounts} in without a password.",
        f"Start it, or set {kind.variable}, or set GATEWAY_CI_PRIVATE_DB=1 for a private server.",
    )
    bar = "!" * max(map(len, lines))
    print(bar, *lines, bar, sep="\n", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _private_server(kind: Kind) -> Iterator[str]:
    programs = kind.programs()
    if programs is None:
        subprocess.run([Path(__file__).with_name("apt"), *kind.packages], check=False)
        programs = kind.programs()
    if programs is None:
        raise SystemExit(f"{kind.name} is not here and did not install: apt-get install {' '.join(kind.packages)}")

    # As root the server runs under Debian's account for it, which must be able to reach the folder.
    account = kind.server_account if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix=f"gateway-{kind.server_account}-", dir="/tmp"))
    if account is not None:
        shutil.chown(folder, account)
    port = _free_port()
    log = folder / "log"
    fill, serve = kind.commands(programs, folder, port)
    try:
        with log.open("wb") as output:
            if _start(fill, account, folder, output.fileno()).wait() != 0:
                raise SystemExit(f"{kind.name} could not be prepared:\n{log.read_text()}")
            server = _start(serve, account, folder, output.fileno())
        try:
            _await_server(kind, server, port, log)
            print(f"private {kind.name} on 127.0.0.1:{port}", file=sys.stderr, flush=True)
            yield kind.url(kind.users[0], port)
        finally:
            _stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(command: list[str], account: str | None, folder: Path, output: int) -> "subprocess.Popen[bytes]":
    # Its own session, so that Ctrl-C reaches only the command, which may still need the server.
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        user=account,
        group=account,
        extra_groups=None if account is None else [],
        preexec_fn=_die_with_parent,
    )


def _die_with_parent() -> None:
    """Have the kernel stop the server even when this process is killed outright."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, END_NOW)


def _await_server(kind: Kind, server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            kind.prepare(kind.users[0], port)
        except Exception as problem:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{kind.name} did not start: {problem}\n{log.read_text()}") from problem
            time.sleep(0.05)
        else:
            return


def _stop(server: "subprocess.Popen[bytes]") -> None:
    server.send_signal(END_NOW)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _prepare_postgres(user: str, port: int) -> None:
    async def prepare() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=port, user=user, database="postgres", ssl=False, timeout=PROBE_SECONDS
        )
        try:
            with contextlib.suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
                await connection.execute(f"CREATE DATABASE {TEST_DATABASE}")
        finally:
            await connection.close()

    asyncio.run(prepare())


def _prepare_mariadb(user: str, port: int) -> None:
    async def prepare() -> None:
        connection = await asyncmy.connect(
            host="127.0.0.1", port=port, user=user, password="", connect_timeout=PROBE_SECONDS
        )
        try:
            async with connection.cursor() as cursor:
                # The driver prints a warning for IF NOT EXISTS, so look first.
                if not await cursor.execute(f"SHOW DATABASES LIKE '{TEST_DATABASE}'"):
                    await cursor.execute(f"CREATE DATABASE {TEST_DATABASE} CHARACTER SET utf8mb4")
        finally:
            await connection.ensure_closed()

    asyncio.run(prepare())


def _postgres_programs() -> tuple[str, str] | None:
    newest_first = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True
    )
    search = os.pathsep.join([*map(str, newest_first), os.environ["PATH"]])
    return _both(shutil.which("initdb", path=search), shutil.which("postgres", path=search))


def _mariadb_programs() -> tuple[str, str] | None:
    search = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    return _both(shutil.which("mariadb-install-db", path=search), shutil.which("mariadbd", path=search))


def _both(first: str | None, second: str | None) -> tuple[str, str] | None:
    return None if first is None or second is None else (first, second)


def _postgres_commands(programs: tuple[str, str], folder: Path, port: int) -> tuple[list[str], list[str]]:
    initdb, postgres = programs
    data = str(folder / "data")
    fill = [initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
    serve = [postgres, "-D", data, "-p", str(port), "-k", str(folder), "-c", "listen_addresses=127.0.0.1"]
    return fill, serve


def _mariadb_commands(programs: tuple[str, str], folder: Path, port: int) -> tuple[list[str], list[str]]:
    install_db, mariadbd = programs
    data = f"--datadir={folder / 'data'}"
    # With "normal" root is let in without a password over TCP too, which is what a throw-away server is for.
    fill = [install_db, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"]
    serve = [
        mariadbd,
        "--no-defaults",
        data,
        f"--port={port}",
        f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'pid'}",
        "--bind-address=127.0.0.1",
        "--character-set-server=utf8mb4",
    ]
    return fill, serve


POSTGRES = Kind(
    name="PostgreSQL",
    variable="GATEWAY_TEST_POSTGRES_URL",
    scheme="postgresql+asyncpg",
    port=5432,
    users=("postgres", getpass.getuser()),
    server_account="postgres",
    packages=("postgresql",),
    prepare=_prepare_postgres,
    programs=_postgres_programs,
    commands=_postgres_commands,
)
MARIADB = Kind(
    name="MariaDB",
    variable="GATEWAY_TEST_MARIADB_URL",
    scheme="mysql+asyncmy",
    port=3306,
    users=("root", getpass.getuser()),
    server_account="mysql",
    packages=("mariadb-server",),
    prepare=_prepare_mariadb,
    programs=_mariadb_programs,
    commands=_mariadb_commands,
)

if __name__ == "__main__":
    sys.exit(main())
