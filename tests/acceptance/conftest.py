"""Both real networks once for the folder; every test has its own gateway, keys and vaults on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devnets.network import Devnet
from devnets.registry import CHAINS, create
from tests.acceptance.site import Site
from tests.devnets.presence import need


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def both(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Devnet]]:
    folder = tmp_path_factory.mktemp("networks")
    devnets: dict[str, Devnet] = {}
    try:
        for chain in CHAINS:
            need(chain)
            devnets[chain] = create(chain, folder / chain)
            await devnets[chain].start()
        yield devnets
    finally:
        for devnet in devnets.values():
            await devnet.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def site(both: dict[str, Devnet], tmp_path: Path) -> Site:
    return Site(both, tmp_path / "gateway")
