"""The loop of one chain: connect, track, work the lanes, and go on after whatever a node or another process did.

This is the only place that catches errors in order to try again: each class says what comes next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from gateway.clock import Clock
from gateway.core.adapter import Adapter
from gateway.core.chain import Account
from gateway.core.errors import (
    BadReply,
    ChainError,
    ConfigError,
    LeaseLost,
    NodeUnavailable,
    SignedMismatch,
    SignerError,
    StaleWrite,
    StoreUnavailable,
    WouldPayTwice,
)
from gateway.core.ids import AccountId
from gateway.core.signing import Signer
from gateway.core.store import Store
from gateway.gates import pass_gates
from gateway.genesis import Genesis
from gateway.journal import is_behind
from gateway.lanes import LaneWorker
from gateway.ownership import Ownership
from gateway.tracker import Pace, Tracker

log = structlog.get_logger(__name__)

LANES_AT_ONCE = 32
PAGE_HUMAN_PAUSE = 30.0


class ChainLoop:
    """Runs one chain until it is cancelled."""

    def __init__(
        self,
        store: Store,
        adapter: Adapter,
        signer: Signer,
        *,
        owner: str,
        now: Clock,
        pace: Pace,
        genesis: Genesis,
        lane_poll: float,
        lease: float,
        pause: float,
    ) -> None:
        self._store = store
        self._adapter = adapter
        self._signer = signer
        self._owner = owner
        self._now = now
        self._genesis = genesis
        self._lane_poll = lane_poll
        self._lease = lease
        self._pause = pause
        self._chain = adapter.info.name
        self._workers: dict[AccountId, LaneWorker] = {}
        self._places = asyncio.Semaphore(LANES_AT_ONCE)
        self._at_work: set[AccountId] = set()
        self._round = 0
        self.tracker = Tracker(store, adapter, self._own(f"tracker:{self._chain}"), now=now, pace=pace)
        self.kick = asyncio.Event()
        """Set it when a withdrawal was accepted in this process; others are found by polling."""

    async def run(self) -> None:
        """Run until cancelled. ConfigError: at the start, a node of a wrong chain answered, or of one known already."""
        try:
            await self._connect()
            await self._wait_until_reconciled()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._for_ever("tracker", self._track), name=f"tracker {self._chain}")
                group.create_task(
                    self._for_ever("lanes", partial(self._work_lanes, group)), name=f"lanes {self._chain}"
                )
        finally:
            await self._adapter.node.close()

    async def release(self) -> None:
        """Give back the tracker and every lane; called when the loop has ended."""
        await self.tracker.release()
        for worker in self._workers.values():
            await worker.release()

    async def _connect(self) -> None:
        first = True
        while True:
            try:
                await self._adapter.node.open()
                await self._genesis.claim(self._adapter)
                async with self._store.read() as reader:
                    accounts = await reader.accounts(self._chain)
                for account in accounts:
                    if not account.opening:
                        opening = await self._adapter.node.opening(account)
                        if opening:
                            async with self._store.write() as writer:
                                await writer.set_opening(account.id, opening)
                return
            except ConfigError as error:
                if first:
                    raise
                # It was down at the start and came up wrong: the other chains go on, this one never begins on it.
                log.error("a node of the wrong chain is refused", chain=self._chain, error=str(error))
            except (ChainError, StoreUnavailable) as error:
                log.warning("no node yet, trying again", chain=self._chain, error=str(error))
            first = False
            await asyncio.sleep(self._pause)

    async def _wait_until_reconciled(self) -> None:
        # The tracker must not run past blocks that hold attempts which only the journal knows.
        said = False
        while True:
            try:
                if not await is_behind(self._store, self._chain):
                    return
                if not said:
                    log.error(
                        "stopped: the store is behind the signer's journal",
                        chain=self._chain,
                        fix="gateway db reconcile",
                    )
                    said = True
            except StoreUnavailable as error:
                log.warning("no database, trying again", chain=self._chain, error=str(error))
            await asyncio.sleep(self._pause)

    async def _for_ever(self, what: str, job: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await job()
            except (NodeUnavailable, StoreUnavailable, SignerError) as error:
                log.warning(f"{what}: trying again", chain=self._chain, error=str(error))
                await asyncio.sleep(self._pause)
            except (LeaseLost, StaleWrite) as error:
                log.info(f"{what}: another was first", chain=self._chain, error=str(error))
            except BadReply as error:
                log.error(
                    f"{what}: a node breaks its own protocol, a person must look", chain=self._chain, error=str(error)
                )
                await asyncio.sleep(PAGE_HUMAN_PAUSE)
            except Exception:
                log.exception(f"{what}: unexpected", chain=self._chain)
                await asyncio.sleep(self._pause)

    async def _track(self) -> None:
        # Another process owns it; nothing of ours can be awaited for it to end.
        while not await self.tracker.start():  # noqa: ASYNC110
            await asyncio.sleep(self._lease / 2)
        while True:
            await self.tracker.step()

    async def _work_lanes(self, group: asyncio.TaskGroup) -> None:
        while True:
            self.kick.clear()
            self.tracker.advanced.clear()
            while await pass_gates(self._store, self._chain, now=self._now):
                pass
            async with self._store.read() as reader:
                busy = set(await reader.busy_accounts(self._chain))
                accounts = [a for a in await reader.accounts(self._chain) if a.id in busy]
            self._round += 1
            for account in accounts:
                if account.id not in self._at_work:
                    self._at_work.add(account.id)
                    group.create_task(self._work_alone(account), name=f"lane {account.address}")
            await self._wait()

    async def _work_alone(self, account: Account) -> None:
        """Work one lane for as long as it can go on; no lane waits for another."""
        begun = self._round
        try:
            async with self._places:
                begun = self._round
                await self._work_one(self._worker(account), account)
        except Exception:
            log.exception("lane: unexpected", chain=self._chain, account=account.address)
        finally:
            self._at_work.discard(account.id)
        if self._round != begun:
            self.kick.set()  # what woke the others meanwhile may concern this lane too

    async def _work_one(self, worker: LaneWorker, account: Account) -> None:
        try:
            while await worker.work():
                pass
        except (NodeUnavailable, StoreUnavailable, SignerError) as error:
            log.warning("lane: trying again", chain=self._chain, account=account.address, error=str(error))
        except (LeaseLost, StaleWrite) as error:
            log.info("lane: another was first", chain=self._chain, account=account.address, error=str(error))
        except (BadReply, SignedMismatch) as error:
            log.error("lane: a person must look", chain=self._chain, account=account.address, error=str(error))
        except WouldPayTwice as error:
            log.error("lane halted", chain=self._chain, account=account.address, error=str(error))
            async with self._store.write() as writer:
                await writer.halt(account.id, str(error), self._now())

    async def _wait(self) -> None:
        """Wait for a block, a new withdrawal in this process, or the poll for those of other processes."""
        waits = [asyncio.create_task(self.kick.wait()), asyncio.create_task(self.tracker.advanced.wait())]
        try:
            await asyncio.wait(waits, timeout=self._lane_poll, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    def _worker(self, account: Account) -> LaneWorker:
        worker = self._workers.get(account.id)
        if worker is None:
            ownership = self._own(f"lane:{account.id}")
            worker = LaneWorker(self._store, self._adapter, self._signer, account, ownership, now=self._now)
            self._workers[account.id] = worker
        return worker

    def _own(self, name: str) -> Ownership:
        return Ownership(self._store, name, self._owner, seconds=self._lease)
