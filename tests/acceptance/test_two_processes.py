"""Two processes over one database: a standby takes over, a frozen owner comes back, and each payment is made once."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from db.engine import Kind
from gateway.core.errors import StoreUnavailable
from gateway.core.lifecycle import Status
from gateway.signers import journal, keyfile
from tests.acceptance.site import GLANCE, PATIENCE, TIMING, Server, Site
from tests.db.places import fresh

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.evm,
    pytest.mark.bitcoin,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
]

STORES = [
    pytest.param(Kind.SQLITE, id="sqlite"),
    pytest.param(Kind.POSTGRES, id="postgres", marks=pytest.mark.postgres),
]
IN_USE = "two signers must not share one"


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh(request.param, tmp_path) as place:
        yield place.url


async def test_a_second_process_with_the_same_signer_is_refused_and_takes_over_when_it_may(
    site: Site, store: str
) -> None:
    await site.prepare(store=store)
    async with site.serving() as first:
        await first.says("tracking")
        await site.accept(3)
        await until_some_are_on_their_way(site)
        await is_refused(site)
        first.freeze()
        await asyncio.sleep(TIMING["lease"] * 1.5)
        await is_refused(site)  # its lease is over, but the signer is still its own
        first.thaw()
        await site.mine_until_completed(first)
        await site.accept(3, tag="more")
        await until_some_are_on_their_way(site)
        first.freeze()
        await first.kill()
    async with site.serving() as standby:
        await site.mine_until_completed(standby)
    await site.prove_paid_once()


@pytest.mark.parametrize("store", STORES[1:], indirect=True)  # SQLite: a frozen process may hold the one write lock
async def test_an_owner_that_was_frozen_for_longer_than_its_lease_comes_back_to_nothing(site: Site, store: str) -> None:
    await site.prepare(store=store)
    async with site.serving() as one, site.serving(config=twin(site)) as other:
        for server in (one, other):
            await server.says("serving")
        owner, rival = one, other
        for number in range(4):
            await site.accept(3, tag=f"wave-{number}")
            await until_some_are_on_their_way(site)
            await frozen_while_the_other_finishes(site, owner, rival)
            owner.thaw()
            owner, rival = rival, owner
        await site.accept(3, tag="last")
        await site.mine_until_completed(one, other)
        assert one.running
        assert other.running
        for server in (one, other):
            assert "unexpected" not in server.said
    await site.prove_paid_once()


async def frozen_while_the_other_finishes(site: Site, owner: Server, rival: Server) -> None:
    """Freeze the owner and have the other one complete everything.

    Frozen within a database transaction it keeps its locks, and nobody can go on: then it is frozen anew.
    """
    for _ in range(10):
        owner.freeze()
        deadline = time.monotonic() + TIMING["lease"] * 8
        while time.monotonic() < deadline:
            await site.mine()
            with suppress(StoreUnavailable):  # locked by the frozen one
                if all(w.status is Status.COMPLETED for w in await site.withdrawals()):
                    return
            await asyncio.sleep(GLANCE)
        owner.thaw()
        await asyncio.sleep(GLANCE)
    pytest.fail(f"the other never went on:\n{rival.tail}")


async def until_some_are_on_their_way(site: Site) -> None:
    """Return when at least one withdrawal has been signed and is not paid."""
    deadline = time.monotonic() + PATIENCE
    while not any(w.status is Status.BROADCASTING for w in await site.withdrawals()):
        assert time.monotonic() < deadline
        await asyncio.sleep(GLANCE)


async def is_refused(site: Site) -> None:
    """Start the process beside the one that has the signer: it ends at once and says why."""
    async with site.serving() as second:
        assert await second.ended() == 1
        assert IN_USE in second.said


def twin(site: Site) -> Path:
    """Write the configuration of a second process: the same keys and database, a signer's journal of its own."""
    config = site.config
    password = keyfile.read_password(file=config.signer.password_file)
    copied = Path(shutil.copy2(config.signer.key_file, site.folder / "twin.json"))
    journal.create(site.folder / "twin.journal", keyfile.open(copied, password).fingerprint)
    text = site.config_file.read_text().replace('"keys.json"', '"twin.json"')
    path = site.folder / "twin.toml"
    path.touch(mode=0o600)
    path.write_text(text.replace('"signer.journal"', '"twin.journal"'))
    return path
