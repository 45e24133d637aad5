"""The first schema: six shared tables, ours beside them, and the guards."""

import sqlalchemy as sa
from alembic import op

from db.triggers import Guard, create
from db.types import BaseUnits, Blob, Choice, Coins, Id, Moment, Text

revision = "0001"
down_revision = None

# Frozen here: a later change of the rules is a later migration.
DESTINATIONS = ("vault", "exchange", "whitelisted", "one-time", "network")
STATUSES = (
    "SUBMITTED",
    "PENDING_AML_SCREENING",
    "PENDING_ENRICHMENT",
    "PENDING_AUTHORIZATION",
    "QUEUED",
    "PENDING_SIGNATURE",
    "PENDING_3RD_PARTY_MANUAL_APPROVAL",
    "PENDING_3RD_PARTY",
    "BROADCASTING",
    "CONFIRMING",
    "COMPLETED",
    "SIGNED",
    "CANCELLING",
    "CANCELLED",
    "REJECTED",
    "BLOCKED",
    "FAILED",
)
OUTCOMES = ("submitted", "rejected", "dropped", "replaced")
OPERATIONS = (
    "cancel",
    "retry",
    "boost",
    "drop",
    "rescreen-aml",
    "bypass-aml",
    "dismiss",
    "edit-notes",
    "rebroadcast",
    "freeze",
    "unfreeze",
    "set-confirmation-threshold",
)
FEE_LEVELS = ("LOW", "MEDIUM", "HIGH")
BOOKS = ("available", "reserved", "paid", "fees")
KINDS = ("payment", "boost", "drop", "cpfp")
GUARDS = (
    Guard("transaction_events"),
    Guard("broadcast_attempts"),
    Guard("withdrawal_operations"),
    Guard("ledger_entries"),
    Guard("lane_events"),
    Guard("attempt_claims"),
    Guard("hashes"),
    Guard("confirmations", once=("reorged_at",)),
    Guard(
        "transactions",
        once=("raw_payload_cbor", "tx_hash"),
        free=("source_vault_id", "status", "status_changed_at", "pending_auth_at", "pending_sign_at"),
    ),
    Guard(
        "withdrawals",
        once=("cancel_completed_at",),
        free=(
            "withdrawal_vault_id",
            "chain_validity_expires_at",
            "retry_count",
            "last_boost_at",
            "cancel_attempted_at",
        ),
    ),
    Guard(
        "transaction_details",
        free=(
            "account_id",
            "max_fee",
            "fee_level",
            "fee_paid",
            "sub_status",
            "note",
            "threshold",
            "confirmations",
            "alarm",
        ),
    ),
    Guard(
        "attempts",
        once=("raw", "tx_hash", "signed_at"),
        free=("included_height", "included_hash", "included_parent", "ok", "fee", "sends", "last_sent_at"),
        rising=("recorded", "closed", "indexed"),
    ),
    Guard("slots", free=("closed",), rising=("signed",), deletable="signed"),
)


def upgrade() -> None:
    tables = (
        _transactions(),
        _transaction_events(),
        _withdrawals(),
        _broadcast_attempts(),
        _confirmations(),
        _withdrawal_operations(),
        _workspaces(),
        _vaults(),
        _accounts(),
        _lane_events(),
        _transaction_details(),
        _ledger_entries(),
        _attempts(),
        _attempt_claims(),
        _slots(),
        _hashes(),
        _headers(),
        _spends(),
        _leases(),
    )
    create(op.get_bind(), GUARDS, tables)


