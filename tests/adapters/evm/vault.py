"""A vault with a key, and the store's side of a lane: what a test needs to build, sign and remember attempts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from eth_keys.datatypes import PrivateKey

from adapters.evm.address import claim
from adapters.evm.codec import EvmCodec, EvmFacts, Gas, Need
from adapters.evm.fees import GasFees
from adapters.evm.params import GWEI, Settings, read_settings
from adapters.evm.payload import Transfer, decode_signed
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

CHAIN_ID = 31337
ETHER = 10**18
FEES = GasFees(base=GWEI, low=GWEI // 10, medium=GWEI, high=3 * GWEI)
LEGACY_FEES = GasFees(base=None, low=GWEI, medium=2 * GWEI, high=3 * GWEI)
ELSEWHERE = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def settings(**more: object) -> Settings:
    return read_settings("chain", {"chain_id": CHAIN_ID, "urls": ["http://127.0.0.1:1"], **more})


def codec(**more: object) -> EvmCodec:
    """Return the pure half of a chain that no node is behind."""
    return EvmCodec("chain", settings(**more))


def withdrawal(number: int) -> WithdrawalId:
    return WithdrawalId(UUID(int=number))


@dataclass(frozen=True)
class Key:
    """A key that signs digests, as a signer does."""

    secret: bytes

    @staticmethod
    def named(name: str) -> Key:
        return Key(hashlib.sha256(name.encode()).digest())

    @property
    def public(self) -> bytes:
        return bytes(PrivateKey(self.secret).public_key.to_compressed_bytes())

    def sign(self, requests: Iterable[SigningRequest]) -> list[Signature]:
        made = [PrivateKey(self.secret).sign_msg_hash(request.data).to_bytes() for request in requests]
        return [Signature(one[:64], one[64]) for one in made]

    def account(self, codec: EvmCodec, opening: int = 0) -> Account:
        return Account(
            id=AccountId(UUID(int=1)),
            vault_id=VaultId(UUID(int=2)),
            chain=codec.info.name,
            address=codec.address_of(self.public),
            key="key",
            public_key=self.public,
            opening=str(opening),
        )


@dataclass
class Book:
    """One account as the store and the node see it: its facts, and every attempt that is not final."""

    codec: EvmCodec = field(default_factory=codec)
    key: Key = field(default_factory=lambda: Key.named("vault"))
    mined: int = 0
    opening: int = 0
    balance: int = 1_000 * ETHER
    delegated: bool = False
    need: Need = field(default_factory=lambda: Gas(21_000, exact=True))
    fees: GasFees = FEES
    pending: list[Pending] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    intents: list[Intent] = field(default_factory=list)

    @property
    def account(self) -> Account:
        return self.key.account(self.codec, self.opening)

    @property
    def lane(self) -> Lane:
        facts = EvmFacts(
            height=100,
            spendable=self.balance,
            mined=self.mined,
            delegated=self.delegated,
            needs={(intent.destination, intent.amount): self.need for intent in self.intents},
        )
        return Lane(self.account, facts, tuple(self.held), tuple(self.pending))

    def intent(self, number: int = 1, amount: int = ETHER, destination: str = ELSEWHERE) -> Intent:
        intent = Intent(withdrawal(number), self.codec.info.asset, amount, destination)
        self.intents.append(intent)
        return intent

    def hold(self, *nonces: int, signed: bool = True) -> None:
        self.held += [Held(claim(self.account.address, n), withdrawal(900 + n), signed=signed) for n in nonces]

    def order(
        self,
        intent: Intent,
        *,
        kind: AttemptKind = AttemptKind.PAYMENT,
        level: FeeLevel = FeeLevel.MEDIUM,
        max_fee: int = ETHER // 10,
    ) -> Build:
        """Order an attempt that replaces everything of the same withdrawal that is pending."""
        earlier = tuple(p for p in self.pending if p.withdrawal_id == intent.withdrawal_id)
        return Build(intent, kind, level, max_fee, earlier)

    def build(self, order: Build) -> Unsigned | Hold | Reject:
        return self.codec.build(order, self.lane, self.fees)

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
        self.held += [Held(one, attempt.withdrawal_id, signed=True) for one in built.claims]
        return attempt

    def send(self, order: Build) -> Pending:
        built = self.build(order)
        assert isinstance(built, Unsigned), built
        return self.keep(order, built)

    def pay(self, number: int = 1, amount: int = ETHER, destination: str = ELSEWHERE) -> Pending:
        return self.send(self.order(self.intent(number, amount, destination)))


def transfer_of(attempt: Pending) -> Transfer:
    return decode_signed(attempt.raw).transfer
