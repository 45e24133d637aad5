"""Run local networks until told to stop: what `gateway devnet up` does."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from devnets.network import Devnet, DevnetError, Interval, LeverMissing, Mining
from devnets.registry import create

EVERY_SECOND = Interval(1.0)


@dataclass(frozen=True)
class Running:
    """What somebody needs to use a network that has just started."""

    name: str
    kind: str
    url: str
    network: str
    """Chain id (EVM) or coin (Bitcoin family)."""
    account: str | None
    """Address of a funded account; None where funds come by `fund` only."""
    private_key: str | None
    """That account's key. It is public by its making: never use it elsewhere."""
    log: str | None


async def up(
    chains: Sequence[str],
    folder: Path,
    *,
    say: Callable[[Running], None],
    seed: str = "devnet",
    mining: Mining = EVERY_SECOND,
) -> None:
    """Start the networks, `say` each when it answers, run until TERM, Ctrl-C or cancellation, stop them all.

    Returns after TERM or Ctrl-C. Raises DevnetMissing before anything starts, DevnetError when a network ends
    by itself. Data and logs are in `folder/<chain>`.
    """
    devnets = [create(chain, folder / chain, seed=seed, mining=mining) for chain in chains]
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told_to_stop.set)
    running = asyncio.create_task(_run(devnets, say))
    stop = asyncio.create_task(told_to_stop.wait())
    try:
        await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, stop):
            task.cancel()
        await asyncio.gather(running, stop, return_exceptions=True)
        await asyncio.gather(*(devnet.stop() for devnet in devnets))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def as_text(running: Running) -> str:
    """Return a few lines for people."""
    lines = [f"{running.name}: {running.kind}, {running.network}", f"  url      {running.url}"]
    if running.account is not None:
        lines.append(f"  account  {running.account}  (key {running.private_key}, for tests only)")
    if running.log is not None:
        lines.append(f"  log      {running.log}")
    return "\n".join(lines)


def as_json(running: Running) -> str:
    """Return one line for programs."""
    return json.dumps(asdict(running))


async def _run(devnets: Sequence[Devnet], say: Callable[[Running], None]) -> None:
    for devnet in devnets:
        await devnet.start()
        say(_describe(devnet))
    ends = {asyncio.create_task(devnet.wait()): devnet.name for devnet in devnets}
    try:
        ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ends:
            task.cancel()
    raise DevnetError(f"{', '.join(ends[task] for task in ended)} ended by itself; see its log")


def _describe(devnet: Devnet) -> Running:
    try:
        account, key = devnet.dev_account()
    except LeverMissing:
        account, key = None, None
    log = None if devnet.log is None else str(devnet.log)
    return Running(devnet.name, str(devnet.kind), devnet.url, devnet.identity, account, key, log)
