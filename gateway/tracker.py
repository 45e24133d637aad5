"""The tracker: one loop per chain that follows its blocks and tells the store what they mean.

New head → compare with the stored chain → on a mismatch take back what left the chain → read the next block → match →
settle → one database transaction. The reads per block do not depend on how much is in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from gateway import crashpoints
from gateway.clock import Clock
from gateway.core.adapter import Adapter
from gateway.core.chain import AttemptKind, Block, BlockRef
from gateway.core.errors import BadReply
from gateway.core.ids import AttemptId, WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.once import SlotConsumed, pays_intent
from gateway.core.records import Attempt, Inclusion, NewBroadcast, SendOutcome, Spend, Withdrawal
from gateway.core.store import Store, Writer
from gateway.index import Index, Matched, with_inclusion
from gateway.ownership import Ownership
from gateway.settle import settle
from gateway.submitter import Submitter

log = structlog.get_logger(__name__)

SEEN_ON_CHAIN = "seen-on-chain"
"""The node's name in a `broadcast_attempts` row that the tracker wrote because the block came before the answer."""

_RESENT = frozenset({Status.BROADCASTING, Status.CONFIRMING, Status.COMPLETED})


@dataclass(frozen=True, slots=True)
class Pace:
    """How a tracker spends its time. Seconds, blocks, attempts."""

    poll: float = 5.0
    resend_after: float = 30.0
    resend_batch: int = 50
    keep_headers: int = 2000


