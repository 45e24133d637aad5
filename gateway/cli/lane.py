"""`gateway lane …`: which lanes are halted, and letting one go on."""

from __future__ import annotations

import json

from rich.console import Console
from rich.table import Table

from gateway.app import opened
from gateway.clock import utc_now
from gateway.config import Config
from gateway.core.errors import BadRequest
from gateway.resume import resume as let_go_on


async def show(config: Config, *, as_json: bool) -> None:
    """Print every account with what it holds back, and why it is halted."""
    async with opened(config, signs=False) as gateway, gateway.store.read() as reader:
        accounts = await reader.accounts()
        halted = await reader.halted()
        vaults = {v.id: v.name for v in await reader.vaults()}
    rows = [(vaults[a.vault_id], a.chain, a.address, halted.get(a.id)) for a in accounts]
    if as_json:
        for vault, chain, address, reason in rows:
            print(json.dumps({"vault": vault, "chain": chain, "address": address, "halted": reason}))
        return
    table = Table("vault", "chain", "address", "halted")
    for vault, chain, address, reason in rows:
        table.add_row(vault, chain, address, reason or "")
    Console().print(table)


async def resume(config: Config, *, chain: str, address: str, because: str) -> None:
    """Let a halted lane sign again. BadRequest: why not."""
    async with opened(config, signs=False) as gateway:
        adapter = gateway.adapters.get(chain)
        if adapter is None:
            raise BadRequest(f"chain {chain!r} is not configured", field="chain")
        async with gateway.store.read() as reader:
            account = next((a for a in await reader.accounts(chain) if a.address == address), None)
        if account is None:
            raise BadRequest(f"no account {address} on {chain}", field="address")
        try:
            await adapter.node.open()
            reason = await let_go_on(gateway.store, adapter, account, because=because, now=utc_now())
        finally:
            await adapter.node.close()
    print(f"{address} may sign again; it was halted because {reason}")
