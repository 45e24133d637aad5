"""Facts made up for unit tests: withdrawals, attempts, blocks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from gateway.core.chain import AttemptKind, BlockRef, FeeLevel
from gateway.core.ids import AccountId, AttemptId, TransactionId, VaultId, WithdrawalId, WorkspaceId
from gateway.core.lifecycle import Status
from gateway.core.records import Attempt, DestinationType, Withdrawal
from gateway.core.substatus import SubStatus

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ACCOUNT = AccountId(UUID(int=5))


def withdrawal(number: int = 1, status: Status = Status.BROADCASTING, **changes: Any) -> Withdrawal:
    """A withdrawal of 1000 to `destination`, fee at most 100."""
    made = Withdrawal(
        id=WithdrawalId(UUID(int=number)),
        transaction_id=TransactionId(UUID(int=1000 + number)),
        workspace_id=WorkspaceId(UUID(int=2)),
        vault_id=VaultId(UUID(int=3)),
        account_id=ACCOUNT,
        chain="chain",
        asset="COIN",
        amount=1000,
        decimals=8,
        destination="destination",
        destination_type=DestinationType.ONE_TIME,
        memo=None,
        fee_level=FeeLevel.MEDIUM,
        max_fee=100,
        status=status,
        sub_status=SubStatus.NONE,
        status_changed_at=NOW,
        created_at=NOW,
    )
    return replace(made, **changes)


def attempt(number: int = 1, of: Withdrawal | None = None, **changes: Any) -> Attempt:
    """A signed payment attempt with hash `h<number>` and claim `c<number>`."""
    owner = of or withdrawal()
    made = Attempt(
        id=AttemptId(UUID(int=10_000 + number)),
        withdrawal_id=owner.id,
        account_id=owner.account_id,
        chain=owner.chain,
        kind=AttemptKind.PAYMENT,
        payload=b"payload",
        claims=(f"c{number}",),
        window_end=None,
        fee_max=100,
        built_at=NOW,
        raw=b"raw",
        tx_hash=f"h{number}",
        signed_at=NOW,
        recorded=True,
    )
    return replace(made, **changes)


def block(height: int, branch: str = "a") -> BlockRef:
    """Block `<branch><height>`, on top of the one before it of the same branch."""
    return BlockRef(height, f"{branch}{height}", f"{branch}{height - 1}")
