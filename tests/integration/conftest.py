"""One rig per test, on each chain, with its own node: everything a test does to the chain is gone after it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from devnets.proxy import FaultProxy
from devnets.registry import CHAINS, create
from tests.devnets.presence import need
from tests.integration.rig import TRAITS, Rig

EVERY_CHAIN = [pytest.param(chain, marks=getattr(pytest.mark, chain)) for chain in CHAINS]


@pytest.fixture(params=EVERY_CHAIN)
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    need(request.param)
    assert request.param in TRAITS
    devnet = create(request.param, tmp_path / request.param)
    await devnet.start()
    try:
        async with FaultProxy(devnet.url) as proxy:
            with structlog.testing.capture_logs() as logs:
                yield Rig(devnet, proxy, tmp_path / "gateway", logs=logs)
    finally:
        await devnet.stop()
        for line in logs:
            print(line)
    surprises = [line for line in logs if "unexpected" in line["event"]]
    assert surprises == [], "the gateway met an error that it has no name for"
