"""What a signer remembers of its journal: whose a claim is, and the newest signatures and lines."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import cbor2

from gateway.core.chain import Signature, SigningRequest
from gateway.core.errors import JournalAhead, SignerRefused
from gateway.core.ids import WithdrawalId
from gateway.core.signing import JournalLine, SigningOrder
from gateway.signers.algorithms import check_data
from gateway.signers.journal import Entry, Made

REMEMBERED: Final = 16_384
"""How many of the newest signatures and lines are kept. An older signature is made again, and is the same."""


class ClaimIndex:
    """Every claim that was ever signed, with the withdrawal it was signed for: a second lock on a slot.

    About 250 bytes a claim: both are kept as 16 bytes. (Two claims with one 128-bit hash would only refuse.)
    """

    def __init__(self) -> None:
        self._holders: dict[bytes, bytes] = {}

    def check(self, chain: str, claims: Sequence[str], withdrawal_id: WithdrawalId) -> None:
        """Raise JournalAhead when a claim was signed for another withdrawal, which the store would know if it could."""
        for claim in claims:
            if self._holders.get(_short(chain, claim), withdrawal_id.bytes) != withdrawal_id.bytes:
                raise JournalAhead(f"withdrawal {withdrawal_id}: {claim} on {chain} was signed for another withdrawal")

    def add(self, chain: str, claims: Sequence[str], withdrawal_id: WithdrawalId) -> None:
        """Note whose these claims are; the first one to have a claim keeps it."""
        for claim in claims:
            self._holders.setdefault(_short(chain, claim), withdrawal_id.bytes)


class Memory:
    """All of it; what is in here is durable in the journal."""

    def __init__(self) -> None:
        self.claims = ClaimIndex()
        self._remembered = REMEMBERED
        self._signatures: OrderedDict[tuple[str, str, bytes], Signature] = OrderedDict()
        self._lines: OrderedDict[bytes, None] = OrderedDict()

    def learn(self, entry: Entry) -> None:
        """Take in a line that the journal holds."""
        self.claims.add(entry.line.chain, entry.line.claims, entry.line.withdrawal_id)
        self._lines[_identity(entry)] = None
        for made in entry.made:
            self._signatures[made.key, made.algorithm, made.digest] = made.signature
        while len(self._lines) > self._remembered:
            self._lines.popitem(last=False)
        while len(self._signatures) > self._remembered:
            self._signatures.popitem(last=False)

    def knows(self, entry: Entry) -> bool:
        """Say whether the journal holds a line with this content (false when it is too long ago)."""
        return _identity(entry) in self._lines

    def signature(self, key: str, algorithm: str, digest: bytes) -> Signature | None:
        """Return the signature that was made for these bytes, if it is remembered."""
        found = self._signatures.get((key, algorithm, digest))
        if found is not None:
            self._signatures.move_to_end((key, algorithm, digest))
        return found


class Batch:
    """Orders on their way into one block of the journal: nothing of it counts before the block is durable."""

    def __init__(self, memory: Memory, sequence: int, make: Callable[[SigningRequest], Signature]) -> None:
        self.entries: list[Entry] = []
        self._memory = memory
        self._sequence = sequence
        self._make = make
        self._staged = Memory()

    def add(self, orders: Sequence[SigningOrder]) -> tuple[tuple[Signature, ...], ...]:
        """Sign all of these orders, or refuse all and leave no trace. Nothing may be given out yet."""
        mine, own_claims = [], ClaimIndex()
        for order in orders:
            for claims in (self._memory.claims, self._staged.claims, own_claims):
                claims.check(order.chain, order.claims, order.withdrawal_id)
            own_claims.add(order.chain, order.claims, order.withdrawal_id)
            if not order.requests:
                raise SignerRefused(f"withdrawal {order.withdrawal_id}: there is nothing to sign in this order")
            for request in order.requests:
                check_data(request.algorithm, request.data)
            mine.append(tuple(self._sign(request) for request in order.requests))
        for order, made in zip(orders, mine, strict=True):
            entry = Entry(_line(order, self._sequence + len(self.entries) + 1), made)
            if not self._memory.knows(entry) and not self._staged.knows(entry):
                self.entries.append(entry)
            self._staged.learn(entry)
        return tuple(tuple(m.signature for m in made) for made in mine)

    def _sign(self, request: SigningRequest) -> Made:
        digest = hashlib.sha256(request.data).digest()
        wanted = (request.key, request.algorithm, digest)
        kept = self._memory.signature(*wanted) or self._staged.signature(*wanted)
        return Made(*wanted, kept or self._make(request))


def _line(order: SigningOrder, sequence: int) -> JournalLine:
    return JournalLine(
        sequence,
        order.withdrawal_id,
        order.attempt_id,
        order.chain,
        order.address,
        order.claims,
        order.record,
        hashlib.sha256(b"".join(request.data for request in order.requests)).digest(),
    )


def _identity(entry: Entry) -> bytes:
    """Name the content of a line, without its place in the journal and without its signatures."""
    line = entry.line
    content = [
        line.withdrawal_id.bytes,
        line.attempt_id.bytes,
        line.chain,
        line.address,
        line.claims,
        line.record,
        [(m.key, m.algorithm, m.digest) for m in entry.made],
    ]
    return hashlib.sha256(cbor2.dumps(content)).digest()


def _short(chain: str, claim: str) -> bytes:
    return hashlib.blake2b(f"{len(chain)}:{chain}{claim}".encode(), digest_size=16).digest()
