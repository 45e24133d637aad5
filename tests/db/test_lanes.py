"""Claims are taken by one withdrawal, bytes are stored once, sends are numbered."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from gateway.core.chain import AttemptKind, Held, Signed
from gateway.core.errors import Duplicate, StaleWrite, StoreError
from gateway.core.ids import AttemptId
from gateway.core.lifecycle import Status
from gateway.core.records import Attempt, SendOutcome
from tests.db.world import World, new_id, now

S = Status


async def _take(world: World, *attempts: Attempt) -> None:
    async with world.store.write() as writer:
        await writer.take(attempts)


async def _release(world: World, attempt: Attempt) -> None:
    async with world.store.write() as writer:
        await writer.release(attempt.id)


async def _close(world: World, *attempts: Attempt) -> None:
    async with world.store.write() as writer:
        await writer.close([attempt.id for attempt in attempts])


async def _held(world: World) -> list[Held]:
    async with world.store.read() as reader:
        return list(await reader.held(world.accounts[0].id))


async def test_a_queue_belongs_to_one_account_and_keeps_its_order(world: World) -> None:
    first, second = [await world.queued() for _ in range(2)]
    other = await world.queued(account=world.accounts[1])
    await world.accepted(account=world.accounts[2])
    async with world.store.read() as reader:
        assert await reader.queued(world.accounts[0].id, 5) == [first, second]
        assert await reader.queued(world.accounts[0].id, 1) == [first]
        assert await reader.queued(world.accounts[1].id, 5) == [other]
        assert await reader.queued(world.accounts[2].id, 5) == []
        assert await reader.busy_accounts(world.chain) == [world.accounts[0].id, world.accounts[1].id]


async def test_a_built_attempt_reads_back_and_sets_the_payload_once(world: World) -> None:
    withdrawal, attempt = await world.built("one", "two", "three")
    assert attempt.claims == ("one", "two", "three")
    assert (attempt.raw, attempt.tx_hash, attempt.signed_at, attempt.recorded, attempt.closed) == (
        b"",
        "",
        None,
        False,
        False,
    )
    async with world.store.read() as reader:
        assert await reader.unsigned(withdrawal.account_id) == [(withdrawal, attempt)]
        assert await reader.open_attempts(withdrawal.account_id) == [attempt]
        assert await reader.known_attempts([attempt.id, AttemptId(new_id())]) == {attempt.id}
        assert await reader.live(world.chain) == []
    await _take(world, world.attempt(withdrawal, "one", payload=b"second build"))
    assert len(await world.family(withdrawal.id)) == 2


async def test_a_claim_is_taken_by_one_withdrawal(world: World) -> None:
    first, _ = await world.built("shared", "first's")
    second = await world.queued()
    with pytest.raises(StaleWrite, match="shared"):
        await _take(world, world.attempt(second, "second's", "shared"))
    assert await world.family(second.id) == []
    third = await world.queued()
    with pytest.raises(StaleWrite):
        await _take(world, world.attempt(second, "same"), world.attempt(third, "same"))
    await _take(world, world.attempt(second, "second's"))
    other = await World.make(world.store, accounts=1)
    await other.built("shared")  # a claim is unique on its chain only
    assert {held.withdrawal_id for held in await _held(world)} == {first.id, second.id}


async def test_a_claim_wanted_by_many_at_once_goes_to_one(world: World) -> None:
    for number in range(5):
        rivals = [await world.queued() for _ in range(3)]

        async def try_it(attempt: Attempt) -> bool:
            try:
                await _take(world, attempt)
            except StaleWrite:
                return False
            return True

        claims = [(f"{number}-a", f"{number}-b"), (f"{number}-b", f"{number}-a"), (f"{number}-a",)]
        wanted = [world.attempt(w, *names) for w, names in zip(rivals, claims, strict=True)]
        won = await asyncio.gather(*(try_it(attempt) for attempt in wanted))
        assert sum(won) == 1
        async with world.store.read() as reader:
            assert await reader.known_attempts([a.id for a in wanted]) == {wanted[won.index(True)].id}


async def test_a_replacement_of_the_same_withdrawal_shares_its_claims(world: World) -> None:
    withdrawal, first = await world.signed("slot")
    second = world.attempt(withdrawal, "slot", "more", kind=AttemptKind.BOOST)
    await _take(world, second)
    assert await _held(world) == [Held("slot", withdrawal.id, True), Held("more", withdrawal.id, False)]
    await world.sign(second)
    assert [a.id for a in await world.family(withdrawal.id)] == [first.id, second.id]
    assert all(held.signed for held in await _held(world))


async def test_families_are_told_apart_and_may_be_empty(world: World) -> None:
    first, attempt = await world.signed("slot")
    boost = world.attempt(first, "slot", kind=AttemptKind.BOOST)
    await _take(world, boost)
    (second, other), third = await world.built("other"), await world.queued()
    async with world.store.read() as reader:
        found = await reader.families([w.id for w in (third, second, first)])
    assert {i: [a.id for a in family] for i, family in found.items()} == {
        first.id: [attempt.id, boost.id],
        second.id: [other.id],
        third.id: [],
    }


async def test_what_was_never_signed_gives_its_claims_back(world: World) -> None:
    withdrawal, attempt = await world.built("slot")
    await _release(world, attempt)
    await _release(world, attempt)
    assert await _held(world) == []
    assert (await world.stored(attempt)).closed
    with pytest.raises(StaleWrite, match="closed"):
        await world.sign(attempt)
    async with world.store.read() as reader:
        assert await reader.unsigned(withdrawal.account_id) == []
    other, _ = await world.built("slot")
    assert await _held(world) == [Held("slot", other.id, False)]


async def test_a_release_leaves_what_a_signed_or_open_attempt_holds(world: World) -> None:
    withdrawal, first = await world.signed("slot")
    second = world.attempt(withdrawal, "slot", "more")
    third = world.attempt(withdrawal, "more")
    await _take(world, second, third)
    await _release(world, second)
    assert await _held(world) == [Held("slot", withdrawal.id, True), Held("more", withdrawal.id, False)]
    await _release(world, third)
    assert await _held(world) == [Held("slot", withdrawal.id, True)]
    with pytest.raises(StaleWrite, match="signed"):
        await _release(world, first)
    with pytest.raises(StaleWrite):
        await _release(world, replace(first, id=AttemptId(new_id())))


async def test_a_release_leaves_the_claims_of_a_signed_attempt_that_is_final(world: World) -> None:
    withdrawal, first = await world.sent("slot")
    await _close(world, first)
    second = world.attempt(withdrawal, "slot", "more")
    await _take(world, second)
    await _release(world, second)
    assert await _held(world) == [Held("slot", withdrawal.id, True)]
    with pytest.raises(StaleWrite):
        await world.built("slot")


async def test_signed_bytes_are_stored_once(world: World) -> None:
    withdrawal, attempt = await world.signed("slot")
    assert attempt.raw == b"signed " + attempt.id.bytes
    assert attempt.signed_at is not None
    with pytest.raises(StaleWrite, match="signed already"):
        await world.sign(attempt)
    with pytest.raises(StaleWrite, match="signed already"):
        await world.sign(attempt, "another hash")
    assert await world.stored(attempt) == attempt
    async with world.store.read() as reader:
        assert await reader.unsent(withdrawal.account_id) == [(withdrawal, attempt)]
        assert await reader.live(world.chain) == [attempt]
        assert await reader.busy_accounts(world.chain) == [withdrawal.account_id]


async def test_of_two_that_sign_one_attempt_at_once_one_is_stored(world: World) -> None:
    _, attempt = await world.built("slot")

    async def try_it(number: int) -> bool:
        try:
            await world.sign(attempt, f"{world.chain}-{number}")
        except StaleWrite:
            return False
        return True

    won = await asyncio.gather(*(try_it(number) for number in range(3)))
    assert sum(won) == 1
    assert (await world.stored(attempt)).tx_hash == f"{world.chain}-{won.index(True)}"


async def test_a_hash_belongs_to_one_attempt_of_a_chain(world: World) -> None:
    await world.sign((await world.built("one"))[1], "0xabc")
    _, second = await world.built("two")
    with pytest.raises(Duplicate):
        await world.sign(second, "0xabc")
    assert (await world.stored(second)).raw == b""
    other = await World.make(world.store, accounts=1)
    await other.sign((await other.built("one"))[1], "0xabc")


async def test_nothing_is_stored_when_one_of_a_batch_is_signed_already(world: World) -> None:
    _, first = await world.built("one")
    _, second = await world.signed("two")
    batch = {a.id: Signed(b"raw", f"{world.chain}-{a.id}") for a in (first, second)}
    with pytest.raises(StaleWrite):
        async with world.store.write() as writer:
            await writer.store_signed(batch, now())
    assert (await world.stored(first)).raw == b""


@pytest.mark.parametrize("empty", [Signed(b"", "hash"), Signed(b"raw", "")])
async def test_empty_bytes_or_hashes_are_no_signature(world: World, empty: Signed) -> None:
    _, attempt = await world.built("slot")
    with pytest.raises(ValueError, match="empty"):
        async with world.store.write() as writer:
            await writer.store_signed({attempt.id: empty}, now())


async def test_the_first_row_of_a_send_has_the_attempts_id_and_is_written_once(world: World) -> None:
    withdrawal, attempt = await world.sent("slot")
    await world.record(attempt, SendOutcome.REJECTED)
    (row,) = (await world.history(withdrawal.id)).broadcasts
    assert (row.id, row.attempt_number, row.outcome) == (attempt.id, 1, SendOutcome.SUBMITTED)
    assert (row.payload, row.raw, row.tx_hash, row.node) == (attempt.payload, attempt.raw, attempt.tx_hash, "node-1")
    assert (attempt.recorded, attempt.sends, withdrawal.tx_hash) == (True, 1, attempt.tx_hash)
    async with world.store.read() as reader:
        assert await reader.unsent(withdrawal.account_id) == []
        assert await reader.busy_accounts(world.chain) == []


async def test_sends_are_numbered_and_the_first_hash_stays(world: World) -> None:
    withdrawal, first = await world.sent("slot")
    await world.record(first, first=False)
    second = world.attempt(withdrawal, "slot", kind=AttemptKind.BOOST)
    await _take(world, second)
    await world.sign(second)
    await world.record(await world.stored(second), SendOutcome.REPLACED)
    rows = (await world.history(withdrawal.id)).broadcasts
    assert [(row.attempt_number, row.tx_hash) for row in rows] == [
        (1, first.tx_hash),
        (2, first.tx_hash),
        (3, (await world.stored(second)).tx_hash),
    ]
    assert rows[1].id not in (first.id, second.id)
    assert rows[2].id == second.id
    assert (await world.get(withdrawal.id)).tx_hash == first.tx_hash
    assert (await world.stored(first)).sends == 2


async def test_submitter_and_tracker_may_record_the_same_send_at_once(world: World) -> None:
    withdrawal, attempt = await world.signed("slot")

    async def record() -> None:
        with contextlib.suppress(StaleWrite):
            await world.record(attempt)

    await asyncio.gather(*(record() for _ in range(4)))
    assert [row.id for row in (await world.history(withdrawal.id)).broadcasts] == [attempt.id]


async def test_only_signed_bytes_can_have_been_sent(world: World) -> None:
    _, attempt = await world.built("slot")
    with pytest.raises(StaleWrite, match="not signed"):
        await world.record(attempt)
    with pytest.raises(StaleWrite):
        await world.record(replace(attempt, id=AttemptId(new_id())))


async def test_resends_are_counted(world: World) -> None:
    _, attempt = await world.sent("slot")
    at = now()
    async with world.store.write() as writer:
        await writer.count_resends([attempt.id], at)
    found = await world.stored(attempt)
    assert (found.sends, found.last_sent_at) == (2, at)


async def test_a_closed_attempt_keeps_its_claims_for_ever_and_the_newest_is_shown(world: World) -> None:
    made = [await world.sent(f"slot-{number}") for number in range(3)]
    await _close(world, made[0][1], made[1][1])
    assert [held.claim for held in await _held(world)] == ["slot-1", "slot-2"]
    async with world.store.read() as reader:
        assert [a.id for a in await reader.live(world.chain)] == [made[2][1].id]
    with pytest.raises(StaleWrite):
        await world.built("slot-0")


async def test_a_claim_is_open_while_any_attempt_that_holds_it_is(world: World) -> None:
    withdrawal, first = await world.sent("slot", "first's")
    second = world.attempt(withdrawal, "slot")
    await _take(world, second)
    await _close(world, first)
    assert [held.claim for held in await _held(world)] == ["first's", "slot"]
    await world.sign(second)
    await _close(world, second)
    assert len(await _held(world)) == 1
    retry = world.attempt(withdrawal, "slot")
    await _take(world, retry)
    assert [held.claim for held in await _held(world)] == ["first's", "slot"]


async def test_an_attempt_of_no_withdrawal_is_refused(world: World) -> None:
    with pytest.raises(StoreError):
        await _take(world, world.attempt(world.withdrawal(), "slot"))
    withdrawal = await world.queued()
    with pytest.raises(ValueError, match="before it is signed"):
        await _take(world, world.attempt(withdrawal, "slot", raw=b"raw", tx_hash="hash"))
