"""The tables: six that are shared with existing installations, word for word, and ours beside them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)
from sqlalchemy import Text as LongText
from sqlalchemy.schema import SchemaItem

from db.types import BaseUnits, Blob, Choice, Coins, Id, Moment, Text
from gateway.core.chain import AttemptKind, FeeLevel
from gateway.core.lifecycle import Status
from gateway.core.records import Book, DestinationType, SendOutcome

REVISION = "0001"
"""The migration that this schema is the result of; a test compares the two."""

SUM_DIGITS = 60
"""Room for sums of amounts of 38 digits."""

metadata = MetaData()


class Operation(StrEnum):
    """What an operator may do to a withdrawal."""

    CANCEL = "cancel"
    RETRY = "retry"
    BOOST = "boost"
    DROP = "drop"
    RESCREEN_AML = "rescreen-aml"
    BYPASS_AML = "bypass-aml"
    DISMISS = "dismiss"
    EDIT_NOTES = "edit-notes"
    REBROADCAST = "rebroadcast"
    FREEZE = "freeze"
    UNFREEZE = "unfreeze"
    SET_CONFIRMATION_THRESHOLD = "set-confirmation-threshold"


def choices(table: str, column: str, values: Iterable[str]) -> CheckConstraint:
    """Return the CHECK that keeps a text column to a closed list, also where there is no ENUM."""
    allowed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({allowed})", name=f"ck_{table}_{column}")


def _table(name: str, *items: SchemaItem) -> Table:
    # WITHOUT ROWID: else `INSERT OR REPLACE` could name a row's hidden number and slip past the guards.
    # utf8mb4_bin: the default collation takes 'Abc' for 'aBC', and hashes would collide.
    return Table(
        name,
        metadata,
        *items,
        sqlite_with_rowid=False,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


# ---- the six shared tables -------------------------------------------------------------------------------

transactions = _table(
    "transactions",
    Column("id", Id, primary_key=True),
    Column("workspace_id", Id, nullable=False),
    Column("source_vault_id", Id),
    Column("destination_type", Choice(DestinationType)),
    Column("asset_id", Text(32)),
    Column("amount_decimal", Coins),
    Column("chain", Text(32)),
    Column("status", Choice(Status), nullable=False),
    Column("status_changed_at", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("raw_payload_cbor", Blob),
    Column("tx_hash", Text(128)),
    Column("pending_auth_at", Moment),
    Column("pending_sign_at", Moment),
    choices("transactions", "destination_type", DestinationType),
    choices("transactions", "status", Status),
    Index("ix_transactions_workspace_id", "workspace_id", "status"),
    # A lane's queue in its order, without touching other lanes.
    Index("ix_transactions_lane", "chain", "status", "source_vault_id", "created_at"),
)

transaction_events = _table(
    "transaction_events",
    Column("id", Id, primary_key=True),
    Column("transaction_id", Id, nullable=False),
    # 32 characters, as elsewhere, would be one too few for PENDING_3RD_PARTY_MANUAL_APPROVAL.
    Column("from_status", Text(40)),
    Column("to_status", Text(40), nullable=False),
    Column("reason", Text(255)),
    Column("occurred_at", Moment, nullable=False),
    choices("transaction_events", "from_status", Status),
    choices("transaction_events", "to_status", Status),
    Index("ix_transaction_events_transaction_id", "transaction_id", "occurred_at"),
)

withdrawals = _table(
    "withdrawals",
    Column("id", Id, primary_key=True),
    Column("transaction_id", Id, nullable=False),
    Column("withdrawal_vault_id", Id, nullable=False),
    Column("destination_type", Choice(DestinationType)),
    Column("destination_address", Text(128), nullable=False),
    Column("tag_or_memo", Text(64)),
    Column("chain", Text(32), nullable=False),
    Column("chain_validity_expires_at", Moment),
    Column("retry_count", Integer, nullable=False, server_default="0"),
    Column("last_boost_at", Moment),
    Column("cancel_attempted_at", Moment),
    Column("cancel_completed_at", Moment),
    choices("withdrawals", "destination_type", DestinationType),
    UniqueConstraint("transaction_id", name="uq_withdrawals_transaction_id"),
    Index("ix_withdrawals_withdrawal_vault_id", "withdrawal_vault_id"),
    Index("ix_withdrawals_chain_validity_expires_at", "chain_validity_expires_at"),
)

broadcast_attempts = _table(
    "broadcast_attempts",
    Column("id", Id, primary_key=True),
    Column("withdrawal_id", Id, nullable=False),
    Column("attempt_number", Integer, nullable=False),
    Column("raw_payload_cbor", Blob, nullable=False),
    Column("signed_payload", Blob, nullable=False),
    Column("broadcasted_to_node", Text(128), nullable=False),
    Column("broadcasted_at", Moment, nullable=False),
    Column("tx_hash", Text(128)),
    Column("outcome", Choice(SendOutcome), nullable=False),
    choices("broadcast_attempts", "outcome", SendOutcome),
    UniqueConstraint("withdrawal_id", "attempt_number", name="uq_broadcast_attempts_withdrawal_id"),
)

confirmations = _table(
    "confirmations",
    Column("id", Id, primary_key=True),
    Column("broadcast_attempt_id", Id, nullable=False),
    Column("block_hash", Text(128), nullable=False),
    Column("block_height", BigInteger, nullable=False),
    Column("confirmed_at", Moment, nullable=False),
    Column("reorged_at", Moment),
    Index("ix_confirmations_broadcast_attempt_id", "broadcast_attempt_id", "block_height"),
    # A reorg asks by hash.
    Index("ix_confirmations_block_hash", "block_hash"),
)

withdrawal_operations = _table(
    "withdrawal_operations",
    Column("id", Id, primary_key=True),
    Column("withdrawal_id", Id, nullable=False),
    Column("operation", Choice(Operation), nullable=False),
    Column("actor_user_id", Id, nullable=False),
    Column("parameters_cbor", Blob),
    Column("occurred_at", Moment, nullable=False),
    choices("withdrawal_operations", "operation", Operation),
    Index("ix_withdrawal_operations_withdrawal_id", "withdrawal_id", "occurred_at"),
)

# ---- people and places -----------------------------------------------------------------------------------

workspaces = _table(
    "workspaces",
    Column("id", Id, primary_key=True),
    Column("name", Text(128), nullable=False),
)

vaults = _table(
    "vaults",
    Column("id", Id, primary_key=True),
    Column("workspace_id", Id, ForeignKey("workspaces.id", name="fk_vaults_workspace_id"), nullable=False),
    Column("name", Text(128), nullable=False),
    Index("ix_vaults_workspace_id", "workspace_id"),
)

accounts = _table(
    "accounts",
    Column("id", Id, primary_key=True),
    Column("vault_id", Id, ForeignKey("vaults.id", name="fk_accounts_vault_id"), nullable=False),
    Column("chain", Text(32), nullable=False),
    Column("address", Text(128), nullable=False),
    Column("key_name", Text(128), nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("opening", LongText, nullable=False),
    # Promised by withdrawals that are not in a block yet; moves with their status, in the same commit.
    Column("held", BaseUnits(SUM_DIGITS), nullable=False),
    Column("halted_reason", LongText),
    UniqueConstraint("chain", "address", name="uq_accounts_chain"),
    UniqueConstraint("vault_id", "chain", name="uq_accounts_vault_id"),
)

# Append-only: who let a halted lane go on, and on what grounds, is evidence.
lane_events = _table(
    "lane_events",
    Column("id", Id, primary_key=True),
    Column("account_id", Id, ForeignKey("accounts.id", name="fk_lane_events_account_id"), nullable=False),
    Column("event", Text(16), nullable=False),
    Column("reason", LongText, nullable=False),
    Column("occurred_at", Moment, nullable=False),
    Index("ix_lane_events_account_id", "account_id", "occurred_at"),
)

# From here on nothing refers to accounts by a foreign key: on MariaDB it would lock the account's row for reading, and
# two writers that each then add to what is held would wait for each other.

# ---- withdrawals: what the shared tables have no column for ----------------------------------------------

transaction_details = _table(
    "transaction_details",
    Column(
        "transaction_id",
        Id,
        ForeignKey("transactions.id", name="fk_transaction_details_transaction_id"),
        primary_key=True,
    ),
    Column("workspace_id", Id, nullable=False),
    Column("account_id", Id, nullable=False),
    Column("amount_base", BaseUnits, nullable=False),
    Column("decimals", Integer, nullable=False),
    Column("max_fee", BaseUnits, nullable=False),
    Column("fee_level", Choice(FeeLevel), nullable=False),
    Column("fee_paid", BaseUnits, nullable=False),
    Column("sub_status", Text(64), nullable=False),
    Column("external_id", Text(255)),
    Column("note", LongText),
    Column("threshold", Integer),
    Column("confirmations", Integer, nullable=False),
    Column("alarm", LongText),
    choices("transaction_details", "fee_level", FeeLevel),
    UniqueConstraint("workspace_id", "external_id", name="uq_transaction_details_external_id"),
    Index("ix_transaction_details_account_id", "account_id"),
)

ledger_entries = _table(
    "ledger_entries",
    Column("id", Id, primary_key=True),
    Column(
        "transaction_id",
        Id,
        ForeignKey("transactions.id", name="fk_ledger_entries_transaction_id"),
        nullable=False,
    ),
    Column("account_id", Id, nullable=False),
    Column("book", Choice(Book), nullable=False),
    Column("amount", BaseUnits(SUM_DIGITS), nullable=False),
    Column("kind", Text(16), nullable=False),
    Column("occurred_at", Moment, nullable=False),
    choices("ledger_entries", "book", Book),
    Index("ix_ledger_entries_transaction_id", "transaction_id", "occurred_at"),
)

# ---- lanes -----------------------------------------------------------------------------------------------

attempts = _table(
    "attempts",
    Column("id", Id, primary_key=True),
    Column("withdrawal_id", Id, ForeignKey("withdrawals.id", name="fk_attempts_withdrawal_id"), nullable=False),
    Column("account_id", Id, nullable=False),
    Column("chain", Text(32), nullable=False),
    Column("kind", Choice(AttemptKind), nullable=False),
    Column("payload", Blob, nullable=False),
    Column("window_end", BigInteger),
    Column("fee_max", BaseUnits, nullable=False),
    Column("built_at", Moment, nullable=False),
    Column("raw", Blob),
    Column("tx_hash", Text(128)),
    Column("signed_at", Moment),
    Column("included_height", BigInteger),
    Column("included_hash", Text(128)),
    Column("included_parent", Text(128)),
    Column("ok", Boolean, nullable=False),
    Column("fee", BaseUnits),
    Column("recorded", Boolean, nullable=False),
    Column("sends", Integer, nullable=False),
    Column("last_sent_at", Moment),
    Column("closed", Boolean, nullable=False),
    Column("indexed", Boolean, nullable=False),
    choices("attempts", "kind", AttemptKind),
    CheckConstraint(
        "(raw IS NULL AND tx_hash IS NULL AND signed_at IS NULL)"
        " OR (raw IS NOT NULL AND tx_hash IS NOT NULL AND signed_at IS NOT NULL)",
        name="ck_attempts_signed",
    ),
    Index("ix_attempts_withdrawal_id", "withdrawal_id"),
    Index("ix_attempts_lane", "account_id", "closed", "recorded"),
    # What the tracker asks for before each block must not cost more the more is in flight.
    Index("ix_attempts_tracker", "chain", "closed", "indexed"),
    Index("ix_attempts_included_hash", "included_hash"),
)

attempt_claims = _table(
    "attempt_claims",
    Column("attempt_id", Id, ForeignKey("attempts.id", name="fk_attempt_claims_attempt_id"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("claim", Text(160), nullable=False),
)

slots = _table(
    "slots",
    Column("chain", Text(32), nullable=False),
    Column("claim", Text(160), nullable=False),
    Column("account_id", Id, nullable=False),
    Column("withdrawal_id", Id, ForeignKey("withdrawals.id", name="fk_slots_withdrawal_id"), nullable=False),
    # The attempt that took the claim first: its id is the order in which claims were taken.
    Column("taken_by", Id, nullable=False),
    Column("signed", Boolean, nullable=False),
    # No attempt that holds the claim is open.
    Column("closed", Boolean, nullable=False),
    PrimaryKeyConstraint("chain", "claim"),
    Index("ix_slots_lane", "account_id", "closed", "taken_by"),
)

hashes = _table(
    "hashes",
    Column("chain", Text(32), nullable=False),
    Column("tx_hash", Text(128), nullable=False),
    # The first attempt that carries the hash; the members of a batch would share its row.
    Column("attempt_id", Id, ForeignKey("attempts.id", name="fk_hashes_attempt_id"), nullable=False),
    PrimaryKeyConstraint("chain", "tx_hash"),
)

# ---- tracker ---------------------------------------------------------------------------------------------

headers = _table(
    "headers",
    Column("chain", Text(32), nullable=False),
    Column("height", BigInteger, nullable=False, autoincrement=False),
    Column("hash", Text(128), nullable=False),
    Column("parent", Text(128), nullable=False),
    PrimaryKeyConstraint("chain", "height"),
)

spends = _table(
    "spends",
    Column("chain", Text(32), nullable=False),
    Column("claim", Text(160), nullable=False),
    Column("tx_hash", Text(128), nullable=False),
    Column("block_height", BigInteger, nullable=False),
    Column("block_hash", Text(128), nullable=False),
    Column("block_parent", Text(128), nullable=False),
    Column("pays_intent", Boolean, nullable=False),
    PrimaryKeyConstraint("chain", "claim", "block_hash"),
)

# ---- owners ----------------------------------------------------------------------------------------------

leases = _table(
    "leases",
    Column("name", Text(128), primary_key=True),
    Column("owner", Text(128), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("ends_at", Moment, nullable=False),
)
