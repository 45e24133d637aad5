"""The half without a network: chooses the nonce, builds, assembles and checks transfers of native coin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eth_account import Account as EthAccount
from eth_keys.datatypes import Signature as EthSignature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from adapters.evm import address, fees
from adapters.evm.fees import GasFees, Price
from adapters.evm.params import DECIMALS, MAX_GAS, TRANSFER_GAS, Settings
from adapters.evm.payload import (
    DYNAMIC,
    LEGACY,
    Transfer,
    decode,
    decode_signed,
    encode,
    in_range,
)
from gateway.core.chain import (
    Account,
    AttemptKind,
    Build,
    ChainInfo,
    FeeLevel,
    FeeQuote,
    Hold,
    Intent,
    Lane,
    LaneFacts,
    Pending,
    Reject,
    Signature,
    Signed,
    SigningRequest,
    Unsigned,
)
from gateway.core.errors import BadRequest, SignedMismatch
from gateway.core.once import check_excludes
from gateway.core.substatus import SubStatus

ALGORITHM = "secp256k1-digest"
_MAX_VALUE = 2**256 - 1
_USUAL_GAS = 100_000
"""Enough for a destination that is a contract wallet: the ceiling must not stop those."""
_ROOM_FOR_FEES = 2


@dataclass(frozen=True, slots=True)
class Gas:
    """What a destination needs. `exact`: it has no code, so no margin is added."""

    units: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Reverts:
    """The destination's code refuses this amount."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """The node gave no estimate, and the reason is not the destination's."""

    reason: str


Need = Gas | Reverts | Unclear


@dataclass(frozen=True)
class EvmFacts(LaneFacts):
    """The node's facts for one account.

    `mined`: how many of its transactions are in blocks, which is the lowest nonce that is free on the chain.
    `delegated`: the account has code (EIP-7702), and nodes keep only one transaction of it at a time.
    `needs`: by (destination, amount), what the node says that a transfer there needs.
    """

    mined: int
    delegated: bool = False
    needs: Mapping[tuple[str, int], Need] = field(default_factory=dict)


class EvmCodec:
    """See `gateway.core.adapter.Codec`."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._settings = settings
        self._info = ChainInfo(
            name=name,
            family="evm",
            asset=settings.asset,
            decimals=DECIMALS,
            threshold=settings.threshold,
            lane_depth=settings.lane_depth,
            batch=settings.lane_depth,
            replaceable=settings.replacement,
            hash_explorer=settings.explorer,
        )

    @property
    def info(self) -> ChainInfo:
        return self._info

    def address_of(self, public_key: bytes) -> str:
        return address.of_public_key(public_key)

    def check_destination(self, text: str, memo: str | None) -> str:
        return address.destination(text, memo)

    def check_amount(self, amount: int, destination: str) -> None:
        del destination  # every destination takes every amount: there is no dust here
        if not 0 < amount <= _MAX_VALUE:
            raise BadRequest("the amount must be more than zero and fit in 256 bits", field="amount")

    def fee_ceiling(self, quote: FeeQuote, level: FeeLevel) -> int:
        now = self._market(_gas_fees(quote), level)
        return min(_USUAL_GAS * now.max_fee * _ROOM_FOR_FEES, self._settings.max_fee)

    def room(self, lane: Lane) -> int:
        facts = _facts(lane)
        depth = 1 if facts.delegated else self._settings.lane_depth
        waiting = {nonce for nonce in _known(lane) if nonce >= facts.mined}
        return max(0, depth - len(waiting))

    def build(self, order: Build, lane: Lane, quote: FeeQuote) -> Unsigned | Hold | Reject:
        if order.kind not in (AttemptKind.PAYMENT, AttemptKind.BOOST, AttemptKind.DROP):
            return Reject(SubStatus.UNSUPPORTED_OPERATION, f"{order.kind} is not possible on this chain")
        nonce = self._nonce(order, lane)
        if not isinstance(nonce, int):
            return nonce
        gas = self._gas(order, lane)
        if not isinstance(gas, int):
            return gas
        price = self._price(order, _gas_fees(quote))
        to = lane.account.address if order.kind is AttemptKind.DROP else order.intent.destination
        transfer = Transfer(
            type=LEGACY if _gas_fees(quote).base is None else DYNAMIC,
            chain_id=self._settings.chain_id,
            nonce=nonce,
            to=bytes.fromhex(to[2:]),
            value=0 if order.kind is AttemptKind.DROP else order.intent.amount,
            gas=gas,
            price=price,
        )
        return (
            self._too_dear(order, transfer, _gas_fees(quote))
            or _not_covered(order, transfer, lane)
            or Unsigned(
                payload=encode(transfer),
                claims=(address.claim(lane.account.address, nonce),),
                window_end=None,
                fee_max=transfer.fee_max,
            )
        )

    def signing_requests(self, payload: bytes, account: Account) -> tuple[SigningRequest, ...]:
        return (SigningRequest(account.key, ALGORITHM, self._own(payload).digest),)

    def assemble(self, payload: bytes, account: Account, signatures: Sequence[Signature]) -> Signed:
        transfer = self._own(payload)
        if len(signatures) != 1 or len(signatures[0].data) != 64:
            raise SignedMismatch("one signature of 64 bytes is needed")
        signature = signatures[0]
        r, s = int.from_bytes(signature.data[:32], "big"), int.from_bytes(signature.data[32:], "big")
        if not in_range(r, s):
            raise SignedMismatch("the signature is out of range or not in its low form")
        for parity in (0, 1) if signature.recovery is None else (signature.recovery,):
            if _signer(transfer.digest, r, s, parity) == account.address:
                raw = transfer.with_signature(r, s, parity)
                return Signed(raw, "0x" + keccak(raw).hex())
        raise SignedMismatch(f"the signature is not of {account.address} and this payload")

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
        del payload  # the signed bytes say all by themselves
        transfer = decode_signed(raw).transfer
        to = address.checksum("0x" + transfer.to.hex())
        if transfer.chain_id != self._settings.chain_id:
            raise SignedMismatch(f"signed for chain {transfer.chain_id}, not {self._settings.chain_id}")
        if _sender(raw) != account.address:
            raise SignedMismatch(f"signed by {_sender(raw)}, not by {account.address}")
        if tuple(claims) != (address.claim(account.address, transfer.nonce),):
            raise SignedMismatch(f"signed with nonce {transfer.nonce}, which is not what {list(claims)} says")
        if transfer.fee_max > max_fee:
            raise SignedMismatch(f"may cost {transfer.fee_max}, more than {max_fee}")
        if not pays and (to != account.address or transfer.value != 0):
            raise SignedMismatch(f"moves {transfer.value} to {to}, and should move nothing")
        if pays and intent.asset != self._info.asset:
            raise SignedMismatch(f"moves {self._info.asset}, not {intent.asset}")
        if pays and (to != intent.destination or transfer.value != intent.amount):
            raise SignedMismatch(f"moves {transfer.value} to {to}, not {intent.amount} to {intent.destination}")

    def _own(self, payload: bytes) -> Transfer:
        transfer = decode(payload)
        if transfer.chain_id != self._settings.chain_id:
            raise SignedMismatch(f"the payload is for chain {transfer.chain_id}, not {self._settings.chain_id}")
        return transfer

    def _nonce(self, order: Build, lane: Lane) -> int | Hold | Reject:
        """Return the nonce: of the stored attempts for a replacement, else the lowest free one.

        Never from the node's count of pending transactions: it differs per node and is wrong after drops.
        """
        if order.replaces:
            return _same_nonce(order, lane)
        if order.kind is not AttemptKind.PAYMENT:
            return Reject(SubStatus.INVALID_NONCE_FOR_RBF, f"a {order.kind} needs an attempt to replace")
        mined, opening = _facts(lane).mined, int(lane.account.opening or 0)
        known = _known(lane)
        if mined < opening:
            return Hold(
                SubStatus.INVALID_NONCE_TOO_HIGH,
                f"the chain shows {mined} transactions of our address, fewer than the {opening} at first use",
            )
        if mined > opening and mined - 1 not in known:
            return Hold(
                SubStatus.INTERNAL_ERROR,
                "the chain shows a spend from our address that the store does not know:"
                f" nonce {mined - 1}; nothing is signed until it is explained",
            )
        nonce = mined
        while nonce in known:
            nonce += 1
        return nonce

    def _gas(self, order: Build, lane: Lane) -> int | Hold | Reject:
        account = lane.account.address
        if order.kind is AttemptKind.DROP:
            need = _facts(lane).needs.get((account, 0), Gas(TRANSFER_GAS, exact=True))
        else:
            where = (order.intent.destination, order.intent.amount)
            need = _facts(lane).needs.get(where, Unclear("the node was not asked about the destination"))
        match need:
            case Reverts(reason):
                return Reject(SubStatus.SMART_CONTRACT_EXECUTION_FAILED, f"the destination refuses: {reason}")
            case Unclear(reason):
                return Hold(SubStatus.CONNECTIVITY_ERROR, f"no gas estimate for the destination: {reason}")
            case Gas(units, exact):
                with_margin = units if exact else units * (100 + self._settings.gas_margin) // 100
                return min(with_margin, max(units, MAX_GAS))

    def _market(self, quote: GasFees, level: FeeLevel) -> Price:
        """Return the level's price within the bound: room for the base fee to rise is given up first."""
        now = fees.price(quote, level)
        return Price(min(now.max_fee, self._settings.max_fee_per_gas), now.tip)

    def _price(self, order: Build, quote: GasFees) -> Price:
        if order.kind is AttemptKind.DROP:
            market = fees.price(quote, order.level)
        else:
            market = self._market(quote, order.level)
        earlier = [_stored(pending).price for pending in order.replaces]
        return fees.replacement(market, earlier, self._settings.bump_percent) if earlier else market

    def _too_dear(self, order: Build, transfer: Transfer, quote: GasFees) -> Hold | None:
        bound = min(order.max_fee, self._settings.max_fee)
        per_gas = self._settings.max_fee_per_gas
        if order.kind is AttemptKind.DROP:
            # Whoever orders a drop states its price: it must be possible above the bounds of a payment.
            bound, per_gas = order.max_fee, _MAX_VALUE
        if transfer.fee_max > bound:
            return Hold(SubStatus.MAX_FEE_EXCEEDED, f"it may cost {transfer.fee_max} wei, and {bound} are allowed")
        if transfer.price.max_fee > per_gas or (quote.base or 0) > transfer.price.max_fee:
            return Hold(
                SubStatus.MAX_FEE_EXCEEDED,
                f"gas costs {max(quote.base or 0, transfer.price.max_fee)} wei, and {per_gas} are allowed",
            )
        return None


