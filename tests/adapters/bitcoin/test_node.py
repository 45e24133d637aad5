"""The adapter on a real node: another library is the witness, and a proxy between makes things go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from adapters.bitcoin.address import Kind, address_of, script_of
from adapters.bitcoin.codec import BitcoinCodec
from adapters.bitcoin.fees import Rates
from adapters.bitcoin.node import BitcoinNode
from adapters.bitcoin.params import COINS, read_settings
from adapters.bitcoin.payload import decode
from adapters.bitcoin.psbt import to_psbt
from devnets.bitcoin.client import Client
from devnets.bitcoin.faults import Lag, OtherChain
from devnets.bitcoin.network import BitcoinDevnet
from devnets.faults import Answer, DropAnswer, Garbage, Refuse
from devnets.proxy import FaultProxy
from gateway.core.chain import AttemptKind, BlockRef, FeeLevel, Hold, Landed, Payment, Pending, Presence, Unsigned
from gateway.core.errors import BadReply, ConfigError, NodeUnavailable, Outcome, OutcomeUnknown, Refused
from gateway.core.substatus import SubStatus
from tests.adapters.bitcoin.conftest import Vault
from tests.adapters.bitcoin.test_address import SCRIPTS
from tests.adapters.bitcoin.vault import Key

pytestmark = [pytest.mark.devnet, pytest.mark.bitcoin]

COIN = 100_000_000


@dataclass
class Watched:
    hashes: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    senders: dict[str, object] = field(default_factory=dict)


@pytest.fixture
async def proxy(devnet: BitcoinDevnet) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(devnet.url) as proxy:
        yield proxy


@pytest.fixture
async def behind(proxy: FaultProxy, devnet: BitcoinDevnet) -> AsyncIterator[BitcoinNode]:
    """Our half on the far side of the proxy."""
    node = connect(devnet, proxy.url)
    await node.open()
    yield node
    await node.close()


def connect(devnet: BitcoinDevnet, *urls: str, **more: object) -> BitcoinNode:
    settings = {"coin": devnet.coin, "urls": list(urls), "poll_interval": 0.02, "timeout": 5}
    return BitcoinNode("chain", read_settings("chain", settings | more))


def stranger(devnet: BitcoinDevnet) -> str:
    address = address_of(COINS[devnet.coin], b"\x00\x14" + b"\x07" * 20)
    assert address is not None
    return address


async def pay(vault: Vault, number: int, amount: int) -> Pending:
    """Build with the node's own rates, sign and keep; not sent."""
    order = vault.order(vault.intent(number, amount, stranger(vault.devnet)))
    rates = await vault.node.fees()
    assert isinstance(rates, Rates)
    built = vault.build(order, rates)
    assert isinstance(built, Unsigned), built
    return vault.keep(order, built)


# Heads and headers


async def test_heads_and_headers_are_those_of_the_node(
    node: BitcoinNode, devnet: BitcoinDevnet, witness: Client
) -> None:
    head = await node.head()
    assert head.hash == await witness.call("getbestblockhash")
    assert head.height == await devnet.height()
    below = await node.header(head.height - 1)
    assert below is not None
    assert (below.hash, below.height) == (head.parent, head.height - 1)
    assert await node.header(head.height) == head
    assert await node.header(head.height + 1) is None
    assert await node.header(-1) is None
    assert await node.header(0) == BlockRef(0, COINS[devnet.coin].genesis, "")
    depth = COINS[devnet.coin].finality_depth
    assert await node.finalized(head) == head.height - depth + 1
    assert await node.finalized(BlockRef(depth - 1, "", "")) == 0
    assert await node.finalized(BlockRef(depth - 2, "", "")) == -1


async def test_the_next_head_comes_when_it_is_there_and_not_later_than_asked(
    node: BitcoinNode, devnet: BitcoinDevnet
) -> None:
    known = await node.head()
    assert await node.next_head(known, 0) == known
    assert await node.next_head(known, 0.05) == known
    waiting = asyncio.create_task(node.next_head(known, 30))
    (mined,) = await devnet.mine()
    assert (await waiting).hash == mined
    assert (await node.next_head(known, 30)).hash == mined, "already there"


