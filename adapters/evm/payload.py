"""The unsigned transfer as it is kept (CBOR), and the signed one as it is sent (EIP-1559, EIP-155, EIP-2718)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cbor2
import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from adapters.evm.fees import Price
from gateway.core.errors import SignedMismatch

VERSION = 1
DYNAMIC = 2
LEGACY = 0
_FIELDS = {"v", "type", "chain", "nonce", "to", "value", "gas", "max_fee", "tip"}
_HALF_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141 // 2
_ORDER = 2 * _HALF_ORDER + 1


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer of native coin: no data, no access list. `type` 2, or 0 where one gas price is paid."""

    type: int
    chain_id: int
    nonce: int
    to: bytes
    value: int
    gas: int
    price: Price

    @property
    def fee_max(self) -> int:
        """The most that its execution can cost, in wei."""
        return self.gas * self.price.max_fee

    @property
    def signing_bytes(self) -> bytes:
        """What is hashed and signed."""
        if self.type == LEGACY:
            return bytes(rlp.encode([*self._legacy_fields, self.chain_id, b"", b""]))
        return bytes([DYNAMIC]) + bytes(rlp.encode(self._dynamic_fields))

    @property
    def digest(self) -> bytes:
        """The 32 bytes that are signed."""
        return bytes(keccak(self.signing_bytes))

    def with_signature(self, r: int, s: int, parity: int) -> bytes:
        """Return the signed bytes, as nodes take them."""
        if self.type == LEGACY:
            v = self.chain_id * 2 + 35 + parity
            return bytes(rlp.encode([*self._legacy_fields, v, r, s]))
        return bytes([DYNAMIC]) + bytes(rlp.encode([*self._dynamic_fields, parity, r, s]))

    @property
    def _legacy_fields(self) -> list[object]:
        return [self.nonce, self.price.max_fee, self.gas, self.to, self.value, b""]

    @property
    def _dynamic_fields(self) -> list[object]:
        return [
            self.chain_id,
            self.nonce,
            self.price.tip,
            self.price.max_fee,
            self.gas,
            self.to,
            self.value,
            b"",
            [],
        ]


def encode(transfer: Transfer) -> bytes:
    """Write an unsigned transfer as canonical CBOR."""
    return cbor2.dumps(
        {
            "v": VERSION,
            "type": transfer.type,
            "chain": transfer.chain_id,
            "nonce": transfer.nonce,
            "to": transfer.to,
            "value": transfer.value,
            "gas": transfer.gas,
            "max_fee": transfer.price.max_fee,
            "tip": transfer.price.tip,
        },
        canonical=True,
    )


@lru_cache(maxsize=4_096)
def decode(payload: bytes) -> Transfer:
    """Read what `encode` wrote. Raises SignedMismatch for anything else."""
    try:
        fields = cbor2.loads(payload)
    except (cbor2.CBORDecodeError, ValueError) as error:
        raise SignedMismatch("the payload is not CBOR") from error
    if not isinstance(fields, dict) or set(fields) != _FIELDS or fields["v"] != VERSION:
        raise SignedMismatch("the payload is not an EVM transfer of version 1")
    to = fields.pop("to")
    if not isinstance(to, bytes) or len(to) != 20:
        raise SignedMismatch("the payload's destination is not 20 bytes")
    if any(type(number) is not int or not 0 <= number < 2**256 for number in fields.values()):
        raise SignedMismatch("the payload holds what is not a number")
    transfer = Transfer(
        type=fields["type"],
        chain_id=fields["chain"],
        nonce=fields["nonce"],
        to=to,
        value=fields["value"],
        gas=fields["gas"],
        price=Price(fields["max_fee"], fields["tip"]),
    )
    if transfer.type not in (DYNAMIC, LEGACY) or encode(transfer) != payload:
        raise SignedMismatch("the payload is not canonical")
    return transfer


@dataclass(frozen=True, slots=True)
class SignedTransfer:
    """Signed bytes taken apart: the transfer and its signature."""

    transfer: Transfer
    r: int
    s: int
    parity: int


@lru_cache(maxsize=4_096)
def decode_signed(raw: bytes) -> SignedTransfer:
    """Take signed bytes apart. Raises SignedMismatch for anything but a plain transfer in its one right form."""
    try:
        return _taken_apart(raw)
    except (rlp.DecodingError, ValueError, IndexError, TypeError) as error:
        raise SignedMismatch("the signed bytes are not a transaction of a known type") from error


def _taken_apart(raw: bytes) -> SignedTransfer:
    if raw[:1] == bytes([DYNAMIC]):
        chain, nonce, tip, max_fee, gas, to, value, data, access, v, r, s = rlp.decode(raw[1:])
        if access != []:
            raise SignedMismatch("the signed bytes carry an access list")
        kind, chain_id, parity, price = DYNAMIC, _int(chain), _int(v), Price(_int(max_fee), _int(tip))
    elif raw[:1] >= b"\xc0":
        nonce, max_fee, gas, to, value, data, v, r, s = rlp.decode(raw)
        if _int(v) < 35:
            raise SignedMismatch("the signed bytes name no chain: they could be replayed on any")
        chain_id, parity = divmod(_int(v) - 35, 2)
        kind, price = LEGACY, Price(_int(max_fee), _int(max_fee))
    else:
        raise SignedMismatch("the signed bytes are of a transaction type that is not used here")
    if data != b"":
        raise SignedMismatch("the signed bytes carry data")
    if not isinstance(to, bytes) or len(to) != 20:
        raise SignedMismatch("the signed bytes have no destination")
    if parity not in (0, 1) or not in_range(_int(r), _int(s)):
        raise SignedMismatch("the signature is out of range or not in its low form")
    transfer = Transfer(kind, chain_id, _int(nonce), to, _int(value), _int(gas), price)
    signed = SignedTransfer(transfer, _int(r), _int(s), parity)
    if transfer.with_signature(signed.r, signed.s, parity) != raw:
        raise SignedMismatch("the signed bytes are not canonical")
    return signed


def _int(field: object) -> int:
    if not isinstance(field, bytes) or len(field) > 32:
        raise SignedMismatch("the signed bytes hold what is not a number")
    return int.from_bytes(field, "big")


def in_range(r: int, s: int) -> bool:
    """Say whether a signature's numbers can be one, with s in its low form: nodes refuse the other (EIP-2)."""
    return 0 < r < _ORDER and 0 < s <= _HALF_ORDER
