"""The submitter: offers stored bytes to the nodes and writes down what they said; it never makes new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from gateway import crashpoints
from gateway.clock import Clock
from gateway.core.adapter import Adapter
from gateway.core.errors import BadReply, NodeUnavailable, Outcome, OutcomeUnknown, Refused
from gateway.core.records import Attempt, Lease, NewBroadcast, SendOutcome
from gateway.core.store import Store
from gateway.core.substatus import SubStatus

log = structlog.get_logger(__name__)

Fence = Callable[[], Awaitable[Lease]]
"""Gives the lease under which the caller owns these attempts, or raises LeaseLost."""

REFUSAL_NAMES = {
    Outcome.FUNDS: SubStatus.INSUFFICIENT_FUNDS,
    Outcome.FEE_TOO_LOW: SubStatus.TRANSIENT_NODE_ERROR_RETRY,
    Outcome.PERMANENT: SubStatus.REJECTED_BY_BLOCKCHAIN,
}
"""What a refusal is called while the withdrawal stays BROADCASTING; everything else is called transient."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A send about which something is known, and how the withdrawal's sub-status reads now."""

    send: NewBroadcast
    sub_status: SubStatus


class Submitter:
    """Sends the attempts of one chain."""

    def __init__(self, store: Store, adapter: Adapter, *, now: Clock) -> None:
        self._store = store
        self._adapter = adapter
        self._now = now

    async def first_send(self, attempts: Sequence[Attempt], fence: Fence) -> bool:
        """Send attempts that no row records yet, in order; False when the nodes were not reached (try later).

        A lost answer leaves the attempt unrecorded: the next pass sends the same bytes, which the node then knows.
        """
        return await self._send(attempts, fence, first=True)

    async def send_again(self, attempts: Sequence[Attempt], fence: Fence) -> bool:
        """Send the same bytes again because a reorg or a restart asks for it; each gets a row of its own."""
        return await self._send(attempts, fence, first=False)

    async def keep_alive(self, attempts: Sequence[Attempt], fence: Fence) -> None:
        """Offer the same bytes on schedule; only counted."""
        offered = []
        for attempt in attempts:
            await fence()
            try:
                await self._adapter.node.send(attempt.raw, attempt.tx_hash)
            except NodeUnavailable:
                break
            except (Refused, OutcomeUnknown) as answer:
                log.debug("keep-alive", attempt=str(attempt.id), answer=str(answer))
            except BadReply as error:
                # A node that lies about one send must not keep the tracker from its blocks.
                log.warning("bad reply to a send", chain=attempt.chain, tx_hash=attempt.tx_hash, error=str(error))
            offered.append(attempt.id)
        if offered:
            async with self._store.write(await fence()) as writer:
                await writer.count_resends(offered, self._now())

    async def _send(self, attempts: Sequence[Attempt], fence: Fence, *, first: bool) -> bool:
        answers: list[Answered] = []
        reached = True
        for attempt in attempts:
            await fence()
            answer, reached = await self._offer(attempt, first=first)
            if answer is not None:
                answers.append(answer)
            if not reached:
                break
            crashpoints.reach("send:one")
        crashpoints.reach("send:all")
        if answers:
            await asyncio.shield(self._write(answers, await fence()))
        return reached

    async def _offer(self, attempt: Attempt, *, first: bool) -> tuple[Answered | None, bool]:
        try:
            sent = await self._adapter.node.send(attempt.raw, attempt.tx_hash)
        except NodeUnavailable as error:
            log.warning("no node reached", chain=attempt.chain, error=str(error))
            return None, False
        except OutcomeUnknown as error:
            log.warning("answer lost", chain=attempt.chain, tx_hash=attempt.tx_hash, error=str(error))
            return None, True
        except BadReply as error:
            log.warning("bad reply to a send", chain=attempt.chain, tx_hash=attempt.tx_hash, error=str(error))
            return None, True
        except Refused as refusal:
            log.warning(
                "refused", chain=attempt.chain, tx_hash=attempt.tx_hash, outcome=refusal.outcome, text=refusal.message
            )
            send = NewBroadcast(attempt, refusal.node or "node", self._now(), SendOutcome.REJECTED, first=first)
            name = REFUSAL_NAMES.get(refusal.outcome, SubStatus.TRANSIENT_NODE_ERROR_RETRY)
            return Answered(send, name), True
        send = NewBroadcast(attempt, sent.node, self._now(), SendOutcome.SUBMITTED, first=first)
        return Answered(send, SubStatus.SENDING_TO_NODE), True

    async def _write(self, answers: Sequence[Answered], lease: Lease) -> None:
        async with self._store.write(lease) as writer:
            await writer.record([a.send for a in answers])
            by_name: dict[SubStatus, list[Attempt]] = {}
            for answer in answers:
                by_name.setdefault(answer.sub_status, []).append(answer.send.attempt)
            if answers[0].send.first:
                for name, attempts in by_name.items():
                    await writer.set_sub_status([a.withdrawal_id for a in attempts], name)
            crashpoints.reach("record:before-commit")
        crashpoints.reach("record:committed")
