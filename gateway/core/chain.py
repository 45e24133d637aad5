"""Facts about chains, in the six words that the core knows: slot, window, lane, replace, finality, inclusion."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway.core.ids import AccountId, AttemptId, VaultId, WithdrawalId
from gateway.core.substatus import SubStatus


class FeeLevel(StrEnum):
    """How much a withdrawal may pay for speed."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"


class AttemptKind(StrEnum):
    """What an attempt is for. Only PAYMENT and BOOST pay the destination."""

    PAYMENT = "payment"
    BOOST = "boost"
    DROP = "drop"
    CPFP = "cpfp"

    @property
    def pays(self) -> bool:
        """Whether an attempt of this kind pays the destination when it lands."""
        return self in (AttemptKind.PAYMENT, AttemptKind.BOOST)


@dataclass(frozen=True, slots=True)
class Account:
    """A vault's account on one chain: an address and the name of the key that controls it."""

    id: AccountId
    vault_id: VaultId
    chain: str
    address: str
    key: str
    public_key: bytes
    opening: str = ""
    """What the chain said of the account when it was first used here (the adapter's own text)."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What was approved; it never changes. `amount` in base units."""

    withdrawal_id: WithdrawalId
    asset: str
    amount: int
    destination: str
    memo: str | None = None


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block by height and hash, with its parent's hash."""

    height: int
    hash: str
    parent: str


@dataclass(frozen=True, slots=True)
class Payment:
    """Base units that a transaction moves to an address (canonical form)."""

    address: str
    amount: int


@dataclass(frozen=True, slots=True)
class Landed:
    """A transaction found in a block.

    `claims` are the claims that it consumed, `sender` the address of ours that it spent from if it is one of
    the watched (else ""), `ok` whether it executed, `fee` what it cost in base units (None: not known from
    the block), `pays` every transfer of native coin that it shows, `opaque` whether it may have moved more than it
    shows (code ran).
    """

    tx_hash: str
    claims: tuple[str, ...]
    sender: str
    ok: bool
    fee: int | None
    pays: tuple[Payment, ...]
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One block as far as it concerns us: only the watched transactions and spends."""

    ref: BlockRef
    landed: tuple[Landed, ...] = ()


class Watch(Protocol):
    """What the reader of a block looks for. All three answer `in` in constant time."""

    @property
    def hashes(self) -> Container[str]:
        """Hashes of attempts."""

    @property
    def claims(self) -> Container[str]:
        """Claims held by attempts: whoever consumes one is reported."""

    @property
    def senders(self) -> Mapping[str, object]:
        """Addresses of our accounts: a spend from one is reported even if its claim is unknown."""


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that the store holds for an account. `signed`: bytes that consume it may exist."""

    claim: str
    withdrawal_id: WithdrawalId
    signed: bool


@dataclass(frozen=True, slots=True)
class Pending:
    """A built or signed attempt of this account that is not final yet (oldest first).

    `payload` is the unsigned CBOR, `raw` the signed bytes (empty while unsigned), `in_block` whether a block of
    the present chain holds it.
    """

    attempt_id: AttemptId
    withdrawal_id: WithdrawalId
    kind: AttemptKind
    payload: bytes
    raw: bytes
    tx_hash: str
    claims: tuple[str, ...]
    fee_max: int
    in_block: bool


@dataclass(frozen=True)
class LaneFacts:
    """What the node says of one account; each adapter adds its own fields in a subclass.

    `spendable`: base units that the chain would let the account spend now, before our pending attempts.
    """

    height: int
    spendable: int


@dataclass(frozen=True, slots=True)
class Lane:
    """All that a builder may know: the account, the node's facts, what the store holds for it."""

    account: Account
    facts: LaneFacts
    held: tuple[Held, ...]
    pending: tuple[Pending, ...]


@dataclass(frozen=True)
class FeeQuote:
    """The node's present fees; each adapter adds its own fields in a subclass."""


@dataclass(frozen=True, slots=True)
class Build:
    """An order to build one attempt.

    `max_fee` (base units) is never exceeded. `replaces` names every earlier attempt of the family that is not
    proven dead: the new one must consume a claim of each (or it is refused by `once.check_excludes`).
    """

    intent: Intent
    kind: AttemptKind
    level: FeeLevel
    max_fee: int
    replaces: tuple[Pending, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A built attempt. `payload`: CBOR from which the codec can do everything that follows, alone.

    `claims`: the slot, as texts unique on the chain (what only one transaction can consume). `window_end`: last
    height at which the bytes can land, None when they never expire. `fee_max`: the most it can cost.
    """

    payload: bytes
    claims: tuple[str, ...]
    window_end: int | None
    fee_max: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Not now: the lane waits and asks again after the next block. `reason` is for people."""

    sub_status: SubStatus
    reason: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Never as asked: nothing was signed, and asking again gives the same answer. `reason` is for people."""

    sub_status: SubStatus
    reason: str


@dataclass(frozen=True, slots=True)
class SigningRequest:
    """Exactly these bytes are to be signed by this key. `algorithm`: "secp256k1-digest" or "ed25519"."""

    key: str
    algorithm: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature: 64 bytes r‖s (low s) and, for secp256k1, the recovery bit (0 or 1)."""

    data: bytes
    recovery: int | None = None


@dataclass(frozen=True, slots=True)
class Signed:
    """Signed bytes and the hash under which the chain will show them."""

    raw: bytes
    tx_hash: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A node took the bytes (or already had them). `node` is the endpoint's name, never its credentials."""

    node: str
    already_known: bool = False


class Presence(StrEnum):
    """What a node says of a hash when asked; ABSENT proves nothing."""

    IN_BLOCK = "in-block"
    IN_POOL = "in-pool"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class ChainInfo:
    """What is fixed for a configured chain.

    `decimals` of the native coin, `asset` its id at the API, `algorithm` of its keys (as in SigningRequest),
    `threshold` the default confirmations to COMPLETED, `lane_depth` how many attempts of one account may be in flight,
    `batch` how many may be built before the first of them is stored (1 where one build depends on the signed bytes of
    another), `replaceable` whether the family has replacement at all.
    """

    name: str
    family: str
    asset: str
    decimals: int
    threshold: int
    lane_depth: int
    batch: int
    replaceable: bool
    hash_explorer: str = ""
    algorithm: str = "secp256k1-digest"