def _same_nonce(order: Build, lane: Lane) -> int | Hold:
    """Return the nonce of the stored attempts. WouldPayTwice: they have several, and one cannot exclude all."""
    nonce = _stored(order.replaces[-1]).nonce
    check_excludes((address.claim(lane.account.address, nonce),), order.replaces)
    if nonce < _facts(lane).mined:
        return Hold(SubStatus.INVALID_NONCE_TOO_LOW, f"nonce {nonce} is used in a block: there is nothing to replace")
    return nonce


def _stored(pending: Pending) -> Transfer:
    """Return what a stored attempt says of itself: its signed bytes where there are any."""
    return decode_signed(pending.raw).transfer if pending.raw else decode(pending.payload)


def _known(lane: Lane) -> set[int]:
    """Return every nonce of the account that the store knows of."""
    claims = [held.claim for held in lane.held]
    claims += [claim for pending in lane.pending for claim in pending.claims]
    nonces = (address.nonce_in(claim, lane.account.address) for claim in claims)
    return {nonce for nonce in nonces if nonce is not None}


def _not_covered(order: Build, transfer: Transfer, lane: Lane) -> Hold | None:
    """Say that the balance does not cover this transfer with the others that are not in a block yet.

    Of the attempts with one nonce only one will cost anything: the dearest counts. What has a nonce below the
    mined count has left the balance already, whatever the store knows of its block. A replacement competes
    only with what goes before it: it must be possible when the money does not reach for all.
    """
    facts = _facts(lane)
    others: dict[int, int] = {}
    for pending in lane.pending:
        other = _stored(pending)
        before = other.nonce < transfer.nonce or not order.replaces
        if other.nonce >= facts.mined and other.nonce != transfer.nonce and before:
            others[other.nonce] = max(others.get(other.nonce, 0), other.value + other.fee_max)
    left = facts.spendable - sum(others.values()) - transfer.value
    if left >= transfer.fee_max:
        return None
    why = SubStatus.INSUFFICIENT_FUNDS if left < 0 else SubStatus.INSUFFICIENT_FUNDS_FOR_FEE
    return Hold(
        why,
        f"the balance of {facts.spendable} wei does not cover {transfer.value} and a fee of up to"
        f" {transfer.fee_max}, with {sum(others.values())} for {len(others)} that wait",
    )


def _signer(digest: bytes, r: int, s: int, parity: int) -> str | None:
    """Return the address whose key made a signature, None when no key can have made it."""
    try:
        key = EthSignature(vrs=(parity, r, s)).recover_public_key_from_msg_hash(digest)
        return str(key.to_checksum_address())
    except (BadSignature, ValidationError):
        return None


def _sender(raw: bytes) -> str:
    """Return who signed, found by eth-account from the bytes alone: a second opinion to our own encoding."""
    try:
        return str(EthAccount.recover_transaction(raw))
    except (BadSignature, ValidationError, ValueError, TypeError) as error:
        raise SignedMismatch("no sender can be recovered from the signed bytes") from error


def _facts(lane: Lane) -> EvmFacts:
    assert isinstance(lane.facts, EvmFacts), "facts of another chain"
    return lane.facts


def _gas_fees(quote: FeeQuote) -> GasFees:
    assert isinstance(quote, GasFees), "fees of another chain"
    return quote
