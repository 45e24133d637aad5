"""The gates between acceptance and the lane; screening and approvals are not built yet, so all pass in order."""

from __future__ import annotations

from datetime import datetime

from gateway.clock import Clock
from gateway.core.errors import StaleWrite
from gateway.core.lifecycle import Status
from gateway.core.records import Move, Withdrawal
from gateway.core.store import Store

BATCH = 200

WAY = (Status.SUBMITTED, Status.PENDING_ENRICHMENT, Status.QUEUED)


async def pass_gates(store: Store, chain: str, *, now: Clock) -> int:
    """Take the chain's oldest withdrawals from the gates to QUEUED; return how many went."""
    async with store.read() as reader:
        waiting = await reader.passing(chain, BATCH)
    if not waiting:
        return 0
    try:
        at = now()  # one time for all: the store then moves them in one statement
        async with store.write() as writer:
            await writer.move([_through(w, at) for w in waiting])
        return len(waiting)
    except StaleWrite:
        # Somebody moved one of them meanwhile: the others go one by one.
        return sum([await _one(store, w, now) for w in waiting])


async def _one(store: Store, withdrawal: Withdrawal, now: Clock) -> bool:
    try:
        async with store.write() as writer:
            await writer.move([_through(withdrawal, now())])
    except StaleWrite:
        return False
    return True


def _through(withdrawal: Withdrawal, at: datetime) -> Move:
    path = WAY[WAY.index(withdrawal.status) + 1 :]
    return Move(withdrawal, path, "passed the gates", at)
