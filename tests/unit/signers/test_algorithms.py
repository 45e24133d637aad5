"""The two algorithms against published vectors and an independent library."""

import hashlib

import pytest
from coincurve import PublicKey
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import SignerRefused, SignerUnavailable
from gateway.signers.algorithms import (
    ED25519,
    SECP256K1_DIGEST,
    SECP256K1_ORDER,
    _Secp256k1Key,
    check_data,
    signing_key,
)

scalars = st.integers(min_value=1, max_value=SECP256K1_ORDER - 1)
digests = st.binary(min_size=32, max_size=32)

# RFC 6979 over secp256k1 with SHA-256 and low s, as published with several Bitcoin libraries.
RFC_6979 = [
    (
        1,
        "Satoshi Nakamoto",
        "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8"
        "2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5",
    ),
    (
        1,
        "All those moments will be lost in time, like tears in rain. Time to die...",
        "8600dbd41e348fe5c9465ab92d23e3db8b98b873beecd930736488696438cb6b"
        "547fe64427496db33bf66019dacbf0039c04199abb0122918601db38a72cfc21",
    ),
    (
        SECP256K1_ORDER - 1,
        "Satoshi Nakamoto",
        "fd567d121db66e382991534ada77a6bd3106f0a1098c231e47993447cd6af2d0"
        "6b39cd0eb1bc8603e159ef5c20a5c8ad685a45b06ce9bebed3f153d10d93bed5",
    ),
    (
        0xF8B8AF8CE3C7CCA5E300D33939540C10D45CE001B8F252BFBC57BA0342904181,
        "Alan Turing",
        "7063ae83e7f62bbb171798131b4a0564b956930092b33b07b395615d9ec7e15c"
        "58dfcc1e00a35e1572f366ffe34ba0fc47db1e7189759b9fb233c5b05ab388ea",
    ),
]


@pytest.mark.parametrize(("scalar", "message", "expected"), RFC_6979)
def test_secp256k1_signatures_are_those_of_rfc_6979(scalar: int, message: str, expected: str) -> None:
    key = signing_key(SECP256K1_DIGEST, scalar.to_bytes(32, "big"))
    assert key.sign(hashlib.sha256(message.encode()).digest()).data.hex() == expected


def test_ed25519_signatures_are_those_of_rfc_8032() -> None:
    key = signing_key(ED25519, bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert key.public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    made = key.sign(b"")
    assert made.recovery is None
    assert made.data.hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
        "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )


@given(scalars, digests)
def test_secp256k1_has_low_s_a_recovery_bit_and_verifies_elsewhere(scalar: int, digest: bytes) -> None:
    key = signing_key(SECP256K1_DIGEST, scalar.to_bytes(32, "big"))
    made = key.sign(digest)
    assert len(made.data) == 64
    assert made.recovery in (0, 1)
    r, s = int.from_bytes(made.data[:32], "big"), int.from_bytes(made.data[32:], "big")
    assert 0 < s <= SECP256K1_ORDER // 2
    assert made == key.sign(digest)
    assert len(key.public) == 33
    witness = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), key.public)
    witness.verify(encode_dss_signature(r, s), digest, ec.ECDSA(Prehashed(SHA256())))
    recovered = PublicKey.from_signature_and_message(made.data + bytes([made.recovery]), digest, hasher=None)
    assert recovered.format() == key.public


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_ed25519_signs_any_message_the_same_way_twice(secret: bytes, message: bytes) -> None:
    key = signing_key(ED25519, secret)
    made = key.sign(message)
    assert made == key.sign(message)
    assert len(key.public) == 32
    Ed25519PublicKey.from_public_bytes(key.public).verify(made.data, message)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_secp256k1_signs_exactly_32_bytes(length: int) -> None:
    with pytest.raises(SignerRefused, match="exactly 32 bytes"):
        check_data(SECP256K1_DIGEST, bytes(length))
    with pytest.raises(SignerRefused, match="exactly 32 bytes"):
        signing_key(SECP256K1_DIGEST, bytes(31) + b"\1").sign(bytes(length))


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(SignerRefused, match="'rsa'"):
        check_data("rsa", bytes(32))
    with pytest.raises(SignerRefused, match="'rsa'"):
        signing_key("rsa", bytes(32))


def test_a_signature_that_came_out_wrong_is_not_given_out() -> None:
    key = _Secp256k1Key(bytes(31) + b"\1")
    key.public = _Secp256k1Key(bytes(31) + b"\2").public
    with pytest.raises(SignerUnavailable, match="did not verify"):
        key.sign(bytes(32))


@pytest.mark.parametrize("algorithm", [SECP256K1_DIGEST, ED25519])
def test_a_key_never_shows_its_secret(algorithm: str) -> None:
    secret = hashlib.sha256(b"secret").digest()
    key = signing_key(algorithm, secret)
    assert key.public.hex() in repr(key)
    for text in (repr(key), str(key), f"{key}"):
        assert secret.hex() not in text
        assert repr(secret) not in text
