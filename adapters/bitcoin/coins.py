"""Which coins a withdrawal spends: what is free, what nodes accept in a chain of unconfirmed, and the choice.

A coin is an output of ours that is not spent yet. The choice is the same for the same facts, and short to
explain: the smallest confirmed coin that is enough, else the largest confirmed ones, else own change that
waits for a block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from adapters.bitcoin.params import COINBASE_MATURITY
from adapters.bitcoin.payload import Output, Spend, vsize
from adapters.bitcoin.transaction import decode
from gateway.core.chain import Hold, Lane, LaneFacts, Pending
from gateway.core.ids import WithdrawalId
from gateway.core.substatus import SubStatus

CHAIN_LIMIT = 25
"""Nodes up to version 30 take no more unconfirmed ancestors, nor descendants, itself included."""
CHAIN_VSIZE = 101_000


@dataclass(frozen=True, slots=True)
class Coin:
    """An unspent output of the account. `height` is that of its block, None while it is unconfirmed."""

    txid: str
    vout: int
    amount: int
    height: int | None
    coinbase: bool = False

    @property
    def claim(self) -> str:
        """The slot that spending it consumes."""
        return f"{self.txid}:{self.vout}"

    @property
    def spend(self) -> Spend:
        """The coin as an input."""
        return Spend(self.txid, self.vout, self.amount)

    def is_mature(self, height: int) -> bool:
        """Say whether the block after `height` may spend it (newly mined coins must rest first)."""
        return not self.coinbase or (self.height is not None and height - self.height + 1 >= COINBASE_MATURITY)


@dataclass(frozen=True)
class CoinFacts(LaneFacts):
    """What the node says of one account: its confirmed coins at `height`, also those that are not mature."""

    coins: tuple[Coin, ...] = ()


@dataclass(frozen=True, slots=True)
class Free:
    """The coins that one withdrawal may take: confirmed ones, and own change that no block holds yet."""

    confirmed: tuple[Coin, ...]
    change: tuple[Coin, ...]


def free_coins(lane: Lane, script: bytes, withdrawal: WithdrawalId) -> Free:
    """List what `withdrawal` may spend of an account with this output script.

    Never: a coin that another withdrawal holds, or that a pending attempt of another consumes. Nor an output
    of a withdrawal with several live attempts before one of them is final: only one of them will exist, and a
    payment that spends an output of the other could neither land nor be proven dead.
    """
    facts = lane.facts
    assert isinstance(facts, CoinFacts)
    taken = {held.claim for held in lane.held if held.withdrawal_id != withdrawal}
    taken.update(c for p in lane.pending if p.withdrawal_id != withdrawal for c in p.claims)
    signed = [attempt for attempt in lane.pending if attempt.raw]
    rivals = _rivals(signed)

    def may_take(coin: Coin) -> bool:
        return coin.claim not in taken and coin.txid not in rivals

    confirmed = [coin for coin in facts.coins if coin.is_mature(facts.height) and may_take(coin)]
    listed = {coin.claim for coin in facts.coins}
    change = [
        coin
        for attempt in signed
        if not attempt.in_block and attempt.withdrawal_id != withdrawal
        for coin in _own_outputs(attempt, script)
        if coin.claim not in listed and may_take(coin)
    ]
    return Free(tuple(sorted(confirmed, key=_by_amount)), tuple(sorted(change, key=_by_amount)))


class Chains:
    """The unconfirmed attempts of an account as a graph: who spends whom."""

    def __init__(self, pending: Iterable[Pending]) -> None:
        waiting = [attempt for attempt in pending if attempt.raw and not attempt.in_block]
        self._vsize = {attempt.tx_hash: decode(attempt.raw).vsize for attempt in waiting}
        self._parents = {
            attempt.tx_hash: {txid for txid in map(_txid, attempt.claims) if txid in self._vsize} for attempt in waiting
        }
        self._children: dict[str, set[str]] = {attempt.tx_hash: set() for attempt in waiting}
        for child, parents in self._parents.items():
            for parent in parents:
                self._children[parent].add(child)

    def ancestors(self, coins: Iterable[Coin]) -> set[str]:
        """Return every unconfirmed transaction that one spending these coins would depend on."""
        return _closure({coin.txid for coin in coins if coin.txid in self._vsize}, self._parents)

    def admits(self, coins: Sequence[Coin], size: int) -> bool:
        """Say whether nodes take one more transaction of `size` that spends these coins.

        Counted as Core does up to version 30: its ancestors with itself, and for each ancestor the
        descendants with itself. The limit of newer nodes (64 in a cluster) counts other things and is wider.
        """
        ancestors = self.ancestors(coins)
        if not self._fits(ancestors, size):
            return False
        return all(self._fits(_closure({ancestor}, self._children), size) for ancestor in ancestors)

    def _fits(self, others: Collection[str], size: int) -> bool:
        total = sum(self._vsize[txid] for txid in others) + size
        return len(others) < CHAIN_LIMIT and (not others or total <= CHAIN_VSIZE)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is spent and created: `change` is 0 when there is none."""

    coins: tuple[Coin, ...]
    change: int
    fee: int


