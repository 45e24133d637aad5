"""Addresses: 20 bytes, written with the checksum of EIP-55, which is their canonical form here."""

from __future__ import annotations

import re
from functools import lru_cache

from eth_keys.datatypes import PublicKey
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from gateway.core.errors import BadRequest

_FORM = re.compile(r"0x[0-9a-fA-F]{40}")
_LAST_PRECOMPILE = 0x11
_P256_PRECOMPILE = 0x100


def canonical(text: str) -> str:
    """Return an address with its checksum. Raises BadRequest for anything that is none.

    All lower and all upper case carry no checksum and are taken; mixed case must be right (EIP-55).
    """
    if not _FORM.fullmatch(text):
        raise _refuse("must be 0x and 40 hexadecimal digits")
    right = checksum(text.lower())
    digits = text[2:]
    if digits not in (digits.lower(), digits.upper()) and text != right:
        raise _refuse("has a wrong checksum (EIP-55)")
    return right


def destination(text: str, memo: str | None) -> str:
    """Return the canonical form of an address that may be paid. Raises BadRequest."""
    if memo is not None:
        raise BadRequest("this chain has no memo; leave it out", field="memo")
    address = canonical(text)
    number = int(address, 16)
    if number == 0:
        raise _refuse("is the zero address: what is sent there is lost")
    if number <= _LAST_PRECOMPILE or number == _P256_PRECOMPILE:
        raise _refuse("is a built-in contract: what is sent there is lost")
    return address


@lru_cache(maxsize=65_536)
def checksum(lower: str) -> str:
    """Return the canonical form of an address that is known to be well formed."""
    return str(to_checksum_address(lower))


def of_public_key(public_key: bytes) -> str:
    """Return the address of a compressed secp256k1 public key (33 bytes): the end of its hash."""
    full = PublicKey.from_compressed_bytes(public_key).to_bytes()
    return checksum("0x" + keccak(full)[-20:].hex())


def claim(address: str, nonce: int) -> str:
    """Return the slot: of all transactions from an address only one can have a nonce. Unique on the chain."""
    return f"{address.lower()}:{nonce}"


def nonce_in(text: str, address: str) -> int | None:
    """Return the nonce in a claim of this address, None when it is of another."""
    owner, _, nonce = text.partition(":")
    return int(nonce) if owner == address.lower() and nonce.isdecimal() else None


def _refuse(why: str) -> BadRequest:
    return BadRequest(f"the destination {why}", field="destination")
