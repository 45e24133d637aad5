"""Refusals of a real node, provoked one by one: the table says what they mean, and which of them were seen here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from embit.script import Script, Witness
from embit.transaction import Transaction, TransactionInput, TransactionOutput

from adapters.bitcoin.address import p2wpkh_script
from adapters.bitcoin.payload import Output, Spend
from adapters.bitcoin.refusals import TABLE, Row, row_of
from adapters.bitcoin.transaction import decode, der_of
from devnets.bitcoin.client import Client, NodeRefused
from devnets.bitcoin.network import BitcoinDevnet
from gateway.core.chain import SigningRequest
from tests.adapters.bitcoin.conftest import Vault
from tests.adapters.bitcoin.vault import Key

pytestmark = [pytest.mark.devnet, pytest.mark.bitcoin]

COIN = 10_000_000
FEE = 1_000
OP_RETURN = b"\x6a"


@dataclass
class Provoker:
    """Makes transactions that the codec never would, and offers them to a node."""

    vault: Vault
    node: Client
    seen: list[tuple[Row, str]] = field(default_factory=list)

    @property
    def own(self) -> bytes:
        return p2wpkh_script(self.vault.key.public)

    def coin(self) -> Spend:
        return self.vault.coins.pop().spend

    def make(
        self,
        spends: list[Spend],
        outputs: list[Output] | None = None,
        *,
        fee: int = FEE,
        sequence: int = 0xFFFFFFFD,
        version: int = 2,
        locktime: int = 0,
        script_sig: bytes = b"",
        key: Key | None = None,
    ) -> bytes:
        """Sign a transaction; where no outputs are given, everything but the fee comes back."""
        if outputs is None:
            outputs = [Output(self.own, sum(s.amount for s in spends) - fee)]
        signer = key or self.vault.key
        tx = Transaction(
            version,
            [TransactionInput(bytes.fromhex(s.txid), s.vout, Script(script_sig), sequence) for s in spends],
            [TransactionOutput(o.amount, Script(o.script)) for o in outputs],
            locktime,
        )
        code = Script(b"\x76\xa9\x14" + self.own[2:] + b"\x88\xac")
        for index, spend in enumerate(spends):
            digest = tx.sighash_segwit(index, code, spend.amount)
            (signature,) = signer.sign([SigningRequest("", "", digest)])
            tx.vin[index].witness = Witness([der_of(signature.data), self.vault.key.public])
        return bytes(tx.serialize())

    async def send(self, raw: bytes) -> Spend:
        """Have the node take it; returns its first output."""
        txid = await self.node.call("sendrawtransaction", raw.hex())
        return Spend(txid, 0, decode(raw).outputs[0].amount)

    async def refused(self, raw: bytes, reason: str, *more: object) -> None:
        """Have the node refuse it for this reason, and keep the row that knows the answer."""
        with pytest.raises(NodeRefused) as caught:
            await self.node.call("sendrawtransaction", raw.hex(), *more)
        self._keep(caught.value.code, caught.value.text, reason)

    async def tested(self, raw: bytes, reason: str) -> None:
        """The same of `testmempoolaccept`, for what `sendrawtransaction` never says."""
        (answer,) = await self.node.call("testmempoolaccept", [raw.hex()])
        self._keep(-26, answer["reject-reason"], reason)

    def _keep(self, code: int, text: str, reason: str) -> None:
        assert text.startswith(reason), f"{text} ({code}) instead of {reason}"
        row = row_of(code, text)
        assert row is not None, f"no row for {text} ({code})"
        self.seen.append((row, text))


Case = Callable[[Provoker], Awaitable[None]]


async def in_chain(p: Provoker) -> None:
    raw = p.make([p.coin()])
    await p.send(raw)
    await p.tested(raw, "txn-already-in-mempool")
    await p.vault.devnet.mine()
    await p.refused(raw, "Transaction already in block chain")
    await p.tested(raw, "txn-already-known")


async def inputs(p: Provoker) -> None:
    coin = p.coin()
    await p.refused(p.make([Spend("ab" * 32, 0, COIN)]), "bad-txns-inputs-missingorspent")
    await p.refused(p.make([coin, coin]), "bad-txns-inputs-duplicate")
    await p.refused(p.make([coin], key=Key("another")), "non-mandatory-script-verify-flag")
    await p.refused(p.make([coin], script_sig=b"\x00" * 1_651), "scriptsig-size")
    await p.refused(p.make([coin], script_sig=b"\x87"), "scriptsig-not-pushonly")
    await p.refused(p.make([coin], script_sig=b"\x51"), "non-mandatory-script-verify-flag")


async def outputs(p: Provoker) -> None:
    coin = p.coin()
    rest = Output(p.own, coin.amount - 10 * FEE)
    await p.refused(p.make([coin], [rest, Output(p.own, 2_939)]), "dust")
    await p.refused(p.make([coin], [Output(b"\x51" * 5, COIN - FEE)]), "scriptpubkey")
    await p.refused(p.make([coin], [rest, Output(OP_RETURN, 0), Output(OP_RETURN, 0)]), "multi-op-return")
    await p.refused(p.make([coin], [Output(p.own, coin.amount + 1)]), "bad-txns-in-belowout")
    await p.refused(p.make([coin], []), "bad-txns-vout-empty")
    await p.refused(p.make([coin], [Output(p.own, 2**63)]), "bad-txns-vout-negative")
    await p.refused(p.make([coin], [Output(p.own, 2**62)]), "bad-txns-vout-toolarge")
    most = Output(p.own, 84_000_000 * 100_000_000)
    await p.refused(p.make([coin], [most, most]), "bad-txns-txouttotal-toolarge")


async def shape(p: Provoker) -> None:
    coin = p.coin()
    height = await p.vault.devnet.height()
    await p.refused(p.make([coin], version=3), "version")
    await p.refused(p.make([coin], [Output(OP_RETURN, coin.amount - FEE)]), "tx-size-small")
    many = [Output(p.own, 3_000)] * 3_300
    await p.refused(p.make([coin], many), "tx-size")
    await p.refused(p.make([coin], locktime=height + 5), "non-final")
    await p.refused(p.make([coin], sequence=10_000), "non-BIP68-final")
    await p.refused(b"\x00", "TX decode failed")
    coinbase = Transaction(
        2,
        [TransactionInput(bytes(32), 0xFFFFFFFF, Script(b"\x01\x01\x01"))],
        [TransactionOutput(COIN, Script(p.own))],
    )
    await p.refused(bytes(coinbase.serialize()), "coinbase")


async def fees(p: Provoker) -> None:
    coin = p.coin()
    await p.refused(p.make([coin], fee=0), "min relay fee not met")
    await p.refused(p.make([coin], fee=100_000), "Fee exceeds maximum configured", "0.00001000")


async def mined_lately(p: Provoker) -> None:
    address = p.vault.account.address
    (block,) = await p.node.call("generatetoaddress", 1, address)
    (txid,) = (await p.node.call("getblock", block))["tx"]
    value = int((await p.node.call("gettxout", txid, 0))["value"] * 100_000_000)
    await p.refused(p.make([Spend(txid, 0, value)]), "bad-txns-premature-spend-of-coinbase")


async def replacing(p: Provoker) -> None:
    fixed, coin, other = p.coin(), p.coin(), p.coin()
    await p.send(p.make([fixed], sequence=0xFFFFFFFF))
    await p.refused(p.make([fixed], fee=10 * FEE), "txn-mempool-conflict")

    first = await p.send(p.make([coin], fee=2 * FEE))
    await p.refused(p.make([coin], fee=2 * FEE - 1), "insufficient fee, rejecting replacement")
    await p.refused(p.make([coin], fee=2 * FEE + 1), "insufficient fee, rejecting replacement")
    await p.refused(p.make([coin, first], fee=10 * FEE), "bad-txns-spends-conflicting-tx")
    await p.send(p.make([first], fee=50 * FEE))
    await p.refused(p.make([coin], fee=20 * FEE), "insufficient fee, rejecting replacement")
    waiting = await p.send(p.make([other]))
    await p.refused(p.make([coin, waiting], fee=100 * FEE), "replacement-adds-unconfirmed")


async def a_long_chain(p: Provoker) -> None:
    spend = p.coin()
    for _ in range(25):
        spend = await p.send(p.make([spend]))
    await p.refused(p.make([spend]), "too-long-mempool-chain")


CASES: list[Case] = [in_chain, inputs, outputs, shape, fees, mined_lately, replacing, a_long_chain]


async def test_what_a_real_node_says_is_in_the_table_and_marked_as_seen(
    devnet: BitcoinDevnet, vault: Vault, witness: Client
) -> None:
    await vault.fund(*[COIN] * 9)
    provoker = Provoker(vault, witness)
    for case in CASES:
        await case(provoker)
    if devnet.coin != "litecoin-regtest":
        pytest.skip("every answer had a row; which rows are marked as seen was written down with litecoind 0.21")
    seen = {(row.code, row.text) for row, _ in provoker.seen}
    marked = {(row.code, row.text) for row in TABLE if row.observed}
    assert marked - seen == set(), "marked as seen, but it was not"
    assert seen - marked == set(), "seen, but not marked"
