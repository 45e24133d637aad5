"""Which Bitcoin-family node is here and which flags it gets."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from embit.networks import NETWORKS

from devnets.network import DevnetMissing

# Debian's /usr/bin/litecoind is a shell wrapper that writes into ~/.litecoin.
LITECOIND = Path("/usr/lib/litecoin/litecoind")
USER = "devnet"
HOW_TO_GET_IT = "no Bitcoin-family node: put bitcoind on PATH, or `apt-get install litecoind`"


@dataclass(frozen=True)
class Coin:
    """One coin's regtest. `network` is embit's table of address versions and prefixes."""

    name: str
    network: dict[str, object]
    flags: tuple[str, ...] = ()


BITCOIN = Coin("bitcoin-regtest", dict(NETWORKS["regtest"]))
LITECOIN = Coin(
    "litecoin-regtest",
    {**NETWORKS["regtest"], "bech32": "rltc", "p2sh": b"\x3a"},
    (
        "-mempoolreplacement=1",  # off by default: every replacement is then txn-mempool-conflict
        "-vbparams=mweb:-2:-2",  # MWEB never; with the default, mining stops for ever at height 431
    ),
)
COINS = {coin.name: coin for coin in (BITCOIN, LITECOIN)}


def find() -> tuple[Path, Coin]:
    """Return the node to run and its coin: bitcoind on PATH first, else litecoind."""
    if bitcoind := shutil.which("bitcoind"):
        return Path(bitcoind), BITCOIN
    if os.access(LITECOIND, os.X_OK):
        return LITECOIND, LITECOIN
    if litecoind := shutil.which("litecoind"):
        return Path(litecoind), LITECOIN
    raise DevnetMissing(HOW_TO_GET_IT)


def command(binary: Path, coin: Coin, folder: Path, *, port: int, password: str) -> list[str]:
    """Return the command line of a node without peers and without a wallet."""
    return [
        str(binary),
        "-regtest",
        f"-datadir={folder}",
        "-server=1",
        f"-rpcport={port}",
        "-rpcbind=127.0.0.1",
        "-rpcallowip=127.0.0.1",
        f"-rpcuser={USER}",
        f"-rpcpassword={password}",
        "-rpcworkqueue=256",
        "-connect=0",
        "-listen=0",
        "-dnsseed=0",
        "-disablewallet",
        "-acceptnonstdtxn=0",
        "-printtoconsole=1",
        "-debuglogfile=0",
        *coin.flags,
    ]
