"""Amounts: exact both ways, and every doubtful text is refused."""

from contextlib import suppress
from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import BadRequest
from gateway.core.money import MAX_DIGITS, show, to_base_units, to_decimal

base_units = st.integers(min_value=1, max_value=10**MAX_DIGITS - 1)
places = st.integers(min_value=0, max_value=30)
EXACT = Context(prec=100)


@given(base_units, places)
def test_what_is_shown_reads_back_as_the_same_amount(base: int, decimals: int) -> None:
    assert to_base_units(show(base, decimals), decimals) == base


@given(base_units, places)
def test_what_is_shown_is_plain_and_short(base: int, decimals: int) -> None:
    text = show(base, decimals)
    assert set(text) <= set("0123456789.")
    assert "." not in text or not text.endswith(("0", "."))
    assert text == "0" or not text.startswith("00")


@given(st.integers(min_value=-(10**MAX_DIGITS), max_value=10**MAX_DIGITS), places)
def test_decimals_are_exact(base: int, decimals: int) -> None:
    # Scaled by exponent: the context's precision must not round what a test compares.
    assert int(to_decimal(base, decimals).scaleb(decimals, context=EXACT)) == base


@given(st.text(max_size=90) | st.text("0123456789. ", max_size=90), places)
def test_any_text_is_an_amount_or_a_bad_request(text: str, decimals: int) -> None:
    with suppress(BadRequest):
        assert to_base_units(text, decimals) > 0
        assert set(text.strip()) <= set("0123456789.")


@given(base_units, st.integers(min_value=0, max_value=20), st.integers(min_value=1, max_value=10))
def test_a_digit_too_many_is_refused_and_never_rounded(base: int, decimals: int, more: int) -> None:
    text = show(base, decimals + more)
    if base % 10**more:
        with pytest.raises(BadRequest, match="more than"):
            to_base_units(text, decimals)
    else:
        assert to_base_units(text, decimals) == base // 10**more


@pytest.mark.parametrize(
    ("text", "decimals", "base"),
    [
        ("1", 0, 1),
        ("1", 18, 10**18),
        ("1.5", 8, 150_000_000),
        (" 1.50 ", 1, 15),
        ("0.00000001", 8, 1),
        (".5", 1, 5),
        ("5.", 1, 50),
        ("007", 0, 7),
        ("1.000", 0, 1),
        ("9" * MAX_DIGITS, 0, 10**MAX_DIGITS - 1),
    ],
)
def test_plain_numbers_are_read(text: str, decimals: int, base: int) -> None:
    assert to_base_units(text, decimals) == base


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "plain"),
        (" ", "plain"),
        ("-1", "plain"),
        ("+1", "plain"),
        ("1e3", "plain"),
        ("1E-3", "plain"),
        ("NaN", "plain"),
        ("Infinity", "plain"),
        ("1,5", "plain"),
        ("1_000", "plain"),
        ("1 000", "plain"),
        ("0x10", "plain"),
        ("\u0661", "plain"),
        ("\u00b2", "plain"),
        ("1" * 81, "plain"),
        (".", "not a number"),
        ("1.2.3", "not a number"),
        ("0", "more than zero"),
        ("0.000", "more than zero"),
        ("0.001", "more than 2 decimals"),
        ("1.999", "more than 2 decimals"),
        ("1" + "0" * MAX_DIGITS, "too large"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why) as caught:
        to_base_units(text, 2)
    assert caught.value.field == "amount"


def test_zero_and_negative_amounts_can_be_shown() -> None:
    assert show(0, 18) == "0"
    assert show(-150, 2) == "-1.5"
    assert to_decimal(-150, 2) == Decimal("-1.50")
