"""`gateway tx …`: accept, list and show withdrawals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rich.console import Console
from rich.table import Column, Table

from db.store import SqlStore
from gateway.cli.timeline import draw
from gateway.config import Config
from gateway.core.chain import FeeLevel
from gateway.core.errors import BadRequest
from gateway.core.ids import TransactionId, WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.money import show
from gateway.core.records import Filter, History, Withdrawal
from gateway.core.store import Reader, Store
from gateway.intake import Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for."""

    vault: str
    asset: str
    amount: str
    destination: str
    memo: str | None
    external_id: str | None
    fee_level: FeeLevel
    max_fee: str | None


async def create(config: Config, wanted: Wanted, *, as_json: bool) -> None:
    """Accept one withdrawal and print its id."""
    from gateway.app import opened

    async with opened(config, signs=False) as gateway:
        vault = await gateway.vault(wanted.vault)
        try:
            for adapter in gateway.adapters.values():
                if adapter.info.asset == wanted.asset:
                    await adapter.node.open()
            request = Request(
                vault_id=vault.id,
                asset=wanted.asset,
                amount=wanted.amount,
                destination=wanted.destination,
                memo=wanted.memo,
                external_id=wanted.external_id,
                fee_level=wanted.fee_level,
                max_fee=wanted.max_fee,
            )
            withdrawal = await gateway.intake.accept(request)
        finally:
            for adapter in gateway.adapters.values():
                await adapter.node.close()
    print(json.dumps(summary(withdrawal)) if as_json else f"{withdrawal.id} {withdrawal.status}")


async def show_list(config: Config, *, status: Status | None, chain: str | None, limit: int, as_json: bool) -> None:
    """Print withdrawals, newest first."""
    async with _store(config) as store, store.read() as reader:
        found = await reader.search(Filter(status, chain, limit))
    if as_json:
        for withdrawal in found:
            print(json.dumps(summary(withdrawal)))
        return
    names = ("withdrawal", "chain", "amount", "destination", "status", "confirmations", "created")
    table = Table(*(Column(name, overflow="fold") for name in names))
    for w in found:
        amount = f"{show(w.amount, w.decimals)} {w.asset}"
        created = f"{w.created_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(str(w.id), w.chain, amount, w.destination, w.status, str(w.confirmations), created)
    Console().print(table)


async def show_one(config: Config, wanted: str, *, as_json: bool) -> None:
    """Print the time line of one withdrawal. BadRequest: it is not known."""
    async with _store(config) as store, store.read() as reader:
        history = await _find(reader, wanted)
    if history is None:
        raise BadRequest(f"no withdrawal has the id, external id or hash {wanted!r}")
    if as_json:
        print(json.dumps(details(history)))
    else:
        Console().print(draw(history), highlight=False)


def summary(withdrawal: Withdrawal) -> Mapping[str, Any]:
    """Return one withdrawal as a JSON object; amounts as text in coins."""
    w = withdrawal
    return {
        "chain": w.chain,
        "withdrawal_id": str(w.id),
        "transaction_id": str(w.transaction_id),
        "external_id": w.external_id,
        "status": w.status,
        "sub_status": w.sub_status,
        "asset": w.asset,
        "amount": show(w.amount, w.decimals),
        "destination": w.destination,
        "tx_hash": w.tx_hash,
        "confirmations": w.confirmations,
        "fee_paid": show(w.fee_paid, w.decimals),
        "alarm": w.alarm,
        "created_at": w.created_at.isoformat(),
    }


def details(history: History) -> Mapping[str, Any]:
    """Return the whole history of one withdrawal as a JSON object."""
    return {
        **summary(history.withdrawal),
        "events": [
            {"from": e.source, "to": e.target, "reason": e.reason, "at": e.at.isoformat()} for e in history.events
        ],
        "attempts": [
            {"id": str(a.id), "kind": a.kind, "tx_hash": a.tx_hash, "slot": list(a.claims)} for a in history.attempts
        ],
        "broadcasts": [
            {"number": b.attempt_number, "node": b.node, "outcome": b.outcome, "at": b.at.isoformat()}
            for b in history.broadcasts
        ],
        "confirmation_rows": [
            {
                "block": c.block_hash,
                "height": c.block_height,
                "at": c.confirmed_at.isoformat(),
                "reorged_at": c.reorged_at and c.reorged_at.isoformat(),
            }
            for c in history.confirmations
        ],
    }


@asynccontextmanager
async def _store(config: Config) -> AsyncIterator[Store]:
    store = SqlStore(config.store.url)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def _find(reader: Reader, wanted: str) -> History | None:
    found = [w for w in await _candidates(reader, wanted) if w is not None]
    return await reader.history(found[0].id) if found else None


async def _candidates(reader: Reader, wanted: str) -> Sequence[Withdrawal | None]:
    """Look for an id first, then for the caller's own id, then for a hash: of an attempt, or of the one that landed."""
    with suppress(ValueError):
        known = UUID(wanted)
        found = await reader.withdrawal(WithdrawalId(known)) or await reader.by_transaction(TransactionId(known))
        if found is not None:
            return [found]
    named = [await reader.by_external_id(workspace.id, wanted) for workspace in await reader.workspaces()]
    if any(named):
        return named
    # Nodes and explorers print hashes in either case.
    return await reader.by_hash(wanted) or await reader.by_hash(wanted.lower())
