"""People and places: workspaces, vaults, accounts, and which accounts may not sign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import insert, select, update

from db.schema import accounts, lane_events, vaults, workspaces
from db.session import Part, whole
from gateway.core.chain import Account
from gateway.core.ids import AccountId, uuid7
from gateway.core.records import Vault, Workspace


class PlaceReader(Part):
    """Reads."""

    async def workspaces(self) -> Sequence[Workspace]:
        rows = await self._sql.rows(select(workspaces).order_by(workspaces.c.id))
        return [Workspace(row.id, row.name) for row in rows]

    async def vaults(self) -> Sequence[Vault]:
        rows = await self._sql.rows(select(vaults).order_by(vaults.c.id))
        return [Vault(row.id, row.workspace_id, row.name) for row in rows]

    async def accounts(self, chain: str | None = None) -> Sequence[Account]:
        statement = select(accounts).order_by(accounts.c.id)
        if chain is not None:
            statement = statement.where(accounts.c.chain == chain)
        return [
            Account(
                id=row.id,
                vault_id=row.vault_id,
                chain=row.chain,
                address=row.address,
                key=row.key_name,
                public_key=bytes(row.public_key),
                opening=row.opening,
            )
            for row in await self._sql.rows(statement)
        ]

    async def halted(self) -> Mapping[AccountId, str]:
        """Accounts for which signing is refused, with the reason."""
        rows = await self._sql.rows(
            select(accounts.c.id, accounts.c.halted_reason).where(accounts.c.halted_reason.is_not(None))
        )
        return {row.id: row.halted_reason for row in rows}

    async def held_amount(self, account_id: AccountId) -> int:
        """Base units promised by withdrawals that are not in a block yet."""
        statement = select(accounts.c.held).where(accounts.c.id == account_id)
        held: int | None = (await self._sql.run(statement)).scalar()
        return held or 0


class PlaceWriter(PlaceReader):
    """Writes."""

    async def held_amount(self, account_id: AccountId) -> int:
        """Base units promised; nobody else promises any until this transaction ends."""
        statement = select(accounts.c.held).where(accounts.c.id == account_id).with_for_update(key_share=True)
        held: int | None = (await self._sql.run(statement)).scalar()
        return held or 0

    @whole
    async def add_workspace(self, workspace: Workspace) -> None:
        await self._sql.run(insert(workspaces).values(id=workspace.id, name=workspace.name))

    @whole
    async def add_vault(self, vault: Vault) -> None:
        await self._sql.run(insert(vaults).values(id=vault.id, workspace_id=vault.workspace_id, name=vault.name))

    @whole
    async def add_account(self, account: Account) -> None:
        """Duplicate: the address belongs to a vault already, or the vault has an account on the chain."""
        await self._sql.run(
            insert(accounts).values(
                id=account.id,
                vault_id=account.vault_id,
                chain=account.chain,
                address=account.address,
                key_name=account.key,
                public_key=account.public_key,
                opening=account.opening,
                held=0,
            )
        )

    @whole
    async def set_opening(self, account_id: AccountId, opening: str) -> None:
        await self._change(account_id, opening=opening)

    @whole
    async def halt(self, account_id: AccountId, reason: str, at: datetime) -> None:
        if (await self.halted()).get(account_id) != reason:
            await self._change(account_id, halted_reason=reason)
            await self._note(account_id, "halted", reason, at)

    @whole
    async def unhalt(self, account_id: AccountId, because: str, at: datetime) -> None:
        await self._change(account_id, halted_reason=None)
        await self._note(account_id, "resumed", because, at)

    async def _note(self, account_id: AccountId, event: str, reason: str, at: datetime) -> None:
        await self._sql.run(
            insert(lane_events).values(id=uuid7(at), account_id=account_id, event=event, reason=reason, occurred_at=at)
        )

    async def _change(self, account_id: AccountId, **values: str | None) -> None:
        await self._sql.change(
            update(accounts).where(accounts.c.id == account_id).values(**values), 1, f"account {account_id}"
        )
