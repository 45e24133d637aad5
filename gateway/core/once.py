"""At most once: the pure rules that decide whether new bytes may be signed, and what proves a death."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.core.chain import BlockRef, Intent, Landed, Pending
from gateway.core.errors import WouldPayTwice


def excludes(one: Iterable[str], other: Iterable[str]) -> bool:
    """Say whether two attempts cannot both land: they consume a claim in common."""
    return not set(one).isdisjoint(other)


def check_excludes(claims: Sequence[str], earlier: Iterable[Pending]) -> None:
    """Raise WouldPayTwice unless `claims` exclude *every* earlier paying attempt that is not proven dead.

    Sharing a claim with only the last attempt is not enough: the first and the third could both land.
    """
    for attempt in earlier:
        if attempt.kind.pays and not excludes(claims, attempt.claims):
            raise WouldPayTwice(f"the new bytes share nothing with attempt {attempt.attempt_id}, which may still pay")


@dataclass(frozen=True, slots=True)
class SlotConsumed:
    """Proof of death: in a finalized block a named transaction, which does not pay the intent, consumed a claim."""

    claim: str
    by: str
    block: BlockRef

    def __str__(self) -> str:
        return f"{self.by} used slot {self.claim} in block {self.block.height}, finalized"


def pays_intent(landed: Landed, intent: Intent) -> bool:
    """Say whether a transaction that is not ours pays what the intent asks, or may (then a person must look)."""
    if not landed.ok:
        return False
    return landed.opaque or any(p.address == intent.destination and p.amount == intent.amount for p in landed.pays)
