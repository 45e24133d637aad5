"""Fees: medians that one odd block does not move, bounds, and replacements that every node takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.evm.fees import GasFees, Price, bumped, price, quote, replacement, tips_of
from adapters.evm.params import GWEI
from gateway.core.chain import FeeLevel
from tests.adapters.evm.vault import settings

WEI = st.integers(0, 10**15)
PRICES = st.tuples(WEI, WEI).map(lambda pair: Price(max(pair), min(pair)))


def test_a_near_empty_block_does_not_move_the_estimate() -> None:
    usual = [[1, 2, 3]] * 9
    assert tips_of([*usual, [500 * GWEI] * 3], [True] * 10) == (1, 2, 3)


def test_blocks_without_transactions_say_nothing() -> None:
    assert tips_of([[0, 0, 0], [4, 5, 6], [0, 0, 0]], [False, True, False]) == (4, 5, 6)
    assert tips_of([[0, 0, 0]], [False]) is None
    assert tips_of([], []) is None


@given(st.tuples(WEI, WEI, WEI), st.one_of(st.none(), WEI))
def test_a_quote_keeps_its_bounds_and_its_order(levels: tuple[int, int, int], base: int | None) -> None:
    bounds = settings(min_tip=GWEI, max_tip=50 * GWEI, max_fee_per_gas=200 * GWEI)
    made = quote(bounds, base, levels)
    assert GWEI <= made.low <= made.medium <= made.high
    assert made.high <= (50 * GWEI if base is not None else 200 * GWEI)


def test_a_price_has_room_for_six_full_blocks() -> None:
    base = 10 * GWEI
    now = price(GasFees(base, GWEI, GWEI, GWEI), FeeLevel.LOW)
    for _ in range(5):
        base = base * 9 // 8
    assert now.max_fee >= base + now.tip - GWEI
    assert price(GasFees(None, 1, 2, 3), FeeLevel.HIGH) == Price(3, 3)


@pytest.mark.parametrize(("old", "new"), [(0, 1), (1, 2), (7, 9), (9, 11), (100, 115), (101, 117)])
def test_a_bump_is_rounded_up(old: int, new: int) -> None:
    assert bumped(old, 15) == new


@given(PRICES, st.lists(PRICES, min_size=1, max_size=6), st.integers(10, 100))
def test_a_replacement_outbids_every_earlier_attempt_on_every_node(
    market: Price, earlier: list[Price], percent: int
) -> None:
    made = replacement(market, earlier, percent)
    assert made.max_fee >= market.max_fee
    assert made.tip >= market.tip
    assert made.max_fee >= made.tip
    for old in earlier:
        for new_fee, old_fee in ((made.max_fee, old.max_fee), (made.tip, old.tip)):
            assert new_fee > old_fee
            assert new_fee >= old_fee * 110 // 100, "geth rounds down"
            assert new_fee >= -(-old_fee * 110 // 100), "reth rounds up"


def test_the_floor_comes_from_the_highest_attempt_not_the_last() -> None:
    made = replacement(Price(1, 1), [Price(1_000, 10), Price(100, 100)], 10)
    assert made == Price(1_100, 110)
