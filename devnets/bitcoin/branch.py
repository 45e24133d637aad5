"""Which transactions of removed blocks still fit on a branch that holds others instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tx:
    """A transaction as far as a branch cares: its id, its bytes in hex, and what it spends."""

    txid: str
    raw: str
    spends: frozenset[tuple[str, int]]


def without_conflicts(blocks: list[list[Tx]], instead: list[Tx]) -> list[list[Tx]]:
    """Leave out what spends the same as `instead`, and whatever spends from something left out."""
    taken = {outpoint for tx in instead for outpoint in tx.spends}
    own = {tx.txid for tx in instead}
    gone: set[str] = set()
    kept: list[list[Tx]] = []
    for block in blocks:
        fitting = []
        for tx in block:
            if tx.txid in own:
                continue
            if tx.spends & taken or any(parent in gone for parent, _ in tx.spends):
                gone.add(tx.txid)
            else:
                fitting.append(tx)
        kept.append(fitting)
    return kept
