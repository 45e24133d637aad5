"""Every lever of every chain's devnet, seen through the chain's own SDK."""

import pytest

from devnets.network import Devnet, DevnetError
from tests.devnets.payers import Payer

pytestmark = pytest.mark.devnet

AMOUNT = 1_000_000


async def test_funds_are_there_when_fund_returns(devnet: Devnet, payer: Payer) -> None:
    before = await devnet.height()
    tx_hash = await devnet.fund(payer.receiver, AMOUNT)
    assert await devnet.balance(payer.receiver) == AMOUNT
    assert await devnet.in_block(tx_hash) is not None
    assert await devnet.height() == before + 1


async def test_funding_leaves_the_pool_alone(devnet: Devnet, payer: Payer) -> None:
    waiting = await payer.sign(0, AMOUNT)
    await payer.send(waiting)
    await devnet.fund(payer.receiver, 5 * AMOUNT)
    assert await devnet.balance(payer.receiver) == 5 * AMOUNT
    assert await devnet.pool() == {waiting.tx_hash}


async def test_a_block_is_made_only_when_asked_for(devnet: Devnet, payer: Payer) -> None:
    before = await devnet.height()
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    assert await devnet.pool() == {payment.tx_hash}
    assert await devnet.height() == before
    assert await devnet.in_block(payment.tx_hash) is None
    blocks = await devnet.mine(3)
    assert len(set(blocks)) == 3
    assert await devnet.in_block(payment.tx_hash) == blocks[0]
    assert await devnet.height() == before + 3
    assert await devnet.pool() == set()


async def test_an_empty_block_leaves_the_pool_alone(devnet: Devnet, payer: Payer) -> None:
    before = await devnet.height()
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    assert len(await devnet.mine_empty(2)) == 2
    assert await devnet.height() == before + 2
    assert await devnet.pool() == {payment.tx_hash}
    assert await devnet.balance(payer.receiver) == 0
    (block,) = await devnet.mine()
    assert await devnet.in_block(payment.tx_hash) == block


async def test_a_reorg_can_put_transactions_back(devnet: Devnet, payer: Payer) -> None:
    first, second = await payer.sign(0, AMOUNT), await payer.sign(1, 2 * AMOUNT)
    await payer.send(first)
    old = await devnet.mine()
    await payer.send(second)
    old += await devnet.mine()
    height = await devnet.height()
    new = await devnet.reorg(2, reinclude=True)
    assert len(new) == 3
    assert not set(new) & set(old)
    assert await devnet.height() == height + 1
    assert await devnet.in_block(first.tx_hash) == new[0]
    assert await devnet.in_block(second.tx_hash) == new[1]
    assert await devnet.balance(payer.receiver) == 3 * AMOUNT


async def test_a_reorg_can_make_transactions_vanish(devnet: Devnet, payer: Payer) -> None:
    gone = await payer.sign(0, AMOUNT)
    await payer.send(gone)
    await devnet.mine(2)
    height = await devnet.height()
    await devnet.reorg(2, reinclude=False)
    assert await devnet.height() == height + 1
    assert await devnet.in_block(gone.tx_hash) is None
    assert await devnet.pool() == set()
    assert await devnet.balance(payer.receiver) == 0
    await payer.send(gone)
    (block,) = await devnet.mine()
    assert await devnet.in_block(gone.tx_hash) == block


async def test_a_reorg_of_many_blocks_makes_all_their_transactions_vanish(devnet: Devnet, payer: Payer) -> None:
    payments = [await payer.sign(slot, AMOUNT) for slot in range(3)]
    for payment in payments:
        await payer.send(payment)
        await devnet.mine(6)
    await devnet.reorg(18, reinclude=False)
    assert await devnet.pool() == set()
    assert [await devnet.in_block(payment.tx_hash) for payment in payments] == [None] * 3


@pytest.mark.parametrize("depth", [2, 13])
async def test_a_reorg_puts_back_transactions_from_any_depth(devnet: Devnet, payer: Payer, depth: int) -> None:
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    await devnet.mine(depth)
    new = await devnet.reorg(depth, reinclude=True)
    assert await devnet.in_block(payment.tx_hash) == new[0]


