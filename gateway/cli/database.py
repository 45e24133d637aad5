"""`gateway db …`: schema and reconciliation."""

from __future__ import annotations

import json

from rich.console import Console

from db import upgrade as schema
from gateway import journal
from gateway.app import opened
from gateway.clock import utc_now
from gateway.config import Config


async def upgrade(config: Config) -> None:
    """Bring the schema up to date."""
    await schema.upgrade(config.store.url)
    print("the database is up to date")


async def check(config: Config) -> bool:
    """Print every reason for which the gateway would refuse the database."""
    problems = await schema.check(config.store.url)
    for problem in problems:
        print(problem)
    if not problems:
        print("the database is as it should be")
    return not problems


async def reconcile(config: Config, *, as_json: bool) -> None:
    """Restore from the signer's journal what the store lost, and say what was restored."""
    async with opened(config) as gateway:
        restored = await journal.reconcile(gateway.store, gateway.signer, gateway.adapters, now=utc_now())
    console = Console()
    for item in restored:
        found = "withdrawal missing" if item.was is None else f"withdrawal was {item.was}"
        if as_json:
            print(
                json.dumps(
                    {
                        "sequence": item.line.sequence,
                        "withdrawal_id": str(item.line.withdrawal_id),
                        "attempt_id": str(item.line.attempt_id),
                        "chain": item.line.chain,
                        "was": item.was,
                    }
                )
            )
        else:
            console.print(f"{item.line.chain}: {item.line.withdrawal_id}: restored ({found})", highlight=False)
    if not as_json:
        console.print(f"{len(restored)} attempts restored; signing is allowed again")
