"""News of heads: at once over WebSocket, and by asking when the subscription is silent or gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from adapters.evm.node import EvmNode
from adapters.evm.params import Settings
from devnets.evm.network import EvmDevnet

pytestmark = [pytest.mark.devnet, pytest.mark.evm]


def settings(devnet: EvmDevnet, ws_url: str, poll: float) -> Settings:
    return Settings(chain_id=devnet.chain_id, urls=[devnet.url], ws_url=ws_url, poll_interval=poll)


@pytest.fixture
async def silent() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A WebSocket that takes the subscription and never says a word."""
    asked = asyncio.Event()

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            asked.set()
        return socket

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"ws://127.0.0.1:{port}/", asked
    await runner.cleanup()


async def test_a_new_head_is_known_long_before_the_next_poll(devnet: EvmDevnet) -> None:
    node = EvmNode("evm", settings(devnet, devnet.url.replace("http", "ws"), poll=300))
    await node.open()
    try:
        known = await node.head()
        waiting = asyncio.create_task(node.next_head(known, 60))
        while not waiting.done():
            # The subscription may still be on its way when the first of these is mined.
            await devnet.mine()
            await asyncio.wait({waiting}, timeout=0.2)
        assert (await waiting).height > known.height
    finally:
        await node.close()


async def test_a_silent_subscription_is_noticed_by_polling(
    devnet: EvmDevnet, silent: tuple[str, asyncio.Event]
) -> None:
    url, asked = silent
    node = EvmNode("evm", settings(devnet, url, poll=0.02))
    await node.open()
    try:
        await asyncio.wait_for(asked.wait(), 10)
        known = await node.head()
        (mined,) = await devnet.mine()
        assert (await asyncio.wait_for(node.next_head(known, 60), 10)).hash == mined
    finally:
        await node.close()


async def test_a_dead_socket_does_no_harm(devnet: EvmDevnet) -> None:
    node = EvmNode("evm", settings(devnet, "ws://127.0.0.1:9/", poll=0.02))
    await node.open()
    try:
        known = await node.head()
        (mined,) = await devnet.mine()
        assert (await asyncio.wait_for(node.next_head(known, 60), 10)).hash == mined
    finally:
        await node.close()
        await node.close()
