"""`gateway devnet …`: local networks, without a gateway."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from devnets import registry
from devnets.network import DevnetError, Interval, Manual
from devnets.up import Running, as_json, as_text
from devnets.up import up as keep_up


def choose(chains: Sequence[str]) -> Sequence[str]:
    """Return the chains to start: the wanted ones, or all that can run here. Exit 2: unknown or missing."""
    unknown = [c for c in chains if c not in registry.CHAINS]
    if unknown:
        print(f"error: no devnet for {', '.join(unknown)}; there are: {', '.join(registry.CHAINS)}", file=sys.stderr)
        raise typer.Exit(2)
    missing = {c: why for c in (chains or registry.CHAINS) if (why := registry.why_missing(c)) is not None}
    for why in missing.values():
        print(f"{'error' if chains else 'skipped'}: {why}", file=sys.stderr)
    if chains and missing:
        raise typer.Exit(2)
    found = [c for c in (chains or registry.CHAINS) if c not in missing]
    if not found:
        print("error: no local network can run here", file=sys.stderr)
        raise typer.Exit(2)
    return found


async def up(chains: Sequence[str], *, as_json: bool, folder: Path | None, block_time: float) -> None:
    """Start the networks, print how to reach them, and keep them until told to stop."""
    wanted = choose(chains)
    mining = Interval(block_time) if block_time > 0 else Manual()
    with tempfile.TemporaryDirectory(prefix="gateway-devnet-") as temporary:
        try:
            await keep_up(wanted, folder or Path(temporary), say=lambda r: _say(r, json=as_json), mining=mining)
        except DevnetError as error:
            print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(1) from None


def _say(running: Running, *, json: bool) -> None:
    print(as_json(running) if json else as_text(running), flush=True)
