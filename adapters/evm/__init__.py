"""Ethereum and the chains that work like it: a slot is an address and a nonce, a vault is one address."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.evm.codec import EvmCodec
from adapters.evm.node import EvmNode
from adapters.evm.params import read_settings
from gateway.core.adapter import Adapter


def make(name: str, settings: Mapping[str, object]) -> Adapter:
    """Return both halves of a configured chain. Does no I/O. Raises ConfigError that lists every problem."""
    checked = read_settings(name, settings)
    return Adapter(codec=EvmCodec(name, checked), node=EvmNode(name, checked))
