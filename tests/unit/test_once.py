"""At most once: new bytes exclude every earlier payment, or are refused."""

from itertools import combinations
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.chain import AttemptKind, Intent, Landed, Payment, Pending
from gateway.core.errors import WouldPayTwice
from gateway.core.ids import AttemptId, WithdrawalId
from gateway.core.once import check_excludes, excludes, pays_intent

INTENT = Intent(WithdrawalId(UUID(int=1)), "COIN", 100, "destination")
claims = st.frozensets(st.sampled_from("abcdef"), max_size=4)


def attempt(*claims: str, kind: AttemptKind = AttemptKind.PAYMENT, number: int = 1) -> Pending:
    return Pending(
        attempt_id=AttemptId(UUID(int=number)),
        withdrawal_id=INTENT.withdrawal_id,
        kind=kind,
        payload=b"",
        raw=b"signed",
        tx_hash=f"hash{number}",
        claims=claims,
        fee_max=1,
        in_block=False,
    )


def test_attempts_with_a_claim_in_common_exclude_each_other() -> None:
    assert excludes(("a", "b"), ("b", "c"))
    assert not excludes(("a", "b"), ("c", "d"))


@given(claims, claims)
def test_exclusion_is_mutual_and_nothing_excludes_nothing(one: frozenset[str], other: frozenset[str]) -> None:
    assert excludes(one, other) == excludes(other, one) == bool(one & other)
    assert not excludes((), other)


def test_a_replacement_of_the_same_slot_may_be_signed() -> None:
    check_excludes(("a",), [attempt("a")])
    check_excludes(("a", "b"), [attempt("b", "c"), attempt("a", number=2)])


def test_bytes_that_share_nothing_with_an_earlier_payment_are_refused() -> None:
    with pytest.raises(WouldPayTwice, match=str(UUID(int=1))):
        check_excludes(("b",), [attempt("a")])


def test_the_third_attempt_must_exclude_the_first_and_not_only_the_second() -> None:
    first, second = attempt("a", "b", number=1), attempt("b", "c", number=2)
    check_excludes(second.claims, [first])
    with pytest.raises(WouldPayTwice, match=str(first.attempt_id)):
        check_excludes(("c", "d"), [first, second])
    check_excludes(("b", "d"), [first, second])


@pytest.mark.parametrize("kind", [AttemptKind.DROP, AttemptKind.CPFP])
def test_what_does_not_pay_need_not_be_excluded(kind: AttemptKind) -> None:
    check_excludes(("b",), [attempt("a", kind=kind)])


def test_a_boost_pays_and_must_be_excluded() -> None:
    with pytest.raises(WouldPayTwice):
        check_excludes(("b",), [attempt("a", kind=AttemptKind.BOOST)])


def test_attempts_without_a_slot_exclude_nothing() -> None:
    with pytest.raises(WouldPayTwice):
        check_excludes((), [attempt()])
    with pytest.raises(WouldPayTwice):
        check_excludes(("a",), [attempt()])


@given(st.lists(st.tuples(claims, st.sampled_from(list(AttemptKind))), max_size=8))
def test_of_the_payments_that_pass_the_check_at_most_one_can_land(
    tried: list[tuple[frozenset[str], AttemptKind]],
) -> None:
    family: list[Pending] = []
    for number, (slot, kind) in enumerate(tried):
        new = attempt(*sorted(slot), kind=kind, number=number)
        try:
            check_excludes(new.claims, family)
        except WouldPayTwice:
            continue
        family.append(new)
    paying = [a for a in family if a.kind.pays]
    assert all(set(one.claims) & set(other.claims) for one, other in combinations(paying, 2))


def landed(*pays: Payment, ok: bool = True, opaque: bool = False) -> Landed:
    return Landed(tx_hash="h", claims=("a",), sender="s", ok=ok, fee=None, pays=pays, opaque=opaque)


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (landed(Payment("destination", 100)), True),
        (landed(Payment("change", 5), Payment("destination", 100)), True),
        (landed(Payment("destination", 100), ok=False), False),
        (landed(Payment("destination", 99)), False),
        (landed(Payment("other", 100)), False),
        (landed(), False),
        (landed(opaque=True), True),
        (landed(opaque=True, ok=False), False),
    ],
)
def test_a_foreign_transaction_pays_the_intent_if_destination_and_amount_agree_or_cannot_be_known(
    found: Landed, answer: bool
) -> None:
    assert pays_intent(found, INTENT) is answer
