"""Amounts: integers in the smallest unit of a coin; decimals only at the border."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from gateway.core.errors import BadRequest

MAX_DIGITS = 38
_MAX = 10**MAX_DIGITS - 1


def to_base_units(text: str, decimals: int, *, field: str = "amount") -> int:
    """Return the amount written in `text` (coins, e.g. "1.5") in base units.

    Raises BadRequest for anything but a positive, plain decimal number that fits the coin's `decimals`
    exactly: an excess digit is refused, never rounded. `field` is what the error calls it.
    """
    plain = text.strip()
    if not plain or len(plain) > 80 or any(c not in "0123456789." for c in plain):
        raise BadRequest(f"{text!r} is not a plain positive decimal number", field=field)
    try:
        value = Decimal(plain)
    except InvalidOperation:
        raise BadRequest(f"{text!r} is not a number", field=field) from None
    if value <= 0:
        raise BadRequest(f"{text!r} must be more than zero", field=field)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    base = int("".join(map(str, digits)))
    shift = exponent + decimals
    if shift >= 0:
        base *= int(10**shift)
    else:
        base, rest = divmod(base, 10**-shift)
        if rest:
            raise BadRequest(f"{text!r} has more than {decimals} decimals", field=field)
    if base > _MAX:
        raise BadRequest(f"{text!r} is too large", field=field)
    return base


def to_decimal(base: int, decimals: int) -> Decimal:
    """Return base units as an exact decimal number of coins."""
    sign, digits = (1, str(-base)) if base < 0 else (0, str(base))
    return Decimal((sign, tuple(map(int, digits)), -decimals))


def show(base: int, decimals: int) -> str:
    """Write base units as coins, without an exponent and without trailing zeros."""
    text = f"{to_decimal(base, decimals):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
