"""The audit: do the books say what the statuses say, and do the chains say what the rows say?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from gateway.core.adapter import Adapter
from gateway.core.chain import Payment
from gateway.core.errors import ChainError
from gateway.core.ids import AccountId, WithdrawalId
from gateway.core.ledger import HOLDS, books
from gateway.core.lifecycle import Status
from gateway.core.records import Attempt, Book, Withdrawal
from gateway.core.store import Reader, Store

PAGE = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference. `about` names the withdrawal, account or chain."""

    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked and what was found; `unchecked` names what no node could be asked about."""

    withdrawals: int
    blocks: int
    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...]


async def audit(store: Store, adapters: Mapping[str, Adapter]) -> Report:
    """Compare ledger, statuses, held amounts and blocks. Reads only; safe while the gateway runs."""
    findings: list[Finding] = []
    held: dict[AccountId, int] = defaultdict(int)
    count = 0
    placed: list[tuple[Withdrawal, Attempt]] = []
    async with store.read() as reader:
        sums = await reader.ledger_sums()
        async for page in _pages(reader):
            count += len(page)
            families = await reader.families([w.id for w in page])
            for withdrawal in page:
                if withdrawal.status in HOLDS:
                    held[withdrawal.account_id] += withdrawal.amount + withdrawal.max_fee
                findings += _check_books(withdrawal, sums.get(withdrawal.transaction_id, {}))
                family = families[withdrawal.id]
                findings += _check_family(withdrawal, family)
                placed += [(withdrawal, a) for a in family if a.included is not None]
        for account in await reader.accounts():
            booked = await reader.held_amount(account.id)
            if booked != held[account.id]:
                findings.append(
                    Finding(account.address, f"held amount is {booked}, the statuses say {held[account.id]}")
                )
    on_chain, blocks, unchecked = await _check_blocks(placed, adapters)
    return Report(count, blocks, (*findings, *on_chain), unchecked)


async def _pages(reader: Reader) -> AsyncIterator[Sequence[Withdrawal]]:
    last: WithdrawalId | None = None
    while page := await reader.all_withdrawals(last, PAGE):
        yield page
        last = page[-1].id


def _check_books(withdrawal: Withdrawal, found: Mapping[Book, int]) -> list[Finding]:
    expected = books(
        withdrawal.status, amount=withdrawal.amount, max_fee=withdrawal.max_fee, fee_paid=withdrawal.fee_paid
    )
    return [
        Finding(str(withdrawal.id), f"{withdrawal.status}: book {book} is {found.get(book, 0)}, should be {wanted}")
        for book, wanted in expected.items()
        if found.get(book, 0) != wanted
    ]


def _check_family(withdrawal: Withdrawal, family: Sequence[Attempt]) -> list[Finding]:
    """Say what cannot be: paid without a paying attempt in a block, or two of them."""
    paid = [a for a in family if a.included is not None and a.kind.pays and a.ok]
    findings = []
    if len(paid) > 1:
        findings.append(Finding(str(withdrawal.id), f"PAID {len(paid)} TIMES: {', '.join(a.tx_hash for a in paid)}"))
    if withdrawal.status is Status.COMPLETED and not paid and not any(not a.closed for a in family):
        findings.append(Finding(str(withdrawal.id), "COMPLETED, but no attempt of it is in a block"))
    return findings


async def _check_blocks(
    placed: Sequence[tuple[Withdrawal, Attempt]], adapters: Mapping[str, Adapter]
) -> tuple[list[Finding], int, tuple[str, ...]]:
    """Read again each block that holds attempts of ours, and look for them in it."""
    by_block: dict[tuple[str, int, str], list[tuple[Withdrawal, Attempt]]] = defaultdict(list)
    for withdrawal, attempt in placed:
        if attempt.included is not None:
            by_block[(attempt.chain, attempt.included.height, attempt.included.hash)].append((withdrawal, attempt))
    findings: list[Finding] = []
    unchecked: set[str] = set()
    blocks = 0
    for (chain, height, block_hash), here in sorted(by_block.items()):
        adapter = adapters.get(chain)
        if adapter is None or chain in unchecked:
            unchecked.add(chain)
            continue
        try:
            canonical = await adapter.node.header(height)
            watch = _Exactly(frozenset(a.tx_hash for _, a in here))
            block = None if canonical is None else await adapter.node.block(canonical, watch)
        except ChainError as error:
            unchecked.add(f"{chain} ({error.message})")
            continue
        blocks += 1
        if canonical is None or canonical.hash != block_hash or block is None:
            findings += [
                Finding(str(w.id), f"{chain}: block {height} {block_hash} is not on the chain") for w, _ in here
            ]
            continue
        landed = {item.tx_hash: item for item in block.landed}
        for withdrawal, attempt in here:
            item = landed.get(attempt.tx_hash)
            if item is None:
                findings.append(Finding(str(withdrawal.id), f"{chain}: {attempt.tx_hash} is not in block {height}"))
            elif attempt.kind.pays and item.ok and not _pays(item.pays, withdrawal):
                findings.append(Finding(str(withdrawal.id), f"{chain}: {attempt.tx_hash} does not pay the intent"))
    return findings, blocks, tuple(sorted(unchecked))


def _pays(payments: Sequence[Payment], withdrawal: Withdrawal) -> bool:
    return Payment(withdrawal.destination, withdrawal.amount) in payments


@dataclass(frozen=True, slots=True)
class _Exactly:
    """A watch for these hashes and nothing else."""

    hashes: frozenset[str]
    claims: frozenset[str] = frozenset()

    @property
    def senders(self) -> Mapping[str, object]:
        return {}
