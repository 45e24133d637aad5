"""New heads over WebSocket: a hint that comes at once, never a promise that none came.

Subscriptions die without a word, so whoever waits here also asks the node in between (the watchdog).
"""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import structlog

from adapters.transport.jsonrpc import endpoint_name

RECONNECT_SECONDS = 5.0
MAX_MESSAGE = 1 << 20
_SUBSCRIBE = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}

_log = structlog.get_logger(__name__)


class NewHeads:
    """One subscription, renewed for as long as it is open. What the node sends is not read: it only wakes."""

    def __init__(self, chain: str, url: str) -> None:
        self._chain = chain
        self._url = url
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to listen; harmless when it listens already."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name=f"new heads {self._chain}")

    async def close(self) -> None:
        """Stop listening; may be called twice."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def wait(self, seconds: float) -> None:
        """Return when a node said that there is a new head, at the latest after `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        self._woken.clear()

    async def _listen(self) -> None:
        while True:
            try:
                await self._subscribe()
            except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
                _log.debug(
                    "no subscription", chain=self._chain, node=endpoint_name(self._url), why=type(error).__name__
                )
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _subscribe(self) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(self._url, heartbeat=20.0, max_msg_size=MAX_MESSAGE) as socket,
        ):
            await socket.send_json(_SUBSCRIBE)
            async for message in socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._woken.set()
