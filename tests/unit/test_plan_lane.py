"""Planning a lane: in order, never over its depth, never two payments that could both land."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from gateway.core.adapter import Codec
from gateway.core.chain import (
    Account,
    Build,
    ChainInfo,
    FeeQuote,
    Hold,
    Lane,
    LaneFacts,
    Pending,
    Reject,
    Unsigned,
)
from gateway.core.errors import WouldPayTwice
from gateway.core.ids import WithdrawalId
from gateway.core.substatus import SubStatus
from gateway.lanes import Plan, plan_lane
from tests.unit.facts import ACCOUNT, NOW, attempt, withdrawal


class Counter:
    """A codec of a made-up chain whose claims are numbers in order. `answers` overrides by withdrawal number."""

    info = ChainInfo("chain", "made-up", "COIN", 8, 1, lane_depth=3, batch=10, replaceable=True)

    def __init__(self, **answers: Hold | Reject | Unsigned) -> None:
        self.answers = answers

    def room(self, lane: Lane) -> int:
        return self.info.lane_depth - len(lane.pending)

    def build(self, order: Build, lane: Lane, quote: FeeQuote) -> Unsigned | Hold | Reject:
        number = order.intent.withdrawal_id.int
        if f"w{number}" in self.answers:
            return self.answers[f"w{number}"]
        return Unsigned(b"p", (str(len(lane.held)),), None, 1)


def plan(codec: Counter, numbers: Sequence[int], earlier: dict[WithdrawalId, list[Pending]] | None = None) -> Plan:
    account = Account(ACCOUNT, cast(Any, None), "chain", "address", "key", b"")
    lane = Lane(account, LaneFacts(1, 10**9), (), ())
    return plan_lane(cast(Codec, codec), [withdrawal(n) for n in numbers], lane, FeeQuote(), earlier or {}, NOW)


def test_each_build_sees_the_claims_of_the_ones_before_it() -> None:
    made = plan(Counter(), [1, 2, 3])
    assert [a.claims for _, a in made.take] == [("0",), ("1",), ("2",)]
    assert made.hold is None


def test_a_full_lane_waits() -> None:
    made = plan(Counter(), [1, 2, 3, 4])
    assert len(made.take) == 3
    assert made.hold is not None
    assert made.hold[0].id == withdrawal(4).id


def test_a_full_lane_waits_for_the_chain_s_own_reason_where_there_is_one() -> None:
    made = plan(Counter(w4=Hold(SubStatus.TOO_LONG_MEMPOOL_CHAIN, "behind others")), [1, 2, 3, 4])
    assert made.hold is not None
    assert made.hold[1].sub_status is SubStatus.TOO_LONG_MEMPOOL_CHAIN


def test_nobody_overtakes_one_that_must_wait() -> None:
    made = plan(Counter(w2=Hold(SubStatus.INSUFFICIENT_FUNDS, "no funds")), [1, 2, 3])
    assert [w.id for w, _ in made.take] == [withdrawal(1).id]
    assert made.hold is not None
    assert made.hold[1].sub_status is SubStatus.INSUFFICIENT_FUNDS


def test_one_that_can_never_be_built_fails_alone() -> None:
    made = plan(Counter(w1=Reject(SubStatus.AMOUNT_TOO_SMALL, "dust")), [1, 2])
    assert [w.id for w, _ in made.reject] == [withdrawal(1).id]
    assert [w.id for w, _ in made.take] == [withdrawal(2).id]


def test_bytes_that_do_not_exclude_an_earlier_payment_are_never_planned() -> None:
    earlier = {withdrawal(1).id: [attempt(7, withdrawal(1)).pending]}
    with pytest.raises(WouldPayTwice):
        plan(Counter(), [1], earlier)


def test_sharing_a_claim_with_only_the_newest_attempt_is_not_enough() -> None:
    earlier = {withdrawal(1).id: [attempt(7, withdrawal(1)).pending, attempt(8, withdrawal(1)).pending]}
    with pytest.raises(WouldPayTwice):
        plan(Counter(w1=Unsigned(b"p", ("c8",), None, 1)), [1], earlier)
    both = plan(Counter(w1=Unsigned(b"p", ("c7", "c8"), None, 1)), [1], earlier)
    assert len(both.take) == 1
