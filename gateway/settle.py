"""Settling a block: from what a block holds to every row that it causes; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.core.chain import BlockRef
from gateway.core.decide import Go, Seen, decide, fate_of, is_over
from gateway.core.ids import AttemptId, WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.once import SlotConsumed
from gateway.core.records import Attempt, Confirmation, Move, Withdrawal


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one block causes. `fees`: the chain took another fee than was booked, without a move of the status."""

    confirmations: tuple[Confirmation, ...]
    counts: Mapping[WithdrawalId, int]
    moves: tuple[Move, ...]
    fees: tuple[tuple[Withdrawal, int], ...]
    alarms: Mapping[WithdrawalId, str]
    close: tuple[AttemptId, ...]


def settle(
    tip: BlockRef,
    *,
    finalized: int,
    families: Mapping[WithdrawalId, Sequence[Attempt]],
    withdrawals: Mapping[WithdrawalId, Withdrawal],
    dead: Mapping[str, SlotConsumed],
    threshold: int,
    now: datetime,
) -> Settlement:
    """Decide what block `tip` means for these withdrawals, whose families are given as they stand with it.

    A confirmation row is written for each attempt in a block, up to the withdrawal's threshold (else the chain's). The
    family of a withdrawal for which nothing can change any more is closed.
    """
    confirmations: list[Confirmation] = []
    counts: dict[WithdrawalId, int] = {}
    moves: list[Move] = []
    fees: list[tuple[Withdrawal, int]] = []
    alarms: dict[WithdrawalId, str] = {}
    close: list[AttemptId] = []
    for withdrawal_id, family in families.items():
        withdrawal = withdrawals[withdrawal_id]
        wanted = withdrawal.threshold or threshold
        for attempt in family:
            if attempt.included is None:
                continue
            depth = tip.height - attempt.included.height + 1
            if depth <= wanted:
                confirmations.append(Confirmation(attempt.id, tip.hash, tip.height, now))
                if attempt.kind.pays and attempt.ok:
                    counts[withdrawal_id] = depth
        fate = fate_of([_seen(a, tip.height, finalized, dead) for a in family])
        fee = sum(a.fee or 0 for a in family if a.included is not None)
        step = decide(withdrawal.status, fate, wanted)
        if isinstance(step, Go):
            reason = f"{step.reason} (block {tip.height})"
            moves.append(Move(withdrawal, step.path, reason, now, step.sub_status, fee_paid=fee))
        elif withdrawal.status is Status.COMPLETED and fee and fee != withdrawal.fee_paid:
            fees.append((withdrawal, fee))
        if step.alarm:
            alarms[withdrawal_id] = step.alarm
        if is_over(fate, wanted):
            close += [a.id for a in family]
    return Settlement(tuple(confirmations), counts, tuple(moves), tuple(fees), alarms, tuple(close))


def _seen(attempt: Attempt, tip: int, finalized: int, dead: Mapping[str, SlotConsumed]) -> Seen:
    ref = attempt.included
    return Seen(
        kind=attempt.kind,
        depth=0 if ref is None else tip - ref.height + 1,
        ok=attempt.ok,
        final=ref is not None and ref.height <= finalized,
        dead=next((dead[c] for c in attempt.claims if c in dead), None) if ref is None else None,
    )
