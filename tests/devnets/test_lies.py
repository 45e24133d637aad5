"""Lies of a chain's node: a replica that is behind, a hidden transaction, another chain."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from devnets.bitcoin import faults as bitcoin
from devnets.bitcoin.client import Client as BitcoinClient
from devnets.bitcoin.client import NodeRefused
from devnets.evm import faults as evm
from devnets.evm.client import Client as EvmClient
from devnets.network import Devnet
from devnets.proxy import FaultProxy
from tests.devnets.payers import Payer

pytestmark = pytest.mark.devnet

AMOUNT = 1_000_000
ON_EVM = pytest.mark.parametrize("devnet", [pytest.param("evm", marks=pytest.mark.evm)], indirect=True)
ON_BITCOIN = pytest.mark.parametrize("devnet", [pytest.param("bitcoin", marks=pytest.mark.bitcoin)], indirect=True)


@pytest.fixture
async def proxy(devnet: Devnet) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(devnet.url) as proxy:
        yield proxy


@pytest.fixture
async def eth(proxy: FaultProxy) -> AsyncIterator[EvmClient]:
    client = EvmClient(proxy.url)
    yield client
    await client.close()


@pytest.fixture
def btc(proxy: FaultProxy) -> BitcoinClient:
    return BitcoinClient(proxy.url)


@ON_EVM
async def test_a_replica_behind_knows_older_blocks_only(
    devnet: Devnet, payer: Payer, proxy: FaultProxy, eth: EvmClient
) -> None:
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    (block,) = await devnet.mine()
    await devnet.mine_empty(2)
    height = await devnet.height()

    async def view() -> dict[str, Any]:
        latest = await eth.call("eth_getBlockByNumber", "latest", False)
        finalized = await eth.call("eth_getBlockByNumber", "finalized", False)
        return {
            "height": int(await eth.call("eth_blockNumber"), 16),
            "latest": int(latest["number"], 16),
            "finalized": int(finalized["number"], 16),
            "receipt": await eth.call("eth_getTransactionReceipt", payment.tx_hash) is not None,
            "transaction": await eth.call("eth_getTransactionByHash", payment.tx_hash) is not None,
            "block": await eth.call("eth_getBlockByHash", block, False) is not None,
            "receipts": await eth.call("eth_getBlockReceipts", hex(height - 2)) is not None,
            "balance": int(await eth.call("eth_getBalance", payer.receiver, "latest"), 16),
            "logs": await eth.call("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"}),
        }

    truth = await view()
    known = dict.fromkeys(("receipt", "transaction", "block", "receipts"), True)
    expected = {"height": height, "latest": height, "finalized": height - 2, "balance": AMOUNT, "logs": []}
    assert truth == expected | known
    proxy.rule("eth_*", evm.Lag(3))
    assert await view() == {
        "height": height - 3,
        "latest": height - 3,
        "finalized": max(0, height - 5),
        "balance": 0,
        "logs": [],
    } | dict.fromkeys(known, False)
    proxy.heal()
    proxy.rule("eth_*", evm.Lag(2))
    behind = await view()
    assert {key: behind[key] for key in known} == known
    assert behind["balance"] == AMOUNT


@ON_EVM
async def test_an_evm_transaction_can_be_hidden_while_the_block_shows_it(
    devnet: Devnet, payer: Payer, proxy: FaultProxy, eth: EvmClient
) -> None:
    hidden, seen = await payer.sign(0, AMOUNT), await payer.sign(1, AMOUNT)
    await payer.send(hidden)
    await payer.send(seen)
    proxy.rule("eth_*", evm.Hide(hidden.tx_hash))
    assert await eth.call("eth_getTransactionByHash", hidden.tx_hash) is None
    assert await eth.call("eth_getTransactionByHash", seen.tx_hash) is not None
    await devnet.mine()
    assert await eth.call("eth_getTransactionReceipt", hidden.tx_hash) is None
    block = await eth.call("eth_getBlockByNumber", "latest", False)
    assert hidden.tx_hash in block["transactions"]


@ON_EVM
async def test_an_evm_node_can_claim_to_be_another_chain(proxy: FaultProxy, eth: EvmClient) -> None:
    proxy.rule("*", evm.OtherChain(5))
    assert await eth.call("eth_chainId") == "0x5"
    assert await eth.call("net_version") == "5"
    assert await eth.call("eth_blockNumber") == "0x0"


@ON_BITCOIN
async def test_a_bitcoin_node_behind_knows_older_blocks_only(
    devnet: Devnet, payer: Payer, proxy: FaultProxy, btc: BitcoinClient
) -> None:
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    old, (block,) = await devnet.height(), await devnet.mine()
    await devnet.mine_empty(2)
    height, old_hash = await devnet.height(), await btc.call("getblockhash", old)
    assert (await btc.call("getblock", block))["confirmations"] == 3
    assert await btc.call("gettxout", payment.tx_hash, 0) is not None
    proxy.rule("*", bitcoin.Lag(3))
    assert await btc.call("getblockcount") == height - 3 == old
    assert await btc.call("getbestblockhash") == old_hash
    info = await btc.call("getblockchaininfo")
    assert (info["blocks"], info["bestblockhash"]) == (old, old_hash)
    header = await btc.call("getblockheader", old_hash)
    assert header["confirmations"] == 1
    assert "nextblockhash" not in header
    assert await btc.call("gettxout", payment.tx_hash, 0) is None
    for params in (("getblockhash", height), ("getblock", block), ("getblockheader", block, False)):
        with pytest.raises(NodeRefused) as refused:
            await btc.call(*params)
        assert refused.value.code in (-5, -8)
    with pytest.raises(NodeRefused, match="No such mempool"):
        await btc.call("getrawtransaction", payment.tx_hash, True, block)
    proxy.heal()
    proxy.rule("*", bitcoin.Lag(2))
    assert (await btc.call("getrawtransaction", payment.tx_hash, True, block))["confirmations"] == 1
    assert (await btc.call("gettxout", payment.tx_hash, 0))["confirmations"] == 1
    assert (await btc.call("getblock", block))["confirmations"] == 1


@ON_BITCOIN
async def test_a_bitcoin_transaction_can_be_hidden_while_the_block_shows_it(
    devnet: Devnet, payer: Payer, proxy: FaultProxy, btc: BitcoinClient
) -> None:
    hidden, seen = await payer.sign(0, AMOUNT), await payer.sign(1, AMOUNT)
    await payer.send(hidden)
    await payer.send(seen)
    proxy.rule("*", bitcoin.Hide(hidden.tx_hash))
    assert await btc.call("getrawmempool") == [seen.tx_hash]
    assert list(await btc.call("getrawmempool", True)) == [seen.tx_hash]
    assert await btc.call("gettxout", hidden.tx_hash, 0) is None
    for method in ("getrawtransaction", "getmempoolentry"):
        with pytest.raises(NodeRefused) as refused:
            await btc.call(method, hidden.tx_hash)
        assert refused.value.code == -5
        await btc.call(method, seen.tx_hash)
    (block,) = await devnet.mine()
    assert hidden.tx_hash in (await btc.call("getblock", block))["tx"]


@ON_BITCOIN
async def test_a_bitcoin_node_can_claim_to_be_another_chain(proxy: FaultProxy, btc: BitcoinClient) -> None:
    truth = await btc.call("getblockhash", 0)
    proxy.rule("*", bitcoin.OtherChain())
    assert await btc.call("getblockhash", 0) == bitcoin.MAIN_GENESIS != truth
    assert (await btc.call("getblockchaininfo"))["chain"] == "main"
    assert await btc.call("getblockhash", 1) != bitcoin.MAIN_GENESIS
