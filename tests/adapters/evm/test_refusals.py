"""Refusals: every text of every client means what its row says, whatever the code."""

from __future__ import annotations

import itertools

import pytest

from adapters.evm.refusals import REFUSALS, Row, Said, classify, most_telling
from gateway.core.errors import Outcome

EVERY = [pytest.param(row, said, id=f"{said.client}: {said.text[:50]}") for row in REFUSALS for said in row.said]


@pytest.mark.parametrize(("row", "said"), EVERY)
def test_a_text_of_a_row_means_what_the_row_says(row: Row, said: Said) -> None:
    assert row.pattern.search(said.text), "the text is in the wrong row"
    assert classify(said.text) is row.outcome
    assert classify(said.text.upper()) is row.outcome
    assert classify(f"err: {said.text} (supplied gas 1)") is row.outcome


@pytest.mark.parametrize(("row", "said"), EVERY)
def test_a_text_is_decided_by_its_own_row_and_no_earlier_one(row: Row, said: Said) -> None:
    first = next(r for r in REFUSALS if r.pattern.search(said.text))
    assert first is row


def test_every_row_has_a_text_and_a_reason() -> None:
    assert all(row.said and row.why for row in REFUSALS)


@pytest.mark.parametrize("text", ["", "internal error", "computer says no", "\U0001f4a5", "nonce"])
def test_an_unknown_text_asks_for_the_same_bytes_again(text: str) -> None:
    assert classify(text) is Outcome.RETRY


def test_the_reason_may_hide_in_the_data() -> None:
    assert classify("Internal error", "nonce too low") is Outcome.LOOKUP
    assert classify("Internal error", {"reason": "nonce too low"}) is Outcome.RETRY
    assert classify("already known", "nonce too low") is Outcome.ALREADY_KNOWN, "the message comes first"


def test_nonce_too_low_is_never_a_failure() -> None:
    """It is also what a node says to our own bytes once they are in a block."""
    assert classify("nonce too low") is Outcome.LOOKUP


NO_REFUSAL = (Outcome.ACCEPTED, Outcome.ALREADY_KNOWN)
NOT_HERE = (Outcome.EXPIRED,)


@pytest.mark.parametrize("other", [o for o in Outcome if o not in NO_REFUSAL + NOT_HERE])
def test_permanent_counts_only_when_all_say_it(other: Outcome) -> None:
    assert most_telling([Outcome.PERMANENT, other]) is other
    assert most_telling([other, Outcome.PERMANENT]) is other


def test_every_outcome_of_the_table_can_be_compared() -> None:
    found = {row.outcome for row in REFUSALS} - {Outcome.ALREADY_KNOWN}
    for pair in itertools.product(found, repeat=2):
        assert most_telling(list(pair)) in pair
