"""`gateway tx create`: what is wrong is said in one line that names the field, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce

import pytest
from embit import bech32

from adapters.bitcoin.params import COINS
from devnets.network import Devnet
from tests.acceptance.cli.desk import Desk

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin]

ALICE = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
BOB = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
SWAPPED = "0x70997970c51812dc3A010C7d01b50e0d17dc79C8"
"""Alice's address with one letter in the wrong case."""
REGTEST, MAINNET, LTC = "<regtest>", "<mainnet>", "<asset>"
"""Stand for what the coin of the running network has; `given` puts it in."""
PREFIXES = {"bitcoin-regtest": ("bcrt", "bc"), "litecoin-regtest": ("rltc", "ltc")}


def given(arguments: Sequence[str], devnets: Mapping[str, Devnet]) -> list[str]:
    coin = devnets["bitcoin"].identity
    here, main = (bech32.encode(prefix, 0, bytes(range(20))) for prefix in PREFIXES[coin])
    words = {REGTEST: here, MAINNET: main, LTC: COINS[coin].asset}
    return [reduce(lambda text, word: text.replace(word, str(words[word])), words, a) for a in arguments]


def create(asset: str, to: str, amount: str, *more: str, vault: str = "hot-1") -> list[str]:
    return ["tx", "create", "--vault", vault, "--asset", asset, "--to", to, f"--amount={amount}", *more]


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        pytest.param(create("ETH", SWAPPED, "0.1"), "destination: ", id="wrong checksum"),
        pytest.param(create("ETH", ALICE[:-1], "0.1"), "destination: ", id="too short"),
        pytest.param(create("ETH", REGTEST, "0.1"), "destination: ", id="another family's address"),
        pytest.param(create(LTC, MAINNET, "0.1"), "destination: ", id="wrong network"),
        pytest.param(create(LTC, REGTEST[:-1] + "q", "0.1"), "destination: ", id="wrong checksum, segwit"),
        pytest.param(create(LTC, ALICE, "0.1"), "destination: ", id="another family's address, segwit"),
        pytest.param(create("ETH", ALICE, "0"), "amount: '0' must be more than zero", id="zero"),
        pytest.param(create("ETH", ALICE, "-1"), "amount: '-1' is not a plain positive", id="negative"),
        pytest.param(create("ETH", ALICE, "1e3"), "amount: '1e3' is not a plain", id="exponent"),
        pytest.param(create("ETH", ALICE, "NaN"), "amount: 'NaN' is not a plain", id="not a number"),
        pytest.param(create("ETH", ALICE, "1.2.3"), "amount: '1.2.3' is not a number", id="two points"),
        pytest.param(create("ETH", ALICE, ""), "amount: '' is not", id="empty"),
        pytest.param(create("ETH", ALICE, "9" * 60), "amount: ", id="longer than any coin"),
        pytest.param(create("ETH", ALICE, "0." + "0" * 18 + "1"), "more than 18 decimals", id="too many decimals"),
        pytest.param(create(LTC, REGTEST, "0.000000001"), "more than 8 decimals", id="too many decimals, coins"),
        pytest.param(create(LTC, REGTEST, "0.00000100"), "amount: the amount is dust", id="dust"),
        pytest.param(create("ETH", ALICE, "2"), "amount: not enough funds", id="nothing left for the fee"),
        pytest.param(create(LTC, REGTEST, "3"), "amount: not enough funds", id="more than the balance"),
        pytest.param(create("ETH", ALICE, "0.1", "--max-fee", "0"), "maxFee: '0' must be", id="no fee"),
        pytest.param(create("DOGE", ALICE, "0.1"), "assetId: unknown asset 'DOGE'; configured: ETH, ", id="asset"),
        pytest.param(create("ETH", ALICE, "0.1", "--memo", "17"), "memo: this chain has no memo", id="memo"),
        pytest.param(create(LTC, REGTEST, "0.1", "--memo", "17"), "memo: ", id="memo, coins"),
        pytest.param(create("ETH", ALICE, "0.1", "--external-id", ""), "externalTxId: ", id="empty external id"),
        pytest.param(create("ETH", ALICE, "0.1", "--external-id", "x" * 256), "externalTxId: ", id="long external id"),
    ],
)
def test_a_wrong_request_is_refused_by_the_name_of_its_field(
    desk: Desk, both: dict[str, Devnet], arguments: list[str], saying: str
) -> None:
    ran = desk.refused(*given(arguments, both), saying=[saying])
    assert ran.errors[0].startswith("error 1400: ")
    assert ran.out == ""


