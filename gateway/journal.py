"""The signer's journal against the store: what the signer has signed, the store must know.

A store that is behind the journal was restored from an older copy. Building on would pay again what was paid already,
so signing for the lanes concerned is refused until `reconcile` has put back what the journal says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import cbor2
import structlog

from gateway.core.adapter import Adapter
from gateway.core.chain import Account, AttemptKind, BlockRef, FeeLevel
from gateway.core.errors import ConfigError, SignedMismatch, StaleWrite
from gateway.core.ids import AccountId, TransactionId, VaultId, WorkspaceId
from gateway.core.lifecycle import Status
from gateway.core.records import Attempt, DestinationType, Move, Withdrawal
from gateway.core.signing import JournalLine, Signer, SigningOrder
from gateway.core.store import Store, Writer
from gateway.core.substatus import SubStatus
from gateway.gates import WAY
from gateway.signed import approved

log = structlog.get_logger(__name__)

CHUNK = 500
BEHIND = "the signer's journal holds signatures that the store does not know"


def record_of(withdrawal: Withdrawal, attempt: Attempt, tip: BlockRef) -> bytes:
    """Write down, for the journal, all from which withdrawal and attempt can be restored.

    `tip` is a block before any that can hold the attempt: from there its chain is read again.
    """
    w, a = withdrawal, attempt
    return cbor2.dumps(
        {
            "transaction": w.transaction_id.bytes,
            "workspace": w.workspace_id.bytes,
            "vault": w.vault_id.bytes,
            "account": w.account_id.bytes,
            "asset": w.asset,
            "amount": w.amount,
            "decimals": w.decimals,
            "destination": w.destination,
            "destination_type": w.destination_type.value,
            "memo": w.memo,
            "fee_level": w.fee_level.value,
            "max_fee": w.max_fee,
            "created_at": w.created_at.isoformat(),
            "external_id": w.external_id,
            "note": w.note,
            "kind": a.kind.value,
            "payload": a.payload,
            "window_end": a.window_end,
            "fee_max": a.fee_max,
            "built_at": a.built_at.isoformat(),
            "tip": [tip.height, tip.hash, tip.parent],
        },
        canonical=True,
    )


async def unknown_lines(store: Store, signer: Signer) -> Sequence[JournalLine]:
    """Return the journal's lines whose attempt the store does not hold, oldest first."""
    lines = await signer.journal()
    missing: list[JournalLine] = []
    async with store.read() as reader:
        for start in range(0, len(lines), CHUNK):
            part = lines[start : start + CHUNK]
            known = await reader.known_attempts([line.attempt_id for line in part])
            missing += [line for line in part if line.attempt_id not in known]
    return missing


async def halt_what_is_behind(store: Store, signer: Signer, *, now: datetime) -> int:
    """Halt every lane for which the journal is ahead of the store; return how many lines are unknown."""
    missing = await unknown_lines(store, signer)
    if not missing:
        return 0
    addresses = {(line.chain, line.address) for line in missing}
    async with store.write() as writer:
        for account in await writer.accounts():
            if (account.chain, account.address) in addresses:
                await writer.halt(account.id, f"{BEHIND}; run `gateway db reconcile`", now)
    log.error("signing refused", reason=BEHIND, lines=len(missing), accounts=sorted(addresses))
    return len(missing)


