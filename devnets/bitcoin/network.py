"""The Bitcoin-family devnet's levers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devnets.bitcoin import node
from devnets.bitcoin.branch import Tx, without_conflicts
from devnets.bitcoin.client import Client, NodeRefused
from devnets.bitcoin.faucet import UNIT, Faucet, scan
from devnets.network import DevnetError, Interval, Kind, LeverMissing, Manual, Mining
from devnets.process import External, Process, Runner

FIRST_BLOCKS = 150  # 50 mature rewards for the faucet; the subsidy halves after that
# Many blocks at once would run ahead of the clock (each must be later than the median of eleven), so the
# first ones are made in the past.
FIRST_BLOCKS_AGE_SECONDS = 7_200
# Longer than the 336 hours after which a node forgets what waits in its pool.
EXPIRY_SECONDS = 400 * 3_600


class BitcoinDevnet:
    """See `devnets.network.Devnet`; hashes are hex as the node prints them, amounts satoshi or litoshi."""

    name = "bitcoin"
    kind = Kind.REAL_NODE

    def __init__(
        self,
        runner: Runner,
        *,
        seed: str,
        mining: Mining,
        url: str | None = None,
        password: str = "",
        coin: node.Coin | None = None,
    ) -> None:
        self._runner = runner
        self._seed = seed
        self._mining = mining
        self._url = url
        self._password = password
        self._coin = coin
        self._rpc: Client | None = None
        self._faucet: Faucet | None = None
        self._miner: asyncio.Task[None] | None = None
        self._trigger: str | None = None  # the faucet's own waiting transaction left by a `drop`
        self._lock = asyncio.Lock()

    @property
    def url(self) -> str:
        return self._url or f"http://{node.USER}:{self._password}@127.0.0.1:{self._runner.port}"

    @property
    def coin(self) -> str:
        """`bitcoin-regtest` or `litecoin-regtest`."""
        if self._coin is None:
            raise DevnetError("not started yet: the coin is not known")
        return self._coin.name

    @property
    def network(self) -> dict[str, object]:
        """Address versions and prefixes, in embit's form (`network["bech32"]` is `bcrt` or `rltc`)."""
        if self._coin is None:
            raise DevnetError("not started yet: the coin is not known")
        return self._coin.network

    @property
    def identity(self) -> str:
        return self.coin

    @property
    def log(self) -> Path | None:
        return self._runner.log

    def dev_account(self) -> tuple[str, str]:
        raise LeverMissing("no account has funds from the start: use `fund`")

    async def start(self) -> None:
        await self._runner.start()
        self._rpc = Client(self.url)
        if self._coin is None:
            self._coin = await _coin_of(self._rpc)
        self._faucet = self._faucet or Faucet(self._rpc, self._coin, self._seed)
        self._faucet.use(self._rpc)
        if await self.height() < FIRST_BLOCKS:
            await self._make_first_blocks()
        if isinstance(self._mining, Interval):
            self._miner = asyncio.create_task(self._mine_every(self._mining.seconds))

    async def stop(self) -> None:
        miner, self._miner = self._miner, None
        if miner is not None:
            miner.cancel()
            await asyncio.wait([miner])
        if self._rpc is not None and not isinstance(self._runner, External):
            await self._save(self._rpc)
            self._rpc = None
        await self._runner.stop()

    async def restart(self) -> None:
        if isinstance(self._runner, External):
            raise LeverMissing("cannot restart a node that we did not start")
        await self.stop()
        await self.start()

    async def pause(self) -> None:
        await self._runner.pause()

    async def resume(self) -> None:
        await self._runner.resume()

    async def wait(self) -> None:
        await self._runner.wait()

    async def fund(self, address: str, amount: int) -> str:
        async with self._lock:
            raw = await self._purse.pay(address, amount)
            await self._make_block([raw])
            return await self._txid(raw)

    async def balance(self, address: str) -> int:
        return int((await scan(self._node, [address]))["total_amount"] * UNIT)

    async def height(self) -> int:
        return int(await self._node.call("getblockcount"))

    async def pool(self) -> set[str]:
        return set(await self._node.call("getrawmempool")) - {self._trigger}

    async def in_block(self, tx_hash: str) -> str | None:
        """Look through all blocks, newest first: the node keeps no index of transactions."""
        height = await self.height()
        for top in range(height, -1, -100):
            heights = [[at] for at in range(top, max(-1, top - 100), -1)]
            hashes = await self._node.many("getblockhash", heights)
            for block in await self._node.many("getblock", [[block_hash] for block_hash in hashes]):
                if tx_hash in block["tx"]:
                    return str(block["hash"])
        return None

    async def mine(self, blocks: int = 1) -> list[str]:
        async with self._lock:
            return list(await self._node.call("generatetoaddress", blocks, self._purse.reward_address))

    async def mine_empty(self, blocks: int = 1) -> list[str]:
        async with self._lock:
            return [await self._make_block([]) for _ in range(blocks)]

    async def reorg(self, depth: int, *, reinclude: bool, instead: Sequence[bytes] = ()) -> list[str]:
        """See the port. For some milliseconds the chain is shorter, as the node builds on its tip only."""
        async with self._lock:
            removed = await self._last_blocks(depth)
            waiting = await self._waiting()
            new = [await self._decoded(raw.hex()) for raw in instead]
            await self._cut(removed[0][0])
            blocks: list[list[str]] = [[] for _ in range(depth + 1)]
            if reinclude:
                kept = without_conflicts([txs for _, txs in removed], new)
                blocks[:depth] = [[tx.raw for tx in txs] for txs in kept]
            else:
                blocks[0] = [await self._clear_pool()]
            blocks[0] = [tx.raw for tx in new] + blocks[0]
            hashes = [await self._make_block(raws) for raws in blocks]
            if not reinclude:
                await self._send_again(waiting)
            return hashes

    async def shorten(self, depth: int) -> None:
        async with self._lock:
            await self._cut((await self._last_blocks(depth))[0][0])

    async def drop(self, tx_hash: str) -> None:
        """Let the whole pool expire by moving the node's clock, then give back all but one and its children.

        For some milliseconds the others are missing too. Where nothing is given back, a payment of the faucet
        to itself stays in the pool until the next block; `pool` does not show it.
        """
        async with self._lock:
            waiting = await self._waiting()
            if tx_hash not in await self.pool():
                raise DevnetError(f"{tx_hash} is not in the pool")
            trigger = await self._clear_pool()
            self._trigger = await self._txid(trigger)
            # The first to be accepted at this even later time lets the trigger expire.
            await self._set_clock(2 * EXPIRY_SECONDS)
            await self._send_again([tx for tx in waiting if tx.txid != tx_hash])
            await self._set_clock(None)

    # ------------------------------------------------------------------------------------------------

    @property
    def _node(self) -> Client:
        if self._rpc is None:
            raise DevnetError("not running")
        return self._rpc

    @property
    def _purse(self) -> Faucet:
        if self._faucet is None:
            raise DevnetError("not running")
        return self._faucet

    async def _save(self, rpc: Client) -> None:
        """Have chain and pool written to disk, because a client's idle connection keeps the node from ending
        for 61 seconds, so that it may have to be killed.
        """
        await self._runner.resume()
        with contextlib.suppress(DevnetError, OSError):  # it has ended by itself, or is just starting
            await scan(rpc, [self._purse.reward_address])  # writes the chain first
            await rpc.call("savemempool")

    async def _make_first_blocks(self) -> None:
        await self._set_clock(-FIRST_BLOCKS_AGE_SECONDS)
        missing = FIRST_BLOCKS - await self.height()
        await self._node.call("generatetoaddress", missing, self._purse.reward_address)
        await self._set_clock(None)

    async def _set_clock(self, ahead: int | None) -> None:
        """Move the node's clock against the real one, or let it follow the real one again."""
        await self._node.call("setmocktime", 0 if ahead is None else int(time.time()) + ahead)

    async def _mine_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            with contextlib.suppress(DevnetError, OSError):  # frozen or cut off: try again at the next beat
                await self.mine()

    async def _make_block(self, raws: list[str]) -> str:
        block = await self._node.call("generateblock", self._purse.reward_address, raws)
        return str(block["hash"])

    async def _cut(self, block_hash: str) -> None:
        await self._node.call("invalidateblock", block_hash)
        self._purse.next_branch()

    async def _last_blocks(self, depth: int) -> list[tuple[str, list[Tx]]]:
        """Return the last blocks, oldest first, each with its transactions but the reward."""
        height = await self.height()
        if not 0 < depth <= height - FIRST_BLOCKS:
            raise DevnetError(f"only the {height - FIRST_BLOCKS} blocks after the first {FIRST_BLOCKS} can be removed")
        hashes = await self._node.many("getblockhash", [[at] for at in range(height - depth + 1, height + 1)])
        blocks = await self._node.many("getblock", [[block_hash, 2] for block_hash in hashes])
        return [(block["hash"], [_tx(tx) for tx in block["tx"][1:]]) for block in blocks]

    async def _waiting(self) -> list[Tx]:
        """Return what waits in the pool, parents before children."""
        pool: dict[str, Any] = await self._node.call("getrawmempool", True)
        txids = sorted(set(pool) - {self._trigger}, key=lambda txid: (pool[txid]["ancestorcount"], txid))
        return [_tx(tx) for tx in await self._node.many("getrawtransaction", [[txid, True] for txid in txids])]

    async def _clear_pool(self) -> str:
        """Empty the pool but for one payment of the faucet to itself; return that payment.

        No call removes a transaction. But when the pool accepts one it forgets those that are too old, and
        how old they are is told by a clock that can be moved.
        """
        trigger = await self._purse.pay_itself()
        await self._set_clock(EXPIRY_SECONDS)
        try:
            txid = await self._node.call("sendrawtransaction", trigger)
            left = await self._node.call("getrawmempool")
        finally:
            await self._set_clock(None)
        if left != [txid]:
            raise DevnetError(f"the pool did not expire: {left}")
        return trigger

    async def _send_again(self, txs: list[Tx]) -> None:
        for tx in txs:
            with contextlib.suppress(NodeRefused):  # it needed one that is gone
                await self._node.call("sendrawtransaction", tx.raw)

    async def _txid(self, raw: str) -> str:
        return (await self._decoded(raw)).txid

    async def _decoded(self, raw: str) -> Tx:
        return _tx({**await self._node.call("decoderawtransaction", raw), "hex": raw})


