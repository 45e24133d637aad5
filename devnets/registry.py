"""Which local networks there are, and how to get one by the chain's name."""

from __future__ import annotations

import os
from pathlib import Path

from devnets.network import Devnet, DevnetMissing, Manual, Mining

CHAINS = ("evm", "bitcoin")
MANUAL = Manual()

# The chains' own modules are imported where they are needed, because their SDKs take seconds to load.


def external_url(chain: str) -> str | None:
    """Return the URL of a node that somebody else runs for this chain, from GATEWAY_DEVNET_<CHAIN>_URL."""
    return os.environ.get(f"GATEWAY_DEVNET_{chain.upper()}_URL") or None


def why_missing(chain: str) -> str | None:
    """Return in one line what is missing for this chain's network and how to get it; None when nothing is."""
    if external_url(chain) is not None:
        return None
    try:
        _find(chain)
    except DevnetMissing as missing:
        return str(missing)
    return None


def available() -> tuple[str, ...]:
    """Name the chains whose network can be started, or reached at a given URL, here and now."""
    return tuple(chain for chain in CHAINS if why_missing(chain) is None)


def create(chain: str, folder: Path, *, seed: str = "devnet", mining: Mining = MANUAL) -> Devnet:
    """Describe the chain's network, with its data and log in `folder`; `start` starts it.

    Where GATEWAY_DEVNET_<CHAIN>_URL is set it is the node at that URL, which raises LeverMissing for what
    cannot be done to it. Raises DevnetMissing when the program is not there.
    """
    external = external_url(chain)
    match chain:
        case "evm":
            from devnets.evm import network as evm

            return evm.create(folder, seed=seed, mining=mining, external=external)
        case "bitcoin":
            from devnets.bitcoin import network as bitcoin

            return bitcoin.create(folder, seed=seed, mining=mining, external=external)
        case _:
            raise ValueError(f"no devnet for {chain!r}: there are {', '.join(CHAINS)}")


def _find(chain: str) -> None:
    match chain:
        case "evm":
            from devnets.evm import node as evm

            evm.find()
        case "bitcoin":
            from devnets.bitcoin import node as bitcoin

            bitcoin.find()
        case _:
            raise ValueError(f"no devnet for {chain!r}: there are {', '.join(CHAINS)}")
