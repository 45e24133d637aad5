"""Bytes: BIP 143 by an independent implementation, strict decoding, strict signatures, the payload at rest."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import cbor2
import pytest
from embit import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.bitcoin import payload
from adapters.bitcoin.payload import Draft, Output, Spend, vsize
from adapters.bitcoin.transaction import (
    compact_of,
    decode,
    der_of,
    digests,
    is_signed_by,
    unsigned,
    with_witnesses,
)
from gateway.core.chain import SigningRequest
from gateway.core.errors import SignedMismatch
from tests.adapters.bitcoin.vault import Key

KEY = Key("vault")
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def bip143(
    *,
    version: int,
    inputs: list[tuple[str, int, int]],
    index: int,
    amount: int,
    key_hash: bytes,
    outputs: bytes,
    lock: int,
) -> bytes:
    """The digest as the BIP writes it down, for (txid, vout, sequence) inputs and serialized outputs."""

    def double(data: bytes) -> bytes:
        return hashlib.sha256(hashlib.sha256(data).digest()).digest()

    def outpoint(entry: tuple[str, int, int]) -> bytes:
        return bytes.fromhex(entry[0])[::-1] + entry[1].to_bytes(4, "little")

    return double(
        version.to_bytes(4, "little")
        + double(b"".join(map(outpoint, inputs)))
        + double(b"".join(entry[2].to_bytes(4, "little") for entry in inputs))
        + outpoint(inputs[index])
        + b"\x19\x76\xa9\x14"
        + key_hash
        + b"\x88\xac"
        + amount.to_bytes(8, "little")
        + inputs[index][2].to_bytes(4, "little")
        + double(outputs)
        + lock.to_bytes(4, "little")
        + (1).to_bytes(4, "little")
    )


def key_hash(public_key: bytes) -> bytes:
    return hashlib.new("ripemd160", hashlib.sha256(public_key).digest()).digest()


amounts = st.integers(1, 10**12)
spends = st.builds(
    Spend, txid=st.binary(min_size=32, max_size=32).map(bytes.hex), vout=st.integers(0, 2**32 - 1), amount=amounts
)
outputs = st.builds(
    Output,
    script=st.binary(min_size=22, max_size=22) | st.binary(min_size=34, max_size=34),
    amount=amounts,
)
drafts = st.builds(
    Draft,
    inputs=st.lists(spends, min_size=1, max_size=5, unique_by=lambda s: s.claim).map(tuple),
    outputs=st.lists(outputs, min_size=1, max_size=3).map(tuple),
    locktime=st.integers(0, 499_999_999),
).filter(lambda draft: draft.fee >= 0)


def test_the_vector_of_bip_143_for_a_key_hash_input() -> None:
    public = bytes.fromhex("025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee6357")
    found = bip143(
        version=1,
        inputs=[
            ("9f96ade4b41d5433f4eda31e1738ec2b36f6e7d1420d94a6af99801a88f7f7ff", 0, 0xFFFFFFEE),
            ("8ac60eb9575db5b2d987e29f301b5b819ea83a5c6579d282d189cc04b8e151ef", 1, 0xFFFFFFFF),
        ],
        index=1,
        amount=600_000_000,
        key_hash=key_hash(public),
        outputs=bytes.fromhex(
            "202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac"
            "9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac"
        ),
        lock=17,
    )
    assert found.hex() == "c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670"
    key = ec.PrivateKey(bytes.fromhex("619c335025c7f4012e556c2a58b2506e30b8511b53ade95ea316fd8c3286feb9"))
    der = bytes(key.sign(found).serialize()) + b"\x01"
    assert der.hex() == (
        "304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f5192"
        "8d43c212a8caed02de67eebee01"
    )
    assert is_signed_by(public, found, compact_of(der))


@settings(deadline=None)
@given(drafts)
def test_every_digest_is_the_one_of_bip_143(draft: Draft) -> None:
    serialized = b"".join(o.amount.to_bytes(8, "little") + bytes([len(o.script)]) + o.script for o in draft.outputs)
    for index, (spend, digest) in enumerate(zip(draft.inputs, digests(draft, KEY.public), strict=True)):
        assert digest == bip143(
            version=2,
            inputs=[(s.txid, s.vout, 0xFFFFFFFD) for s in draft.inputs],
            index=index,
            amount=spend.amount,
            key_hash=key_hash(KEY.public),
            outputs=serialized,
            lock=draft.locktime,
        )


@settings(deadline=None)
@given(drafts)
def test_signed_bytes_decode_to_what_was_drafted_and_are_never_larger(draft: Draft) -> None:
    signatures = [bytes(KEY.private.sign(digest).serialize()) + b"\x01" for digest in digests(draft, KEY.public)]
    raw, txid = with_witnesses(draft, KEY.public, signatures)
    tx = decode(raw)
    assert tx.txid == txid == unsigned(draft).txid().hex()
    assert tuple(entry.claim for entry in tx.inputs) == draft.claims
    assert all(entry.sequence == 0xFFFFFFFD and not entry.script_sig for entry in tx.inputs)
    assert [entry.witness for entry in tx.inputs] == [(s, KEY.public) for s in signatures]
    assert tx.outputs == draft.outputs
    assert (tx.version, tx.locktime) == (2, draft.locktime)
    assert draft.vsize - len(draft.inputs) <= tx.vsize <= draft.vsize


@settings(deadline=None)
@given(drafts, st.data())
def test_bytes_that_are_cut_or_have_more_behind_them_are_no_transaction(draft: Draft, data: st.DataObject) -> None:
    raw = bytes(unsigned(draft).serialize())
    cut = data.draw(st.integers(0, len(raw) - 1))
    for wrong in (raw[:cut], raw + b"\x00"):
        with pytest.raises(ValueError, match="transaction"):
            decode(wrong)


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_refused(raw: bytes) -> None:
    try:
        tx = decode(raw)
    except ValueError:
        return
    assert len(tx.txid) == 64


def test_bytes_beyond_any_standard_transaction_are_not_even_read() -> None:
    with pytest.raises(ValueError, match="larger"):
        decode(bytes(400_001))


@settings(deadline=None)
@given(drafts)
def test_a_payload_comes_back_as_it_was(draft: Draft) -> None:
    kept = payload.encode("litecoin-regtest", draft)
    assert payload.decode("litecoin-regtest", kept) == draft
    with pytest.raises(SignedMismatch):
        payload.decode("litecoin-main", kept)


GOOD = Draft(inputs=(Spend("ab" * 32, 1, 1_000),), outputs=(Output(b"\x00\x14" + bytes(20), 900),), locktime=7)


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\xff",
        b"\xa0",
        cbor2.dumps([1, 2]),
        payload.encode("c", GOOD)[:-1],
        payload.encode("c", replace(GOOD, inputs=())),
        payload.encode("c", replace(GOOD, outputs=())),
        payload.encode("c", replace(GOOD, inputs=GOOD.inputs * 2)),
        payload.encode("c", replace(GOOD, locktime=500_000_000)),
        payload.encode("c", replace(GOOD, locktime=-1)),
        payload.encode("c", replace(GOOD, outputs=(Output(b"", 0),))),
        payload.encode("c", replace(GOOD, outputs=(Output(b"", 1_001),))),
        payload.encode("c", replace(GOOD, outputs=(Output("text", 900),))),  # type: ignore[arg-type]
        payload.encode("c", replace(GOOD, outputs=(Output(b"", 900.0),))),  # type: ignore[arg-type]
        payload.encode("c", replace(GOOD, inputs=(Spend("ab" * 32, True, 1_000),))),
        payload.encode("c", replace(GOOD, inputs=(Spend("ab" * 31, 1, 1_000),))),
        payload.encode("c", replace(GOOD, inputs=(Spend("ab" * 32, -1, 1_000),))),
        cbor2.dumps(cbor2.loads(payload.encode("c", GOOD)) | {"more": 1}),
        cbor2.dumps(cbor2.loads(payload.encode("c", GOOD)) | {"v": 2}),
    ],
)
def test_a_payload_that_was_not_written_here_is_refused(wrong: bytes) -> None:
    assert payload.decode("c", payload.encode("c", GOOD)) == GOOD
    with pytest.raises(SignedMismatch):
        payload.decode("c", wrong)


def test_the_usual_sizes_are_those_that_are_known() -> None:
    witness_program = bytes(22)
    assert vsize(1, [witness_program, witness_program]) == 141
    assert vsize(1, [witness_program]) == 110
    assert vsize(2, [witness_program, witness_program]) == 209


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_signatures_go_to_der_and_back(digest: bytes) -> None:
    compact = KEY.sign([_request(digest)])[0].data
    assert len(compact) == 64
    assert is_signed_by(KEY.public, digest, compact)
    assert compact_of(der_of(compact)) == compact
    assert not is_signed_by(KEY.public, hashlib.sha256(digest).digest(), compact)
    assert not is_signed_by(Key("another").public, digest, compact)
    high = (ORDER - int.from_bytes(compact[32:], "big")).to_bytes(32, "big")
    assert not is_signed_by(KEY.public, digest, compact[:32] + high)


def test_what_is_no_strict_signature_of_everything_is_refused() -> None:
    der = der_of(KEY.sign([_request(bytes(32))])[0].data)
    for wrong in (b"", der[:-1], der[:-1] + b"\x03", der[:-1] + b"\x81", der[:5] + der, b"\x30\x00\x01" + bytes(9)):
        with pytest.raises(ValueError, match=r"[sS]ignature|DER|signature"):
            compact_of(wrong)
    for length in (0, 63, 65):
        with pytest.raises(ValueError, match="64 bytes"):
            der_of(bytes(length))
    assert not is_signed_by(KEY.public, bytes(32), b"\xff" * 64)
    assert not is_signed_by(b"\x02" + b"\xff" * 32, bytes(32), bytes(64))


def _request(digest: bytes) -> SigningRequest:
    return SigningRequest("vault", "secp256k1-digest", digest)
