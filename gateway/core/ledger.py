"""The ledger: what the books must hold in each status, and the postings between two statuses; pure."""

from __future__ import annotations

from gateway.core.lifecycle import Status
from gateway.core.records import Book, Sums

_PAID = frozenset({Status.COMPLETED})
_RELEASED = frozenset({Status.CANCELLED, Status.REJECTED, Status.BLOCKED, Status.FAILED})

HOLDS = frozenset(Status) - _PAID - _RELEASED - {Status.CONFIRMING}
"""Statuses in which the money is promised but still on the chain's account."""


def books(status: Status | None, *, amount: int, max_fee: int, fee_paid: int) -> dict[Book, int]:
    """Return what one withdrawal's entries must add up to in `status` (None: before acceptance).

    Reserved until the outcome is known: amount + maximum fee. COMPLETED: amount paid, the fee that the chain took.
    Ended otherwise: nothing paid; a fee only if the chain took one (failed or dropped on chain).
    """
    if status is None:
        reserved = paid = fees = 0
    elif status in _PAID:
        reserved, paid, fees = 0, amount, fee_paid
    elif status in _RELEASED:
        reserved, paid, fees = 0, 0, fee_paid
    else:
        reserved, paid, fees = amount + max_fee, 0, 0
    return {
        Book.AVAILABLE: -(reserved + paid + fees),
        Book.RESERVED: reserved,
        Book.PAID: paid,
        Book.FEES: fees,
    }


def posting(before: Sums, after: Sums) -> dict[Book, int]:
    """Return the legs that lead from one state of the books to another; empty when nothing changes."""
    return {book: after[book] - before[book] for book in Book if after[book] != before[book]}


def kind(source: Status | None, target: Status) -> str:
    """Name the posting of a move, for people who read the ledger."""
    if target in _PAID:
        return "settle"
    if source in _PAID:
        return "reversal"
    if target in _RELEASED:
        return "release"
    return "reserve"
