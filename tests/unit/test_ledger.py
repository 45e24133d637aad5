"""The ledger's rule: whatever a withdrawal goes through, its books say what its status says."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.ledger import HOLDS, books, kind, posting
from gateway.core.lifecycle import Status, successors
from gateway.core.records import Book

amounts = st.integers(min_value=0, max_value=10**38)
statuses = st.sampled_from([None, *Status])


@st.composite
def walks(draw: st.DrawFn) -> list[Status]:
    """A legal walk from the start, up to 25 steps."""
    walk: list[Status] = []
    at: Status | None = None
    for _ in range(draw(st.integers(1, 25))):
        at = draw(st.sampled_from(sorted(successors(at))))
        walk.append(at)
    return walk


@given(statuses, amounts, amounts, amounts)
def test_the_books_sum_to_zero_in_every_status(status: Status | None, amount: int, max_fee: int, fee_paid: int) -> None:
    found = books(status, amount=amount, max_fee=max_fee, fee_paid=fee_paid)
    assert set(found) == set(Book)
    assert sum(found.values()) == 0


@given(walks(), amounts, amounts, st.data())
def test_postings_along_a_walk_add_up_to_the_status(
    walk: list[Status], amount: int, max_fee: int, data: st.DataObject
) -> None:
    ledger: Counter[Book] = Counter()
    before = books(None, amount=amount, max_fee=max_fee, fee_paid=0)
    fee_paid = 0
    for status in walk:
        fee_paid += data.draw(st.integers(0, 1000))
        after = books(status, amount=amount, max_fee=max_fee, fee_paid=fee_paid)
        legs = posting(before, after)
        assert sum(legs.values()) == 0
        assert 0 not in legs.values(), "a leg that moves nothing is no leg"
        for book, leg in legs.items():
            ledger[book] += leg
        assert {book: ledger[book] for book in Book} == after
        before = after


@given(statuses, statuses, amounts, amounts, amounts)
def test_a_posting_leads_exactly_from_one_state_to_the_other(
    source: Status | None, target: Status | None, amount: int, max_fee: int, fee: int
) -> None:
    before = books(source, amount=amount, max_fee=max_fee, fee_paid=0)
    after = books(target, amount=amount, max_fee=max_fee, fee_paid=fee)
    legs = posting(before, after)
    assert {book: before[book] + legs.get(book, 0) for book in Book} == after
    assert posting(after, after) == {}


@pytest.mark.parametrize("status", list(Status))
def test_what_is_reserved_paid_and_spent(status: Status) -> None:
    found = books(status, amount=100, max_fee=7, fee_paid=3)
    if status is Status.COMPLETED:
        assert found == {Book.AVAILABLE: -103, Book.RESERVED: 0, Book.PAID: 100, Book.FEES: 3}
    elif status in (Status.FAILED, Status.CANCELLED, Status.REJECTED, Status.BLOCKED):
        assert found == {Book.AVAILABLE: -3, Book.RESERVED: 0, Book.PAID: 0, Book.FEES: 3}
    else:
        assert found == {Book.AVAILABLE: -107, Book.RESERVED: 107, Book.PAID: 0, Book.FEES: 0}


def test_the_money_of_a_running_withdrawal_is_held_until_a_block_has_it() -> None:
    ended = {Status.COMPLETED, Status.CANCELLED, Status.REJECTED, Status.BLOCKED, Status.FAILED}
    assert set(Status) - HOLDS == ended | {Status.CONFIRMING}


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        (None, Status.SUBMITTED, "reserve"),
        (Status.CONFIRMING, Status.COMPLETED, "settle"),
        (Status.COMPLETED, Status.FAILED, "reversal"),
        (Status.CANCELLING, Status.CANCELLED, "release"),
        (Status.PENDING_AUTHORIZATION, Status.REJECTED, "release"),
        (Status.PENDING_ENRICHMENT, Status.BLOCKED, "release"),
        (Status.BROADCASTING, Status.FAILED, "release"),
        (Status.FAILED, Status.QUEUED, "reserve"),
        (Status.FAILED, Status.CONFIRMING, "reserve"),
    ],
)
def test_a_posting_is_named_for_people(source: Status | None, target: Status, name: str) -> None:
    assert kind(source, target) == name
