"""The yardstick: a bare asyncio script that signs and sends payments with eth-account and aiohttp, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from eth_account import Account
from web3 import Web3

GWEI = 10**9
POLL = 0.05


async def pay(url: str, chain_id: int, work: Mapping[str, Sequence[tuple[str, int]]]) -> float:
    """Pay, from each private key, its (destination, wei) in order; return the seconds until all are in blocks.

    One task per key; within a key one after the other, as a script would that keeps its nonces in order.
    """
    async with aiohttp.ClientSession() as session:

        async def call(method: str, *params: Any) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            async with session.post(url, json=body) as response:
                answer = await response.json()
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

        async def one(key: str, payments: Sequence[tuple[str, int]]) -> set[str]:
            sender = Account.from_key(key)
            nonce = int(await call("eth_getTransactionCount", sender.address, "latest"), 16)
            hashes = set()
            for number, (destination, wei) in enumerate(payments):
                signed = sender.sign_transaction(
                    {
                        "type": 2,
                        "chainId": chain_id,
                        "nonce": nonce + number,
                        "to": Web3.to_checksum_address(destination),
                        "value": wei,
                        "gas": 21_000,
                        "maxFeePerGas": 20 * GWEI,
                        "maxPriorityFeePerGas": GWEI,
                    }
                )
                hashes.add(await call("eth_sendRawTransaction", Web3.to_hex(signed.raw_transaction)))
            return hashes

        async def included(missing: set[str], height: int) -> None:
            while missing:
                block = await call("eth_getBlockByNumber", hex(height), False)
                if block is None:
                    await asyncio.sleep(POLL)
                    continue
                missing -= set(block["transactions"])
                height += 1

        first = int(await call("eth_blockNumber"), 16) + 1
        started = time.perf_counter()
        sent = await asyncio.gather(*(one(key, payments) for key, payments in work.items()))
        await included(set().union(*sent), first)
        return time.perf_counter() - started
