"""Fees: what a quote holds, and what a transaction of a given size must pay.

Rates are integers in base units per 1 000 virtual bytes, as nodes count them; a fee is always rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from adapters.bitcoin.params import Settings
from gateway.core.chain import FeeLevel, FeeQuote


@dataclass(frozen=True)
class Rates(FeeQuote):
    """The present rates. `floor`: less is not relayed; `incremental`: what a replacement adds (BIP 125)."""

    low: int
    medium: int
    high: int
    floor: int
    incremental: int

    def at(self, level: FeeLevel) -> int:
        """Return the rate of a level."""
        match level:
            case FeeLevel.LOW:
                return self.low
            case FeeLevel.MEDIUM:
                return self.medium
            case FeeLevel.HIGH:
                return self.high


class Paid(Protocol):
    """An earlier transaction: what it paid, and for how many virtual bytes."""

    @property
    def fee(self) -> int: ...

    @property
    def vsize(self) -> int: ...


def fee_for(rate: int, vsize: int) -> int:
    """Return what `vsize` virtual bytes cost at a rate, rounded up."""
    return -(-rate * vsize // 1000)


def replacement_fee(rates: Rates, level: FeeLevel, vsize: int, replaced: Sequence[Paid], *, together: bool) -> int:
    """Return the least fee with which a transaction of `vsize` may take the place of the replaced ones.

    BIP 125 rules 3, 4 and 6: no less than the fees of all that it evicts, the incremental relay fee for its
    own size on top, and a higher rate than each. `together` says whether a pool could hold several of them at
    once; where they exclude one another it holds one at most, so the dearest is all there can be to outbid.
    """
    fees = [paid.fee for paid in replaced]
    evicted = sum(fees) if together else max(fees, default=0)
    above_each = max((paid.fee * vsize // paid.vsize + 1 for paid in replaced), default=0)
    return max(
        fee_for(rates.at(level), vsize),
        evicted + fee_for(rates.incremental, vsize),
        above_each,
    )


def clamp(settings: Settings, estimates: Mapping[FeeLevel, int | None], *, relay_floor: int, incremental: int) -> Rates:
    """Make a quote of a node's estimates: between the floor (ours and the node's) and our cap, in order.

    A node whose own floor is above our cap wins: below its floor nothing would be taken. What a withdrawal
    may cost is bounded by its `max_fee` all the same.
    """
    floor = max(settings.floor, relay_floor)
    cap = max(settings.cap, floor)
    found = {
        level: min(max(settings.fallback if rate is None else rate, floor), cap) for level, rate in estimates.items()
    }
    low = found[FeeLevel.LOW]
    medium = max(low, found[FeeLevel.MEDIUM])
    return Rates(
        low=low,
        medium=medium,
        high=max(medium, found[FeeLevel.HIGH]),
        floor=floor,
        incremental=max(incremental, 1),
    )
