"""What is written comes back: every digit, byte, letter case and microsecond, on each database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select, update
from sqlalchemy.exc import StatementError

from db.schema import accounts, leases, transactions
from db.types import fits
from gateway.core.lifecycle import Status
from tests.db.places import Place
from tests.db.world import World, new_id, now

LARGEST = 10**38 - 1


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "1",
        "0.000000000000000001",
        "99999999999999999999.999999999999999999",
        "12345678901234567890.000000000000000001",
    ],
)
async def test_a_decimal_amount_is_exact_and_found_by_its_value(place: Place, text: str) -> None:
    amount = Decimal(text)
    key = new_id()
    row = {"id": key, "workspace_id": key, "status": Status.SUBMITTED, "status_changed_at": now(), "created_at": now()}
    async with place.connect() as connection:
        await connection.execute(insert(transactions).values(**row, amount_decimal=amount))
        found = await connection.scalar(select(transactions.c.amount_decimal).where(transactions.c.id == key))
        assert found == amount
        for same in (amount, Decimal(f"{text}0") if "." in text else Decimal(f"{text}.0")):
            asked = select(transactions.c.id).where(transactions.c.id == key, transactions.c.amount_decimal == same)
            assert await connection.scalar(asked) == key


@pytest.mark.parametrize("text", ["0.0000000000000000001", "100000000000000000000", "NaN", "Infinity"])
async def test_an_amount_that_would_be_rounded_is_refused(place: Place, text: str) -> None:
    async with place.connect() as connection:
        asked = select(transactions.c.id).where(transactions.c.amount_decimal == Decimal(text))
        with pytest.raises(StatementError, match="does not fit"):
            await connection.execute(asked)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_what_fits_is_exact_at_18_places(value: Decimal) -> None:
    if fits(value):
        assert Decimal(f"{value:.18f}") == value


async def test_base_units_keep_38_digits(world: World) -> None:
    for amount in (0, 1, LARGEST):
        withdrawal = await world.accepted(amount=amount, max_fee=LARGEST - amount)
        assert (withdrawal.amount, withdrawal.max_fee) == (amount, LARGEST - amount)
        history = await world.history(withdrawal.id)
        assert sorted(entry.amount for entry in history.ledger) == [-LARGEST, LARGEST]
    assert await world.held_amount() == 3 * LARGEST


async def test_moments_keep_their_microseconds_and_become_utc(world: World) -> None:
    abroad = timezone(timedelta(hours=5, minutes=45))
    at = datetime(2026, 3, 4, 5, 6, 7, 123457, tzinfo=abroad)
    withdrawal = await world.accepted(at=at)
    assert withdrawal.created_at == at
    assert withdrawal.created_at.tzinfo is UTC
    assert withdrawal.created_at.microsecond == 123457
    whole = await world.accepted(at=at.replace(microsecond=0))
    assert whole.created_at == at.replace(microsecond=0)


async def test_a_naive_moment_is_refused(world: World) -> None:
    naive = datetime(2026, 3, 4, 5, 6, 7)  # noqa: DTZ001
    withdrawal = world.withdrawal(created_at=naive)
    with pytest.raises(ValueError, match="naive"):
        await world.accept(withdrawal)
    async with world.store.read() as reader:
        assert await reader.withdrawal(withdrawal.id) is None


async def test_a_text_that_is_too_long_is_refused_everywhere(world: World) -> None:
    with pytest.raises(ValueError, match="129 characters"):
        await world.accept(world.withdrawal(destination="x" * 129))


async def test_texts_that_differ_only_in_case_differ(world: World) -> None:
    _, first = await world.built("claim-abc")
    _, second = await world.built("claim-aBC")
    await world.sign(first, f"{world.chain}-5Kd3NBUAdUnhyzenEwVLy9pBKxSwXvE9")
    await world.sign(second, f"{world.chain}-5kd3NBUAdUnhyzenEwVLy9pBKxSwXvE9")
    assert (await world.stored(first)).tx_hash.swapcase() != (await world.stored(second)).tx_hash.swapcase()


async def test_texts_keep_every_letter(world: World) -> None:
    note = "한국어 ✓ 🂡 'quoted' \\ %s :name"
    withdrawal = await world.accepted(note=note, external_id=f"ключ-{new_id()}", memo="ümläut")
    assert (withdrawal.note, withdrawal.memo) == (note, "ümläut")


async def test_payloads_may_be_larger_than_64_kib(world: World) -> None:
    withdrawal = await world.queued()
    attempt = world.attempt(withdrawal, "claim", payload=bytes(range(256)) * 1024)
    async with world.store.write() as writer:
        await writer.take([attempt])
    assert (await world.stored(attempt)).payload == attempt.payload


async def test_a_number_with_many_digits_is_never_a_float(place: Place, world: World) -> None:
    async with place.connect() as connection:
        ours = accounts.c.id == world.accounts[0].id
        await connection.execute(update(accounts).where(ours).values(held=10**59 + 1))
        assert await connection.scalar(select(accounts.c.held).where(ours)) == 10**59 + 1
        with pytest.raises(StatementError, match="digits"):
            await connection.execute(update(accounts).where(ours).values(held=10**60))
        with pytest.raises(StatementError, match="int"):
            await connection.execute(update(accounts).where(ours).values(held=1.5))


async def test_a_moment_far_from_now_is_kept(place: Place) -> None:
    at = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    name = f"lease-{new_id()}"
    async with place.connect() as connection:
        await connection.execute(insert(leases).values(name=name, owner="o", token=2**62, ends_at=at))
        row = (await connection.execute(select(leases).where(leases.c.name == name))).one()
    assert (row.ends_at, row.token) == (at, 2**62)
