"""Addresses: the vectors of BIP 173 and BIP 350, the right network only, and one spelling each."""

from __future__ import annotations

import pytest
from embit import base58, bech32
from hypothesis import given
from hypothesis import strategies as st

from adapters.bitcoin.address import (
    Kind,
    address_of,
    canonical,
    dust_limit,
    kind_of,
    p2wpkh,
    p2wpkh_script,
    script_of,
)
from adapters.bitcoin.params import COINS
from gateway.core.errors import BadRequest
from tests.adapters.bitcoin.vault import codec

MAIN, TEST, REG = COINS["bitcoin-main"], COINS["bitcoin-test"], COINS["bitcoin-regtest"]
LTC, LTC_TEST, LTC_REG = COINS["litecoin-main"], COINS["litecoin-test"], COINS["litecoin-regtest"]
DOGE = COINS["dogecoin-main"]
KEY = bytes.fromhex("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")

# BIP 173 and BIP 350 "valid addresses", those of a version that has a meaning.
VALID = [
    (MAIN, "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "0014751e76e8199196d454941c45d1b3a323f1433bd6"),
    (
        TEST,
        "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
        "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
    ),
    (
        TEST,
        "tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy",
        "0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (
        TEST,
        "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
        "5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (
        MAIN,
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
    ),
]

# Valid by the BIPs, refused here: no rule gives these programs a meaning, so coins sent there are lost or free.
UNDEFINED = [
    (MAIN, "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y"),
    (MAIN, "BC1SW50QGDZ25J"),
    (MAIN, "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs"),
    (MAIN, "bc1pfeessrawgf"),  # P2A
]

# BIP 350 "invalid segwit addresses", for the network they are about, with what must be said.
INVALID = [
    (MAIN, "tc1qw508d6qejxtdg4y5r3zarvary0c5xw7kg3g4ty", "not an address"),
    (MAIN, "tc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq5zuyut", "not an address"),
    (MAIN, "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", "another witness version"),
    (TEST, "tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf", "another witness version"),
    (MAIN, "BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL", "another witness version"),
    (MAIN, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh", "another witness version"),
    (TEST, "tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47", "another witness version"),
    (MAIN, "bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4", "checksum"),
    (MAIN, "BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R", "not a segwit"),
    (MAIN, "bc1pw5dgrnzv", "not a segwit"),
    (MAIN, "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav", "not a segwit"),
    (MAIN, "BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P", "program of 16 bytes"),
    (TEST, "tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq47Zagq", "upper and lower"),
    (MAIN, "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf", "not a segwit"),
    (TEST, "tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vpggkg4j", "not a segwit"),
    (MAIN, "bc1gmk9yu", "checksum"),
    (MAIN, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", "checksum"),
    (MAIN, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3tt4", "checksum"),
    (MAIN, "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3", "checksum"),
    (MAIN, "", "not an address"),
    (MAIN, "1", "not an address"),
    (MAIN, "bc1", "checksum"),
    (MAIN, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t\uff14", "not an address"),
    (MAIN, " bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "not an address"),
    (MAIN, "x" * 10_000, "not an address"),
]


@pytest.mark.parametrize(("coin", "text", "script"), VALID)
def test_the_valid_vectors_give_their_script_and_one_spelling(coin, text, script) -> None:  # type: ignore[no-untyped-def]
    assert script_of(coin, text).hex() == script
    assert canonical(coin, text) == text.lower() == address_of(coin, bytes.fromhex(script))
    assert canonical(coin, text.upper()) == text.lower()


@pytest.mark.parametrize(("coin", "text"), UNDEFINED)
def test_programs_without_a_meaning_are_refused(coin, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadRequest, match=r"witness version|program of") as caught:
        script_of(coin, text)
    assert caught.value.field == "destination"


@pytest.mark.parametrize(("coin", "text", "why"), INVALID)
def test_the_invalid_vectors_are_refused_with_the_reason(coin, text, why) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadRequest, match=why) as caught:
        script_of(coin, text)
    assert caught.value.field == "destination"


def test_an_address_of_another_network_is_refused_by_name() -> None:
    address = p2wpkh(LTC, KEY)
    assert address.startswith("ltc1q")
    with pytest.raises(BadRequest, match="belongs to litecoin, not to bitcoin main"):
        script_of(MAIN, address)
    with pytest.raises(BadRequest, match="belongs to bitcoin's test networks, not to bitcoin main"):
        script_of(MAIN, p2wpkh(TEST, KEY))
    with pytest.raises(BadRequest, match="belongs to bitcoin regtest, not to bitcoin test"):
        script_of(TEST, p2wpkh(REG, KEY))
    with pytest.raises(BadRequest, match="does not belong to litecoin main"):
        script_of(LTC, "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2")
    with pytest.raises(BadRequest, match="does not belong to dogecoin main"):
        script_of(DOGE, "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2")
    with pytest.raises(BadRequest, match="belongs to bitcoin, not to dogecoin main"):
        script_of(DOGE, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4")


@pytest.mark.parametrize(
    ("coin", "text", "kind"),
    [
        (MAIN, "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", Kind.P2PKH),
        (MAIN, "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", Kind.P2SH),
        (TEST, "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", Kind.P2PKH),
        (TEST, "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc", Kind.P2SH),
    ],
)
def test_base58_addresses_are_kept_as_they_are(coin, text, kind) -> None:  # type: ignore[no-untyped-def]
    assert kind_of(script_of(coin, text)) is kind
    assert canonical(coin, text) == text


def test_litecoins_old_script_addresses_are_refused_as_ambiguous() -> None:
    with pytest.raises(BadRequest, match=r"also a bitcoin address; ask for the M… form"):
        script_of(LTC, "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy")
    new = base58.encode_check(bytes([0x32]) + base58.decode_check("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy")[1:])
    assert new.startswith("M")
    assert script_of(LTC, new) == script_of(MAIN, "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy")
    with pytest.raises(BadRequest, match=r"ask for the Q… form"):
        script_of(LTC_TEST, "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc")


@pytest.mark.parametrize("prefix", ["ltcmweb1", "mweb1", "tmweb1", "LTCMWEB1"])
@pytest.mark.parametrize("coin", [LTC, LTC_TEST, MAIN])
def test_extension_block_addresses_are_refused_with_their_own_text(coin, prefix) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadRequest, match="MWEB address"):
        script_of(coin, prefix + "qq" * 56)


def test_a_memo_is_refused() -> None:
    with pytest.raises(BadRequest, match="no memo") as caught:
        codec().check_destination(p2wpkh(LTC_REG, KEY), "42")
    assert caught.value.field == "memo"
    assert codec().check_destination(p2wpkh(LTC_REG, KEY).upper(), None) == p2wpkh(LTC_REG, KEY)


SCRIPTS = {
    Kind.P2PKH: b"\x76\xa9\x14" + bytes(20) + b"\x88\xac",
    Kind.P2SH: b"\xa9\x14" + bytes(20) + b"\x87",
    Kind.P2WPKH: b"\x00\x14" + bytes(20),
    Kind.P2WSH: b"\x00\x20" + bytes(32),
    Kind.P2TR: b"\x51\x20" + bytes(32),
}
DUST = {Kind.P2PKH: 546, Kind.P2SH: 540, Kind.P2WPKH: 294, Kind.P2WSH: 330, Kind.P2TR: 330}


@pytest.mark.parametrize("kind", list(Kind))
def test_dust_depends_on_the_kind_of_output_and_on_the_coin(kind: Kind) -> None:
    script = SCRIPTS[kind]
    assert kind_of(script) is kind
    assert dust_limit(MAIN, script) == DUST[kind]
    assert dust_limit(LTC, script) == 10 * DUST[kind]
    chain = codec("litecoin-main")
    address = address_of(LTC, script)
    assert address is not None
    chain.check_amount(10 * DUST[kind], address)
    with pytest.raises(BadRequest, match="dust") as caught:
        chain.check_amount(10 * DUST[kind] - 1, address)
    assert caught.value.field == "amount"


@given(st.sampled_from(sorted(COINS)), st.sampled_from(list(Kind)), st.binary(min_size=32, max_size=32))
def test_address_and_script_are_each_others_inverse(name: str, kind: Kind, program: bytes) -> None:
    coin = COINS[name]
    size = 32 if kind in (Kind.P2WSH, Kind.P2TR) else 20
    script = SCRIPTS[kind].replace(bytes(size), program[:size], 1)
    address = address_of(coin, script)
    if address is None:
        assert not coin.hrp
    else:
        assert script_of(coin, address) == script


@given(st.text(max_size=100) | st.from_regex(r"(bc|tb|ltc)1[02-9ac-hj-np-z]{6,80}", fullmatch=True))
def test_no_text_makes_anything_but_an_address_or_a_refusal(text: str) -> None:
    try:
        script = script_of(MAIN, text)
    except BadRequest:
        return
    assert canonical(MAIN, text) == address_of(MAIN, script)


@given(st.binary(min_size=20, max_size=20), st.integers(0, 41), st.sampled_from("qpzry9x8gf2tvdw0s3jn54khce6mua7l"))
def test_one_wrong_letter_is_noticed(program: bytes, at: int, letter: str) -> None:
    address = bech32.encode("bc", 0, program)
    wrong = address[:at] + letter + address[at + 1 :]
    if wrong != address:
        with pytest.raises(BadRequest):
            script_of(MAIN, wrong)


def test_a_vault_pays_to_the_hash_of_its_compressed_key() -> None:
    assert p2wpkh(MAIN, KEY) == "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
    assert p2wpkh_script(KEY).hex() == "0014751e76e8199196d454941c45d1b3a323f1433bd6"
    for bad in (KEY[1:], b"\x04" + KEY[1:], b"\x04" + KEY[1:] * 2):
        with pytest.raises(ValueError, match="33 bytes"):
            p2wpkh_script(bad)
