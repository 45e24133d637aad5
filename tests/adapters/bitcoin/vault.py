"""A vault with a key, and the store's side of a lane: what a test needs to build, sign and remember attempts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from embit import ec
from embit.util import secp256k1

from adapters.bitcoin.codec import BitcoinCodec
from adapters.bitcoin.coins import Coin, CoinFacts
from adapters.bitcoin.fees import Rates
from adapters.bitcoin.params import read_settings
from gateway.core.chain import (
    Account,
    AttemptKind,
    Build,
    FeeLevel,
    Held,
    Hold,
    Intent,
    Lane,
    Pending,
    Reject,
    Signature,
    SigningRequest,
    Unsigned,
)
from gateway.core.ids import AccountId, AttemptId, VaultId, WithdrawalId

RATES = Rates(low=1_000, medium=5_000, high=20_000, floor=1_000, incremental=1_000)
ELSEWHERE = "rltc1qw508d6qejxtdg4y5r3zarvary0c5xw7k693xs3"


def codec(coin: str = "litecoin-regtest", **more: object) -> BitcoinCodec:
    """Return the pure half of a chain that no node is behind."""
    return BitcoinCodec("chain", read_settings("chain", {"coin": coin, "urls": ["http://127.0.0.1:1"], **more}))


def withdrawal(number: int) -> WithdrawalId:
    return WithdrawalId(UUID(int=number))


@dataclass(frozen=True)
class Key:
    """A key that signs digests, as a signer does."""

    name: str

    @property
    def private(self) -> ec.PrivateKey:
        return ec.PrivateKey(hashlib.sha256(self.name.encode()).digest())

    @property
    def public(self) -> bytes:
        return bytes(self.private.sec())

    def sign(self, requests: Iterable[SigningRequest]) -> list[Signature]:
        return [
            Signature(bytes(secp256k1.ecdsa_signature_serialize_compact(self.private.sign(r.data)._sig)))
            for r in requests
        ]

    def account(self, codec: BitcoinCodec) -> Account:
        return Account(
            id=AccountId(UUID(int=1)),
            vault_id=VaultId(UUID(int=2)),
            chain=codec.info.name,
            address=codec.address_of(self.public),
            key=self.name,
            public_key=self.public,
        )


@dataclass
class Book:
    """One account as the store and the node see it: its coins, and every attempt that is not final."""

    codec: BitcoinCodec
    key: Key = field(default_factory=lambda: Key("vault"))
    coins: list[Coin] = field(default_factory=list)
    height: int = 1_000
    pending: list[Pending] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    intents: dict[WithdrawalId, Intent] = field(default_factory=dict)

    @property
    def account(self) -> Account:
        return self.key.account(self.codec)

    @property
    def lane(self) -> Lane:
        spendable = sum(coin.amount for coin in self.coins)
        facts = CoinFacts(height=self.height, spendable=spendable, coins=tuple(self.coins))
        return Lane(self.account, facts, tuple(self.held), tuple(self.pending))

    def intent(self, number: int, amount: int, destination: str = ELSEWHERE) -> Intent:
        intent = Intent(withdrawal(number), self.codec.info.asset, amount, destination)
        self.intents[intent.withdrawal_id] = intent
        return intent

    def order(
        self,
        intent: Intent,
        *,
        kind: AttemptKind = AttemptKind.PAYMENT,
        level: FeeLevel = FeeLevel.MEDIUM,
        max_fee: int = 1_000_000,
    ) -> Build:
        """Order an attempt that replaces everything of the same withdrawal that is pending."""
        earlier = tuple(p for p in self.pending if p.withdrawal_id == intent.withdrawal_id)
        return Build(intent, kind, level, max_fee, earlier)

    def build(self, order: Build, rates: Rates = RATES) -> Unsigned | Hold | Reject:
        return self.codec.build(order, self.lane, rates)

    def keep(self, order: Build, built: Unsigned) -> Pending:
        """Sign a built attempt, check it, and store it as the lane does."""
        signatures = self.key.sign(self.codec.signing_requests(built.payload, self.account))
        signed = self.codec.assemble(built.payload, self.account, signatures)
        self.codec.check_signed(
            signed.raw,
            order.intent,
            self.account,
            pays=order.kind.pays,
            max_fee=order.max_fee,
            claims=built.claims,
            payload=built.payload,
        )
        attempt = Pending(
            attempt_id=AttemptId(UUID(int=10_000 + len(self.pending))),
            withdrawal_id=order.intent.withdrawal_id,
            kind=order.kind,
            payload=built.payload,
            raw=signed.raw,
            tx_hash=signed.tx_hash,
            claims=built.claims,
            fee_max=built.fee_max,
            in_block=False,
        )
        self.pending.append(attempt)
        self.held.extend(Held(claim, attempt.withdrawal_id, signed=True) for claim in built.claims)
        return attempt

    def pay(self, number: int, amount: int, rates: Rates = RATES) -> Pending | Hold | Reject:
        order = self.order(self.intent(number, amount))
        built = self.build(order, rates)
        return self.keep(order, built) if isinstance(built, Unsigned) else built

    def mark_in_block(self, attempt: Pending) -> None:
        self.pending = [replace(p, in_block=True) if p == attempt else p for p in self.pending]


def coin(number: int, amount: int, *, height: int | None = 900, coinbase: bool = False) -> Coin:
    return Coin(hashlib.sha256(b"%d" % number).hexdigest(), number % 4, amount, height, coinbase)


def coins(amounts: Sequence[int]) -> list[Coin]:
    return [coin(number, amount) for number, amount in enumerate(amounts)]
