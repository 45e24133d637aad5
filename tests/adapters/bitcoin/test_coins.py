"""The choice of coins: nothing held by others, value conserved, fees within bounds, chains that nodes take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.bitcoin.address import dust_limit, p2wpkh_script
from adapters.bitcoin.coins import CHAIN_LIMIT, CHAIN_VSIZE, Chains, Coin
from adapters.bitcoin.fees import Rates, fee_for
from adapters.bitcoin.payload import Draft, decode, vsize
from gateway.core.chain import AttemptKind, FeeLevel, Held, Hold, Pending, Unsigned
from gateway.core.substatus import SubStatus
from tests.adapters.bitcoin.vault import ELSEWHERE, RATES, Book, codec, coin, coins, withdrawal

CODEC = codec()
LTC = CODEC.settings.params
DUST = 2_940

amounts = st.lists(st.integers(1, 10**7), max_size=12)
rates = st.integers(1_000, 200_000).map(lambda r: Rates(r, r, r, floor=1_000, incremental=1_000))


def draft_of(built: Unsigned) -> Draft:
    return decode("litecoin-regtest", built.payload)


def chosen(built: object) -> set[str]:
    assert isinstance(built, Unsigned), built
    return set(built.claims)


def claims(*held: Coin) -> set[str]:
    return {c.claim for c in held}


@settings(deadline=None)
@given(amounts, st.integers(54_600, 10**7), rates, st.integers(0, 2_000_000), st.data())
def test_a_payment_conserves_value_and_keeps_every_bound(
    owned: list[int], amount: int, quote: Rates, max_fee: int, data: st.DataObject
) -> None:
    book = Book(CODEC, coins=coins(owned))
    others = data.draw(st.lists(st.sampled_from(book.coins), unique=True) if book.coins else st.just([]))
    book.held = [Held(c.claim, withdrawal(99), signed=data.draw(st.booleans())) for c in others]
    before = list(book.coins)

    built = book.build(book.order(book.intent(1, amount), max_fee=max_fee), quote)

    assert book.build(book.order(book.intent(1, amount), max_fee=max_fee), quote) == built, "not the same again"
    free = [c for c in before if c not in others]
    if isinstance(built, Hold):
        assert built.sub_status in (SubStatus.INSUFFICIENT_FUNDS, SubStatus.MAX_FEE_EXCEEDED)
        # Nothing obvious was missed: one coin that would do without any cleverness.
        size = vsize(1, [bytes(22), bytes(22)])
        fee = fee_for(quote.medium, size)
        cap = min(max_fee, CODEC.settings.max_fee)
        assert not any(c.amount >= amount + fee + DUST and fee <= cap for c in free)
        return
    assert isinstance(built, Unsigned)
    draft = draft_of(built)
    mine = {c.claim: c.amount for c in free}
    assert all(mine[s.claim] == s.amount for s in draft.inputs), "spends what is not its own"
    assert built.claims == draft.claims
    assert len(set(built.claims)) == len(built.claims)
    payment, *change = draft.outputs
    assert payment.amount == amount
    own = p2wpkh_script(book.account.public_key)
    assert all(o.script == own and o.amount >= dust_limit(LTC, own) for o in change)
    assert len(change) <= 1
    assert sum(s.amount for s in draft.inputs) == amount + sum(o.amount for o in change) + built.fee_max
    assert fee_for(quote.medium, draft.vsize) <= built.fee_max <= min(max_fee, CODEC.settings.max_fee)
    if change:
        assert built.fee_max == fee_for(quote.medium, draft.vsize)
    else:
        assert built.fee_max < fee_for(quote.medium, draft.vsize + 31) + DUST, "more was given away than dust"
    assert draft.locktime == book.height


@settings(deadline=None)
@given(amounts, st.lists(st.integers(54_600, 10**7), min_size=1, max_size=8), st.data())
def test_withdrawals_of_one_account_never_share_a_coin(
    owned: list[int], wanted: list[int], data: st.DataObject
) -> None:
    book = Book(CODEC, coins=coins(owned))
    for number, amount in enumerate(wanted):
        kept = book.pay(number, amount)
        if isinstance(kept, Pending) and data.draw(st.booleans()):
            book.mark_in_block(kept)
    taken = [claim for attempt in book.pending for claim in attempt.claims]
    assert len(taken) == len(set(taken))


def test_the_smallest_confirmed_coin_that_is_enough_is_taken() -> None:
    small, fit, large = coins([50_000, 300_000, 900_000])
    book = Book(CODEC, coins=[large, small, fit])
    assert chosen(book.build(book.order(book.intent(1, 200_000)))) == claims(fit)


def test_else_the_largest_confirmed_ones_are_put_together() -> None:
    a, b, c = coins([100_000, 200_000, 250_000])
    book = Book(CODEC, coins=[a, b, c])
    built = book.build(book.order(book.intent(1, 300_000)))
    assert chosen(built) == claims(c, b)


def test_confirmed_coins_are_taken_before_change_that_waits() -> None:
    first, *small = coins([1_000_000, 150_000, 150_000])
    book = Book(CODEC, coins=[first])
    parent = book.pay(1, 100_000)
    assert isinstance(parent, Pending)
    book.coins += small
    assert chosen(book.build(book.order(book.intent(2, 200_000)))) == claims(*small)
    only_change = chosen(book.build(book.order(book.intent(3, 400_000))))
    assert only_change == {f"{parent.tx_hash}:1"}


def test_change_that_is_dust_goes_to_the_fee() -> None:
    book = Book(CODEC, coins=[coin(1, 200_000)])
    fee = fee_for(RATES.medium, vsize(1, [bytes(22)]))
    built = book.build(book.order(book.intent(1, 200_000 - fee - DUST)))
    assert isinstance(built, Unsigned)
    assert len(draft_of(built).outputs) == 1
    assert built.fee_max == fee + DUST
    # ... unless that is more than it may cost.
    held = book.build(book.order(book.intent(1, 200_000 - fee - DUST), max_fee=fee + DUST - 1))
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.MAX_FEE_EXCEEDED


def test_coins_that_cost_more_than_they_are_worth_stay() -> None:
    dear = replace(RATES, medium=100_000)
    big = coin(1, 1_000_000)
    book = Book(CODEC, coins=[big, *(coin(n, 5_000) for n in range(2, 9))])
    built = book.build(book.order(book.intent(1, 990_000)), dear)
    assert isinstance(built, Hold)
    assert built.sub_status is SubStatus.INSUFFICIENT_FUNDS


def test_newly_mined_coins_rest_for_a_hundred_blocks() -> None:
    book = Book(CODEC, coins=[coin(1, 500_000, height=902, coinbase=True)], height=1_000)
    held = book.build(book.order(book.intent(1, 100_000)))
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.INSUFFICIENT_FUNDS
    book.height = 1_001
    assert isinstance(book.build(book.order(book.intent(1, 100_000))), Unsigned)


def test_more_inputs_than_allowed_hold_the_payment() -> None:
    chain = codec(max_inputs=3)
    book = Book(chain, coins=coins([100_000] * 6))
    held = book.build(book.order(book.intent(1, 400_000)))
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.TOO_MANY_INPUTS


def test_the_twenty_sixth_in_a_chain_waits_for_a_block() -> None:
    book = Book(CODEC, coins=[coin(1, 100_000_000)])
    for number in range(CHAIN_LIMIT):
        assert isinstance(book.pay(number, 100_000), Pending), number
    held = book.pay(99, 100_000)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.TOO_LONG_MEMPOOL_CHAIN
    # A block takes the first: its descendants have one ancestor less.
    book.mark_in_block(book.pending[0])
    assert isinstance(book.pay(99, 100_000), Pending)
    assert isinstance(book.pay(100, 100_000), Hold)


def test_descendants_count_for_every_ancestor() -> None:
    # One parent with two outputs of ours, a payment to ourselves and its change: two branches below it.
    book = Book(CODEC, coins=[coin(1, 100_000_000)])
    first = book.keep(
        order := book.order(book.intent(0, 40_000_000, book.account.address)), _unsigned(book.build(order))
    )
    for number in range(1, CHAIN_LIMIT):
        assert isinstance(book.pay(number, 100_000), Pending), number
    assert Chains(book.pending).ancestors([Coin(first.tx_hash, 0, 1, None)]) == {first.tx_hash}
    held = book.pay(99, 100_000)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.TOO_LONG_MEMPOOL_CHAIN


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=20, max_size=40))
def test_a_chain_is_counted_as_a_node_counts_it(shape: list[int]) -> None:
    """Every payment that is built fits the limits, counted here by brute force."""
    book = Book(CODEC, coins=coins([3_000_000, 150_000]))
    for number, kind in enumerate(shape):
        destination = book.account.address if kind < 2 else ELSEWHERE
        order = book.order(book.intent(number, 54_600, destination))
        built = book.build(order)
        if isinstance(built, Unsigned):
            book.keep(order, built)
    parents = {p.tx_hash: {c.split(":")[0] for c in p.claims} for p in book.pending}

    def above(tx: str) -> set[str]:
        direct = {p for p in parents[tx] if p in parents}
        return direct.union(*(above(p) for p in direct)) if direct else set()

    for tx in parents:
        assert len(above(tx)) + 1 <= CHAIN_LIMIT
        assert sum(tx in above(other) for other in parents) + 1 <= CHAIN_LIMIT


def test_the_size_of_a_chain_counts_too() -> None:
    book = Book(CODEC, coins=[coin(1, 10_000_000)])
    parent = book.pay(1, 100_000)
    assert isinstance(parent, Pending)
    change = Coin(parent.tx_hash, 1, 9_000_000, None)
    chains = Chains(book.pending)
    assert chains.admits([change], CHAIN_VSIZE - 141)
    assert not chains.admits([change], CHAIN_VSIZE - 139)
    assert chains.admits([coin(7, 1)], CHAIN_VSIZE + 1), "alone it is no chain"


def test_change_of_what_is_not_signed_yet_does_not_exist() -> None:
    book = Book(CODEC, coins=[coin(1, 10_000_000)])
    parent = book.pay(1, 100_000)
    assert isinstance(parent, Pending)
    book.pending = [replace(parent, raw=b"")]
    held = book.pay(2, 100_000)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.INSUFFICIENT_FUNDS


def test_change_that_a_block_holds_counts_only_once_the_node_lists_it() -> None:
    book = Book(CODEC, coins=[coin(1, 10_000_000)])
    parent = book.pay(1, 100_000)
    assert isinstance(parent, Pending)
    book.mark_in_block(parent)
    assert isinstance(book.pay(2, 100_000), Hold)
    change = Coin(parent.tx_hash, 1, decode("litecoin-regtest", parent.payload).outputs[1].amount, 1_000)
    book.coins = [change]
    assert chosen(book.build(book.order(book.intent(2, 100_000)))) == claims(change)


@pytest.mark.parametrize("mined", [False, True])
def test_nothing_is_built_on_an_output_that_a_rival_may_undo(mined: bool) -> None:
    book = Book(CODEC, coins=[coin(1, 10_000_000)])
    assert isinstance(book.pay(1, 100_000), Pending)
    order = book.order(book.intent(1, 100_000), kind=AttemptKind.BOOST, level=FeeLevel.HIGH)
    boost = book.keep(order, _unsigned(book.build(order)))
    if mined:
        book.mark_in_block(boost)
        amount = decode("litecoin-regtest", boost.payload).outputs[1].amount
        book.coins = [Coin(boost.tx_hash, 1, amount, 1_000)]
    held = book.pay(2, 100_000)
    assert isinstance(held, Hold)
    assert held.sub_status is SubStatus.INSUFFICIENT_FUNDS
    book.pending = [p for p in book.pending if p.tx_hash == boost.tx_hash]  # the other is proven dead
    assert isinstance(book.pay(2, 100_000), Pending)


def test_room_counts_withdrawals_that_wait_for_a_block() -> None:
    book = Book(CODEC, coins=[coin(1, 10_000_000)])
    assert CODEC.room(book.lane) == 25
    assert isinstance(book.pay(1, 100_000), Pending)
    order = book.order(book.intent(1, 100_000), kind=AttemptKind.BOOST, level=FeeLevel.HIGH)
    boost = book.keep(order, _unsigned(book.build(order)))
    assert CODEC.room(book.lane) == 24
    book.mark_in_block(boost)
    assert CODEC.room(book.lane) == 25


def _unsigned(built: object) -> Unsigned:
    assert isinstance(built, Unsigned), built
    return built
