"""Refusals provoked on the real node: the rows that say "observed" were, and mean what the table says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from eth_account import Account as EthAccount

from adapters.evm.fees import Price
from adapters.evm.payload import Transfer
from adapters.evm.refusals import REFUSALS, classify
from adapters.transport.jsonrpc import JsonRpc, RpcError
from devnets.evm.network import EvmDevnet
from gateway.core.errors import Outcome

pytestmark = [pytest.mark.devnet, pytest.mark.evm]

POOR = "11" * 32
GOOD = Transfer(2, 31337, 0, b"\x22" * 20, 1, 21_000, Price(3 * 10**9, 10**9))


@dataclass(frozen=True)
class Case:
    """What is sent before (and, with `mined`, put into a block), what is then refused, and how it must be read."""

    outcome: Outcome
    refused: Callable[[str], str]
    before: tuple[Transfer, ...] = ()
    mined: bool = False


def signed(transfer: Transfer, key: str) -> str:
    made = EthAccount.sign_transaction(
        {
            "type": 2,
            "chainId": transfer.chain_id,
            "nonce": transfer.nonce,
            "to": transfer.to,
            "value": transfer.value,
            "gas": transfer.gas,
            "maxFeePerGas": transfer.price.max_fee,
            "maxPriorityFeePerGas": transfer.price.tip,
            "data": b"",
        },
        key,
    )
    return "0x" + bytes(made.raw_transaction).hex()


def of(**change: object) -> Callable[[str], str]:
    return lambda key: signed(replace(GOOD, **change), key)  # type: ignore[arg-type]


CASES = {
    "the same bytes": Case(Outcome.ALREADY_KNOWN, of(), (GOOD,)),
    "bytes that are in a block": Case(Outcome.LOOKUP, of(), (GOOD,), mined=True),
    "a nonce that is used": Case(Outcome.LOOKUP, of(value=9), (GOOD,), mined=True),
    "a replacement for the same price": Case(Outcome.FEE_TOO_LOW, of(value=9), (GOOD,)),
    "a price below the base fee": Case(Outcome.FEE_TOO_LOW, of(price=Price(1, 1))),
    "no funds": Case(Outcome.FUNDS, lambda _: signed(GOOD, POOR)),
    "too little gas": Case(Outcome.PERMANENT, of(gas=20_000)),
    "more gas than a block has": Case(Outcome.PERMANENT, of(gas=40_000_000)),
    "a tip above the price": Case(Outcome.PERMANENT, of(price=Price(3 * 10**9, 4 * 10**9))),
    "another chain": Case(Outcome.PERMANENT, of(chain_id=1)),
    "no transaction": Case(Outcome.PERMANENT, lambda _: "0x1234"),
    "no hexadecimal": Case(Outcome.PERMANENT, lambda _: "x"),
}


@pytest.mark.parametrize("name", list(CASES))
async def test_what_the_node_refuses_is_read_as_the_table_says(name: str, devnet: EvmDevnet) -> None:
    assert await provoke(devnet, CASES[name]) is not None


async def test_every_row_that_claims_to_be_observed_is(devnet: EvmDevnet) -> None:
    claimed = {(said.code, said.text) for row in REFUSALS for said in row.said if said.observed}
    seen = set()
    for account, case in enumerate(CASES.values()):
        error = await provoke(devnet, case, account)
        seen.add((error.code, error.message))
    assert seen == claimed


async def provoke(devnet: EvmDevnet, case: Case, account: int = 0) -> RpcError:
    _, key = devnet.dev_account(account)
    client = JsonRpc("anvil", devnet.url)
    try:
        for transfer in case.before:
            await client.call("eth_sendRawTransaction", [signed(transfer, key)])
        if case.mined:
            await devnet.mine()
        with pytest.raises(RpcError) as caught:
            await client.call("eth_sendRawTransaction", [case.refused(key)])
    finally:
        await client.close()
    assert classify(caught.value.message, caught.value.data) is case.outcome
    return caught.value
