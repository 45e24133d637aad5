"""The decision: from what the chain shows of a family to the withdrawal's next statuses; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.core.chain import AttemptKind
from gateway.core.lifecycle import Status
from gateway.core.once import SlotConsumed
from gateway.core.substatus import SubStatus


@dataclass(frozen=True, slots=True)
class Seen:
    """One attempt as the chain shows it now.

    `depth`: confirmations of its block, 0 when no block of the present chain holds it. `final`: that block cannot
    leave. `dead`: the proof that the attempt can never land.
    """

    kind: AttemptKind
    depth: int = 0
    ok: bool = True
    final: bool = False
    dead: SlotConsumed | None = None


@dataclass(frozen=True, slots=True)
class Unseen:
    """No attempt is in a block, and nothing is proven."""


@dataclass(frozen=True, slots=True)
class Paying:
    """A paying attempt executed in a block with `depth` confirmations, which cannot leave if `final`."""

    depth: int
    final: bool = False


@dataclass(frozen=True, slots=True)
class FailedInBlock:
    """A paying attempt is in a block and failed there."""

    final: bool


@dataclass(frozen=True, slots=True)
class Dropped:
    """A drop took the slot."""

    final: bool


@dataclass(frozen=True, slots=True)
class Dead:
    """Every paying attempt is proven dead; `proof` is one of the proofs."""

    proof: SlotConsumed


Fate = Unseen | Paying | FailedInBlock | Dropped | Dead


def fate_of(family: Sequence[Seen]) -> Fate:
    """Return what the chain shows of a family; a paying attempt in a block outweighs all else."""
    in_block = [s for s in family if s.depth > 0]
    paying = [s for s in in_block if s.kind.pays and s.ok]
    if paying:
        return Paying(max(s.depth for s in paying), any(s.final for s in paying))
    failed = [s for s in in_block if s.kind.pays]
    if failed:
        return FailedInBlock(all(s.final for s in failed))
    drops = [s for s in in_block if s.kind is AttemptKind.DROP]
    if drops:
        return Dropped(any(s.final for s in drops))
    proofs = [s.dead for s in family if s.kind.pays]
    if proofs and proofs[0] is not None and all(p is not None for p in proofs):
        return Dead(proofs[0])
    return Unseen()


@dataclass(frozen=True, slots=True)
class Stay:
    """No status changes. `alarm` (if any) is for a person."""

    alarm: str = ""


@dataclass(frozen=True, slots=True)
class Go:
    """Move along `path`. `alarm` (if any) is for a person."""

    path: tuple[Status, ...]
    reason: str
    sub_status: SubStatus
    alarm: str = ""


_WAITING = frozenset({Status.BROADCASTING, Status.SIGNED, Status.CANCELLING})
_LATE = frozenset({Status.QUEUED, Status.PENDING_SIGNATURE, Status.FAILED, Status.CANCELLED})
_ENDS = frozenset({Status.BROADCASTING, Status.SIGNED, Status.CONFIRMING, Status.COMPLETED})


def is_over(fate: Fate, threshold: int) -> bool:
    """Say whether nothing can change any more: the family may leave the tracker."""
    match fate:
        case Paying(depth, final):
            return final and depth >= threshold
        case FailedInBlock(final) | Dropped(final):
            return final
        case Dead(_):
            return True
        case Unseen():
            return False


def decide(status: Status, fate: Fate, threshold: int) -> Stay | Go:
    """Return the withdrawal's next step.

    COMPLETED only ever comes from an attempt that pays; FAILED and CANCELLED only from a final fact. Unseen decides
    nothing, whatever a node may have said.
    """
    match fate:
        case Unseen():
            return Stay()
        case Paying(depth, _):
            return _paying(status, depth, threshold)
        case FailedInBlock(final):
            return _failed(status, final=final)
        case Dropped(final):
            return _dropped(status) if final else Stay()
        case Dead(proof):
            if status is Status.CANCELLING:
                return Go(
                    (Status.CANCELLED,),
                    f"nothing was or can be paid: {proof}",
                    SubStatus.CANCELLED_BY_USER_REQUEST,
                )
            if status in _ENDS:
                return Go(
                    (Status.FAILED,),
                    f"can never be paid: {proof}",
                    SubStatus.DOUBLE_SPENDING,
                )
            return Stay()


def _paying(status: Status, depth: int, threshold: int) -> Stay | Go:
    reached = depth >= threshold
    if status is Status.CONFIRMING:
        if not reached:
            return Stay()
        return Go((Status.COMPLETED,), f"{depth} of {threshold} confirmations", SubStatus.CONFIRMED)
    if status in _WAITING or status in _LATE:
        late = status in _LATE
        path = (Status.CONFIRMING, Status.COMPLETED) if reached else (Status.CONFIRMING,)
        return Go(
            path,
            "late landing: found in a block after all" if late else "in a block",
            SubStatus.CONFIRMED if reached else SubStatus.PENDING_BLOCKCHAIN_CONFIRMATIONS,
            alarm=f"a payment landed while the withdrawal was {status}" if late else "",
        )
    if status is Status.COMPLETED:
        return Stay()
    return Stay(alarm=f"a payment landed while the withdrawal was {status}")


def _failed(status: Status, *, final: bool) -> Stay | Go:
    if not final:
        if status is not Status.BROADCASTING:
            return Stay()
        reason = "in a block, where it failed; not final yet"
        return Go((Status.CONFIRMING,), reason, SubStatus.PENDING_BLOCKCHAIN_CONFIRMATIONS)
    if status in _ENDS or status is Status.CANCELLING:
        reason = "executed and failed in a finalized block"
        return Go((Status.FAILED,), reason, SubStatus.SMART_CONTRACT_EXECUTION_FAILED)
    return Stay()


def _dropped(status: Status) -> Stay | Go:
    if status is Status.CANCELLING:
        return Go((Status.CANCELLED,), "the drop is final", SubStatus.CANCELLED_BY_USER_REQUEST)
    if status in _ENDS:
        return Go((Status.FAILED,), "dropped: the drop is final", SubStatus.DROPPED_BY_BLOCKCHAIN)
    return Stay()
