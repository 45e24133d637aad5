"""One vault's payments in a row: by change that waits for a block, or by a counter."""

import pytest

from devnets.evm.network import EvmDevnet
from gateway.core.lifecycle import Status
from gateway.core.records import Book
from gateway.core.substatus import SubStatus
from tests.integration.hands import EvmHand
from tests.integration.rig import Rig, Trait

pytestmark = pytest.mark.devnet


async def test_the_26th_payment_out_of_one_coin_waits_for_a_block(rig: Rig) -> None:
    rig.needs(Trait.COINS)
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay(26)
        await desk.waiting(ids[:25])
        await desk.until(ids[25:], Status.QUEUED, sub_status=SubStatus.TOO_LONG_MEMPOOL_CHAIN)
        assert len(await rig.devnet.pool()) == 25
        await desk.mine()
        await desk.waiting(ids[25:])
        await desk.finish(ids)
        await desk.prove(ids)


async def test_with_a_second_coin_payments_wait_for_no_block(rig: Rig) -> None:
    rig.needs(Trait.COINS)
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund(coins=2, each=desk.unit // 20)
        ids = await desk.pay(2)
        await desk.waiting(ids)
        spent = [(await desk.history(i)).attempts[0].claims for i in ids]
        assert spent[0] != spent[1]
        await desk.finish(ids)
        await desk.prove(ids)


async def test_a_node_that_lost_its_pool_gets_every_payment_again_in_order(rig: Rig) -> None:
    rig.needs(Trait.COUNTER)
    assert isinstance(rig.devnet, EvmDevnet)
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        ids = await desk.pay(20)
        await desk.waiting(ids[:16])
        await desk.until(ids[16:], Status.QUEUED)
        await rig.devnet.restart()
        assert await rig.devnet.pool() == set()
        await desk.mine()
        await desk.in_pool({w.tx_hash or "" for w in await desk.withdrawals(ids[:16])})
        await desk.finish(ids)
        nonces = await EvmHand(rig.devnet).nonces((await desk.account()).address)
        assert nonces == list(range(20))
        order = [(await desk.history(i)).attempts[0].claims for i in ids]
        assert [claim.rpartition(":")[2] for (claim,) in order] == [str(n) for n in range(20)]
        await desk.prove(ids)


async def test_a_payment_that_fails_in_a_block_is_failed_when_final_and_costs_its_fee(rig: Rig) -> None:
    rig.needs(Trait.CODE)
    assert isinstance(rig.devnet, EvmDevnet)
    hand = EvmHand(rig.devnet)
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        contract = await desk.destination("contract")
        await hand.set_code(contract, ACCEPTS)
        ids = await desk.pay(destination=contract)
        await desk.waiting(ids)
        await hand.set_code(contract, REVERTS)
        await desk.mine(2)
        (w,) = await desk.until(ids, Status.CONFIRMING)  # two blocks are enough to complete, not to fail
        await desk.mine()
        (w,) = await desk.until(ids, Status.FAILED, sub_status=SubStatus.SMART_CONTRACT_EXECUTION_FAILED)
        assert 0 < w.fee_paid <= w.max_fee
        books = await desk.books(ids[0])
        assert (books[Book.RESERVED], books[Book.PAID], books[Book.FEES]) == (0, 0, w.fee_paid)
        assert await desk.held() == 0
        assert await rig.devnet.balance((await desk.account()).address) == 10 * desk.unit - w.fee_paid
        later = await desk.pay(first=1)  # the slot is used: the next one goes on behind it
        await desk.finish(later)
        await desk.prove([*ids, *later])


async def test_a_destination_that_refuses_is_never_paid_nor_signed_for(rig: Rig) -> None:
    rig.needs(Trait.CODE)
    assert isinstance(rig.devnet, EvmDevnet)
    await rig.prepare()
    async with rig.working() as desk:
        await desk.fund()
        contract = await desk.destination("contract")
        await EvmHand(rig.devnet).set_code(contract, REVERTS)
        ids = await desk.pay(destination=contract)
        await desk.until(ids, Status.FAILED, sub_status=SubStatus.SMART_CONTRACT_EXECUTION_FAILED)
        assert (await desk.history(ids[0])).attempts == ()
        await desk.prove(ids)


ACCEPTS = "0x00"
"""STOP."""
REVERTS = "0x60006000fd"
"""PUSH1 0, PUSH1 0, REVERT."""
