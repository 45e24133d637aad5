"""The EVM node seen through web3: what levers and tests believe about the chain comes from here."""

from __future__ import annotations

from typing import Any

from aiohttp import ClientError
from web3 import AsyncHTTPProvider, AsyncWeb3
from web3.types import RPCEndpoint

from devnets.network import DevnetError, LeverMissing

METHOD_NOT_FOUND = -32601


class Client:
    """A web3 client that never sends anything twice, and raw calls for what web3 does not know."""

    def __init__(self, url: str) -> None:
        # web3 would repeat lost calls, eth_sendRawTransaction included.
        self._provider = AsyncHTTPProvider(url, exception_retry_configuration=None)
        self.eth = AsyncWeb3(self._provider).eth

    async def close(self) -> None:
        await self._provider.disconnect()

    async def call(self, method: str, *params: Any) -> Any:
        """Return a raw call's result. Raises LeverMissing for an unknown method, DevnetError when refused."""
        try:
            answer = await self._provider.make_request(RPCEndpoint(method), list(params))
        except (ClientError, OSError) as problem:
            raise DevnetError(f"{method}: the node does not answer: {problem}") from problem
        error = answer.get("error")
        if error is None:
            return answer.get("result")
        if error["code"] == METHOD_NOT_FOUND:
            raise LeverMissing(f"this node does not know {method}")
        raise DevnetError(f"{method}: {error}")
