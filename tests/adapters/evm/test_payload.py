"""Bytes: published vectors, eth-account as an independent encoder, and one right form only."""

from __future__ import annotations

from dataclasses import replace

import cbor2
import pytest
import rlp  # type: ignore[import-untyped]
from eth_account import Account as EthAccount
from eth_keys.datatypes import PrivateKey
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from adapters.evm.fees import Price
from adapters.evm.payload import DYNAMIC, LEGACY, Transfer, decode, decode_signed, encode
from gateway.core.errors import SignedMismatch

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECRET = b"\x46" * 32
U64, U128, U256 = st.integers(0, 2**64 - 2), st.integers(0, 2**128 - 1), st.integers(0, 2**256 - 1)


def a_transfer(kind: int, chain: int, nonce: int, to: bytes, value: int, gas: int, high: int, low: int) -> Transfer:
    price = Price(high, high) if kind == LEGACY else Price(max(high, low), min(high, low))
    return Transfer(kind, chain, nonce, to, value, gas, price)


TRANSFERS = st.builds(
    a_transfer,
    st.sampled_from([DYNAMIC, LEGACY]),
    st.integers(1, 2**62),
    U64,
    st.binary(min_size=20, max_size=20),
    U256,
    U64,
    U128,
    U128,
)


def sign(transfer: Transfer, secret: bytes = SECRET) -> bytes:
    made = PrivateKey(secret).sign_msg_hash(transfer.digest)
    return transfer.with_signature(made.r, made.s, made.v)


def test_the_example_of_eip_155() -> None:
    transfer = Transfer(LEGACY, 1, 9, bytes.fromhex("35" * 20), 10**18, 21_000, Price(20_000_000_000, 20_000_000_000))
    assert transfer.signing_bytes.hex() == (
        "ec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080018080"
    )
    assert transfer.digest.hex() == "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"
    assert sign(transfer).hex() == (
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025"
        "a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
        "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    )


def test_a_published_eip_1559_transaction() -> None:
    """One ether from the first to the second account of the well-known development words (as viem prints it)."""
    secret = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
    to = bytes.fromhex("70997970c51812dc3a010c7d01b50e0d17dc79c8")
    transfer = Transfer(DYNAMIC, 1, 785, to, 10**18, 0, Price(2 * 10**9, 2 * 10**9))
    assert sign(transfer, secret).hex() == (
        "02f8720182031184773594008477359400809470997970c51812dc3a010c7d01b50e0d17dc79c8880de0b6b3a764000080c001"
        "a0ce18214ff9d06ecaacb61811f9d6dc2be922e8cebddeaf6df0b30d5c498f6d33"
        "a05f0487c6dbbf2139f7c705d8054dbb16ecac8ae6256ce2c4c6f2e7ef35b3a496"
    )


@given(TRANSFERS)
def test_eth_account_signs_the_same_bytes(transfer: Transfer) -> None:
    fields: dict[str, object] = {
        "nonce": transfer.nonce,
        "to": transfer.to,
        "value": transfer.value,
        "gas": transfer.gas,
        "chainId": transfer.chain_id,
        "data": b"",
    }
    if transfer.type == LEGACY:
        fields["gasPrice"] = transfer.price.max_fee
    else:
        fields |= {
            "type": 2,
            "maxFeePerGas": transfer.price.max_fee,
            "maxPriorityFeePerGas": transfer.price.tip,
        }
    theirs = EthAccount.sign_transaction(fields, SECRET)
    assert sign(transfer) == bytes(theirs.raw_transaction)
    assert keccak(sign(transfer)) == bytes(theirs.hash)


@given(TRANSFERS)
def test_what_is_written_is_read_back(transfer: Transfer) -> None:
    assert decode(encode(transfer)) == transfer
    assert decode_signed(sign(transfer)).transfer == transfer


@given(st.binary(max_size=200))
def test_bytes_that_are_no_payload_are_refused(noise: bytes) -> None:
    with pytest.raises(SignedMismatch):
        decode(noise)


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x01", b"\x02", b"\x03", b"\x04", b"\xf8"]))
def test_bytes_that_are_no_transaction_are_refused(noise: bytes, kind: bytes) -> None:
    with pytest.raises(SignedMismatch):
        decode_signed(kind + noise)


GOOD = Transfer(DYNAMIC, 1, 2, b"\x11" * 20, 3, 21_000, Price(5, 4))


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"type": 1},
        {"type": 3},
        {"to": b"\x11" * 19},
        {"to": "0x" + "11" * 20},
        {"nonce": -1},
        {"value": 2**256},
        {"gas": 1.0},
        {"gas": True},
        {"tip": "4"},
        {"extra": 1},
    ],
    ids=repr,
)
def test_a_payload_with_a_wrong_field_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(SignedMismatch):
        decode(cbor2.dumps(cbor2.loads(encode(GOOD)) | change, canonical=True))


def test_a_payload_in_another_order_is_refused() -> None:
    fields = dict(reversed(cbor2.loads(encode(GOOD)).items()))
    with pytest.raises(SignedMismatch, match="canonical"):
        decode(cbor2.dumps(fields))


def signed_parts() -> list[object]:
    parts: list[object] = rlp.decode(sign(GOOD)[1:])
    return parts


@pytest.mark.parametrize(
    ("at", "field", "text"),
    [
        (7, b"\xa9\x05\x9c\xbb", "data"),
        (8, [[b"\x11" * 20, []]], "access list"),
        (5, b"", "destination"),
        (5, b"\x11" * 32, "destination"),
        (5, [], "destination"),
        (6, b"\x01" * 33, "number"),
        (6, [b"\x01"], "number"),
        (6, b"\x00\x03", "canonical"),
        (9, b"\x02", "signature"),
        (10, b"", "signature"),
        (11, ORDER.to_bytes(32, "big"), "signature"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_signed_bytes_of_any_other_shape_are_refused(at: int, field: object, text: str) -> None:
    parts = signed_parts()
    parts[at] = field
    with pytest.raises(SignedMismatch, match=text):
        decode_signed(b"\x02" + rlp.encode(parts))


def test_the_other_form_of_a_signature_is_refused() -> None:
    """It would give the same payment a second hash."""
    signed = decode_signed(sign(GOOD))
    twin = GOOD.with_signature(signed.r, ORDER - signed.s, 1 - signed.parity)
    assert EthAccount.recover_transaction(twin) == EthAccount.recover_transaction(sign(GOOD))
    with pytest.raises(SignedMismatch, match="low form"):
        decode_signed(twin)


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(SignedMismatch):
        decode_signed(sign(GOOD) + b"\x00")
    with pytest.raises(SignedMismatch):
        decode_signed(sign(replace(GOOD, type=LEGACY, price=Price(5, 5))) + b"\x00")


@pytest.mark.parametrize("v", [0, 1, 27, 28])
def test_a_legacy_transaction_that_names_no_chain_is_refused(v: int) -> None:
    parts = rlp.decode(sign(replace(GOOD, type=LEGACY, price=Price(5, 5))))
    parts[6] = v
    with pytest.raises(SignedMismatch, match="replayed"):
        decode_signed(rlp.encode(parts))
