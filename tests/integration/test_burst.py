"""Many withdrawals at once: every one arrives, none twice."""

import asyncio

import pytest

from gateway.core.errors import BadRequest
from gateway.core.lifecycle import Status
from gateway.core.substatus import SubStatus
from tests.integration.rig import Rig

pytestmark = pytest.mark.devnet


@pytest.mark.slow
async def test_a_hundred_withdrawals_from_three_vaults_each_arrive_exactly_once(rig: Rig) -> None:
    await rig.prepare(vaults=3)
    async with rig.standing() as desk:
        await desk.fund(coins=4)
    async with rig.working() as desk:
        ids = []
        for vault, count in zip(rig.vaults, (34, 33, 33), strict=True):
            ids += await desk.pay(count, vault=vault)
        await desk.finish(ids)
        assert len(ids) == len(set(ids)) == 100
        await desk.prove(ids)
        assert [await desk.held(vault) for vault in rig.vaults] == [0, 0, 0]


async def test_one_external_id_asked_for_many_times_at_once_is_one_withdrawal(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        request = await desk.request("same")
        accepted = await asyncio.gather(*(desk.gateway.intake.accept(request) for _ in range(12)))
        ids = list({w.id for w in accepted})
        assert len(ids) == 1
        await desk.finish(ids)
        await desk.prove(ids)
        assert (await desk.gateway.intake.accept(request)).status is Status.COMPLETED


async def test_a_vault_is_not_promised_more_than_it_has(rig: Rig) -> None:
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund(each=desk.unit)
        ids = await desk.pay(amount=desk.unit * 6 // 10)
        with pytest.raises(BadRequest, match="not enough funds"):
            await desk.pay(first=1, amount=desk.unit * 6 // 10)
        with pytest.raises(BadRequest, match="not enough funds"):
            await desk.pay(2, first=1, amount=desk.unit * 3 // 10)
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_lane_whose_funds_have_vanished_holds_and_goes_on_when_they_are_back(rig: Rig) -> None:
    await rig.prepare()
    async with rig.standing() as desk:
        await desk.fund()
        ids = await desk.pay(2)
    await rig.devnet.reorg(1, reinclude=False)
    async with rig.working() as desk:
        (first, second) = ids
        await desk.until([first], Status.QUEUED, sub_status=SubStatus.INSUFFICIENT_FUNDS)
        await desk.until([second], Status.QUEUED)
        await desk.fund()
        await desk.finish(ids)
        await desk.prove(ids)
