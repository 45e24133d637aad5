"""PSBT: what goes out is complete, what comes back is believed only if it is this transaction, signed by this key."""

from __future__ import annotations

import base64

import pytest
from embit.psbt import PSBT
from embit.script import Witness
from embit.transaction import Transaction, TransactionOutput
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.bitcoin.payload import decode
from adapters.bitcoin.psbt import from_psbt, to_psbt
from gateway.core.chain import Unsigned
from gateway.core.errors import SignedMismatch
from tests.adapters.bitcoin.vault import Book, Key, codec, coins

CODEC = codec()
COIN = "litecoin-regtest"


def built(*amounts: int, pay: int = 250_000) -> tuple[Book, bytes]:
    book = Book(CODEC, coins=coins(amounts or (100_000, 100_000, 100_000)))
    answer = book.build(book.order(book.intent(1, pay)))
    assert isinstance(answer, Unsigned)
    return book, answer.payload


def text_of(psbt: PSBT) -> str:
    return base64.b64encode(psbt.serialize()).decode()


def test_an_outside_signer_finds_all_that_it_needs() -> None:
    book, payload = built()
    draft = decode(COIN, payload)
    psbt = PSBT.from_base64(to_psbt(COIN, payload, book.account))
    assert [i.witness_utxo.value for i in psbt.inputs] == [s.amount for s in draft.inputs]
    assert psbt.fee() == draft.fee
    assert all(i.sighash_type == 1 for i in psbt.inputs)


@settings(deadline=None)
@given(st.lists(st.integers(60_000, 10**8), min_size=1, max_size=5), st.integers(54_600, 10**8))
def test_what_another_library_signs_comes_back_and_assembles(owned: list[int], pay: int) -> None:
    book = Book(CODEC, coins=coins(owned))
    answer = book.build(book.order(book.intent(1, pay)))
    if not isinstance(answer, Unsigned):
        return
    psbt = PSBT.from_base64(to_psbt(COIN, answer.payload, book.account))
    assert psbt.sign_with(book.key.private) == len(answer.claims)
    signatures = from_psbt(COIN, text_of(psbt), answer.payload, book.account)
    direct = book.key.sign(CODEC.signing_requests(answer.payload, book.account))
    assert [s.data for s in signatures] == [s.data for s in direct], "the same key signs the same"
    assert CODEC.assemble(answer.payload, book.account, signatures).raw


def test_a_finalized_one_comes_back_too() -> None:
    book, payload = built()
    psbt = PSBT.from_base64(to_psbt(COIN, payload, book.account))
    psbt.sign_with(book.key.private)
    expected = from_psbt(COIN, text_of(psbt), payload, book.account)
    for scope in psbt.inputs:
        ((key, signature),) = scope.partial_sigs.items()
        scope.final_scriptwitness = Witness([signature, key.sec()])
        scope.partial_sigs.clear()
    assert from_psbt(COIN, text_of(psbt), payload, book.account) == expected


def test_anything_else_that_comes_back_is_refused() -> None:
    book, payload = built()
    blank = to_psbt(COIN, payload, book.account)

    def signed(key: Key = book.key, sighash: int = 1) -> PSBT:
        psbt = PSBT.from_base64(blank)
        for scope in psbt.inputs:
            scope.sighash_type = sighash
        psbt.sign_with(key.private, sighash=None)
        return psbt

    foreign_utxo = PSBT.from_base64(blank)
    foreign_utxo.inputs[0].witness_utxo = TransactionOutput(99_999, foreign_utxo.inputs[0].script_pubkey)
    foreign_utxo.sign_with(book.key.private)
    half = signed()
    half.inputs[1].partial_sigs.clear()
    other, other_payload = built(100_000, 100_000, 100_000, pay=240_000)
    another = PSBT.from_base64(to_psbt(COIN, other_payload, other.account))
    another.sign_with(book.key.private)

    assert from_psbt(COIN, text_of(signed()), payload, book.account)
    for wrong in (
        "",
        "%%%",
        blank[:40],
        base64.b64encode(b"psbt\xff" + bytes(40)).decode(),
        blank,
        text_of(signed(Key("another"))),
        text_of(signed(sighash=0x81)),
        text_of(foreign_utxo),
        text_of(half),
        text_of(another),
        "A" * 2_000_001,
    ):
        with pytest.raises(SignedMismatch):
            from_psbt(COIN, wrong, payload, book.account)


def test_the_unsigned_transaction_in_it_is_the_one_that_is_hashed() -> None:
    book, payload = built()
    psbt = PSBT.from_base64(to_psbt(COIN, payload, book.account))
    signatures = book.key.sign(CODEC.signing_requests(payload, book.account))
    signed = CODEC.assemble(payload, book.account, signatures)
    assert psbt.tx.txid().hex() == signed.tx_hash == Transaction.parse(signed.raw).txid().hex()
