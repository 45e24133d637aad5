"""Somebody who pays on a devnet: signs by the chain's own tools, one slot per payment, so that two can conflict."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from embit import ec, script
from eth_account import Account
from web3 import Web3

from devnets.bitcoin.client import Client as BitcoinClient
from devnets.bitcoin.network import BitcoinDevnet
from devnets.evm.client import Client as EvmClient
from devnets.evm.network import EvmDevnet
from devnets.network import Devnet

UNIT = 100_000_000
FEE = 10_000


@dataclass(frozen=True)
class Payment:
    raw: bytes
    tx_hash: str


class Payer(Protocol):
    @property
    def receiver(self) -> str: ...

    async def prepare(self) -> None:
        """Get funds, enough for three payments."""

    async def sign(self, slot: int, amount: int) -> Payment:
        """Sign a payment to the receiver; of two in one slot only one can ever be mined."""

    async def send(self, payment: Payment) -> None: ...


@dataclass
class EvmPayer:
    devnet: EvmDevnet
    key: bytes = b"\x07" * 32

    @property
    def receiver(self) -> str:
        return "0x" + "ab" * 20

    async def prepare(self) -> None:
        await self.devnet.fund(Account.from_key(self.key).address, 10**18)

    async def sign(self, slot: int, amount: int) -> Payment:
        signed = Account.from_key(self.key).sign_transaction(
            {
                "type": 2,
                "chainId": self.devnet.chain_id,
                "nonce": slot,
                "to": Web3.to_checksum_address(self.receiver),
                "value": amount,
                "gas": 21_000,
                "maxFeePerGas": 10**10,
                "maxPriorityFeePerGas": 10**9,
            }
        )
        return Payment(bytes(signed.raw_transaction), "0x" + signed.hash.hex())

    async def send(self, payment: Payment) -> None:
        client = EvmClient(self.devnet.url)
        try:
            await client.call("eth_sendRawTransaction", "0x" + payment.raw.hex())
        finally:
            await client.close()


@dataclass
class BitcoinPayer:
    devnet: BitcoinDevnet
    key: ec.PrivateKey = field(default_factory=lambda: ec.PrivateKey(b"\x07" * 32))
    outputs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def receiver(self) -> str:
        return self._address(ec.PrivateKey(b"\x08" * 32))

    async def prepare(self) -> None:
        for _ in range(3):
            await self.devnet.fund(self._address(self.key), UNIT)
        found = await self._node.call("scantxoutset", "start", [f"addr({self._address(self.key)})"])
        self.outputs = sorted(found["unspents"], key=lambda output: output["height"])

    async def sign(self, slot: int, amount: int) -> Payment:
        output = self.outputs[slot]
        spent = {"txid": output["txid"], "vout": output["vout"]}
        to = {
            self.receiver: str(Decimal(amount) / UNIT),
            self._address(self.key): str(Decimal(UNIT - amount - FEE) / UNIT),
        }
        raw = await self._node.call("createrawtransaction", [spent], to)
        previous = spent | {"scriptPubKey": output["scriptPubKey"], "amount": "1.00000000"}
        signed = await self._node.call(
            "signrawtransactionwithkey", raw, [self.key.wif(self.devnet.network)], [previous]
        )
        decoded = await self._node.call("decoderawtransaction", signed["hex"])
        return Payment(bytes.fromhex(signed["hex"]), decoded["txid"])

    async def send(self, payment: Payment) -> None:
        await self._node.call("sendrawtransaction", payment.raw.hex())

    @property
    def _node(self) -> BitcoinClient:
        return BitcoinClient(self.devnet.url)

    def _address(self, key: ec.PrivateKey) -> str:
        return str(script.p2wpkh(key.get_public_key()).address(self.devnet.network))


def payer_on(devnet: Devnet) -> Payer:
    if isinstance(devnet, EvmDevnet):
        return EvmPayer(devnet)
    assert isinstance(devnet, BitcoinDevnet)
    return BitcoinPayer(devnet)
