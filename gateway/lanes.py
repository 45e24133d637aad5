"""Lanes: per account and in order, take a slot, build, sign, write ahead, send.

The order is the safety: a slot and the built bytes are committed before the signer sees them, the signed bytes before a
node sees them. A crash between any two steps is resumed from the store: built and unsigned is signed again (the same
bytes), signed and unsent is sent (the same bytes).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from gateway import crashpoints
from gateway.clock import Clock
from gateway.core.adapter import Adapter, Codec
from gateway.core.chain import (
    Account,
    AttemptKind,
    Build,
    FeeQuote,
    Held,
    Hold,
    Lane,
    Pending,
    Reject,
    Signed,
    Unsigned,
)
from gateway.core.errors import JournalAhead, SignedMismatch, SignerRefused
from gateway.core.ids import AttemptId, WithdrawalId, uuid7
from gateway.core.lifecycle import Status
from gateway.core.once import check_excludes
from gateway.core.records import Attempt, Move, Withdrawal
from gateway.core.signing import Signer, SigningOrder
from gateway.core.store import Store
from gateway.core.substatus import SubStatus
from gateway.journal import BEHIND, record_of
from gateway.ownership import Ownership
from gateway.signed import approved
from gateway.submitter import Submitter

log = structlog.get_logger(__name__)

Pair = tuple[Withdrawal, Attempt]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one look at a lane decided: attempts to take, withdrawals that can never be built, why it waits."""

    take: tuple[Pair, ...] = ()
    reject: tuple[tuple[Withdrawal, Reject], ...] = ()
    hold: tuple[Withdrawal, Hold] | None = None


def plan_lane(
    codec: Codec,
    waiting: Sequence[Withdrawal],
    lane: Lane,
    quote: FeeQuote,
    signed_before: Mapping[WithdrawalId, Sequence[Pending]],
    now: datetime,
) -> Plan:
    """Decide what to build for the waiting withdrawals, in their order; pure.

    Each build sees the claims and attempts of the ones before it. The first that must wait ends the plan, so that
    nobody overtakes; a full lane's first is asked for too, because the chain may have a better reason to wait. Bytes
    that do not exclude an earlier payment of the same withdrawal raise WouldPayTwice.
    """
    take: list[Pair] = []
    reject: list[tuple[Withdrawal, Reject]] = []
    room = codec.room(lane)
    for withdrawal in waiting:
        full = len(take) >= room
        if len(take) >= codec.info.batch and not full:
            break
        earlier = tuple(signed_before.get(withdrawal.id, ()))
        order = Build(withdrawal.intent, AttemptKind.PAYMENT, withdrawal.fee_level, withdrawal.max_fee, earlier)
        built = codec.build(order, lane, quote)
        match built:
            case Hold():
                return Plan(tuple(take), tuple(reject), (withdrawal, built))
            case Reject():
                reject.append((withdrawal, built))
            case Unsigned() if full:
                hold = Hold(SubStatus.NONE, f"{codec.info.lane_depth} in flight already")
                return Plan(tuple(take), tuple(reject), (withdrawal, hold))
            case Unsigned():
                check_excludes(built.claims, earlier)
                attempt = Attempt(
                    id=AttemptId(uuid7(now)),
                    withdrawal_id=withdrawal.id,
                    account_id=withdrawal.account_id,
                    chain=withdrawal.chain,
                    kind=AttemptKind.PAYMENT,
                    payload=built.payload,
                    claims=built.claims,
                    window_end=built.window_end,
                    fee_max=built.fee_max,
                    built_at=now,
                )
                take.append((withdrawal, attempt))
                lane = replace(
                    lane,
                    held=(*lane.held, *(Held(c, withdrawal.id, signed=False) for c in built.claims)),
                    pending=(*lane.pending, attempt.pending),
                )
    return Plan(tuple(take), tuple(reject))