async def write_ahead_what_was_signed(
    store: Store, signer: Signer, adapters: Mapping[str, Adapter], *, now: datetime
) -> int:
    """Store the signed bytes of attempts that the journal knows and the store holds unsigned; return how many.

    After a crash between the two nothing was sent. After the restore of an older copy the bytes may have landed long
    ago, and the tracker, which knows them by their hash only, must not pass their block first. The same signatures
    come out; halted accounts are left alone, but for those that a reconciliation is about to let go on.
    """
    lines = {line.attempt_id: line for line in await signer.journal()}
    done = 0
    async with store.read() as reader:
        halted = {i for i, reason in (await reader.halted()).items() if not reason.startswith(BEHIND)}
        accounts = [a for a in await reader.accounts() if a.chain in adapters and a.id not in halted]
        built = [(a, w, attempt) for a in accounts for w, attempt in await reader.unsigned(a.id)]
    for account, withdrawal, attempt in built:
        line = lines.get(attempt.id)
        if line is not None:
            try:
                await _sign_again(store, signer, adapters[account.chain], account, withdrawal, attempt, line, now)
                done += 1
            except StaleWrite:
                log.info("another process was first", attempt=str(attempt.id))
            except SignedMismatch as mismatch:
                # Its lane will find the same and halt; the others go on.
                log.error("signed bytes are not what was approved", attempt=str(attempt.id), error=str(mismatch))
    return done


async def is_behind(store: Store, chain: str) -> bool:
    """Say whether a lane of this chain is halted because the store is behind the journal."""
    async with store.read() as reader:
        halted = await reader.halted()
        accounts = await reader.accounts(chain) if halted else []
    return any(halted.get(a.id, "").startswith(BEHIND) for a in accounts)


@dataclass(frozen=True, slots=True)
class Restored:
    """What reconcile did with one line of the journal."""

    line: JournalLine
    withdrawal: Withdrawal
    was: Status | None


async def reconcile(
    store: Store, signer: Signer, adapters: Mapping[str, Adapter], *, now: datetime
) -> Sequence[Restored]:
    """Put back every attempt that the journal knows and the store does not, and lift the halts.

    The withdrawal is inserted if it is missing too. The bytes are signed again (the same signatures) and stored as
    BROADCASTING: the tracker finds where they landed, or sends exactly them. Nothing new is signed.
    ConfigError: a line's account is not in this store, so that it is no older copy of the one that was lost; then
    nothing at all is restored.
    """
    unknown = await unknown_lines(store, signer)
    first = {line.attempt_id: line for line in reversed(unknown)}  # signed again it has two lines: the first counts
    missing = [line for line in unknown if first[line.attempt_id] is line]
    accounts = await _accounts_of(missing, store, adapters)
    restored = []
    async with store.write() as writer:
        # First, so that a reconciliation that was cut short leaves no chain to be begun behind its payments.
        await _follow_from_before(writer, missing)
    for line in missing:
        fields = cbor2.loads(line.record)
        attempt = _attempt(line, fields)
        async with store.write() as writer:
            withdrawal, was = await _withdrawal(writer, line, fields)
            await _restore(writer, withdrawal, attempt, now)
        account = accounts[attempt.account_id]
        await _sign_again(store, signer, adapters[line.chain], account, withdrawal, attempt, line, now)
        restored.append(Restored(line, withdrawal, was))
    await write_ahead_what_was_signed(store, signer, adapters, now=now)
    async with store.write() as writer:
        for account_id, reason in (await writer.halted()).items():
            if reason.startswith(BEHIND):
                await writer.unhalt(account_id, "restored from the signer's journal", now)
    return restored


async def _follow_from_before(writer: Writer, lines: Sequence[JournalLine]) -> None:
    """Have a chain that the store never followed be followed from before its first restored attempt."""
    first: dict[str, BlockRef] = {}
    for line in lines:
        tip = BlockRef(*cbor2.loads(line.record)["tip"])
        if line.chain not in first or tip.height < first[line.chain].height:
            first[line.chain] = tip
    for chain, tip in first.items():
        if not await writer.headers(chain, 1):
            await writer.add_header(chain, tip, keep=1)


