"""A site: both real networks, one folder, and the `gateway` process that is started, killed and started again."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from db.store import SqlStore
from devnets.network import Devnet
from gateway.app import Gateway, opened
from gateway.audit import audit
from gateway.cli.sandbox import CONFIG, prepare
from gateway.config import Config, load
from gateway.core.adapter import Adapter
from gateway.core.ids import WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.money import show
from gateway.core.records import History, Withdrawal
from gateway.intake import Request
from gateway.signers.algorithms import signing_key
from tests.acceptance.witness import key, payments

GATEWAY = Path(sys.executable).with_name("gateway")
PATIENCE = 60.0
GLANCE = 0.05
TIMING = {"lease": 1.0, "resend_after": 1.0, "poll": 0.2, "lane_poll": 0.1, "retry_pause": 0.1}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "evm": {"threshold": 2},
    "bitcoin": {"threshold": 2, "finality_depth": 4},
}
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Server:
    """One `gateway serve`, which may have ended."""

    process: asyncio.subprocess.Process
    log: Path

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    @property
    def said(self) -> str:
        """Everything that it has logged."""
        return self.log.read_text()

    async def ended(self, seconds: float = PATIENCE) -> int:
        """Return how it ended; fail when it does not."""
        try:
            return await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            pytest.fail(f"the process did not end in {seconds} s:\n{self.tail}")

    async def says(self, text: str, seconds: float = PATIENCE) -> None:
        """Return when it has logged this; fail when it does not, or ends without."""
        deadline = time.monotonic() + seconds
        while text not in self.said:
            if time.monotonic() > deadline or not self.running:
                pytest.fail(f"it did not say {text!r}:\n{self.tail}")
            await asyncio.sleep(GLANCE)

    async def stop(self) -> int:
        """Ask it to end, and return how it ended."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        """Cut its power, also when it is frozen."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    def freeze(self) -> None:
        """Let it run no further, as a machine does that is paused."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on where it was."""
        self.process.send_signal(signal.SIGCONT)

    @property
    def tail(self) -> str:
        """The end of its log."""
        return self.said[-3000:]


