"""A crowd: as many payments in flight as wanted, put into the store as a gateway would have left them.

No chain has seen them: their bytes are random and as long as real ones, so none of them ever lands.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from gateway.app import Gateway
from gateway.clock import utc_now
from gateway.core.chain import Account, AttemptKind, FeeLevel, Signed
from gateway.core.ids import AttemptId, TransactionId, WithdrawalId, uuid7
from gateway.core.lifecycle import Status
from gateway.core.records import Attempt, DestinationType, Move, NewBroadcast, SendOutcome, Withdrawal
from gateway.core.store import Writer
from gateway.core.substatus import SubStatus

FIRST_SLOT = 1_000_000
RAW_BYTES = {"evm": 116, "bitcoin": 222}
PAYLOAD_BYTES = 110
BATCH = 2_000
WAY = (Status.PENDING_ENRICHMENT, Status.QUEUED, Status.PENDING_SIGNATURE)


async def put_in_flight(gateway: Gateway, chain: str, count: int) -> None:
    """Have `count` more withdrawals in BROADCASTING, signed and sent once, spread over the chain's accounts."""
    async with gateway.store.read() as reader:
        accounts = await reader.accounts(chain)
    for start in range(0, count, BATCH):
        withdrawals = [
            _withdrawal(gateway, accounts[number % len(accounts)], number)
            for number in range(start, min(start + BATCH, count))
        ]
        # One transaction, so that no lane sees a payment half-way and works on it.
        async with gateway.store.write() as writer:
            await _write(writer, gateway.adapters[chain].info.family, withdrawals)


async def _write(writer: Writer, family: str, withdrawals: Sequence[Withdrawal]) -> None:
    now = utc_now()
    attempts = [_attempt(w, family) for w in withdrawals]
    await writer.accept(withdrawals, reason="accepted")
    await writer.move([Move(w, WAY, "crowd", now) for w in withdrawals])
    await writer.take(attempts)
    await writer.store_signed(
        {a.id: Signed(secrets.token_bytes(RAW_BYTES[family]), _hash(family)) for a in attempts}, now
    )
    signed = await writer.withdrawals([w.id for w in withdrawals])
    await writer.move([Move(w, (Status.BROADCASTING,), "crowd", now, SubStatus.SENDING_TO_NODE) for w in signed])
    await writer.record([NewBroadcast(a, "node", now, SendOutcome.SUBMITTED) for a in attempts])


def _withdrawal(gateway: Gateway, account: Account, number: int) -> Withdrawal:
    info, now = gateway.adapters[account.chain].info, utc_now()
    return Withdrawal(
        id=WithdrawalId(uuid7(now)),
        transaction_id=TransactionId(uuid7(now)),
        workspace_id=gateway.workspace,
        vault_id=account.vault_id,
        account_id=account.id,
        chain=account.chain,
        asset=info.asset,
        amount=1_000_000 + number,
        decimals=info.decimals,
        destination=f"0x{secrets.token_hex(20)}",
        destination_type=DestinationType.ONE_TIME,
        memo=None,
        fee_level=FeeLevel.MEDIUM,
        max_fee=5_000,
        status=Status.SUBMITTED,
        sub_status=SubStatus.NONE,
        status_changed_at=now,
        created_at=now,
        external_id=f"crowd-{secrets.token_hex(8)}",
    )


def _attempt(withdrawal: Withdrawal, family: str) -> Attempt:
    now = utc_now()
    return Attempt(
        id=AttemptId(uuid7(now)),
        withdrawal_id=withdrawal.id,
        account_id=withdrawal.account_id,
        chain=withdrawal.chain,
        kind=AttemptKind.PAYMENT,
        payload=secrets.token_bytes(PAYLOAD_BYTES),
        claims=(f"{_hash(family)}:{FIRST_SLOT}",),
        window_end=None,
        fee_max=withdrawal.max_fee,
        built_at=now,
    )


def _hash(family: str) -> str:
    return ("0x" if family == "evm" else "") + secrets.token_hex(32)
