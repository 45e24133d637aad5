"""The port to the store: short transactions, durable when they end; every owner's write is fenced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from gateway.core.chain import Account, BlockRef, Held, Signed
from gateway.core.ids import AccountId, AttemptId, TransactionId, WithdrawalId, WorkspaceId
from gateway.core.records import (
    Attempt,
    Book,
    Confirmation,
    Filter,
    History,
    Inclusion,
    Lease,
    Move,
    NewBroadcast,
    Spend,
    Vault,
    Withdrawal,
    Workspace,
)


class Reader(Protocol):
    """Reads of one consistent moment. Absence is None or an empty answer, never an error."""

    # people and places
    async def workspaces(self) -> Sequence[Workspace]: ...
    async def vaults(self) -> Sequence[Vault]: ...
    async def accounts(self, chain: str | None = None) -> Sequence[Account]: ...
    async def halted(self) -> Mapping[AccountId, str]:
        """Accounts for which signing is refused, with the reason."""

    async def held_amount(self, account_id: AccountId) -> int:
        """Base units promised by withdrawals that are not in a block yet (statuses in `ledger.HOLDS`)."""

    # withdrawals
    async def withdrawal(self, withdrawal_id: WithdrawalId) -> Withdrawal | None: ...
    async def withdrawals(self, ids: Sequence[WithdrawalId]) -> Sequence[Withdrawal]: ...
    async def by_external_id(self, workspace_id: WorkspaceId, external_id: str) -> Withdrawal | None: ...
    async def by_transaction(self, transaction_id: TransactionId) -> Withdrawal | None: ...
    async def by_hash(self, tx_hash: str) -> Sequence[Withdrawal]:
        """The withdrawals of which an attempt has this hash, on whichever chain, oldest first."""

    async def search(self, wanted: Filter) -> Sequence[Withdrawal]: ...
    async def passing(self, chain: str, limit: int) -> Sequence[Withdrawal]:
        """Withdrawals at the gates (SUBMITTED, PENDING_ENRICHMENT), oldest first."""

    async def history(self, withdrawal_id: WithdrawalId) -> History | None: ...

    # lanes
    async def queued(self, account_id: AccountId, limit: int) -> Sequence[Withdrawal]:
        """QUEUED withdrawals of an account, oldest first."""

    async def busy_accounts(self, chain: str) -> Sequence[AccountId]:
        """Accounts of a chain with QUEUED or PENDING_SIGNATURE withdrawals, or signed attempts never recorded."""

    async def held(self, account_id: AccountId) -> Sequence[Held]:
        """Claims taken for an account: all that are open, and the newest one that is closed."""

    async def open_attempts(self, account_id: AccountId) -> Sequence[Attempt]:
        """Attempts of an account that are not closed, oldest first."""

    async def unsigned(self, account_id: AccountId) -> Sequence[tuple[Withdrawal, Attempt]]:
        """PENDING_SIGNATURE withdrawals of an account with their open unsigned attempt, oldest first."""

    async def unsent(self, account_id: AccountId) -> Sequence[tuple[Withdrawal, Attempt]]:
        """Open signed attempts of an account that no `broadcast_attempts` row records, oldest first."""

    async def family(self, withdrawal_id: WithdrawalId) -> Sequence[Attempt]:
        """Every attempt of a withdrawal, oldest first."""

    async def families(self, ids: Sequence[WithdrawalId]) -> Mapping[WithdrawalId, Sequence[Attempt]]:
        """`family` of each of these withdrawals; one without attempts has an empty one."""

    # tracker
    async def live(self, chain: str) -> Sequence[Attempt]:
        """Every signed attempt of a chain that is not closed, oldest first."""

    async def unindexed(self, chain: str) -> Sequence[Attempt]:
        """Open signed attempts of a chain that its tracker has not taken into its index."""

    async def headers(self, chain: str, limit: int) -> Sequence[BlockRef]:
        """The newest headers of the present chain, highest first."""

    async def header_at(self, chain: str, height: int) -> BlockRef | None: ...
    async def spends(self, chain: str) -> Sequence[Spend]:
        """Foreign spends of the present chain whose claim is still held by an open attempt."""

    # audit, reconcile
    async def known_attempts(self, ids: Sequence[AttemptId]) -> frozenset[AttemptId]: ...
    async def ledger_sums(self) -> Mapping[TransactionId, Mapping[Book, int]]: ...
    async def all_withdrawals(self, after: WithdrawalId | None, limit: int) -> Sequence[Withdrawal]:
        """Withdrawals in order of id, from after the given one."""


class Writer(Reader, Protocol):
    """Writes of one database transaction: all of them or none. Stale facts raise StaleWrite and roll back."""

    # people and places
    async def add_workspace(self, workspace: Workspace) -> None: ...
    async def add_vault(self, vault: Vault) -> None: ...
    async def add_account(self, account: Account) -> None:
        """Duplicate: the address belongs to a vault already, or the vault has an account on the chain."""

    async def set_opening(self, account_id: AccountId, opening: str) -> None: ...
    async def held_amount(self, account_id: AccountId) -> int:
        """As the reader's; and until this transaction ends nobody else promises anything of this account."""

    async def halt(self, account_id: AccountId, reason: str, at: datetime) -> None:
        """Refuse signing for an account, and keep in its history why."""

    async def unhalt(self, account_id: AccountId, because: str, at: datetime) -> None:
        """Allow signing again, and keep on what grounds."""

    # withdrawals
    async def accept(self, withdrawals: Sequence[Withdrawal], *, reason: str) -> None:
        """Insert withdrawals in their first status with event and reserve posting. Duplicate: external id."""

    async def move(self, moves: Sequence[Move]) -> None:
        """Move statuses: the only writer of a status.

        Checks the table, compares and swaps, writes one event a step (1 µs apart), the ledger posting and the held
        amount. Also stamps: PENDING_AUTHORIZATION and PENDING_SIGNATURE their clocks.
        """

    async def set_sub_status(self, ids: Sequence[WithdrawalId], sub_status: str) -> None: ...
    async def set_confirmations(self, counts: Mapping[WithdrawalId, int]) -> None:
        """Raise the reported numbers; a lower one is ignored."""

    async def set_fee(self, withdrawal: Withdrawal, fee_paid: int, at: datetime) -> None:
        """Correct the fee that the chain took, with its ledger posting (a block came back at another price).

        StaleWrite: the withdrawal has another status or fee than was read.
        """

    async def alarm(self, withdrawal_id: WithdrawalId, text: str) -> None: ...

    # lanes
    async def take(self, attempts: Sequence[Attempt]) -> None:
        """Insert built attempts with their claims; set the transactions' payload if unset.

        StaleWrite: a claim is taken by another withdrawal.
        """

    async def release(self, attempt_id: AttemptId) -> None:
        """Close an attempt for which nothing was ever signed and free its claims. StaleWrite: it is signed."""

    async def store_signed(self, signed: Mapping[AttemptId, Signed], at: datetime) -> None:
        """The write-ahead: from the commit on, these bytes count as sent. Duplicate: a hash of another attempt."""

    async def record(self, sends: Sequence[NewBroadcast]) -> None:
        """Insert `broadcast_attempts` rows (a `first` one that exists already is skipped), set hashes if unset."""

    async def count_resends(self, ids: Sequence[AttemptId], at: datetime) -> None: ...

    # tracker
    async def mark_indexed(self, ids: Sequence[AttemptId]) -> None: ...
    async def add_header(self, chain: str, ref: BlockRef, *, keep: int) -> None:
        """Add the next header; headers more than `keep` under it are forgotten."""

    async def orphan(self, chain: str, refs: Sequence[BlockRef], at: datetime) -> None:
        """Blocks left the chain: drop the headers, their spends and inclusions, set `reorged_at` on their rows."""

    async def include(self, landed: Mapping[AttemptId, Inclusion]) -> None:
        """Note in which block an attempt stands, whether it executed and what it cost."""

    async def confirm(self, rows: Sequence[Confirmation]) -> None: ...
    async def add_spend(self, spend: Spend) -> None: ...
    async def close(self, ids: Sequence[AttemptId]) -> None:
        """Attempts are final: they leave the tracker; their claims stay taken for ever."""


class Store(Protocol):
    """One database. Raises StoreUnavailable when it is gone or read-only; nothing was written then."""

    async def open(self) -> None:
        """Connect; ConfigError: schema not current, or commits are not durable."""

    async def close(self) -> None: ...

    def read(self) -> AbstractAsyncContextManager[Reader]: ...

    def write(self, *fences: Lease) -> AbstractAsyncContextManager[Writer]:
        """One database transaction, committed durably on exit. LeaseLost: a fence is not the present one."""

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a lease on the database's clock; None while another owner's runs. Own lease: a new token."""

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Prolong; LeaseLost: it is another's."""

    async def yield_lease(self, lease: Lease) -> None:
        """End a lease early; harmless when it was lost."""