@dataclass(frozen=True, slots=True)
class Target:
    """What the coins are for. `payment` is None when all goes back; `least_fee` is by virtual size."""

    payment: Output | None
    change_script: bytes
    change_dust: int
    least_fee: Callable[[int], int]
    max_fee: int
    max_inputs: int

    @property
    def amount(self) -> int:
        """What must arrive."""
        return self.payment.amount if self.payment else 0

    def size(self, inputs: int, *, change: bool) -> int:
        """Return the virtual size with so many inputs."""
        scripts = [self.payment.script] if self.payment else []
        return vsize(inputs, [*scripts, self.change_script] if change else scripts)

    def settle(self, coins: tuple[Coin, ...]) -> Choice | None:
        """Return what spending exactly these coins gives, None when they are not enough.

        Change that nobody would relay (dust) goes to the fee, as long as there is a payment.
        """
        left = sum(coin.amount for coin in coins) - self.amount
        fee = self.least_fee(self.size(len(coins), change=True))
        if left - fee >= self.change_dust:
            return Choice(coins, change=left - fee, fee=fee)
        if self.payment and left >= self.least_fee(self.size(len(coins), change=False)):
            return Choice(coins, change=0, fee=left)
        return None

    def costs_more_than_it_is(self, coin: Coin) -> bool:
        """Say whether adding this coin takes more fee than it brings."""
        extra = self.size(2, change=True) - self.size(1, change=True)
        return coin.amount <= self.least_fee(self.size(1, change=True) + extra) - self.least_fee(
            self.size(1, change=True)
        )


@dataclass(slots=True)
class Search:
    """One search for coins: candidates in order of preference, and why those before were not taken."""

    target: Target
    chains: Chains
    too_dear: int | None = field(default=None, init=False)
    too_long: bool = field(default=False, init=False)
    too_many: bool = field(default=False, init=False)

    def payment(self, free: Free) -> Choice | Hold:
        """Choose coins for a new transaction."""
        return self._first(self._fresh(free))

    def replacement(self, base: tuple[Coin, ...], confirmed: Sequence[Coin]) -> Choice | Hold:
        """Choose coins for a replacement: all of `base`, and confirmed ones where that is not enough."""
        return self._first(self._onto(base, confirmed))

    def _fresh(self, free: Free) -> Iterator[tuple[Coin, ...]]:
        yield from self._onto((), free.confirmed)
        near_first = sorted(free.change, key=lambda coin: (len(self.chains.ancestors([coin])), *_by_amount(coin)))
        yield from ((coin,) for coin in near_first if self._admits((coin,)))
        yield from self._growing((), self._useful(free.confirmed), self._useful(free.change))

    def _onto(self, base: tuple[Coin, ...], confirmed: Sequence[Coin]) -> Iterator[tuple[Coin, ...]]:
        if base:
            yield base
        yield from ((*base, coin) for coin in confirmed)
        yield from self._growing(base, self._useful(confirmed), ())

    def _growing(
        self, base: tuple[Coin, ...], confirmed: Sequence[Coin], change: Sequence[Coin]
    ) -> Iterator[tuple[Coin, ...]]:
        chosen = base
        for coin in (*confirmed, *change):
            larger = (*chosen, coin)
            if coin.height is None and not self._admits(larger):
                continue
            chosen = larger
            yield chosen

    def _first(self, candidates: Iterator[tuple[Coin, ...]]) -> Choice | Hold:
        for coins in candidates:
            if len(coins) > self.target.max_inputs:
                self.too_many = True
                continue
            choice = self.target.settle(coins)
            if choice is None:
                continue
            if choice.fee <= self.target.max_fee:
                return choice
            self.too_dear = min(choice.fee, self.too_dear or choice.fee)
        return self._why_not()

    def _why_not(self) -> Hold:
        if self.too_dear is not None:
            return Hold(SubStatus.MAX_FEE_EXCEEDED, f"it would cost {self.too_dear}, more than {self.target.max_fee}")
        if self.too_long:
            return Hold(
                SubStatus.TOO_LONG_MEMPOOL_CHAIN,
                f"the coins left wait behind {CHAIN_LIMIT - 1} unconfirmed transactions",
            )
        if self.too_many:
            return Hold(
                SubStatus.TOO_MANY_INPUTS,
                f"only more than {self.target.max_inputs} small coins would be enough",
            )
        return Hold(SubStatus.INSUFFICIENT_FUNDS, "the account has not enough free coins for amount and fee")

    def _admits(self, coins: Sequence[Coin]) -> bool:
        admitted = self.chains.admits(coins, self.target.size(len(coins), change=True))
        self.too_long = self.too_long or not admitted
        return admitted

    def _useful(self, coins: Sequence[Coin]) -> list[Coin]:
        """Largest first, without those that cost more than they bring."""
        return [coin for coin in reversed(coins) if not self.target.costs_more_than_it_is(coin)]


def _rivals(signed: Sequence[Pending]) -> set[str]:
    """Return the hashes of attempts whose withdrawal has another signed one: at most one will land."""
    first: dict[WithdrawalId, str] = {}
    rivals: set[str] = set()
    for attempt in signed:
        other = first.setdefault(attempt.withdrawal_id, attempt.tx_hash)
        if other != attempt.tx_hash:
            rivals.update((other, attempt.tx_hash))
    return rivals


def _own_outputs(attempt: Pending, script: bytes) -> list[Coin]:
    return [
        Coin(attempt.tx_hash, index, output.amount, height=None)
        for index, output in enumerate(decode(attempt.raw).outputs)
        if output.script == script
    ]


def _closure(start: set[str], edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(start)
    while todo:
        txid = todo.pop()
        if txid not in found:
            found.add(txid)
            todo.extend(edges[txid])
    return found


def _txid(claim: str) -> str:
    return claim.partition(":")[0]


def _by_amount(coin: Coin) -> tuple[int, str]:
    return (coin.amount, coin.claim)
