"""Records: what the store holds, as frozen facts. Amounts in base units, times aware (UTC)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gateway.core.chain import AttemptKind, BlockRef, FeeLevel, Intent, Pending
from gateway.core.ids import (
    AccountId,
    AttemptId,
    TransactionId,
    VaultId,
    WithdrawalId,
    WorkspaceId,
)
from gateway.core.lifecycle import Status
from gateway.core.substatus import SubStatus


class DestinationType(StrEnum):
    """What kind of destination the caller named."""

    VAULT = "vault"
    EXCHANGE = "exchange"
    WHITELISTED = "whitelisted"
    ONE_TIME = "one-time"
    NETWORK = "network"


class SendOutcome(StrEnum):
    """What one send did (column `broadcast_attempts.outcome`)."""

    SUBMITTED = "submitted"
    REJECTED = "rejected"
    DROPPED = "dropped"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A tenant."""

    id: WorkspaceId
    name: str


@dataclass(frozen=True, slots=True)
class Vault:
    """A set of accounts, one per chain at most, that belong together."""

    id: VaultId
    workspace_id: WorkspaceId
    name: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One withdrawal with its transaction, as read at one moment.

    `max_fee` is the approved maximum; `fee_paid` what the chain has taken so far as we know; `confirmations` the
    reported number, which never falls; `threshold` overrides the chain's; `alarm` is set when a person must look.
    """

    id: WithdrawalId
    transaction_id: TransactionId
    workspace_id: WorkspaceId
    vault_id: VaultId
    account_id: AccountId
    chain: str
    asset: str
    amount: int
    decimals: int
    destination: str
    destination_type: DestinationType
    memo: str | None
    fee_level: FeeLevel
    max_fee: int
    status: Status
    sub_status: SubStatus
    status_changed_at: datetime
    created_at: datetime
    external_id: str | None = None
    note: str | None = None
    threshold: int | None = None
    retry_count: int = 0
    tx_hash: str | None = None
    confirmations: int = 0
    fee_paid: int = 0
    alarm: str | None = None
    pending_auth_at: datetime | None = None
    pending_sign_at: datetime | None = None

    @property
    def intent(self) -> Intent:
        """What was approved."""
        return Intent(self.id, self.asset, self.amount, self.destination, self.memo)


@dataclass(frozen=True, slots=True)
class Move:
    """One withdrawal goes along `path` (each step in the table), if it still has the status it was read with.

    `at` is the time of the first step. `fee_paid` (None: unchanged) is the new total that the chain took.
    """

    withdrawal: Withdrawal
    path: tuple[Status, ...]
    reason: str
    at: datetime
    sub_status: SubStatus = SubStatus.NONE
    fee_paid: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of the write-ahead table: built, then signed, then followed until finality.

    `raw` and `tx_hash` are empty while unsigned. `included`: the block of the present chain that holds it, `ok` whether
    it executed there. `recorded`: a `broadcast_attempts` row exists (its id is this id). `closed`: final, or released
    before anything was signed.
    """

    id: AttemptId
    withdrawal_id: WithdrawalId
    account_id: AccountId
    chain: str
    kind: AttemptKind
    payload: bytes
    claims: tuple[str, ...]
    window_end: int | None
    fee_max: int
    built_at: datetime
    raw: bytes = b""
    tx_hash: str = ""
    signed_at: datetime | None = None
    included: BlockRef | None = None
    ok: bool = True
    fee: int | None = None
    recorded: bool = False
    sends: int = 0
    last_sent_at: datetime | None = None
    closed: bool = False

    @property
    def pending(self) -> Pending:
        """The attempt as a builder sees it."""
        return Pending(
            attempt_id=self.id,
            withdrawal_id=self.withdrawal_id,
            kind=self.kind,
            payload=self.payload,
            raw=self.raw,
            tx_hash=self.tx_hash,
            claims=self.claims,
            fee_max=self.fee_max,
            in_block=self.included is not None,
        )


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Where an attempt stands: its block, whether it executed there, what it cost (base units)."""

    block: BlockRef
    ok: bool
    fee: int


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A row of `broadcast_attempts`. A repeat of an attempt's bytes has an id of its own."""

    id: AttemptId
    withdrawal_id: WithdrawalId
    attempt_number: int
    payload: bytes
    raw: bytes
    node: str
    at: datetime
    tx_hash: str | None
    outcome: SendOutcome


@dataclass(frozen=True, slots=True)
class NewBroadcast:
    """A send to be recorded; the number is given by the store. `first`: the row has the attempt's own id."""

    attempt: Attempt
    node: str
    at: datetime
    outcome: SendOutcome
    first: bool = True


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A row of `confirmations`."""

    broadcast_id: AttemptId
    block_hash: str
    block_height: int
    confirmed_at: datetime
    reorged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A row of `transaction_events`."""

    transaction_id: TransactionId
    source: Status | None
    target: Status
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Spend:
    """A claim of ours that a transaction not of its family consumed in a block of the present chain.

    `pays_intent`: it pays what a withdrawal holding the claim wants paid, so it proves nothing and a person must look.
    """

    chain: str
    claim: str
    tx_hash: str
    block: BlockRef
    pays_intent: bool


class Book(StrEnum):
    """The books of the ledger. Every posting sums to zero over them."""

    AVAILABLE = "available"
    RESERVED = "reserved"
    PAID = "paid"
    FEES = "fees"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One leg of a posting: base units added to (or taken from) a book of an account."""

    transaction_id: TransactionId
    account_id: AccountId
    book: Book
    amount: int
    kind: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for `name`, until it ends; `token` grows with every new owner."""

    name: str
    owner: str
    token: int


@dataclass(frozen=True, slots=True)
class History:
    """All that happened to one withdrawal."""

    withdrawal: Withdrawal
    events: tuple[Event, ...]
    attempts: tuple[Attempt, ...]
    broadcasts: tuple[Broadcast, ...]
    confirmations: tuple[Confirmation, ...]
    ledger: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which withdrawals to list, newest first."""

    status: Status | None = None
    chain: str | None = None
    limit: int = 50


Sums = Mapping[Book, int]
