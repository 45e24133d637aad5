"""Two gateways at once over one database: each payment has one owner and one hash."""

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from gateway.config import Config, SignerConfig
from gateway.core.errors import BadRequest, NodeUnavailable
from gateway.core.lifecycle import Status
from gateway.signers import journal, keyfile
from tests.integration.rig import PATIENCE, Rig

pytestmark = pytest.mark.devnet

T = TypeVar("T")

POSTGRES = "GATEWAY_TEST_POSTGRES_URL"
STORES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared.db'}"
        return
    server = os.environ.get(POSTGRES)
    if server is None:
        message = f"two gateways over PostgreSQL are not tested: {POSTGRES} is not set"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    name = f"gateway_it_{secrets.token_hex(6)}"
    await _on_server(server, f"CREATE DATABASE {name}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        await _on_server(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.slow
async def test_two_gateways_at_once_sign_each_payment_once(rig: Rig, store: str) -> None:
    first = await rig.prepare(vaults=2, store=store, timing={"lease": 2.0})
    second = twin(first, rig.folder.with_name("twin"))
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(rig.working(first))
        two = await stack.enter_async_context(rig.working(second, at_once=False))
        await one.fund(coins=3)
        batches = await asyncio.gather(
            *(insist(partial(desk.pay, 6, vault=v, first=n)) for n, desk in ((0, one), (6, two)) for v in rig.vaults)
        )
        ids = [i for batch in batches for i in batch]
        while not all(w.status is Status.COMPLETED for w in await one.withdrawals(ids)):
            async with asyncio.timeout(60):
                await one.until_some_wait(ids)
                await rig.devnet.mine()
        assert len(set(ids)) == 24
        await one.prove(ids)


@pytest.mark.slow
async def test_when_one_of_two_gateways_stops_the_other_goes_on_with_the_same_bytes(rig: Rig, store: str) -> None:
    first = await rig.prepare(store=store, timing={"lease": 2.0})
    second = twin(first, rig.folder.with_name("twin"))
    async with contextlib.AsyncExitStack() as stack:
        async with rig.working(first) as one:
            two = await stack.enter_async_context(rig.working(second, at_once=False))
            await one.fund(coins=2)
            ids = await one.pay(4)
            before = await one.waiting(ids)
        await two.tracking()
        after = await two.finish(ids)
        assert [w.tx_hash for w in after] == [w.tx_hash for w in before]
        await two.prove(ids)


async def test_two_gateways_do_not_promise_the_same_money_twice(rig: Rig, store: str) -> None:
    first = await rig.prepare(store=store)
    second = twin(first, rig.folder.with_name("twin"))
    async with rig.standing(first) as one, rig.standing(second) as two:
        await one.fund(each=one.unit)
        answers = await asyncio.gather(
            *(
                insist(partial(desk.pay, first=n, amount=one.unit * 6 // 10))
                for n, desk in enumerate([one, two, one, two, one, two])
            ),
            return_exceptions=True,
        )
        accepted = [answer[0] for answer in answers if not isinstance(answer, BaseException)]
        assert len(accepted) == 1
        assert [type(a) for a in answers if isinstance(a, BaseException)] == [BadRequest] * 5
        (w,) = await one.withdrawals(accepted)
        assert await one.held() == w.amount + w.max_fee


async def test_two_gateways_asked_for_one_external_id_at_once_accept_one_withdrawal(rig: Rig, store: str) -> None:
    first = await rig.prepare(store=store)
    second = twin(first, rig.folder.with_name("twin"))
    async with rig.working(first) as one, rig.standing(second) as two:
        await one.fund()
        answers = await asyncio.gather(*(insist(desk.pay) for desk in (one, two) * 5))
        (withdrawal_id,) = {answer[0] for answer in answers}
        await one.finish([withdrawal_id])
        await one.prove([withdrawal_id])


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask as a client does who is told that the node is busy: a Core node scans for one gateway at a time."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(NodeUnavailable):
                return await ask()


def twin(config: Config, folder: Path) -> Config:
    """Return the configuration of a second gateway: the same keys and database, a signer's journal of its own."""
    folder.mkdir()
    key_file = Path(shutil.copy2(config.signer.key_file, folder / "keys.json"))
    password = keyfile.read_password(file=config.signer.password_file)
    journal.create(folder / "signer.journal", keyfile.open(key_file, password).fingerprint)
    signer = SignerConfig(
        key_file=key_file, journal=folder / "signer.journal", password_file=config.signer.password_file
    )
    return config.model_copy(update={"signer": signer})


async def _on_server(server: str, statement: str) -> None:
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.exec_driver_sql(statement)
    finally:
        await engine.dispose()
