"""The port to a chain: two halves, so that the half that decides about money needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.core.chain import (
    Account,
    Block,
    BlockRef,
    Build,
    ChainInfo,
    FeeLevel,
    FeeQuote,
    Hold,
    Intent,
    Lane,
    LaneFacts,
    Presence,
    Reject,
    Sent,
    Signature,
    Signed,
    SigningRequest,
    Unsigned,
    Watch,
)


class Codec(Protocol):
    """Builds, encodes and decodes; pure: the same arguments give the same answer, for ever."""

    @property
    def info(self) -> ChainInfo:
        """What is fixed for this chain."""

    def address_of(self, public_key: bytes) -> str:
        """Return the address (canonical form) that a vault key controls. Secp256k1: 33 bytes compressed."""

    def check_destination(self, address: str, memo: str | None) -> str:
        """Return the canonical form of a destination. Raises BadRequest: checksum, network, type, memo."""

    def check_amount(self, amount: int, destination: str) -> None:
        """Raise BadRequest when `amount` (base units) can never be paid there (dust)."""

    def fee_ceiling(self, quote: FeeQuote, level: FeeLevel) -> int:
        """Return the most that one withdrawal of usual shape may cost now, with room for the fees to move."""

    def room(self, lane: Lane) -> int:
        """Return how many more attempts this account may have in flight now (0: wait for a block)."""

    def build(self, order: Build, lane: Lane, quote: FeeQuote) -> Unsigned | Hold | Reject:
        """Build one attempt, or say why it must wait (Hold) or can never be built as asked (Reject).

        Never consumes a held claim of another withdrawal.
        """

    def signing_requests(self, payload: bytes, account: Account) -> tuple[SigningRequest, ...]:
        """List what must be signed for an unsigned payload, in order."""

    def assemble(self, payload: bytes, account: Account, signatures: Sequence[Signature]) -> Signed:
        """Put the signatures in. Raises SignedMismatch when one is not of this account's key and data."""

    def check_signed(
        self,
        raw: bytes,
        intent: Intent,
        account: Account,
        *,
        pays: bool,
        max_fee: int,
        claims: Sequence[str],
        payload: bytes = b"",
    ) -> None:
        """Decode signed bytes and raise SignedMismatch unless they are exactly the approved payment.

        Compared: chain, sender, destination and amount (or, with `pays` false, that nothing leaves the account
        but the fee), nothing else of value moved, fee ≤ max_fee, claims, signature. Never trusts the unsigned
        payload: `payload` is only for values that signed bytes commit to but do not show (input amounts), and
        they are verified through the signature.
        """


class Node(Protocol):
    """Talks to the nodes of one chain. Never sleeps but in `next_head`, never retries, keeps nothing.

    Every call may raise NodeUnavailable (no effect) or BadReply; only `send` may raise OutcomeUnknown and Refused.
    """

    async def open(self) -> None:
        """Connect and check chain id and genesis of every endpoint. ConfigError: the wrong chain answered."""

    async def close(self) -> None:
        """Close every connection; may be called twice."""

    async def head(self) -> BlockRef:
        """Return the best block that a healthy node has."""

    async def next_head(self, known: BlockRef, within: float) -> BlockRef:
        """Return the head as soon as it differs from `known`, at the latest after `within` seconds."""

    async def finalized(self, head: BlockRef) -> int:
        """Return the height at or under which no block can leave the chain (-1 when there is none yet)."""

    async def header(self, height: int) -> BlockRef | None:
        """Return the canonical block at a height, None when the chain does not reach it."""

    async def block(self, ref: BlockRef, watch: Watch) -> Block | None:
        """Read one whole block by its hash, None when the node does not know it (any more).

        The number of calls does not depend on how much is watched.
        """

    async def send(self, raw: bytes, tx_hash: str) -> Sent:
        """Offer signed bytes once to every healthy node. May be called again with the same bytes.

        Returns when any node took them or has them. Raises Refused (all that answered said no), OutcomeUnknown
        (an answer was lost), NodeUnavailable (they reached no node).
        """

    async def presence(self, tx_hash: str) -> Presence:
        """Ask where a hash is; the answer is a hint, never a proof."""

    async def fees(self) -> FeeQuote:
        """Return the present fees, clamped to the configured bounds."""

    async def balance(self, address: str) -> int:
        """Return the base units that the chain holds for an address at the head."""

    async def survey(self, account: Account, intents: Sequence[Intent]) -> LaneFacts:
        """Return the node's facts for one account and what it says of the destinations of these intents.

        All read at one head where the node allows it. The number of round trips does not depend on the
        number of intents.
        """

    async def opening(self, account: Account) -> str:
        """Return the text to keep as the account's opening state (asked once, when it is first used)."""

    async def replaces(self) -> bool:
        """Say whether the nodes replace a pending transaction (a fact of the node, not of the chain)."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One configured chain: both halves."""

    codec: Codec
    node: Node

    @property
    def info(self) -> ChainInfo:
        """What is fixed for this chain."""
        return self.codec.info