def create(
    folder: Path, *, seed: str = "devnet", mining: Mining | None = None, external: str | None = None
) -> BitcoinDevnet:
    """Describe a devnet that keeps its data in `folder`, or one at the URL `external`; nothing starts yet."""
    if external is not None:
        return BitcoinDevnet(External(), seed=seed, mining=mining or Manual(), url=external)
    binary, coin = node.find()
    folder.mkdir(parents=True, exist_ok=True)
    password = hashlib.sha256(f"{seed}/rpc".encode()).hexdigest()[:32]
    process = Process(
        lambda port: node.command(binary, coin, folder, port=port, password=password),
        lambda port: _answers(f"http://{node.USER}:{password}@127.0.0.1:{port}"),
        folder / f"{binary.name}.log",
        stop_seconds=1.0,
    )
    return BitcoinDevnet(process, seed=seed, mining=mining or Manual(), password=password, coin=coin)


async def _answers(url: str) -> bool:
    try:
        await Client(url).call("getblockchaininfo")
    except DevnetError as not_yet:  # warming up
        raise OSError(str(not_yet)) from not_yet
    return True


async def _coin_of(client: Client) -> node.Coin:
    """Tell the coin of a node that we did not start from the name it gives itself."""
    if (await client.call("getblockchaininfo"))["chain"] != "regtest":
        raise DevnetError("levers are for regtest nodes only")
    subversion = (await client.call("getnetworkinfo"))["subversion"]
    return node.LITECOIN if "litecoin" in subversion.lower() else node.BITCOIN


def _tx(decoded: dict[str, Any]) -> Tx:
    spends = frozenset((vin["txid"], vin["vout"]) for vin in decoded["vin"])
    return Tx(decoded["txid"], decoded["hex"], spends)
