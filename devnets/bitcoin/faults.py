"""Lies a Bitcoin-family node may tell: it is behind, it does not know a transaction, it is another chain."""

# ruff: noqa: ARG002 - a fault uses what it needs of call, reply and ask

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devnets.faults import Ask, Call, Fault, Outcome, Reply

NO_SUCH_HEIGHT = {"code": -8, "message": "Block height out of range"}
NO_SUCH_BLOCK = {"code": -5, "message": "Block not found"}
NO_SUCH_TX = {
    "code": -5,
    "message": "No such mempool or blockchain transaction. Use gettransaction for wallet transactions.",
}
NOT_IN_POOL = {"code": -5, "message": "Transaction not in mempool"}
MAIN_GENESIS = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"


@dataclass(frozen=True)
class Lag(Fault):
    """Answer as a node that is `blocks` behind: use with the pattern `*`.

    Newer blocks do not exist; confirmations are fewer; an output of a newer block is not there yet. What
    newer blocks have spent stays spent, because the node that is asked does not know its own past.
    """

    blocks: int

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        result = reply.body.get("result")
        if result is None:
            return reply
        match call.method:
            case "getblockcount":
                return _result(max(0, result - self.blocks))
            case "getbestblockhash":
                return _result(await self._best(ask))
            case "getblockchaininfo":
                head = max(0, result["blocks"] - self.blocks)
                return _result(result | {"blocks": head, "bestblockhash": await self._best(ask)})
            case "getblockhash":
                height = call.params[0] if isinstance(call.params, list) else call.params["height"]
                head = await ask("getblockcount", []) - self.blocks
                return reply if height <= head else _error(NO_SUCH_HEIGHT)
            case "getblock" | "getblockheader":
                if isinstance(result, str):  # bytes: ask for the height
                    block_hash = call.params[0] if isinstance(call.params, list) else call.params["blockhash"]
                    header = await ask("getblockheader", [block_hash])
                    hidden = header["confirmations"] in range(1, self.blocks + 1)
                    return _error(NO_SUCH_BLOCK) if hidden else reply
                return self._block(result)
            case "getrawtransaction" | "gettxout" if isinstance(result, dict):
                return self._output_or_tx(call.method, result)
            case _:
                return reply

    async def _best(self, ask: Ask) -> Any:
        return await ask("getblockhash", [max(0, await ask("getblockcount", []) - self.blocks)])

    def _block(self, block: dict[str, Any]) -> Reply:
        confirmations = block["confirmations"]
        if confirmations < 0:  # off the chain
            return _result(block)
        if confirmations <= self.blocks:
            return _error(NO_SUCH_BLOCK)
        older = block | {"confirmations": confirmations - self.blocks}
        if confirmations == self.blocks + 1:
            older.pop("nextblockhash", None)
        return _result(older)

    def _output_or_tx(self, method: str, found: dict[str, Any]) -> Reply:
        confirmations = found.get("confirmations", 0)
        if confirmations > self.blocks:
            return _result(found | {"confirmations": confirmations - self.blocks})
        if confirmations == 0:  # it waits in the pool
            return _result(found)
        if method == "gettxout":
            return _result(None)
        return _error(NO_SUCH_TX)


@dataclass(frozen=True)
class Hide(Fault):
    """Know nothing of one transaction that waits or is asked for by its id; blocks still show it.

    Use with the pattern `*`.
    """

    txid: str

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        if not isinstance(call.params, list) or self.txid not in call.params:
            return call
        match call.method:
            case "getrawtransaction":
                return _error(NO_SUCH_TX)
            case "getmempoolentry" | "getmempoolancestors" | "getmempooldescendants":
                return _error(NOT_IN_POOL)
            case "gettxout":
                return _result(None)
            case _:
                return call

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        result = reply.body.get("result")
        if call.method != "getrawmempool":
            return reply
        if isinstance(result, dict):
            return _result({txid: entry for txid, entry in result.items() if txid != self.txid})
        return _result([txid for txid in result or [] if txid != self.txid])


@dataclass(frozen=True)
class OtherChain(Fault):
    """Say that this is another chain: another name and another first block. Use with the pattern `*`."""

    chain: str = "main"
    genesis: str = MAIN_GENESIS

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        result = reply.body.get("result")
        if call.method == "getblockchaininfo" and isinstance(result, dict):
            return _result(result | {"chain": self.chain})
        if call.method == "getblockhash" and call.params in ([0], {"height": 0}):
            return _result(self.genesis)
        return reply


def _result(value: Any) -> Reply:
    return Reply({"result": value, "error": None})


def _error(error: dict[str, Any]) -> Reply:
    return Reply({"result": None, "error": error}, status=500)
