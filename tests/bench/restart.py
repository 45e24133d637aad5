"""A new process over a store with many in flight: how soon it follows the chain again, and how large it grows."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from devnets.network import Devnet
from gateway.app import opened
from gateway.cli import logs
from gateway.cli.demo import running
from gateway.cli.sandbox import networks, prepare
from gateway.config import Config, load
from tests.bench.blocks import VAULTS
from tests.bench.figures import Figure, at_most
from tests.crowd import put_in_flight

MOST_SECONDS = 5.0
MOST_MIB = 300.0
BLOCKS_AFTER = 5
GLANCE = 0.01
CONFIG = "gateway.toml"


async def measure(many: int) -> list[Figure]:
    """Fill a store, make a block that nobody saw, start a process, and wait until it has followed that block."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with networks(["evm"], Path(folder)) as devnets:
            config = await prepare(Path(folder) / "gateway", devnets, vaults=VAULTS)
            await _fill(config, many)
            seconds, size = await _restart(devnets["evm"], Path(folder) / "gateway" / CONFIG)
    return [
        at_most(
            f"restart with {many} in flight → following the chain again",
            seconds,
            MOST_SECONDS,
            "s",
            "imports, then reading each attempt from the store",
        ),
        at_most(
            f"memory with {many} in flight, the most until {BLOCKS_AFTER} blocks later",
            size,
            MOST_MIB,
            "MiB",
            "the libraries; each attempt keeps its payload and signed bytes",
        ),
    ]


async def _fill(config: Config, many: int) -> None:
    async with opened(config) as gateway:
        async with running(gateway):
            await gateway.loops["evm"].tracker.advanced.wait()
        await put_in_flight(gateway, "evm", many)


async def _restart(devnet: Devnet, config: Path) -> tuple[float, float]:
    (block,) = await devnet.mine()
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(config), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            await _followed(process.stdin, process.stdout, block)
            seconds, size = time.perf_counter() - started, 0.0
            for _ in range(BLOCKS_AFTER):
                (block,) = await devnet.mine()
                size = await _followed(process.stdin, process.stdout, block)
            process.stdin.close()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    return seconds, size


async def _followed(orders: asyncio.StreamWriter, answers: asyncio.StreamReader, block: str) -> float:
    """Ask the process to say when it has followed a block; return the most memory that it has had, in MiB."""
    orders.write(f"{block}\n".encode())
    await orders.drain()
    return float(json.loads(await answers.readline()))


async def _serve(config: Path) -> None:
    """Run a gateway; answer each block named on standard input when it has been followed."""
    loop = asyncio.get_running_loop()
    async with opened(load(config)) as gateway, running(gateway):
        tracker = gateway.loops["evm"].tracker
        while block := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            while tracker.tip is None or tracker.tip.hash != block:  # noqa: ASYNC110 (lanes clear the event)
                await asyncio.sleep(GLANCE)
            print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), flush=True)


if __name__ == "__main__":
    logs.set_up("error", colors=False)
    asyncio.run(_serve(Path(sys.argv[1])))
