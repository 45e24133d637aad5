"""One owner at a time, on the database's clock; a deposed one writes nothing."""

from __future__ import annotations

import asyncio

import pytest

from db.store import SqlStore
from gateway.core.errors import LeaseLost
from gateway.core.records import Lease
from tests.db.places import Place
from tests.db.world import World, new_id


@pytest.fixture
def name() -> str:
    return f"lane-{new_id()}"


async def test_a_lease_has_one_owner_until_it_ends(store: SqlStore, name: str) -> None:
    first = await store.acquire(name, "one", 0.3)
    assert first == Lease(name, "one", 1)
    assert await store.acquire(name, "two", 30) is None
    second = None
    async with asyncio.timeout(10):
        while second is None:
            second = await store.acquire(name, "two", 30)
    assert second.token > first.token
    with pytest.raises(LeaseLost):
        await store.renew(first, 30)
    await store.yield_lease(first)
    assert await store.acquire(name, "one", 30) is None


async def test_a_renewed_lease_does_not_end(store: SqlStore, name: str) -> None:
    lease = await store.acquire(name, "one", 0.05)
    assert lease is not None
    await store.renew(lease, 60)
    loop = asyncio.get_running_loop()
    until = loop.time() + 0.15
    while loop.time() < until:
        assert await store.acquire(name, "two", 30) is None


async def test_taking_ones_own_lease_again_ends_the_earlier_token(store: SqlStore, name: str) -> None:
    first = await store.acquire(name, "one", 60)
    second = await store.acquire(name, "one", 60)
    assert first is not None
    assert second is not None
    assert second.token > first.token
    with pytest.raises(LeaseLost):
        await store.renew(first, 60)
    await store.renew(second, 60)


async def test_a_lease_given_back_is_free_at_once_and_fences_its_owner_out(store: SqlStore, name: str) -> None:
    lease = await store.acquire(name, "one", 60)
    assert lease is not None
    await store.yield_lease(lease)
    await store.yield_lease(lease)
    with pytest.raises(LeaseLost):
        async with store.write(lease):
            pass
    taken = await store.acquire(name, "two", 60)
    assert taken is not None
    assert taken.token > lease.token


async def test_a_deposed_owner_writes_nothing(world: World, name: str) -> None:
    store = world.store
    old = await store.acquire(name, "one", 60)
    good = await store.acquire(f"{name}-2", "one", 60)
    assert old is not None
    assert good is not None
    withdrawal = world.withdrawal()
    await store.yield_lease(old)
    assert await store.acquire(name, "two", 60) is not None
    for fences in ((old,), (good, old), (Lease("never taken", "one", 1),)):
        with pytest.raises(LeaseLost):
            async with store.write(*fences) as writer:
                await writer.accept([withdrawal], reason="too late")
    async with store.read() as reader:
        assert await reader.withdrawal(withdrawal.id) is None
    async with store.write(good) as writer:
        await writer.accept([withdrawal], reason="in time")


async def test_nobody_takes_a_lease_while_its_owner_is_writing(world: World, name: str) -> None:
    store = world.store
    lease = await store.acquire(name, "one", 0.01)
    assert lease is not None
    withdrawal = world.withdrawal()
    async with store.write(lease) as writer:
        rival = asyncio.create_task(store.acquire(name, "two", 60))
        await asyncio.wait([rival], timeout=0.2)
        assert not rival.done()
        await writer.accept([withdrawal], reason="in time")
    assert (await rival) is not None
    assert (await world.get(withdrawal.id)).id == withdrawal.id


async def test_of_many_that_want_a_lease_one_gets_it(place: Place, name: str) -> None:
    stores = [SqlStore(place.url) for _ in range(3)]
    for store in stores:
        await store.open()
    try:
        found = await asyncio.gather(*(s.acquire(name, f"owner-{n}", 60) for n, s in enumerate(stores)))
    finally:
        for store in stores:
            await store.close()
    assert sum(lease is not None for lease in found) == 1
