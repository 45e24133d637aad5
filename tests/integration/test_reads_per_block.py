"""What following one block asks of the node does not grow with what is in flight."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.tracker import Tracker
from tests.crowd import put_in_flight
from tests.integration.rig import Desk, Rig

pytestmark = pytest.mark.devnet

FEW = 10
BLOCKS = 3
LONG = {"resend_after": 3600.0, "lease": 600.0}
"""Nothing is offered again meanwhile: that is limited apart from the reads."""


@pytest.mark.parametrize("many", [300, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_a_block_costs_the_same_calls_however_many_are_in_flight(rig: Rig, many: int) -> None:
    await rig.prepare(vaults=2, timing=LONG)
    async with rig.standing() as desk:
        await desk.gateway.adapters[rig.chain].node.open()
        tracker = desk.gateway.loops[rig.chain].tracker
        assert await tracker.start()
        with_few = await calls_per_block(desk, tracker, FEW)
        with_many = await calls_per_block(desk, tracker, many)
        assert with_few == with_many
        assert BLOCKS <= sum(with_few.values()) <= 4 * BLOCKS


async def calls_per_block(desk: Desk, tracker: Tracker, in_flight: int) -> Counter[str]:
    """Follow a few blocks with so many attempts in flight; return the calls that the node got meanwhile."""
    await put_in_flight(desk.gateway, desk.rig.chain, in_flight - tracker.in_flight)
    await desk.rig.devnet.mine()
    await tracker.step()
    assert tracker.in_flight == in_flight
    desk.rig.proxy.reset()
    for _ in range(BLOCKS):
        (block,) = await desk.rig.devnet.mine()
        await tracker.step()
        assert tracker.tip is not None
        assert tracker.tip.hash == block
    return desk.rig.proxy.counts
