"""The node loses answers, answers nonsense, refuses, lags and hides: a withdrawal is paid once, with one hash."""

import pytest

from devnets.faults import CutOff, DropAnswer, DropRequest, Fault, Garbage, Status, Truncate
from gateway import chain_loop
from gateway.core.lifecycle import BEFORE_SIGNED
from gateway.core.lifecycle import Status as S
from gateway.core.records import SendOutcome
from gateway.core.substatus import SubStatus
from gateway.tracker import SEEN_ON_CHAIN
from tests.integration.rig import Rig

pytestmark = pytest.mark.devnet


@pytest.fixture(autouse=True)
def no_human(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to be fetched here when a node breaks its protocol."""
    monkeypatch.setattr(chain_loop, "PAGE_HUMAN_PAUSE", 0.2)


@pytest.mark.parametrize("fault", [DropAnswer(), CutOff(), Garbage(), Status(500, acted=True)], ids=repr)
async def test_an_answer_lost_after_the_node_took_the_bytes_pays_once(rig: Rig, fault: Fault) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        lost = rig.fault_of_send(fault, times=1)
        ids = await desk.pay(3)
        await desk.waiting(ids)
        assert lost.used == 1
        for i in ids:
            (row,) = (await desk.history(i)).broadcasts
            assert row.outcome is SendOutcome.SUBMITTED
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_block_may_come_before_any_answer(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        rig.fault_of_send(DropAnswer())
        ids = await desk.pay()
        (w,) = await desk.until(ids, S.BROADCASTING)
        (attempt,) = (await desk.history(w.id)).attempts
        await desk.in_pool({attempt.tx_hash})
        await desk.mine(2)
        await desk.until(ids, S.COMPLETED)
        (row,) = (await desk.history(w.id)).broadcasts
        assert (row.node, row.id) == (SEEN_ON_CHAIN, attempt.id)
        await desk.prove(ids)


async def test_a_request_lost_on_its_way_is_made_again_though_no_block_comes(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        rig.fault_of_send(DropRequest(), times=2)
        ids = await desk.pay(2)  # the node refuses the second where it needs the first
        await desk.until(ids, S.BROADCASTING)
        await desk.in_pool({(await desk.history(i)).attempts[0].tx_hash for i in ids})
        await desk.finish(ids)
        await desk.prove(ids)


@pytest.mark.parametrize("fault", [Status(500), Status(503, retry_after=1), Garbage(), Truncate()], ids=repr)
async def test_a_node_that_answers_nonsense_for_a_while_delays_and_no_more(rig: Rig, fault: Fault) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay(2)
        rule = rig.fault(fault, times=12)
        await desk.until(ids, S.BROADCASTING)
        await desk.finish(ids)
        assert rule.used == 12
        await desk.prove(ids)


async def test_known_already_is_success(rig: Rig) -> None:
    await rig.prepare()
    rig.fault_of_send(rig.hand.already_known)
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay(2)
        await desk.waiting(ids)
        for i in ids:
            assert [row.outcome for row in (await desk.history(i)).broadcasts] == [SendOutcome.SUBMITTED]
        await desk.finish(ids)
        await desk.prove(ids)


@pytest.mark.parametrize("which", range(4))
async def test_a_refusal_leaves_it_on_its_way_with_the_same_bytes(rig: Rig, which: int) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund(coins=2)
        rule = rig.fault_of_send(rig.hand.refusals[which])
        ids = await desk.pay(2)
        await desk.until(ids, S.BROADCASTING)
        for i in ids:
            while not (rows := (await desk.history(i)).broadcasts):
                await rig.proxy.seen("*", rig.proxy.count() + 1)
            assert [row.outcome for row in rows] == [SendOutcome.REJECTED]
        await desk.mine(5)
        await rig.proxy.seen(rig.hand.send_method, rule.used + 2)  # and it is offered again
        found = await desk.until(ids, S.BROADCASTING)
        assert {w.sub_status for w in found} <= {
            SubStatus.TRANSIENT_NODE_ERROR_RETRY,
            SubStatus.INSUFFICIENT_FUNDS,
            SubStatus.REJECTED_BY_BLOCKCHAIN,
        }
        assert await desk.held() == sum(w.amount + w.max_fee for w in found)
        rig.proxy.heal()
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_node_that_lags_takes_nothing_back(rig: Rig) -> None:
    await rig.prepare(threshold=3)
    async with rig.working() as desk:
        await desk.fund(coins=2)
        await desk.mine_empty(3)  # so that the node that lags knows of the money
        ids = await desk.pay()
        await desk.waiting(ids)
        await desk.mine()
        rule = rig.fault(rig.hand.lag(2))
        ids += await desk.pay(first=1)
        await rig.devnet.mine()
        used = rule.used
        await rig.proxy.seen("*", rig.proxy.count() + 10)
        assert rule.used > used
        (first, second) = await desk.withdrawals(ids)
        assert (first.status, first.confirmations) == (S.CONFIRMING, 1)
        assert second.status in BEFORE_SIGNED | {S.BROADCASTING}
        rig.proxy.heal()
        await desk.finish(ids)
        assert [row.reorged_at for i in ids for row in (await desk.history(i)).confirmations] == [None] * 6
        await desk.prove(ids)


async def test_a_node_that_hides_a_payment_does_not_have_it_signed_again(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        (w,) = await desk.waiting(ids)
        rig.fault(rig.hand.hide(w.tx_hash or ""))
        await desk.mine_empty(6)  # well past every depth
        assert [w.status for w in await desk.withdrawals(ids)] == [S.BROADCASTING]
        ids += await desk.pay(first=1)
        await desk.until(ids[1:], S.BROADCASTING)
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_payment_that_every_pool_forgot_stays_on_its_way(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay()
        (w,) = await desk.waiting(ids)
        await rig.devnet.drop(w.tx_hash or "")
        await desk.mine_empty(6)
        await desk.in_pool({w.tx_hash or ""})
        await desk.finish(ids)
        await desk.prove(ids)


@pytest.mark.parametrize("which", ["lags", "refuses", "is broken", "loses answers", "hides"])
async def test_one_bad_node_of_two_changes_nothing(rig: Rig, which: str) -> None:
    await rig.prepare(alone=False)
    async with rig.working() as desk:
        await desk.fund(coins=2)
        await desk.mine_empty(3)
        match which:
            case "lags":
                rig.fault(rig.hand.lag(3))
            case "refuses":
                rig.fault_of_send(rig.hand.refusals[3])
            case "is broken":
                rig.fault(Status(500))
            case "loses answers":
                rig.fault_of_send(DropAnswer())
        ids = await desk.pay(3)
        for w in await desk.waiting(ids):
            if which == "hides":
                rig.fault(rig.hand.hide(w.tx_hash or ""))
        await desk.finish(ids)
        await desk.mine(3)
        for i in ids:
            rows = (await desk.history(i)).confirmations
            assert [row.reorged_at for row in rows] == [None, None]
        await desk.prove(ids)