def test_an_unknown_vault_is_refused(desk: Desk) -> None:
    desk.refused(*create("ETH", ALICE, "0.1", vault="cold-9"), saying=["vault 'cold-9' is not configured"])


def test_a_vault_without_an_account_on_the_chain_is_refused(desk: Desk, both: dict[str, Devnet]) -> None:
    desk.rewrite('chains = ["evm", "bitcoin"]', 'chains = ["evm", "bitcoin"]\n[[vault]]\nname = "b"\nchains = ["evm"]')
    assert desk.run("lane", "list").code == 0  # the first command with the new configuration makes the vault
    desk.refused(*given(create(LTC, REGTEST, "0.1", vault="b"), both), saying=["has no account on bitcoin"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["tx", "create", "--asset", "ETH"],
        create("ETH", ALICE, "0.1", "--fee-level", "URGENT"),
        ["tx", "list", "--status", "LOST"],
        ["tx", "list", "--limit", "0"],
        ["pay-everybody"],
    ],
)
def test_a_wrong_command_line_is_a_usage_error(desk: Desk, arguments: list[str]) -> None:
    before = desk.counts()
    ran = desk.run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage" in ran.err
    assert desk.counts() == before


def test_the_same_external_id_is_the_same_withdrawal(desk: Desk) -> None:
    first = desk.run(*create("ETH", ALICE, "0.1", "--external-id", "order-1", "--json"))
    assert first.code == 0, first.err
    stored = desk.counts()
    again = desk.run(*create("ETH", ALICE, "0.10", "--external-id", "order-1", "--json"))
    assert again.code == 0, again.err
    assert json.loads(again.out)["withdrawal_id"] == json.loads(first.out)["withdrawal_id"]
    assert desk.counts() == stored


@pytest.mark.parametrize("other", [create("ETH", ALICE, "0.2"), create("ETH", BOB, "0.1"), create(LTC, REGTEST, "0.1")])
def test_an_external_id_with_another_content_is_error_1438(
    desk: Desk, both: dict[str, Devnet], other: list[str]
) -> None:
    assert desk.run(*create("ETH", ALICE, "0.1", "--external-id", "order-1")).code == 0
    ran = desk.refused(
        *given(other, both), "--external-id", "order-1", saying=["externalTxId: external id 'order-1' belongs"]
    )
    assert ran.errors[0].startswith("error 1438: ")


def test_money_that_is_promised_is_not_promised_again(desk: Desk) -> None:
    assert desk.run(*create("ETH", ALICE, "1.5")).code == 0
    desk.refused(*create("ETH", BOB, "1"), saying=["amount: not enough funds"])


def test_only_the_node_of_its_own_chain_is_needed(desk: Desk, nobody_there: str) -> None:
    desk.setting("urls", f'["{nobody_there}"]', chain="bitcoin")
    ran = desk.run(*create("ETH", ALICE, "0.1"))
    assert ran.code == 0, ran.err
    assert ran.out.strip().endswith("SUBMITTED")


def test_without_its_node_nothing_is_accepted(desk: Desk, nobody_there: str) -> None:
    desk.setting("urls", f'["{nobody_there}"]', chain="evm")
    desk.refused(*create("ETH", ALICE, "0.1"), saying=["evm: "])


def test_a_node_of_another_chain_accepts_nothing(desk: Desk) -> None:
    desk.setting("chain_id", "1", chain="evm")
    desk.refused(*create("ETH", ALICE, "0.1"), saying=["answers for chain id 31337, not 1"])
