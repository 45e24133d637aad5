"""What a test does behind the gateway's back: spend a vault's slot with its own key, say what a node would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from embit import ec, script
from eth_account import Account as EthAccount
from web3 import Web3

from adapters.bitcoin.payload import Spend
from adapters.bitcoin.payload import decode as decode_draft
from adapters.evm.payload import decode_signed
from devnets.bitcoin.client import Client as BitcoinClient
from devnets.bitcoin.faucet import scan
from devnets.bitcoin.faults import Hide as BitcoinHide
from devnets.bitcoin.faults import Lag as BitcoinLag
from devnets.bitcoin.faults import OtherChain as BitcoinOtherChain
from devnets.bitcoin.network import BitcoinDevnet
from devnets.evm.client import Client as EvmClient
from devnets.evm.faults import Hide as EvmHide
from devnets.evm.faults import Lag as EvmLag
from devnets.evm.faults import OtherChain as EvmOtherChain
from devnets.evm.network import EvmDevnet
from devnets.faults import Fault, Refuse
from devnets.network import Devnet
from gateway.config import Config
from gateway.core.chain import Account
from gateway.core.records import Attempt
from gateway.signers import keyfile
from gateway.signers.algorithms import SECP256K1_DIGEST

UNIT = 100_000_000
FEE = 20_000


class Hand(Protocol):
    """One chain's ways to do what the gateway must not."""

    @property
    def send_method(self) -> str:
        """The call that offers signed bytes."""

    @property
    def refusals(self) -> tuple[Fault, ...]:
        """Answers of nodes that say no, for reasons that may pass."""

    @property
    def already_known(self) -> Fault:
        """The node takes the bytes, and says that it has them already."""

    @property
    def other_chain(self) -> Fault:
        """The node says that it is on another chain."""

    def lag(self, blocks: int) -> Fault:
        """The node is behind."""

    def hide(self, tx_hash: str) -> Fault:
        """The node knows nothing of a transaction."""

    async def rival(self, attempt: Attempt, account: Account, config: Config, *, to: str, amount: int) -> bytes:
        """Sign, with the vault's key, another transaction that spends the attempt's slot."""

    async def stray(self, account: Account, config: Config, *, to: str, amount: int) -> bytes:
        """Sign, with the vault's key, a payment that is no withdrawal, out of a free slot."""


@dataclass(frozen=True)
class EvmHand:
    """See `Hand`."""

    devnet: EvmDevnet
    send_method: str = "eth_sendRawTransaction"
    refusals: tuple[Fault, ...] = (
        Refuse(-32000, "nonce too low: next nonce 5, tx nonce 4"),
        Refuse(-32000, "txpool is full"),
        Refuse(-32000, "insufficient funds for gas * price + value: balance 1, tx cost 3, overshot 2"),
        Refuse(-32000, "something that no table knows"),
    )
    already_known: Fault = Refuse(-32000, "already known", acted=True)  # noqa: RUF009 - it is frozen
    other_chain: Fault = EvmOtherChain()  # noqa: RUF009 - it is frozen

    def lag(self, blocks: int) -> Fault:
        return EvmLag(blocks)

    def hide(self, tx_hash: str) -> Fault:
        return EvmHide(tx_hash)

    async def rival(self, attempt: Attempt, account: Account, config: Config, *, to: str, amount: int) -> bytes:
        return self._signed(decode_signed(attempt.raw).transfer.nonce, account, config, to=to, amount=amount)

    async def stray(self, account: Account, config: Config, *, to: str, amount: int) -> bytes:
        client = EvmClient(self.devnet.url)
        try:
            free = await client.eth.get_transaction_count(Web3.to_checksum_address(account.address))
        finally:
            await client.close()
        return self._signed(free, account, config, to=to, amount=amount)

    def _signed(self, nonce: int, account: Account, config: Config, *, to: str, amount: int) -> bytes:
        signed = EthAccount.from_key(_secret(account, config)).sign_transaction(
            {
                "type": 2,
                "chainId": self.devnet.chain_id,
                "nonce": nonce,
                "to": Web3.to_checksum_address(to),
                "value": amount,
                "gas": 21_000,
                "maxFeePerGas": 20 * 10**9,
                "maxPriorityFeePerGas": 2 * 10**9,
            }
        )
        return bytes(signed.raw_transaction)

    async def set_code(self, address: str, code: str) -> None:
        """Put code at an address, as a contract that changes its mind would."""
        client = EvmClient(self.devnet.url)
        try:
            await client.call("anvil_setCode", address, code)
        finally:
            await client.close()

    async def nonces(self, address: str) -> list[int]:
        """Return the nonces of an account's transactions, in the order of the chain."""
        client = EvmClient(self.devnet.url)
        try:
            found = []
            for height in range(await client.eth.block_number + 1):
                block = await client.call("eth_getBlockByNumber", hex(height), True)
                found += [int(tx["nonce"], 16) for tx in block["transactions"] if tx["from"] == address.lower()]
            return found
        finally:
            await client.close()


