"""The process is killed at every point of its work, and every destination is paid exactly once."""

from __future__ import annotations

import signal

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
        async with site.serving(crash_at="record:committed") as server:
            assert await server.ended() == -signal.SIGKILL
    async with site.serving(crash_at=point) as server:
        assert await site.mine_until_ended(server) == -signal.SIGKILL
    async with site.serving() as server:
        await site.mine_until_completed(server)
        await server.stop()
    await site.prove_paid_once()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sign:done", "write-ahead:committed"),
        ("write-ahead:committed", "send:one"),
        ("send:all", "restart:before-resend"),
        ("record:committed", "block:before-commit"),
    ],
)
async def test_a_second_kill_on_the_way_back_changes_nothing(site: Site, first: str, second: str) -> None:
    await site.prepare()
    await site.accept(2)
    for point in (first, second):
        async with site.serving(crash_at=point) as server:
            assert await site.mine_until_ended(server) == -signal.SIGKILL
    async with site.serving() as server:
        await site.mine_until_completed(server)
        await server.stop()
    await site.prove_paid_once()
