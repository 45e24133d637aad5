"""The life cycle: 17 statuses, the one table of transitions, and the one check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gateway.core.errors import IllegalMove


class Status(StrEnum):
    """The status of a transaction; names as existing clients know them."""

    SUBMITTED = "SUBMITTED"
    PENDING_AML_SCREENING = "PENDING_AML_SCREENING"
    PENDING_ENRICHMENT = "PENDING_ENRICHMENT"
    PENDING_AUTHORIZATION = "PENDING_AUTHORIZATION"
    QUEUED = "QUEUED"
    PENDING_SIGNATURE = "PENDING_SIGNATURE"
    PENDING_3RD_PARTY_MANUAL_APPROVAL = "PENDING_3RD_PARTY_MANUAL_APPROVAL"
    PENDING_3RD_PARTY = "PENDING_3RD_PARTY"
    BROADCASTING = "BROADCASTING"
    CONFIRMING = "CONFIRMING"
    COMPLETED = "COMPLETED"
    SIGNED = "SIGNED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"
    REJECTED = "REJECTED"
    BLOCKED = "BLOCKED"
    FAILED = "FAILED"


class Direction(StrEnum):
    """Which way the money goes."""

    OUTGOING = "outgoing"
    INCOMING = "incoming"


S = Status
OUT, IN = Direction.OUTGOING, Direction.INCOMING

FINAL = frozenset({S.COMPLETED, S.CANCELLED, S.REJECTED, S.BLOCKED, S.FAILED})
"""Statuses in which a transaction may rest for ever."""

BEFORE_SIGNED = frozenset(
    {
        S.SUBMITTED,
        S.PENDING_AML_SCREENING,
        S.PENDING_ENRICHMENT,
        S.PENDING_AUTHORIZATION,
        S.QUEUED,
        S.PENDING_SIGNATURE,
        S.PENDING_3RD_PARTY,
        S.PENDING_3RD_PARTY_MANUAL_APPROVAL,
    }
)
"""Statuses before the first signed bytes of the present try are stored."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One legal move; `source` None is the start."""

    source: Status | None
    target: Status
    when: str
    direction: Direction = OUT


