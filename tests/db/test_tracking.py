"""The present chain as the store keeps it: headers, inclusions, confirmations and foreign spends come and go."""

from __future__ import annotations

import pytest

from gateway.core.chain import BlockRef
from gateway.core.errors import StaleWrite
from gateway.core.records import Confirmation, Inclusion, Spend
from tests.db.world import World, block, now


async def _grow(world: World, *refs: BlockRef, keep: int = 100) -> None:
    for ref in refs:
        async with world.store.write() as writer:
            await writer.add_header(world.chain, ref, keep=keep)


async def test_headers_are_kept_as_deep_as_asked(world: World) -> None:
    refs = [block(height) for height in range(1, 8)]
    await _grow(world, *refs, keep=3)
    async with world.store.read() as reader:
        assert await reader.headers(world.chain, 10) == refs[:2:-1]
        assert await reader.headers(world.chain, 2) == [refs[6], refs[5]]
        assert await reader.header_at(world.chain, 5) == refs[4]
        assert await reader.header_at(world.chain, 1) is None
        assert await reader.headers("another chain", 5) == []
    with pytest.raises(StaleWrite):
        await _grow(world, block(7, "b"))


async def test_a_reorg_takes_back_what_its_blocks_held_and_marks_their_confirmations(world: World) -> None:
    (_, first), (_, second) = await world.sent("one"), await world.sent("two")
    kept, lost = block(1), block(2)
    await _grow(world, kept, lost)
    spend = Spend(world.chain, "one", "foreign", lost, False)
    async with world.store.write() as writer:
        await writer.include({first.id: Inclusion(kept, True, 5), second.id: Inclusion(lost, False, 7)})
        await writer.confirm([Confirmation(a.id, kept.hash, 1, now()) for a in (first, second)])
        await writer.confirm([Confirmation(a.id, lost.hash, 2, now()) for a in (first, second)])
        await writer.add_spend(spend)
    assert (await world.stored(second)).included == lost
    assert ((await world.stored(second)).ok, (await world.stored(second)).fee) == (False, 7)
    at = now()
    for _ in range(2):  # again is harmless
        async with world.store.write() as writer:
            await writer.orphan(world.chain, [lost], at)
    stored = await world.stored(second)
    assert (stored.included, stored.ok, stored.fee) == (None, True, None)
    assert (await world.stored(first)).included == kept
    rows = (await world.history(first.withdrawal_id)).confirmations
    assert [(row.block_hash, row.reorged_at) for row in rows] == [(kept.hash, None), (lost.hash, at)]
    async with world.store.read() as reader:
        assert await reader.headers(world.chain, 5) == [kept]
        assert await reader.spends(world.chain) == []
    async with world.store.write() as writer:  # the block comes back: a new row, the old one stays marked
        await writer.confirm([Confirmation(first.id, lost.hash, 2, now())])
    rows = (await world.history(first.withdrawal_id)).confirmations
    assert [row.reorged_at for row in rows] == [None, at, None]


async def test_a_reorg_of_one_chain_leaves_another_alone(world: World) -> None:
    other = await World.make(world.store, accounts=1)
    shared = block(5)
    made = []
    for one in (world, other):
        _, attempt = await one.sent("slot")
        await _grow(one, shared)
        async with one.store.write() as writer:
            await writer.include({attempt.id: Inclusion(shared, True, 1)})
            await writer.confirm([Confirmation(attempt.id, shared.hash, 5, now())])
        made.append(attempt)
    async with world.store.write() as writer:
        await writer.orphan(world.chain, [shared], now())
    assert (await world.stored(made[0])).included is None
    assert (await other.stored(made[1])).included == shared
    assert (await other.history(made[1].withdrawal_id)).confirmations[0].reorged_at is None
    async with world.store.read() as reader:
        assert await reader.headers(other.chain, 1) == [shared]


async def test_only_signed_attempts_are_included(world: World) -> None:
    _, attempt = await world.built("slot")
    with pytest.raises(StaleWrite):
        async with world.store.write() as writer:
            await writer.include({attempt.id: Inclusion(block(1), True, 1)})


async def test_a_tracker_finds_what_others_signed_until_it_has_it(world: World) -> None:
    _, first = await world.signed("one")
    await world.built("unsigned")
    async with world.store.read() as reader:
        assert await reader.unindexed(world.chain) == [first]
    async with world.store.write() as writer:
        await writer.mark_indexed([first.id])
    _, second = await world.signed("two")
    async with world.store.read() as reader:
        assert await reader.unindexed(world.chain) == [second]
        assert [a.id for a in await reader.live(world.chain)] == [first.id, second.id]


async def test_a_foreign_spend_matters_while_an_open_attempt_holds_its_claim(world: World) -> None:
    _, attempt = await world.sent("slot")
    spend = Spend(world.chain, "slot", "foreign", block(3), True)
    async with world.store.write() as writer:
        await writer.add_spend(spend)
        await writer.add_spend(spend)
        await writer.add_spend(Spend(world.chain, "nobody's", "foreign", block(3), False))
        assert await writer.spends(world.chain) == [spend]
        await writer.close([attempt.id])
        assert await writer.spends(world.chain) == []


async def test_an_unknown_attempt_cannot_be_closed(world: World) -> None:
    ghost = world.attempt(world.withdrawal(), "slot")
    with pytest.raises(StaleWrite):
        async with world.store.write() as writer:
            await writer.close([ghost.id])
