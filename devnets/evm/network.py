"""The EVM devnet's levers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import ClientError
from eth_account import Account
from eth_account.hdaccount import key_from_seed, seed_from_mnemonic
from eth_account.hdaccount.mnemonic import Mnemonic
from eth_account.types import Language
from eth_typing import HexStr
from web3 import Web3
from web3.exceptions import TransactionNotFound
from web3.types import BlockIdentifier

from devnets.evm import node
from devnets.evm.client import Client
from devnets.network import DevnetError, Kind, LeverMissing, Manual, Mining
from devnets.process import External, Process, Runner

TRANSFER_GAS = 100_000  # enough for an address that holds a contract wallet
MINED_SECONDS = 10.0  # a node that is not ours may make blocks at its own pace


class EvmDevnet:
    """See `devnets.network.Devnet`; hashes are 0x-prefixed lower case, amounts are wei."""

    name = "evm"
    kind = Kind.REAL_NODE

    def __init__(self, runner: Runner, *, url: str | None = None, mnemonic: str | None = None) -> None:
        self._runner = runner
        self._url = url
        self._mnemonic = mnemonic
        self._client: Client | None = None
        self._chain_id: int | None = None
        self._lock = asyncio.Lock()

    @property
    def url(self) -> str:
        return self._url or f"http://127.0.0.1:{self._runner.port}"

    @property
    def chain_id(self) -> int:
        if self._chain_id is None:
            raise DevnetError("not started yet: no chain id")
        return self._chain_id

    @property
    def identity(self) -> str:
        return str(self.chain_id)

    @property
    def log(self) -> Path | None:
        return self._runner.log

    def dev_account(self, index: int = 0) -> tuple[str, str]:
        """Return address and private key of a funded account; the faucet is the last of them."""
        if self._mnemonic is None:
            raise LeverMissing("the keys of a node that we did not start are not known")
        return dev_account(self._mnemonic, index)

    async def start(self) -> None:
        await self._runner.start()
        self._client = Client(self.url)
        self._chain_id = await self._eth.eth.chain_id
        if not self._is_external:
            await self._usual_limit()

    async def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await self._runner.stop()

    async def restart(self) -> None:
        if self._is_external:
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
        """Pay by a real transfer, because a watcher of deposits would not see a balance set from outside."""
        async with self._lock:
            raw = await self._signed_by_faucet(address, amount)
            if await self.pool():
                # There is no call to mine one transaction alone: put it into an empty block afterwards.
                await self._mine_empty(1)
                await self._eth.call("anvil_reorg", 1, [[_hex(raw), 0]])
            else:
                await self._eth.call("eth_sendRawTransaction", _hex(raw))
                with contextlib.suppress(LeverMissing):  # such a node makes blocks by itself
                    await self.mine()
            await self._await_mined(_hash(raw))
            return _hash(raw)

    async def balance(self, address: str) -> int:
        return await self._eth.eth.get_balance(Web3.to_checksum_address(address))

    async def height(self) -> int:
        return await self._eth.eth.block_number

    async def pool(self) -> set[str]:
        return {tx["hash"] for tx in await self._waiting()}

    async def in_block(self, tx_hash: str) -> str | None:
        try:
            found = await self._eth.eth.get_transaction(HexStr(_0x(tx_hash)))
        except TransactionNotFound:
            return None
        block = found.get("blockHash")
        return None if block is None else _hex(block)

    async def mine(self, blocks: int = 1) -> list[str]:
        before = await self.height()
        await self._eth.call("anvil_mine", hex(blocks))
        return await self._hashes(before + 1, before + blocks)

    async def mine_empty(self, blocks: int = 1) -> list[str]:
        """Make blocks with so low a gas limit that no transaction fits; their headers show it."""
        async with self._lock:
            return await self._mine_empty(blocks)

    async def reorg(self, depth: int, *, reinclude: bool, instead: Sequence[bytes] = ()) -> list[str]:
        async with self._lock:
            fork = await self.height() - depth
            plan: list[list[Any]] = [[_hex(raw), 0] for raw in instead]
            if reinclude:
                # anvil leaves out what has become invalid: those that conflict with `instead`.
                plan += [[raw, at] for at in range(depth) for raw in await self._raws(fork + 1 + at)]
            await self._eth.call("anvil_reorg", depth, plan)
            await self._mine_empty(1)
            for raw in instead:
                await self._await_mined(_hash(raw))
            if not reinclude:
                # anvil goes on as if the vanished nonces were used, and would throw away what follows them.
                for sender in {tx["from"] for tx in await self._waiting()}:
                    await self._pool_again(sender)
            return await self._hashes(fork + 1, fork + depth + 1)

    async def shorten(self, depth: int) -> None:
        async with self._lock:
            await self._eth.call("anvil_rollback", depth)
            await self._usual_limit()

    async def drop(self, tx_hash: str) -> None:
        """Take one transaction out of the pool; later nonces of its sender stay, as waiting for the gap."""
        async with self._lock:
            tx = next((tx for tx in await self._waiting() if tx["hash"] == _0x(tx_hash).lower()), None)
            if tx is None:
                raise DevnetError(f"{tx_hash} is not in the pool")
            # anvil_dropTransaction does not reach transactions behind a gap and takes all later ones along.
            await self._pool_again(tx["from"], without=tx["hash"])

    # ------------------------------------------------------------------------------------------------

    @property
    def _is_external(self) -> bool:
        return isinstance(self._runner, External)

    @property
    def _eth(self) -> Client:
        if self._client is None:
            raise DevnetError("not running")
        return self._client

    async def _signed_by_faucet(self, address: str, amount: int) -> bytes:
        faucet = (await self._eth.eth.accounts)[-1]
        price = (await self._eth.eth.gas_price) * 2
        signed = await self._eth.call(
            "eth_signTransaction",
            {
                "from": faucet,
                "to": Web3.to_checksum_address(address),
                "value": hex(amount),
                "nonce": hex(await self._eth.eth.get_transaction_count(faucet)),
                "gas": hex(TRANSFER_GAS),
                "maxFeePerGas": hex(price),
                "maxPriorityFeePerGas": hex(10**9),
                "chainId": hex(self.chain_id),
            },
        )
        return bytes.fromhex((signed if isinstance(signed, str) else signed["raw"]).removeprefix("0x"))

    async def _mine_empty(self, blocks: int) -> list[str]:
        before = await self.height()
        await self._eth.call("evm_setBlockGasLimit", hex(node.EMPTY_LIMIT))
        try:
            await self._eth.call("anvil_mine", hex(blocks))
        finally:
            await self._usual_limit()
        return await self._hashes(before + 1, before + blocks)

    async def _usual_limit(self) -> None:
        """Undo what an empty block's limit left: anvil takes it up again with that block, as after a restart."""
        await self._eth.call("evm_setBlockGasLimit", hex(node.GAS_LIMIT))

    async def _waiting(self) -> list[dict[str, Any]]:
        content: dict[str, dict[str, dict[str, dict[str, Any]]]] = await self._eth.call("txpool_content")
        return [tx for part in content.values() for sender in part.values() for tx in sender.values()]

    async def _pool_again(self, sender: str, *, without: str | None = None) -> None:
        """Hand the sender's waiting transactions to the pool anew, so that those behind a gap wait for it."""
        theirs = [tx for tx in await self._waiting() if tx["from"] == sender and tx["hash"] != without]
        raws = [await self._raw(tx["hash"]) for tx in sorted(theirs, key=lambda tx: int(tx["nonce"], 16))]
        await self._eth.call("anvil_removePoolTransactions", sender)
        for raw in raws:
            await self._eth.call("eth_sendRawTransaction", raw)

    async def _raws(self, height: int) -> list[str]:
        block = await self._block(height)
        return [await self._raw(_hex(tx_hash)) for tx_hash in block["transactions"]]

    async def _raw(self, tx_hash: str) -> str:
        raw = await self._eth.call("eth_getRawTransactionByHash", tx_hash)
        if not isinstance(raw, str):
            raise DevnetError(f"the node does not give the bytes of {tx_hash}")
        return raw

    async def _block(self, height: BlockIdentifier) -> Any:
        return await self._eth.eth.get_block(height)

    async def _hashes(self, first: int, last: int) -> list[str]:
        return [_hex((await self._block(at))["hash"]) for at in range(first, last + 1)]

    async def _await_mined(self, tx_hash: str) -> None:
        try:
            async with asyncio.timeout(MINED_SECONDS if self._is_external else 0.5):
                while await self.in_block(tx_hash) is None:  # noqa: ASYNC110 - the node has no event for it
                    await asyncio.sleep(0.02)
        except TimeoutError as problem:
            raise DevnetError(f"the node did not put {tx_hash} into a block") from problem


