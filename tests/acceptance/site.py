"""A site: both real networks, one folder, and the `gateway` process that is started, killed and started again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from db.store import SqlStore
from devnets.network import Devnet
from gateway.app import opened
from gateway.cli.sandbox import CONFIG, prepare
from gateway.config import Config, load
from gateway.core.ids import WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.money import show
from gateway.core.records import History, Withdrawal
from gateway.intake import Request

GATEWAY = Path(sys.executable).with_name("gateway")
PATIENCE = 60.0
GLANCE = 0.1
TIMING = {"lease": 1.0, "resend_after": 1.0, "poll": 0.2, "lane_poll": 0.1, "retry_pause": 0.1}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "evm": {"threshold": 2},
    "bitcoin": {"threshold": 2, "finality_depth": 4},
}


@dataclass
class Server:
    """One `gateway serve` that runs."""

    process: asyncio.subprocess.Process
    log: Path

    async def ended(self, seconds: float = PATIENCE) -> int:
        """Return how it ended; fail when it does not."""
        try:
            return await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            pytest.fail(f"the process did not end in {seconds} s:\n{self.log.read_text()[-3000:]}")

    async def stop(self) -> int:
        """Ask it to end."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        """Cut its power."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None


@dataclass
class Site:
    """Networks that live longer than any gateway on them."""

    devnets: Mapping[str, Devnet]
    folder: Path
    before: dict[str, int] = field(default_factory=dict)
    """What each destination held before anything was accepted."""
    ids: list[WithdrawalId] = field(default_factory=list)
    starts: int = 0

    @property
    def config_file(self) -> Path:
        """The configuration that the process reads."""
        return self.folder / CONFIG

    @property
    def config(self) -> Config:
        """The same, read here."""
        return load(self.config_file)

    async def prepare(self, *, urls: Mapping[str, Sequence[str]] | None = None, **timing: float) -> None:
        """Make configuration, keys and database, with a funded vault on each chain."""
        await prepare(self.folder, self.devnets, chain_settings=SETTINGS, timing={**TIMING, **timing}, urls=urls)
        async with opened(self.config) as gateway:
            for name, devnet in self.devnets.items():
                account = await gateway.account("hot-1", name)
                unit = 10 ** gateway.adapters[name].info.decimals
                for _ in range(3):
                    await devnet.fund(account.address, 2 * unit)

    async def accept(self, count: int, *, tag: str = "w") -> list[WithdrawalId]:
        """Accept `count` withdrawals on each chain, while no process runs here."""
        async with opened(self.config) as gateway:
            vault = await gateway.vault("hot-1")
            requests = []
            for name, adapter in gateway.adapters.items():
                await adapter.node.open()
                for number in range(count):
                    key = await gateway.signer.public_key(
                        f"to/{self.folder.name}/{tag}/{number}", adapter.info.algorithm
                    )
                    destination = adapter.codec.address_of(key)
                    self.before[destination] = await self.devnets[name].balance(destination)
                    amount = show(10**adapter.info.decimals // 100 + number, adapter.info.decimals)
                    external = f"{tag}-{name}-{number}"
                    requests.append(Request(vault.id, adapter.info.asset, amount, destination, external_id=external))
            try:
                accepted = await gateway.intake.accept_all(requests)
            finally:
                for adapter in gateway.adapters.values():
                    await adapter.node.close()
        ids = [w.id for w in accepted]
        self.ids += [i for i in ids if i not in self.ids]
        return ids

    async def serve(self, *, crash_at: str | None = None) -> Server:
        """Start the process, to be killed at a point if one is named."""
        self.starts += 1
        log = self.folder / f"serve-{self.starts}.log"
        environment = {k: v for k, v in os.environ.items() if k != "GATEWAY_CRASH_AT"}
        if crash_at is not None:
            environment["GATEWAY_CRASH_AT"] = crash_at
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                str(GATEWAY), "serve", "--config", str(self.config_file), stdout=file, stderr=file, env=environment
            )
        return Server(process, log)

    @asynccontextmanager
    async def serving(self, *, crash_at: str | None = None) -> AsyncIterator[Server]:
        """Have the process run while the body does; it is gone afterwards, whatever happened."""
        server = await self.serve(crash_at=crash_at)
        try:
            yield server
        finally:
            await server.kill()

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run another command to its end: exit code, standard output, standard error."""
        process = await asyncio.create_subprocess_exec(
            str(GATEWAY),
            *arguments,
            "--config",
            str(self.config_file),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def mine(self) -> None:
        """One block on each chain."""
        for devnet in self.devnets.values():
            await devnet.mine()

    async def mine_until_ended(self, server: Server, *, seconds: float = PATIENCE) -> int:
        """Make blocks until the process has ended; return how."""
        deadline = time.monotonic() + seconds
        while server.running:
            if time.monotonic() > deadline:
                pytest.fail(f"the process did not reach its point in {seconds} s:\n{server.log.read_text()[-3000:]}")
            await self.mine()
            await asyncio.sleep(GLANCE)
        return await server.ended()

    async def mine_until_completed(self, server: Server, *, seconds: float = PATIENCE) -> None:
        """Make blocks until every withdrawal is COMPLETED."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.withdrawals()
            if len(found) == len(self.ids) and all(w.status is Status.COMPLETED for w in found):
                return
            if time.monotonic() > deadline or not server.running:
                shown = sorted(f"{w.chain} {w.status} {w.sub_status}" for w in found)
                pytest.fail(f"not COMPLETED after {seconds} s: {shown}\n{server.log.read_text()[-3000:]}")
            await self.mine()
            await asyncio.sleep(GLANCE)

    async def withdrawals(self) -> Sequence[Withdrawal]:
        """Return every withdrawal that was accepted, as the database has it."""
        async with self.store() as store, store.read() as reader:
            return await reader.withdrawals(self.ids)

    async def histories(self) -> Sequence[History]:
        """Return the same with all that happened to them."""
        async with self.store() as store, store.read() as reader:
            found = [await reader.history(i) for i in self.ids]
        return [h for h in found if h is not None]

    @asynccontextmanager
    async def store(self) -> AsyncIterator[SqlStore]:
        """Open the database beside the process."""
        store = SqlStore(self.config.store.url)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    async def prove_paid_once(self) -> None:
        """Check that each destination got exactly its amount, from one transaction, and that the audit agrees."""
        histories = await self.histories()
        assert len(histories) == len(self.ids)
        for history in histories:
            w = history.withdrawal
            assert w.status is Status.COMPLETED
            signed = {a.raw for a in history.attempts if a.raw} | {b.raw for b in history.broadcasts}
            hashes = {a.tx_hash for a in history.attempts if a.tx_hash} | {b.tx_hash for b in history.broadcasts}
            assert len(signed) == len(hashes) == 1, f"{w.id} was signed {len(signed)} times"
            arrived = await self.devnets[w.chain].balance(w.destination) - self.before[w.destination]
            assert arrived == w.amount, f"{w.chain}: {arrived} arrived instead of {w.amount}"
        code, out, err = await self.run("audit", "--json")
        report = json.loads(out)
        assert (code, report["findings"], report["unchecked"]) == (0, [], []), err
