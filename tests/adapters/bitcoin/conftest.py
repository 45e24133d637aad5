"""A running node of the family, our adapter on it, and an independent client beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.bitcoin import make
from adapters.bitcoin.codec import BitcoinCodec
from adapters.bitcoin.coins import CoinFacts
from adapters.bitcoin.node import BitcoinNode
from devnets.bitcoin.client import Client
from devnets.bitcoin.network import BitcoinDevnet
from devnets.registry import create
from gateway.core.chain import LaneFacts
from tests.adapters.bitcoin.vault import Book
from tests.devnets.presence import need


@pytest.fixture
async def devnet(tmp_path: Path) -> AsyncIterator[BitcoinDevnet]:
    need("bitcoin")
    devnet = create("bitcoin", tmp_path / "bitcoin")
    assert isinstance(devnet, BitcoinDevnet)
    await devnet.start()
    yield devnet
    await devnet.stop()


@pytest.fixture
def witness(devnet: BitcoinDevnet) -> Client:
    """The node as another library sees it."""
    return Client(devnet.url)


@pytest.fixture
async def node(devnet: BitcoinDevnet, codec: BitcoinCodec) -> AsyncIterator[BitcoinNode]:
    node = BitcoinNode("chain", codec.settings)
    await node.open()
    yield node
    await node.close()


@pytest.fixture
def codec(devnet: BitcoinDevnet) -> BitcoinCodec:
    settings = {"coin": devnet.coin, "urls": [devnet.url], "poll_interval": 0.02}
    codec = make("chain", settings).codec
    assert isinstance(codec, BitcoinCodec)
    return codec


class Vault(Book):
    """A book whose coins are those that the node lists."""

    node: BitcoinNode
    devnet: BitcoinDevnet

    async def fund(self, *amounts: int) -> None:
        for amount in amounts:
            await self.devnet.fund(self.account.address, amount)
        await self.look()

    async def look(self) -> LaneFacts:
        facts = await self.node.survey(self.account, [])
        assert isinstance(facts, CoinFacts)
        self.coins = list(facts.coins)
        self.height = facts.height
        return facts


@pytest.fixture
def vault(devnet: BitcoinDevnet, node: BitcoinNode, codec: BitcoinCodec) -> Vault:
    vault = Vault(codec)
    vault.node, vault.devnet = node, devnet
    return vault
