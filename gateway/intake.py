"""Intake: check a request completely, then accept it once; a refused request leaves nothing behind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.clock import Clock
from gateway.core.adapter import Adapter
from gateway.core.chain import Account, FeeLevel, FeeQuote
from gateway.core.errors import BadRequest, Duplicate
from gateway.core.ids import TransactionId, VaultId, WithdrawalId, WorkspaceId, uuid7
from gateway.core.lifecycle import Status
from gateway.core.money import show, to_base_units
from gateway.core.records import DestinationType, Withdrawal
from gateway.core.store import Reader, Store
from gateway.core.substatus import SubStatus

DUPLICATE_EXTERNAL_ID = 1438
MAX_EXTERNAL_ID = 255
MAX_MEMO = 64
MAX_NOTE = 2048
QUOTE_SECONDS = 2.0
"""How long a node's fees serve further requests; the lane asks again before it builds."""


@dataclass(frozen=True, slots=True)
class Request:
    """A withdrawal as asked for. `amount` and `max_fee` in coins, as text; `max_fee` None: the chain's usual."""

    vault_id: VaultId
    asset: str
    amount: str
    destination: str
    memo: str | None = None
    external_id: str | None = None
    fee_level: FeeLevel = FeeLevel.MEDIUM
    max_fee: str | None = None
    destination_type: DestinationType = DestinationType.ONE_TIME
    note: str | None = None