@dataclass(frozen=True)
class BitcoinHand:
    """See `Hand`."""

    devnet: BitcoinDevnet
    send_method: str = "sendrawtransaction"
    refusals: tuple[Fault, ...] = (
        Refuse(-26, "mempool min fee not met, 110 < 141", status=500),
        Refuse(-25, "bad-txns-inputs-missingorspent", status=500),
        Refuse(-26, "too-long-mempool-chain, too many unconfirmed ancestors [limit: 25]", status=500),
        Refuse(-26, "something that no table knows", status=500),
    )
    already_known: Fault = Refuse(-27, "Transaction already in block chain", acted=True, status=500)  # noqa: RUF009
    other_chain: Fault = BitcoinOtherChain()  # noqa: RUF009 - it is frozen

    def lag(self, blocks: int) -> Fault:
        return BitcoinLag(blocks)

    def hide(self, tx_hash: str) -> Fault:
        return BitcoinHide(tx_hash)

    async def rival(self, attempt: Attempt, account: Account, config: Config, *, to: str, amount: int) -> bytes:
        inputs = decode_draft(self.devnet.coin, attempt.payload).inputs
        return await self._signed(inputs, account, config, to=to, amount=amount)

    async def stray(self, account: Account, config: Config, *, to: str, amount: int) -> bytes:
        found = (await scan(BitcoinClient(self.devnet.url), [account.address]))["unspents"][0]
        coin = Spend(found["txid"], found["vout"], int(found["amount"] * UNIT))
        return await self._signed([coin], account, config, to=to, amount=amount)

    async def _signed(
        self, inputs: Sequence[Spend], account: Account, config: Config, *, to: str, amount: int
    ) -> bytes:
        node = BitcoinClient(self.devnet.url)
        key = ec.PrivateKey(_secret(account, config))
        own = script.p2wpkh(key.get_public_key())
        spent = [{"txid": i.txid, "vout": i.vout} for i in inputs]
        left = sum(i.amount for i in inputs) - amount - FEE
        outputs = {to: str(Decimal(amount) / UNIT), account.address: str(Decimal(left) / UNIT)}
        raw = await node.call("createrawtransaction", spent, outputs)
        previous = [
            s | {"scriptPubKey": own.data.hex(), "amount": str(Decimal(i.amount) / UNIT)}
            for s, i in zip(spent, inputs, strict=True)
        ]
        signed = await node.call("signrawtransactionwithkey", raw, [key.wif(self.devnet.network)], previous)
        assert signed["complete"]
        return bytes.fromhex(signed["hex"])


def hand_for(devnet: Devnet) -> Hand:
    """Return the hand for a network."""
    if isinstance(devnet, EvmDevnet):
        return EvmHand(devnet)
    assert isinstance(devnet, BitcoinDevnet)
    return BitcoinHand(devnet)


def _secret(account: Account, config: Config) -> bytes:
    password = keyfile.read_password(file=config.signer.password_file)
    return keyfile.open(config.signer.key_file, password).derive(account.key, SECP256K1_DIGEST)
