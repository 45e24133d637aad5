"""Blocks leave the chain: what was in them is watched, sent again, and never paid twice."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from gateway.core.ids import WithdrawalId
from gateway.core.ledger import books
from gateway.core.lifecycle import Status
from gateway.core.records import Book, Confirmation
from gateway.core.substatus import SubStatus
from tests.integration.rig import GLANCE, PATIENCE, SLOW_FINALITY, Desk, Rig

pytestmark = pytest.mark.devnet


def off(rows: Sequence[Confirmation]) -> set[str]:
    return {row.block_hash for row in rows if row.reorged_at is not None}


def on(rows: Sequence[Confirmation]) -> set[str]:
    return {row.block_hash for row in rows if row.reorged_at is None}


async def test_a_reorg_that_includes_again_takes_the_rows_back_and_never_the_number(rig: Rig) -> None:
    await rig.prepare(threshold=4)
    async with rig.working() as desk:
        await desk.fund(coins=2)
        ids = await desk.pay(2)
        await desk.waiting(ids)
        await desk.mine(2)
        assert [w.confirmations for w in await desk.until(ids, Status.CONFIRMING)] == [2, 2]
        before = {i: (await desk.history(i)).confirmations for i in ids}
        reported = [2]
        await desk.reorg(2, reinclude=True)
        for _ in range(3):
            found = await desk.withdrawals(ids)
            assert {w.status for w in found} <= {Status.CONFIRMING, Status.COMPLETED}
            reported.append(min(w.confirmations for w in found))
            await desk.mine()
        await desk.until(ids, Status.COMPLETED)
        assert all(earlier <= later for earlier, later in pairwise(reported))
        for i in ids:
            history = await desk.history(i)
            assert off(history.confirmations) == {row.block_hash for row in before[i]}
            assert len(on(history.confirmations)) == 4
            assert [e.target for e in history.events].count(Status.CONFIRMING) == 1
        await desk.prove(ids)


async def test_a_reorg_that_does_not_include_again_has_the_same_bytes_sent_again(rig: Rig) -> None:
    await rig.prepare(threshold=4)
    async with rig.working() as desk:
        await desk.fund(coins=2)
        ids = await desk.pay(2)
        await desk.waiting(ids)
        await desk.mine(2)
        before = await desk.until(ids, Status.CONFIRMING)
        await desk.reorg(2, reinclude=False)
        assert {w.status for w in await desk.withdrawals(ids)} == {Status.CONFIRMING}
        await desk.in_pool({w.tx_hash for w in before if w.tx_hash})
        after = await desk.finish(ids)
        assert [w.tx_hash for w in after] == [w.tx_hash for w in before]
        for i in ids:
            history = await desk.history(i)
            assert len(history.attempts) == 1
            first, second = sorted(history.broadcasts, key=lambda row: row.attempt_number)
            assert (first.attempt_number, second.attempt_number) == (1, 2)
            assert (first.tx_hash, first.raw) == (second.tx_hash, second.raw)
            assert len(off(history.confirmations)) == 2
        await desk.prove(ids)


async def test_a_payment_that_is_mined_again_after_completion_stays_completed(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        await desk.waiting(ids)
        await desk.mine(2)
        (before,) = await desk.until(ids, Status.COMPLETED)
        await desk.reorg(2, reinclude=False)
        await desk.in_pool({before.tx_hash or ""})
        await desk.mine(4)
        (after,) = await desk.withdrawals(ids)
        assert (after.status, after.tx_hash, after.confirmations) == (Status.COMPLETED, before.tx_hash, 2)
        history = await desk.history(ids[0])
        assert len(off(history.confirmations)) == 2
        assert len(on(history.confirmations)) == 2
        assert history.attempts[0].closed
        await desk.prove(ids)


async def test_a_slot_spent_by_another_after_completion_fails_it_and_reverses_the_books(rig: Rig) -> None:
    await rig.prepare(**SLOW_FINALITY[rig.chain])
    async with rig.working() as desk:
        await desk.fund()
        ids = await _completed(desk)
        elsewhere = await desk.destination("elsewhere")
        raw = await _rival(desk, ids[0], to=elsewhere, amount=desk.unit // 50)
        await desk.reorg(2, reinclude=True, instead=[raw])
        (w,) = await desk.withdrawals(ids)
        assert w.status is Status.COMPLETED  # not final yet: nothing is decided
        await desk.mine(6)
        (w,) = await desk.until(ids, Status.FAILED, sub_status=SubStatus.DOUBLE_SPENDING)
        history = await desk.history(ids[0])
        assert [e.target for e in history.events][-2:] == [Status.COMPLETED, Status.FAILED]
        assert "reversal" in {entry.kind for entry in history.ledger}
        assert await desk.books(ids[0]) == books(w.status, amount=w.amount, max_fee=w.max_fee, fee_paid=0)
        assert await desk.held() == 0
        assert "not ours" in (await desk.halted() or "")
        await desk.prove(ids, besides={elsewhere: desk.unit // 50})


async def test_a_halted_lane_signs_nothing_more_and_the_other_vaults_go_on(rig: Rig) -> None:
    await rig.prepare(vaults=2)
    async with rig.working() as desk:
        await desk.fund(coins=2)
        ids = await _completed(desk)
        raw = await _rival(desk, ids[0], to=await desk.destination("elsewhere"), amount=desk.unit // 50)
        await desk.reorg(2, reinclude=True, instead=[raw])
        later = await desk.pay(first=5)
        others = await desk.pay(2, vault="hot-2")
        await desk.waiting(others)
        await desk.mine(5)
        await desk.until(others, Status.COMPLETED)
        await desk.until(ids, Status.FAILED)
        assert (await desk.until(later, Status.QUEUED))[0].tx_hash is None
        assert (await desk.history(later[0])).attempts == ()
        assert await desk.halted("hot-2") is None
        await desk.prove([*ids, *later, *others])


async def test_a_spend_that_the_store_does_not_know_halts_the_lane(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund(coins=2)
        assert rig.config is not None
        elsewhere = await desk.destination("elsewhere")
        raw = await rig.hand.stray(await desk.account(), rig.config, to=elsewhere, amount=desk.unit // 50)
        await desk.mine_empty()
        await desk.reorg(1, reinclude=True, instead=[raw])
        assert "does not know" in (await desk.halted() or "")
        ids = await desk.pay()
        await desk.mine(5)
        await desk.until(ids, Status.QUEUED)
        assert (await desk.history(ids[0])).attempts == ()
        await desk.prove(ids, besides={elsewhere: desk.unit // 50})


async def test_an_unknown_spend_during_downtime_halts_the_lane_before_it_signs(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund(coins=2)
        account = await desk.account()
    assert rig.config is not None
    async with rig.standing() as desk:
        elsewhere = await desk.destination("elsewhere")
        raw = await rig.hand.stray(account, rig.config, to=elsewhere, amount=desk.unit // 50)
        await rig.devnet.mine_empty()
        await rig.devnet.reorg(1, reinclude=True, instead=[raw])
        ids = await desk.pay()
    async with rig.working() as desk:
        await wait_until_halted(desk)
        assert {w.status for w in await desk.withdrawals(ids)} <= {Status.SUBMITTED, Status.QUEUED}
        assert (await desk.history(ids[0])).attempts == ()


async def test_a_slot_spent_by_another_that_pays_the_same_is_left_to_a_person(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await _completed(desk)
        (w,) = await desk.withdrawals(ids)
        raw = await _rival(desk, ids[0], to=w.destination, amount=w.amount)
        await desk.reorg(2, reinclude=True, instead=[raw])
        await desk.mine(8)
        (w,) = await desk.withdrawals(ids)
        assert w.status is Status.COMPLETED
        assert "pays the same" in (w.alarm or "")
        assert "not ours" in (await desk.halted() or "")
        assert (await desk.books(ids[0]))[Book.PAID] == w.amount
        assert not (await desk.history(ids[0])).attempts[0].closed
        await desk.prove(ids)


async def test_a_slot_spent_by_another_that_pays_the_same_before_inclusion_is_left_to_a_person(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        (w,) = await desk.waiting(ids)
        raw = await _rival(desk, ids[0], to=w.destination, amount=w.amount)
        await desk.mine_empty()
        await desk.reorg(1, reinclude=True, instead=[raw])
        await desk.mine(8)
        (w,) = await desk.withdrawals(ids)
        assert w.status is Status.BROADCASTING
        assert "pays the same" in (w.alarm or "")
        assert "not ours" in (await desk.halted() or "")
        assert await desk.held() == w.amount + w.max_fee
        await desk.prove(ids, besides={w.destination: w.amount})


async def test_a_slot_spent_by_another_before_inclusion_fails_it_only_when_final(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        await desk.waiting(ids)
        raw = await _rival(desk, ids[0], to=await desk.destination("elsewhere"), amount=desk.unit // 50)
        await desk.mine_empty()
        await desk.reorg(1, reinclude=True, instead=[raw])
        assert [w.status for w in await desk.withdrawals(ids)] == [Status.BROADCASTING]
        await desk.mine(4)
        await desk.until(ids, Status.FAILED, sub_status=SubStatus.DOUBLE_SPENDING)
        assert await desk.held() == 0
        await desk.prove(ids)


async def test_a_chain_that_gets_shorter_and_grows_elsewhere_is_followed(rig: Rig) -> None:
    await rig.prepare(threshold=4)
    async with rig.working() as desk:
        await desk.fund(coins=2)
        ids = await desk.pay(2)
        await desk.waiting(ids)
        await desk.mine(3)
        before = await desk.until(ids, Status.CONFIRMING)
        await rig.devnet.shorten(3)
        await desk.mine_empty()
        assert {w.status for w in await desk.withdrawals(ids)} == {Status.CONFIRMING}
        after = await desk.finish(ids)
        assert [w.tx_hash for w in after] == [w.tx_hash for w in before]
        for i in ids:
            assert len(off((await desk.history(i)).confirmations)) == 3
        await desk.prove(ids)


async def test_a_payment_stays_paid_while_the_chain_is_shorter(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await _completed(desk)
        await rig.devnet.shorten(1)
        rig.proxy.reset()
        await rig.proxy.seen("*", 10)  # the gateway has looked at it
        assert [w.status for w in await desk.withdrawals(ids)] == [Status.COMPLETED]
        await desk.mine(5)
        await desk.prove(ids)


async def wait_until_halted(desk: Desk) -> None:
    async with asyncio.timeout(PATIENCE):
        while await desk.halted() is None:  # noqa: ASYNC110 - a row, not an event
            await asyncio.sleep(GLANCE)


async def _completed(desk: Desk) -> list[WithdrawalId]:
    ids = await desk.pay()
    await desk.waiting(ids)
    await desk.mine(2)
    await desk.until(ids, Status.COMPLETED)
    return ids


async def _rival(desk: Desk, withdrawal_id: WithdrawalId, *, to: str, amount: int) -> bytes:
    (attempt,) = (await desk.history(withdrawal_id)).attempts
    assert desk.rig.config is not None
    return await desk.rig.hand.rival(attempt, await desk.account(), desk.rig.config, to=to, amount=amount)


async def test_the_block_at_which_following_began_may_leave_the_chain(rig: Rig) -> None:
    await rig.devnet.mine_empty(5)
    await rig.prepare()
    async with rig.working() as desk:
        await desk.reorg(2, reinclude=True)
        await desk.fund()
        ids = await desk.pay(2)
        await desk.finish(ids)
        await desk.prove(ids)
