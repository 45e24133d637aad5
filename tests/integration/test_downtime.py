"""The gateway or its node was away: what happened meanwhile is caught up, block by block."""

import asyncio

import pytest

from gateway.core.errors import ConfigError
from gateway.core.lifecycle import Status
from tests.integration.rig import Rig, wait_for

pytestmark = pytest.mark.devnet


async def test_fifty_blocks_of_downtime_are_caught_up_one_by_one(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund(coins=3)
        early = await desk.pay(3)
        await desk.waiting(early)
    await rig.devnet.mine(25)
    async with rig.standing() as desk:
        late = await desk.pay(3, first=3)
    tip = (await rig.devnet.mine_empty(25))[-1]
    async with rig.working() as desk:
        await desk.followed(tip)
        await desk.until(early, Status.COMPLETED)
        head = await rig.devnet.height()
        async with desk.gateway.store.read() as reader:
            heights = [ref.height for ref in await reader.headers(rig.chain, 60)]
        assert heights[:51] == list(range(head, head - 51, -1))
        for i in early:
            rows = (await desk.history(i)).confirmations
            assert {row.block_height for row in rows} == {head - 49, head - 48}
        await desk.finish(late)
        await desk.prove([*early, *late])


async def test_a_reorg_during_downtime_is_taken_back_at_the_start(rig: Rig) -> None:
    await rig.prepare(threshold=4)
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        await desk.waiting(ids)
        await desk.mine(2)
        await desk.until(ids, Status.CONFIRMING)
    await rig.devnet.reorg(2, reinclude=False)
    async with rig.working() as desk:
        await desk.in_pool({w.tx_hash or "" for w in await desk.withdrawals(ids)})
        await desk.finish(ids)
        assert sum(row.reorged_at is not None for row in (await desk.history(ids[0])).confirmations) == 2
        await desk.prove(ids)


async def test_a_chain_that_is_shorter_at_the_start_than_it_was_is_waited_for(rig: Rig) -> None:
    await rig.prepare(threshold=4)
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        await desk.waiting(ids)
        await desk.mine(2)
        await desk.until(ids, Status.CONFIRMING)
    await rig.devnet.shorten(2)
    async with rig.working() as desk:
        await desk.until(ids, Status.CONFIRMING)
        await desk.mine_empty()
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_restart_offers_what_was_in_flight_again_as_the_same_bytes(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        (w,) = await desk.waiting(ids)
    await rig.devnet.drop(w.tx_hash or "")
    async with rig.working() as desk:
        await desk.in_pool({w.tx_hash or ""})
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_node_that_is_down_at_the_start_is_waited_for(rig: Rig) -> None:
    await rig.prepare()
    async with rig.standing() as desk:
        await desk.fund()
        ids = await desk.pay()
    await rig.devnet.stop()
    rig.proxy.reset()
    async with rig.working(at_once=False) as desk:
        await rig.proxy.seen("*", 3)
        await desk.until(ids, Status.SUBMITTED)
        await rig.devnet.start()
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_node_that_freezes_in_between_is_waited_for(rig: Rig) -> None:
    await rig.prepare(timeout=0.5)
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        await desk.waiting(ids)
        await rig.devnet.pause()
        rig.proxy.reset()
        await rig.proxy.seen("*", 3)
        await rig.devnet.resume()
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_node_of_another_chain_is_refused_at_the_start(rig: Rig) -> None:
    await rig.prepare()
    rig.fault(rig.hand.other_chain)
    async with rig.standing() as desk, asyncio.timeout(20):
        with pytest.raises(ConfigError, match=rig.chain):
            await desk.gateway.run()


async def test_a_node_that_turns_into_one_of_another_chain_is_not_followed(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        await desk.waiting(ids)
        await rig.proxy.stop()
        await wait_for(lambda: any(line["event"] == "endpoint is missing" for line in rig.logs), "for the loss")
        rig.fault(rig.hand.other_chain)
        rig.proxy.reset()
        await rig.proxy.start()
        await rig.proxy.seen("*", 3)
        await rig.devnet.mine(3)
        rig.proxy.reset()
        await rig.proxy.seen("*", 3)
        assert [w.status for w in await desk.withdrawals(ids)] == [Status.BROADCASTING]
        rig.proxy.heal()
        await desk.finish(ids)
        await desk.prove(ids)
