"""Settling a block: rows, counts, moves and closings, from facts alone."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.chain import AttemptKind
from gateway.core.lifecycle import Status
from gateway.core.once import SlotConsumed
from gateway.core.records import Attempt, Withdrawal
from gateway.settle import Settlement, settle
from tests.unit.facts import NOW, attempt, block, withdrawal


def settled(
    owner: Withdrawal,
    family: Sequence[Attempt],
    *,
    tip: int,
    finalized: int = 0,
    dead: Sequence[str] = (),
    threshold: int = 2,
) -> Settlement:
    return settle(
        block(tip),
        finalized=finalized,
        families={owner.id: family},
        withdrawals={owner.id: owner},
        dead={c: SlotConsumed(c, "other", block(15)) for c in dead},
        threshold=threshold,
        now=NOW,
    )


def test_the_first_block_confirms_and_the_threshold_completes() -> None:
    owner = withdrawal()
    first = settled(owner, [attempt(included=block(10), fee=7)], tip=10)
    assert [m.path for m in first.moves] == [(Status.CONFIRMING,)]
    assert [c.block_height for c in first.confirmations] == [10]
    assert first.close == ()
    second = settled(withdrawal(status=Status.CONFIRMING), [attempt(included=block(10), fee=7)], tip=11)
    assert [(m.path, m.fee_paid) for m in second.moves] == [((Status.COMPLETED,), 7)]
    assert second.counts == {owner.id: 2}


def test_no_row_is_written_above_the_threshold_but_the_family_stays_until_it_is_final() -> None:
    done = withdrawal(status=Status.COMPLETED, fee_paid=7)
    above = settled(done, [attempt(included=block(10), fee=7)], tip=12, finalized=9)
    assert above.confirmations == ()
    assert above.close == ()
    final = settled(done, [attempt(included=block(10), fee=7)], tip=13, finalized=10)
    assert final.close == (attempt().id,)


def test_a_transactions_own_threshold_overrides_the_chains() -> None:
    owner = withdrawal(status=Status.CONFIRMING, threshold=5)
    assert settled(owner, [attempt(included=block(10))], tip=11).moves == ()
    assert settled(owner, [attempt(included=block(10))], tip=14).moves[0].path == (Status.COMPLETED,)


def test_a_dead_slot_fails_a_completed_withdrawal_with_nothing_paid() -> None:
    done = withdrawal(status=Status.COMPLETED, fee_paid=7)
    result = settled(done, [attempt()], tip=20, finalized=15, dead=["c1"])
    assert [(m.path, m.fee_paid) for m in result.moves] == [((Status.FAILED,), 0)]
    assert "other used slot c1" in result.moves[0].reason
    assert result.close == (attempt().id,)


def test_one_dead_attempt_does_not_kill_a_family_whose_other_attempt_may_land() -> None:
    owner = withdrawal()
    family = [attempt(1), attempt(2, claims=("c1", "c2")), attempt(3, claims=("c1",), kind=AttemptKind.BOOST)]
    result = settled(owner, family, tip=20, finalized=15, dead=["c2"])
    assert result.moves == ()
    assert result.close == ()


def test_whichever_attempt_lands_wins_and_all_are_closed_with_it() -> None:
    owner = withdrawal(status=Status.CONFIRMING)
    family = [attempt(1, included=block(10), fee=3), attempt(2, claims=("c1",), kind=AttemptKind.BOOST)]
    result = settled(owner, family, tip=12, finalized=10)
    assert [m.path for m in result.moves] == [(Status.COMPLETED,)]
    assert set(result.close) == {a.id for a in family}


def test_a_block_that_came_back_at_another_price_corrects_the_fee() -> None:
    done = withdrawal(status=Status.COMPLETED, fee_paid=7)
    result = settled(done, [attempt(included=block(12), fee=9)], tip=12)
    assert result.fees == ((done, 9),)
    assert result.moves == ()


def test_failed_in_a_block_costs_its_fee_and_pays_nothing() -> None:
    owner = withdrawal(status=Status.CONFIRMING)
    result = settled(owner, [attempt(included=block(10), ok=False, fee=5)], tip=12, finalized=10)
    assert [(m.path, m.fee_paid) for m in result.moves] == [((Status.FAILED,), 5)]
    assert result.counts == {}


def test_a_drop_in_a_block_never_completes() -> None:
    owner = withdrawal(status=Status.BROADCASTING)
    family = [attempt(1), attempt(2, claims=("c1",), kind=AttemptKind.DROP, included=block(10), fee=5)]
    assert settled(owner, family, tip=30, finalized=9).moves == ()
    final = settled(owner, family, tip=30, finalized=10)
    assert [(m.path, m.fee_paid) for m in final.moves] == [((Status.FAILED,), 5)]
