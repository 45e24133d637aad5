"""The adapter on a real node: what web3 sees is what our adapter says."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from web3 import Web3

from adapters.evm import make
from adapters.evm.codec import EvmFacts, Gas, Reverts
from devnets.evm.client import Client
from devnets.evm.faults import Hide, Lag, OtherChain
from devnets.evm.network import EvmDevnet
from devnets.faults import Close, CutOff, DropAnswer, Truncate
from devnets.proxy import FaultProxy
from gateway.core.chain import AttemptKind, Landed, Payment, Pending, Presence, Reject, Unsigned, Watch
from gateway.core.errors import ConfigError, NodeUnavailable, Outcome, OutcomeUnknown, Refused
from tests.adapters.evm.conftest import Live
from tests.adapters.evm.vault import ELSEWHERE, ETHER, transfer_of

pytestmark = [pytest.mark.devnet, pytest.mark.evm]

SEND = "eth_sendRawTransaction"
REVERTS, STORES = Web3.to_checksum_address("0x" + "aa" * 20), Web3.to_checksum_address("0x" + "ab" * 20)
DELEGATE = "0xef0100" + "ab" * 20


def watch(live: Live, *attempts: Pending) -> Watch:
    return SimpleNamespace(
        hashes={attempt.tx_hash: 1 for attempt in attempts},
        claims={claim: 1 for attempt in attempts for claim in attempt.claims},
        senders={live.account.address: 1},
    )


async def landed(live: Live, *attempts: Pending) -> tuple[Landed, ...]:
    block = await live.node.block(await live.node.head(), watch(live, *attempts))
    assert block is not None
    return block.landed


async def test_a_payment_arrives_to_the_wei(live: Live, devnet: EvmDevnet, witness: Client) -> None:
    before = await witness.eth.get_balance(live.account.address)  # type: ignore[arg-type]
    attempt = await live.sent(amount=3 * ETHER + 1)
    assert await live.node.presence(attempt.tx_hash) is Presence.IN_POOL
    await devnet.mine()
    assert await live.node.presence(attempt.tx_hash) is Presence.IN_BLOCK
    (found,) = await landed(live, attempt)
    seen = await witness.eth.get_transaction_receipt(attempt.tx_hash)  # type: ignore[arg-type]
    assert found == Landed(
        attempt.tx_hash,
        attempt.claims,
        live.account.address,
        True,
        seen["gasUsed"] * seen["effectiveGasPrice"],
        (Payment(ELSEWHERE, 3 * ETHER + 1),),
    )
    assert found.fee is not None
    assert await witness.eth.get_balance(ELSEWHERE) == 3 * ETHER + 1  # type: ignore[arg-type]
    assert await live.node.balance(ELSEWHERE) == 3 * ETHER + 1
    after = await witness.eth.get_balance(live.account.address)  # type: ignore[arg-type]
    assert before - after == 3 * ETHER + 1 + found.fee
    assert found.fee <= attempt.fee_max


async def test_web3_reads_our_bytes_as_we_meant_them(live: Live, witness: Client) -> None:
    attempt = await live.sent()
    seen: Any = await witness.eth.get_transaction(attempt.tx_hash)  # type: ignore[arg-type]
    meant = transfer_of(attempt)
    assert (seen["type"], seen["from"], seen["to"]) == (2, live.account.address, ELSEWHERE)
    assert (seen["nonce"], seen["value"], seen["gas"]) == (meant.nonce, meant.value, 21_000)
    assert (seen["maxFeePerGas"], seen["maxPriorityFeePerGas"]) == (meant.price.max_fee, meant.price.tip)
    assert bytes(seen["input"]) == b""
    assert seen["chainId"] == 31337


async def test_legacy_bytes_are_taken_too(live: Live, devnet: EvmDevnet) -> None:
    adapter = make("eth", {"chain_id": devnet.chain_id, "urls": [devnet.url], "fees": "legacy"})
    await adapter.node.open()
    old = Live(adapter.codec, node=adapter.node)  # type: ignore[arg-type]
    attempt = await old.sent()
    assert transfer_of(attempt).type == 0
    await devnet.mine()
    (found,) = await landed(live, attempt)
    assert found.ok
    await adapter.node.close()


async def test_a_row_of_payments_lands_in_one_block(live: Live, devnet: EvmDevnet) -> None:
    attempts = [await live.sent(number, number) for number in range(1, 17)]
    await live.ask()
    assert live.codec.room(live.lane) == 0
    await devnet.mine()
    found = await landed(live, *attempts)
    assert [one.tx_hash for one in found] == [attempt.tx_hash for attempt in attempts]
    facts = await live.ask()
    assert facts.mined == 16
    assert live.codec.room(live.lane) == 16


async def test_a_gap_waits_and_the_next_payment_fills_it(live: Live, devnet: EvmDevnet) -> None:
    first, second, third = [await live.signed(number) for number in range(1, 4)]
    for attempt in (first, third):
        await live.offer(attempt)
    await devnet.mine()
    assert [one.tx_hash for one in await landed(live, first, third)] == [first.tx_hash]
    live.pending.remove(second)
    live.held = [held for held in live.held if held.claim not in second.claims]
    filled = await live.sent(4)
    assert filled.claims == second.claims
    await devnet.mine()
    assert {one.tx_hash for one in await landed(live, filled, third)} == {filled.tx_hash, third.tx_hash}


async def test_bytes_that_the_node_has_are_success(live: Live) -> None:
    attempt = await live.signed()
    assert not (await live.offer(attempt)).already_known
    assert (await live.offer(attempt)).already_known


async def test_bytes_that_are_in_a_block_are_to_be_looked_up(live: Live, devnet: EvmDevnet) -> None:
    attempt = await live.sent()
    await devnet.mine()
    with pytest.raises(Refused) as caught:
        await live.offer(attempt)
    assert caught.value.outcome is Outcome.LOOKUP


async def test_a_boost_takes_the_place_of_the_payment(live: Live, devnet: EvmDevnet, witness: Client) -> None:
    attempt = await live.sent()
    boost = live.send(live.order(live.intents[0], kind=AttemptKind.BOOST))
    await live.offer(boost)
    assert await devnet.pool() == {boost.tx_hash}
    await devnet.mine()
    (found,) = await landed(live, attempt, boost)
    assert found.tx_hash == boost.tx_hash
    assert await witness.eth.get_balance(ELSEWHERE) == ETHER  # type: ignore[arg-type]
    with pytest.raises(Refused) as caught:
        await live.offer(attempt)
    assert caught.value.outcome is Outcome.LOOKUP


async def test_a_drop_takes_the_place_and_moves_nothing(live: Live, devnet: EvmDevnet, witness: Client) -> None:
    attempt = await live.sent()
    drop = live.send(live.order(live.intents[0], kind=AttemptKind.DROP))
    await live.offer(drop)
    with pytest.raises(Refused) as caught:
        await live.offer(attempt)
    assert caught.value.outcome is Outcome.FEE_TOO_LOW
    await devnet.mine()
    (found,) = await landed(live, attempt, drop)
    assert (found.tx_hash, found.ok, found.pays) == (drop.tx_hash, True, ())
    assert await witness.eth.get_balance(ELSEWHERE) == 0  # type: ignore[arg-type]


async def test_a_foreign_spend_is_seen_by_its_claim_and_stops_the_lane(
    live: Live, devnet: EvmDevnet, witness: Client
) -> None:
    ours = await live.signed()
    thief = Live(live.codec, live.key, node=live.node)
    await thief.ask()
    foreign = await thief.sent(2, 5)
    await devnet.mine()
    (found,) = await landed(live, ours)
    assert (found.tx_hash, found.claims) == (foreign.tx_hash, ours.claims)
    assert found.pays == (Payment(ELSEWHERE, 5),)
    live.held.clear()
    live.pending.clear()
    await live.ask()
    built = live.build(live.order(live.intents[0]))
    assert "does not know" in getattr(built, "reason", "")


async def test_destinations_with_code_are_estimated(live: Live, devnet: EvmDevnet, witness: Client) -> None:
    await witness.call("anvil_setCode", REVERTS, "0x60006000fd")
    await witness.call("anvil_setCode", STORES, "0x600160005500")
    refused, stored, plain = (live.intent(n, n, to) for n, to in enumerate([REVERTS, STORES, ELSEWHERE], 1))
    facts = await live.ask()
    assert facts.needs[REVERTS, 1] == Reverts("execution reverted")
    assert facts.needs[ELSEWHERE, 3] == Gas(21_000, exact=True)
    need = facts.needs[STORES, 2]
    assert isinstance(need, Gas)
    assert need.units > 40_000
    assert isinstance(live.build(live.order(refused)), Reject)
    attempt = live.send(live.order(stored))
    await live.offer(attempt)
    await devnet.mine()
    (found,) = await landed(live, attempt)
    assert found.ok
    assert await witness.eth.get_balance(STORES) == 2
    assert isinstance(live.build(live.order(plain)), Unsigned)


async def test_a_payment_that_fails_in_its_block_pays_nothing(live: Live, devnet: EvmDevnet, witness: Client) -> None:
    attempt = await live.sent()
    await witness.call("anvil_setCode", ELSEWHERE, "0x60006000fd")
    await devnet.mine()
    (found,) = await landed(live, attempt)
    assert (found.ok, found.pays) == (False, ())
    assert found.fee
    assert (await live.ask()).mined == 1, "the nonce is used all the same"


async def test_a_delegated_account_is_noticed(live: Live, witness: Client) -> None:
    await witness.call("anvil_setCode", live.account.address, DELEGATE)
    await live.ask()
    assert live.codec.room(live.lane) == 1


async def test_finality_is_the_nodes(live: Live, devnet: EvmDevnet, witness: Client) -> None:
    await devnet.mine_empty(5)
    head = await live.node.head()
    seen = await witness.eth.get_block("finalized")
    assert await live.node.finalized(head) == seen["number"] == head.height - 2


async def test_the_next_head_is_told_when_it_comes(live: Live, devnet: EvmDevnet) -> None:
    head = await live.node.head()
    waiting = asyncio.create_task(live.node.next_head(head, within=10.0))
    (mined,) = await devnet.mine()
    following = await waiting
    assert (following.hash, following.parent, following.height) == (mined, head.hash, head.height + 1)
    assert await live.node.header(following.height) == following
    assert await live.node.header(following.height + 1) is None


async def test_a_reorg_takes_a_block_away(live: Live, devnet: EvmDevnet) -> None:
    attempt = await live.sent()
    await devnet.mine()
    old = await live.node.head()
    await devnet.reorg(1, reinclude=False)
    new = await live.node.head()
    assert new.height == old.height + 1
    at_old_height = await live.node.header(old.height)
    assert at_old_height is not None
    assert at_old_height.hash != old.hash
    assert await live.node.block(old, watch(live, attempt)) is None
    assert await live.node.presence(attempt.tx_hash) is Presence.ABSENT
    assert not (await live.offer(attempt)).already_known, "the same bytes again"
    await devnet.mine()
    assert [one.tx_hash for one in await landed(live, attempt)] == [attempt.tx_hash]


async def test_a_chain_may_get_shorter(live: Live, devnet: EvmDevnet) -> None:
    await devnet.mine_empty(3)
    before = await live.node.head()
    await devnet.shorten(2)
    after = await live.node.head()
    assert after.height == before.height - 2
    assert (await live.ask()).height == after.height


@pytest.mark.parametrize("fault", [DropAnswer(), CutOff(), Truncate(), Close(acted=True)], ids=repr)
async def test_a_lost_answer_is_unknown_and_the_same_bytes_settle_it(
    live: Live, devnet: EvmDevnet, proxy: FaultProxy, fault: Any
) -> None:
    attempt = await live.signed()
    proxy.rule(SEND, fault, times=1)
    with pytest.raises(OutcomeUnknown):
        await live.offer(attempt)
    assert proxy.count(SEND) == 1
    assert await devnet.pool() == {attempt.tx_hash}, "it did have an effect"
    assert (await live.offer(attempt)).already_known


async def test_a_node_that_is_down_did_not_get_the_bytes(live: Live, devnet: EvmDevnet) -> None:
    attempt = await live.signed()
    node = make("eth", {"chain_id": devnet.chain_id, "urls": [devnet.url]}).node
    await node.open()
    await devnet.stop()
    # The connection that was kept from the start may still take the bytes before it turns out dead.
    with pytest.raises((NodeUnavailable, OutcomeUnknown)):
        await node.send(attempt.raw, attempt.tx_hash)
    with pytest.raises(NodeUnavailable):
        await node.send(attempt.raw, attempt.tx_hash)
    await node.close()


async def test_a_node_that_hides_a_transaction_is_only_a_hint(live: Live, proxy: FaultProxy) -> None:
    attempt = await live.sent()
    proxy.rule("eth_*", Hide(attempt.tx_hash))
    assert await live.node.presence(attempt.tx_hash) is Presence.ABSENT
    assert (await live.offer(attempt)).already_known


async def test_the_wrong_chain_is_refused_at_start_and_on_return(devnet: EvmDevnet, proxy: FaultProxy) -> None:
    with pytest.raises(ConfigError, match="answers for chain id 31337, not 1"):
        await make("eth", {"chain_id": 1, "urls": [proxy.url]}).node.open()
    node = make("eth", {"chain_id": devnet.chain_id, "urls": [proxy.url]}).node
    await node.open()
    proxy.rule("eth_getBalance", Close(), times=1)
    with pytest.raises(NodeUnavailable):
        await node.balance(ELSEWHERE)
    proxy.rule("*", OtherChain(5))
    with pytest.raises(NodeUnavailable, match="answers for chain id 5"):
        await node.balance(ELSEWHERE)
    proxy.heal()
    assert await node.balance(ELSEWHERE) == 0
    await node.close()


async def test_reads_avoid_a_replica_that_is_behind(live: Live, devnet: EvmDevnet, proxy: FaultProxy) -> None:
    node = make("eth", {"chain_id": devnet.chain_id, "urls": [proxy.url, devnet.url]}).node
    await node.open()
    await live.sent()
    await devnet.mine()
    proxy.rule("eth_*", Lag(1))
    head = await node.head()
    assert head.height == await devnet.height()
    assert await node.balance(ELSEWHERE) == ETHER
    facts = await node.survey(live.account, [])
    assert isinstance(facts, EvmFacts)
    assert facts.mined == 1
    await node.close()


async def test_a_write_reaches_every_node(live: Live, devnet: EvmDevnet) -> None:
    attempt = await live.signed()
    async with FaultProxy(devnet.url) as one, FaultProxy(devnet.url) as two:
        node = make("eth", {"chain_id": devnet.chain_id, "urls": [one.url, two.url]}).node
        await node.open()
        await node.send(attempt.raw, attempt.tx_hash)
        assert (one.count(SEND), two.count(SEND)) == (1, 1)
        await node.close()


async def test_reads_per_block_do_not_grow_with_what_is_watched(
    live: Live, devnet: EvmDevnet, proxy: FaultProxy
) -> None:
    attempts = [await live.sent(number, number) for number in range(1, 11)]
    await devnet.mine()
    head = await live.node.head()
    counts = []
    for watched in (attempts[:1], attempts):
        proxy.reset()
        await live.node.block(head, watch(live, *watched))
        counts.append(dict(proxy.counts))
    assert counts[0] == counts[1] == {"eth_getBlockByHash": 1, "eth_getBlockReceipts": 1}


async def test_every_fee_level_lands(live: Live, devnet: EvmDevnet) -> None:
    quote = await live.node.fees()
    assert quote.base
    assert quote.low <= quote.medium <= quote.high
    attempt = await live.sent()
    await devnet.mine()
    assert [one.ok for one in await landed(live, attempt)] == [True]
