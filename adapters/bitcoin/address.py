"""Addresses and the scripts that they stand for: one canonical text per script, on one network only.

Base58Check (P2PKH, P2SH), bech32 for witness version 0 (BIP 173) and bech32m for version 1 (BIP 350).
"""

from __future__ import annotations

from enum import StrEnum

from embit import base58, bech32
from embit.hashes import hash160

from adapters.bitcoin.params import Coin
from gateway.core.errors import BadRequest

MAX_TEXT = 200
BASE58_LENGTH = 21


class Kind(StrEnum):
    """The standard output scripts that have an address."""

    P2PKH = "P2PKH"
    P2SH = "P2SH"
    P2WPKH = "P2WPKH"
    P2WSH = "P2WSH"
    P2TR = "P2TR"


def kind_of(script: bytes) -> Kind | None:
    """Return the kind of an output script, None when it has no address."""
    match len(script):
        case 25 if script[:3] == b"\x76\xa9\x14" and script[23:] == b"\x88\xac":
            return Kind.P2PKH
        case 23 if script[:2] == b"\xa9\x14" and script[22:] == b"\x87":
            return Kind.P2SH
        case 22 if script[:2] == b"\x00\x14":
            return Kind.P2WPKH
        case 34 if script[:2] == b"\x00\x20":
            return Kind.P2WSH
        case 34 if script[:2] == b"\x51\x20":
            return Kind.P2TR
    return None


def address_of(coin: Coin, script: bytes) -> str | None:
    """Return the canonical address of an output script, None when it has none (on this coin)."""
    match kind_of(script):
        case Kind.P2PKH:
            return str(base58.encode_check(bytes([coin.p2pkh]) + script[3:23]))
        case Kind.P2SH:
            return str(base58.encode_check(bytes([coin.p2sh]) + script[2:22]))
        case Kind.P2WPKH | Kind.P2WSH | Kind.P2TR if coin.hrp:
            return _segwit(coin.hrp, 1 if script[0] else 0, script[2:])
    return None


def script_of(coin: Coin, text: str) -> bytes:
    """Return the output script of an address. Raises BadRequest (destination): checksum, network, type."""
    if not text or len(text) > MAX_TEXT or not text.isascii():
        raise _refuse("is not an address")
    data = _base58_data(text)
    if data is not None:
        return _from_base58(coin, data)
    if _looks_like_bech32(text):
        return _from_bech32(coin, text)
    raise _refuse("is not an address, or has a wrong checksum")


def canonical(coin: Coin, text: str) -> str:
    """Return the one spelling of an address that the gateway keeps. Raises BadRequest as `script_of` does."""
    address = address_of(coin, script_of(coin, text))
    assert address is not None
    return address


def p2wpkh_script(public_key: bytes) -> bytes:
    """Return the output script of a vault: pay to the hash of its compressed public key (BIP 141)."""
    if len(public_key) != 33 or public_key[0] not in (2, 3):
        raise ValueError("a vault's public key has 33 bytes, compressed")
    return b"\x00\x14" + bytes(hash160(public_key))


def p2wpkh(coin: Coin, public_key: bytes) -> str:
    """Return the address of a vault."""
    address = address_of(coin, p2wpkh_script(public_key))
    if address is None:
        raise ValueError(f"{coin.name} has no segwit addresses")
    return address


def dust_limit(coin: Coin, script: bytes) -> int:
    """Return the least amount that nodes relay to an output script (Core's GetDustThreshold)."""
    if coin.dust_fixed is not None:
        return coin.dust_fixed
    # The output itself, and the input that will spend it: a quarter of the 107 witness bytes with segwit.
    size = 8 + 1 + len(script) + (67 if _is_witness(script) else 148)
    return size * coin.dust_rate // 1000


def _is_witness(script: bytes) -> bool:
    return kind_of(script) in (Kind.P2WPKH, Kind.P2WSH, Kind.P2TR)


def _segwit(hrp: str, version: int, program: bytes) -> str:
    return str(bech32.encode(hrp, version, program))


def _looks_like_bech32(text: str) -> bool:
    prefix, separator, _ = text.lower().partition("1")
    return bool(separator) and (prefix in _HRPS or prefix.endswith("mweb"))


_HRPS = {
    "bc": "bitcoin",
    "tb": "bitcoin's test networks",
    "bcrt": "bitcoin regtest",
    "ltc": "litecoin",
    "tltc": "litecoin testnet",
    "rltc": "litecoin regtest",
}


def _from_bech32(coin: Coin, text: str) -> bytes:
    prefix = text.lower().partition("1")[0]
    if prefix.endswith("mweb"):
        raise _refuse("is a MWEB address: payments into the extension block are not supported; ask for another")
    if text not in (text.lower(), text.upper()):
        raise _refuse("mixes upper and lower case")
    encoding, hrp, data = bech32.bech32_decode(text)
    if encoding is None or not data:
        raise _refuse("has a wrong checksum")
    if hrp != coin.hrp:
        raise _refuse(f"belongs to {_HRPS.get(hrp, 'another network')}, not to {coin.name} {coin.chain}")
    version = data[0]
    program = bech32.convertbits(data[1:], 5, 8, False)
    if version > 16 or program is None or not 2 <= len(program) <= 40:
        raise _refuse("is not a segwit address")
    if (encoding == bech32.Encoding.BECH32) != (version == 0):
        raise _refuse("has the checksum of another witness version")
    if version > 1:
        raise _refuse(f"has witness version {version}, to which no rule gives a meaning yet")
    if len(program) not in ((20, 32) if version == 0 else (32,)):
        raise _refuse(f"has a program of {len(program)} bytes, which version {version} does not have")
    return bytes([0x50 + version if version else 0, len(program), *program])


def _base58_data(text: str) -> bytes | None:
    """Return version and program of a Base58Check text, None when it is not one."""
    try:
        data = bytes(base58.decode_check(text))
    except ValueError:
        return None
    return data if len(data) == BASE58_LENGTH and base58.encode_check(data) == text else None


def _from_base58(coin: Coin, data: bytes) -> bytes:
    version, program = data[0], data[1:]
    if version == coin.p2pkh:
        return b"\x76\xa9\x14" + program + b"\x88\xac"
    if version == coin.p2sh:
        return b"\xa9\x14" + program + b"\x87"
    if version == coin.old_p2sh:
        form = "M…" if coin.chain == "main" else "Q…"
        raise _refuse(f"is in {coin.name}'s old form, which is also a bitcoin address; ask for the {form} form")
    raise _refuse(f"does not belong to {coin.name} {coin.chain}")


def _refuse(why: str) -> BadRequest:
    return BadRequest(f"the destination {why}", field="destination")
