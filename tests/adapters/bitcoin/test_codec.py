"""Built, signed, assembled and checked: only the approved payment passes, and replacements exclude each other."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from embit.script import Script, Witness
from embit.transaction import Transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.bitcoin import payload
from adapters.bitcoin.address import address_of, p2wpkh, p2wpkh_script, script_of
from adapters.bitcoin.codec import BitcoinCodec
from adapters.bitcoin.fees import Rates, clamp, fee_for, replacement_fee
from adapters.bitcoin.params import COINS, per_kvb, read_settings
from adapters.bitcoin.payload import Draft, Output, Spend, decode
from adapters.bitcoin.transaction import decode as decode_raw
from adapters.bitcoin.transaction import der_of, digests, with_witnesses
from gateway.core.adapter import Codec
from gateway.core.chain import (
    AttemptKind,
    Build,
    FeeLevel,
    Hold,
    Intent,
    Pending,
    Reject,
    Signature,
    SigningRequest,
    Unsigned,
)
from gateway.core.errors import ConfigError, SignedMismatch, WouldPayTwice
from gateway.core.once import check_excludes, excludes
from gateway.core.substatus import SubStatus
from tests.adapters.bitcoin.vault import ELSEWHERE, RATES, Book, Key, codec, coin, coins, withdrawal

CODEC = codec()
COIN = "litecoin-regtest"
PORT: Codec = CODEC


def paid(book: Book, amount: int = 500_000) -> Pending:
    kept = book.pay(1, amount)
    assert isinstance(kept, Pending), kept
    return kept


def book_with(*amounts: int) -> Book:
    return Book(CODEC, coins=coins(amounts or (600_000, 1_000_000, 2_000_000)))


def check(book: Book, attempt: Pending, raw: bytes | None = None, **changed: object) -> None:
    arguments: dict[str, object] = {
        "pays": attempt.kind.pays,
        "max_fee": 1_000_000,
        "claims": attempt.claims,
        "payload": attempt.payload,
    }
    intent = changed.pop("intent", book.intents[attempt.withdrawal_id])
    account = changed.pop("account", book.account)
    CODEC.check_signed(
        attempt.raw if raw is None else raw,
        intent,  # type: ignore[arg-type]
        account,  # type: ignore[arg-type]
        **(arguments | changed),  # type: ignore[arg-type]
    )


def signed(book: Book, draft: Draft, key: Key | None = None) -> bytes:
    """Sign any draft at all, as a signer would that checks nothing."""
    key = key or book.key
    signatures = key.sign(SigningRequest(key.name, "secp256k1-digest", digest) for digest in digests(draft, key.public))
    return with_witnesses(draft, key.public, [der_of(s.data) for s in signatures])[0]


def test_what_is_fixed_comes_from_the_coin_or_the_settings() -> None:
    assert (CODEC.info.asset, CODEC.info.decimals, CODEC.info.threshold) == ("LTC_TEST", 8, 6)
    assert (CODEC.info.batch, CODEC.info.lane_depth, CODEC.info.replaceable) == (1, 25, True)
    other = codec("bitcoin-main", threshold=2, asset="XBT", lane_depth=3).info
    assert (other.asset, other.threshold, other.lane_depth) == ("XBT", 2, 3)


def test_every_input_is_one_digest_for_the_accounts_key() -> None:
    book = book_with(100_000, 100_000, 100_000)
    built = book.build(book.order(book.intent(1, 250_000)))
    assert isinstance(built, Unsigned)
    requests = CODEC.signing_requests(built.payload, book.account)
    assert len(requests) == 3
    assert {(r.key, r.algorithm, len(r.data)) for r in requests} == {("vault", "secp256k1-digest", 32)}
    assert len({r.data for r in requests}) == 3


@settings(deadline=None)
@given(st.lists(st.integers(60_000, 10**8), min_size=1, max_size=6), st.integers(54_600, 10**8))
def test_what_was_built_and_signed_passes_the_check(owned: list[int], amount: int) -> None:
    book = book_with(*owned)
    kept = book.pay(1, amount)  # `Book.keep` has the codec check it
    if isinstance(kept, Pending):
        assert decode_raw(kept.raw).txid == kept.tx_hash
        check(book, kept)


@settings(deadline=None)
@given(st.data())
def test_no_changed_bit_of_signed_bytes_passes_the_check(data: st.DataObject) -> None:
    book = book_with()
    kept = paid(book)
    at = data.draw(st.integers(0, len(kept.raw) * 8 - 1))
    wrong = bytearray(kept.raw)
    wrong[at // 8] ^= 1 << (at % 8)
    with pytest.raises(SignedMismatch):
        check(book, kept, bytes(wrong))


OWN = p2wpkh_script(Key("vault").public)
STRANGER = b"\x00\x14" + bytes(20)
TAMPERED = {
    "less to the destination": lambda d: replace(
        d, outputs=(Output(d.outputs[0].script, d.outputs[0].amount - 1), *d.outputs[1:])
    ),
    "more to the destination": lambda d: replace(
        d, outputs=(Output(d.outputs[0].script, d.outputs[0].amount + 1), *d.outputs[1:])
    ),
    "another destination": lambda d: replace(d, outputs=(Output(STRANGER, d.outputs[0].amount), *d.outputs[1:])),
    "change to a stranger": lambda d: replace(d, outputs=(d.outputs[0], Output(STRANGER, d.outputs[1].amount))),
    "paid twice": lambda d: replace(d, outputs=(d.outputs[0], d.outputs[0])),
    "an output more": lambda d: replace(d, outputs=(*d.outputs, Output(STRANGER, 1))),
    "change in two parts": lambda d: replace(
        d,
        outputs=(d.outputs[0], Output(OWN, 10_000), Output(OWN, d.outputs[1].amount - 10_000)),
    ),
    "only change": lambda d: replace(d, outputs=d.outputs[1:]),
    "all to the fee": lambda d: replace(d, outputs=d.outputs[:1]),
    "an input more": lambda d: replace(d, inputs=(*d.inputs, Spend("cd" * 32, 0, 1))),
    "another input": lambda d: replace(d, inputs=(Spend("cd" * 32, 0, d.inputs[0].amount),)),
    "a lock in time": lambda d: replace(d, locktime=1_700_000_000),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_transaction_that_is_tampered_with_and_then_signed_is_refused(how: str) -> None:
    book = book_with(2_000_000)
    kept = paid(book)
    wrong = TAMPERED[how](decode(COIN, kept.payload))
    with pytest.raises(SignedMismatch):
        check(book, kept, signed(book, wrong), max_fee=100_000)


def test_the_check_is_about_this_intent_this_account_and_these_claims() -> None:
    book = book_with()
    kept = paid(book)
    intent = book.intents[kept.withdrawal_id]
    wrong: list[dict[str, object]] = [
        {"intent": replace(intent, amount=intent.amount + 1)},
        {"intent": replace(intent, destination=book.account.address)},
        {"intent": replace(intent, destination="nonsense")},
        {"intent": replace(intent, asset="BTC")},
        {"account": Key("another").account(CODEC)},
        {"account": replace(book.account, address=ELSEWHERE)},
        {"pays": False},
        {"max_fee": kept.fee_max - 1},
        {"claims": ()},
        {"claims": (*kept.claims, "cd" * 32 + ":0")},
        {"claims": tuple(reversed(kept.claims)) + kept.claims},
        {"payload": b""},
    ]
    check(book, kept, max_fee=kept.fee_max)
    for changed in wrong:
        with pytest.raises(SignedMismatch):
            check(book, kept, **changed)  # type: ignore[arg-type]


def test_amounts_that_the_payload_invents_do_not_verify() -> None:
    book = book_with()
    kept = paid(book)
    draft = decode(COIN, kept.payload)
    lower = replace(draft, inputs=(replace(draft.inputs[0], amount=draft.inputs[0].amount - 1),))
    with pytest.raises(SignedMismatch, match="signature"):
        check(book, kept, payload=payload.encode(COIN, lower))
    with pytest.raises(SignedMismatch, match="amount of an input"):
        check(book, kept, payload=payload.encode(COIN, replace(draft, inputs=(Spend("cd" * 32, 0, 10**7),))))


def test_the_outputs_of_the_payload_are_not_believed() -> None:
    """A payload that says the right thing does not help bytes that say another."""
    book = book_with(2_000_000)
    kept = paid(book)
    draft = decode(COIN, kept.payload)
    stolen = signed(book, replace(draft, outputs=(Output(STRANGER, draft.outputs[0].amount), draft.outputs[1])))
    with pytest.raises(SignedMismatch, match="does not pay"):
        check(book, kept, stolen)


def test_a_payment_to_the_vault_itself_passes_with_its_change() -> None:
    book = book_with()
    order = book.order(book.intent(1, 500_000, book.account.address))
    built = book.build(order)
    assert isinstance(built, Unsigned)
    check(book, book.keep(order, built))


def test_forms_that_are_not_built_here_are_refused() -> None:
    book = book_with()
    kept = paid(book)

    def change(**attributes: object) -> bytes:
        tx = Transaction.parse(kept.raw)
        for name, value in attributes.items():
            setattr(tx if hasattr(tx, name) else tx.vin[0], name, value)
        return bytes(tx.serialize())

    witness = Transaction.parse(kept.raw).vin[0].witness.items
    for wrong in (
        change(version=1),
        change(sequence=0xFFFFFFFF),
        change(script_sig=Script(b"\x00")),
        change(witness=Witness([])),
        change(witness=Witness([*witness, b""])),
        change(witness=Witness([witness[0], Key("another").public])),
        change(witness=Witness([witness[0][:-1] + b"\x81", witness[1]])),
        b"",
        kept.raw + b"\x00",
    ):
        with pytest.raises(SignedMismatch):
            check(book, kept, wrong)


def test_signatures_of_others_or_in_the_wrong_number_are_not_put_in() -> None:
    book = book_with(300_000, 300_000)
    built = book.build(book.order(book.intent(1, 500_000)))
    assert isinstance(built, Unsigned)
    requests = CODEC.signing_requests(built.payload, book.account)
    good = book.key.sign(requests)
    assert CODEC.assemble(built.payload, book.account, good).raw
    for wrong in (
        good[:1],
        [*good, good[0]],
        good[::-1],
        Key("another").sign(requests),
        [good[0], Signature(bytes(64))],
        [good[0], Signature(b"")],
    ):
        with pytest.raises(SignedMismatch):
            CODEC.assemble(built.payload, book.account, wrong)
    with pytest.raises(SignedMismatch):
        CODEC.assemble(built.payload, replace(book.account, address=ELSEWHERE), good)
    with pytest.raises(SignedMismatch):
        CODEC.signing_requests(built.payload, replace(book.account, public_key=Key("another").public))


def test_what_can_never_be_built_is_rejected() -> None:
    book = book_with()
    intent = book.intent(1, 500_000)

    def rejected(order: Build) -> SubStatus:
        built = book.build(order)
        assert isinstance(built, Reject), built
        return built.sub_status

    def changed(**attributes: object) -> Build:
        return book.order(replace(intent, **attributes))  # type: ignore[arg-type]

    assert rejected(changed(destination="nonsense")) is SubStatus.INVALID_ADDRESS
    assert rejected(changed(destination=ELSEWHERE.upper())) is SubStatus.INVALID_ADDRESS
    assert rejected(changed(memo="1")) is SubStatus.INVALID_TAG_OR_MEMO
    assert rejected(changed(amount=2_939)) is SubStatus.AMOUNT_TOO_SMALL
    assert rejected(changed(asset="DOGE")) is SubStatus.UNSUPPORTED_OPERATION
    assert rejected(book.order(intent, kind=AttemptKind.DROP)) is SubStatus.UNSUPPORTED_OPERATION
    assert rejected(book.order(intent, kind=AttemptKind.CPFP)) is SubStatus.UNSUPPORTED_OPERATION


# Replacement


@settings(deadline=None)
@given(
    owned=st.lists(st.integers(60_000, 5_000_000), min_size=1, max_size=6),
    amount=st.integers(54_600, 5_000_000),
    steps=st.lists(
        st.tuples(st.sampled_from([AttemptKind.BOOST, AttemptKind.DROP]), st.integers(1_000, 200_000)),
        min_size=1,
        max_size=5,
    ),
    max_fee=st.integers(1_000, 500_000),
    incremental=st.integers(1, 20_000),
)
def test_every_replacement_excludes_all_before_it_and_outbids_them(
    owned: list[int], amount: int, steps: list[tuple[AttemptKind, int]], max_fee: int, incremental: int
) -> None:
    book = book_with(*owned)
    first = book.order(book.intent(1, amount), max_fee=max_fee)
    built = book.build(first)
    if not isinstance(built, Unsigned):
        return
    book.keep(first, built)
    for kind, rate in steps:
        rates = Rates(rate, rate, rate, floor=1_000, incremental=incremental)
        order = book.order(book.intents[first.intent.withdrawal_id], kind=kind, max_fee=max_fee)
        built = book.build(order, rates)
        if isinstance(built, Hold):
            assert built.sub_status in (SubStatus.MAX_FEE_EXCEEDED, SubStatus.INSUFFICIENT_FUNDS)
            continue
        assert isinstance(built, Unsigned)
        draft = decode(COIN, built.payload)
        earlier = [decode(COIN, p.payload) for p in book.pending]
        for before in earlier:
            assert excludes(draft.claims, before.claims)
            assert draft.inputs[0] == before.inputs[0], "the anchor is kept"
            assert draft.fee >= before.fee + fee_for(incremental, draft.vsize), "BIP 125 rules 3 and 4"
            assert draft.fee * before.vsize > before.fee * draft.vsize, "a higher rate than each"
        assert set(earlier[-1].claims) <= set(draft.claims)
        confirmed = {c.claim for c in book.coins}
        assert set(draft.claims) - set(earlier[-1].claims) <= confirmed
        assert fee_for(rate, draft.vsize) <= draft.fee == built.fee_max <= max_fee
        if kind is AttemptKind.DROP:
            assert [o.script for o in draft.outputs] == [OWN]
        else:
            assert draft.outputs[0] == Output(script_of(COINS[COIN], ELSEWHERE), amount)
        book.keep(order, built)


def boost(book: Book, rates: Rates = RATES, **more: object) -> Unsigned | Hold | Reject:
    intent = next(iter(book.intents.values()))
    order = book.order(intent, kind=AttemptKind.BOOST, level=FeeLevel.HIGH, **more)  # type: ignore[arg-type]
    return book.build(order, rates)


def test_a_boost_takes_its_fee_from_the_change() -> None:
    book = book_with(2_000_000)
    before = decode(COIN, paid(book).payload)
    built = boost(book)
    assert isinstance(built, Unsigned)
    after = decode(COIN, built.payload)
    assert after.inputs == before.inputs
    assert after.outputs[0] == before.outputs[0]
    assert before.outputs[1].amount - after.outputs[1].amount == after.fee - before.fee > 0


def test_a_boost_adds_a_confirmed_coin_where_the_change_is_not_enough() -> None:
    book = book_with(502_500, 90_000, 80_000)
    before = decode(COIN, paid(book).payload)
    assert len(before.inputs) == 1
    built = boost(book)
    assert isinstance(built, Unsigned)
    after = decode(COIN, built.payload)
    assert after.inputs[0] == before.inputs[0]
    assert after.inputs[1].amount == 80_000
    assert fee_for(RATES.high, after.vsize) <= built.fee_max


def test_a_boost_never_takes_change_that_waits() -> None:
    book = book_with(502_500, 1_000_000)
    assert len(decode(COIN, paid(book).payload).inputs) == 1
    assert isinstance(book.pay(2, 600_000), Pending)  # leaves change that waits
    held = boost(book)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.INSUFFICIENT_FUNDS


def test_a_boost_at_the_cap_is_held() -> None:
    book = book_with(2_000_000)
    kept = paid(book)
    held = boost(book, max_fee=kept.fee_max)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.MAX_FEE_EXCEEDED


def test_a_boost_of_what_later_payments_depend_on_is_held() -> None:
    book = book_with(2_000_000)
    paid(book)
    assert isinstance(book.pay(2, 100_000), Pending)
    held = boost(book)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.TOO_LONG_MEMPOOL_CHAIN
    # The last of the chain has nobody behind it, and may go on.
    intent = list(book.intents.values())[1]
    assert isinstance(book.build(book.order(intent, kind=AttemptKind.BOOST, level=FeeLevel.HIGH)), Unsigned)


def test_what_a_block_holds_is_not_replaced() -> None:
    book = book_with(2_000_000)
    book.mark_in_block(paid(book))
    held = boost(book)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.PENDING_BLOCKCHAIN_CONFIRMATIONS


def test_a_drop_brings_everything_back_to_the_vault() -> None:
    book = book_with(2_000_000)
    kept = paid(book)
    order = book.order(book.intents[kept.withdrawal_id], kind=AttemptKind.DROP, level=FeeLevel.HIGH)
    built = book.build(order)
    assert isinstance(built, Unsigned)
    drop = book.keep(order, built)
    draft = decode(COIN, drop.payload)
    assert draft.outputs == (Output(OWN, 2_000_000 - draft.fee),)
    with pytest.raises(SignedMismatch, match="does not pay"):
        check(book, drop, pays=True)
    with pytest.raises(SignedMismatch, match="nobody approved"):
        check(book, kept, pays=False)


def test_a_family_whose_newest_excludes_an_earlier_one_only_in_part_stops_the_builder() -> None:
    book = book_with(600_000, 700_000)
    first = paid(book)
    stray = replace(first, claims=("cd" * 32 + ":0",))
    intent = book.intents[first.withdrawal_id]
    order = Build(intent, AttemptKind.BOOST, FeeLevel.HIGH, 1_000_000, (stray, first))
    with pytest.raises(WouldPayTwice):
        CODEC.build(order, book.lane, RATES)
    with pytest.raises(WouldPayTwice):
        check_excludes(first.claims, [stray])


def test_attempts_that_a_pool_could_hold_together_are_outbid_together() -> None:
    one, other = (Draft((Spend(f"{n}" * 64, 0, 10_000),), (Output(OWN, 9_000),), 0) for n in (1, 2))
    size = one.vsize
    alone = replacement_fee(RATES, FeeLevel.LOW, size, [one, other], together=False)
    both = replacement_fee(RATES, FeeLevel.LOW, size, [one, other], together=True)
    assert alone == 1_000 + fee_for(RATES.incremental, size)
    assert both == 2_000 + fee_for(RATES.incremental, size)


# Fees and settings


def test_a_quote_lies_between_the_floors_and_our_cap() -> None:
    settings = read_settings(
        "x",
        {"coin": COIN, "urls": ["http://h"], "fee_floor": "2", "fee_cap": 50, "fallback_fee": Decimal("7.5")},
    )

    def quote(low: int | None, medium: int | None, high: int | None, relay: int = 1_000) -> Rates:
        found = {FeeLevel.LOW: low, FeeLevel.MEDIUM: medium, FeeLevel.HIGH: high}
        return clamp(settings, found, relay_floor=relay, incremental=1_000)

    assert quote(None, None, None) == Rates(7_500, 7_500, 7_500, floor=2_000, incremental=1_000)
    assert quote(1, 9_000, 900_000) == Rates(2_000, 9_000, 50_000, floor=2_000, incremental=1_000)
    assert quote(9_000, 3_000, 5_000) == Rates(9_000, 9_000, 9_000, floor=2_000, incremental=1_000)
    assert quote(1, 1, 1, relay=30_000).low == 30_000
    assert quote(1, 1, 90_000, relay=80_000) == Rates(80_000, 80_000, 80_000, floor=80_000, incremental=1_000)


def test_the_ceiling_leaves_room_and_ends_at_the_cap_of_the_settings() -> None:
    built = book_with(2_000_000).build(book_with().order(Intent(withdrawal(1), "LTC_TEST", 500_000, ELSEWHERE)))
    assert isinstance(built, Unsigned)
    ceiling = CODEC.fee_ceiling(RATES, FeeLevel.MEDIUM)
    assert 2 * built.fee_max <= ceiling
    assert codec(max_fee=123).fee_ceiling(RATES, FeeLevel.HIGH) == 123


def test_rates_are_rounded_up_and_fees_too() -> None:
    assert per_kvb(Decimal("0.1")) == 100
    assert per_kvb(Decimal("1.0001")) == 1_001
    assert fee_for(1_000, 141) == 141
    assert fee_for(1_001, 141) == 142
    assert fee_for(100, 141) == 15


def test_all_problems_of_a_configuration_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings("x", {"coin": "peercoin", "urls": ["ftp://u:s3cret@h"], "lane_depth": 26, "threshold": 0})
    assert len(caught.value.problems) == 4
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigError, match="conf_targets lacks MEDIUM, HIGH"):
        read_settings("x", {"coin": COIN, "urls": ["http://h"], "conf_targets": {"LOW": 3}})
    with pytest.raises(ConfigError, match="fee_floor is above fee_cap"):
        read_settings("x", {"coin": COIN, "urls": ["http://h"], "fee_floor": 10_000})


@pytest.mark.parametrize("coin_name", [name for name in COINS if name.startswith("dogecoin")])
def test_a_coin_without_segwit_cannot_have_lanes_yet(coin_name: str) -> None:
    with pytest.raises(ConfigError, match=r"dogecoin has no segwit.*not supported yet"):
        read_settings("x", {"coin": coin_name, "urls": ["http://h"]})


def test_every_coin_differs_from_every_other() -> None:
    assert len({c.genesis for c in COINS.values()}) == len(COINS)
    assert all(len(c.genesis) == 64 and f"{c.name}-{c.chain}" == name for name, c in COINS.items())
    for name, params in COINS.items():
        if params.hrp:
            chain = BitcoinCodec(name, read_settings(name, {"coin": name, "urls": ["http://h"]}))
            address = chain.address_of(Key("vault").public)
            assert address == p2wpkh(params, Key("vault").public) == address_of(params, OWN)
            assert chain.check_destination(address, None) == address


def test_replacement_spends_change_that_waited_when_the_first_did() -> None:
    book = Book(CODEC, coins=[coin(1, 2_000_000)])
    parent = paid(book)
    child_order = book.order(book.intent(2, 300_000))
    built = book.build(child_order)
    assert isinstance(built, Unsigned)
    child = book.keep(child_order, built)
    assert child.claims == (f"{parent.tx_hash}:1",)
    order = book.order(child_order.intent, kind=AttemptKind.BOOST, level=FeeLevel.HIGH)
    again = book.build(order)
    assert isinstance(again, Unsigned)
    assert again.claims[0] == child.claims[0]
