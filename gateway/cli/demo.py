"""`gateway demo`: local networks, a gateway, withdrawals to COMPLETED, and what the chains say of them."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from devnets.network import Devnet, DevnetError
from gateway.app import Gateway, opened
from gateway.cli.networks import choose
from gateway.cli.sandbox import EVERY_HALF_SECOND, networks, prepare
from gateway.core.ids import WithdrawalId
from gateway.core.lifecycle import FINAL, Status
from gateway.core.money import show
from gateway.core.records import Withdrawal
from gateway.intake import Request

PATIENCE = 120.0
"""Seconds after which a withdrawal that is not COMPLETED counts as failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One withdrawal of the demo, and whether an independent client saw exactly its amount arrive."""

    withdrawal: Withdrawal
    attempts: int
    arrived: int
    seconds: float

    @property
    def good(self) -> bool:
        """COMPLETED, and the destination's balance grew by exactly the amount."""
        return self.withdrawal.status is Status.COMPLETED and self.arrived == self.withdrawal.amount


async def demo(chains: Sequence[str], *, as_json: bool, keep: Path | None, count: int) -> bool:
    """Run the demo on these chains (none named: all that can run here); True when every withdrawal is good."""
    wanted = choose(chains)
    console = Console(stderr=as_json)
    try:
        return await _demo(wanted, console, as_json=as_json, keep=keep, count=count)
    except DevnetError as error:
        print(f"error: {error}", file=sys.stderr)
        return False


async def _demo(wanted: Sequence[str], console: Console, *, as_json: bool, keep: Path | None, count: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="gateway-demo-") as temporary:
        work = Path(temporary)
        if keep is not None and not _can_keep(keep):
            return False
        async with networks(wanted, work / "networks", mining=EVERY_HALF_SECOND) as devnets:
            for name, devnet in devnets.items():
                console.print(f"{name}: {devnet.kind} ({devnet.identity})", highlight=False)
            config = await prepare(work / "gateway", devnets)
            async with opened(config) as gateway:
                outcomes = await _pay(gateway, devnets, count, console)
        if keep is not None:
            shutil.copytree(work / "gateway", keep, dirs_exist_ok=True)
            console.print(f"kept {keep / 'gateway.db'}", highlight=False)
    _tell(outcomes, console, as_json=as_json)
    return bool(outcomes) and all(o.good for o in outcomes)


def _can_keep(folder: Path) -> bool:
    """Say before anything runs whether the results can be left in `folder`; print why not."""
    problem = None
    if (folder / "gateway.db").exists():
        problem = f"{folder / 'gateway.db'} exists already"
    else:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = error.strerror
    if problem is not None:
        print(f"error: --keep: {problem}", file=sys.stderr)
    return problem is None


async def _pay(gateway: Gateway, devnets: Mapping[str, Devnet], count: int, console: Console) -> Sequence[Outcome]:
    requests: list[Request] = []
    before: dict[str, int] = {}
    vault = await gateway.vault("hot-1")
    for name, devnet in devnets.items():
        info = gateway.adapters[name].info
        unit = 10**info.decimals
        account = await gateway.account("hot-1", name)
        await devnet.fund(account.address, 10 * unit)
        for number in range(count):
            key = await gateway.signer.public_key(f"demo/{name}/{number}", info.algorithm)
            destination = gateway.adapters[name].codec.address_of(key)
            before[destination] = await devnet.balance(destination)
            amount = show((number + 1) * unit // 100, info.decimals)
            requests.append(Request(vault.id, info.asset, amount, destination, external_id=f"demo-{name}-{number}"))
    started = time.monotonic()
    async with running(gateway):
        for adapter in gateway.adapters.values():
            await adapter.node.open()
        accepted = await gateway.intake.accept_all(requests)
        for loop in gateway.loops.values():
            loop.kick.set()
        console.print(f"{len(accepted)} withdrawals accepted", highlight=False)
        ended = await wait_for_end(gateway, [w.id for w in accepted], seconds=PATIENCE)
        seconds = time.monotonic() - started
        outcomes = []
        async with gateway.store.read() as reader:
            for withdrawal in ended:
                family = await reader.family(withdrawal.id)
                now = await devnets[withdrawal.chain].balance(withdrawal.destination)
                arrived = now - before[withdrawal.destination]
                outcomes.append(Outcome(withdrawal, len(family), arrived, seconds))
    return outcomes


@asynccontextmanager
async def running(gateway: Gateway) -> AsyncIterator[None]:
    """Run the gateway while the body runs; an error of the gateway ends the body."""
    body = asyncio.current_task()
    work = asyncio.create_task(gateway.run(), name="gateway")

    def stop(done: asyncio.Task[None]) -> None:
        if not done.cancelled() and done.exception() is not None and body is not None:
            body.cancel()

    work.add_done_callback(stop)
    try:
        yield
    except asyncio.CancelledError:
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            raise error from None
        raise
    finally:
        work.remove_done_callback(stop)
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def wait_for_end(gateway: Gateway, ids: Sequence[WithdrawalId], *, seconds: float) -> Sequence[Withdrawal]:
    """Return the withdrawals when all are final, or as they are after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        async with gateway.store.read() as reader:
            found = await reader.withdrawals(ids)
        if all(w.status in FINAL for w in found) or time.monotonic() > deadline:
            return found
        waits = [asyncio.create_task(loop.tracker.advanced.wait()) for loop in gateway.loops.values()]
        await asyncio.wait(waits, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


def _tell(outcomes: Sequence[Outcome], console: Console, *, as_json: bool) -> None:
    if as_json:
        for outcome in outcomes:
            w = outcome.withdrawal
            print(
                json.dumps(
                    {
                        "chain": w.chain,
                        "withdrawal_id": str(w.id),
                        "status": w.status,
                        "tx_hash": w.tx_hash,
                        "confirmations": w.confirmations,
                        "attempts": outcome.attempts,
                        "amount": show(w.amount, w.decimals),
                        "destination": w.destination,
                        "arrived": show(outcome.arrived, w.decimals),
                    }
                )
            )
        return
    table = Table()
    for title in ("chain", "amount", "status", "conf.", "tries", "arrived", "transaction"):
        table.add_column(title, no_wrap=True)
    for outcome in outcomes:
        w = outcome.withdrawal
        table.add_row(
            w.chain,
            f"{show(w.amount, w.decimals)} {w.asset}",
            w.status,
            str(w.confirmations),
            str(outcome.attempts),
            "exactly" if outcome.good else show(outcome.arrived, w.decimals),
            f"{(w.tx_hash or '')[:12]}…",
        )
    console.print(table)
    good = sum(o.good for o in outcomes)
    console.print(
        f"{good} of {len(outcomes)} withdrawals COMPLETED, each amount seen at its destination by an independent client"
    )
