"""Reads what nodes answer, with bounds: whatever is not what the protocol allows raises ValueError."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from gateway.core.chain import BlockRef

MAX_HEIGHT = 2**53
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_DATA = re.compile(r"0x([0-9a-fA-F]{2})*")

Fields = dict[str, object]


def fields(value: object) -> Fields:
    """Return an object."""
    if not isinstance(value, dict):
        raise ValueError("an object was expected")
    return value


def items(value: object) -> list[object]:
    """Return a list."""
    if not isinstance(value, list):
        raise ValueError("a list was expected")
    return value


def quantity(value: object, most: int = 2**256 - 1) -> int:
    """Return a number that is written in hexadecimal."""
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value):
        raise ValueError("a quantity was expected")
    number = int(value, 16)
    if number > most:
        raise ValueError(f"a quantity above {most}")
    return number


def hash32(value: object) -> str:
    """Return a hash in lower case."""
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ValueError("a hash was expected")
    return value.lower()


def address(value: object) -> str:
    """Return an address in lower case."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise ValueError("an address was expected")
    return value.lower()


def has_code(value: object) -> bool:
    """Say whether the code of an address is more than nothing."""
    if not isinstance(value, str) or not _DATA.fullmatch(value):
        raise ValueError("bytes were expected")
    return len(value) > 2


def block_ref(value: object) -> BlockRef:
    """Return a block's height, hash and parent."""
    block = fields(value)
    return BlockRef(
        height=quantity(block.get("number"), MAX_HEIGHT),
        hash=hash32(block.get("hash")),
        parent=hash32(block.get("parentHash")),
    )


def fee_history(value: object) -> tuple[list[list[int]], list[bool]]:
    """Return of each block the tips at the percentiles asked for, and whether it held any transaction."""
    history = fields(value)
    rows = [[quantity(tip) for tip in items(row)] for row in items(history.get("reward") or [])]
    used = []
    for ratio in items(history.get("gasUsedRatio") or []):
        if isinstance(ratio, bool) or not isinstance(ratio, int | Decimal):
            raise ValueError("a ratio was expected")
        used.append(ratio > 0)
    if any(len(row) != 3 for row in rows) or (rows and len(rows) != len(used)):
        raise ValueError("a fee history of another shape")
    return rows, used if rows else []


def next_base_fee(history: object, header: object) -> int | None:
    """Return the base fee of the block after the newest, None on a chain that has none.

    A chain without one answers the history with zeros, so its header decides.
    """
    if fields(header).get("baseFeePerGas") is None:
        return None
    bases: Sequence[object] = items(fields(history).get("baseFeePerGas"))
    if not bases:
        raise ValueError("a fee history without base fees")
    return quantity(bases[-1])
