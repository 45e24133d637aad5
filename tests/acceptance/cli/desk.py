"""A desk: one folder with configuration, keys and database, and the `gateway` command to be called on it."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from gateway.cli.main import app
from gateway.cli.sandbox import CONFIG

GATEWAY = Path(sys.executable).with_name("gateway")
PATIENCE = 60.0


@dataclass(frozen=True)
class Ran:
    """What a command that has ended left behind."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines on standard error that say what is wrong."""
        return [line for line in self.err.splitlines() if line.startswith("error")]


@dataclass
class Desk:
    """One folder, and secrets that nobody may ever print or store."""

    folder: Path
    secrets: Sequence[str] = ()
    said: list[str] = field(default_factory=list)

    @property
    def config_file(self) -> Path:
        return self.folder / CONFIG

    @property
    def database(self) -> Path:
        return self.folder / "gateway.db"

    def copy(self, folder: Path) -> Desk:
        """Return the same desk in another folder."""
        shutil.copytree(self.folder, folder)
        return Desk(folder, self.secrets)

    def rewrite(self, old: str, new: str) -> None:
        """Replace text that stands once in the configuration."""
        text = self.config_file.read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in:\n{text}"
        self.config_file.write_text(text.replace(old, new))

    def setting(self, name: str, value: str, *, chain: str | None = None) -> None:
        """Set one line of a chain's table, or of the only table that has the name."""
        text = self.config_file.read_text()
        begin = 0 if chain is None else text.index(f'[[chain]]\nname = "{chain}"')
        found = re.compile(rf"^{name} = .*$", re.MULTILINE).search(text, begin)
        assert found is not None, f"no {name} in:\n{text}"
        self.config_file.write_text(f"{text[: found.start()]}{name} = {value}{text[found.end() :]}")

    def run(self, *arguments: str, config: bool = True) -> Ran:
        """Call the command in this process (importing it anew would take seconds each time)."""
        try:
            result = CliRunner().invoke(app, self._with_config(arguments, config))
        finally:
            structlog.reset_defaults()  # the command's log led to a stream that is closed now
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(f"gateway {' '.join(arguments)}: an error came through") from result.exception
        return self._heard(Ran(result.exit_code, result.stdout, result.stderr))

    def process(
        self, *arguments: str, config: bool = True, environment: Mapping[str, str] | None = None, seconds: float = 60.0
    ) -> Ran:
        """Call the real command in a process of its own."""
        done = subprocess.run(
            [str(GATEWAY), *self._with_config(arguments, config)],
            capture_output=True,
            text=True,
            timeout=seconds,
            env=environment,
            check=False,
        )
        return self._heard(Ran(done.returncode, done.stdout, done.stderr))

    def refused(self, *arguments: str, saying: Sequence[str], code: int = 1) -> Ran:
        """Call the command; it must fail with one line each that holds these texts, and change nothing."""
        before = self.counts()
        ran = self.run(*arguments)
        self.check_refusal(ran, saying, code=code)
        assert self.counts() == before, "a refused command left something behind"
        return ran

    def check_refusal(self, ran: Ran, saying: Sequence[str], *, code: int = 1) -> None:
        """Check how a command failed: plainly, and for these reasons only."""
        assert ran.code == code, f"exit code {ran.code}: {ran.err}{ran.out}"
        assert "Traceback" not in ran.err + ran.out
        assert len(ran.errors) == len(saying), f"{len(ran.errors)} errors:\n{ran.err}"
        for text in saying:
            assert any(text in line for line in ran.errors), f"{text!r} is not in:\n{ran.err}"

    def counts(self) -> dict[str, int]:
        """Return how many rows each table has."""
        if not self.database.exists():
            return {}
        with closing(sqlite3.connect(self.database)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {t: connection.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0] for t in tables}

    @contextmanager
    def serving(self) -> Iterator[Serving]:
        """Have `gateway serve` run while the body does; it is gone afterwards, whatever happened."""
        log = self.folder / "serve.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(GATEWAY), "serve", "--config", str(self.config_file)], stdout=file, stderr=file
            )
        try:
            yield Serving(process, log)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
            self._heard(Ran(process.returncode, "", log.read_text()))

    def no_secret_is_out(self) -> None:
        """Check everything that was printed and every byte of the database."""
        assert self.secrets
        stored = [p for p in self.folder.rglob("gateway.db*") if p.is_file()]
        for secret in self.secrets:
            assert len(secret) >= 8
            for text in self.said:
                assert secret not in text, "a secret was printed"
            for path in stored:
                assert secret.encode() not in path.read_bytes(), f"a secret stands in {path.name}"

    def _with_config(self, arguments: Sequence[str], config: bool) -> list[str]:
        return [*arguments, "--config", str(self.config_file)] if config else list(arguments)

    def _heard(self, ran: Ran) -> Ran:
        self.said.append(ran.out + ran.err)
        return ran


@dataclass
class Serving:
    """One `gateway serve` that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, text: str, *, times: int = 1) -> None:
        """Return when the log says so; fail when the process ends first."""
        deadline = time.monotonic() + PATIENCE
        while self.log.read_text().count(text) < times:
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{text!r} is not in the log:\n{self.log.read_text()}")
            time.sleep(0.05)

    def ended(self) -> Ran:
        """Return how it ended by itself."""
        code = self.process.wait(PATIENCE)
        return Ran(code, "", self.log.read_text())

    def stop(self) -> Ran:
        """Ask it to end."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()
