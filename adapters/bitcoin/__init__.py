"""Bitcoin and its descendants: coins are the slots, a vault is one P2WPKH address."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.bitcoin.codec import BitcoinCodec
from adapters.bitcoin.node import BitcoinNode
from adapters.bitcoin.params import read_settings
from gateway.core.adapter import Adapter


def make(name: str, settings: Mapping[str, object]) -> Adapter:
    """Return both halves of a configured chain. Does no I/O. Raises ConfigError that lists every problem."""
    checked = read_settings(name, settings)
    return Adapter(codec=BitcoinCodec(name, checked), node=BitcoinNode(name, checked))
