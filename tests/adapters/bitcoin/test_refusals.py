"""The table of refusals: every row has a message that it alone decides, and unknown text is never taken for a no."""

from __future__ import annotations

import pytest

from adapters.bitcoin.refusals import IN_CHAIN, MISSING_INPUTS, REJECTED, TABLE, Row, classify, row_of
from gateway.core.errors import Outcome


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.code} {row.example[:50]}")
def test_every_row_classifies_its_own_message(row: Row) -> None:
    code = REJECTED if row.code is None else row.code
    found = row_of(code, row.example)
    assert found is not None
    assert (found.code, found.outcome) == (row.code, row.outcome)
    assert classify(code, row.example) is row.outcome
    assert classify(code, f"  {row.example.upper()}") is row.outcome


def test_no_two_rows_have_one_message() -> None:
    messages = [(row.code, row.example) for row in TABLE]
    assert len(set(messages)) == len(messages)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (REJECTED, ""),
        (REJECTED, "something-new"),
        (REJECTED, "dustier-than-ever"),
        (REJECTED, "versioned"),
        (REJECTED, "not mempool full"),
        (MISSING_INPUTS, "something else"),
        (MISSING_INPUTS, "dust"),
        (-1, "std::exception"),
        (-32603, "internal error"),
        (0, ""),
    ],
)
def test_text_that_no_row_knows_means_look_it_up(code: int, message: str) -> None:
    assert row_of(code, message) is None
    assert classify(code, message) is Outcome.LOOKUP


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("64: dust", Outcome.PERMANENT),
        ("66: min relay fee not met", Outcome.FEE_TOO_LOW),
        ("18: txn-mempool-conflict", Outcome.LOOKUP),
        ("258: txn-mempool-conflict (code 18)", Outcome.LOOKUP),
    ],
)
def test_old_nodes_put_a_number_before_the_reason(message: str, outcome: Outcome) -> None:
    assert classify(REJECTED, message) is outcome


def test_a_code_with_one_meaning_decides_whatever_the_text() -> None:
    assert classify(IN_CHAIN, "in any words") is Outcome.ALREADY_KNOWN


def test_only_what_says_that_the_node_has_it_counts_as_known() -> None:
    known = {row.example for row in TABLE if row.outcome is Outcome.ALREADY_KNOWN}
    assert all("already" in text.lower() or "same" in text for text in known)
    assert not any(row.outcome in (Outcome.ACCEPTED, Outcome.EXPIRED) for row in TABLE)