async def _accounts_of(
    lines: Sequence[JournalLine], store: Store, adapters: Mapping[str, Adapter]
) -> Mapping[AccountId, Account]:
    """Return the accounts that the lines name. ConfigError: some are not to be had."""
    async with store.read() as reader:
        accounts = {a.id: a for a in await reader.accounts()}
    problems: dict[str, None] = {}
    for line in lines:
        account = accounts.get(AccountId(UUID(bytes=cbor2.loads(line.record)["account"])))
        if line.chain not in adapters:
            problems[f"the journal names chain {line.chain!r}, which is not configured"] = None
        elif account is None or (account.chain, account.address) != (line.chain, line.address):
            # A new store would be followed from today's block on: what was paid before it would stay unseen for ever.
            problems[
                f"the journal has payments of {line.address} on {line.chain} by an account that this store does not"
                " know: it is not an older copy of the store that they were made with; bring back a copy of that one,"
                " however old, and reconcile it (nothing is signed for this account meanwhile)"
            ] = None
    if problems:
        raise ConfigError(list(problems))
    return accounts


async def _withdrawal(writer: Writer, line: JournalLine, fields: dict[str, Any]) -> tuple[Withdrawal, Status | None]:
    known = await writer.withdrawal(line.withdrawal_id)
    if known is not None:
        return known, known.status
    created = datetime.fromisoformat(fields["created_at"])
    withdrawal = Withdrawal(
        id=line.withdrawal_id,
        transaction_id=TransactionId(UUID(bytes=fields["transaction"])),
        workspace_id=WorkspaceId(UUID(bytes=fields["workspace"])),
        vault_id=VaultId(UUID(bytes=fields["vault"])),
        account_id=AccountId(UUID(bytes=fields["account"])),
        chain=line.chain,
        asset=fields["asset"],
        amount=fields["amount"],
        decimals=fields["decimals"],
        destination=fields["destination"],
        destination_type=DestinationType(fields["destination_type"]),
        memo=fields["memo"],
        fee_level=FeeLevel(fields["fee_level"]),
        max_fee=fields["max_fee"],
        status=Status.SUBMITTED,
        sub_status=SubStatus.NONE,
        status_changed_at=created,
        created_at=created,
        external_id=fields["external_id"],
        note=fields["note"],
    )
    await writer.accept([withdrawal], reason="restored from the signer's journal")
    return withdrawal, None


_WAY_TO_SIGNATURE = (*WAY, Status.PENDING_SIGNATURE)


async def _restore(writer: Writer, withdrawal: Withdrawal, attempt: Attempt, now: datetime) -> None:
    await writer.take([attempt])
    if withdrawal.status in WAY:
        path = _WAY_TO_SIGNATURE[_WAY_TO_SIGNATURE.index(withdrawal.status) + 1 :]
        await writer.move([Move(withdrawal, path, "restored from the signer's journal", now)])


async def _sign_again(
    store: Store,
    signer: Signer,
    adapter: Adapter,
    account: Account,
    withdrawal: Withdrawal,
    attempt: Attempt,
    line: JournalLine,
    now: datetime,
) -> None:
    order = SigningOrder(
        withdrawal_id=line.withdrawal_id,
        attempt_id=line.attempt_id,
        chain=line.chain,
        address=line.address,
        claims=line.claims,
        record=line.record,
        requests=adapter.codec.signing_requests(attempt.payload, account),
    )
    (signatures,) = await signer.sign([order])
    signed = approved(adapter.codec, account, withdrawal, attempt, signatures)
    async with store.write() as writer:
        await writer.store_signed({attempt.id: signed}, now)
        current = await writer.withdrawal(withdrawal.id)
        if current is not None and current.status is Status.PENDING_SIGNATURE:
            await writer.move(
                [
                    Move(
                        current,
                        (Status.BROADCASTING,),
                        "restored from the signer's journal",
                        now,
                        SubStatus.QUEUED_FOR_BROADCAST,
                    )
                ]
            )


def _attempt(line: JournalLine, fields: dict[str, Any]) -> Attempt:
    return Attempt(
        id=line.attempt_id,
        withdrawal_id=line.withdrawal_id,
        account_id=AccountId(UUID(bytes=fields["account"])),
        chain=line.chain,
        kind=AttemptKind(fields["kind"]),
        payload=fields["payload"],
        claims=line.claims,
        window_end=fields["window_end"],
        fee_max=fields["fee_max"],
        built_at=datetime.fromisoformat(fields["built_at"]),
    )
