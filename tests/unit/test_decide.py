"""The decision: legal, complete, and never moved by anything but a fact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.chain import AttemptKind, BlockRef
from gateway.core.decide import (
    Dead,
    Dropped,
    FailedInBlock,
    Fate,
    Go,
    Paying,
    Seen,
    Stay,
    Unseen,
    decide,
    fate_of,
    is_over,
)
from gateway.core.lifecycle import Status, check_path
from gateway.core.once import SlotConsumed

PROOF = SlotConsumed("claim", "other", BlockRef(7, "b7", "b6"))
SEEN = st.builds(
    Seen,
    kind=st.sampled_from(AttemptKind),
    depth=st.integers(0, 8),
    ok=st.booleans(),
    final=st.booleans(),
    dead=st.sampled_from([None, PROOF]),
)
FATES: st.SearchStrategy[Fate] = st.one_of(
    st.just(Unseen()),
    st.builds(Paying, depth=st.integers(1, 80), final=st.booleans()),
    st.builds(FailedInBlock, final=st.booleans()),
    st.builds(Dropped, final=st.booleans()),
    st.just(Dead(PROOF)),
)


@given(st.sampled_from(Status), FATES, st.integers(1, 60))
def test_the_tracker_only_asks_for_legal_moves(status: Status, fate: Fate, threshold: int) -> None:
    step = decide(status, fate, threshold)
    if isinstance(step, Go):
        check_path(status, step.path)


@given(st.lists(SEEN, max_size=5), st.sampled_from(Status), st.integers(1, 60))
def test_completed_only_comes_from_an_attempt_that_pays(family: list[Seen], status: Status, threshold: int) -> None:
    step = decide(status, fate_of(family), threshold)
    if isinstance(step, Go) and Status.COMPLETED in step.path:
        assert any(s.kind.pays and s.ok and s.depth >= threshold for s in family)


@given(st.lists(SEEN, max_size=5), st.sampled_from(Status), st.integers(1, 60))
def test_an_end_without_payment_needs_a_final_fact(family: list[Seen], status: Status, threshold: int) -> None:
    step = decide(status, fate_of(family), threshold)
    if isinstance(step, Go) and step.path[-1] in (Status.FAILED, Status.CANCELLED):
        in_block = [s for s in family if s.depth > 0]
        payments = [s for s in family if s.kind.pays]
        assert any(s.final for s in in_block) or (payments and all(s.dead for s in payments))
        assert not any(s.kind.pays and s.ok for s in in_block)


@pytest.mark.parametrize("status", list(Status))
def test_nothing_seen_decides_nothing(status: Status) -> None:
    assert decide(status, Unseen(), 1) == Stay()
    assert not is_over(Unseen(), 1)


@given(st.lists(SEEN, max_size=5))
def test_one_live_payment_keeps_the_family_alive(family: list[Seen]) -> None:
    alive = Seen(AttemptKind.PAYMENT)
    assert fate_of([*(s for s in family if s.depth == 0), alive]) == Unseen()


def test_reaching_the_threshold_at_once_still_passes_confirming() -> None:
    step = decide(Status.BROADCASTING, Paying(1), 1)
    assert isinstance(step, Go)
    assert step.path == (Status.CONFIRMING, Status.COMPLETED)


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.QUEUED, Status.PENDING_SIGNATURE])
def test_a_late_landing_is_recorded_and_rings(status: Status) -> None:
    step = decide(status, Paying(1), 3)
    assert isinstance(step, Go)
    assert step.path == (Status.CONFIRMING,)
    assert step.alarm


@pytest.mark.parametrize("status", [Status.BLOCKED, Status.REJECTED, Status.PENDING_AUTHORIZATION])
def test_a_landing_where_no_move_is_legal_rings_all_the_same(status: Status) -> None:
    step = decide(status, Paying(1), 3)
    assert isinstance(step, Stay)
    assert step.alarm


def test_executed_and_failed_is_not_the_end_before_its_block_is_final() -> None:
    early = decide(Status.BROADCASTING, FailedInBlock(final=False), 1)
    assert isinstance(early, Go)
    assert early.path == (Status.CONFIRMING,)
    assert decide(Status.CONFIRMING, FailedInBlock(final=False), 1) == Stay()
    late = decide(Status.CONFIRMING, FailedInBlock(final=True), 1)
    assert isinstance(late, Go)
    assert late.path == (Status.FAILED,)


def test_a_payment_is_followed_until_it_is_final_and_counted() -> None:
    assert not is_over(Paying(3, final=False), 1)
    assert not is_over(Paying(3, final=True), 5)
    assert is_over(Paying(5, final=True), 5)


def test_cancelling_ends_cancelled_only_by_proof() -> None:
    assert decide(Status.CANCELLING, Dropped(final=False), 1) == Stay()
    for fate in (Dropped(final=True), Dead(PROOF)):
        step = decide(Status.CANCELLING, fate, 1)
        assert isinstance(step, Go)
        assert step.path == (Status.CANCELLED,)
