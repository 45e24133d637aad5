"""The port to a signer: whoever holds the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.core.chain import Signature, SigningRequest
from gateway.core.ids import AttemptId, WithdrawalId


@dataclass(frozen=True, slots=True)
class SigningOrder:
    """One attempt's signatures, and what the signer's journal must say of them.

    `claims` is the attempt's slot; `record` is an opaque text of the gateway's from which the attempt can be
    restored when the store was lost (no secret is in it).
    """

    withdrawal_id: WithdrawalId
    attempt_id: AttemptId
    chain: str
    address: str
    claims: tuple[str, ...]
    record: bytes
    requests: tuple[SigningRequest, ...]


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One line of the signer's journal. `sequence` counts from 1 without a gap; `digest` is SHA-256 of the bytes."""

    sequence: int
    withdrawal_id: WithdrawalId
    attempt_id: AttemptId
    chain: str
    address: str
    claims: tuple[str, ...]
    record: bytes
    digest: bytes


class Signer(Protocol):
    """Holds keys and signs. The same order gives the same signatures, however often it is asked."""

    async def public_key(self, key: str, algorithm: str) -> bytes:
        """Return the public key (compressed) of a named key, made on first use. SignerUnavailable: cannot."""

    async def sign(self, orders: Sequence[SigningOrder]) -> Sequence[tuple[Signature, ...]]:
        """Journal every order durably, then sign it. SignerUnavailable: nothing of it left the signer."""

    async def journal(self) -> Sequence[JournalLine]:
        """Return every line of the journal, oldest first."""