async def test_a_chain_that_gets_shorter_is_normal(node: BitcoinNode, devnet: BitcoinDevnet) -> None:
    await devnet.mine(3)
    before = await node.head()
    await devnet.shorten(2)
    after = await node.head()
    assert after.height == before.height - 2
    assert await node.next_head(before, 5) == after
    assert await node.header(before.height) is None
    assert await node.block(before, Watched()) is not None, "it still has the block, off the chain"


async def test_a_reorganised_block_has_another_hash_at_its_height(node: BitcoinNode, devnet: BitcoinDevnet) -> None:
    await devnet.mine(2)
    before = await node.head()
    await devnet.reorg(1, reinclude=True)
    after = await node.header(before.height)
    assert after is not None
    assert after.hash != before.hash
    assert after.parent == before.parent


async def test_a_block_that_nobody_knows_is_none(node: BitcoinNode) -> None:
    assert await node.block(BlockRef(5, "ab" * 32, "cd" * 32), Watched()) is None


# The life of a payment


async def test_a_payment_goes_from_coins_to_a_block(
    node: BitcoinNode, devnet: BitcoinDevnet, vault: Vault, witness: Client
) -> None:
    await vault.fund(COIN, 3 * COIN)
    assert await node.balance(vault.account.address) == 4 * COIN == await devnet.balance(vault.account.address)
    attempt = await pay(vault, 1, COIN // 2)

    # What another implementation reads in the bytes is what we meant.
    seen = await witness.call("decoderawtransaction", attempt.raw.hex())
    draft = decode(devnet.coin, attempt.payload)
    assert seen["txid"] == attempt.tx_hash
    assert [f"{vin['txid']}:{vin['vout']}" for vin in seen["vin"]] == list(attempt.claims)
    assert [vin["sequence"] for vin in seen["vin"]] == [0xFFFFFFFD]
    assert seen["locktime"] == await devnet.height()
    assert draft.vsize - 1 <= seen["vsize"] <= draft.vsize
    outputs = [(out["scriptPubKey"]["hex"], int(out["value"] * COIN)) for out in seen["vout"]]
    assert outputs == [(o.script.hex(), o.amount) for o in draft.outputs]
    (verdict,) = await witness.call("testmempoolaccept", [attempt.raw.hex()])
    assert verdict["allowed"]
    assert int(verdict["fees"]["base"] * COIN) == attempt.fee_max

    assert await node.presence(attempt.tx_hash) is Presence.ABSENT
    sent = await node.send(attempt.raw, attempt.tx_hash)
    assert (sent.already_known, "devnet" in sent.node) == (False, False)
    assert await node.presence(attempt.tx_hash) is Presence.IN_POOL
    assert await node.send(attempt.raw, attempt.tx_hash) == sent, "again: it is still there"

    await devnet.mine()
    head = await node.head()
    block = await node.block(head, Watched(hashes={attempt.tx_hash}))
    assert block is not None
    assert block.ref == head
    change = draft.outputs[1].amount
    expected = Landed(
        tx_hash=attempt.tx_hash,
        claims=attempt.claims,
        sender="",
        ok=True,
        fee=block.landed[0].fee,
        pays=(Payment(stranger(devnet), COIN // 2), Payment(vault.account.address, change)),
    )
    assert block.landed == (expected,)
    assert expected.fee in (None, attempt.fee_max)
    for watched in (Watched(claims={attempt.claims[0]}), Watched(senders={vault.account.address: 1})):
        found = await node.block(head, watched)
        assert found is not None
        assert [landed.tx_hash for landed in found.landed] == [attempt.tx_hash]
    nothing = await node.block(head, Watched(senders={stranger(devnet): 1}))
    assert nothing is not None
    assert nothing.landed == ()

    assert await node.presence(attempt.tx_hash) is Presence.IN_BLOCK
    assert (await node.send(attempt.raw, attempt.tx_hash)).already_known
    facts = await vault.look()
    assert facts.spendable == 3 * COIN + change
    assert {coin.claim for coin in vault.coins} >= {f"{attempt.tx_hash}:1"}


async def test_once_its_outputs_are_spent_too_a_repeated_send_has_to_be_looked_up(
    node: BitcoinNode, devnet: BitcoinDevnet, vault: Vault
) -> None:
    await vault.fund(COIN)
    order = vault.order(vault.intent(1, COIN // 2, vault.account.address))
    built = vault.build(order)
    assert isinstance(built, Unsigned)
    first = vault.keep(order, built)
    await node.send(first.raw, first.tx_hash)
    second = await pay(vault, 2, 9 * COIN // 10)
    assert {claim.split(":")[0] for claim in second.claims} == {first.tx_hash}
    await node.send(second.raw, second.tx_hash)
    await devnet.mine()
    with pytest.raises(Refused) as caught:
        await node.send(first.raw, first.tx_hash)
    assert caught.value.outcome is Outcome.LOOKUP


async def test_a_whole_chain_of_change_is_taken_and_the_next_one_waits(
    node: BitcoinNode, devnet: BitcoinDevnet, vault: Vault
) -> None:
    await vault.fund(COIN)
    for number in range(25):
        attempt = await pay(vault, number, COIN // 100)
        await node.send(attempt.raw, attempt.tx_hash)
    order = vault.order(vault.intent(99, COIN // 100, stranger(devnet)))
    held = vault.build(order)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.TOO_LONG_MEMPOOL_CHAIN
    assert vault.codec.room(vault.lane) == 0
    await devnet.mine()
    await vault.look()
    vault.pending.clear()
    last = vault.keep(order, built) if isinstance(built := vault.build(order), Unsigned) else None
    assert last is not None
    await node.send(last.raw, last.tx_hash)


@pytest.mark.parametrize("kind", [AttemptKind.BOOST, AttemptKind.DROP])
async def test_a_node_takes_our_replacements(
    node: BitcoinNode, devnet: BitcoinDevnet, vault: Vault, kind: AttemptKind
) -> None:
    await vault.fund(COIN, COIN // 100)
    await node.send((first := await pay(vault, 1, COIN - 5_000)).raw, first.tx_hash)
    rates = await node.fees()
    assert isinstance(rates, Rates)
    newest = first
    for _ in range(4):  # each at the very least that the rules ask for
        order = vault.order(vault.intents[first.withdrawal_id], kind=kind, level=FeeLevel.LOW)
        built = vault.build(order, rates)
        assert isinstance(built, Unsigned), built
        newest = vault.keep(order, built)
        await node.send(newest.raw, newest.tx_hash)
        assert await devnet.pool() == {newest.tx_hash}
    await devnet.mine()
    block = await node.block(await node.head(), Watched(claims=set(first.claims)))
    assert block is not None
    assert [landed.tx_hash for landed in block.landed] == [newest.tx_hash]
    with pytest.raises(Refused) as caught:
        await node.send(first.raw, first.tx_hash)
    assert caught.value.outcome is Outcome.LOOKUP


async def test_newly_mined_coins_are_known_as_such(
    node: BitcoinNode, devnet: BitcoinDevnet, vault: Vault, witness: Client
) -> None:
    await vault.fund(COIN)
    await witness.call("generatetoaddress", 1, vault.account.address)
    facts = await vault.look()
    assert facts.spendable == COIN
    assert sorted(coin.coinbase for coin in vault.coins) == [False, True]
    assert await node.balance(vault.account.address) == COIN
    await devnet.mine(98)
    assert (await vault.look()).spendable == COIN
    await devnet.mine()
    rested = await vault.look()
    assert rested.spendable > COIN
    order = vault.order(vault.intent(1, rested.spendable - COIN // 2, stranger(devnet)))
    built = vault.build(order)
    assert isinstance(built, Unsigned)
    attempt = vault.keep(order, built)
    await node.send(attempt.raw, attempt.tx_hash)


async def test_an_account_without_history_has_nothing_and_opens_with_nothing(node: BitcoinNode, vault: Vault) -> None:
    assert (await vault.look()).spendable == 0
    assert vault.coins == []
    assert await node.opening(vault.account) == ""


# What another implementation says


@pytest.mark.parametrize("kind", list(Kind))
async def test_the_node_reads_and_writes_addresses_as_we_do(devnet: BitcoinDevnet, witness: Client, kind: Kind) -> None:
    coin = COINS[devnet.coin]
    script = SCRIPTS[kind]
    address = address_of(coin, script)
    assert address is not None
    assert (await witness.call("validateaddress", address))["scriptPubKey"] == script.hex()
    decoded = await witness.call("decodescript", script.hex())
    assert address in (decoded.get("address"), *decoded.get("addresses", ()))
    assert script_of(coin, address) == script


async def test_the_node_agrees_on_what_is_dust(vault: Vault, witness: Client, devnet: BitcoinDevnet) -> None:
    await vault.fund(COIN)
    for kind, script in SCRIPTS.items():
        address = address_of(COINS[devnet.coin], script)
        assert address is not None
        least = next(n for n in range(1, 10_000) if _payable(vault.codec, n, address))
        order = vault.order(vault.intent(1, least, address))
        built = vault.build(order)
        assert isinstance(built, Unsigned)
        (verdict,) = await witness.call("testmempoolaccept", [vault.keep(order, built).raw.hex()])
        vault.pending.clear()
        assert verdict["allowed"], f"{kind}: {verdict}"
        raw = await witness.call(
            "createrawtransaction", [{"txid": vault.coins[0].txid, "vout": 0}], {address: f"{(least - 1) / COIN:.8f}"}
        )
        (verdict,) = await witness.call("testmempoolaccept", [raw])
        assert verdict["reject-reason"] == "dust", kind


def _payable(codec: BitcoinCodec, amount: int, address: str) -> bool:
    from gateway.core.errors import BadRequest

    try:
        codec.check_amount(amount, address)
    except BadRequest:
        return False
    return True


async def test_the_node_reads_our_psbt(vault: Vault, witness: Client, devnet: BitcoinDevnet) -> None:
    await vault.fund(COIN, COIN)
    order = vault.order(vault.intent(1, 3 * COIN // 2, stranger(devnet)))
    built = vault.build(order)
    assert isinstance(built, Unsigned)
    text = to_psbt(devnet.coin, built.payload, vault.account)
    seen = await witness.call("decodepsbt", text)
    assert int(seen["fee"] * COIN) == built.fee_max
    (after,) = {entry["next"] for entry in (await witness.call("analyzepsbt", text))["inputs"]}
    assert after in ("signer", "updater")


# What goes wrong


async def test_another_coin_or_network_is_a_configuration_error(devnet: BitcoinDevnet, proxy: FaultProxy) -> None:
    other = "bitcoin-regtest" if devnet.coin == "litecoin-regtest" else "litecoin-regtest"
    node = BitcoinNode("chain", read_settings("chain", {"coin": other, "urls": [devnet.url]}))
    with pytest.raises(ConfigError, match=f"its first block is .*{other} begins with"):
        await node.open()
    proxy.rule("*", OtherChain(genesis=COINS[devnet.coin].genesis))
    node = connect(devnet, proxy.url)
    with pytest.raises(ConfigError, match="on the network 'main', not on 'regtest'"):
        await node.open()
    proxy.heal()
    proxy.rule("*", OtherChain())
    with pytest.raises(ConfigError, match="its first block is 0000"):
        await node.open()


async def test_a_lost_answer_to_a_send_is_unknown(
    devnet: BitcoinDevnet, proxy: FaultProxy, behind: BitcoinNode, vault: Vault
) -> None:
    await vault.fund(COIN)
    attempt = await pay(vault, 1, COIN // 2)
    proxy.rule("sendrawtransaction", DropAnswer())
    with pytest.raises(OutcomeUnknown):
        await behind.send(attempt.raw, attempt.tx_hash)
    assert await devnet.pool() == {attempt.tx_hash}, "it did have an effect"
    assert proxy.count("sendrawtransaction") == 1, "it goes out once"
    proxy.heal()
    assert not (await behind.send(attempt.raw, attempt.tx_hash)).already_known


async def test_a_node_that_is_gone_took_nothing(devnet: BitcoinDevnet, node: BitcoinNode, vault: Vault) -> None:
    await vault.fund(COIN)
    attempt = await pay(vault, 1, COIN // 2)
    await node.close()  # an idle connection would delay its end
    await devnet.stop()
    for _ in range(2):
        with pytest.raises((NodeUnavailable, OutcomeUnknown)):
            await node.send(attempt.raw, attempt.tx_hash)
    with pytest.raises(NodeUnavailable):
        await node.send(attempt.raw, attempt.tx_hash)
    with pytest.raises(NodeUnavailable):
        await node.head()


@pytest.mark.parametrize(
    ("code", "message", "outcome"),
    [
        (-28, "Loading block index...", Outcome.RETRY),
        (-26, "min relay fee not met, 1 < 141", Outcome.FEE_TOO_LOW),
        (-26, "dust", Outcome.PERMANENT),
        (-25, "bad-txns-inputs-missingorspent", Outcome.LOOKUP),
        (-26, "a reason that came later", Outcome.LOOKUP),
    ],
)
async def test_a_refusal_has_its_class_and_names_no_credentials(
    proxy: FaultProxy, behind: BitcoinNode, code: int, message: str, outcome: Outcome
) -> None:
    proxy.rule("sendrawtransaction", Refuse(code, message))
    with pytest.raises(Refused, match="sendrawtransaction") as caught:
        await behind.send(b"\x00", "ab" * 32)
    assert caught.value.outcome is outcome
    assert caught.value.node.startswith("127.0.0.1:")
    assert "@" not in str(caught.value)


async def test_any_node_that_takes_it_decides_and_permanent_needs_all(
    devnet: BitcoinDevnet, proxy: FaultProxy, vault: Vault
) -> None:
    await vault.fund(COIN)
    attempt = await pay(vault, 1, COIN // 2)
    async with FaultProxy(devnet.url) as second:
        node = connect(devnet, proxy.url, second.url)
        await node.open()
        proxy.rule("sendrawtransaction", Refuse(-26, "dust"))
        other = second.rule("sendrawtransaction", Refuse(-28, "Loading block index..."))
        with pytest.raises(Refused) as caught:
            await node.send(attempt.raw, attempt.tx_hash)
        assert caught.value.outcome is Outcome.RETRY
        second.remove(other)
        other = second.rule("sendrawtransaction", Refuse(-27, "Transaction already in block chain"))
        assert (await node.send(attempt.raw, attempt.tx_hash)).already_known
        second.remove(other)
        assert not (await node.send(attempt.raw, attempt.tx_hash)).already_known
        second.rule("sendrawtransaction", DropAnswer())
        with pytest.raises(OutcomeUnknown):
            await node.send(attempt.raw, attempt.tx_hash)
        await node.close()


async def test_an_answer_with_another_hash_is_not_taken_for_success(proxy: FaultProxy, behind: BitcoinNode) -> None:
    proxy.rule("sendrawtransaction", Answer("cd" * 32))
    with pytest.raises(OutcomeUnknown):
        await behind.send(b"\x00", "ab" * 32)


async def test_the_node_is_told_a_fee_cap_that_is_wider_than_ours(
    devnet: BitcoinDevnet, witness: Client, vault: Vault
) -> None:
    node = connect(devnet, devnet.url, max_fee=500_000)
    await node.open()
    await vault.fund(COIN)
    dear = Rates(3_000_000, 3_000_000, 3_000_000, floor=1, incremental=1)
    order = vault.order(vault.intent(1, COIN // 2, stranger(devnet)), max_fee=500_000)
    built = vault.build(order, dear)
    assert isinstance(built, Unsigned)
    attempt = vault.keep(order, built)
    await node.send(attempt.raw, attempt.tx_hash)
    await node.close()


async def test_what_is_behind_is_not_asked(devnet: BitcoinDevnet, proxy: FaultProxy, vault: Vault) -> None:
    await vault.fund(COIN)
    proxy.rule("*", Lag(3))
    node = connect(devnet, proxy.url, devnet.url)
    await node.open()
    head = await node.head()
    assert head.height == await devnet.height()
    assert await node.header(head.height) == head
    assert await node.block(head, Watched()) is not None
    assert proxy.count("getblock") == 0
    await node.close()


@pytest.mark.parametrize(
    "method",
    ["getblockchaininfo", "getblockheader", "getblock", "scantxoutset", "getmempoolinfo", "getrawtransaction"],
)
async def test_a_read_that_fails_says_so_and_nonsense_is_a_bad_reply(
    proxy: FaultProxy, behind: BitcoinNode, vault: Vault, method: str
) -> None:
    head = await behind.head()

    async def read() -> object:
        match method:
            case "getblockchaininfo":
                return await behind.head()
            case "getblockheader":
                return await behind.header(head.height)
            case "getblock":
                return await behind.block(head, Watched())
            case "scantxoutset":
                return await behind.survey(vault.account, [])
            case "getmempoolinfo":
                return await behind.fees()
            case _:
                return await behind.presence("ab" * 32)

    await read()
    busy = proxy.rule(method, Refuse(-8, 'Scan already in progress, use action "abort" or "status"'))
    with pytest.raises(NodeUnavailable):
        await read()
    proxy.remove(busy)
    for nonsense in ("text", 7, {}, {"hash": 1, "blocks": -1, "height": "x", "success": True, "confirmations": "1"}):
        rule = proxy.rule(method, Answer(nonsense))
        # A head that cannot be read is that endpoint's fault alone, so another would be asked.
        with pytest.raises(NodeUnavailable if method == "getblockchaininfo" else BadReply):
            await read()
        proxy.remove(rule)
    await read()
    proxy.rule(method, Garbage())
    with pytest.raises(BadReply):
        await read()


async def test_a_node_that_warms_up_is_not_there_yet(proxy: FaultProxy, behind: BitcoinNode) -> None:
    proxy.rule("*", Refuse(-28, "Loading block index..."))
    with pytest.raises(NodeUnavailable, match="Loading"):
        await behind.head()
    with pytest.raises(NodeUnavailable, match="Loading"):
        await behind.fees()


# Fees and replacement


async def test_without_estimates_the_rates_are_our_own(node: BitcoinNode) -> None:
    rates = await node.fees()
    assert isinstance(rates, Rates)
    assert rates.low == rates.medium == rates.high == 10_000
    assert (rates.floor, rates.incremental) == (1_000, 1_000)


async def test_rates_are_the_nodes_estimates_within_our_bounds(proxy: FaultProxy, devnet: BitcoinDevnet) -> None:
    node = connect(devnet, proxy.url, fee_floor=2, fee_cap=60)
    await node.open()
    proxy.rule("estimatesmartfee", Answer({"feerate": 0.00025001, "blocks": 6}))
    rates = await node.fees()
    assert isinstance(rates, Rates)
    assert rates == Rates(25_001, 25_001, 25_001, floor=2_000, incremental=1_000)
    proxy.heal()
    proxy.rule("estimatesmartfee", Answer({"feerate": 1}))
    proxy.rule("getmempoolinfo", Answer({"mempoolminfee": 0.00004, "incrementalrelayfee": 0.000001}))
    rates = await node.fees()
    assert rates == Rates(60_000, 60_000, 60_000, floor=4_000, incremental=100)
    await node.close()


async def test_whether_pending_ones_are_replaced_is_asked_of_the_node(
    node: BitcoinNode, devnet: BitcoinDevnet, proxy: FaultProxy, behind: BitcoinNode, vault: Vault
) -> None:
    if devnet.coin == "litecoin-regtest":
        assert not await node.replaces(), "nothing waits that could be challenged"
    await vault.fund(COIN)
    attempt = await pay(vault, 1, COIN // 2)
    await node.send(attempt.raw, attempt.tx_hash)
    assert await node.replaces()
    assert await devnet.pool() == {attempt.tx_hash}, "the challenge has no effect"
    if devnet.coin == "litecoin-regtest":
        refused = [{"txid": "ab" * 32, "allowed": False, "reject-reason": "txn-mempool-conflict"}]
        proxy.rule("testmempoolaccept", Answer(refused))
        assert not await behind.replaces()
        proxy.rule("getmempoolinfo", Answer({"fullrbf": True}))
        assert await behind.replaces()
    assert not await connect(devnet, devnet.url, replacement="no").replaces()
    assert await connect(devnet, devnet.url, replacement="yes").replaces()


@pytest.mark.parametrize(("version", "replaces"), [(180_000, False), (210_000, True), (310_000, True)])
async def test_bitcoin_core_replaces_since_version_19(
    proxy: FaultProxy, behind: BitcoinNode, version: int, replaces: bool
) -> None:
    proxy.rule("getnetworkinfo", Answer({"version": version, "subversion": f"/Satoshi:{version}/"}))
    assert await behind.replaces() is replaces


async def test_the_number_of_calls_does_not_grow_with_what_is_watched(
    proxy: FaultProxy, behind: BitcoinNode, vault: Vault
) -> None:
    head = await behind.head()
    proxy.reset()
    many = {f"{n:064x}" for n in range(10_000)}
    assert await behind.block(head, Watched(many, {f"{h}:0" for h in many}, {Key(h).name: 1 for h in many}))
    assert proxy.count() == 1
