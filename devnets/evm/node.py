"""Where anvil is and which flags it gets."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from devnets.network import DevnetMissing, Interval, Mining

NODE_MODULES = Path(__file__).parent.parent / "node_modules"
ACCOUNTS = 50
BALANCE_ETHER = 1_000_000_000
EMPTY_LIMIT = 20_000  # below the 21 000 gas of the cheapest transaction, so that none fits
GAS_LIMIT = 30_000_000
# Balances can be asked for, and blocks reorged away, as deep as geth keeps states. All states would be 170 kB
# per block in memory and on disk: 2 000 blocks took ten seconds to write.
STATES = 128


@dataclass(frozen=True)
class Settings:
    """What can be chosen about the chain. One slot per epoch makes head - 2 the finalized block."""

    mnemonic: str
    mining: Mining
    chain_id: int = 31337
    slots_in_an_epoch: int = 1


def find() -> Path:
    """Return the anvil binary: the one that `npm ci` in devnets/ installed, else the one on PATH."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    ours = NODE_MODULES / "@foundry-rs" / f"anvil-{sys.platform}-{machine}" / "bin" / "anvil"
    if os.access(ours, os.X_OK):
        return ours
    on_path = shutil.which("anvil")
    if on_path is None:
        raise DevnetMissing("anvil is missing: run `npm ci` in devnets/, or put Foundry's anvil on PATH")
    return Path(on_path)


def command(binary: Path, settings: Settings, folder: Path, port: int) -> list[str]:
    """Return the command line; the chain is kept in `folder` when the node ends by TERM."""
    mining = ["--no-mining"]
    if isinstance(settings.mining, Interval):
        mining = ["--block-time", str(settings.mining.seconds)]
    return [
        str(binary),
        f"--port={port}",
        "--host=127.0.0.1",
        f"--chain-id={settings.chain_id}",
        f"--slots-in-an-epoch={settings.slots_in_an_epoch}",
        f"--mnemonic={settings.mnemonic}",
        f"--accounts={ACCOUNTS}",
        f"--balance={BALANCE_ETHER}",
        f"--gas-limit={GAS_LIMIT}",
        "--order=fifo",
        f"--state={folder / 'anvil.json'}",
        "--preserve-historical-states",  # else no block from before a restart can be reorged away
        f"--prune-history={STATES}",
        f"--cache-path={folder / 'cache'}",  # else each run leaves a folder in ~/.foundry
        *mining,
    ]