class Intake:
    """Accepts withdrawals for the configured chains."""

    def __init__(self, store: Store, adapters: Mapping[str, Adapter], workspace: WorkspaceId, *, now: Clock) -> None:
        self._store = store
        self._by_asset = {adapter.info.asset: adapter for adapter in adapters.values()}
        self._workspace = workspace
        self._now = now
        self._quotes: dict[str, tuple[float, FeeQuote]] = {}

    async def accept(self, request: Request) -> Withdrawal:
        """Accept one request; BadRequest says what is wrong with it and nothing was stored.

        The same external id with the same content returns the withdrawal that exists; with another content it is
        refused. NodeUnavailable: fees or balance could not be read, nothing was stored, ask again.
        """
        return (await self.accept_all([request]))[0]

    async def accept_all(self, requests: Sequence[Request]) -> Sequence[Withdrawal]:
        """Accept all of the requests in one database transaction, or none of them."""
        async with self._store.read() as reader:
            accounts = {(a.vault_id, a.chain): a for a in await reader.accounts()}
        checked = [await self._check(request, accounts) for request in requests]
        try:
            return await self._write(checked)
        except Duplicate:
            # Another process accepted one of these ids between our look and our write: look again, once.
            return await self._write(checked)

    async def _check(
        self, request: Request, accounts: Mapping[tuple[VaultId, str], Account]
    ) -> tuple[Withdrawal, Adapter, Account]:
        adapter = self._by_asset.get(request.asset)
        if adapter is None:
            known = ", ".join(sorted(self._by_asset))
            raise BadRequest(f"unknown asset {request.asset!r}; configured: {known}", field="assetId")
        info = adapter.info
        account = accounts.get((request.vault_id, info.name))
        if account is None:
            raise BadRequest(f"vault {request.vault_id} has no account on {info.name}", field="source")
        _check_text(request.external_id, "externalTxId", MAX_EXTERNAL_ID)
        _check_text(request.memo, "memo", MAX_MEMO)
        _check_text(request.note, "note", MAX_NOTE)
        amount = to_base_units(request.amount, info.decimals)
        destination = adapter.codec.check_destination(request.destination, request.memo)
        if destination == account.address:
            raise BadRequest("the destination is the source itself", field="destination")
        adapter.codec.check_amount(amount, destination)
        max_fee = await self._max_fee(request, adapter)
        now = self._now()
        transaction = TransactionId(uuid7(now))
        withdrawal = Withdrawal(
            id=WithdrawalId(uuid7(now)),
            transaction_id=transaction,
            workspace_id=self._workspace,
            vault_id=account.vault_id,
            account_id=account.id,
            chain=info.name,
            asset=info.asset,
            amount=amount,
            decimals=info.decimals,
            destination=destination,
            destination_type=request.destination_type,
            memo=request.memo,
            fee_level=request.fee_level,
            max_fee=max_fee,
            status=Status.SUBMITTED,
            sub_status=SubStatus.NONE,
            status_changed_at=now,
            created_at=now,
            external_id=request.external_id,
            note=request.note,
        )
        return withdrawal, adapter, account

    async def _write(self, checked: Sequence[tuple[Withdrawal, Adapter, Account]]) -> Sequence[Withdrawal]:
        answer: list[Withdrawal] = []
        fresh: list[tuple[Withdrawal, Adapter, Account]] = []
        async with self._store.read() as reader:
            for item in checked:
                known = await self._known(reader, item[0], [f[0] for f in fresh])
                answer.append(known or item[0])
                if known is None:
                    fresh.append(item)
        balances = {
            account_id: await adapter.node.balance(address)
            for account_id, (adapter, address) in {a.id: (ad, a.address) for _, ad, a in fresh}.items()
        }
        if fresh:
            async with self._store.write() as writer:
                for account_id, balance in sorted(balances.items()):  # one order, for each is locked
                    wanted = [(w, a) for w, a, account in fresh if account.id == account_id]
                    _check_funds(balance - await writer.held_amount(account_id), wanted)
                await writer.accept([w for w, _, _ in fresh], reason="accepted")
        return answer

    async def _known(self, reader: Reader, withdrawal: Withdrawal, earlier: Sequence[Withdrawal]) -> Withdrawal | None:
        if withdrawal.external_id is None:
            return None
        known = next((w for w in earlier if w.external_id == withdrawal.external_id), None)
        known = known or await reader.by_external_id(self._workspace, withdrawal.external_id)
        if known is not None and _content(known) != _content(withdrawal):
            raise BadRequest(
                f"external id {withdrawal.external_id!r} belongs to another withdrawal already",
                field="externalTxId",
                code=DUPLICATE_EXTERNAL_ID,
            )
        return known

    async def _max_fee(self, request: Request, adapter: Adapter) -> int:
        if request.max_fee is not None:
            return to_base_units(request.max_fee, adapter.info.decimals, field="maxFee")
        name = adapter.info.name
        age, quote = self._quotes.get(name, (0.0, None))
        if quote is None or time.monotonic() - age > QUOTE_SECONDS:
            quote = await adapter.node.fees()
            self._quotes[name] = (time.monotonic(), quote)
        return adapter.codec.fee_ceiling(quote, request.fee_level)


def _check_funds(available: int, wanted: Sequence[tuple[Withdrawal, Adapter]]) -> None:
    for withdrawal, _ in wanted:
        cost = withdrawal.amount + withdrawal.max_fee
        if cost > available:
            raise BadRequest(
                f"not enough funds: {show(withdrawal.amount, withdrawal.decimals)} {withdrawal.asset} and a fee of at "
                f"most {show(withdrawal.max_fee, withdrawal.decimals)} are wanted, "
                f"{show(max(available, 0), withdrawal.decimals)} are free in this vault",
                field="amount",
            )
        available -= cost


def _check_text(text: str | None, field: str, longest: int) -> None:
    if text is None:
        return
    if not text or len(text) > longest or any(ord(c) < 32 and c not in "\n\t" for c in text):
        raise BadRequest(f"{field} must be 1 to {longest} printable characters", field=field)


def _content(withdrawal: Withdrawal) -> tuple[object, ...]:
    return (
        withdrawal.vault_id,
        withdrawal.asset,
        withdrawal.amount,
        withdrawal.destination,
        withdrawal.memo,
        withdrawal.destination_type,
    )
