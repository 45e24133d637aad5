"""The tracker's index: found by hash and by claim, told apart from what is not ours."""

from __future__ import annotations

from dataclasses import replace

from gateway.core.chain import Block, Landed, Payment
from gateway.core.records import Inclusion
from gateway.index import Index
from tests.unit.facts import ACCOUNT, attempt, block, withdrawal

ONE, TWO = withdrawal(1), withdrawal(2)


def landed(tx_hash: str, *claims: str, sender: str = "") -> Landed:
    return Landed(tx_hash, claims, sender, ok=True, fee=1, pays=(Payment("x", 1),))


def index() -> Index:
    made = Index({"ours": ACCOUNT})
    made.add(attempt(1, ONE))
    made.add(attempt(2, TWO))
    return made


def test_a_hash_of_ours_is_a_hit() -> None:
    matched = index().match(Block(block(5), (landed("h1", "c1", sender="ours"),)))
    assert [h.attempt.id for h in matched.hits] == [attempt(1).id]
    assert matched.foreign == ()
    assert matched.strangers == ()


def test_another_hash_on_a_claim_of_ours_is_foreign() -> None:
    matched = index().match(Block(block(5), (landed("zz", "c2", sender="ours"),)))
    assert [(f.claim, [a.id for a in f.attempts]) for f in matched.foreign] == [("c2", [attempt(2).id])]
    assert matched.strangers == ()


def test_a_spend_from_our_account_on_an_unknown_claim_is_a_stranger() -> None:
    matched = index().match(Block(block(5), (landed("zz", "c9", sender="ours"), landed("yy", "c8"))))
    assert [s.tx_hash for s in matched.strangers] == ["zz"]


def test_what_is_placed_is_found_by_height_and_by_block_and_taken_back() -> None:
    made = index()
    made.place(attempt(1).id, Inclusion(block(5), ok=True, fee=1))
    assert [a.id for a in made.included(5, 5)] == [attempt(1).id]
    assert [a.id for a in made.in_blocks(["a5"])] == [attempt(1).id]
    assert [a.id for a in made.final(5)] == [attempt(1).id]
    made.place(attempt(1).id, Inclusion(block(6, "b"), ok=True, fee=1))
    assert list(made.included(5, 5)) == []
    made.place(attempt(1).id, None)
    assert made.final(100) == []


def test_removing_an_attempt_leaves_those_that_share_its_claim() -> None:
    made = index()
    made.add(replace(attempt(3, ONE), claims=("c1",)))
    made.remove(attempt(1).id)
    assert "h1" not in made.hashes
    assert made.claims["c1"] == {attempt(3).id}
    made.remove(attempt(3).id)
    made.remove(attempt(3).id)
    assert "c1" not in made.claims
    assert len(made) == 1


def test_only_attempts_in_no_block_are_due_and_each_once() -> None:
    made = index()
    made.schedule(attempt(1).id, 10.0, decided=True)
    made.schedule(attempt(2).id, 10.0)
    made.place(attempt(2).id, Inclusion(block(5), ok=True, fee=1))
    assert made.due(9.9, 50) == []
    assert [(a.id, d) for a, d in made.due(10.0, 50)] == [(attempt(1).id, True)]
    assert made.due(99.0, 50) == []
