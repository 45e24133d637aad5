"""The money path where it goes wrong: what the signer, a node or a lost store say, with a real store beneath."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from db.store import SqlStore
from db.upgrade import upgrade
from gateway.core.adapter import Adapter
from gateway.core.chain import Account, BlockRef, Sent, Signature, Signed, SigningRequest
from gateway.core.errors import BadReply, JournalAhead, SignedMismatch, SignerRefused
from gateway.core.ids import AttemptId
from gateway.core.lifecycle import Status
from gateway.core.records import Attempt, Lease, Withdrawal
from gateway.core.signing import JournalLine, SigningOrder
from gateway.journal import BEHIND, reconcile, record_of
from gateway.lanes import LaneWorker
from gateway.ownership import Ownership
from gateway.submitter import Submitter
from tests.db.world import World, block, now

TIP = BlockRef(70, "tip", "under")


@dataclass
class Chain:
    """A made-up chain: both halves of its adapter, and what was sent to it. Bytes are the payload with a mark."""

    mismatch: bool = False
    lies_about: str = ""
    sent: list[str] = field(default_factory=list)

    @property
    def adapter(self) -> Adapter:
        return cast(Adapter, SimpleNamespace(codec=self, node=self, info=SimpleNamespace(name="x", batch=9)))

    def signing_requests(self, payload: bytes, account: Account) -> tuple[SigningRequest, ...]:
        return (SigningRequest(account.key, "secp256k1-digest", payload),)

    def assemble(self, payload: bytes, account: Account, signatures: Sequence[Signature]) -> Signed:
        return Signed(b"signed " + payload, payload.hex())

    def check_signed(self, raw: bytes, *about: Any, **more: Any) -> None:
        if self.mismatch:
            raise SignedMismatch("it pays somebody else")

    async def send(self, raw: bytes, tx_hash: str) -> Sent:
        if tx_hash == self.lies_about:
            raise BadReply("another hash", chain="x", call="send")
        self.sent.append(tx_hash)
        return Sent("node")


@dataclass
class Pen:
    """A signer. `lines` is its journal; it refuses a batch that holds the attempt `refuses`, as the local one does."""

    lines: list[JournalLine] = field(default_factory=list)
    refuses: AttemptId | None = None
    asked: list[list[AttemptId]] = field(default_factory=list)

    async def sign(self, orders: Sequence[SigningOrder]) -> Sequence[tuple[Signature, ...]]:
        self.asked.append([o.attempt_id for o in orders])
        if self.refuses in self.asked[-1]:
            raise (SignerRefused if len(orders) > 1 else JournalAhead)("signed for another withdrawal")
        return [(Signature(b"s" * 64, 0),) for _ in orders]

    async def journal(self) -> Sequence[JournalLine]:
        return self.lines


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    url = f"sqlite:///{tmp_path}/gateway.db"
    await upgrade(url)
    store = SqlStore(url)
    await store.open()
    yield await World.make(store)
    await store.close()


def worker(world: World, chain: Chain, pen: Pen) -> LaneWorker:
    own = Ownership(world.store, "lane", "me", seconds=30)
    return LaneWorker(world.store, chain.adapter, cast(Any, pen), world.accounts[0], own, now=now)


async def built(world: World, count: int) -> list[tuple[Withdrawal, Attempt]]:
    async with world.store.write() as writer:
        await writer.add_header(world.chain, block(7), keep=10)
    return [await world.built(f"claim-{number}") for number in range(count)]


async def test_a_signer_that_knows_more_than_the_store_stops_the_whole_batch(world: World) -> None:
    pairs = await built(world, 3)
    chain, pen = Chain(), Pen(refuses=pairs[0][1].id)
    with pytest.raises(JournalAhead):
        await worker(world, chain, pen).work()
    assert pen.asked == [[a.id for _, a in pairs], [pairs[0][1].id]]
    assert chain.sent == []
    async with world.store.read() as reader:
        assert (await reader.halted())[world.accounts[0].id].startswith(BEHIND)
    assert {(await world.get(w.id)).status for w, _ in pairs} == {Status.PENDING_SIGNATURE}


async def test_bytes_that_do_not_pay_what_was_approved_are_neither_stored_nor_sent(world: World) -> None:
    ((withdrawal, _),) = await built(world, 1)
    chain = Chain(mismatch=True)
    with pytest.raises(SignedMismatch):
        await worker(world, chain, Pen()).work()
    async with world.store.read() as reader:
        assert [a.raw for a in await reader.family(withdrawal.id)] == [b""]
        assert world.accounts[0].id in await reader.halted()
    assert chain.sent == []


async def test_what_was_never_sent_is_not_sent_any_more_once_its_withdrawal_is_being_cancelled(world: World) -> None:
    (_, (cancelled, unsent)) = await built(world, 2)
    chain, pen = Chain(), Pen()
    async with world.store.write() as writer:
        await writer.store_signed({unsent.id: Signed(b"never", "never")}, now())
    await world.move(cancelled, Status.BROADCASTING, Status.CANCELLING)
    await worker(world, chain, pen).work()
    assert len(chain.sent) == 1
    assert "never" not in chain.sent


async def test_a_node_that_lies_about_one_send_does_not_stop_the_others(world: World) -> None:
    chain = Chain(lies_about="one")
    pairs = [await world.built(f"claim-{name}") for name in ("one", "two")]
    attempts = [replace(a, raw=b"raw", tx_hash=name) for (_, a), name in zip(pairs, ("one", "two"), strict=True)]
    own = Ownership(world.store, "tracker", "me", seconds=30)
    assert await own.take()

    async def fence() -> Lease:
        return await own.fence()

    await Submitter(world.store, chain.adapter, now=now).keep_alive(attempts, fence)
    assert chain.sent == ["two"]


def line_of(world: World) -> JournalLine:
    withdrawal = world.withdrawal(external_id="order-1")
    attempt = world.attempt(withdrawal, "claim")
    account = world.accounts[0]
    record = record_of(withdrawal, attempt, TIP)
    return JournalLine(1, withdrawal.id, attempt.id, account.chain, account.address, ("claim",), record, b"d" * 32)


async def test_a_reconciliation_that_is_cut_short_leaves_no_payment_behind_the_first_block(world: World) -> None:
    line, chain = line_of(world), Chain(mismatch=True)
    pen = Pen([line])
    with pytest.raises(SignedMismatch):
        await reconcile(world.store, cast(Any, pen), {world.chain: chain.adapter}, now=now())
    async with world.store.read() as reader:
        assert [a.raw for a in await reader.family(line.withdrawal_id)] == [b""], "it does not pay what was approved"
        assert await reader.headers(world.chain, 9) == [TIP]
    chain.mismatch = False
    await reconcile(world.store, cast(Any, pen), {world.chain: chain.adapter}, now=now())
    assert (await world.get(line.withdrawal_id)).status is Status.BROADCASTING
    async with world.store.read() as reader:
        assert await reader.headers(world.chain, 9) == [TIP]
        assert await reader.by_external_id(world.workspace.id, "order-1") is not None
