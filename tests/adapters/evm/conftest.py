"""A running anvil, our adapter on it, and web3 beside it as a witness that nobody here wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from adapters.evm import make
from adapters.evm.codec import EvmCodec, EvmFacts
from adapters.evm.node import EvmNode
from devnets.evm.client import Client
from devnets.evm.network import EvmDevnet
from devnets.proxy import FaultProxy
from devnets.registry import create
from gateway.core.chain import Build, Hold, Lane, Pending, Reject, Sent, Unsigned
from tests.adapters.evm.vault import ELSEWHERE, ETHER, Book
from tests.devnets.presence import need


@pytest.fixture
async def devnet(tmp_path: Path) -> AsyncIterator[EvmDevnet]:
    need("evm")
    devnet = create("evm", tmp_path / "evm")
    assert isinstance(devnet, EvmDevnet)
    await devnet.start()
    yield devnet
    await devnet.stop()


@pytest.fixture
async def proxy(devnet: EvmDevnet) -> AsyncIterator[FaultProxy]:
    """What our adapter talks to; it lets everything pass until a test says otherwise."""
    async with FaultProxy(devnet.url) as proxy:
        yield proxy


@pytest.fixture
async def witness(devnet: EvmDevnet) -> AsyncIterator[Client]:
    client = Client(devnet.url)
    yield client
    await client.close()


@dataclass
class Live(Book):
    """A book whose facts and fees are those that the node gives."""

    node: EvmNode = None  # type: ignore[assignment]
    facts: EvmFacts | None = None

    @property
    def lane(self) -> Lane:
        assert self.facts is not None, "ask() comes first"
        return replace(super().lane, facts=self.facts)

    async def ask(self) -> EvmFacts:
        facts = await self.node.survey(self.account, self.intents)
        assert isinstance(facts, EvmFacts)
        self.facts = facts
        self.fees = await self.node.fees()
        return facts

    async def built(self, order: Build) -> Unsigned | Hold | Reject:
        await self.ask()
        return self.build(order)

    async def signed(self, number: int = 1, amount: int = ETHER, destination: str = ELSEWHERE) -> Pending:
        order = self.order(self.intent(number, amount, destination))
        await self.ask()
        return self.send(order)

    async def sent(self, number: int = 1, amount: int = ETHER, destination: str = ELSEWHERE) -> Pending:
        attempt = await self.signed(number, amount, destination)
        await self.offer(attempt)
        return attempt

    async def offer(self, attempt: Pending) -> Sent:
        return await self.node.send(attempt.raw, attempt.tx_hash)


@pytest.fixture
async def live(devnet: EvmDevnet, proxy: FaultProxy) -> AsyncIterator[Live]:
    adapter = make("eth", {"chain_id": devnet.chain_id, "urls": [proxy.url], "poll_interval": 0.02, "timeout": 5.0})
    assert isinstance(adapter.codec, EvmCodec)
    assert isinstance(adapter.node, EvmNode)
    await adapter.node.open()
    live = Live(adapter.codec, node=adapter.node)
    await devnet.fund(live.account.address, 100 * ETHER)
    yield live
    await adapter.node.close()