class Tracker:
    """Follows one chain while this process owns its tracker."""

    def __init__(
        self, store: Store, adapter: Adapter, ownership: Ownership, *, now: Clock, pace: Pace | None = None
    ) -> None:
        self._store = store
        self._adapter = adapter
        self._chain = adapter.info.name
        self._ownership = ownership
        self._now = now
        self._pace = pace or Pace()
        self._submitter = Submitter(store, adapter, now=now)
        self._index = Index({})
        self._tip: BlockRef | None = None
        self._finalized = -1
        self._spends: list[Spend] = []
        self._deepest = adapter.info.threshold
        self.advanced = asyncio.Event()
        """Set after every block that was committed; a lane that waits for one clears it first."""

    @property
    def tip(self) -> BlockRef | None:
        """The last block that was committed, None before the start."""
        return self._tip

    @property
    def in_flight(self) -> int:
        """How many attempts are followed."""
        return len(self._index)

    async def start(self) -> bool:
        """Load what is open and know where to go on; False while another process owns this tracker."""
        if not await self._ownership.take():
            return False
        async with self._store.read() as reader:
            accounts = await reader.accounts(self._chain)
            live = await reader.live(self._chain)
            headers = await reader.headers(self._chain, 1)
            self._spends = list(await reader.spends(self._chain))
            placed = await reader.withdrawals([a.withdrawal_id for a in live if a.included is not None])
        self._index = Index({a.address: a.id for a in accounts})
        for attempt in live:
            self._index.add(attempt)
        self._learn_thresholds(placed)
        self._finalized = -1
        self._tip = headers[0] if headers else None
        # Lanes sign nothing before these rows exist, so no payment of ours can be in one of these blocks.
        first = [] if self._tip is not None else await self._first_headers()
        head = self._tip or first[-1]
        async with self._store.write(await self._ownership.fence()) as writer:
            for ref in first:
                await writer.add_header(self._chain, ref, keep=self._pace.keep_headers)
            await writer.mark_indexed([a.id for a in live])
        self._tip = head
        log.info("tracking", chain=self._chain, height=head.height, in_flight=len(live))
        crashpoints.reach("restart:before-resend")
        for attempt in live:
            if attempt.recorded and attempt.included is None:
                self._index.schedule(attempt.id, 0.0, decided=True)
        self.advanced.set()
        return True

    async def _first_headers(self) -> Sequence[BlockRef]:
        """Return the head and the blocks under it down to one that is final: any other may leave the chain."""
        refs = [await self._adapter.node.head()]
        final = max(await self._adapter.node.finalized(refs[0]), refs[0].height - self._pace.keep_headers, 0)
        while refs[-1].height > final:
            under = await self._adapter.node.header(refs[-1].height - 1)
            if under is None or under.hash != refs[-1].parent:
                break  # it changes while we look: begin with what hangs together
            refs.append(under)
        return refs[::-1]

    async def step(self) -> None:
        """Follow the chain to its present head, then offer again what is due. May be called for ever.

        Raises NodeUnavailable (call again later), LeaseLost and StaleWrite (`start` again), BadReply (page a human).
        """
        if self._tip is None:
            raise RuntimeError("start() comes first")
        head = await self._adapter.node.next_head(self._tip, self._pace.poll)
        await self._ownership.fence()
        await self._follow(head)
        await self._take_in()
        await self._offer_again()

    async def release(self) -> None:
        """Give the tracker back."""
        await self._ownership.release()

    # following the chain

    async def _follow(self, head: BlockRef) -> None:
        while self._tip is not None and head.hash != self._tip.hash:
            tip = self._tip
            following: BlockRef | None = head
            if head.height > tip.height + 1:
                following = await self._adapter.node.header(tip.height + 1)
                if following is None:
                    return
            if following is not None and following.height == tip.height + 1 and following.parent == tip.hash:
                if not await self._advance(following, head):
                    return
            elif head.height <= tip.height and await self._holds(head):
                return  # a node that lags, or a chain cut short: nothing contradicts what we know
            else:
                await self._rewind()

    async def _holds(self, ref: BlockRef) -> bool:
        async with self._store.read() as reader:
            stored = await reader.header_at(self._chain, ref.height)
        return stored is not None and stored.hash == ref.hash

    async def _rewind(self) -> None:
        """Take back every block that the node's chain does not hold any more."""
        async with self._store.read() as reader:
            stored = await reader.headers(self._chain, self._pace.keep_headers + 1)
        left: list[BlockRef] = []
        ancestor = None
        for ref in stored:
            canonical = await self._adapter.node.header(ref.height)
            if canonical is not None and canonical.hash == ref.hash:
                ancestor = ref
                break
            left.append(ref)
        if ancestor is None:
            raise BadReply(
                f"none of the {len(stored)} blocks that were followed is on the node's chain; is it another chain?",
                chain=self._chain,
                call="header",
            )
        if not left:
            return
        gone = self._index.in_blocks(r.hash for r in left)
        log.warning("reorg", chain=self._chain, depth=len(left), to=ancestor.height, attempts=len(gone))
        async with self._store.write(await self._ownership.fence()) as writer:
            await writer.orphan(self._chain, left, self._now())
        for attempt in gone:
            self._index.place(attempt.id, None)
            self._index.schedule(attempt.id, 0.0, decided=True)
        orphaned = {r.hash for r in left}
        self._spends = [s for s in self._spends if s.block.hash not in orphaned]
        self._tip = ancestor
        self._finalized = min(self._finalized, ancestor.height)

    # one block

    async def _advance(self, ref: BlockRef, head: BlockRef) -> bool:
        """Read and commit the next block; False when the node does not know it any more."""
        fresh = await self._fresh()
        block = await self._adapter.node.block(ref, self._index)
        if block is None:
            return False
        finalized = max(self._finalized, min(await self._adapter.node.finalized(head), ref.height))
        dead = await self._dead_claims(finalized)
        crashpoints.reach("block:before-commit")
        # Shielded, so that the index and the store agree also when the loop is cancelled meanwhile.
        await asyncio.shield(self._commit(block, finalized, dead, fresh))
        crashpoints.reach("block:committed")
        self.advanced.set()
        return True

    async def _dead_claims(self, finalized: int) -> Mapping[str, SlotConsumed]:
        """Prove deaths: claims that a foreign transaction consumed in a block that is final and still on the chain."""
        dead = {}
        for spend in self._spends:
            if spend.block.height <= finalized and not spend.pays_intent:
                canonical = await self._adapter.node.header(spend.block.height)
                if canonical is not None and canonical.hash == spend.block.hash:
                    dead[spend.claim] = SlotConsumed(spend.claim, spend.tx_hash, spend.block)
        return dead

    async def _commit(
        self, block: Block, finalized: int, dead: Mapping[str, SlotConsumed], fresh: Sequence[Attempt]
    ) -> None:
        ref, index = block.ref, self._index
        matched = index.match(block)
        placed = {
            hit.attempt.id: Inclusion(
                ref, hit.landed.ok, hit.attempt.fee_max if hit.landed.fee is None else hit.landed.fee
            )
            for hit in matched.hits
        }
        touched = self._touched(matched, ref, finalized, dead)
        async with self._store.write(await self._ownership.fence()) as writer:
            await writer.mark_indexed([a.id for a in fresh])
            await writer.add_header(self._chain, ref, keep=self._pace.keep_headers)
            withdrawals = {w.id: w for w in await writer.withdrawals(touched)}
            spends = await self._note_foreign(writer, ref, matched, withdrawals)
            await self._note_strangers(writer, matched)
            await self._note_first_sends(writer, matched)
            await writer.include(placed)
            self._learn_thresholds(list(withdrawals.values()))
            settled = settle(
                ref,
                finalized=finalized,
                families={i: _as_placed(index.family(i), placed) for i in withdrawals},
                withdrawals=withdrawals,
                dead=dead,
                threshold=self._adapter.info.threshold,
                now=self._now(),
            )
            await writer.confirm(settled.confirmations)
            await writer.set_confirmations(settled.counts)
            for withdrawal, fee in settled.fees:
                await writer.set_fee(withdrawal, fee, self._now())
            await writer.move(settled.moves)
            for withdrawal_id, text in settled.alarms.items():
                log.error("a person must look", withdrawal=str(withdrawal_id), alarm=text)
                await writer.alarm(withdrawal_id, text)
            await writer.close(settled.close)
        # Only what is committed is remembered.
        for move in settled.moves:
            log.info("status", withdrawal=str(move.withdrawal.id), status=move.path[-1], reason=move.reason)
        for attempt_id, inclusion in placed.items():
            index.place(attempt_id, inclusion)
        for attempt_id in settled.close:
            index.remove(attempt_id)
        self._spends = [s for s in (*self._spends, *spends) if s.claim in index.claims]
        self._tip, self._finalized = ref, finalized

    def _touched(
        self, matched: Matched, ref: BlockRef, finalized: int, dead: Mapping[str, SlotConsumed]
    ) -> Sequence[WithdrawalId]:
        """Return the withdrawals for which this block may change something."""
        index = self._index
        attempts = [hit.attempt for hit in matched.hits]
        attempts += [a for foreign in matched.foreign for a in foreign.attempts]
        attempts += index.included(ref.height - self._deepest + 1, ref.height - 1)
        attempts += index.final(finalized)
        attempts += [a for claim in dead for i in index.claims.get(claim, ()) if (a := index.get(i))]
        return list(dict.fromkeys(a.withdrawal_id for a in attempts))

    async def _note_foreign(
        self,
        writer: Writer,
        ref: BlockRef,
        matched: Matched,
        withdrawals: Mapping[WithdrawalId, Withdrawal],
    ) -> Sequence[Spend]:
        spends = []
        for foreign in matched.foreign:
            landed = foreign.landed
            pays = any(pays_intent(landed, withdrawals[a.withdrawal_id].intent) for a in foreign.attempts)
            spend = Spend(self._chain, foreign.claim, landed.tx_hash, ref, pays_intent=pays)
            await writer.add_spend(spend)
            spends.append(spend)
            reason = f"{landed.tx_hash}, which is not ours, used slot {foreign.claim}"
            log.error("lane halted", chain=self._chain, reason=reason, pays_the_same=pays)
            for attempt in foreign.attempts:
                await writer.halt(attempt.account_id, reason, self._now())
                if pays:
                    await writer.alarm(attempt.withdrawal_id, f"{reason} and pays the same: resolve by hand")
        return spends

    async def _note_strangers(self, writer: Writer, matched: Matched) -> None:
        for landed in matched.strangers:
            account_id = self._index.senders[landed.sender]
            held = {h.claim for h in await writer.held(account_id)}
            if held.isdisjoint(landed.claims):
                reason = f"the chain shows a spend from {landed.sender} that the store does not know: {landed.tx_hash}"
                log.error("lane halted", chain=self._chain, reason=reason)
                await writer.halt(account_id, reason, self._now())

    async def _note_first_sends(self, writer: Writer, matched: Matched) -> None:
        # Where the submitter was first the store skips the row.
        now = self._now()
        await writer.record(
            [
                NewBroadcast(hit.attempt, SEEN_ON_CHAIN, now, SendOutcome.SUBMITTED)
                for hit in matched.hits
                if not hit.attempt.recorded
            ]
        )

    def _learn_thresholds(self, withdrawals: Sequence[Withdrawal]) -> None:
        self._deepest = max([self._deepest, *(w.threshold or 0 for w in withdrawals)])

    # sending again

    async def _take_in(self) -> None:
        """Take in what was signed since the last block: what a node refused is due again also while no block comes."""
        fresh = await self._fresh()
        if fresh:
            async with self._store.write(await self._ownership.fence()) as writer:
                await writer.mark_indexed([a.id for a in fresh])

    async def _fresh(self) -> Sequence[Attempt]:
        """Add what others have signed to the index; it is still to be marked so in the store."""
        async with self._store.read() as reader:
            fresh = await reader.unindexed(self._chain)
        for attempt in fresh:
            self._index.add(attempt)
            self._index.schedule(attempt.id, time.monotonic() + self._pace.resend_after)
        return fresh

    async def _offer_again(self) -> None:
        """Offer again what a reorg or a restart took from the nodes (recorded), and what waits for long (counted)."""
        now = time.monotonic()
        due = self._index.due(now, self._pace.resend_batch)
        if not due:
            return
        async with self._store.read() as reader:
            found = {w.id: w for w in await reader.withdrawals([a.withdrawal_id for a, _ in due])}
        again = [
            (a, decided) for a, decided in due if self._may_send(a, found.get(a.withdrawal_id)) and self._is_newest(a)
        ]
        for attempt, _ in due:
            self._index.schedule(attempt.id, now + self._pace.resend_after)
        decided = [a for a, asked in again if asked]
        if decided:
            await self._submitter.send_again(decided, self._ownership.fence)
        kept = [a for a, asked in again if not asked]
        if kept:
            await self._submitter.keep_alive(kept, self._ownership.fence)

    def _may_send(self, attempt: Attempt, withdrawal: Withdrawal | None) -> bool:
        if withdrawal is None:
            return False
        if withdrawal.status is Status.CANCELLING:
            return attempt.kind is AttemptKind.DROP  # the payment must not get another chance
        return withdrawal.status in _RESENT

    def _is_newest(self, attempt: Attempt) -> bool:
        return all(other.id <= attempt.id for other in self._index.family(attempt.withdrawal_id))


def _as_placed(family: Sequence[Attempt], placed: Mapping[AttemptId, Inclusion]) -> Sequence[Attempt]:
    return [with_inclusion(a, placed[a.id]) if a.id in placed else a for a in family]
