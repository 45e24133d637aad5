"""One prepared desk on both real networks, copied for every test; nothing is ever signed for its vault."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from devnets.network import Devnet
from gateway.app import opened
from gateway.cli.sandbox import prepare
from gateway.config import load
from tests.acceptance.cli.desk import Desk

EVM_SECRET = "an-api-key-in-an-url"
COINS = 2


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def office(both: dict[str, Devnet], tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A vault with 2 ETH and 2 coins; the nodes' addresses hold credentials."""
    folder = tmp_path_factory.mktemp("office") / "gateway"
    urls = {"evm": [both["evm"].url.replace("://", f"://operator:{EVM_SECRET}@")]}
    await prepare(folder, both, urls=urls)
    await fund(folder, both)
    return Desk(folder, secrets_of(folder, both))


async def fund(folder: Path, devnets: dict[str, Devnet]) -> None:
    """Give the vault its coins."""
    async with opened(load(folder / "gateway.toml")) as gateway:
        for name, devnet in devnets.items():
            account = await gateway.account("hot-1", name)
            await devnet.fund(account.address, COINS * 10 ** gateway.adapters[name].info.decimals)


def secrets_of(folder: Path, devnets: dict[str, Devnet]) -> list[str]:
    """List what must never be shown."""
    in_url = urlsplit(devnets["bitcoin"].url).password
    assert in_url is not None
    return [EVM_SECRET, in_url, (folder / "password").read_text()]


@pytest.fixture
def desk(office: Desk, tmp_path: Path) -> Iterator[Desk]:
    """A copy of the office; after the test no secret may be found anywhere."""
    desk = office.copy(tmp_path / "gateway")
    yield desk
    desk.no_secret_is_out()


@pytest.fixture
def nobody_there() -> str:
    """An address at which no node listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://operator:{EVM_SECRET}@127.0.0.1:{free.getsockname()[1]}"
