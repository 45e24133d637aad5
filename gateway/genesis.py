"""One chain under two names would be two lanes on one account: whoever comes up second is refused."""

from __future__ import annotations

import structlog

from gateway.core.adapter import Adapter
from gateway.core.errors import ConfigError

log = structlog.get_logger(__name__)


class Genesis:
    """Which first block each running chain of this gateway has, as its nodes say."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    async def claim(self, adapter: Adapter) -> None:
        """Take a chain's first block for its name. ConfigError: another name has it; ChainError: not known now."""
        name = adapter.info.name
        first = await adapter.node.header(0)
        if first is None:
            log.warning("no node shows the first block, so a chain configured twice would go unseen", chain=name)
            return
        owner = self._owners.setdefault(first.hash, name)
        if owner != name:
            raise ConfigError([f"chain {name}: its first block is {first.hash}, and so is that of chain {owner}"])
