"""One running devnet per test, of each chain that a test asks for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devnets.network import Devnet
from devnets.registry import CHAINS, create
from tests.devnets.payers import Payer, payer_on
from tests.devnets.presence import need

EVERY_CHAIN = [pytest.param(chain, marks=getattr(pytest.mark, chain)) for chain in CHAINS]


@pytest.fixture(params=EVERY_CHAIN)
async def devnet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Devnet]:
    need(request.param)
    devnet = create(request.param, tmp_path / request.param)
    await devnet.start()
    yield devnet
    await devnet.stop()


@pytest.fixture
async def payer(devnet: Devnet) -> Payer:
    payer = payer_on(devnet)
    await payer.prepare()
    return payer