def _table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    return op.create_table(
        name,
        *items,
        sqlite_with_rowid=False,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


def _one_of(table: str, column: str, values: tuple[str, ...]) -> sa.CheckConstraint:
    allowed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({allowed})", name=f"ck_{table}_{column}")


def _transactions() -> sa.Table:
    table = _table(
        "transactions",
        sa.Column("id", Id(), nullable=False),
        sa.Column("workspace_id", Id(), nullable=False),
        sa.Column("source_vault_id", Id()),
        sa.Column("destination_type", Choice(DESTINATIONS)),
        sa.Column("asset_id", Text(32)),
        sa.Column("amount_decimal", Coins()),
        sa.Column("chain", Text(32)),
        sa.Column("status", Choice(STATUSES), nullable=False),
        sa.Column("status_changed_at", Moment(), nullable=False),
        sa.Column("created_at", Moment(), nullable=False),
        sa.Column("raw_payload_cbor", Blob),
        sa.Column("tx_hash", Text(128)),
        sa.Column("pending_auth_at", Moment()),
        sa.Column("pending_sign_at", Moment()),
        sa.PrimaryKeyConstraint("id"),
        _one_of("transactions", "destination_type", DESTINATIONS),
        _one_of("transactions", "status", STATUSES),
    )
    op.create_index("ix_transactions_lane", "transactions", ["chain", "status", "source_vault_id", "created_at"])
    op.create_index("ix_transactions_workspace_id", "transactions", ["workspace_id", "status"])
    return table


def _transaction_events() -> sa.Table:
    table = _table(
        "transaction_events",
        sa.Column("id", Id(), nullable=False),
        sa.Column("transaction_id", Id(), nullable=False),
        sa.Column("from_status", Text(40)),
        sa.Column("to_status", Text(40), nullable=False),
        sa.Column("reason", Text(255)),
        sa.Column("occurred_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        _one_of("transaction_events", "from_status", STATUSES),
        _one_of("transaction_events", "to_status", STATUSES),
    )
    op.create_index("ix_transaction_events_transaction_id", "transaction_events", ["transaction_id", "occurred_at"])
    return table


def _withdrawals() -> sa.Table:
    table = _table(
        "withdrawals",
        sa.Column("id", Id(), nullable=False),
        sa.Column("transaction_id", Id(), nullable=False),
        sa.Column("withdrawal_vault_id", Id(), nullable=False),
        sa.Column("destination_type", Choice(DESTINATIONS)),
        sa.Column("destination_address", Text(128), nullable=False),
        sa.Column("tag_or_memo", Text(64)),
        sa.Column("chain", Text(32), nullable=False),
        sa.Column("chain_validity_expires_at", Moment()),
        sa.Column("retry_count", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("last_boost_at", Moment()),
        sa.Column("cancel_attempted_at", Moment()),
        sa.Column("cancel_completed_at", Moment()),
        sa.PrimaryKeyConstraint("id"),
        _one_of("withdrawals", "destination_type", DESTINATIONS),
        sa.UniqueConstraint("transaction_id", name="uq_withdrawals_transaction_id"),
    )
    op.create_index("ix_withdrawals_chain_validity_expires_at", "withdrawals", ["chain_validity_expires_at"])
    op.create_index("ix_withdrawals_withdrawal_vault_id", "withdrawals", ["withdrawal_vault_id"])
    return table


def _broadcast_attempts() -> sa.Table:
    return _table(
        "broadcast_attempts",
        sa.Column("id", Id(), nullable=False),
        sa.Column("withdrawal_id", Id(), nullable=False),
        sa.Column("attempt_number", sa.Integer(), nullable=False),
        sa.Column("raw_payload_cbor", Blob, nullable=False),
        sa.Column("signed_payload", Blob, nullable=False),
        sa.Column("broadcasted_to_node", Text(128), nullable=False),
        sa.Column("broadcasted_at", Moment(), nullable=False),
        sa.Column("tx_hash", Text(128)),
        sa.Column("outcome", Choice(OUTCOMES), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        _one_of("broadcast_attempts", "outcome", OUTCOMES),
        sa.UniqueConstraint("withdrawal_id", "attempt_number", name="uq_broadcast_attempts_withdrawal_id"),
    )


def _confirmations() -> sa.Table:
    table = _table(
        "confirmations",
        sa.Column("id", Id(), nullable=False),
        sa.Column("broadcast_attempt_id", Id(), nullable=False),
        sa.Column("block_hash", Text(128), nullable=False),
        sa.Column("block_height", sa.BigInteger(), nullable=False),
        sa.Column("confirmed_at", Moment(), nullable=False),
        sa.Column("reorged_at", Moment()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_confirmations_block_hash", "confirmations", ["block_hash"])
    op.create_index("ix_confirmations_broadcast_attempt_id", "confirmations", ["broadcast_attempt_id", "block_height"])
    return table


def _withdrawal_operations() -> sa.Table:
    table = _table(
        "withdrawal_operations",
        sa.Column("id", Id(), nullable=False),
        sa.Column("withdrawal_id", Id(), nullable=False),
        sa.Column("operation", Choice(OPERATIONS), nullable=False),
        sa.Column("actor_user_id", Id(), nullable=False),
        sa.Column("parameters_cbor", Blob),
        sa.Column("occurred_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        _one_of("withdrawal_operations", "operation", OPERATIONS),
    )
    op.create_index("ix_withdrawal_operations_withdrawal_id", "withdrawal_operations", ["withdrawal_id", "occurred_at"])
    return table


def _workspaces() -> sa.Table:
    return _table(
        "workspaces",
        sa.Column("id", Id(), nullable=False),
        sa.Column("name", Text(128), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _vaults() -> sa.Table:
    table = _table(
        "vaults",
        sa.Column("id", Id(), nullable=False),
        sa.Column("workspace_id", Id(), nullable=False),
        sa.Column("name", Text(128), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_vaults_workspace_id"),
    )
    op.create_index("ix_vaults_workspace_id", "vaults", ["workspace_id"])
    return table


def _accounts() -> sa.Table:
    return _table(
        "accounts",
        sa.Column("id", Id(), nullable=False),
        sa.Column("vault_id", Id(), nullable=False),
        sa.Column("chain", Text(32), nullable=False),
        sa.Column("address", Text(128), nullable=False),
        sa.Column("key_name", Text(128), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("opening", sa.Text(), nullable=False),
        sa.Column("held", BaseUnits(60), nullable=False),
        sa.Column("halted_reason", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["vault_id"], ["vaults.id"], name="fk_accounts_vault_id"),
        sa.UniqueConstraint("chain", "address", name="uq_accounts_chain"),
        sa.UniqueConstraint("vault_id", "chain", name="uq_accounts_vault_id"),
    )


def _lane_events() -> sa.Table:
    table = _table(
        "lane_events",
        sa.Column("id", Id(), nullable=False),
        sa.Column("account_id", Id(), nullable=False),
        sa.Column("event", Text(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("occurred_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_lane_events_account_id"),
    )
    op.create_index("ix_lane_events_account_id", "lane_events", ["account_id", "occurred_at"])
    return table


def _transaction_details() -> sa.Table:
    table = _table(
        "transaction_details",
        sa.Column("transaction_id", Id(), nullable=False),
        sa.Column("workspace_id", Id(), nullable=False),
        sa.Column("account_id", Id(), nullable=False),
        sa.Column("amount_base", BaseUnits(), nullable=False),
        sa.Column("decimals", sa.Integer(), nullable=False),
        sa.Column("max_fee", BaseUnits(), nullable=False),
        sa.Column("fee_level", Choice(FEE_LEVELS), nullable=False),
        sa.Column("fee_paid", BaseUnits(), nullable=False),
        sa.Column("sub_status", Text(64), nullable=False),
        sa.Column("external_id", Text(255)),
        sa.Column("note", sa.Text()),
        sa.Column("threshold", sa.Integer()),
        sa.Column("confirmations", sa.Integer(), nullable=False),
        sa.Column("alarm", sa.Text()),
        sa.PrimaryKeyConstraint("transaction_id"),
        _one_of("transaction_details", "fee_level", FEE_LEVELS),
        sa.ForeignKeyConstraint(["transaction_id"], ["transactions.id"], name="fk_transaction_details_transaction_id"),
        sa.UniqueConstraint("workspace_id", "external_id", name="uq_transaction_details_external_id"),
    )
    op.create_index("ix_transaction_details_account_id", "transaction_details", ["account_id"])
    return table


def _ledger_entries() -> sa.Table:
    table = _table(
        "ledger_entries",
        sa.Column("id", Id(), nullable=False),
        sa.Column("transaction_id", Id(), nullable=False),
        sa.Column("account_id", Id(), nullable=False),
        sa.Column("book", Choice(BOOKS), nullable=False),
        sa.Column("amount", BaseUnits(60), nullable=False),
        sa.Column("kind", Text(16), nullable=False),
        sa.Column("occurred_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        _one_of("ledger_entries", "book", BOOKS),
        sa.ForeignKeyConstraint(["transaction_id"], ["transactions.id"], name="fk_ledger_entries_transaction_id"),
    )
    op.create_index("ix_ledger_entries_transaction_id", "ledger_entries", ["transaction_id", "occurred_at"])
    return table


def _attempts() -> sa.Table:
    table = _table(
        "attempts",
        sa.Column("id", Id(), nullable=False),
        sa.Column("withdrawal_id", Id(), nullable=False),
        sa.Column("account_id", Id(), nullable=False),
        sa.Column("chain", Text(32), nullable=False),
        sa.Column("kind", Choice(KINDS), nullable=False),
        sa.Column("payload", Blob, nullable=False),
        sa.Column("window_end", sa.BigInteger()),
        sa.Column("fee_max", BaseUnits(), nullable=False),
        sa.Column("built_at", Moment(), nullable=False),
        sa.Column("raw", Blob),
        sa.Column("tx_hash", Text(128)),
        sa.Column("signed_at", Moment()),
        sa.Column("included_height", sa.BigInteger()),
        sa.Column("included_hash", Text(128)),
        sa.Column("included_parent", Text(128)),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("fee", BaseUnits()),
        sa.Column("recorded", sa.Boolean(), nullable=False),
        sa.Column("sends", sa.Integer(), nullable=False),
        sa.Column("last_sent_at", Moment()),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("indexed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        _one_of("attempts", "kind", KINDS),
        sa.CheckConstraint(
            "(raw IS NULL AND tx_hash IS NULL AND signed_at IS NULL)"
            " OR (raw IS NOT NULL AND tx_hash IS NOT NULL AND signed_at IS NOT NULL)",
            name="ck_attempts_signed",
        ),
        sa.ForeignKeyConstraint(["withdrawal_id"], ["withdrawals.id"], name="fk_attempts_withdrawal_id"),
    )
    op.create_index("ix_attempts_included_hash", "attempts", ["included_hash"])
    op.create_index("ix_attempts_lane", "attempts", ["account_id", "closed", "recorded"])
    op.create_index("ix_attempts_tracker", "attempts", ["chain", "closed", "indexed"])
    op.create_index("ix_attempts_withdrawal_id", "attempts", ["withdrawal_id"])
    return table


def _attempt_claims() -> sa.Table:
    return _table(
        "attempt_claims",
        sa.Column("attempt_id", Id(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("claim", Text(160), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "position"),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_attempt_claims_attempt_id"),
    )


def _slots() -> sa.Table:
    table = _table(
        "slots",
        sa.Column("chain", Text(32), nullable=False),
        sa.Column("claim", Text(160), nullable=False),
        sa.Column("account_id", Id(), nullable=False),
        sa.Column("withdrawal_id", Id(), nullable=False),
        sa.Column("taken_by", Id(), nullable=False),
        sa.Column("signed", sa.Boolean(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "claim"),
        sa.ForeignKeyConstraint(["withdrawal_id"], ["withdrawals.id"], name="fk_slots_withdrawal_id"),
    )
    op.create_index("ix_slots_lane", "slots", ["account_id", "closed", "taken_by"])
    return table


def _hashes() -> sa.Table:
    return _table(
        "hashes",
        sa.Column("chain", Text(32), nullable=False),
        sa.Column("tx_hash", Text(128), nullable=False),
        sa.Column("attempt_id", Id(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "tx_hash"),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name="fk_hashes_attempt_id"),
    )


def _headers() -> sa.Table:
    return _table(
        "headers",
        sa.Column("chain", Text(32), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("hash", Text(128), nullable=False),
        sa.Column("parent", Text(128), nullable=False),
        sa.PrimaryKeyConstraint("chain", "height"),
    )


def _spends() -> sa.Table:
    return _table(
        "spends",
        sa.Column("chain", Text(32), nullable=False),
        sa.Column("claim", Text(160), nullable=False),
        sa.Column("tx_hash", Text(128), nullable=False),
        sa.Column("block_height", sa.BigInteger(), nullable=False),
        sa.Column("block_hash", Text(128), nullable=False),
        sa.Column("block_parent", Text(128), nullable=False),
        sa.Column("pays_intent", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "claim", "block_hash"),
    )


def _leases() -> sa.Table:
    return _table(
        "leases",
        sa.Column("name", Text(128), nullable=False),
        sa.Column("owner", Text(128), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
