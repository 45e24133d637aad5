"""Blocks: what is watched is found with everything that it says, and the rest of a block costs little."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from adapters.bitcoin.address import p2wpkh, p2wpkh_script
from adapters.bitcoin.blocks import Malformed, rate_units, read_block, units
from adapters.bitcoin.params import COINS
from gateway.core.chain import BlockRef, Landed, Payment
from tests.adapters.bitcoin.vault import Key

COIN = COINS["litecoin-regtest"]
KEY = Key("vault")
ADDRESS = p2wpkh(COIN, KEY.public)
REF = BlockRef(7, "aa" * 32, "bb" * 32)


@dataclass
class Watched:
    hashes: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    senders: dict[str, object] = field(default_factory=dict)


def tx(number: int, *, key: bytes | None = None, **more: Any) -> dict[str, Any]:
    """A transaction as `getblock` shows it: one input, one output of 1.5 to the vault and one to a bare script."""
    vin: dict[str, Any] = {"txid": f"{number:064x}", "vout": 1, "scriptSig": {"asm": "", "hex": ""}, "sequence": 1}
    if key is not None:
        vin["txinwitness"] = ["30" * 71, key.hex()]
    script = p2wpkh_script(KEY.public).hex()
    return {
        "txid": f"{number + 1000:064x}",
        "vin": [vin],
        "vout": [
            {"value": Decimal("1.50000000"), "n": 0, "scriptPubKey": {"hex": script}},
            {"value": Decimal("0.00000000"), "n": 1, "scriptPubKey": {"hex": "6a"}},
        ],
    } | more


COINBASE: dict[str, Any] = {
    "txid": "cc" * 32,
    "vin": [{"coinbase": "00", "sequence": 1, "txinwitness": ["00" * 32]}],
    "vout": [{"value": 50, "n": 0, "scriptPubKey": {"hex": "51"}}],
}


def block(*txs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "hash": REF.hash,
        "height": REF.height,
        "previousblockhash": REF.parent,
        "tx": [COINBASE, *txs],
    } | more


def landed(answer: object, **watched: Any) -> tuple[Landed, ...]:
    return read_block(COIN, answer, REF, Watched(**watched)).landed


def test_nothing_that_concerns_us_is_nothing_found() -> None:
    assert landed(block(tx(1), tx(2, key=KEY.public))) == ()


def test_a_watched_hash_is_found_with_all_that_it_says() -> None:
    (found,) = landed(block(tx(1), tx(2)), hashes={tx(2)["txid"]})
    assert found == Landed(
        tx_hash=tx(2)["txid"],
        claims=(f"{2:064x}:1",),
        sender="",
        ok=True,
        fee=None,
        pays=(Payment(ADDRESS, 150_000_000), Payment("script:6a", 0)),
    )


def test_whoever_spends_a_watched_claim_is_found_under_any_hash() -> None:
    (found,) = landed(block(tx(1), tx(2)), claims={f"{1:064x}:1"})
    assert found.tx_hash == tx(1)["txid"]


def test_a_spend_from_our_address_is_found_by_its_key_alone() -> None:
    (found,) = landed(block(tx(1), tx(2, key=KEY.public)), senders={ADDRESS: object()})
    assert (found.sender, found.claims) == (ADDRESS, (f"{2:064x}:1",))


@pytest.mark.parametrize("key", [Key("another").public, b"\x04" + KEY.public[1:], KEY.public[:32], b"\x00" * 33])
def test_other_keys_are_not_ours(key: bytes) -> None:
    assert landed(block(tx(2, key=key)), senders={ADDRESS: object()}) == ()


def test_our_key_behind_a_script_hash_is_another_address() -> None:
    nested = tx(2, key=KEY.public)
    nested["vin"][0]["scriptSig"] = {"hex": "160014" + "00" * 20}
    assert landed(block(nested), senders={ADDRESS: object()}) == ()


def test_a_fee_is_told_where_the_node_tells_it() -> None:
    (found,) = landed(block(tx(2, fee=Decimal("0.00000141"))), hashes={tx(2)["txid"]})
    assert found.fee == 141


def test_inputs_and_outputs_of_the_extension_block_are_passed_over() -> None:
    mixed = tx(2, vin=[{"ismweb": True, "output_id": "00" * 32}], vout=[{"ismweb": True, "output_id": "00" * 32}])
    (found,) = landed(block(mixed), hashes={mixed["txid"]})
    assert (found.claims, found.pays) == ((), ())


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        block(hash="ab" * 32),
        block(height=8),
        block(previousblockhash="ab" * 32),
        block(previousblockhash=None),
        block(hash="AA" * 32),
        block(height=True),
        block(tx=[]),
        block(tx={}),
        block({"txid": "x"}),
        block(tx(1, txid="zz" * 32), tx=[tx(1, txid="zz" * 32)]),
        block(tx(2, vout=None)),
        block(tx(2, vout=[{"value": 0.5, "scriptPubKey": {"hex": "51"}}])),
        block(tx(2, vout=[{"value": Decimal("0.000000001"), "scriptPubKey": {"hex": "51"}}])),
        block(tx(2, vout=[{"value": Decimal("-1"), "scriptPubKey": {"hex": "51"}}])),
        block(tx(2, vout=[{"value": Decimal("1"), "scriptPubKey": {"hex": None}}])),
        block(tx(2, vout=[{"value": Decimal("1"), "scriptPubKey": {"hex": "5"}}])),
        block(tx(2, fee="1")),
    ],
)
def test_an_answer_that_is_not_this_block_is_malformed(answer: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        landed(answer, hashes={tx(2)["txid"], "zz" * 32})


def test_the_first_block_has_no_parent() -> None:
    ref = BlockRef(0, "aa" * 32, "")
    answer = block(height=0)
    del answer["previousblockhash"]
    assert read_block(COIN, answer, ref, Watched()).ref == ref


def test_amounts_are_exact_and_rates_are_rounded_up() -> None:
    assert units(Decimal("20999999.9769")) == 2_099_999_997_690_000
    assert units(Decimal("1E-8")) == 1
    assert units(3) == 300_000_000
    assert rate_units(Decimal("0.00001000")) == 1_000
    assert rate_units(Decimal("0.000010001")) == 1_001
    assert rate_units(0) == 0
    for wrong in (True, "1", None, 1.0, Decimal("NaN"), Decimal(-1), Decimal("Infinity"), Decimal("1E+99999")):
        with pytest.raises(Malformed):
            units(wrong)
        with pytest.raises(Malformed):
            rate_units(wrong)