def create(
    folder: Path,
    *,
    seed: str = "devnet",
    mining: Mining | None = None,
    external: str | None = None,
    chain_id: int = 31337,
    slots_in_an_epoch: int = 1,
) -> EvmDevnet:
    """Describe an EVM devnet with its data in `folder`, or one at the URL `external`; nothing starts yet."""
    if external is not None:
        return EvmDevnet(External(), url=external)
    settings = node.Settings(mnemonic(seed), mining or Manual(), chain_id, slots_in_an_epoch)
    binary = node.find()
    folder.mkdir(parents=True, exist_ok=True)
    process = Process(lambda port: node.command(binary, settings, folder, port), _answers, folder / "anvil.log")
    return EvmDevnet(process, mnemonic=settings.mnemonic)


def mnemonic(seed: str) -> str:
    """Return the words behind all accounts of the devnet with this seed."""
    return Mnemonic(Language.ENGLISH).to_mnemonic(hashlib.sha256(seed.encode()).digest()[:16])


def dev_account(words: str, index: int) -> tuple[str, str]:
    """Return address and private key number `index` on the standard path (BIP 44, coin 60)."""
    key = key_from_seed(seed_from_mnemonic(words, ""), f"m/44'/60'/0'/0/{index}")
    account = Account.from_key(key)
    return account.address, _hex(account.key)


async def _answers(port: int) -> bool:
    client = Client(f"http://127.0.0.1:{port}")
    try:
        await client.eth.chain_id
    except (ClientError, DevnetError) as problem:
        raise OSError(str(problem)) from problem
    finally:
        await client.close()
    return True


def _hash(raw: bytes) -> str:
    return _hex(Web3.keccak(raw))


def _hex(value: bytes) -> str:
    return "0x" + bytes(value).hex()


def _0x(tx_hash: str) -> str:
    return tx_hash if tx_hash.startswith("0x") else "0x" + tx_hash
