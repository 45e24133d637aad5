"""The local signer: keys in an encrypted file of this machine, for small set-ups and local networks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

from gateway.core.chain import Signature, SigningRequest
from gateway.core.errors import SignerError, SignerUnavailable
from gateway.core.signing import JournalLine, SigningOrder
from gateway.signers import journal as journals
from gateway.signers import keyfile
from gateway.signers.algorithms import SigningKey, signing_key
from gateway.signers.journal import Journal
from gateway.signers.keyfile import Keys, Password
from gateway.signers.memory import Batch, Memory

T = TypeVar("T")


class LocalSigner:
    """A `gateway.core.signing.Signer` whose one thread does all the work.

    Orders that arrive while it is busy go into the journal together and share one fsync.
    """

    def __init__(self, keys: Keys, journal: Journal, memory: Memory) -> None:
        """Not for callers: `open` makes it."""
        self._keys = keys
        self._journal = journal
        self._memory = memory
        self._made: dict[tuple[str, str], SigningKey] = {}
        self._waiting: deque[_Call] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="signer")
        self._closed = False

    @staticmethod
    async def create(key_file: Path, journal: Path, password: Password, *, work: int = keyfile.STRONG) -> None:
        """Make a new key file and its journal. SignerUnavailable: one exists (none is overwritten)."""

        def make() -> None:
            if journal.exists():
                raise SignerUnavailable(f"journal {journal} exists already; a journal is never overwritten")
            if not journal.parent.is_dir():
                # Found out afterwards, it would leave a key file that no second try may overwrite.
                raise SignerUnavailable(f"journal {journal}: there is no folder {journal.parent}")
            journals.create(journal, keyfile.create(key_file, password, work=work).fingerprint)

        await asyncio.to_thread(make)

    @classmethod
    async def open(cls, key_file: Path, journal: Path, password: Password) -> Self:
        """Open a key file and its journal. SignerUnavailable: see `keyfile.open` and `Journal.open`."""

        def load() -> tuple[Keys, Journal, Memory]:
            keys, memory = keyfile.open(key_file, password), Memory()
            return keys, Journal.open(journal, keys.fingerprint, memory.learn), memory

        return cls(*await asyncio.to_thread(load))

    async def close(self) -> None:
        """Finish what is being signed and let the journal go; may be called twice."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._thread.shutdown)
            self._journal.close()

    async def public_key(self, key: str, algorithm: str) -> bytes:
        """Return the public key of a named key: 33 bytes compressed (secp256k1) or 32 bytes (Ed25519)."""
        return await self._work(lambda: self._key(key, algorithm).public)

    async def sign(self, orders: Sequence[SigningOrder]) -> Sequence[tuple[Signature, ...]]:
        """Sign every order, or none: the journal holds all of them durably before any signature is returned.

        SignerRefused: an order cannot be signed at all, or its claim was signed for another withdrawal.
        """
        call = _Call(tuple(orders))
        self._waiting.append(call)
        await self._work(self._serve)
        return call.result()

    async def journal(self, after: int = 0) -> Sequence[JournalLine]:
        """Return the lines of the journal that follow `after`, oldest first."""
        if self._closed:
            raise SignerUnavailable("the signer is closed")
        return await asyncio.to_thread(lambda: [e.line for e in self._journal.entries(after)])

    async def _work(self, job: Callable[[], T]) -> T:
        if self._closed:
            raise SignerUnavailable("the signer is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    def _serve(self) -> None:
        """Serve every call that waits; the turn of a call may come when it was served with others already."""
        calls = []
        while self._waiting:
            calls.append(self._waiting.popleft())
        ready: list[_Call] = []
        batch = Batch(self._memory, self._journal.sequence, self._make)
        for call in calls:
            try:
                call.signatures = batch.add(call.orders)
                ready.append(call)
            except SignerError as error:
                call.error = error
        if not batch.entries:
            return
        try:
            self._journal.append(batch.entries)
        except SignerUnavailable as error:
            for call in ready:
                call.signatures, call.error = None, error
            return
        for entry in batch.entries:
            self._memory.learn(entry)

    def _make(self, request: SigningRequest) -> Signature:
        return self._key(request.key, request.algorithm).sign(request.data)

    def _key(self, name: str, algorithm: str) -> SigningKey:
        made = self._made.get((name, algorithm))
        if made is None:
            made = signing_key(algorithm, self._keys.derive(name, algorithm))
            self._made[name, algorithm] = made
        return made


class _Call:
    """One call of `sign` on its way through the signer's thread."""

    def __init__(self, orders: tuple[SigningOrder, ...]) -> None:
        self.orders = orders
        self.signatures: tuple[tuple[Signature, ...], ...] | None = None
        self.error: SignerError | None = None

    def result(self) -> tuple[tuple[Signature, ...], ...]:
        if self.error is not None:
            raise self.error
        if self.signatures is None:
            raise SignerUnavailable("the signer failed; nothing of this was given out")
        return self.signatures
