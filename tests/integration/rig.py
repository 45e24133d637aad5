"""The rig: a real node that makes a block when told, a gateway in this process, and what a test does with both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from devnets.faults import Fault
from devnets.network import Devnet
from devnets.proxy import FaultProxy, Rule
from gateway.app import Gateway, opened
from gateway.audit import audit
from gateway.cli.demo import running
from gateway.cli.sandbox import prepare
from gateway.config import Config
from gateway.core.chain import Account
from gateway.core.ids import WithdrawalId
from gateway.core.lifecycle import Status
from gateway.core.money import show
from gateway.core.records import Book, History, Withdrawal
from gateway.core.substatus import SubStatus
from gateway.intake import Request
from tests.integration.hands import Hand, hand_for

PATIENCE = 30.0
"""Seconds after which a test that still waits has failed."""
GLANCE = 0.03

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "evm": {"threshold": 2},
    "bitcoin": {"threshold": 2, "finality_depth": 4},
}
"""Small numbers: COMPLETED with two blocks, final with three (by the node's own tag) or four."""
SLOW_FINALITY: Mapping[str, Mapping[str, Any]] = {"evm": {"finality": 6}, "bitcoin": {"finality_depth": 7}}
"""For tests that look between a reorg and its finality."""


class Trait(StrEnum):
    """What a statement needs of a chain, where it is not true of every one."""

    COUNTER = "a counter orders the payments of an account"
    COINS = "payments spend coins, also such that wait for a block"
    CODE = "a destination can hold code"


TRAITS: Mapping[str, frozenset[Trait]] = {
    "evm": frozenset({Trait.COUNTER, Trait.CODE}),
    "bitcoin": frozenset({Trait.COINS}),
}


@dataclass
class Rig:
    """One chain's network with a proxy before it, and the folder of the gateway that a test runs there."""

    devnet: Devnet
    proxy: FaultProxy
    folder: Path
    config: Config | None = None
    vaults: tuple[str, ...] = ("hot-1",)
    logs: list[Any] = field(default_factory=list)

    @property
    def chain(self) -> str:
        """The chain's name."""
        return self.devnet.name

    @property
    def hand(self) -> Hand:
        """What can be done on this chain behind the gateway's back."""
        return hand_for(self.devnet)

    def needs(self, trait: Trait) -> None:
        """Skip where the statement has no meaning: not a hole, a fact about the chain."""
        if trait not in TRAITS[self.chain]:
            pytest.skip(f"{self.chain} is not so: {trait}")

    def fault(self, fault: Fault, *, times: int | None = None, method: str = "*") -> Rule:
        """Let the proxy spoil the gateway's calls."""
        return self.proxy.rule(method, fault, times=times)

    def fault_of_send(self, fault: Fault, *, times: int | None = None) -> Rule:
        """Let the proxy spoil the calls that offer signed bytes."""
        return self.proxy.rule(self.hand.send_method, fault, times=times)

    async def prepare(
        self,
        *,
        vaults: int = 1,
        store: str = "sqlite:///gateway.db",
        timing: Mapping[str, float] | None = None,
        alone: bool = True,
        **settings: Any,
    ) -> Config:
        """Write the configuration of a gateway behind the proxy; `settings` are the chain's own.

        Not `alone`: the node is there a second time, as an endpoint that no proxy spoils.
        """
        self.vaults = tuple(f"hot-{number + 1}" for number in range(vaults))
        self.config = await prepare(
            self.folder,
            {self.chain: self.devnet},
            vaults=self.vaults,
            store=store,
            urls={self.chain: [self.proxy.url] if alone else [self.proxy.url, self.devnet.url]},
            chain_settings={self.chain: {**SETTINGS[self.chain], **settings}},
            timing={"resend_after": 0.5, "poll": 0.2, "lane_poll": 0.1, "retry_pause": 0.1, **(timing or {})},
        )
        return self.config

    @asynccontextmanager
    async def standing(self, config: Config | None = None) -> AsyncIterator[Desk]:
        """Open the gateway, not yet at work: requests are accepted, and stay."""
        config = config or self.config or await self.prepare()
        async with opened(config) as gateway:
            adapter = gateway.adapters[self.chain]
            try:
                yield Desk(self, gateway)
            finally:
                await adapter.node.close()

    @asynccontextmanager
    async def working(self, config: Config | None = None, *, at_once: bool = True) -> AsyncIterator[Desk]:
        """Open the gateway and let it work while the body runs; `at_once`: the node is there to be followed."""
        async with self.standing(config) as desk, running(desk.gateway):
            if at_once:
                await desk.tracking()
            yield desk


@dataclass
class Desk:
    """A gateway of one chain, and short words for what tests ask of it."""

    rig: Rig
    gateway: Gateway

    # money in, requests in

    async def account(self, vault: str = "hot-1") -> Account:
        """Return a vault's account."""
        return await self.gateway.account(vault, self.rig.chain)

    async def fund(self, coins: int = 1, *, vaults: Iterable[str] = (), each: int | None = None) -> None:
        """Pay `coins` payments of `each` (ten whole coins) to every vault, or to those named."""
        amount = self.unit * 10 if each is None else each
        for vault in vaults or self.rig.vaults:
            for _ in range(coins):
                await self.rig.devnet.fund((await self.account(vault)).address, amount)

    @property
    def unit(self) -> int:
        """Base units of one coin."""
        return int(10 ** self.gateway.adapters[self.rig.chain].info.decimals)

    async def destination(self, name: str) -> str:
        """Return an address that nobody has paid yet, the same one for the same name."""
        adapter = self.gateway.adapters[self.rig.chain]
        key = await self.gateway.signer.public_key(f"destination/{name}", adapter.info.algorithm)
        return adapter.codec.address_of(key)

    async def request(
        self, name: str, *, vault: str = "hot-1", amount: int | None = None, destination: str | None = None
    ) -> Request:
        """Make a request whose name is its external id and gives its destination."""
        info = self.gateway.adapters[self.rig.chain].info
        wanted = self.unit // 100 if amount is None else amount
        return Request(
            (await self.gateway.vault(vault)).id,
            info.asset,
            show(wanted, info.decimals),
            destination or await self.destination(name),
            external_id=name,
        )

    async def accept(self, requests: Sequence[Request]) -> list[WithdrawalId]:
        """Accept requests and tell the lanes."""
        await self.gateway.adapters[self.rig.chain].node.open()
        accepted = await self.gateway.intake.accept_all(requests)
        self.gateway.loops[self.rig.chain].kick.set()
        return [w.id for w in accepted]

    async def pay(
        self,
        count: int = 1,
        *,
        vault: str = "hot-1",
        first: int = 0,
        amount: int | None = None,
        destination: str | None = None,
    ) -> list[WithdrawalId]:
        """Accept `count` withdrawals of different amounts to as many fresh destinations."""
        return await self.accept(
            [
                await self.request(
                    f"{vault}-{number}",
                    vault=vault,
                    amount=(self.unit // 100 + number) if amount is None else amount,
                    destination=destination,
                )
                for number in range(first, first + count)
            ]
        )

    # what is so now

    async def withdrawals(self, ids: Sequence[WithdrawalId]) -> Sequence[Withdrawal]:
        """Return the withdrawals as they are now."""
        async with self.gateway.store.read() as reader:
            return await reader.withdrawals(ids)

    async def history(self, withdrawal_id: WithdrawalId) -> History:
        """Return all that happened to a withdrawal."""
        async with self.gateway.store.read() as reader:
            found = await reader.history(withdrawal_id)
        assert found is not None
        return found

    async def halted(self, vault: str = "hot-1") -> str | None:
        """Return why the vault's lane is halted, None when it is not."""
        account = await self.account(vault)
        async with self.gateway.store.read() as reader:
            return (await reader.halted()).get(account.id)

    async def held(self, vault: str = "hot-1") -> int:
        """Return what is promised of the vault's money."""
        account = await self.account(vault)
        async with self.gateway.store.read() as reader:
            return await reader.held_amount(account.id)

    async def books(self, withdrawal_id: WithdrawalId) -> dict[Book, int]:
        """Return what the ledger's rows of a withdrawal add up to."""
        entries = (await self.history(withdrawal_id)).ledger
        return {book: sum(e.amount for e in entries if e.book is book) for book in Book}

    # blocks

    async def mine(self, blocks: int = 1) -> None:
        """Make blocks, one after the other, and return when the gateway has followed each."""
        for _ in range(blocks):
            (block,) = await self.rig.devnet.mine()
            await self.followed(block)

    async def mine_empty(self, blocks: int = 1) -> None:
        """Make empty blocks and return when the gateway has followed the last."""
        await self.followed((await self.rig.devnet.mine_empty(blocks))[-1])

    async def reorg(self, depth: int, *, reinclude: bool, instead: Sequence[bytes] = ()) -> None:
        """Replace the last blocks and return when the gateway has followed the new branch."""
        await self.followed((await self.rig.devnet.reorg(depth, reinclude=reinclude, instead=instead))[-1])

    async def followed(self, block: str) -> None:
        """Return when the gateway's tip is this block."""
        loop = self.gateway.loops[self.rig.chain]
        await wait_for(lambda: loop.tracker.tip is not None and loop.tracker.tip.hash == block, f"to follow {block}")

    async def tracking(self) -> None:
        """Return when the tracker has begun."""
        loop = self.gateway.loops[self.rig.chain]
        await wait_for(lambda: loop.tracker.tip is not None, "for the tracker to begin")

    # waiting

    async def until(
        self,
        ids: Sequence[WithdrawalId],
        *statuses: Status,
        sub_status: SubStatus | None = None,
        seconds: float = PATIENCE,
    ) -> Sequence[Withdrawal]:
        """Return the withdrawals when all have one of the statuses (and the sub-status); fail after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.withdrawals(ids)
            if all(w.status in statuses and sub_status in (None, w.sub_status) for w in found):
                return found
            if time.monotonic() > deadline:
                shown = {f"{w.status} {w.sub_status}".strip() for w in found}
                pytest.fail(f"waited {seconds} s for {statuses} {sub_status or ''}, still {shown}")
            await asyncio.sleep(GLANCE)

    async def waiting(self, ids: Sequence[WithdrawalId]) -> Sequence[Withdrawal]:
        """Return the withdrawals when the node has all of them in its pool, and the rows say so."""
        await self.until(ids, Status.BROADCASTING, sub_status=SubStatus.SENDING_TO_NODE)
        found = await self.withdrawals(ids)
        await self.in_pool({w.tx_hash for w in found if w.tx_hash})
        return found

    async def in_pool(self, hashes: set[str]) -> None:
        """Return when the node has all of these waiting."""
        deadline = time.monotonic() + PATIENCE
        while not hashes <= (pool := await self.rig.devnet.pool()):
            if time.monotonic() > deadline:
                pytest.fail(f"{hashes - pool} did not come into the pool")
            await asyncio.sleep(GLANCE)

    async def finish(self, ids: Sequence[WithdrawalId], *, seconds: float = 60.0) -> Sequence[Withdrawal]:
        """Make a block whenever something waits for one and nothing comes to it, until all are COMPLETED."""
        deadline = time.monotonic() + seconds
        pool: set[str] = set()
        while True:
            found = await self.withdrawals(ids)
            if all(w.status is Status.COMPLETED for w in found):
                return found
            if time.monotonic() > deadline:
                shown = sorted({f"{w.status} {w.sub_status}".strip() for w in found})
                pytest.fail(f"waited {seconds} s for COMPLETED, still {shown}")
            before, pool = pool, await self.rig.devnet.pool()
            if (pool and pool == before) or (not pool and any(w.status is Status.CONFIRMING for w in found)):
                await self.mine()
            else:
                await asyncio.sleep(GLANCE)

    async def until_some_wait(self, ids: Sequence[WithdrawalId]) -> None:
        """Return when a block would help: something waits in the pool, or wants more blocks on top."""
        while True:
            found = await self.withdrawals(ids)
            if await self.rig.devnet.pool() or all(w.status in (Status.CONFIRMING, Status.COMPLETED) for w in found):
                return
            await asyncio.sleep(GLANCE)

    # what must be so at the end of every test

    async def prove(self, ids: Sequence[WithdrawalId], *, besides: Mapping[str, int] | None = None) -> None:
        """Check that each was signed once, that exactly what is COMPLETED arrived, and that the books agree.

        `besides`: base units that somebody else paid to a destination.
        """
        due: dict[str, int] = dict(besides or {})
        for withdrawal_id in ids:
            history = await self.history(withdrawal_id)
            hashes = {a.tx_hash for a in history.attempts} | {b.tx_hash for b in history.broadcasts}
            assert len(hashes) <= 1, f"{withdrawal_id} has {len(hashes)} hashes: {hashes}"
            assert len({a.raw for a in history.attempts} | {b.raw for b in history.broadcasts}) <= 1
            w = history.withdrawal
            paid = w.amount if w.status in (Status.COMPLETED, Status.CONFIRMING) else 0
            due[w.destination] = due.get(w.destination, 0) + paid
        for destination, amount in due.items():
            assert await self.rig.devnet.balance(destination) == amount
        report = await audit(self.gateway.store, self.gateway.adapters)
        assert report.findings == ()
        assert report.unchecked == ()


async def wait_for(condition: Callable[[], bool], what: str, *, seconds: float = PATIENCE) -> None:
    """Return when the condition holds; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s {what}")
        await asyncio.sleep(GLANCE)
