"""The tracker's index: every attempt that may still change, found by hash and by claim in constant time.

It is a memory of what the store holds and never part of a proof: whatever is decided from it is read again from the
store before it is written.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.core.chain import Block, Landed
from gateway.core.ids import AccountId, AttemptId, WithdrawalId
from gateway.core.records import Attempt, Inclusion


@dataclass(frozen=True, slots=True)
class Hit:
    """An attempt of ours that a block holds."""

    attempt: Attempt
    landed: Landed


@dataclass(frozen=True, slots=True)
class Foreign:
    """A transaction in a block that consumed a claim of these attempts and is none of their family."""

    claim: str
    landed: Landed
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """What a block means for the index. `strangers`: spends from our accounts whose claim no open attempt holds."""

    hits: tuple[Hit, ...]
    foreign: tuple[Foreign, ...]
    strangers: tuple[Landed, ...]


class Index:
    """Open attempts of one chain. It is its own `Watch`."""

    def __init__(self, senders: Mapping[str, AccountId]) -> None:
        self.senders = senders
        self.hashes: dict[str, AttemptId] = {}
        self.claims: dict[str, set[AttemptId]] = {}
        self._attempts: dict[AttemptId, Attempt] = {}
        self._families: dict[WithdrawalId, set[AttemptId]] = {}
        self._by_height: dict[int, set[AttemptId]] = {}
        self._due: list[tuple[float, AttemptId, bool]] = []

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, attempt: Attempt) -> None:
        """Take an attempt in; harmless when it is there already."""
        if attempt.id in self._attempts:
            return
        self._attempts[attempt.id] = attempt
        self.hashes[attempt.tx_hash] = attempt.id
        for claim in attempt.claims:
            self.claims.setdefault(claim, set()).add(attempt.id)
        self._families.setdefault(attempt.withdrawal_id, set()).add(attempt.id)
        if attempt.included is not None:
            self._by_height.setdefault(attempt.included.height, set()).add(attempt.id)

    def remove(self, attempt_id: AttemptId) -> None:
        """Let an attempt go that is final."""
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is None:
            return
        self.hashes.pop(attempt.tx_hash, None)
        for claim in attempt.claims:
            holders = self.claims[claim]
            holders.discard(attempt_id)
            if not holders:
                del self.claims[claim]
        family = self._families[attempt.withdrawal_id]
        family.discard(attempt_id)
        if not family:
            del self._families[attempt.withdrawal_id]
        self._leave_height(attempt)

    def place(self, attempt_id: AttemptId, inclusion: Inclusion | None) -> None:
        """Note the block that holds an attempt now, None when none does."""
        attempt = self._attempts[attempt_id]
        self._leave_height(attempt)
        placed = with_inclusion(attempt, inclusion)
        self._attempts[attempt_id] = placed
        if placed.included is not None:
            self._by_height.setdefault(placed.included.height, set()).add(attempt_id)

    def get(self, attempt_id: AttemptId) -> Attempt | None:
        """Return an attempt of the index."""
        return self._attempts.get(attempt_id)

    def family(self, withdrawal_id: WithdrawalId) -> Sequence[Attempt]:
        """Return the open attempts of a withdrawal."""
        return [self._attempts[i] for i in self._families.get(withdrawal_id, ())]

    def included(self, first: int, last: int) -> Iterator[Attempt]:
        """Return the attempts whose block has a height from `first` to `last`."""
        for height in range(first, last + 1):
            for attempt_id in self._by_height.get(height, ()):
                yield self._attempts[attempt_id]

    def final(self, finalized: int) -> Sequence[Attempt]:
        """Return the attempts whose block cannot leave any more."""
        return [a for h in sorted(self._by_height) if h <= finalized for a in self.included(h, h)]

    def in_blocks(self, hashes: Iterable[str]) -> Sequence[Attempt]:
        """Return the attempts that stand in one of these blocks."""
        wanted = set(hashes)
        return [
            self._attempts[i]
            for ids in self._by_height.values()
            for i in ids
            if (ref := self._attempts[i].included) is not None and ref.hash in wanted
        ]

    def match(self, block: Block) -> Matched:
        """Say what a block means for the attempts in the index."""
        hits: list[Hit] = []
        foreign: list[Foreign] = []
        strangers: list[Landed] = []
        for landed in block.landed:
            own = self.hashes.get(landed.tx_hash)
            if own is not None:
                hits.append(Hit(self._attempts[own], landed))
                continue
            known = False
            for claim in landed.claims:
                holders = self.claims.get(claim)
                if holders:
                    known = True
                    foreign.append(Foreign(claim, landed, tuple(self._attempts[i] for i in holders)))
            if not known and landed.sender in self.senders:
                strangers.append(landed)
        return Matched(tuple(hits), tuple(foreign), tuple(strangers))

    def schedule(self, attempt_id: AttemptId, at: float, *, decided: bool = False) -> None:
        """Have an attempt offered again at a time of the monotonic clock.

        `decided`: a reorg or a restart asks for it, so that the send is recorded; else it only keeps it alive.
        """
        heapq.heappush(self._due, (at, attempt_id, decided))

    def due(self, now: float, most: int) -> Sequence[tuple[Attempt, bool]]:
        """Return what is due, in no block and open, each with its `decided`; forget their dates."""
        ready: list[tuple[Attempt, bool]] = []
        while self._due and self._due[0][0] <= now and len(ready) < most:
            _, attempt_id, decided = heapq.heappop(self._due)
            attempt = self._attempts.get(attempt_id)
            if attempt is not None and attempt.included is None:
                ready.append((attempt, decided))
        return ready

    def _leave_height(self, attempt: Attempt) -> None:
        if attempt.included is not None:
            level = self._by_height[attempt.included.height]
            level.discard(attempt.id)
            if not level:
                del self._by_height[attempt.included.height]


def with_inclusion(attempt: Attempt, inclusion: Inclusion | None) -> Attempt:
    """Return the attempt as it stands in a block, or in none."""
    if inclusion is None:
        return replace(attempt, included=None, ok=True, fee=None)
    return replace(attempt, included=inclusion.block, ok=inclusion.ok, fee=inclusion.fee)
