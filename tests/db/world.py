"""A small world to test the store in: places, withdrawals, attempts, and short ways to move them along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from db.store import SqlStore
from gateway.core.chain import Account, AttemptKind, BlockRef, FeeLevel, Signed
from gateway.core.ids import AccountId, AttemptId, TransactionId, VaultId, WithdrawalId, WorkspaceId, uuid7
from gateway.core.lifecycle import Status
from gateway.core.records import (
    Attempt,
    DestinationType,
    History,
    Move,
    NewBroadcast,
    SendOutcome,
    Vault,
    Withdrawal,
    Workspace,
)
from gateway.core.substatus import SubStatus

S = Status


def now() -> datetime:
    return datetime.now(UTC)


def new_id() -> UUID:
    return uuid7(now())


def block(height: int, name: str = "a") -> BlockRef:
    return BlockRef(height, f"{name}{height}-{new_id().hex}", f"{name}{height - 1}")


@dataclass
class World:
    """A workspace with accounts on a chain that no other test uses."""

    store: SqlStore
    workspace: Workspace
    chain: str
    accounts: list[Account]

    @classmethod
    async def make(cls, store: SqlStore, accounts: int = 3) -> World:
        workspace = Workspace(WorkspaceId(new_id()), "tests")
        world = cls(store, workspace, f"chain-{workspace.id.hex[16:]}", [])
        async with store.write() as writer:
            await writer.add_workspace(workspace)
            for number in range(accounts):
                vault = Vault(VaultId(new_id()), workspace.id, f"vault {number}")
                await writer.add_vault(vault)
                account = Account(
                    id=AccountId(new_id()),
                    vault_id=vault.id,
                    chain=world.chain,
                    address=f"address-{vault.id.hex}",
                    key=f"key-{number}",
                    public_key=bytes([number]) * 33,
                )
                await writer.add_account(account)
                world.accounts.append(account)
        return world

    def withdrawal(self, **changes: Any) -> Withdrawal:
        account = changes.pop("account", self.accounts[0])
        at = changes.pop("at", now())
        fields: dict[str, Any] = {
            "id": WithdrawalId(new_id()),
            "transaction_id": TransactionId(new_id()),
            "workspace_id": self.workspace.id,
            "vault_id": account.vault_id,
            "account_id": account.id,
            "chain": self.chain,
            "asset": "COIN",
            "amount": 1_000_000,
            "decimals": 18,
            "destination": "somewhere",
            "destination_type": DestinationType.ONE_TIME,
            "memo": None,
            "fee_level": FeeLevel.MEDIUM,
            "max_fee": 5_000,
            "status": S.SUBMITTED,
            "sub_status": SubStatus.NONE,
            "status_changed_at": at,
            "created_at": at,
        }
        return Withdrawal(**{**fields, **changes})

    def attempt(self, withdrawal: Withdrawal, *claims: str, **changes: Any) -> Attempt:
        fields: dict[str, Any] = {
            "id": AttemptId(new_id()),
            "withdrawal_id": withdrawal.id,
            "account_id": withdrawal.account_id,
            "chain": withdrawal.chain,
            "kind": AttemptKind.PAYMENT,
            "payload": b"unsigned " + withdrawal.id.bytes,
            "claims": claims,
            "window_end": None,
            "fee_max": withdrawal.max_fee,
            "built_at": now(),
        }
        return Attempt(**{**fields, **changes})

    async def accept(self, *withdrawals: Withdrawal) -> None:
        async with self.store.write() as writer:
            await writer.accept(withdrawals, reason="accepted")

    async def accepted(self, **changes: Any) -> Withdrawal:
        withdrawal = self.withdrawal(**changes)
        await self.accept(withdrawal)
        return await self.get(withdrawal.id)

    async def get(self, withdrawal_id: WithdrawalId) -> Withdrawal:
        async with self.store.read() as reader:
            found = await reader.withdrawal(withdrawal_id)
        assert found is not None
        return found

    async def move(self, withdrawal: Withdrawal, *path: Status, **more: Any) -> Withdrawal:
        async with self.store.write() as writer:
            await writer.move([Move(withdrawal, path, "test", now(), **more)])
        return await self.get(withdrawal.id)

    async def queued(self, **changes: Any) -> Withdrawal:
        return await self.move(await self.accepted(**changes), S.PENDING_ENRICHMENT, S.QUEUED)

    async def built(self, *claims: str, **changes: Any) -> tuple[Withdrawal, Attempt]:
        withdrawal = await self.queued(**changes)
        attempt = self.attempt(withdrawal, *claims)
        async with self.store.write() as writer:
            await writer.take([attempt])
        return await self.move(withdrawal, S.PENDING_SIGNATURE), await self.stored(attempt)

    async def signed(self, *claims: str, **changes: Any) -> tuple[Withdrawal, Attempt]:
        withdrawal, attempt = await self.built(*claims, **changes)
        await self.sign(attempt)
        return await self.move(withdrawal, S.BROADCASTING), await self.stored(attempt)

    async def sent(self, *claims: str, **changes: Any) -> tuple[Withdrawal, Attempt]:
        withdrawal, attempt = await self.signed(*claims, **changes)
        await self.record(attempt)
        return await self.get(withdrawal.id), await self.stored(attempt)

    async def sign(self, attempt: Attempt, tx_hash: str = "") -> None:
        async with self.store.write() as writer:
            signed = Signed(b"signed " + attempt.id.bytes, tx_hash or f"hash-{attempt.id.hex}")
            await writer.store_signed({attempt.id: signed}, now())

    async def record(self, attempt: Attempt, outcome: SendOutcome = SendOutcome.SUBMITTED, first: bool = True) -> None:
        async with self.store.write() as writer:
            await writer.record([NewBroadcast(attempt, "node-1", now(), outcome, first)])

    async def stored(self, attempt: Attempt) -> Attempt:
        (found,) = [one for one in await self.family(attempt.withdrawal_id) if one.id == attempt.id]
        return found

    async def family(self, withdrawal_id: WithdrawalId) -> Sequence[Attempt]:
        async with self.store.read() as reader:
            return await reader.family(withdrawal_id)

    async def history(self, withdrawal_id: WithdrawalId) -> History:
        async with self.store.read() as reader:
            found = await reader.history(withdrawal_id)
        assert found is not None
        return found

    async def held_amount(self, number: int = 0) -> int:
        async with self.store.read() as reader:
            return await reader.held_amount(self.accounts[number].id)
