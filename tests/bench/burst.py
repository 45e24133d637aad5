"""End to end: a burst of withdrawals from accepted to COMPLETED, against a bare script that only signs and sends."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from eth_account import Account
from sqlalchemy import make_url

from devnets.network import Devnet, Interval
from gateway.app import Gateway, opened
from gateway.cli import logs
from gateway.cli.demo import running
from gateway.cli.sandbox import networks, prepare
from gateway.core.ids import WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.money import show
from gateway.intake import Request
from tests.bench import bare
from tests.bench.databases import fresh
from tests.bench.figures import Figure

VAULTS = 20
BLOCKS = Interval(1.0)
UNIT = 10**18
LEAST = 0.5
PATIENCE = 600.0
GLANCE = 0.05
LOOK = 20


@dataclass(frozen=True, slots=True)
class Burst:
    """One gateway's burst. Seconds: of the intake alone, and from its end until all were COMPLETED."""

    intake: float
    seconds: float


async def measure(count: int, servers: Sequence[str | None]) -> list[Figure]:
    """Run the bare script, then a gateway on each database, each on a network of its own."""
    depth = -(-count // VAULTS)
    script = await _bare(count)
    figures = [
        Figure(
            f"bare script, {count} payments from {VAULTS} keys",
            f"{count / script:.0f}/s",
            "",
            None,
            f"{script:.2f} s: eth-account signs, anvil takes one by one, a block every {BLOCKS.seconds} s",
        )
    ]
    for server in servers:
        async with fresh(server) as url:
            burst = await _gateway(count, url, depth)
        name = make_url(url).get_backend_name()
        ratio = script / burst.seconds
        with_intake = script / (burst.seconds + burst.intake)
        figures.append(
            Figure(
                f"end to end on {name}, {count} from {VAULTS} vaults, lane depth {depth}",
                f"{count / burst.seconds:.0f}/s = {ratio:.2f} of the script ({with_intake:.2f} with intake)",
                f"≥ {LEAST}",
                ratio >= LEAST,
                f"{burst.seconds:.2f} s (+ {burst.intake:.2f} s intake): Python's time for rows and checks, one thread",
            )
        )
    return figures


async def _bare(count: int) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with networks(["evm"], Path(folder), mining=BLOCKS) as devnets:
            devnet = devnets["evm"]
            keys = [f"0x{number + 1:064x}" for number in range(VAULTS)]
            for key in keys:
                await devnet.fund(Account.from_key(key).address, 100 * UNIT)
            work = {key: [(_destination(n), 1 + n) for n in range(at, count, VAULTS)] for at, key in enumerate(keys)}
            seconds = await bare.pay(devnet.url, int(devnet.identity), work)
            await _check(devnet, count)
            return seconds


async def _gateway(count: int, store: str, depth: int) -> Burst:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, _logging_to(Path(folder) / "log"):
        async with networks(["evm"], Path(folder), mining=BLOCKS) as devnets:
            vaults = [f"hot-{number + 1}" for number in range(VAULTS)]
            config = await prepare(
                Path(folder) / "gateway",
                devnets,
                vaults=vaults,
                store=store,
                chain_settings={"evm": {"lane_depth": depth}},
                timing={"resend_after": 60.0, "poll": 5.0, "lane_poll": 1.0, "lease": 20.0},
            )
            async with opened(config) as gateway:
                for vault in vaults:
                    await devnets["evm"].fund((await gateway.account(vault, "evm")).address, 100 * UNIT)
                burst = await _burst(gateway, vaults, count)
            await _check(devnets["evm"], count)
            return burst


async def _burst(gateway: Gateway, vaults: Sequence[str], count: int) -> Burst:
    loop = gateway.loops["evm"]
    ids = {name: (await gateway.vault(name)).id for name in vaults}
    requests = [
        Request(ids[vaults[n % VAULTS]], "ETH", show(1 + n, 18), _destination(n), external_id=f"burst-{n}")
        for n in range(count)
    ]
    async with running(gateway), asyncio.timeout(PATIENCE):
        await loop.tracker.advanced.wait()
        began = time.perf_counter()
        accepted = [w.id for w in await gateway.intake.accept_all(requests)]
        started = time.perf_counter()
        loop.kick.set()
        while accepted:
            await loop.tracker.advanced.wait()
            await asyncio.sleep(GLANCE)
            accepted = await _not_completed(gateway, accepted)
        return Burst(started - began, time.perf_counter() - started)


async def _not_completed(gateway: Gateway, ids: list[WithdrawalId]) -> list[WithdrawalId]:
    """Return what is left; looks at the rest only when the first few are done, so that looking costs little."""
    while ids:
        async with gateway.store.read() as reader:
            first = await reader.withdrawals(ids[:LOOK])
        left = [w.id for w in first if w.status is not Status.COMPLETED]
        if left:
            return left + ids[LOOK:]
        ids = ids[LOOK:]
    return []


async def _check(devnet: Devnet, count: int) -> None:
    for number in (0, count // 2, count - 1):
        if await devnet.balance(_destination(number)) != 1 + number:
            raise RuntimeError(f"payment {number} did not arrive exactly once")


def _destination(number: int) -> str:
    return f"0x{0x5EED << 96 | number:040x}"


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Log as the gateway does, to a file: 2 000 lines would hide the table."""
    before = structlog.get_config()
    with path.open("w") as file, contextlib.redirect_stderr(file):
        logs.set_up("info", colors=False)
        try:
            yield
        finally:
            structlog.configure(**before)
