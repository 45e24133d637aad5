"""The unsigned transaction as it is kept: CBOR that holds the amounts and scripts which signing needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cbor2

from adapters.bitcoin.params import MAX_MONEY
from gateway.core.errors import SignedMismatch

VERSION = 1
TX_VERSION = 2
SEQUENCE = 0xFFFFFFFD
"""Replaceable (BIP 125), and the lock time counts."""
LOCKTIME_LIMIT = 500_000_000
"""From here on a lock time would mean seconds, not a height."""

BASE_WEIGHT = 4 * (4 + 4) + 2
INPUT_WEIGHT = 4 * 41 + 108
"""A P2WPKH input: outpoint, empty script, sequence; two witness items, the signature at its longest (72)."""


@dataclass(frozen=True, slots=True)
class Spend:
    """An output of ours that is consumed. `txid` as nodes print it."""

    txid: str
    vout: int
    amount: int

    @property
    def claim(self) -> str:
        """The slot: only one transaction can consume it."""
        return f"{self.txid}:{self.vout}"


@dataclass(frozen=True, slots=True)
class Output:
    """What is created: an amount under a script."""

    script: bytes
    amount: int


@dataclass(frozen=True)
class Draft:
    """One unsigned transaction whose inputs are all P2WPKH of one key."""

    inputs: tuple[Spend, ...]
    outputs: tuple[Output, ...]
    locktime: int

    @property
    def claims(self) -> tuple[str, ...]:
        """Every outpoint that it consumes, in order; the first is the anchor of the family."""
        return tuple(spend.claim for spend in self.inputs)

    @property
    def fee(self) -> int:
        """What it costs: no more and no less."""
        return sum(spend.amount for spend in self.inputs) - sum(output.amount for output in self.outputs)

    @cached_property
    def vsize(self) -> int:
        """Its virtual size with every signature at its longest; the signed one is never larger."""
        return vsize(len(self.inputs), [output.script for output in self.outputs])


def vsize(inputs: int, scripts: list[bytes]) -> int:
    """Return the virtual size of a transaction of ours, at the longest (BIP 141: weight / 4, rounded up)."""
    weight = BASE_WEIGHT + 4 * (_count_size(inputs) + _count_size(len(scripts))) + inputs * INPUT_WEIGHT
    weight += sum(4 * (8 + _count_size(len(script)) + len(script)) for script in scripts)
    return (weight + 3) // 4


def encode(coin: str, draft: Draft) -> bytes:
    """Write a draft as canonical CBOR. `coin`: the name of the coin's table, so that no other reads it."""
    return bytes(
        cbor2.dumps(
            {
                "v": VERSION,
                "coin": coin,
                "in": [[bytes.fromhex(s.txid), s.vout, s.amount] for s in draft.inputs],
                "out": [[o.script, o.amount] for o in draft.outputs],
                "lock": draft.locktime,
            },
            canonical=True,
        )
    )


def decode(coin: str, payload: bytes) -> Draft:
    """Read a draft back. Raises SignedMismatch for anything that `encode` did not write for this coin."""
    try:
        tree = cbor2.loads(payload)
        draft = Draft(
            inputs=tuple(Spend(txid.hex(), vout, amount) for txid, vout, amount in tree["in"]),
            outputs=tuple(Output(script, amount) for script, amount in tree["out"]),
            locktime=tree["lock"],
        )
        again = encode(coin, draft)
    except (cbor2.CBORError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SignedMismatch("the payload is not one of this chain's") from error
    if again != payload or not _is_sound(draft):
        raise SignedMismatch("the payload is not one of this chain's")
    return draft


def _is_sound(draft: Draft) -> bool:
    return (
        len(draft.inputs) > 0
        and len(draft.outputs) > 0
        and len(set(draft.claims)) == len(draft.inputs)
        and all(len(s.txid) == 64 and 0 <= s.vout <= 0xFFFFFFFF for s in draft.inputs)
        and all(type(number) is int for number in _numbers(draft))
        and all(type(output.script) is bytes for output in draft.outputs)
        and all(0 < spend.amount <= MAX_MONEY for spend in draft.inputs)
        and all(0 < output.amount <= MAX_MONEY for output in draft.outputs)
        and draft.fee >= 0
        and 0 <= draft.locktime < LOCKTIME_LIMIT
    )


def _numbers(draft: Draft) -> list[object]:
    """Everything that must be an integer: CBOR also has floats and booleans that compare equal to one."""
    inputs = [number for spend in draft.inputs for number in (spend.vout, spend.amount)]
    return [draft.locktime, *inputs, *(output.amount for output in draft.outputs)]


def _count_size(count: int) -> int:
    return 1 if count < 0xFD else 3
