"""Blocks as nodes give them (`getblock` with its transactions): what in one of them concerns us."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from embit.hashes import hash160

from adapters.bitcoin.address import Kind, address_of, kind_of, script_of
from adapters.bitcoin.params import COIN_UNITS, MAX_MONEY, Coin
from gateway.core.chain import Block, BlockRef, Landed, Payment, Watch
from gateway.core.errors import BadRequest

HASH_LENGTH = 64
PUBLIC_KEY_HEX = 66
_HEX = frozenset("0123456789abcdef")


class Malformed(ValueError):
    """An answer that a node of this family does not give. Private to this folder."""


def read_block(coin: Coin, answer: object, ref: BlockRef, watch: Watch) -> Block:
    """Return what concerns us of one whole block. Raises Malformed unless it is the block that was asked for."""
    tree = mapping(answer)
    if read_ref(tree) != ref:
        raise Malformed("it is another block than the one asked for")
    transactions = tree.get("tx")
    if not isinstance(transactions, list) or not transactions:
        raise Malformed("a block without transactions")
    senders = _senders(coin, watch)
    found = (_landed(coin, tx, watch, senders) for tx in transactions)
    return Block(ref, tuple(landed for landed in found if landed is not None))


def read_ref(tree: Mapping[str, object]) -> BlockRef:
    """Return which block an answer of `getblock` or `getblockheader` is about. The first one has no parent."""
    height = number(tree.get("height"))
    parent = tree.get("previousblockhash")
    return BlockRef(height, block_hash(tree.get("hash")), "" if height == 0 else block_hash(parent))


def units(value: object) -> int:
    """Return an amount of coins as base units, exactly."""
    scaled = _decimal(value) * COIN_UNITS
    whole = int(scaled)
    if whole != scaled:
        raise Malformed(f"{value!r} is not an amount")
    return whole


def rate_units(value: object) -> int:
    """Return a rate in coins per 1 000 virtual bytes as base units, rounded up."""
    return int((_decimal(value) * COIN_UNITS).to_integral_value(ROUND_CEILING))


def mapping(value: object) -> Mapping[str, object]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise Malformed("not an object")
    return value


def number(value: object) -> int:
    """Return a count or a height."""
    if type(value) is not int or value < 0:
        raise Malformed(f"{value!r} is not a number of that kind")
    return value


def block_hash(value: object) -> str:
    """Return the hash of a block or a transaction, as nodes print it."""
    if not isinstance(value, str) or len(value) != HASH_LENGTH or not _HEX.issuperset(value):
        raise Malformed(f"{str(value)[:80]!r} is not a hash")
    return value


def _decimal(value: object) -> Decimal:
    """Return a number of coins, within what any coin has; JSON numbers come as int or Decimal."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Malformed(f"{str(value)[:80]!r} is not a number of coins")
    number = Decimal(value)
    if not number.is_finite() or not 0 <= number <= MAX_MONEY // COIN_UNITS:
        raise Malformed(f"{number} is not a number of coins")
    return number


def _landed(coin: Coin, answer: object, watch: Watch, senders: Mapping[bytes, str]) -> Landed | None:
    """Return a transaction if we watch its hash, something that it spends, or somebody who spends in it."""
    tx = mapping(answer)
    txid = tx.get("txid")
    inputs = tx.get("vin")
    if not isinstance(txid, str) or not isinstance(inputs, list):
        raise Malformed("a transaction without hash or inputs")
    claims = [f"{vin['txid']}:{vin['vout']}" for vin in inputs if "txid" in vin]
    sender = _sender(inputs, senders)
    if not sender and txid not in watch.hashes and not any(claim in watch.claims for claim in claims):
        return None
    fee = tx.get("fee")  # nodes from version 22 on
    return Landed(
        tx_hash=block_hash(txid),
        claims=tuple(claims),
        sender=sender,
        ok=True,
        fee=None if fee is None else units(fee),
        pays=_payments(coin, tx.get("vout")),
    )


def _senders(coin: Coin, watch: Watch) -> dict[bytes, str]:
    """Return our addresses by the key hash that they stand for: hashing a key is quick, writing an address is not."""
    found = ((_key_hash(coin, address), address) for address in watch.senders)
    return {key_hash: address for key_hash, address in found if key_hash}


@lru_cache(maxsize=200_000)
def _key_hash(coin: Coin, address: str) -> bytes:
    """Return the key hash of a P2WPKH address, nothing for any other: vaults have no other."""
    try:
        script = script_of(coin, address)
    except BadRequest:
        return b""
    return script[2:] if kind_of(script) is Kind.P2WPKH else b""


def _sender(inputs: list[Mapping[str, object]], senders: Mapping[bytes, str]) -> str:
    """Return the first of our addresses that an input spends from: the witness of P2WPKH shows the key."""
    for vin in inputs:
        witness = vin.get("txinwitness")
        if not isinstance(witness, list) or len(witness) != 2 or len(witness[1]) != PUBLIC_KEY_HEX:
            continue
        if witness[1][:2] not in ("02", "03"):
            continue
        address = senders.get(hash160(bytes.fromhex(witness[1])), "")
        if address and not mapping(vin.get("scriptSig", {})).get("hex", ""):  # else P2SH around it: another address
            return address
    return ""


def _payments(coin: Coin, outputs: object) -> tuple[Payment, ...]:
    """Return what each output pays. A script without an address is named by itself."""
    if not isinstance(outputs, list):
        raise Malformed("a transaction without outputs")
    found = []
    for output in outputs:
        script = mapping(output).get("scriptPubKey")
        if script is None:  # of the extension block: it moves no coin that this chain shows
            continue
        text = mapping(script).get("hex")
        if not isinstance(text, str):
            raise Malformed("an output without a script")
        amount = units(mapping(output).get("value"))
        address = address_of(coin, bytes.fromhex(text)) or f"script:{text}"
        found.append(Payment(address, amount))
    return tuple(found)
