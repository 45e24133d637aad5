"""What one new block costs: calls to the node, time of this process, and how soon COMPLETED is committed."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from devnets.network import Devnet
from devnets.proxy import FaultProxy
from gateway.app import Gateway, opened
from gateway.cli.demo import running
from gateway.cli.sandbox import networks, prepare
from gateway.core.adapter import Node
from gateway.core.chain import BlockRef
from gateway.core.ids import WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.substatus import SubStatus
from gateway.intake import Request
from gateway.tracker import Tracker
from tests.bench.figures import Figure, at_most
from tests.crowd import put_in_flight

FEW = 10
BLOCKS = 30
VAULTS = tuple(f"hot-{number + 1}" for number in range(20))
UNIT = 10**18
MOST_CPU_MS = 5.0
MOST_LATENCY_MS = 50.0
GLANCE = 0.02
QUIET = {"resend_after": 3600.0, "lease": 600.0}
"""Nothing is offered again meanwhile: that is limited apart from the reads."""


@asynccontextmanager
async def standing(*, proxied: bool = False) -> AsyncIterator[tuple[Gateway, Devnet, FaultProxy]]:
    """Open a gateway of 20 vaults on a network that makes blocks when told; `proxied`: its calls are counted."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with networks(["evm"], Path(folder)) as devnets, FaultProxy(devnets["evm"].url) as proxy:
            urls = {"evm": [proxy.url]} if proxied else None
            config = await prepare(Path(folder) / "gateway", devnets, vaults=VAULTS, urls=urls, timing=QUIET)
            async with opened(config) as gateway:
                try:
                    yield gateway, devnets["evm"], proxy
                finally:
                    await gateway.adapters["evm"].node.close()


async def calls(many: int) -> list[Figure]:
    """Count the calls of following empty blocks with few and with many attempts in flight."""
    async with standing(proxied=True) as (gateway, devnet, proxy):
        tracker = await _started(gateway)
        counts = []
        for in_flight in (FEW, many):
            await _fill(gateway, devnet, in_flight)
            proxy.reset()
            for _ in range(BLOCKS):
                await devnet.mine()
                await tracker.step()
            counts.append(proxy.counts)
    few, crowd = (f"{count.total() / BLOCKS:g}" for count in counts)
    each = " + ".join(f"{n / BLOCKS:g} {method}" for method, n in sorted(counts[-1].items()))
    what = f"calls per new block, {FEW} and {many} in flight"
    return [Figure(what, f"{few} and {crowd}", "equal", counts[0] == counts[1], each)]


async def cpu(many: int) -> list[Figure]:
    """Measure this process's time for following an empty block with few and with many attempts in flight."""
    async with standing() as (gateway, devnet, _):
        tracker = await _started(gateway)
        medians = []
        for in_flight in (FEW, many):
            await _fill(gateway, devnet, in_flight)
            spent = []
            for _ in range(BLOCKS):
                await devnet.mine()
                before = time.process_time()
                await tracker.step()
                spent.append((time.process_time() - before) * 1000)
            medians.append(statistics.median(spent))
    what = f"CPU per new block, {many} in flight and none of them in it"
    limit = f"three reads of the node, three transactions; {medians[0]:.2f} ms with {FEW}"
    return [at_most(what, medians[1], MOST_CPU_MS, "ms", limit)]


async def latency() -> list[Figure]:
    """Measure from the moment in which the tracker learns of a block until COMPLETED is committed."""
    async with standing() as (plain, devnet, _):
        adapter = plain.adapters["evm"]
        watch = Stopwatch(adapter.node)
        watched = {"evm": replace(adapter, node=cast(Node, watch))}
        gateway = Gateway(plain.config, plain.store, plain.signer, watched, plain.workspace)
        for vault in VAULTS:
            await devnet.fund((await gateway.account(vault, "evm")).address, 100 * UNIT)
        took = []
        async with running(gateway):
            tracker = gateway.loops["evm"].tracker
            await tracker.advanced.wait()
            for turn in range(BLOCKS):
                ids = await _pay(gateway, turn)
                await _reach(gateway, ids, Status.BROADCASTING, SubStatus.SENDING_TO_NODE)
                tracker.advanced.clear()
                await devnet.mine()
                await tracker.advanced.wait()
                took.append((time.perf_counter() - watch.seen) * 1000)
                await _reach(gateway, ids, Status.COMPLETED)
    what = f"block seen → COMPLETED committed, median of {BLOCKS} blocks with {len(VAULTS)} payments each"
    limit = f"one transaction of some 20 statements; {min(took):.0f} to {max(took):.0f} ms"
    return [at_most(what, statistics.median(took), MOST_LATENCY_MS, "ms", limit)]


class Stopwatch:
    """A node that notes when it last told of a new head."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.seen = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    async def next_head(self, known: BlockRef, within: float) -> BlockRef:
        """Pass the head on."""
        head = await self._node.next_head(known, within)
        if head.hash != known.hash:
            self.seen = time.perf_counter()
        return head


async def _started(gateway: Gateway) -> Tracker:
    await gateway.adapters["evm"].node.open()
    tracker = gateway.loops["evm"].tracker
    if not await tracker.start():
        raise RuntimeError("somebody else has the tracker")
    return tracker


async def _fill(gateway: Gateway, devnet: Devnet, in_flight: int) -> None:
    tracker = gateway.loops["evm"].tracker
    await put_in_flight(gateway, "evm", in_flight - tracker.in_flight)
    await devnet.mine()
    await tracker.step()
    if tracker.in_flight != in_flight:
        raise RuntimeError(f"{tracker.in_flight} are tracked, not {in_flight}")


async def _pay(gateway: Gateway, turn: int) -> list[WithdrawalId]:
    requests = [
        Request((await gateway.vault(vault)).id, "ETH", "0.001", f"0x{turn + 1:020x}{at + 1:020x}")
        for at, vault in enumerate(VAULTS)
    ]
    accepted = await gateway.intake.accept_all(requests)
    gateway.loops["evm"].kick.set()
    return [w.id for w in accepted]


async def _reach(
    gateway: Gateway, ids: Sequence[WithdrawalId], status: Status, sub_status: SubStatus | None = None
) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        async with gateway.store.read() as reader:
            found = await reader.withdrawals(ids)
        if all(w.status is status and sub_status in (None, w.sub_status) for w in found):
            return
        await asyncio.sleep(GLANCE)
    raise RuntimeError(f"not {status} after a minute")
