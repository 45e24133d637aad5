"""The Bitcoin-family node seen through python-bitcoinrpc: what levers and tests believe comes from here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

from bitcoinrpc.authproxy import AuthServiceProxy, JSONRPCException

from devnets.network import DevnetError, LeverMissing

METHOD_NOT_FOUND = -32601
TIMEOUT_SECONDS = 60
BATCH = 500


class NodeRefused(DevnetError):
    """The node answered with an error: its code and its text."""

    def __init__(self, method: str, code: int, text: str) -> None:
        super().__init__(f"{method}: {text} ({code})")
        self.code = code
        self.text = text


class Client:
    """One connection per call: the library is not thread-safe, and an idle one delays the node's end."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result; amounts are Decimal. Raises NodeRefused, LeverMissing for an unknown method."""
        return await asyncio.to_thread(self._call, method, params)

    async def many(self, method: str, params: Sequence[Sequence[Any]]) -> list[Any]:
        """Ask the same method once for each of `params`; the answers come in the same order."""
        answers: list[Any] = []
        for start in range(0, len(params), BATCH):
            calls = [[method, *each] for each in params[start : start + BATCH]]
            answers += await asyncio.to_thread(self._batch, calls)
        return answers

    def _call(self, method: str, params: Sequence[Any]) -> Any:
        rpc = AuthServiceProxy(self._url, timeout=TIMEOUT_SECONDS)
        try:
            return getattr(rpc, method)(*params)
        except JSONRPCException as refusal:
            raise _translated(method, refusal) from refusal
        except HTTPException as problem:
            raise DevnetError(f"{method}: no proper answer: {problem!r}") from problem
        finally:
            _close(rpc)

    def _batch(self, calls: list[list[Any]]) -> list[Any]:
        rpc = AuthServiceProxy(self._url, timeout=TIMEOUT_SECONDS)
        try:
            return list(rpc.batch_(calls))
        except JSONRPCException as refusal:
            raise _translated(calls[0][0], refusal) from refusal
        finally:
            _close(rpc)


def _close(rpc: AuthServiceProxy) -> None:
    rpc._AuthServiceProxy__conn.close()


def _translated(method: str, refusal: JSONRPCException) -> DevnetError:
    error = refusal.error if isinstance(refusal.error, dict) else {}
    code, text = int(error.get("code", 0)), str(error.get("message", refusal))
    if code == METHOD_NOT_FOUND:
        return LeverMissing(f"this node does not know {method}")
    return NodeRefused(method, code, text)
