"""Ids: version 7 UUIDs that sort in the order in which they were made."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import ids
from gateway.core.ids import uuid7

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
times = st.integers(min_value=10**9, max_value=4 * 10**9).map(lambda s: datetime.fromtimestamp(s, UTC))


@pytest.fixture(autouse=True)
def newest_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without a newest id, and leave none of a far future to other tests."""
    monkeypatch.setattr(ids, "_last", 0)


def test_ids_of_one_moment_sort_in_the_order_of_making() -> None:
    made = [uuid7(NOW) for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert [m.bytes for m in made] == sorted(m.bytes for m in made), "as the database sorts them"


@given(st.lists(times, min_size=2, max_size=20))
def test_a_clock_that_goes_back_makes_no_id_that_sorts_before(moments: list[datetime]) -> None:
    made = [uuid7(moment) for moment in moments]
    assert all(one < other for one, other in pairwise(made))


@given(times)
def test_version_and_variant_are_those_of_the_standard(moment: datetime) -> None:
    made = uuid7(moment)
    assert made.version == 7
    assert made.variant == RFC_4122


def test_the_id_begins_with_the_time_in_milliseconds() -> None:
    later = datetime.now(UTC) + timedelta(days=365 * 200)  # after every moment that another test used
    made = uuid7(later)
    assert made.int >> 80 == int(later.timestamp() * 1000)


def test_ids_are_not_guessable_from_each_other() -> None:
    far = datetime.now(UTC) + timedelta(days=365 * 300)
    tails = {uuid7(far + timedelta(milliseconds=n)).int & (1 << 62) - 1 for n in range(100)}
    assert len(tails) == 100


def test_threads_never_make_the_same_id() -> None:
    made: list[list[UUID]] = [[] for _ in range(8)]
    ready = threading.Barrier(8)

    def make(into: list[UUID]) -> None:
        ready.wait()
        into.extend(uuid7(NOW) for _ in range(2000))

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(part == sorted(part) for part in made)
    assert len({one for part in made for one in part}) == 8 * 2000
