"""Resuming a halted lane: a person has explained what the gateway could not."""

from __future__ import annotations

from datetime import datetime

from gateway.core.adapter import Adapter
from gateway.core.chain import Account
from gateway.core.errors import BadRequest
from gateway.core.store import Store
from gateway.journal import BEHIND


async def resume(store: Store, adapter: Adapter, account: Account, *, because: str, now: datetime) -> str:
    """Let a halted account sign again from the state that the chain shows now; return why it was halted.

    What the chain shows becomes the account's opening state, and `because` stays in its history for ever. BadRequest:
    it is not halted, no grounds are given, or the store is behind the journal (which only a reconciliation mends).
    """
    if not because.strip():
        raise BadRequest("say on what grounds", field="because")
    async with store.read() as reader:
        reason = (await reader.halted()).get(account.id)
    if reason is None:
        raise BadRequest(f"{account.address} is not halted", field="address")
    if reason.startswith(BEHIND):
        raise BadRequest(f"{account.address}: {reason}", field="address")
    opening = await adapter.node.opening(account)
    async with store.write() as writer:
        await writer.set_opening(account.id, opening)
        await writer.unhalt(account.id, because, now)
    return reason