@pytest.mark.parametrize("reinclude", [True, False])
async def test_a_reorg_can_hold_a_conflicting_transaction_instead(
    devnet: Devnet, payer: Payer, reinclude: bool
) -> None:
    beaten, other, winner = (
        await payer.sign(0, AMOUNT),
        await payer.sign(1, AMOUNT),
        await payer.sign(0, 7 * AMOUNT),
    )
    await payer.send(beaten)
    await payer.send(other)
    await devnet.mine()
    new = await devnet.reorg(1, reinclude=reinclude, instead=[winner.raw])
    assert await devnet.in_block(winner.tx_hash) == new[0]
    assert await devnet.in_block(beaten.tx_hash) is None
    assert await devnet.in_block(other.tx_hash) == (new[0] if reinclude else None)
    assert await devnet.pool() == set()
    assert await devnet.balance(payer.receiver) == (8 if reinclude else 7) * AMOUNT


@pytest.mark.parametrize("reinclude", [True, False])
async def test_a_reorg_leaves_waiting_transactions_waiting(devnet: Devnet, payer: Payer, reinclude: bool) -> None:
    mined, waiting = await payer.sign(0, AMOUNT), await payer.sign(1, AMOUNT)
    await payer.send(mined)
    await devnet.mine()
    await payer.send(waiting)
    await devnet.reorg(1, reinclude=reinclude)
    assert await devnet.pool() == {waiting.tx_hash}
    if not reinclude:
        await payer.send(mined)
    await devnet.mine()
    assert await devnet.in_block(mined.tx_hash) is not None
    assert await devnet.in_block(waiting.tx_hash) is not None


async def test_one_reorg_can_follow_another(devnet: Devnet, payer: Payer) -> None:
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    await devnet.mine()
    seen = {await devnet.in_block(payment.tx_hash)}
    for _ in range(4):
        await devnet.reorg(2, reinclude=True)
        await devnet.shorten(1)
        seen.add(await devnet.in_block(payment.tx_hash))
    assert len(seen) == 5


async def test_the_chain_can_get_shorter(devnet: Devnet, payer: Payer) -> None:
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    await devnet.mine(2)
    height = await devnet.height()
    await devnet.shorten(2)
    assert await devnet.height() == height - 2
    assert await devnet.in_block(payment.tx_hash) is None
    assert await devnet.pool() == ({payment.tx_hash} if devnet.name == "bitcoin" else set())
    await devnet.mine(3)
    assert await devnet.height() == height + 1


async def test_one_transaction_can_be_dropped(devnet: Devnet, payer: Payer) -> None:
    first, second, third = [await payer.sign(slot, AMOUNT) for slot in range(3)]
    for payment in (first, second, third):
        await payer.send(payment)
    height = await devnet.height()
    await devnet.drop(third.tx_hash)
    assert await devnet.pool() == {first.tx_hash, second.tx_hash}
    assert await devnet.height() == height
    await devnet.mine()
    assert await devnet.in_block(second.tx_hash) is not None
    await payer.send(third)
    assert await devnet.pool() == {third.tx_hash}


async def test_dropping_the_first_leaves_the_later_ones(devnet: Devnet, payer: Payer) -> None:
    first, second = await payer.sign(0, AMOUNT), await payer.sign(1, AMOUNT)
    await payer.send(first)
    await payer.send(second)
    await devnet.drop(first.tx_hash)
    assert await devnet.pool() == {second.tx_hash}
    await payer.send(first)
    await devnet.mine()
    assert await devnet.balance(payer.receiver) == 2 * AMOUNT


async def test_dropping_the_only_one_empties_the_pool(devnet: Devnet, payer: Payer) -> None:
    only = await payer.sign(0, AMOUNT)
    await payer.send(only)
    await devnet.drop(only.tx_hash)
    assert await devnet.pool() == set()
    await devnet.mine()
    assert await devnet.in_block(only.tx_hash) is None


async def test_what_is_not_in_the_pool_cannot_be_dropped(devnet: Devnet, payer: Payer) -> None:
    payment = await payer.sign(0, AMOUNT)
    with pytest.raises(DevnetError, match="not in the pool"):
        await devnet.drop(payment.tx_hash)


async def test_the_faucet_goes_on_after_reorgs_and_restarts(devnet: Devnet, payer: Payer) -> None:
    await devnet.fund(payer.receiver, AMOUNT)
    await devnet.reorg(1, reinclude=False)
    await devnet.fund(payer.receiver, AMOUNT)
    await devnet.shorten(1)
    await devnet.mine()
    await devnet.restart()
    before = await devnet.balance(payer.receiver)
    for _ in range(3):
        await devnet.fund(payer.receiver, AMOUNT)
    assert await devnet.balance(payer.receiver) == before + 3 * AMOUNT
