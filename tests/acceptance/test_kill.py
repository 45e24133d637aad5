"""The process is killed at every point of its work, and every destination is paid exactly once."""

from __future__ import annotations

import pytest

from gateway.crashpoints import POINTS
from tests.acceptance.site import Site

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.evm,
    pytest.mark.bitcoin,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_point_loses_nothing_and_pays_nobody_twice(site: Site, point: str) -> None:
    await site.prepare()
    await site.accept(3)
    if point == "restart:before-resend":
        # Something must be on its way, or there is nothing to send again.
        await site.killed_at("record:committed")
    await site.killed_at(point)
    async with site.serving() as server:
        await site.mine_until_completed(server)
    await site.prove_paid_once()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sign:done", "write-ahead:committed"),
        ("write-ahead:before-commit", "send:one"),
        ("send:all", "restart:before-resend"),
        ("record:committed", "block:before-commit"),
    ],
)
async def test_a_second_kill_on_the_way_back_changes_nothing(site: Site, first: str, second: str) -> None:
    await site.prepare()
    await site.accept(2)
    for point in (first, second):
        await site.killed_at(point)
    async with site.serving() as server:
        await site.mine_until_completed(server)
    await site.prove_paid_once()
    assert (await site.run("audit"))[0] == 0


async def test_a_process_that_is_told_to_end_leaves_nothing_half_done(site: Site) -> None:
    await site.prepare()
    await site.accept(2)
    for _ in range(2):
        async with site.serving() as server:
            await server.says("tracking")
            assert await server.stop() == 130
    async with site.serving() as server:
        await site.mine_until_completed(server)
    await site.prove_paid_once()
