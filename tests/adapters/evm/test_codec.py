"""The codec: which nonce, what price, and that signed bytes are exactly what was approved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import rlp  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from adapters.evm.address import claim, nonce_in
from adapters.evm.codec import Gas, Reverts, Unclear
from adapters.evm.fees import GasFees, Price
from adapters.evm.params import GWEI
from adapters.evm.payload import DYNAMIC, LEGACY, Transfer, decode, encode
from gateway.core.chain import AttemptKind, FeeLevel, Hold, Pending, Reject, Signature, Unsigned
from gateway.core.errors import BadRequest, SignedMismatch, WouldPayTwice
from gateway.core.once import excludes
from gateway.core.substatus import SubStatus
from tests.adapters.evm.vault import ELSEWHERE, ETHER, FEES, LEGACY_FEES, Book, Key, codec, transfer_of, withdrawal

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
OTHER = "0x27b1fdb04752bbc536007a920d24acb045561c26"
NONCES = st.sets(st.integers(0, 40), max_size=20)


def nonce_of(built: Unsigned | Hold | Reject) -> int:
    assert isinstance(built, Unsigned), built
    return decode(built.payload).nonce


def held(built: Unsigned | Hold | Reject, sub_status: SubStatus) -> str:
    assert isinstance(built, Hold), built
    assert built.sub_status is sub_status
    return built.reason


# which nonce


def test_the_first_payment_takes_the_mined_count() -> None:
    book = Book(mined=7, opening=7)
    built = book.build(book.order(book.intent()))
    assert nonce_of(built) == 7
    assert isinstance(built, Unsigned)
    assert built.claims == (claim(book.account.address, 7),)
    assert built.window_end is None


def test_payments_follow_one_another() -> None:
    book = Book()
    assert [transfer_of(book.pay(number)).nonce for number in range(1, 5)] == [0, 1, 2, 3]


def test_a_nonce_that_came_back_unused_is_taken_first() -> None:
    book = Book(mined=3, opening=0)
    book.hold(2, 3, 4, 6, 7)
    assert nonce_of(book.build(book.order(book.intent()))) == 5


@given(NONCES, st.integers(0, 40), st.integers(0, 40))
def test_a_held_nonce_is_never_taken_and_gaps_are_filled(nonces: set[int], mined: int, opening: int) -> None:
    book = Book(mined=mined, opening=opening)
    book.hold(*nonces)
    built = book.build(book.order(book.intent()))
    if mined < opening or (mined > opening and mined - 1 not in nonces):
        assert isinstance(built, Hold)
        return
    nonce = nonce_of(built)
    assert nonce not in nonces
    assert nonce >= max(mined, opening)
    assert all(n in nonces for n in range(max(mined, opening), nonce)), "it is the lowest free one"


@given(st.integers(1, 30))
def test_a_row_of_builds_never_shares_a_claim(count: int) -> None:
    book = Book(codec=codec(lane_depth=64))
    claims = [one for number in range(count) for one in book.pay(number).claims]
    assert len(set(claims)) == count


def test_a_spend_that_the_store_does_not_know_stops_the_lane() -> None:
    book = Book(mined=5, opening=2)
    book.hold(2, 3)
    reason = held(book.build(book.order(book.intent())), SubStatus.INTERNAL_ERROR)
    assert "spend from our address that the store does not know: nonce 4" in reason


def test_the_newest_known_spend_explains_the_mined_count() -> None:
    book = Book(mined=5, opening=2)
    book.hold(4)
    assert nonce_of(book.build(book.order(book.intent()))) == 5


def test_fewer_spends_than_at_first_use_stop_the_lane() -> None:
    book = Book(mined=1, opening=2)
    held(book.build(book.order(book.intent())), SubStatus.INVALID_NONCE_TOO_HIGH)


def test_claims_of_another_address_do_not_matter() -> None:
    book = Book()
    book.hold(0)
    book.held = [replace(held, claim=claim(OTHER, 0)) for held in book.held]
    assert nonce_of(book.build(book.order(book.intent()))) == 0


def test_room_is_what_the_depth_leaves() -> None:
    book = Book(codec=codec(lane_depth=4), mined=2, opening=0)
    book.hold(0, 1)
    assert book.codec.room(book.lane) == 4
    book.hold(2, 5)
    assert book.codec.room(book.lane) == 2
    book.hold(6, 7, 8)
    assert book.codec.room(book.lane) == 0


def test_a_delegated_account_has_one_in_flight() -> None:
    book = Book(delegated=True)
    assert book.codec.room(book.lane) == 1
    book.pay()
    assert book.codec.room(book.lane) == 0


# what it pays


@pytest.mark.parametrize("level", list(FeeLevel))
def test_a_payment_is_of_type_2_with_twice_the_base_fee(level: FeeLevel) -> None:
    book = Book()
    made = transfer_of(book.send(book.order(book.intent(), level=level)))
    assert made == Transfer(
        DYNAMIC,
        31337,
        0,
        bytes.fromhex(ELSEWHERE[2:]),
        ETHER,
        21_000,
        Price(2 * GWEI + FEES.at(level), FEES.at(level)),
    )


def test_without_a_base_fee_it_is_of_type_0() -> None:
    book = Book(fees=LEGACY_FEES)
    made = transfer_of(book.pay())
    assert (made.type, made.price) == (LEGACY, Price(2 * GWEI, 2 * GWEI))


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.integers(0, 10**18),
    st.sampled_from(list(FeeLevel)),
    st.sampled_from(list(AttemptKind)),
)
def test_the_fee_never_exceeds_what_the_order_allows(
    base: int, tip: int, max_fee: int, level: FeeLevel, kind: AttemptKind
) -> None:
    book = Book(fees=GasFees(base, tip, tip, tip))
    intent = book.intent()
    first = book.build(book.order(intent, level=level, max_fee=max_fee))
    if isinstance(first, Unsigned):
        assert decode(first.payload).fee_max == first.fee_max <= max_fee
        book.keep(book.order(intent, max_fee=max_fee), first)
    again = book.build(book.order(intent, kind=kind, level=level, max_fee=max_fee))
    if isinstance(again, Unsigned):
        assert decode(again.payload).fee_max == again.fee_max <= max_fee


def test_a_fee_above_the_order_waits() -> None:
    book = Book()
    held(book.build(book.order(book.intent(), max_fee=21_000 * GWEI)), SubStatus.MAX_FEE_EXCEEDED)


def test_a_fee_above_the_configured_bound_waits_whatever_the_order_says() -> None:
    book = Book(codec=codec(max_fee=21_000 * GWEI))
    held(book.build(book.order(book.intent())), SubStatus.MAX_FEE_EXCEEDED)


def test_a_base_fee_above_the_bound_waits() -> None:
    book = Book(codec=codec(max_fee_per_gas=200 * GWEI), fees=GasFees(201 * GWEI, 1, 1, 1))
    held(book.build(book.order(book.intent())), SubStatus.MAX_FEE_EXCEEDED)


def test_near_the_bound_the_room_for_rises_is_given_up_first() -> None:
    book = Book(codec=codec(max_fee_per_gas=200 * GWEI), fees=GasFees(150 * GWEI, 1, 1, 1))
    assert transfer_of(book.pay()).price == Price(200 * GWEI, 1)


@pytest.mark.parametrize("level", list(FeeLevel))
def test_the_ceiling_covers_a_contract_wallet_and_fees_that_double(level: FeeLevel) -> None:
    book = Book(need=Gas(75_000, exact=False))
    ceiling = book.codec.fee_ceiling(FEES, level)
    assert isinstance(book.build(book.order(book.intent(), level=level, max_fee=ceiling)), Unsigned)
    book.fees = GasFees(2 * GWEI, *(2 * FEES.at(one) for one in FeeLevel))
    assert isinstance(book.build(book.order(book.intent(), level=level, max_fee=ceiling)), Unsigned)


def test_the_ceiling_is_never_above_the_configured_bound() -> None:
    assert codec(max_fee=5).fee_ceiling(FEES, FeeLevel.HIGH) == 5


# gas


def test_an_estimate_gets_a_margin() -> None:
    book = Book(need=Gas(40_000, exact=False))
    assert transfer_of(book.pay()).gas == 50_000


def test_a_margin_stops_at_the_most_that_a_transaction_may_ask_for() -> None:
    book = Book(need=Gas(16_000_000, exact=False))
    assert transfer_of(book.send(book.order(book.intent(), max_fee=ETHER))).gas == 16_777_216


def test_a_destination_that_reverts_is_rejected() -> None:
    book = Book(need=Reverts("execution reverted: closed"))
    built = book.build(book.order(book.intent()))
    assert isinstance(built, Reject)
    assert built.sub_status is SubStatus.SMART_CONTRACT_EXECUTION_FAILED
    assert "closed" in built.reason


def test_a_destination_without_an_estimate_waits() -> None:
    book = Book(need=Unclear("limit exceeded"))
    held(book.build(book.order(book.intent())), SubStatus.CONNECTIVITY_ERROR)


def test_a_destination_that_nobody_asked_about_waits() -> None:
    book = Book()
    order = book.order(book.intent())
    book.intents.clear()
    held(book.build(order), SubStatus.CONNECTIVITY_ERROR)


# funds


def test_the_balance_must_cover_value_and_fee() -> None:
    fee = 21_000 * 3 * GWEI
    book = Book(balance=ETHER + fee)
    order = book.order(book.intent())
    assert isinstance(book.build(order), Unsigned)
    book.balance -= 1
    held(book.build(order), SubStatus.INSUFFICIENT_FUNDS_FOR_FEE)
    book.balance = ETHER - 1
    held(book.build(order), SubStatus.INSUFFICIENT_FUNDS)


def test_what_waits_is_counted_once_per_nonce_at_its_dearest() -> None:
    fee = 21_000 * 3 * GWEI
    book = Book(balance=2 * ETHER + 3 * fee)
    intent = book.intent()
    book.send(book.order(intent))
    boost = book.send(book.order(intent, kind=AttemptKind.BOOST))
    left = book.balance - ETHER - boost.fee_max
    assert left < ETHER + fee + fee
    assert isinstance(book.build(book.order(book.intent(2, left - fee))), Unsigned)
    held(book.build(book.order(book.intent(2, left - fee + 1))), SubStatus.INSUFFICIENT_FUNDS_FOR_FEE)


def test_what_is_mined_has_left_the_balance_already() -> None:
    book = Book()
    book.pay(1)
    book.mined = 1
    book.balance = ETHER + 21_000 * 3 * GWEI
    assert isinstance(book.build(book.order(book.intent(2))), Unsigned)


def test_a_drop_needs_no_more_than_its_fee() -> None:
    book = Book()
    intent = book.intent()
    book.send(book.order(intent))
    book.pay(2, 5 * ETHER)
    book.balance = ETHER // 100
    assert isinstance(book.build(book.order(intent, kind=AttemptKind.DROP)), Unsigned)


# replacements


@given(
    st.lists(st.sampled_from([AttemptKind.PAYMENT, AttemptKind.BOOST, AttemptKind.DROP]), max_size=5),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=6, max_size=6),
    st.integers(0, 9),
)
def test_every_attempt_of_a_family_excludes_every_other(
    kinds: list[AttemptKind], markets: list[tuple[int, int]], mined: int
) -> None:
    book = Book(mined=mined, opening=mined)
    book.pay(99)
    intent = book.intent()
    family: list[Pending] = []
    for kind, (base, tip) in zip([AttemptKind.PAYMENT, *kinds], markets, strict=False):
        tips = (tip * GWEI, tip * GWEI, tip * GWEI)
        book.fees = GasFees(base * GWEI, *tips) if base else GasFees(None, *tips)
        order = book.order(intent, kind=kind, max_fee=ETHER // 10)
        assert order.replaces == tuple(family)
        attempt = book.send(order)
        new = transfer_of(attempt)
        assert new.nonce == mined + 1, "the nonce is the stored one"
        for earlier in family:
            old = transfer_of(earlier)
            assert excludes(attempt.claims, earlier.claims)
            assert new.price.max_fee >= -(-old.price.max_fee * 110 // 100)
            assert new.price.tip >= -(-old.price.tip * 110 // 100)
            assert new.price.max_fee > old.price.max_fee
            assert new.price.tip > old.price.tip
        family.append(attempt)


def test_the_dearest_attempt_is_outbid_wherever_it_stands_in_the_family() -> None:
    book = Book()
    intent = book.intent()
    book.send(book.order(intent))
    dear = book.send(book.order(intent, kind=AttemptKind.BOOST, level=FeeLevel.HIGH))
    book.pending.reverse()
    new = transfer_of(book.send(book.order(intent, kind=AttemptKind.BOOST, level=FeeLevel.LOW)))
    assert new.price.max_fee > transfer_of(dear).price.max_fee
    assert new.price.tip > transfer_of(dear).price.tip


def test_a_replacement_keeps_its_nonce_when_the_chain_says_something_else() -> None:
    """The count that a node gives now is of no interest: the stored attempt is."""
    book = Book(mined=0)
    intent = book.intent()
    book.send(book.order(intent))
    book.hold(1, 2)
    assert nonce_of(book.build(book.order(intent, kind=AttemptKind.BOOST))) == 0


def test_a_replacement_of_a_nonce_that_is_used_waits() -> None:
    book = Book()
    intent = book.intent()
    book.send(book.order(intent))
    book.mined = 1
    held(book.build(book.order(intent, kind=AttemptKind.BOOST)), SubStatus.INVALID_NONCE_TOO_LOW)


def test_attempts_with_two_nonces_cannot_be_excluded_by_one() -> None:
    book = Book()
    first, second = book.pay(1), book.pay(2)
    order = replace(book.order(book.intent(3)), replaces=(first, second))
    with pytest.raises(WouldPayTwice):
        book.build(order)


def test_the_signed_bytes_say_what_an_attempt_pays_not_its_payload() -> None:
    book = Book()
    intent = book.intent()
    attempt = book.send(book.order(intent))
    book.pending[0] = replace(attempt, payload=encode(replace(transfer_of(attempt), price=Price(1, 1))))
    built = book.build(book.order(intent, kind=AttemptKind.BOOST))
    assert isinstance(built, Unsigned)
    assert decode(built.payload).price.max_fee > transfer_of(attempt).price.max_fee


def test_a_drop_moves_nothing_to_ourselves_for_21000_gas() -> None:
    book = Book(need=Gas(50_000, exact=False))
    intent = book.intent()
    book.send(book.order(intent))
    made = transfer_of(book.send(book.order(intent, kind=AttemptKind.DROP)))
    assert (made.to.hex(), made.value, made.gas) == (book.account.address[2:].lower(), 0, 21_000)


def test_at_the_cap_a_boost_waits_and_a_drop_with_a_higher_price_is_possible() -> None:
    book = Book(codec=codec(max_fee_per_gas=3 * GWEI, max_tip=3 * GWEI))
    intent = book.intent()
    book.send(book.order(intent))
    held(book.build(book.order(intent, kind=AttemptKind.BOOST)), SubStatus.MAX_FEE_EXCEEDED)
    assert isinstance(book.build(book.order(intent, kind=AttemptKind.DROP)), Unsigned)


@pytest.mark.parametrize("kind", [AttemptKind.BOOST, AttemptKind.DROP])
def test_there_is_nothing_to_replace_without_an_attempt(kind: AttemptKind) -> None:
    book = Book()
    assert isinstance(book.build(book.order(book.intent(), kind=kind)), Reject)


def test_a_child_cannot_pay_for_its_parent_here() -> None:
    book = Book()
    assert isinstance(book.build(book.order(book.intent(), kind=AttemptKind.CPFP)), Reject)


# signatures


def test_a_signature_of_another_key_is_refused() -> None:
    book = Book()
    order = book.order(book.intent())
    built = book.build(order)
    assert isinstance(built, Unsigned)
    requests = book.codec.signing_requests(built.payload, book.account)
    assert [(r.key, r.algorithm, len(r.data)) for r in requests] == [("key", "secp256k1-digest", 32)]
    good = book.key.sign(requests)[0]
    foreign = Key.named("thief").sign(requests)[0]
    high = ORDER - int.from_bytes(good.data[32:], "big")
    assert good.recovery is not None
    for wrong in (
        [],
        [good, good],
        [foreign],
        [Signature(good.data, 1 - good.recovery)],
        [Signature(good.data, 27)],
        [Signature(good.data[:63], good.recovery)],
        [Signature(good.data[:32] + high.to_bytes(32, "big"), 1 - good.recovery)],
        [Signature(bytes(64), 0)],
        [Signature(b"\xff" * 64, 0)],
        [Signature(bytes([good.data[0] ^ 1]) + good.data[1:], good.recovery)],
    ):
        with pytest.raises(SignedMismatch):
            book.codec.assemble(built.payload, book.account, wrong)
    with_bit = book.codec.assemble(built.payload, book.account, [good])
    without = book.codec.assemble(built.payload, book.account, [Signature(good.data)])
    assert with_bit == without, "the recovery bit is found when the signer gives none"


def test_a_payload_of_another_chain_is_not_signed() -> None:
    book = Book()
    built = book.build(book.order(book.intent()))
    assert isinstance(built, Unsigned)
    with pytest.raises(SignedMismatch, match="chain 31337, not 1"):
        codec(chain_id=1).signing_requests(built.payload, book.account)


TAMPER: dict[str, Callable[[Transfer], Transfer]] = {
    "chain": lambda t: replace(t, chain_id=t.chain_id + 1),
    "nonce": lambda t: replace(t, nonce=t.nonce + 1),
    "to": lambda t: replace(t, to=bytes([t.to[0] ^ 1]) + t.to[1:]),
    "value more": lambda t: replace(t, value=t.value + 1),
    "value less": lambda t: replace(t, value=t.value - 1),
    "gas": lambda t: replace(t, gas=t.gas * 1_000_000),
    "price": lambda t: replace(t, price=Price(t.price.max_fee * 1_000_000, t.price.tip)),
}


def resigned(book: Book, transfer: Transfer, key: Key | None = None) -> bytes:
    signature = (key or book.key).sign(
        [replace(book.codec.signing_requests(encode(GOOD_PAYLOAD), book.account)[0], data=transfer.digest)]
    )[0]
    assert signature.recovery is not None
    r, s = int.from_bytes(signature.data[:32], "big"), int.from_bytes(signature.data[32:], "big")
    return transfer.with_signature(r, s, signature.recovery)


GOOD_PAYLOAD = Transfer(DYNAMIC, 31337, 0, b"\x11" * 20, 1, 21_000, Price(1, 1))


@pytest.mark.parametrize("part", list(TAMPER))
@given(amount=st.integers(1, 10**20), first=st.integers(0, 3), legacy=st.booleans())
def test_one_changed_field_is_refused_even_when_our_key_signed_it(
    part: str, amount: int, first: int, legacy: bool
) -> None:
    book = Book(mined=first, opening=first, fees=LEGACY_FEES if legacy else FEES)
    attempt = book.pay(1, amount)
    intent = book.intents[-1]
    changed = TAMPER[part](transfer_of(attempt))
    if legacy:
        changed = replace(changed, price=Price(changed.price.max_fee, changed.price.max_fee))
    with pytest.raises(SignedMismatch):
        book.codec.check_signed(
            resigned(book, changed),
            intent,
            book.account,
            pays=True,
            max_fee=ETHER // 10,
            claims=attempt.claims,
        )


@given(st.integers(0, 130), st.integers(1, 255))
def test_one_changed_byte_is_refused(at: int, flip: int) -> None:
    book = Book()
    attempt = book.pay()
    raw = bytearray(attempt.raw)
    raw[at % len(raw)] ^= flip
    with pytest.raises(SignedMismatch):
        book.codec.check_signed(
            bytes(raw), book.intents[0], book.account, pays=True, max_fee=ETHER // 10, claims=attempt.claims
        )


def test_each_approved_fact_is_compared() -> None:
    book = Book()
    attempt = book.pay()
    intent, account = book.intents[0], book.account
    good: dict[str, Any] = {"pays": True, "max_fee": ETHER // 10, "claims": attempt.claims}
    book.codec.check_signed(attempt.raw, intent, account, **good)
    for change in (
        {"pays": False},
        {"max_fee": attempt.fee_max - 1},
        {"claims": ()},
        {"claims": (*attempt.claims, *attempt.claims)},
        {"claims": (claim(account.address, 1),)},
    ):
        with pytest.raises(SignedMismatch):
            book.codec.check_signed(attempt.raw, intent, account, **{**good, **change})
    for wrong in (
        replace(intent, destination=OTHER),
        replace(intent, amount=intent.amount + 1),
        replace(intent, asset="WETH"),
    ):
        with pytest.raises(SignedMismatch):
            book.codec.check_signed(attempt.raw, wrong, account, **good)
    with pytest.raises(SignedMismatch):
        book.codec.check_signed(attempt.raw, intent, replace(account, address=OTHER), **good)
    with pytest.raises(SignedMismatch, match="chain"):
        codec(chain_id=1).check_signed(attempt.raw, intent, account, **good)


def test_a_drop_that_moves_anything_is_refused() -> None:
    book = Book()
    intent = book.intent()
    book.send(book.order(intent))
    drop = book.send(book.order(intent, kind=AttemptKind.DROP))
    for changed in (
        replace(transfer_of(drop), value=1),
        replace(transfer_of(drop), to=bytes.fromhex(ELSEWHERE[2:])),
    ):
        with pytest.raises(SignedMismatch, match="should move nothing"):
            book.codec.check_signed(
                resigned(book, changed),
                intent,
                book.account,
                pays=False,
                max_fee=ETHER // 10,
                claims=drop.claims,
            )


def test_bytes_with_data_are_refused() -> None:
    book = Book()
    attempt = book.pay()
    parts = rlp.decode(attempt.raw[1:])
    parts[7] = b"\x01"
    with pytest.raises(SignedMismatch, match="data"):
        book.codec.check_signed(
            b"\x02" + rlp.encode(parts),
            book.intents[0],
            book.account,
            pays=True,
            max_fee=ETHER // 10,
            claims=attempt.claims,
        )


# the rest


@pytest.mark.parametrize("amount", [0, -1, 2**256])
def test_an_amount_that_cannot_be_paid_is_refused(amount: int) -> None:
    with pytest.raises(BadRequest) as caught:
        codec().check_amount(amount, ELSEWHERE)
    assert caught.value.field == "amount"


def test_one_wei_can_be_paid() -> None:
    codec().check_amount(1, ELSEWHERE)


def test_building_is_pure() -> None:
    book = Book()
    order = book.order(book.intent())
    assert book.build(order) == book.build(order)


def test_a_retry_after_a_refusal_takes_the_same_nonce() -> None:
    book = Book()
    intent = book.intent()
    first = book.send(book.order(intent))
    again = book.send(book.order(intent))
    assert nonce_in(again.claims[0], book.account.address) == nonce_in(first.claims[0], book.account.address)
    assert first.withdrawal_id == withdrawal(1)
