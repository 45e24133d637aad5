"""Both networks with a proxy before each, for one campaign: its reorgs are nobody else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from devnets.network import Devnet
from devnets.proxy import FaultProxy
from devnets.registry import CHAINS, create
from tests.devnets.presence import need


@pytest.fixture
async def networks(tmp_path: Path) -> AsyncIterator[dict[str, tuple[Devnet, FaultProxy]]]:
    async with AsyncExitStack() as stack:
        found = {}
        for chain in CHAINS:
            need(chain)
            devnet = create(chain, tmp_path / chain)
            stack.push_async_callback(devnet.stop)
            await devnet.start()
            found[chain] = (devnet, await stack.enter_async_context(FaultProxy(devnet.url)))
        yield found
