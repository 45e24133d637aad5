"""Lies an EVM node may tell: it is behind, it does not know a transaction, it is another chain."""

# ruff: noqa: ARG002 - a fault uses what it needs of call, reply and ask

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devnets.faults import Ask, Call, Fault, Outcome, Reply

TAGS = ("latest", "safe", "finalized", "pending")
LOG_METHODS = ("eth_getLogs",)


@dataclass(frozen=True)
class Lag(Fault):
    """Answer as a replica that is `blocks` behind: use with the pattern `eth_*`.

    Newer blocks, and what is in them, do not exist; tags mean older blocks; balances and nonces are older.
    Transactions in newer blocks are unknown, as they are to a replica that never had them in its pool.
    """

    blocks: int

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        if not isinstance(call.params, list):
            return call
        params = [await self._older(param, ask) for param in call.params]
        return Call(call.method, params)

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        result = reply.body.get("result")
        if result is None:
            return reply
        head = max(0, int(await ask("eth_blockNumber", []), 16) - self.blocks)
        if call.method == "eth_blockNumber":
            return Reply({"result": hex(head)})
        height = _height(result)
        if height is not None and height > head:
            return Reply({"result": None})
        if call.method in LOG_METHODS:
            return Reply({"result": [log for log in result if int(log["blockNumber"], 16) <= head]})
        return reply

    async def _older(self, param: Any, ask: Ask) -> Any:
        if isinstance(param, dict):  # a filter of logs
            return {
                key: await self._older(value, ask) if key in ("fromBlock", "toBlock") else value
                for key, value in param.items()
            }
        if not isinstance(param, str) or param not in TAGS:
            return param
        block = await ask("eth_getBlockByNumber", ["latest" if param == "pending" else param, False])
        return hex(max(0, int(block["number"], 16) - self.blocks))


@dataclass(frozen=True)
class Hide(Fault):
    """Know nothing of one transaction: calls that name it get null. Use with the pattern `eth_*`."""

    tx_hash: str

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        named = isinstance(call.params, list) and self.tx_hash.lower() in [
            param.lower() for param in call.params if isinstance(param, str)
        ]
        return Reply({"result": None}) if named else call


@dataclass(frozen=True)
class OtherChain(Fault):
    """Say that this is another chain. Use with the pattern `*`."""

    chain_id: int = 1

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        match call.method:
            case "eth_chainId":
                return Reply({"result": hex(self.chain_id)})
            case "net_version":
                return Reply({"result": str(self.chain_id)})
            case _:
                return call


def _height(result: Any) -> int | None:
    """Return the height of the block that a block, a transaction or receipts belong to."""
    first = result[0] if isinstance(result, list) and result else result
    if not isinstance(first, dict):
        return None
    number = first.get("blockNumber") or first.get("number")
    return int(number, 16) if isinstance(number, str) else None
