"""Rounds of random kills, faults and reorgs while withdrawals keep coming; then every destination was paid once.

GATEWAY_ROUNDS sets how many rounds (50), GATEWAY_SEED which ones: the plan of a seed is the same every time, though
what meets what is also a matter of timing.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from devnets.faults import Close, CutOff, Delay, DropAnswer, DropRequest, Fault, Garbage, Status
from devnets.network import Devnet
from devnets.proxy import FaultProxy
from gateway.core.errors import ChainError, StoreError
from gateway.crashpoints import POINTS
from tests.acceptance.site import GLANCE, Server, Site
from tests.integration.hands import Hand, hand_for

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.devnet,
    pytest.mark.evm,
    pytest.mark.bitcoin,
    pytest.mark.timeout(3600),
]

ROUND_SECONDS = 12.0
END_SECONDS = 300.0
NOT_FINAL = 3
"""Reorgs go less deep than finality: what is final does not leave a chain, by definition."""
SETTINGS = {"evm": {"threshold": 2, "finality": 6}, "bitcoin": {"threshold": 2, "finality_depth": 6}}


@dataclass
class Tally:
    """What happened."""

    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    reorgs: Counter[str] = field(default_factory=Counter)


async def test_after_any_number_of_kills_faults_and_reorgs_each_is_paid_once(
    networks: Mapping[str, tuple[Devnet, FaultProxy]], tmp_path: Path
) -> None:
    rounds = int(os.environ.get("GATEWAY_ROUNDS", "50"))
    seed = int(os.environ.get("GATEWAY_SEED", str(random.randrange(2**32))))
    print(f"campaign: GATEWAY_SEED={seed} GATEWAY_ROUNDS={rounds}", flush=True)
    started = time.monotonic()
    plan = random.Random(seed)
    tally = Tally()
    site = Site({name: devnet for name, (devnet, _) in networks.items()}, tmp_path / "gateway")
    await site.prepare(urls={name: [proxy.url] for name, (_, proxy) in networks.items()}, coins=6, settings=SETTINGS)
    for number in range(rounds):
        await one_round(site, networks, random.Random(plan.randrange(2**64)), number, tally)
        if number % 10 == 9:
            print(f"campaign: {number + 1} rounds, {dict(tally.kills)}", flush=True)
    for _, proxy in networks.values():
        proxy.heal()
    async with site.serving() as server:
        await site.mine_until_completed(server, seconds=END_SECONDS)
        assert "unexpected" not in server.said
    paid = await site.prove_paid_once()
    assert (await site.run("audit"))[0] == 0
    print(
        f"campaign: seed {seed}: {rounds} rounds, {tally.kills.total()} kills"
        f" ({len(set(tally.kills) & set(POINTS))} of {len(POINTS)} points), {tally.faults.total()} faults,"
        f" {tally.reorgs.total()} reorgs, {len(site.ids)} withdrawals, {paid} payments,"
        f" {paid - len(site.ids)} duplicates, {time.monotonic() - started:.0f} s",
        flush=True,
    )


async def one_round(
    site: Site,
    networks: Mapping[str, tuple[Devnet, FaultProxy]],
    chance: random.Random,
    number: int,
    tally: Tally,
) -> None:
    """Run the process until it is killed, with withdrawals, faults and blocks coming; then have the chains think."""
    point, count = chance.choice(POINTS), chance.choice((1, 1, 2, 3, 5))
    wanted, size = chance.random() < 0.8, chance.randint(1, 3)
    seconds = chance.uniform(1.5, ROUND_SECONDS) if chance.random() < 0.4 else ROUND_SECONDS
    for name, (devnet, proxy) in networks.items():
        proxy.heal()
        if chance.random() < 0.6:
            method, fault = a_fault(hand_for(devnet), chance)
            proxy.rule(method, fault, times=chance.randint(1, 20))
            tally.faults[f"{name} {type(fault).__name__}"] += 1
    arrive_at = chance.uniform(0, 3)
    async with site.serving(crash_at=f"{point}:{count}") as server:
        arrival = asyncio.create_task(arrive(site, size, f"round-{number}", arrive_at) if wanted else asyncio.sleep(0))
        try:
            await blocks_until(site, server, seconds)
            await arrival
        finally:
            arrival.cancel()
        if server.running:
            tally.kills["at some time"] += 1
        else:
            assert await server.ended() == -signal.SIGKILL, server.tail
            tally.kills[point] += 1
        assert "unexpected" not in server.said, server.tail
    for name, (devnet, _) in networks.items():
        if chance.random() < 0.4:
            reinclude = chance.random() < 0.5
            await devnet.reorg(chance.randint(1, NOT_FINAL), reinclude=reinclude)
            tally.reorgs[f"{name} {'with' if reinclude else 'without'} its payments"] += 1


async def arrive(site: Site, size: int, tag: str, after: float) -> None:
    """Accept withdrawals, asking again with the same ids as a client does who gets no answer."""
    await asyncio.sleep(after)
    while True:
        with suppress(ChainError, StoreError):
            await site.accept(size, tag=tag)
            return
        await asyncio.sleep(GLANCE)


async def blocks_until(site: Site, server: Server, seconds: float) -> None:
    """Make blocks until the process has ended, or the time is over."""
    deadline = time.monotonic() + seconds
    while server.running and time.monotonic() < deadline:
        await site.mine()
        await asyncio.sleep(0.3)


def a_fault(hand: Hand, chance: random.Random) -> tuple[str, Fault]:
    """Return a fault and the calls that it meets."""
    match chance.randrange(4):
        case 0:
            return hand.send_method, chance.choice([DropAnswer(), CutOff(), Close(acted=True), Status(500, acted=True)])
        case 1:
            return hand.send_method, chance.choice([DropRequest(), Status(503), *hand.refusals])
        case 2:
            return "*", chance.choice([Status(500), Status(429), Close(), Garbage(), Delay(0.5, answer=True)])
        case _:
            return "*", hand.lag(chance.randint(1, 3))
