"""Fees: what a quote holds, what a level pays, and what a replacement must pay (EIP-1559, EIP-155)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from adapters.evm.params import Settings
from gateway.core.chain import FeeLevel, FeeQuote

LEGACY_PERCENT = {FeeLevel.LOW: 100, FeeLevel.MEDIUM: 110, FeeLevel.HIGH: 125}
"""How much of the node's gas price each level pays."""


@dataclass(frozen=True)
class GasFees(FeeQuote):
    """The present fees in wei per gas.

    `base`: the base fee of the next block, None where one gas price is paid. `tips`: what each level adds to it,
    or where there is no base fee the gas price of each level.
    """

    base: int | None
    low: int
    medium: int
    high: int

    def at(self, level: FeeLevel) -> int:
        """Return a level's tip (or gas price)."""
        match level:
            case FeeLevel.LOW:
                return self.low
            case FeeLevel.MEDIUM:
                return self.medium
            case FeeLevel.HIGH:
                return self.high


@dataclass(frozen=True, slots=True)
class Price:
    """What one unit of gas may cost at most, and what of it goes to the block's maker (a gas price: both)."""

    max_fee: int
    tip: int


def price(quote: GasFees, level: FeeLevel) -> Price:
    """Return what a level pays now. Twice the base fee outlasts five full blocks, each 12.5 % dearer."""
    tip = quote.at(level)
    return Price(tip, tip) if quote.base is None else Price(2 * quote.base + tip, tip)


def replacement(market: Price, earlier: Iterable[Price], percent: int) -> Price:
    """Return the least price that takes the place of *each* earlier one and is not below the market.

    Nodes want both fees raised by 10 %, some rounded down, some up. The highest earlier attempt counts, not the
    last: any of them may be the one that a node holds.
    """
    max_fee, tip = market.max_fee, market.tip
    for old in earlier:
        max_fee = max(max_fee, bumped(old.max_fee, percent))
        tip = max(tip, bumped(old.tip, percent))
    return Price(max_fee, tip)


def bumped(old: int, percent: int) -> int:
    """Return a fee raised by so many percent, rounded up, by at least 1."""
    return max(old + 1, -(-old * (100 + percent) // 100))


def tips_of(rewards: Sequence[Sequence[int]], used: Sequence[bool]) -> tuple[int, int, int] | None:
    """Return the median over all blocks of each of three percentiles; None when no block says anything.

    A block without transactions pays no tip and says nothing.
    """
    telling = [row for row, has_any in zip(rewards, used, strict=True) if has_any]
    if not telling:
        return None
    low, medium, high = (median_low(column) for column in zip(*telling, strict=True))
    return low, medium, high


def quote(settings: Settings, base: int | None, levels: tuple[int, int, int]) -> GasFees:
    """Make a quote of what the nodes say, in order and within the configured bounds."""
    least, most = settings.min_tip, settings.max_tip if base is not None else settings.max_fee_per_gas
    low, medium, high = (min(max(value, least), most) for value in levels)
    return GasFees(base=base, low=low, medium=max(low, medium), high=max(low, medium, high))