class LaneWorker:
    """Works the lane of one account while this process owns it."""

    def __init__(
        self,
        store: Store,
        adapter: Adapter,
        signer: Signer,
        account: Account,
        ownership: Ownership,
        *,
        now: Clock,
    ) -> None:
        self._store = store
        self._adapter = adapter
        self._signer = signer
        self._account = account
        self._ownership = ownership
        self._now = now
        self._submitter = Submitter(store, adapter, now=now)

    async def work(self) -> bool:
        """Do what can be done now; True when there may be more at once, False when the lane must wait.

        Raises ChainError (a node fault: call again later), LeaseLost and StaleWrite (call again), SignerError.
        """
        if not await self._ownership.take():
            return False
        async with self._store.read() as reader:
            # A payment that was never sent is not sent any more once its withdrawal is being cancelled, or has ended.
            unsent = [a for w, a in await reader.unsent(self._account.id) if w.status is Status.BROADCASTING]
            halted = self._account.id in await reader.halted()
            unsigned = [] if halted else await reader.unsigned(self._account.id)
        if unsent and not await self._submitter.first_send(unsent, self._ownership.fence):
            return False
        if halted:
            return False
        if unsigned:
            await self._sign_and_send(unsigned)
            return True
        return await self._build_next()

    async def release(self) -> None:
        """Give the lane back."""
        await self._ownership.release()

    async def _build_next(self) -> bool:
        async with self._store.read() as reader:
            waiting = await reader.queued(self._account.id, self._adapter.info.batch)
            tips = await reader.headers(self._account.chain, 1)
        # A look at the head costs one call; a survey in vain would cost one for each that waits.
        if not waiting or not tips or tips[0].height < (await self._adapter.node.head()).height:
            return False
        async with self._store.read() as reader:
            held = await reader.held(self._account.id)
            pending = await reader.open_attempts(self._account.id)
            families = await reader.families([w.id for w in waiting])
        signed_before = {i: [a.pending for a in family if a.raw] for i, family in families.items()}
        facts = await self._adapter.node.survey(self._account, [w.intent for w in waiting])
        async with self._store.read() as reader:
            tips = await reader.headers(self._account.chain, 1)
            # Nothing would see a payment land before the tracker has begun. And what the tracker has not read yet may
            # hold a spend that halts this lane, or a payment whose row still says that it waits.
            if not tips or tips[0].height < facts.height or self._account.id in await reader.halted():
                return False
        quote = await self._adapter.node.fees()
        lane = Lane(self._account, facts, tuple(held), tuple(a.pending for a in pending))
        plan = plan_lane(self._adapter.codec, waiting, lane, quote, signed_before, self._now())
        crashpoints.reach("build:before")
        await self._commit(plan)
        crashpoints.reach("build:committed")
        if plan.take:
            await self._sign_and_send(plan.take)
        return bool(plan.take or plan.reject) and plan.hold is None

    async def _commit(self, plan: Plan) -> None:
        now = self._now()
        moves = [Move(w, (Status.PENDING_SIGNATURE,), "its turn in the lane: built", now) for w, _ in plan.take]
        moves += [Move(w, (Status.FAILED,), r.reason, now, r.sub_status) for w, r in plan.reject]
        hold = plan.hold
        if hold is not None and hold[0].sub_status is not hold[1].sub_status:
            log.info("lane waits", account=self._account.address, reason=hold[1].reason)
        if not moves and (hold is None or hold[0].sub_status is hold[1].sub_status):
            return
        async with self._store.write(await self._ownership.fence()) as writer:
            await writer.take([attempt for _, attempt in plan.take])
            await writer.move(moves)
            if hold is not None:
                await writer.set_sub_status([hold[0].id], hold[1].sub_status)

    async def _sign_and_send(self, pairs: Sequence[Pair]) -> None:
        try:
            signed = await self._sign(pairs)
        except JournalAhead as ahead:
            await self._halt(pairs[0][0], f"{BEHIND}: {ahead}")
            raise  # whoever signs this batch one by one must stop as well
        except SignerRefused as refusal:
            if len(pairs) > 1:
                for pair in pairs:
                    await self._sign_and_send([pair])
                return
            await self._signer_refused(pairs[0], refusal)
            return
        crashpoints.reach("sign:done")
        await asyncio.shield(self._write_ahead(pairs, signed))
        crashpoints.reach("write-ahead:committed")
        attempts = [
            replace(attempt, raw=signed[attempt.id].raw, tx_hash=signed[attempt.id].tx_hash) for _, attempt in pairs
        ]
        await self._submitter.first_send(attempts, self._ownership.fence)

    async def _sign(self, pairs: Sequence[Pair]) -> Mapping[AttemptId, Signed]:
        codec, account = self._adapter.codec, self._account
        async with self._store.read() as reader:
            (tip,) = await reader.headers(account.chain, 1)  # it cannot be in this block or an earlier one
        orders = [
            SigningOrder(
                withdrawal_id=w.id,
                attempt_id=a.id,
                chain=a.chain,
                address=account.address,
                claims=a.claims,
                record=record_of(w, a, tip),
                requests=codec.signing_requests(a.payload, account),
            )
            for w, a in pairs
        ]
        await self._ownership.fence()
        signatures = await self._signer.sign(orders)
        signed = {}
        for (withdrawal, attempt), answer in zip(pairs, signatures, strict=True):
            await asyncio.sleep(0)  # checking takes a millisecond each: let the tracker have its turn
            try:
                signed[attempt.id] = approved(codec, account, withdrawal, attempt, answer)
            except SignedMismatch as mismatch:
                await self._halt(withdrawal, f"signed bytes are not what was approved: {mismatch}")
                raise
        return signed

    async def _write_ahead(self, pairs: Sequence[Pair], signed: Mapping[AttemptId, Signed]) -> None:
        now = self._now()
        async with self._store.write(await self._ownership.fence()) as writer:
            await writer.store_signed(signed, now)
            await writer.move(
                [
                    Move(w, (Status.BROADCASTING,), "signed", now, SubStatus.QUEUED_FOR_BROADCAST)
                    for w, _ in _as_signed(pairs)
                ]
            )
            crashpoints.reach("write-ahead:before-commit")

    async def _signer_refused(self, pair: Pair, refusal: SignerRefused) -> None:
        withdrawal, attempt = pair
        log.warning("signer refuses", withdrawal=str(withdrawal.id), reason=str(refusal))
        (current, _) = _as_signed([pair])[0]
        async with self._store.write(await self._ownership.fence()) as writer:
            await writer.release(attempt.id)
            await writer.move(
                [
                    Move(
                        current,
                        (Status.CANCELLED,),
                        f"the signer refuses: {refusal}",
                        self._now(),
                        SubStatus.REJECTED_BY_USER,
                    )
                ]
            )

    async def _halt(self, withdrawal: Withdrawal, reason: str) -> None:
        log.error("lane halted", account=self._account.address, withdrawal=str(withdrawal.id), reason=reason)
        async with self._store.write(await self._ownership.fence()) as writer:
            await writer.halt(self._account.id, reason, self._now())
            await writer.alarm(withdrawal.id, reason)


def _as_signed(pairs: Sequence[Pair]) -> Sequence[Pair]:
    # After `_commit` the withdrawals stand in PENDING_SIGNATURE, whatever was read before it.
    return [(replace(w, status=Status.PENDING_SIGNATURE), a) for w, a in pairs]
