"""The two ways to sign: deterministic ECDSA over secp256k1 (RFC 6979) and Ed25519 (RFC 8032)."""

from __future__ import annotations

from typing import Final, Protocol

from coincurve import PrivateKey, PublicKey
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.core.chain import Signature
from gateway.core.errors import SignerRefused, SignerUnavailable

SECP256K1_DIGEST: Final = "secp256k1-digest"
ED25519: Final = "ed25519"
ALGORITHMS: Final = (SECP256K1_DIGEST, ED25519)

SECP256K1_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
DIGEST_LENGTH: Final = 32


class SigningKey(Protocol):
    """One private key that can sign; its text never shows it."""

    @property
    def public(self) -> bytes:
        """The public key: 33 bytes compressed (secp256k1) or 32 bytes (Ed25519)."""

    def sign(self, data: bytes) -> Signature:
        """Sign; the same data gives the same signature. SignerRefused: the data cannot be signed so."""


def signing_key(algorithm: str, secret: bytes) -> SigningKey:
    """Return the key made of 32 secret bytes. SignerRefused: an unknown algorithm."""
    if algorithm == SECP256K1_DIGEST:
        return _Secp256k1Key(secret)
    if algorithm == ED25519:
        return _Ed25519Key(secret)
    raise SignerRefused(f"algorithm {algorithm!r} is not one of {', '.join(ALGORITHMS)}")


def check_data(algorithm: str, data: bytes) -> None:
    """Raise SignerRefused unless `data` is something that this algorithm signs."""
    if algorithm not in ALGORITHMS:
        raise SignerRefused(f"algorithm {algorithm!r} is not one of {', '.join(ALGORITHMS)}")
    if algorithm == SECP256K1_DIGEST and len(data) != DIGEST_LENGTH:
        raise SignerRefused(f"{algorithm} signs exactly {DIGEST_LENGTH} bytes, not {len(data)}")


class _Secp256k1Key:
    """Signs 32-byte digests: 64 bytes r‖s with low s, and the recovery bit."""

    __slots__ = ("_private", "public")

    def __init__(self, secret: bytes) -> None:
        self._private = PrivateKey(secret)
        self.public = self._private.public_key.format(compressed=True)

    def __repr__(self) -> str:
        return f"<secp256k1 key {self.public.hex()}>"

    def sign(self, data: bytes) -> Signature:
        check_data(SECP256K1_DIGEST, data)
        made = self._private.sign_recoverable(data, hasher=None)
        # A fault of the machine in a deterministic signature could give the key away, and it would be kept.
        found = PublicKey.from_signature_and_message(made, data, hasher=None)
        if made[64] > 1 or found.format(compressed=True) != self.public:
            raise SignerUnavailable("a signature did not verify after it was made; nothing was signed")
        return Signature(made[:64], made[64])


class _Ed25519Key:
    """Signs messages of any length: 64 bytes."""

    __slots__ = ("_private", "public")

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"<ed25519 key {self.public.hex()}>"

    def sign(self, data: bytes) -> Signature:
        made = self._private.sign(data)
        try:
            self._private.public_key().verify(made, data)
        except InvalidSignature:
            raise SignerUnavailable("a signature did not verify after it was made; nothing was signed") from None
        return Signature(made)