def _table() -> Iterator[Transition]:
    def rows(
        sources: tuple[Status | None, ...], targets: tuple[Status, ...], when: str, direction: Direction = OUT
    ) -> Iterator[Transition]:
        for source in sources:
            for target in targets:
                yield Transition(source, target, when, direction)

    yield from rows((None,), (S.SUBMITTED,), "accepted, screening off")
    yield from rows((None,), (S.PENDING_AML_SCREENING,), "accepted, screening on")
    yield from rows((S.SUBMITTED,), (S.PENDING_AML_SCREENING,), "leaves the overflow, screening on")
    yield from rows((S.SUBMITTED, S.PENDING_AML_SCREENING), (S.PENDING_ENRICHMENT,), "next gate")
    yield from rows((S.PENDING_AML_SCREENING,), (S.REJECTED,), "screening refuses")
    yield from rows((S.REJECTED,), (S.PENDING_AML_SCREENING,), "rescreened, or retried with screening on")
    yield from rows((S.REJECTED,), (S.PENDING_ENRICHMENT,), "screening bypassed, or retried")
    yield from rows((S.SUBMITTED, S.PENDING_ENRICHMENT), (S.BLOCKED,), "a policy rule blocks")
    yield from rows((S.PENDING_ENRICHMENT,), (S.PENDING_AUTHORIZATION,), "policy wants approvers")
    yield from rows((S.PENDING_ENRICHMENT,), (S.QUEUED,), "policy allows without approvers")
    yield from rows((S.PENDING_AUTHORIZATION,), (S.QUEUED,), "quorum reached")
    yield from rows((S.PENDING_AUTHORIZATION,), (S.REJECTED,), "one approver's veto")
    yield from rows((S.PENDING_AUTHORIZATION,), (S.BLOCKED,), "policy blocks at approval time")
    yield from rows((S.QUEUED,), (S.PENDING_SIGNATURE,), "built in its lane")
    yield from rows((S.PENDING_SIGNATURE,), (S.QUEUED,), "unsigned and the window is over")
    yield from rows((S.PENDING_SIGNATURE,), (S.BROADCASTING,), "signed bytes stored")
    yield from rows((S.PENDING_SIGNATURE,), (S.SIGNED,), "sign-only, bytes stored")
    yield from rows((S.PENDING_SIGNATURE,), (S.COMPLETED,), "raw signature")
    yield from rows((S.SUBMITTED,), (S.COMPLETED,), "raw signature from the cache")
    yield from rows((S.PENDING_SIGNATURE,), (S.CANCELLED,), "the signer refuses")
    yield from rows(
        (S.PENDING_SIGNATURE,),
        (S.PENDING_3RD_PARTY, S.PENDING_3RD_PARTY_MANUAL_APPROVAL),
        "an outside party is involved",
    )
    yield from rows(
        (S.PENDING_3RD_PARTY, S.PENDING_3RD_PARTY_MANUAL_APPROVAL),
        (S.BROADCASTING, S.CANCELLED),
        "the outside party answers",
    )
    yield from rows((S.SUBMITTED,), (S.CANCELLED,), "waited too long in the overflow")
    yield from rows(
        (
            S.SUBMITTED,
            S.PENDING_AML_SCREENING,
            S.PENDING_ENRICHMENT,
            S.PENDING_AUTHORIZATION,
            S.QUEUED,
            S.PENDING_SIGNATURE,
            S.BROADCASTING,
            S.CONFIRMING,
        ),
        (S.CANCELLING,),
        "user cancel",
    )
    yield from rows((S.CANCELLING,), (S.CANCELLED,), "proven that nothing was or can be paid")
    yield from rows((S.CANCELLING,), (S.CONFIRMING,), "too late: a paying attempt is in a block")
    yield from rows((S.CANCELLING,), (S.FAILED,), "executed and failed, finalized")
    yield from rows((S.BROADCASTING,), (S.CONFIRMING,), "a paying attempt is in a block")
    yield from rows((S.BROADCASTING,), (S.FAILED,), "proof of death")
    yield from rows((S.CONFIRMING,), (S.COMPLETED,), "confirmation threshold reached")
    yield from rows((S.CONFIRMING,), (S.FAILED,), "failed in a finalized block, or reorged out and dead")
    yield from rows((S.SIGNED,), (S.CONFIRMING,), "observed on chain")
    yield from rows((S.SIGNED,), (S.FAILED,), "window over and proof of death")
    yield from rows((S.COMPLETED,), (S.FAILED,), "deep reorg and proof of death, with reversal")
    yield from rows((S.FAILED,), (S.QUEUED,), "retry, approval still valid")
    yield from rows(
        (S.FAILED, S.CANCELLED, S.BLOCKED),
        (S.PENDING_AML_SCREENING, S.PENDING_ENRICHMENT),
        "retry through the gates",
    )
    yield from rows((S.FAILED, S.CANCELLED, S.QUEUED, S.PENDING_SIGNATURE), (S.CONFIRMING,), "late landing, alarm")
    yield from rows(
        (
            S.SUBMITTED,
            S.PENDING_AML_SCREENING,
            S.PENDING_ENRICHMENT,
            S.PENDING_AUTHORIZATION,
            S.QUEUED,
            S.PENDING_SIGNATURE,
            S.PENDING_3RD_PARTY,
            S.PENDING_3RD_PARTY_MANUAL_APPROVAL,
        ),
        (S.FAILED,),
        "time limit, or a failure that cannot be continued",
    )

    yield from rows((None,), (S.PENDING_AML_SCREENING,), "screening on", IN)
    yield from rows((None,), (S.BROADCASTING,), "announced, or seen before it is in a block", IN)
    yield from rows((None,), (S.CONFIRMING,), "in a block, screening off", IN)
    yield from rows((S.BROADCASTING,), (S.CONFIRMING,), "in a block", IN)
    yield from rows((S.BROADCASTING,), (S.FAILED,), "never landed", IN)
    yield from rows((S.PENDING_AML_SCREENING,), (S.CONFIRMING,), "screening passes", IN)
    yield from rows((S.PENDING_AML_SCREENING,), (S.PENDING_3RD_PARTY,), "an outside party decides", IN)
    yield from rows((S.PENDING_AML_SCREENING, S.PENDING_3RD_PARTY), (S.REJECTED,), "refused or frozen", IN)
    yield from rows((S.PENDING_3RD_PARTY,), (S.CONFIRMING,), "the outside party agrees", IN)
    yield from rows((S.CONFIRMING,), (S.COMPLETED,), "confirmation threshold reached", IN)
    yield from rows((S.CONFIRMING,), (S.FAILED,), "gone from the chain", IN)
    yield from rows((S.CONFIRMING, S.COMPLETED), (S.REJECTED,), "frozen", IN)
    yield from rows((S.COMPLETED,), (S.FAILED,), "deep reorg, with reversal", IN)
    yield from rows((S.REJECTED,), (S.PENDING_AML_SCREENING,), "rescreened", IN)
    yield from rows((S.REJECTED,), (S.PENDING_3RD_PARTY, S.CONFIRMING, S.COMPLETED), "unfrozen: the status before", IN)


TRANSITIONS: tuple[Transition, ...] = tuple(_table())
"""Every legal move. Nothing else may happen to a status."""

_LEGAL = frozenset((t.direction, t.source, t.target) for t in TRANSITIONS)


def is_legal(source: Status | None, target: Status, direction: Direction = OUT) -> bool:
    """Say whether the table holds this move."""
    return (direction, source, target) in _LEGAL


def check_move(source: Status | None, target: Status, direction: Direction = OUT) -> None:
    """Raise IllegalMove unless the table holds this move."""
    if not is_legal(source, target, direction):
        raise IllegalMove(f"{direction} {source or 'start'} → {target} is not a transition")


def check_path(source: Status | None, path: tuple[Status, ...], direction: Direction = OUT) -> None:
    """Raise IllegalMove unless every step of `path`, beginning at `source`, is in the table."""
    if not path:
        raise IllegalMove("a move needs at least one step")
    for target in path:
        check_move(source, target, direction)
        source = target


def successors(source: Status | None, direction: Direction = OUT) -> frozenset[Status]:
    """Return the statuses that may follow `source`."""
    return frozenset(t.target for t in TRANSITIONS if t.source == source and t.direction == direction)
