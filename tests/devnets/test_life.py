"""How a devnet starts, stands still, comes back and ends."""

import asyncio
import socket
import time
from pathlib import Path

import aiohttp
import pytest

from devnets.network import Devnet, DevnetError, Interval, Kind
from devnets.registry import create
from tests.devnets.payers import Payer, payer_on
from tests.devnets.presence import need

pytestmark = pytest.mark.devnet

AMOUNT = 1_000_000
ASK = {
    "evm": {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []},
    "bitcoin": {"id": 1, "method": "getblockcount", "params": []},
}


async def ask(devnet: Devnet, timeout: float = 10.0) -> int:
    limit = aiohttp.ClientTimeout(total=timeout)
    async with (
        aiohttp.ClientSession(timeout=limit) as session,
        session.post(devnet.url, json=ASK[devnet.name]) as answer,
    ):
        result = (await answer.json())["result"]
    return int(result, 16) if isinstance(result, str) else int(result)


def port_of(devnet: Devnet) -> int:
    return int(devnet.url.rpartition(":")[2])


async def test_it_answers_when_start_returns_and_says_what_it_is(devnet: Devnet) -> None:
    assert await ask(devnet) == await devnet.height()
    assert devnet.kind is Kind.REAL_NODE
    assert devnet.identity in ("31337", "bitcoin-regtest", "litecoin-regtest")
    assert devnet.log is not None
    assert devnet.log.read_text()
    assert "127.0.0.1" in devnet.url


async def test_it_starts_in_about_a_second(devnet: Devnet) -> None:
    begin = time.monotonic()
    await devnet.restart()
    assert time.monotonic() - begin < 5


async def test_starting_twice_is_an_error(devnet: Devnet) -> None:
    with pytest.raises(DevnetError, match="already running"):
        await devnet.start()
    assert await ask(devnet) == await devnet.height()


async def test_stopping_frees_the_port_and_may_be_repeated(devnet: Devnet) -> None:
    port = port_of(devnet)
    await devnet.stop()
    await devnet.stop()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


async def test_a_restart_keeps_port_and_chain(devnet: Devnet, payer: Payer) -> None:
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    (block,) = await devnet.mine()
    url, height = devnet.url, await devnet.height()
    await devnet.restart()
    assert devnet.url == url
    assert await devnet.height() == height
    assert await devnet.in_block(payment.tx_hash) == block
    await devnet.reorg(1, reinclude=True)
    assert await devnet.in_block(payment.tx_hash) != block
    assert await devnet.balance(payer.receiver) == AMOUNT


async def test_a_long_chain_comes_back_soon_and_can_still_change(devnet: Devnet) -> None:
    await devnet.mine(600)
    height = await devnet.height()
    begin = time.monotonic()
    await devnet.restart()
    assert time.monotonic() - begin < 5
    await devnet.reorg(20, reinclude=True)
    await devnet.shorten(20)
    assert await devnet.height() == height - 19


async def test_the_pool_fares_at_a_restart_as_the_real_node_has_it(devnet: Devnet, payer: Payer) -> None:
    payment = await payer.sign(0, AMOUNT)
    await payer.send(payment)
    await devnet.restart()
    assert await devnet.pool() == ({payment.tx_hash} if devnet.name == "bitcoin" else set())


async def test_a_client_that_keeps_its_connection_does_not_delay_a_restart(devnet: Devnet) -> None:
    height = await devnet.height()
    async with aiohttp.ClientSession() as session:
        async with session.post(devnet.url, json=ASK[devnet.name]) as answer:
            await answer.read()
        begin = time.monotonic()
        await devnet.restart()
        assert time.monotonic() - begin < 5
    assert await devnet.height() == height


async def test_a_paused_node_is_silent_and_answers_again_when_resumed(devnet: Devnet) -> None:
    height = await devnet.height()
    await devnet.pause()
    with pytest.raises(TimeoutError):
        await ask(devnet, timeout=0.2)
    await devnet.resume()
    assert await ask(devnet) == height


async def test_a_paused_node_can_be_stopped(devnet: Devnet) -> None:
    await devnet.pause()
    begin = time.monotonic()
    await devnet.stop()
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("chain", [pytest.param(c, marks=getattr(pytest.mark, c)) for c in ASK])
async def test_with_interval_mining_blocks_come_by_themselves(chain: str, tmp_path: Path) -> None:
    need(chain)
    devnet = create(chain, tmp_path, mining=Interval(1.0))
    await devnet.start()
    try:
        payer = payer_on(devnet)
        await payer.prepare()
        payment = await payer.sign(0, AMOUNT)
        await payer.send(payment)
        async with asyncio.timeout(15):
            while await devnet.in_block(payment.tx_hash) is None:  # noqa: ASYNC110 - a node has no event for it
                await asyncio.sleep(0.05)
    finally:
        await devnet.stop()


@pytest.mark.parametrize("chain", [pytest.param(c, marks=getattr(pytest.mark, c)) for c in ASK])
async def test_the_same_seed_gives_the_same_keys_and_transactions(chain: str, tmp_path: Path) -> None:
    need(chain)
    hashes = []
    for run, seed in enumerate(("one", "one", "two")):
        devnet = create(chain, tmp_path / str(run), seed=seed)
        await devnet.start()
        try:
            hashes.append(await devnet.fund(payer_on(devnet).receiver, AMOUNT))
        finally:
            await devnet.stop()
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


async def test_many_start_at_once_without_taking_each_others_ports(devnet: Devnet, tmp_path: Path) -> None:
    others = [create(devnet.name, tmp_path / f"other {number}") for number in range(6)]
    try:
        await asyncio.gather(*(other.start() for other in others))
        await others[0].mine(3)
        heights = [await other.height() for other in (devnet, *others)]
        assert heights == [heights[0], heights[0] + 3, *[heights[0]] * 5]
        assert len({other.url for other in (devnet, *others)}) == 7
    finally:
        await asyncio.gather(*(other.stop() for other in others))
