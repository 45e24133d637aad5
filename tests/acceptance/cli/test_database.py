"""The database: missing, empty, read-only, damaged, gone while in use. Nothing is lost, and the reason is said."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.cli.desk import Desk, Ran

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin]

NOBODY = 65534
AS_NOBODY = f"""
import os, sys
import gateway.app, gateway.cli.database, gateway.cli.tx, gateway.cli.lane, adapters.evm, adapters.bitcoin, aiosqlite
from alembic.runtime import migration
from gateway.cli.main import app
if os.getuid() == 0:
    os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
app(sys.argv[1:])
"""
"""Root may write everywhere, so the command gives up its rights once it is imported."""


def test_a_missing_database_is_not_made_by_accident(desk: Desk) -> None:
    desk.database.unlink()
    for command in (("tx", "list"), ("serve",), ("audit",)):
        desk.refused(*command, saying=["there is no file"])
    assert not desk.database.exists()
    ran = desk.run("db", "check")
    assert (ran.code, "there is no file" in ran.out) == (1, True)


def test_a_database_without_a_schema_is_refused_until_it_is_upgraded(desk: Desk) -> None:
    for path in desk.folder.glob("gateway.db*"):
        path.unlink()
    desk.database.touch()
    for command in (("tx", "list"), ("serve",)):
        desk.refused(*command, saying=["it has no schema, this version needs 0001; run `gateway db upgrade`"])
    assert desk.run("db", "upgrade").code == 0
    assert desk.run("tx", "list").code == 0


def test_upgrading_twice_is_harmless(desk: Desk) -> None:
    before = desk.counts()
    for _ in range(2):
        ran = desk.run("db", "upgrade")
        assert (ran.code, ran.out) == (0, "the database is up to date\n"), ran.err
    assert desk.counts() == before
    assert desk.run("db", "check").out == "the database is as it should be\n"


def test_a_guard_that_was_taken_away_is_missed(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.database)) as connection:
        (guard,) = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' LIMIT 1").fetchone()
        connection.execute(f"DROP TRIGGER {guard}")
    ran = desk.run("db", "check")
    assert (ran.code, ran.out) == (1, f"database: guard {guard} is missing\n")
    desk.refused("serve", saying=[f"guard {guard} is missing"])


def test_a_file_that_is_no_database_is_refused(desk: Desk) -> None:
    desk.database.write_bytes(b"not a database, but longer than a page header would be" * 40)
    for command in (("tx", "list"), ("serve",)):
        ran = desk.run(*command)
        desk.check_refusal(ran, ["file is not a database"])


@pytest.fixture
def read_only(desk: Desk) -> Desk:
    """The same desk for another user, who may read the database and not write it."""
    if os.getuid() == 0:
        # The folders above belong to root alone.
        place = Path("/tmp") / f"gateway-read-only-{os.getpid()}"
        shutil.copytree(desk.folder, place)
        for path in (place, *place.iterdir()):
            os.chown(path, NOBODY, NOBODY)
    else:
        place = desk.folder
    for path in place.glob("gateway.db*"):
        path.chmod(0o400)
    place.chmod(0o500)
    return Desk(place, desk.secrets)


def test_a_read_only_database_is_reported(read_only: Desk) -> None:
    try:
        for command in (["db", "upgrade"], ["serve"]):
            done = subprocess.run(
                [sys.executable, "-c", AS_NOBODY, *command, "--config", str(read_only.config_file)],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            ran = Ran(done.returncode, done.stdout, done.stderr)
            read_only.said.append(ran.out + ran.err)
            read_only.check_refusal(ran, ["the database"])
        read_only.no_secret_is_out()
    finally:
        read_only.folder.chmod(0o700)
        if read_only.folder.parent == Path("/tmp"):
            shutil.rmtree(read_only.folder)


def test_serve_waits_for_a_database_that_went_away_and_goes_on(desk: Desk) -> None:
    away = desk.folder / "away.db"
    with desk.serving() as server:
        server.wait_for("serving")
        desk.database.rename(away)
        server.wait_for("is gone", times=3)
        assert server.process.poll() is None
        away.rename(desk.database)
        ran = desk.run("tx", "list")
        assert ran.code == 0, ran.err
        stopped = server.stop()
    assert (stopped.code, "Traceback" in stopped.err) == (130, False), stopped.err


def test_serve_can_be_ended_while_the_database_is_gone(desk: Desk) -> None:
    with desk.serving() as server:
        server.wait_for("serving")
        desk.database.rename(desk.folder / "away.db")
        server.wait_for("is gone")
        stopped = server.stop()
    assert "Traceback" not in stopped.err, stopped.err
    assert stopped.code == 130
