"""What every local network can do, whichever chain it speaks: the port, the kinds, the errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Kind(StrEnum):
    """How close a devnet is to the chain it stands for."""

    REAL_NODE = "real node"
    REAL_RUNTIME = "real runtime, pool and consensus simulated"
    EMULATOR = "emulator"


class DevnetError(Exception):
    """A devnet did not do what a lever asked."""


class DevnetMissing(DevnetError):
    """The program behind a devnet is not installed; the text says how to get it."""


class LeverMissing(DevnetError):
    """This network cannot do what was asked; a test should skip and say so."""


@dataclass(frozen=True)
class Manual:
    """A block is made only when a lever asks for one."""


@dataclass(frozen=True)
class Interval:
    """A block is made every `seconds`, besides those that levers ask for."""

    seconds: float


Mining = Manual | Interval


class Devnet(Protocol):
    """One local network and the levers that move it.

    With one seed and manual mining, keys, addresses and transactions are the same in every run; block times are the
    real time, so that a head is never stale, and with them block hashes differ.
    Amounts are integers in the chain's smallest unit. Hashes are text in the form the chain's node prints.
    Every lever raises DevnetError when the node refuses, LeverMissing when this network has no such lever.
    """

    @property
    def name(self) -> str:
        """The chain's short name, as in `create(name)`."""

    @property
    def kind(self) -> Kind: ...

    @property
    def url(self) -> str:
        """Where clients connect, user and password included; known after `start`."""

    @property
    def identity(self) -> str:
        """Which network this is: the chain id (EVM) or the coin (Bitcoin family); known after `start`."""

    @property
    def log(self) -> Path | None:
        """The node's log file; None when the node is not ours."""

    def dev_account(self) -> tuple[str, str]:
        """Return address and private key of an account with funds from the start, if there is any."""

    async def start(self) -> None:
        """Start and return when the node answers. Twice is an error; after `stop` the data is still there."""

    async def stop(self) -> None:
        """Stop and free the port. Stopping twice does nothing."""

    async def restart(self) -> None:
        """Stop and start on the same port with the same data; the pool fares as on this node in real life."""

    async def pause(self) -> None:
        """Freeze the node: connections are accepted, nothing is answered."""

    async def resume(self) -> None:
        """Undo `pause`."""

    async def wait(self) -> None:
        """Return when the node has ended by itself; never for a node that is not ours."""

    async def fund(self, address: str, amount: int) -> str:
        """Pay `amount` from the faucet, confirm that alone (the pool stays as it is), return the hash."""

    async def balance(self, address: str) -> int:
        """Confirmed balance."""

    async def height(self) -> int:
        """Height of the newest block."""

    async def pool(self) -> set[str]:
        """Hashes of all waiting transactions."""

    async def in_block(self, tx_hash: str) -> str | None:
        """Hash of the block on the present chain that holds the transaction, or None."""

    async def mine(self, blocks: int = 1) -> list[str]:
        """Make blocks out of the pool and return their hashes, oldest first."""

    async def mine_empty(self, blocks: int = 1) -> list[str]:
        """Make blocks without any transaction; the pool stays as it is."""

    async def reorg(self, depth: int, *, reinclude: bool, instead: Sequence[bytes] = ()) -> list[str]:
        """Replace the last `depth` blocks by `depth + 1` new ones: the chain ends one block HIGHER.

        `instead` are signed transactions for the first new block. With `reinclude` the removed transactions
        come back, each in the new block of its old height, except those that conflict with `instead`; without
        it they are in no block and not in the pool. The last new block is empty, and so is every other that
        nothing was put into. What was waiting stays waiting, unless it needed something that vanished.
        Returns the hashes of the new blocks, oldest first.
        """

    async def shorten(self, depth: int) -> None:
        """Remove the last `depth` blocks and put nothing in their place: the height goes DOWN by `depth`.

        What becomes of their transactions is the node's own way: anvil forgets them, Bitcoin Core puts those
        of the last ten blocks back into the pool.
        """

    async def drop(self, tx_hash: str) -> None:
        """Make the node forget one waiting transaction; others stay as far as they do not need it."""