@dataclass
class Site:
    """Networks that live longer than any gateway on them."""

    devnets: Mapping[str, Devnet]
    folder: Path
    began: dict[str, int] = field(default_factory=dict)
    """Each chain's height before anything was accepted."""
    ids: list[WithdrawalId] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)

    @property
    def config_file(self) -> Path:
        """The configuration that the process reads."""
        return self.folder / CONFIG

    @property
    def config(self) -> Config:
        """The same, read here."""
        return load(self.config_file)

    @property
    def database(self) -> Path:
        """The database's file."""
        return self.folder / "gateway.db"

    async def prepare(
        self,
        *,
        urls: Mapping[str, Sequence[str]] | None = None,
        store: str = "sqlite:///gateway.db",
        coins: int = 3,
        settings: Mapping[str, Mapping[str, Any]] = SETTINGS,
        **timing: float,
    ) -> None:
        """Make configuration, keys and database, with a vault on each chain that has `coins` payments of two coins."""
        await prepare(
            self.folder, self.devnets, chain_settings=settings, timing={**TIMING, **timing}, urls=urls, store=store
        )
        async with opened(self.config) as gateway:
            for name, devnet in self.devnets.items():
                self.began[name] = await devnet.height()
                account = await gateway.account("hot-1", name)
                for _ in range(coins):
                    await devnet.fund(account.address, 2 * 10 ** gateway.adapters[name].info.decimals)

    # withdrawals

    async def accept(self, count: int, *, tag: str = "w", awaited: bool = True) -> list[WithdrawalId]:
        """Accept `count` withdrawals on each chain, beside whatever runs. The same tag: the same requests again.

        Not `awaited`: nobody expects them to be paid.
        """
        async with opened(self.config, signs=False) as gateway:
            try:
                for adapter in gateway.adapters.values():
                    await adapter.node.open()
                requests = [
                    await self._request(gateway, adapter, f"{tag}-{adapter.info.name}-{number}", number)
                    for adapter in gateway.adapters.values()
                    for number in range(count)
                ]
                accepted = await gateway.intake.accept_all(requests)
            finally:
                for adapter in gateway.adapters.values():
                    await adapter.node.close()
        ids = [w.id for w in accepted]
        if awaited:
            self.ids += [i for i in ids if i not in self.ids]
        return ids

    async def _request(self, gateway: Gateway, adapter: Adapter, name: str, number: int) -> Request:
        vault = await gateway.vault("hot-1")
        unit = 10**adapter.info.decimals
        amount = show(unit // 1000 + number, adapter.info.decimals)
        return Request(vault.id, adapter.info.asset, amount, self._destination(adapter, name), external_id=name)

    def _destination(self, adapter: Adapter, name: str) -> str:
        """Return an address that nobody else pays, the same one for the same name."""
        secret = hashlib.sha256(f"{self.folder}/{name}".encode()).digest()
        return adapter.codec.address_of(signing_key(adapter.info.algorithm, secret).public)

    async def withdrawals(self, ids: Sequence[WithdrawalId] | None = None) -> Sequence[Withdrawal]:
        """Return withdrawals (all that are awaited) as the database has them; missing ones are left out."""
        async with self.store() as store, store.read() as reader:
            return await reader.withdrawals(self.ids if ids is None else ids)

    async def histories(self) -> Sequence[History]:
        """Return all that happened to them."""
        async with self.store() as store, store.read() as reader:
            found = [await reader.history(i) for i in self.ids]
        return [h for h in found if h is not None]

    @asynccontextmanager
    async def store(self) -> AsyncIterator[SqlStore]:
        """Open the database beside the process."""
        store = SqlStore(self.config.store.url)
        try:
            await store.open()
            yield store
        finally:
            await store.close()

    # the process

    async def serve(self, *, crash_at: str | None = None, config: Path | None = None) -> Server:
        """Start the process, to be killed at a point if one is named."""
        log = self.folder / f"serve-{len(self.servers) + 1}.log"
        environment = {k: v for k, v in os.environ.items() if k != "GATEWAY_CRASH_AT"}
        if crash_at is not None:
            environment["GATEWAY_CRASH_AT"] = crash_at
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                str(GATEWAY),
                "serve",
                "--config",
                str(config or self.config_file),
                stdout=file,
                stderr=file,
                env=environment,
                preexec_fn=_die_with_parent,
            )
        server = Server(process, log)
        self.servers.append(server)
        return server

    @asynccontextmanager
    async def serving(self, *, crash_at: str | None = None, config: Path | None = None) -> AsyncIterator[Server]:
        """Have the process run while the body does; it is gone afterwards, whatever happened."""
        server = await self.serve(crash_at=crash_at, config=config)
        try:
            yield server
        finally:
            await server.kill()

    async def killed_at(self, point: str) -> None:
        """Run the process, with blocks coming, until it has killed itself at a point; fail if it never passes it."""
        async with self.serving(crash_at=point) as server:
            deadline = time.monotonic() + PATIENCE
            while server.running:
                if time.monotonic() > deadline:
                    pytest.fail(f"the process did not reach {point} in {PATIENCE} s:\n{server.tail}")
                await self.mine()
                await asyncio.sleep(GLANCE)
            assert await server.ended() == -signal.SIGKILL, server.tail

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run another command to its end: exit code, standard output, standard error."""
        process = await asyncio.create_subprocess_exec(
            str(GATEWAY),
            *arguments,
            "--config",
            str(self.config_file),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=_die_with_parent,
        )
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def listed(self) -> dict[str, str]:
        """Return external id and status of everything that `gateway tx list` shows."""
        code, out, err = await self.run("tx", "list", "--json", "--limit", "10000")
        assert code == 0, err
        rows = [json.loads(line) for line in out.splitlines()]
        return {row["external_id"]: row["status"] for row in rows}

    # blocks

    async def mine(self, blocks: int = 1) -> None:
        """Make blocks on each chain."""
        for devnet in self.devnets.values():
            await devnet.mine(blocks)

    async def mine_until_completed(self, *servers: Server, seconds: float = PATIENCE) -> None:
        """Make blocks until every withdrawal is COMPLETED; fail after `seconds`, or when every process has ended."""

        async def completed() -> bool:
            found = await self.withdrawals()
            return len(found) == len(self.ids) and all(w.status is Status.COMPLETED for w in found)

        await self.mine_until(completed, *servers, seconds=seconds)

    async def mine_until(
        self, holds: Callable[[], Awaitable[bool]], *servers: Server, seconds: float = PATIENCE
    ) -> None:
        """Make blocks until something holds; fail after `seconds`, or when every process has ended."""
        deadline = time.monotonic() + seconds
        while not await holds():
            if time.monotonic() > deadline or not any(server.running for server in servers):
                shown = Counter(f"{w.chain} {w.status} {w.sub_status}".strip() for w in await self.withdrawals())
                tails = "\n".join(server.tail for server in servers)
                pytest.fail(f"not so after {seconds} s: {dict(shown)} of {len(self.ids)}\n{tails}")
            await self.mine()
            await asyncio.sleep(GLANCE)

    # the database's file

    def copy_database(self) -> Path:
        """Copy the database as it is now, as a backup does."""
        copy = self.folder / "copy.db"
        with closing(sqlite3.connect(self.database)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        return copy

    def lose_database(self) -> None:
        """Remove it with all that belongs to it."""
        for file in self.folder.glob("gateway.db*"):
            file.unlink()

    def bring_back(self, copy: Path) -> None:
        """Put a copy in its place."""
        self.lose_database()
        self.database.write_bytes(copy.read_bytes())

    # what must be so at the end

    async def paid(self) -> Mapping[str, list[tuple[str, int]]]:
        """Return what the chains say was paid since the beginning, per destination."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, devnet in self.devnets.items():
            found |= await payments(devnet, self.began[name])
        return found

    async def prove_paid_once(self) -> int:
        """Check that each destination got exactly its amount, from one transaction, and that the audit agrees.

        Returns the number of payments that the chains show.
        """
        histories = await self.histories()
        assert len(histories) == len(self.ids)
        paid = await self.paid()
        for history in histories:
            w = history.withdrawal
            assert w.status is Status.COMPLETED
            signed = {a.raw for a in history.attempts if a.raw} | {b.raw for b in history.broadcasts}
            hashes = {a.tx_hash for a in history.attempts if a.tx_hash} | {b.tx_hash for b in history.broadcasts}
            assert len(signed) == len(hashes) == 1, f"{w.id} was signed {len(signed)} times"
            assert paid[key(w.destination)] == [(hashes.pop(), w.amount)], f"{w.chain}: {w.id} was not paid once"
            assert await self.devnets[w.chain].balance(w.destination) == w.amount
        await self.audit()
        return sum(len(paid[key(h.withdrawal.destination)]) for h in histories)

    async def audit(self) -> None:
        """Have the gateway itself look: what `gateway audit` prints, without the seconds that a process takes."""
        async with opened(self.config, signs=False) as gateway:
            try:
                for adapter in gateway.adapters.values():
                    await adapter.node.open()
                report = await audit(gateway.store, gateway.adapters)
            finally:
                for adapter in gateway.adapters.values():
                    await adapter.node.close()
        assert (report.findings, report.unchecked) == ((), ())


def _die_with_parent() -> None:
    """Leave no gateway behind when the tests are killed (runs in the child, before the program)."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
