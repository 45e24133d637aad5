"""Acceptance and reading: one identity for ever, one answer to each question."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.chain import AttemptKind
from gateway.core.errors import BadRequest, Duplicate, IllegalMove, StaleWrite, StoreError
from gateway.core.ids import AccountId, TransactionId, VaultId, WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.records import Filter, Withdrawal
from tests.db.world import World, new_id, now

S = Status


async def test_an_accepted_withdrawal_reads_back_as_it_was_given(world: World) -> None:
    given = world.withdrawal(external_id="order 1", note="rent", memo="42", threshold=3)
    await world.accept(given)
    assert await world.get(given.id) == given
    history = await world.history(given.id)
    assert [(e.source, e.target, e.reason) for e in history.events] == [(None, S.SUBMITTED, "accepted")]
    assert sum(entry.amount for entry in history.ledger) == 0
    assert await world.held_amount() == given.amount + given.max_fee


async def test_nothing_is_found_where_nothing_is(world: World) -> None:
    nobody = WithdrawalId(new_id())
    async with world.store.read() as reader:
        assert await reader.withdrawal(nobody) is None
        assert await reader.withdrawals([nobody]) == []
        assert await reader.withdrawals([]) == []
        assert await reader.history(nobody) is None
        assert await reader.by_external_id(world.workspace.id, "nothing") is None
        assert await reader.by_transaction(TransactionId(nobody)) is None
        assert await reader.by_hash("no hash") == []
        assert await reader.passing("no chain", 5) == []
        assert await reader.search(Filter(chain="no chain")) == []


async def test_a_withdrawal_is_found_by_its_transaction_and_by_any_hash_of_its_attempts(world: World) -> None:
    withdrawal, first = await world.sent("slot")
    await world.sent("another slot")
    boost = world.attempt(withdrawal, "slot", kind=AttemptKind.BOOST)
    async with world.store.write() as writer:
        await writer.take([boost])
    dearer = f"dearer-{world.chain}"
    await world.sign(boost, dearer)
    async with world.store.read() as reader:
        assert await reader.by_transaction(withdrawal.transaction_id) == await reader.withdrawal(withdrawal.id)
        for tx_hash in (first.tx_hash, dearer):
            assert [w.id for w in await reader.by_hash(tx_hash)] == [withdrawal.id]
        assert await reader.by_hash(dearer.upper()) == []


async def test_an_external_id_is_taken_for_ever_in_its_workspace(world: World) -> None:
    first = await world.accepted(external_id="order")
    again = world.withdrawal(external_id="order")
    with pytest.raises(Duplicate, match="order"):
        await world.accept(world.withdrawal(), again)
    async with world.store.read() as reader:
        assert await reader.by_external_id(world.workspace.id, "order") == first
        assert await reader.by_external_id(world.workspace.id, "order ") is None
        assert await reader.by_external_id(world.workspace.id, "ORDER") is None
        assert len(await reader.search(Filter(chain=world.chain))) == 1
    other = await World.make(world.store, accounts=1)
    await other.accepted(external_id="order")
    with pytest.raises(Duplicate):
        await world.accept(world.withdrawal(external_id="two"), world.withdrawal(external_id="two"))
    await world.accept(world.withdrawal(), world.withdrawal())  # without one, any number


async def test_of_two_requests_with_one_external_id_at_once_one_is_accepted(world: World) -> None:
    async def try_it() -> bool:
        try:
            await world.accept(world.withdrawal(external_id="race"))
        except Duplicate:
            return False
        return True

    assert sorted(await asyncio.gather(*(try_it() for _ in range(4)))) == [False, False, False, True]


async def test_a_withdrawal_begins_only_where_the_table_lets_it(world: World) -> None:
    with pytest.raises(IllegalMove):
        await world.accept(world.withdrawal(status=S.QUEUED))
    assert await world.held_amount() == 0


@pytest.mark.parametrize(
    "changes",
    [{"amount": -1}, {"max_fee": -1}, {"amount": 10**38 - 1, "max_fee": 1}, {"amount": 10**30, "decimals": 8}],
)
async def test_an_amount_that_the_tables_cannot_hold_is_a_bad_request(world: World, changes: dict[str, int]) -> None:
    with pytest.raises(BadRequest):
        await world.accept(world.withdrawal(**changes))


async def test_after_a_refusal_nothing_of_the_transaction_is_committed(world: World) -> None:
    await world.accepted(external_id="taken")
    first = world.withdrawal()

    async def go_on_after_the_refusal() -> None:
        async with world.store.write() as writer:
            await writer.accept([first], reason="accepted")
            with pytest.raises(Duplicate):
                await writer.accept([world.withdrawal(external_id="taken")], reason="accepted")

    with pytest.raises(StaleWrite):
        await go_on_after_the_refusal()
    async with world.store.read() as reader:
        assert await reader.withdrawal(first.id) is None


async def test_an_error_of_the_caller_rolls_everything_back(world: World) -> None:
    withdrawal = world.withdrawal()

    async def fail_half_way() -> None:
        async with world.store.write() as writer:
            await writer.accept([withdrawal], reason="accepted")
            raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError):
        await fail_half_way()
    async with world.store.read() as reader:
        assert await reader.withdrawal(withdrawal.id) is None


async def test_lists_are_in_order(world: World) -> None:
    accepted = [await world.accepted() for _ in range(5)]
    moved = await world.move(accepted[1], S.PENDING_ENRICHMENT)
    await world.move(accepted[0], S.CANCELLED)
    async with world.store.read() as reader:
        passing = await reader.passing(world.chain, 3)
        newest = await reader.search(Filter(chain=world.chain, limit=2))
        submitted = await reader.search(Filter(chain=world.chain, status=S.SUBMITTED))
        wanted = await reader.withdrawals([accepted[4].id, accepted[2].id, accepted[4].id])
    assert [w.id for w in passing] == [w.id for w in accepted[1:4]]
    assert passing[0] == moved
    assert [w.id for w in newest] == [accepted[4].id, accepted[3].id]
    assert [w.id for w in submitted] == [w.id for w in reversed(accepted[2:])]
    assert [w.id for w in wanted] == [accepted[4].id, accepted[2].id, accepted[4].id]


async def test_all_withdrawals_are_walked_page_by_page(world: World) -> None:
    ours = [await world.accepted() for _ in range(3)]
    found: list[Withdrawal] = []
    async with world.store.read() as reader:
        after = None
        while page := await reader.all_withdrawals(after, 2):
            found += page
            after = page[-1].id
    assert [w.id for w in found if w.chain == world.chain] == [w.id for w in ours]
    assert len({w.id for w in found}) == len(found)


async def test_reported_confirmations_never_fall(world: World) -> None:
    one, two = await world.accepted(), await world.accepted()
    for counts in ({one.id: 2, two.id: 1}, {one.id: 1, two.id: 3}, {}):
        async with world.store.write() as writer:
            await writer.set_confirmations(counts)
    assert [(await world.get(w.id)).confirmations for w in (one, two)] == [2, 3]


async def test_sub_status_and_alarm_are_noted(world: World) -> None:
    withdrawal = await world.accepted()
    async with world.store.write() as writer:
        await writer.set_sub_status([withdrawal.id], "INSUFFICIENT_FUNDS")
        await writer.alarm(withdrawal.id, "look at this")
    found = await world.get(withdrawal.id)
    assert (found.sub_status, found.alarm) == ("INSUFFICIENT_FUNDS", "look at this")
    with pytest.raises(StaleWrite):
        async with world.store.write() as writer:
            await writer.alarm(WithdrawalId(new_id()), "nobody")


async def test_places_read_back_and_an_address_belongs_to_one_vault(world: World) -> None:
    first, second, _ = world.accounts
    async with world.store.read() as reader:
        assert world.workspace in await reader.workspaces()
        assert {account.vault_id for account in world.accounts} <= {vault.id for vault in await reader.vaults()}
        assert await reader.accounts(world.chain) == world.accounts
        assert set(world.accounts) <= set(await reader.accounts())
    for twin in (
        replace(first, id=AccountId(new_id()), vault_id=second.vault_id),
        replace(first, id=AccountId(new_id()), address="new"),
    ):
        with pytest.raises(Duplicate):
            async with world.store.write() as writer:
                await writer.add_account(twin)
    with pytest.raises(StoreError):
        async with world.store.write() as writer:
            await writer.add_account(
                replace(first, id=AccountId(new_id()), vault_id=VaultId(new_id()), address="nobody's")
            )
    async with world.store.write() as writer:
        await writer.add_account(replace(first, id=AccountId(new_id()), chain=f"{world.chain}-2"))


async def test_a_halt_is_kept_until_it_is_lifted(world: World) -> None:
    account = world.accounts[0]
    async with world.store.write() as writer:
        await writer.halt(account.id, "a spend that we do not know", now())
        await writer.set_opening(account.id, "7")
        assert (await writer.halted())[account.id] == "a spend that we do not know"
    async with world.store.write() as writer:
        await writer.unhalt(account.id, "it was ours", now())
    async with world.store.read() as reader:
        assert account.id not in await reader.halted()
        assert (await reader.accounts(world.chain))[0].opening == "7"
