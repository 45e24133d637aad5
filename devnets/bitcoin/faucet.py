"""The faucet: keys from the seed, the coins they own, and payments signed by the node for them."""

from __future__ import annotations

import asyncio
import hashlib
from decimal import Decimal
from typing import Any

from embit import ec, script

from devnets.bitcoin.client import Client, NodeRefused
from devnets.bitcoin.node import Coin
from devnets.network import DevnetError

UNIT = 100_000_000
FEE = 20_000
MATURITY = 100
SCAN_BUSY = -8


class Faucet:
    """Owns the block rewards of one regtest.

    The address for rewards changes at each `next_branch`, because a block made again in the same second
    for the same address is the very block that was invalidated. Change goes to an address that never gets
    rewards, so that an output's maturity can be told from its address.
    """

    def __init__(self, client: Client, coin: Coin, seed: str) -> None:
        self._client = client
        self._coin = coin
        self._seed = seed
        self._branch = 0
        self._change = self._key("change")
        self._own = self._key("own")

    @property
    def reward_address(self) -> str:
        return self._address(self._key(f"reward {self._branch}"))

    def use(self, client: Client) -> None:
        """Go on with another client, after the node was started again."""
        self._client = client

    def next_branch(self) -> None:
        self._branch += 1

    async def pay(self, address: str, amount: int) -> str:
        """Return a signed payment in hex; it is not sent."""
        coins = await self._coins()
        chosen: list[dict[str, Any]] = []
        total = 0
        for coin in coins:
            if total >= amount + FEE:
                break
            chosen.append(coin)
            total += _units(coin["amount"])
        if total < amount + FEE:
            raise DevnetError(f"the faucet has {total} mature units, {amount + FEE} were needed: mine more")
        outputs: dict[str, str] = {address: _decimal(amount)}
        if total - amount - FEE >= 10_000:
            outputs[self._address(self._change)] = _decimal(total - amount - FEE)
        inputs = [{"txid": coin["txid"], "vout": coin["vout"]} for coin in chosen]
        raw = await self._client.call("createrawtransaction", inputs, [{a: v} for a, v in outputs.items()])
        previous = [
            {
                "txid": coin["txid"],
                "vout": coin["vout"],
                "scriptPubKey": coin["scriptPubKey"],
                "amount": _decimal(_units(coin["amount"])),
            }
            for coin in chosen
        ]
        signed = await self._client.call("signrawtransactionwithkey", raw, self._wifs(), previous)
        if not signed["complete"]:
            raise DevnetError(f"the faucet could not sign: {signed.get('errors')}")
        return str(signed["hex"])

    async def pay_itself(self) -> str:
        """Return a signed payment to the faucet, for when any transaction will do."""
        return await self.pay(self._address(self._own), UNIT)

    async def _coins(self) -> list[dict[str, Any]]:
        """List what can be spent now, oldest first: mature, and not spent by a waiting transaction."""
        height = int(await self._client.call("getblockcount"))
        found = await scan(self._client, [self._address(key) for key in self._keys()])
        taken = await self._spent_by_pool()
        no_rewards = {script.p2wpkh(key.get_public_key()).data.hex() for key in (self._change, self._own)}
        coins = [
            coin
            for coin in found["unspents"]
            if (coin["txid"], coin["vout"]) not in taken
            and (coin["scriptPubKey"] in no_rewards or coin["height"] <= height + 1 - MATURITY)
        ]
        return sorted(coins, key=lambda coin: (coin["height"], coin["txid"], coin["vout"]))

    async def _spent_by_pool(self) -> set[tuple[str, int]]:
        pool = await self._client.call("getrawmempool")
        waiting = await self._client.many("getrawtransaction", [[txid, True] for txid in pool])
        return {(vin["txid"], vin["vout"]) for tx in waiting for vin in tx["vin"]}

    def _keys(self) -> list[ec.PrivateKey]:
        return [
            self._change,
            self._own,
            *(self._key(f"reward {branch}") for branch in range(self._branch + 1)),
        ]

    def _wifs(self) -> list[str]:
        return [key.wif(self._coin.network) for key in self._keys()]

    def _key(self, purpose: str) -> ec.PrivateKey:
        return ec.PrivateKey(hashlib.sha256(f"{self._seed}/{purpose}".encode()).digest())

    def _address(self, key: ec.PrivateKey) -> str:
        return str(script.p2wpkh(key.get_public_key()).address(self._coin.network))


async def scan(client: Client, addresses: list[str]) -> dict[str, Any]:
    """Look through the node's unspent outputs; waits its turn, because a node does one scan at a time."""
    while True:
        try:
            answer = await client.call("scantxoutset", "start", [f"addr({address})" for address in addresses])
        except NodeRefused as refusal:
            if refusal.code != SCAN_BUSY or "in progress" not in refusal.text:
                raise
            await asyncio.sleep(0.01)
        else:
            return dict(answer)


def _units(amount: Decimal) -> int:
    return int(amount * UNIT)


def _decimal(units: int) -> str:
    return f"{units // UNIT}.{units % UNIT:08d}"
