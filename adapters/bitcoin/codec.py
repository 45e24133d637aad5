"""The half that decides about money: builds, encodes and decodes transactions; no network, no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adapters.bitcoin.address import canonical, dust_limit, p2wpkh, p2wpkh_script, script_of
from adapters.bitcoin.coins import Chains, Choice, Coin, Search, Target, free_coins
from adapters.bitcoin.fees import Rates, fee_for, replacement_fee
from adapters.bitcoin.params import DECIMALS, Settings
from adapters.bitcoin.payload import (
    LOCKTIME_LIMIT,
    SEQUENCE,
    TX_VERSION,
    Draft,
    Output,
    encode,
    vsize,
)
from adapters.bitcoin.payload import decode as decode_payload
from adapters.bitcoin.transaction import (
    Decoded,
    compact_of,
    decode,
    der_of,
    digests,
    is_signed_by,
    with_witnesses,
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
    Pending,
    Reject,
    Signature,
    Signed,
    SigningRequest,
    Unsigned,
)
from gateway.core.errors import BadRequest, SignedMismatch
from gateway.core.once import check_excludes, excludes
from gateway.core.substatus import SubStatus

ALGORITHM = "secp256k1-digest"
USUAL_INPUTS = 2
LONGEST_SCRIPT = 34
FEE_ROOM = 2

LeastFee = Callable[[int], int]


class BitcoinCodec:
    """One configured chain of the family. Vaults are P2WPKH: the hash is known, and fixed, before signing."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._settings = settings
        self._coin = settings.params
        self._info = ChainInfo(
            name=name,
            family="bitcoin",
            asset=settings.asset or self._coin.asset,
            decimals=DECIMALS,
            threshold=settings.threshold or self._coin.threshold,
            lane_depth=settings.lane_depth,
            batch=1,  # the next one may spend this one's change, which exists once it is signed
            replaceable=True,
            hash_explorer=settings.explorer,
        )

    @property
    def info(self) -> ChainInfo:
        """What is fixed for this chain."""
        return self._info

    @property
    def settings(self) -> Settings:
        """The checked configuration."""
        return self._settings

    def address_of(self, public_key: bytes) -> str:
        """Return the P2WPKH address of a compressed public key."""
        return p2wpkh(self._coin, public_key)

    def check_destination(self, address: str, memo: str | None) -> str:
        """Return the canonical form of a destination. Raises BadRequest: checksum, network, type, memo."""
        if memo is not None and memo != "":
            raise BadRequest(f"{self._coin.name} payments carry no memo", field="memo")
        return canonical(self._coin, address)

    def check_amount(self, amount: int, destination: str) -> None:
        """Raise BadRequest when nodes would not relay an output so small (dust, by the kind of output)."""
        least = dust_limit(self._coin, script_of(self._coin, destination))
        if amount < least:
            raise BadRequest(f"the amount is dust: at least {least} base units can be paid there", field="amount")

    def fee_ceiling(self, quote: FeeQuote, level: FeeLevel) -> int:
        """Return the most that one withdrawal of usual shape may cost now, with room for the fees to move."""
        size = vsize(USUAL_INPUTS, [bytes(LONGEST_SCRIPT), bytes(LONGEST_SCRIPT)])
        return min(FEE_ROOM * fee_for(_rates(quote).at(level), size), self._settings.max_fee)

    def room(self, lane: Lane) -> int:
        """Return how many more withdrawals may wait for a block; rival attempts of one count once."""
        waiting = {p.withdrawal_id for p in lane.pending} - {p.withdrawal_id for p in lane.pending if p.in_block}
        return max(0, self._settings.lane_depth - len(waiting))

    def build(self, order: Build, lane: Lane, quote: FeeQuote) -> Unsigned | Hold | Reject:
        """Build one attempt, or say why it must wait (Hold) or can never be built as asked (Reject)."""
        refusal = self._never(order)
        if refusal is not None:
            return refusal
        if order.replaces:
            return self._replace(order, lane, _rates(quote))
        rates = _rates(quote)
        script = self._own_script(lane.account)
        target = self._target(order, script, least_fee=lambda size: fee_for(rates.at(order.level), size))
        free = free_coins(lane, script, order.intent.withdrawal_id)
        choice = Search(target, Chains(lane.pending)).payment(free)
        return choice if isinstance(choice, Hold) else self._unsigned(order, target, choice, lane)

    def signing_requests(self, payload: bytes, account: Account) -> tuple[SigningRequest, ...]:
        """List the digest of each input (BIP 143), in order."""
        self._own_script(account)
        draft = decode_payload(self._settings.coin, payload)
        return tuple(SigningRequest(account.key, ALGORITHM, digest) for digest in digests(draft, account.public_key))

    def assemble(self, payload: bytes, account: Account, signatures: Sequence[Signature]) -> Signed:
        """Put the signatures in. Raises SignedMismatch when one is not of this account's key and data."""
        self._own_script(account)
        draft = decode_payload(self._settings.coin, payload)
        wanted = digests(draft, account.public_key)
        if len(signatures) != len(wanted):
            raise SignedMismatch(f"{len(wanted)} inputs, but {len(signatures)} signatures")
        for index, (signature, digest) in enumerate(zip(signatures, wanted, strict=True)):
            if not is_signed_by(account.public_key, digest, signature.data):
                raise SignedMismatch(f"the signature of input {index} is not this account's")
        raw, txid = with_witnesses(draft, account.public_key, [der_of(s.data) for s in signatures])
        return Signed(raw, txid)

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
        """Decode signed bytes and raise SignedMismatch unless they are exactly the approved payment.

        What the bytes do not show, the amounts of the inputs, is taken from `payload`; each signature commits
        to its input's amount (BIP 143), so a wrong one does not verify.
        """
        script = self._own_script(account)
        try:
            tx = decode(raw)
        except ValueError as error:
            raise SignedMismatch(str(error)) from error
        self._check_shape(tx, claims)
        self._check_outputs(tx, intent, script, pays=pays)
        proven = self._proven(tx, account, payload)
        if not 0 <= proven.fee <= max_fee:
            raise SignedMismatch(f"the fee is {proven.fee}, at most {max_fee} was approved")

    def _never(self, order: Build) -> Reject | None:
        """Say why an order can never be built, whatever the lane holds."""
        if order.kind is AttemptKind.CPFP:
            return Reject(SubStatus.UNSUPPORTED_OPERATION, "a child that pays for its parent is not supported")
        if not order.kind.pays and not order.replaces:
            return Reject(SubStatus.UNSUPPORTED_OPERATION, "there is nothing to drop: nothing was signed")
        if order.intent.asset != self._info.asset:
            return Reject(SubStatus.UNSUPPORTED_OPERATION, f"this chain has no asset {order.intent.asset}")
        try:
            canonical_form = self.check_destination(order.intent.destination, order.intent.memo)
        except BadRequest as error:
            memo = error.field == "memo"
            return Reject(SubStatus.INVALID_TAG_OR_MEMO if memo else SubStatus.INVALID_ADDRESS, str(error))
        if canonical_form != order.intent.destination:
            return Reject(SubStatus.INVALID_ADDRESS, "the destination is not in its canonical form")
        try:
            self.check_amount(order.intent.amount, canonical_form)
        except BadRequest as error:
            return Reject(SubStatus.AMOUNT_TOO_SMALL, str(error))
        return None

    def _replace(self, order: Build, lane: Lane, rates: Rates) -> Unsigned | Hold:
        """Build one that takes the place of all earlier attempts.

        It spends every input of the newest, in order: the first, the anchor, is common to the whole family.
        """
        earlier = order.replaces
        waits = _why_not_now(order, lane)
        if waits is not None:
            return waits
        drafts = [decode_payload(self._settings.coin, attempt.payload) for attempt in earlier]
        together = not all(
            excludes(one.claims, other.claims) for at, one in enumerate(earlier) for other in earlier[at + 1 :]
        )
        script = self._own_script(lane.account)
        target = self._target(
            order,
            script,
            least_fee=lambda size: replacement_fee(rates, order.level, size, drafts, together=together),
        )
        base = tuple(Coin(s.txid, s.vout, s.amount, height=None) for s in drafts[-1].inputs)
        held = {coin.claim for coin in base}
        free = free_coins(lane, script, order.intent.withdrawal_id)
        more = [coin for coin in free.confirmed if coin.claim not in held]
        choice = Search(target, Chains(())).replacement(base, more)
        return choice if isinstance(choice, Hold) else self._unsigned(order, target, choice, lane)

    def _target(self, order: Build, script: bytes, *, least_fee: LeastFee) -> Target:
        intent = order.intent
        payment = Output(script_of(self._coin, intent.destination), intent.amount) if order.kind.pays else None
        return Target(
            payment=payment,
            change_script=script,
            change_dust=dust_limit(self._coin, script),
            least_fee=least_fee,
            max_fee=min(order.max_fee, self._settings.max_fee),
            max_inputs=self._settings.max_inputs,
        )

    def _unsigned(self, order: Build, target: Target, choice: Choice, lane: Lane) -> Unsigned:
        payment = (target.payment,) if target.payment else ()
        change = (Output(target.change_script, choice.change),) if choice.change else ()
        draft = Draft(
            inputs=tuple(coin.spend for coin in choice.coins),
            outputs=(*payment, *change),
            # At the present height, so that nobody gains by mining an old block again for its fees.
            locktime=max(0, lane.facts.height),
        )
        check_excludes(draft.claims, order.replaces)
        assert draft.fee == choice.fee <= target.max_fee
        return Unsigned(
            payload=encode(self._settings.coin, draft),
            claims=draft.claims,
            window_end=None,
            fee_max=draft.fee,
        )

    def _own_script(self, account: Account) -> bytes:
        script = p2wpkh_script(account.public_key)
        if account.address != p2wpkh(self._coin, account.public_key):
            raise SignedMismatch(f"the account's address {account.address} is not that of its key on this chain")
        return script

    def _check_shape(self, tx: Decoded, claims: Sequence[str]) -> None:
        if tx.version != TX_VERSION or tx.locktime >= LOCKTIME_LIMIT:
            raise SignedMismatch("version or lock time is not one that is built here")
        if any(entry.script_sig or entry.sequence != SEQUENCE for entry in tx.inputs):
            raise SignedMismatch("an input has a script or a sequence that is not built here")
        consumed = [entry.claim for entry in tx.inputs]
        if not consumed or consumed != list(claims) or len(set(consumed)) != len(consumed):
            raise SignedMismatch("it does not consume exactly the claims that are held for it")

    def _check_outputs(self, tx: Decoded, intent: Intent, own: bytes, *, pays: bool) -> None:
        outputs = list(tx.outputs)
        if pays:
            try:
                wanted = Output(script_of(self._coin, intent.destination), intent.amount)
            except BadRequest as error:
                raise SignedMismatch(f"the approved destination: {error}") from error
            if intent.asset != self._info.asset or wanted not in outputs:
                raise SignedMismatch("it does not pay the approved amount to the approved destination")
            outputs.remove(wanted)
        elif not outputs:
            raise SignedMismatch("it creates nothing")
        if len(outputs) > 1 or any(output.script != own for output in outputs):
            raise SignedMismatch("it moves value that nobody approved")

    def _proven(self, tx: Decoded, account: Account, payload: bytes) -> Draft:
        """Return the transaction with the amounts of its inputs, each proven by that input's signature."""
        amounts = {s.claim: s for s in decode_payload(self._settings.coin, payload).inputs}
        if any(entry.claim not in amounts for entry in tx.inputs):
            raise SignedMismatch("the amount of an input is not known")
        draft = Draft(
            inputs=tuple(amounts[entry.claim] for entry in tx.inputs),
            outputs=tx.outputs,
            locktime=tx.locktime,
        )
        for index, (entry, digest) in enumerate(zip(tx.inputs, digests(draft, account.public_key), strict=True)):
            if not _is_witness_of(entry.witness, account.public_key, digest):
                raise SignedMismatch(f"the signature of input {index} is not this account's for this payment")
        return draft


