"""The database comes back as an older copy, or as none: nothing is paid again, and everything is found again."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.core.lifecycle import BEFORE_SIGNED
from tests.acceptance.site import Server, Site

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.evm,
    pytest.mark.bitcoin,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_an_older_copy_signs_nothing_until_it_is_reconciled(site: Site) -> None:
    await site.prepare()
    early = await site.accept(2, tag="early")
    await site.killed_at("build:before")
    copy = site.copy_database()
    waiting = await site.listed()
    assert set(waiting.values()) <= {s.value for s in BEFORE_SIGNED}
    assert "QUEUED" in waiting.values()
    late = await site.accept(1, tag="late")
    async with site.serving() as server:
        await site.mine_until_completed(server)
    paid = await site.paid()

    site.bring_back(copy)
    async with site.serving() as server:
        await refuses(site, server)
        assert await site.listed() == waiting
        assert await site.paid() == paid
        await server.stop()

    code, out, err = await site.run("db", "reconcile", "--json")
    assert code == 0, err
    restored = {(row["withdrawal_id"], row["was"] is None) for row in map(json.loads, out.splitlines())}
    assert restored == {(str(i), False) for i in early} | {(str(i), True) for i in late}
    assert await site.accept(1, tag="late") == late
    async with site.serving() as server:
        await site.mine_until_completed(server)
        assert await site.accept(2, tag="early") == early
        await site.mine(3)
    await site.prove_paid_once()
    assert await site.paid() == paid
    assert await site.run("db", "reconcile", "--json") == (0, "", "")


async def test_a_copy_with_built_and_unsigned_attempts_finds_what_they_became(site: Site) -> None:
    await site.prepare()
    await site.accept(3)
    await site.killed_at("build:committed")
    copy = site.copy_database()
    assert "PENDING_SIGNATURE" in (await site.listed()).values()
    async with site.serving() as server:
        await site.mine_until_completed(server)
    await site.mine(8)
    paid = await site.paid()

    site.bring_back(copy)
    # One chain may have nothing that the copy does not hold: it needs no reconciliation.
    code, _, err = await site.run("db", "reconcile")
    assert code == 0, err
    async with site.serving() as server:
        await site.mine_until_completed(server)
    await site.prove_paid_once()
    assert await site.paid() == paid


async def test_a_crash_between_signing_and_storing_needs_nobody(site: Site) -> None:
    await site.prepare()
    await site.accept(2)
    await site.killed_at("sign:done")
    async with site.serving() as server:
        await site.mine_until_completed(server)
        assert "reconcile" not in server.said
    await site.prove_paid_once()


async def test_a_new_database_pays_nothing_of_what_the_old_one_may_have_paid(site: Site) -> None:
    await site.prepare()
    await site.accept(2)
    copy = site.copy_database()
    async with site.serving() as server:
        await site.mine_until_completed(server)
    paid = await site.paid()

    site.lose_database()
    assert (await site.run("db", "upgrade"))[0] == 0
    async with site.serving() as server:
        await server.says("signing refused")
        await site.accept(2, awaited=False)  # a client that asks again
        await refuses(site, server)
        assert set((await site.listed()).values()) <= {s.value for s in BEFORE_SIGNED}
        lanes = [json.loads(line) for line in (await site.run("lane", "list", "--json"))[1].splitlines()]
        assert len(lanes) == 2
        for lane in lanes:
            assert "gateway db reconcile" in lane["halted"]
            place = ("--chain", lane["chain"], "--address", lane["address"])
            code, _, err = await site.run("lane", "resume", *place, "--because", "I want to")
            assert (code, "gateway db reconcile" in err) == (1, True)
        await server.stop()
    code, out, err = await site.run("db", "reconcile")
    assert (code, out) == (1, "")
    assert err.count("does not know: it is not an older copy") == 2
    async with site.serving() as server:
        await refuses(site, server)
        await server.stop()
    assert await site.paid() == paid

    site.bring_back(copy)
    assert (await site.run("db", "reconcile"))[0] == 0
    async with site.serving() as server:
        await site.mine_until_completed(server)
    await site.prove_paid_once()
    assert await site.paid() == paid


async def refuses(site: Site, server: Server) -> None:
    """Return when the process has refused to sign for both chains and let blocks pass without doing anything."""
    await server.says("signing refused")
    for name, devnet in site.devnets.items():
        await server.says("stopped: the store is behind the signer's journal")
        await devnet.mine(3)
        assert await devnet.pool() == set(), name
    await asyncio.sleep(1.0)  # that nothing happens has no event to wait for
    assert server.running
    for devnet in site.devnets.values():
        assert await devnet.pool() == set()
