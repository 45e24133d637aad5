"""Statuses move by the table only, once only, and the money in the books moves with them."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from gateway.core.errors import IllegalMove, StaleWrite
from gateway.core.ledger import HOLDS, books
from gateway.core.lifecycle import Status, successors
from gateway.core.records import Book, Move, Withdrawal
from gateway.core.substatus import SubStatus
from tests.db.world import World, now

S = Status
TICK = timedelta(microseconds=1)


async def test_a_path_is_walked_in_one_go_with_an_event_for_each_step(world: World) -> None:
    withdrawal = await world.accepted()
    at = now() + timedelta(seconds=5)
    path = (S.PENDING_ENRICHMENT, S.PENDING_AUTHORIZATION, S.QUEUED, S.PENDING_SIGNATURE)
    move = Move(withdrawal, path, "x" * 300, at, SubStatus.INSUFFICIENT_FUNDS)
    async with world.store.write() as writer:
        await writer.move([move])
    found = await world.get(withdrawal.id)
    assert (found.status, found.sub_status) == (S.PENDING_SIGNATURE, SubStatus.INSUFFICIENT_FUNDS)
    assert found.status_changed_at == at + 3 * TICK
    assert (found.pending_auth_at, found.pending_sign_at) == (at + TICK, at + 3 * TICK)
    events = (await world.history(withdrawal.id)).events
    assert [(e.source, e.target) for e in events] == list(
        zip((None, S.SUBMITTED, *path[:-1]), (S.SUBMITTED, *path), strict=True)
    )
    assert [e.at for e in events[1:]] == [at + n * TICK for n in range(4)]
    assert {len(e.reason) for e in events[1:]} == {255}


async def test_events_stay_in_order_when_the_clock_stands_still_or_goes_back(world: World) -> None:
    withdrawal = await world.accepted()
    for status in (S.PENDING_ENRICHMENT, S.QUEUED, S.PENDING_SIGNATURE):
        async with world.store.write() as writer:
            await writer.move([Move(withdrawal, (status,), "late", withdrawal.created_at - timedelta(hours=1))])
        withdrawal = await world.get(withdrawal.id)
    events = (await world.history(withdrawal.id)).events
    assert [e.target for e in events] == [S.SUBMITTED, S.PENDING_ENRICHMENT, S.QUEUED, S.PENDING_SIGNATURE]
    assert len({e.at for e in events}) == 4


@pytest.mark.parametrize("path", [(S.COMPLETED, S.QUEUED), (S.BROADCASTING,), (), (S.PENDING_ENRICHMENT, S.CONFIRMING)])
async def test_a_step_that_is_not_in_the_table_is_refused(world: World, path: tuple[Status, ...]) -> None:
    withdrawal = await world.accepted()
    with pytest.raises(IllegalMove):
        await world.move(withdrawal, *path)
    assert await world.get(withdrawal.id) == withdrawal


async def test_of_two_writers_that_move_one_withdrawal_exactly_one_wins(world: World) -> None:
    for _ in range(5):
        withdrawal = await world.queued()

        async def try_it(target: Status, withdrawal: Withdrawal = withdrawal) -> bool:
            try:
                async with world.store.write() as writer:
                    await writer.move([Move(withdrawal, (target,), "race", now())])
            except StaleWrite:
                return False
            return True

        targets = (S.PENDING_SIGNATURE, S.CANCELLING, S.PENDING_SIGNATURE, S.FAILED)
        won = await asyncio.gather(*(try_it(target) for target in targets))
        assert sum(won) == 1
        found = await world.get(withdrawal.id)
        assert found.status is targets[won.index(True)]
        assert len((await world.history(withdrawal.id)).events) == 4


async def test_one_stale_withdrawal_rolls_the_whole_batch_back(world: World) -> None:
    batch = [await world.accepted() for _ in range(3)]
    await world.move(batch[1], S.PENDING_ENRICHMENT)
    held = await world.held_amount()

    async def cancel_all() -> None:
        async with world.store.write() as writer:
            await writer.alarm(batch[0].id, "must not stay")
            await writer.move([Move(w, (S.CANCELLED,), "batch", now()) for w in batch])

    with pytest.raises(StaleWrite):
        await cancel_all()
    assert [(await world.get(w.id)).status for w in batch] == [S.SUBMITTED, S.PENDING_ENRICHMENT, S.SUBMITTED]
    assert (await world.get(batch[0].id)).alarm is None
    assert await world.held_amount() == held
    with pytest.raises(IllegalMove):
        async with world.store.write() as writer:
            await writer.move([Move(batch[0], (S.CANCELLED,), "twice", now())] * 2)


async def test_a_large_batch_with_different_ways_and_times_moves_as_one(world: World) -> None:
    batch = [world.withdrawal(account=world.accounts[n % 3]) for n in range(1200)]
    await world.accept(*batch)
    paths = [(S.CANCELLED,), (S.PENDING_ENRICHMENT, S.QUEUED), (S.PENDING_ENRICHMENT,)]
    at = now()
    async with world.store.write() as writer:
        await writer.move([Move(w, paths[n % 3], "go", at + (n % 2) * TICK) for n, w in enumerate(batch)])
    async with world.store.read() as reader:
        found = await reader.withdrawals([w.id for w in batch])
        held = [await reader.held_amount(account.id) for account in world.accounts]
    assert [w.status for w in found] == [paths[n % 3][-1] for n in range(1200)]
    assert held == [0, 400 * 1_005_000, 400 * 1_005_000]


async def test_many_that_write_about_the_same_accounts_at_once_all_get_through(world: World) -> None:
    async def accept_and_cancel(turn: int) -> None:
        accounts = world.accounts[turn % 3 :] + world.accounts[: turn % 3]
        batch = [world.withdrawal(account=account) for account in accounts]
        await world.accept(*batch)
        async with world.store.write() as writer:
            await writer.move([Move(w, (S.CANCELLED,), "again", now()) for w in batch])

    await asyncio.gather(*(accept_and_cancel(turn) for turn in range(8)))
    assert [await world.held_amount(number) for number in range(3)] == [0, 0, 0]


async def test_a_cancel_stamps_the_withdrawal(world: World) -> None:
    from sqlalchemy import select

    from db.schema import withdrawals

    withdrawal = await world.move(await world.queued(), S.CANCELLING)
    withdrawal = await world.move(withdrawal, S.CANCELLED)
    async with world.store.read() as reader:
        row = (await reader._sql.rows(select(withdrawals).where(withdrawals.c.id == withdrawal.id)))[0]
    first = row.cancel_completed_at
    assert row.cancel_attempted_at < first == withdrawal.status_changed_at
    withdrawal = await world.move(withdrawal, S.PENDING_ENRICHMENT, S.CANCELLING, S.CANCELLED)
    async with world.store.read() as reader:
        row = (await reader._sql.rows(select(withdrawals).where(withdrawals.c.id == withdrawal.id)))[0]
    assert row.cancel_completed_at == first < row.cancel_attempted_at


async def test_the_fee_is_posted_and_a_later_fee_corrects_it(world: World) -> None:
    withdrawal, _ = await world.sent("claim")
    done = await world.move(withdrawal, S.CONFIRMING, S.COMPLETED, fee_paid=1200)
    assert done.fee_paid == 1200
    async with world.store.write() as writer:
        await writer.set_fee(done, 900, now())
    with pytest.raises(StaleWrite):
        async with world.store.write() as writer:
            await writer.set_fee(done, 800, now())
    found = await world.get(done.id)
    assert found.fee_paid == 900
    await _books_are_right(world, [found.id])
    failed = await world.move(found, S.FAILED)
    await _books_are_right(world, [failed.id])
    assert [e.kind for e in (await world.history(done.id)).ledger if e.book is Book.AVAILABLE] == [
        "reserve",
        "settle",
        "fee correction",
        "reversal",
    ]


async def test_a_moves_fee_starts_from_what_is_stored_not_from_what_was_read(world: World) -> None:
    withdrawal, _ = await world.sent("claim")
    failed = await world.move(withdrawal, S.FAILED, fee_paid=10)
    landed = await world.move(failed, S.CONFIRMING, S.FAILED, fee_paid=70)
    assert landed.status is failed.status
    await world.move(failed, S.CONFIRMING, S.COMPLETED, fee_paid=75)
    await _books_are_right(world, [withdrawal.id])


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_walk_books_held_amount_and_events_agree_with_the_status(world: World, seed: int) -> None:
    chance = random.Random(seed)
    batch = [world.withdrawal(account=chance.choice(world.accounts), amount=chance.randrange(10**6)) for _ in range(12)]
    await world.accept(*batch)
    ids = [w.id for w in batch]
    for _ in range(12):
        async with world.store.read() as reader:
            current = await reader.withdrawals(ids)
        moves = []
        for withdrawal in chance.sample(current, 7):
            path = _walk(chance, withdrawal.status)
            fee = chance.choice([None, chance.randrange(5000)])
            if path:
                moves.append(Move(withdrawal, path, "walk", now(), fee_paid=fee))
        async with world.store.write() as writer:
            await writer.move(moves)
    await _books_are_right(world, ids)


def _walk(chance: random.Random, status: Status) -> tuple[Status, ...]:
    path: list[Status] = []
    for _ in range(chance.randint(1, 4)):
        ways = sorted(successors(status))
        if not ways:
            break
        status = chance.choice(ways)
        path.append(status)
    return tuple(path)


async def _books_are_right(world: World, ids: list) -> None:  # type: ignore[type-arg]
    async with world.store.read() as reader:
        current = await reader.withdrawals(ids)
        sums = await reader.ledger_sums()
        histories = [await reader.history(withdrawal.id) for withdrawal in current]
        everything = [w for w in await reader.all_withdrawals(None, 100_000) if w.chain == world.chain]
        held = {account.id: await reader.held_amount(account.id) for account in world.accounts}
    for withdrawal, history in zip(current, histories, strict=True):
        assert history is not None
        assert sums[withdrawal.transaction_id] == books(
            withdrawal.status, amount=withdrawal.amount, max_fee=withdrawal.max_fee, fee_paid=withdrawal.fee_paid
        )
        status: Status | None = None
        for event in history.events:
            assert event.source == status
            status = event.target
        assert status is withdrawal.status
        assert history.events[-1].at == withdrawal.status_changed_at
    for account_id, amount in held.items():
        promised = [w for w in everything if w.account_id == account_id and w.status in HOLDS]
        assert amount == sum(w.amount + w.max_fee for w in promised)
