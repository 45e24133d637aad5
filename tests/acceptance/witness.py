"""The witness: what the chains themselves say was paid, read block by block without any code of the gateway."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from devnets.bitcoin.client import Client as BitcoinClient
from devnets.bitcoin.network import BitcoinDevnet
from devnets.evm.client import Client as EvmClient
from devnets.evm.network import EvmDevnet
from devnets.network import Devnet

COIN = 100_000_000

Payments = Mapping[str, list[tuple[str, int]]]
"""Per destination (in the form of `key`), every transaction of the present chain that pays it, and how much."""


def key(address: str) -> str:
    """Return the form of an address under which payments are found."""
    return address.lower()


async def payments(devnet: Devnet, since: int) -> Payments:
    """Read every block above height `since`."""
    if isinstance(devnet, EvmDevnet):
        return await _evm(devnet, since)
    assert isinstance(devnet, BitcoinDevnet)
    return await _bitcoin(devnet, since)


async def _evm(devnet: EvmDevnet, since: int) -> Payments:
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    client = EvmClient(devnet.url)
    try:
        for height in range(since + 1, await client.eth.block_number + 1):
            block = await client.call("eth_getBlockByNumber", hex(height), True)
            for tx in block["transactions"]:
                if tx["to"] is not None:
                    found[key(tx["to"])].append((tx["hash"], int(tx["value"], 16)))
    finally:
        await client.close()
    return found


async def _bitcoin(devnet: BitcoinDevnet, since: int) -> Payments:
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    client = BitcoinClient(devnet.url)
    heights = range(since + 1, await client.call("getblockcount") + 1)
    hashes = await client.many("getblockhash", [[height] for height in heights])
    blocks: list[Any] = await client.many("getblock", [[block, 2] for block in hashes])
    for block in blocks:
        for tx in block["tx"][1:]:  # the first one makes new coins
            for output in tx["vout"]:
                script = output["scriptPubKey"]
                for address in script.get("addresses", [script.get("address")]):
                    if address is not None:
                        found[key(address)].append((tx["txid"], int(output["value"] * COIN)))
    return found