def _why_not_now(order: Build, lane: Lane) -> Hold | None:
    """Say why the earlier attempts must not be replaced at this moment."""
    if any(attempt.in_block for attempt in order.replaces):
        return Hold(SubStatus.PENDING_BLOCKCHAIN_CONFIRMATIONS, "an earlier attempt is in a block already")
    hashes = {attempt.tx_hash for attempt in order.replaces if attempt.tx_hash}
    dependants = [attempt for attempt in lane.pending if _spends(attempt, hashes)]
    if dependants:
        # Replacing their parent would evict them, and leave them without an end: what they consume would
        # neither exist nor ever be consumed by another.
        return Hold(
            SubStatus.TOO_LONG_MEMPOOL_CHAIN,
            f"{len(dependants)} later payments spend its change; boost the last of them, or wait for a block",
        )
    return None


def _spends(attempt: Pending, hashes: set[str]) -> bool:
    return any(claim.partition(":")[0] in hashes for claim in attempt.claims)


def _is_witness_of(witness: tuple[bytes, ...], public_key: bytes, digest: bytes) -> bool:
    if len(witness) != 2 or witness[1] != public_key:
        return False
    try:
        return is_signed_by(public_key, digest, compact_of(witness[0]))
    except ValueError:
        return False


def _rates(quote: FeeQuote) -> Rates:
    assert isinstance(quote, Rates)
    return quote
