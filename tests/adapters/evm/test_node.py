"""The node half against scripted answers: bounds, lies, and every way in which a send can end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.evm.codec import EvmFacts, Gas, Reverts, Unclear
from adapters.evm.node import EvmNode
from adapters.evm.params import GWEI
from devnets.faults import Answer, Close, Fault, Garbage, Refuse, Status
from devnets.proxy import FaultProxy
from gateway.core.chain import Block, BlockRef, Landed, Payment, Presence, Sent, Watch
from gateway.core.errors import (
    BadReply,
    ChainError,
    ConfigError,
    NodeUnavailable,
    Outcome,
    OutcomeUnknown,
    Refused,
)
from tests.adapters.evm.vault import CHAIN_ID, ELSEWHERE, Book, settings

HASH = "0x" + "aa" * 32
PARENT = "0x" + "bb" * 32
TX = "0x" + "cc" * 32
RAW = b"\x02raw"
SEND = "eth_sendRawTransaction"
OURS = "0x52908400098527886E0F7030069857D2E4169EE7"
NOTHING: Watch = SimpleNamespace(hashes={}, claims={}, senders={})

Script = dict[str, object]
Start = Callable[..., Awaitable[EvmNode]]


def header(height: int = 5, hash_: str = HASH, **more: object) -> dict[str, object]:
    return {"number": hex(height), "hash": hash_, "parentHash": PARENT, "baseFeePerGas": hex(GWEI), **more}


def fault(answer: object) -> Fault:
    return answer if isinstance(answer, Fault) else Answer(answer)


@pytest.fixture
async def proxies() -> AsyncIterator[list[FaultProxy]]:
    made: list[FaultProxy] = []
    yield made
    for proxy in made:
        await proxy.stop()


@pytest.fixture
async def start(proxies: list[FaultProxy]) -> AsyncIterator[Start]:
    """Return an open node in front of one scripted endpoint for each script."""
    async with AsyncExitStack() as stack:

        async def run(*scripts: Script, **more: object) -> EvmNode:
            for script in scripts:
                proxy = FaultProxy("http://127.0.0.1:1/")
                for method, answer in ({"eth_chainId": hex(CHAIN_ID)} | script).items():
                    proxy.rule(method, fault(answer))
                await proxy.start()
                proxies.append(proxy)
            urls = [proxy.url for proxy in proxies]
            node = EvmNode("eth", settings(urls=urls, timeout=2.0, poll_interval=0.01, **more))
            stack.push_async_callback(node.close)
            await node.open()
            return node

        yield run


# identity


async def test_an_endpoint_on_another_chain_is_refused(start: Start, proxies: list[FaultProxy]) -> None:
    with pytest.raises(ConfigError) as caught:
        await start({}, {"eth_chainId": "0x1"}, {"eth_chainId": "what"})
    wrong = [proxy.url.split("//")[1].rstrip("/") for proxy in proxies[1:]]
    assert caught.value.problems == (
        f"chain eth: {wrong[0]}: answers for chain id 1, not 31337",
        f"chain eth: {wrong[1]}: does not say which chain it is on: a quantity was expected",
    )


@pytest.mark.parametrize("block", [header(0, PARENT), header(1), None, {}])
async def test_an_endpoint_with_another_genesis_is_refused(start: Start, block: object) -> None:
    with pytest.raises(ConfigError):
        await start({"eth_getBlockByNumber": block}, genesis=HASH)


async def test_the_right_genesis_is_taken(start: Start) -> None:
    await start({"eth_getBlockByNumber": header(0)}, genesis=HASH)


# heads


async def test_the_head_is_the_best_of_all_endpoints(start: Start) -> None:
    node = await start({"eth_getBlockByNumber": header(5)}, {"eth_getBlockByNumber": header(7, PARENT)})
    assert await node.head() == BlockRef(7, PARENT, PARENT)


async def test_the_next_head_comes_at_once_when_it_differs(start: Start) -> None:
    node = await start({"eth_getBlockByNumber": header(5)})
    assert (await node.next_head(BlockRef(4, PARENT, PARENT), within=60)).height == 5


async def test_the_same_head_comes_back_when_the_time_is_over(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start({"eth_getBlockByNumber": header(5)})
    assert await node.next_head(BlockRef(5, HASH, PARENT), within=0.05) == BlockRef(5, HASH, PARENT)
    assert proxies[0].count("eth_getBlockByNumber") >= 2


async def test_a_lagging_successor_is_not_the_head(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start({"eth_getBlockByNumber": header(7)}, {"eth_getBlockByNumber": header(6)})
    assert (await node.head()).height == 7
    await proxies[0].stop()
    for _ in range(2):  # the first finds the endpoint missing
        with pytest.raises(NodeUnavailable):
            await node.head()


@pytest.mark.parametrize(
    "block",
    [
        None,
        [],
        "0x",
        {},
        header() | {"number": None},
        header() | {"number": "5"},
        header() | {"number": 5},
        header() | {"number": "0x" + "f" * 65},
        header() | {"number": hex(2**60)},
        header() | {"hash": "0x12"},
        header() | {"hash": None},
        header() | {"parentHash": "0x" + "zz" * 32},
    ],
    ids=repr,
)
async def test_an_unreadable_head_is_a_bad_reply(start: Start, block: object) -> None:
    node = await start({"eth_getBlockByNumber": block})
    with pytest.raises(BadReply):
        await node.head()


async def test_a_header_of_another_height_is_a_bad_reply(start: Start) -> None:
    node = await start({"eth_getBlockByNumber": header(5)})
    assert await node.header(5) == BlockRef(5, HASH, PARENT)
    with pytest.raises(BadReply, match="asked for block 6, got 5"):
        await node.header(6)


async def test_a_height_above_the_chain_has_no_header(start: Start) -> None:
    node = await start({"eth_getBlockByNumber": None})
    assert await node.header(6) is None


# finality

HEAD = BlockRef(100, HASH, PARENT)


@pytest.mark.parametrize(
    ("answer", "height"),
    [
        (header(36), 36),
        (header(200), 100),
        (None, -1),
        (Refuse(-39001, "Unknown block"), -1),
        (Refuse(-32000, "finalized block not found"), -1),
        (Refuse(-32602, "invalid argument 0: hex string without 0x prefix"), 36),
        (Refuse(-32602, "Invalid block tag"), 36),
    ],
)
async def test_finality_is_the_tag_or_two_epochs(start: Start, answer: object, height: int) -> None:
    node = await start({"eth_getBlockByNumber": answer})
    assert await node.finalized(HEAD) == height


async def test_a_busy_node_does_not_change_what_is_final(start: Start) -> None:
    node = await start({"eth_getBlockByNumber": Refuse(-32000, "request timed out")})
    with pytest.raises(NodeUnavailable):
        await node.finalized(HEAD)


@pytest.mark.parametrize(("depth", "height"), [(12, 88), (100, 0), (101, -1), (500, -1)])
async def test_finality_may_be_a_depth(start: Start, depth: int, height: int) -> None:
    node = await start({}, finality=depth)
    assert await node.finalized(HEAD) == height


# blocks


def tx(number: int, sender: str, nonce: int, to: str | None = ELSEWHERE, value: int = 7) -> dict[str, object]:
    return {
        "hash": f"0x{number:064x}",
        "from": sender.lower(),
        "nonce": hex(nonce),
        "to": to if to is None else to.lower(),
        "value": hex(value),
    }


def receipt(number: int, status: int = 1, **more: object) -> dict[str, object]:
    return {
        "transactionHash": f"0x{number:064x}",
        "blockHash": HASH,
        "status": hex(status),
        "gasUsed": hex(21_000),
        "effectiveGasPrice": "0x2",
        **more,
    }


REF = BlockRef(5, HASH, PARENT)
STRANGER = "0xde709f2102306220921060314715629080e2fb77"
WATCH: Watch = SimpleNamespace(hashes={f"0x{1:064x}": 1}, claims={f"{STRANGER}:9": 1}, senders={OURS: 1})


async def test_a_block_without_anything_of_ours_is_one_call(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start({"eth_getBlockByHash": header(transactions=[tx(n, STRANGER, n + 20) for n in range(50, 90)])})
    proxies[0].reset()
    assert await node.block(REF, WATCH) == Block(REF)
    assert proxies[0].counts == {"eth_getBlockByHash": 1}


@pytest.mark.parametrize(
    ("data", "used", "opaque"), [("0x", 21_000, False), ("0x", 21_055, True), ("0x01", 21_016, True)]
)
async def test_where_code_ran_more_may_have_moved_than_is_shown(
    start: Start, data: str, used: int, opaque: bool
) -> None:
    transactions = [tx(2, STRANGER, 9) | {"input": data}]
    receipts = [receipt(2, gasUsed=hex(used))]
    node = await start({"eth_getBlockByHash": header(transactions=transactions), "eth_getBlockReceipts": receipts})
    block = await node.block(REF, WATCH)
    assert block is not None
    assert [found.opaque for found in block.landed] == [opaque]


async def test_a_block_shows_what_is_watched_by_hash_claim_and_sender(start: Start, proxies: list[FaultProxy]) -> None:
    transactions = [tx(1, STRANGER, 3), tx(2, STRANGER, 9), tx(3, OURS, 4), tx(4, STRANGER, 4), tx(5, OURS, 5, None)]
    receipts = [receipt(1), receipt(2, 0), receipt(3, l1Fee="0x64"), receipt(4), receipt(5)]
    node = await start({"eth_getBlockByHash": header(transactions=transactions), "eth_getBlockReceipts": receipts})
    proxies[0].reset()
    block = await node.block(REF, WATCH)
    paid = (Payment(ELSEWHERE, 7),)
    claim = f"{OURS.lower()}:"
    assert block == Block(
        REF,
        (
            Landed(f"0x{1:064x}", (f"{STRANGER}:3",), "", True, 42_000, paid),
            Landed(f"0x{2:064x}", (f"{STRANGER}:9",), "", False, 42_000, ()),
            Landed(f"0x{3:064x}", (claim + "4",), OURS, True, 42_100, paid),
            Landed(f"0x{5:064x}", (claim + "5",), OURS, True, 42_000, (), opaque=True),
        ),
    )
    assert proxies[0].counts == {"eth_getBlockByHash": 1, "eth_getBlockReceipts": 1}


async def test_a_block_that_is_gone_is_none(start: Start) -> None:
    node = await start({"eth_getBlockByHash": None})
    assert await node.block(REF, WATCH) is None


async def test_a_block_that_goes_while_it_is_read_is_none(start: Start) -> None:
    node = await start({"eth_getBlockByHash": header(transactions=[tx(1, OURS, 1)]), "eth_getBlockReceipts": None})
    assert await node.block(REF, WATCH) is None


@pytest.mark.parametrize(
    "block",
    [
        header(hash_=PARENT, transactions=[]),
        header(),
        header(transactions=[TX]),
        header(transactions=[tx(1, OURS, 1) | {"nonce": 1}]),
        header(transactions=[tx(1, OURS, 1) | {"from": None}]),
        header(transactions=[tx(1, OURS, 1) | {"hash": "0x1"}]),
        header(transactions=[tx(1, OURS, 1) | {"value": "-0x1"}]),
        header(transactions=[tx(1, OURS, 1) | {"to": "0x1"}]),
    ],
)
async def test_an_unreadable_block_is_a_bad_reply(start: Start, block: object) -> None:
    node = await start({"eth_getBlockByHash": block, "eth_getBlockReceipts": [receipt(1)]})
    with pytest.raises(BadReply):
        await node.block(REF, WATCH)


@pytest.mark.parametrize(
    "receipts",
    [
        {},
        [],
        [receipt(2)],
        [receipt(1, blockHash=PARENT)],
        [receipt(1, 2)],
        [receipt(1) | {"status": None}],
        [receipt(1) | {"gasUsed": "x"}],
    ],
)
async def test_unreadable_receipts_are_a_bad_reply(start: Start, receipts: object) -> None:
    node = await start({"eth_getBlockByHash": header(transactions=[tx(1, OURS, 1)]), "eth_getBlockReceipts": receipts})
    with pytest.raises(BadReply):
        await node.block(REF, WATCH)


# sends

LOW, KNOWN = Refuse(-32000, "nonce too low"), Refuse(-32000, "already known")
FUNDS, BAD = Refuse(-32000, "insufficient funds for gas * price + value"), Refuse(-32602, "Failed to decode")
LOST, SICK, NOISE = Close(acted=False), Status(503), Answer({"not": "a hash"})


@pytest.mark.parametrize(
    ("answers", "known"),
    [
        ([TX], False),
        ([TX.upper().replace("X", "x", 1)], False),
        ([KNOWN], True),
        ([LOW, TX], False),
        ([BAD, KNOWN], True),
        ([LOST, TX], False),
        ([SICK, KNOWN], True),
        ([NOISE, TX], False),
        ([HASH, KNOWN], True),
    ],
)
async def test_one_acceptance_is_enough(start: Start, answers: list[object], known: bool) -> None:
    node = await start(*({SEND: answer} for answer in answers))
    sent = await node.send(RAW, TX)
    assert isinstance(sent, Sent)
    assert sent.already_known is known


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([LOW], Outcome.LOOKUP),
        ([FUNDS, LOW], Outcome.LOOKUP),
        ([BAD, FUNDS], Outcome.FUNDS),
        ([BAD, BAD], Outcome.PERMANENT),
        ([BAD, Refuse(1, "computer says no")], Outcome.RETRY),
    ],
)
async def test_refused_by_all_is_refused_with_what_says_most(
    start: Start, answers: list[object], outcome: Outcome
) -> None:
    node = await start(*({SEND: answer} for answer in answers))
    with pytest.raises(Refused) as caught:
        await node.send(RAW, TX)
    assert caught.value.outcome is outcome
    assert caught.value.node.startswith("127.0.0.1:")


@pytest.mark.parametrize("answers", [[LOST], [SICK], [LOW, LOST], [SICK, BAD], [Status(429), LOW], [Garbage()]])
async def test_a_lost_answer_is_unknown_whatever_others_say(start: Start, answers: list[object]) -> None:
    node = await start(*({SEND: answer} for answer in answers))
    with pytest.raises(OutcomeUnknown):
        await node.send(RAW, TX)


@pytest.mark.parametrize("answers", [[HASH], [None], [HASH, LOW], [NOISE, LOST]])
async def test_another_hash_is_a_bad_reply(start: Start, answers: list[object]) -> None:
    node = await start(*({SEND: Answer(answer) if answer is None else answer} for answer in answers))
    with pytest.raises(BadReply):
        await node.send(RAW, TX)


async def test_nobody_reached_is_unavailable_and_never_unknown(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start({SEND: TX}, {SEND: TX})
    for proxy in proxies:
        await proxy.stop()
    for _ in range(2):
        with pytest.raises(NodeUnavailable):
            await node.send(RAW, TX)


async def test_a_send_goes_out_once(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start({SEND: LOST}, {SEND: LOW})
    with pytest.raises(OutcomeUnknown):
        await node.send(RAW, TX)
    assert [proxy.count(SEND) for proxy in proxies] == [1, 1]
    assert [proxy.calls[-1].params for proxy in proxies] == [["0x" + RAW.hex()]] * 2


async def test_a_refusal_leaves_the_node_healthy(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start({SEND: LOW, "eth_getBalance": "0x7"})
    for _ in range(3):
        with pytest.raises(Refused):
            await node.send(RAW, TX)
    assert await node.balance(OURS) == 7
    assert proxies[0].count("eth_chainId") == 1


# presence


@pytest.mark.parametrize(
    ("answer", "presence"),
    [
        (None, Presence.ABSENT),
        ({"hash": TX, "blockHash": None}, Presence.IN_POOL),
        ({"hash": TX, "blockHash": HASH}, Presence.IN_BLOCK),
    ],
)
async def test_presence_is_what_the_node_says(start: Start, answer: object, presence: Presence) -> None:
    node = await start({"eth_getTransactionByHash": Answer(answer)})
    assert await node.presence(TX) is presence


async def test_an_index_that_is_still_built_does_not_mean_absent(start: Start) -> None:
    node = await start({"eth_getTransactionByHash": Refuse(-32000, "transaction indexing is in progress")})
    with pytest.raises(NodeUnavailable):
        await node.presence(TX)


async def test_another_transaction_is_a_bad_reply(start: Start) -> None:
    node = await start({"eth_getTransactionByHash": {"hash": HASH, "blockHash": None}})
    with pytest.raises(BadReply):
        await node.presence(TX)


# fees

HISTORY = {
    "baseFeePerGas": [hex(GWEI)] * 3 + [hex(2 * GWEI)],
    "gasUsedRatio": [0.5, 0, 1],
    "reward": [
        [hex(GWEI), hex(2 * GWEI), hex(3 * GWEI)],
        ["0x0", "0x0", "0x0"],
        [hex(GWEI), hex(2 * GWEI), hex(900 * GWEI)],
    ],
}


async def test_fees_are_medians_within_bounds(start: Start, proxies: list[FaultProxy]) -> None:
    script: Script = {"eth_getBlockByNumber": header(), "eth_feeHistory": HISTORY, "eth_gasPrice": "0x1"}
    node = await start(script)
    proxies[0].reset()
    quote = await node.fees()
    assert (quote.base, quote.low, quote.medium, quote.high) == (2 * GWEI, GWEI, 2 * GWEI, 3 * GWEI)
    assert proxies[0].requests == 1


@pytest.mark.parametrize(
    ("block", "more"), [(header(baseFeePerGas=None), {}), (header(), {"fees": "legacy"})], ids=["no base fee", "set"]
)
async def test_without_a_base_fee_there_is_one_gas_price(start: Start, block: object, more: dict[str, object]) -> None:
    node = await start(
        {"eth_getBlockByNumber": block, "eth_feeHistory": HISTORY, "eth_gasPrice": hex(100 * GWEI)}, **more
    )
    quote = await node.fees()
    assert (quote.base, quote.low, quote.medium, quote.high) == (None, 100 * GWEI, 110 * GWEI, 125 * GWEI)


async def test_an_empty_history_gives_the_lowest_tip(start: Start) -> None:
    history = {"baseFeePerGas": [hex(GWEI)], "gasUsedRatio": [], "reward": None}
    node = await start({"eth_getBlockByNumber": header(), "eth_feeHistory": history, "eth_gasPrice": "0x1"})
    quote = await node.fees()
    assert (quote.low, quote.high) == (GWEI // 1000, GWEI // 1000)


@pytest.mark.parametrize(
    "change",
    [
        {"baseFeePerGas": []},
        {"baseFeePerGas": ["1"]},
        {"reward": [["0x1"]] * 3},
        {"reward": [["0x1", "0x1", "0x1"]]},
        {"gasUsedRatio": ["0.5", 0, 1]},
        {"gasUsedRatio": [True, 0, 1]},
        {"reward": "0x1"},
    ],
    ids=repr,
)
async def test_an_unreadable_fee_history_is_a_bad_reply(start: Start, change: dict[str, object]) -> None:
    node = await start({"eth_getBlockByNumber": header(), "eth_feeHistory": HISTORY | change, "eth_gasPrice": "0x1"})
    with pytest.raises(BadReply):
        await node.fees()


# facts of an account

FACTS: Script = {
    "eth_getBlockByNumber": header(9),
    "eth_getTransactionCount": "0x4",
    "eth_getBalance": "0x64",
    "eth_getCode": "0x",
}


async def test_a_survey_of_plain_destinations_is_one_request(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start(FACTS)
    book = Book()
    intents = [book.intent(n, amount=n) for n in range(1, 6)]
    proxies[0].reset()
    facts = await node.survey(book.account, intents)
    assert isinstance(facts, EvmFacts)
    assert (facts.height, facts.mined, facts.spendable, facts.delegated) == (9, 4, 100, False)
    assert facts.needs == {(ELSEWHERE, n): Gas(21_000, exact=True) for n in range(1, 6)}
    assert proxies[0].requests == 1


@pytest.mark.parametrize(
    ("answer", "need"),
    [
        ("0x9c40", Gas(40_000, exact=False)),
        (Refuse(3, "execution reverted: closed", "0x08c379a0"), Reverts("execution reverted: closed")),
        (Refuse(-32603, "EVM error InvalidFEOpcode"), Reverts("EVM error InvalidFEOpcode")),
        (Refuse(-32000, "invalid opcode: INVALID"), Reverts("invalid opcode: INVALID")),
        (Refuse(-32000, "gas required exceeds allowance (0)"), Unclear("gas required exceeds allowance (0)")),
        (Refuse(-32003, "Insufficient funds for gas"), Unclear("Insufficient funds for gas")),
    ],
)
async def test_a_destination_with_code_is_estimated(
    start: Start, proxies: list[FaultProxy], answer: object, need: object
) -> None:
    node = await start(FACTS | {"eth_getCode": "0x6000", "eth_estimateGas": answer})
    book = Book()
    facts = await node.survey(book.account, [book.intent(1, 5)])
    assert isinstance(facts, EvmFacts)
    assert facts.needs[ELSEWHERE, 5] == need
    assert facts.delegated, "the account has code too in this script"
    assert (book.account.address, 0) in facts.needs
    asked = [call.params[0] for call in proxies[0].calls if call.method == "eth_estimateGas"]
    assert {"from": book.account.address, "to": ELSEWHERE, "value": "0x5"} in asked


async def test_a_survey_of_a_node_that_fell_behind_is_unavailable(start: Start, proxies: list[FaultProxy]) -> None:
    node = await start(FACTS)
    await node.head()
    proxies[0].heal()
    for method, answer in (FACTS | {"eth_getBlockByNumber": header(8)}).items():
        proxies[0].rule(method, fault(answer))
    with pytest.raises(NodeUnavailable, match="behind: at 8, 9 is known"):
        await node.survey(Book().account, [])


@pytest.mark.parametrize(
    "change",
    [
        {"eth_getTransactionCount": "4"},
        {"eth_getTransactionCount": hex(2**65)},
        {"eth_getBalance": None},
        {"eth_getCode": "0x1"},
        {"eth_getCode": None},
    ],
    ids=repr,
)
async def test_unreadable_facts_are_a_bad_reply(start: Start, change: Script) -> None:
    node = await start(FACTS | {k: Answer(v) if v is None else v for k, v in change.items()})
    with pytest.raises(BadReply):
        await node.survey(Book().account, [])


async def test_the_opening_is_the_mined_count(start: Start) -> None:
    assert await (await start(FACTS)).opening(Book().account) == "4"


@pytest.mark.parametrize("yes", [True, False])
async def test_replacement_is_a_matter_of_configuration(start: Start, yes: bool) -> None:
    assert await (await start({}, replacement=yes)).replaces() is yes


# all reads

READS: dict[str, Callable[[EvmNode], Awaitable[Any]]] = {
    "head": lambda node: node.head(),
    "next_head": lambda node: node.next_head(REF, 0.0),
    "finalized": lambda node: node.finalized(HEAD),
    "header": lambda node: node.header(5),
    "block": lambda node: node.block(REF, NOTHING),
    "presence": lambda node: node.presence(TX),
    "fees": lambda node: node.fees(),
    "balance": lambda node: node.balance(OURS),
    "survey": lambda node: node.survey(Book().account, []),
    "opening": lambda node: node.opening(Book().account),
}


@pytest.mark.parametrize("read", list(READS))
@pytest.mark.parametrize("answer", [Close(), Status(500), Garbage(), Refuse(-32603, "oops")], ids=lambda a: str(a)[:20])
async def test_a_read_that_fails_had_no_effect(start: Start, read: str, answer: Fault) -> None:
    node = await start({"eth_[!c]*": answer})
    with pytest.raises(ChainError) as caught:
        await READS[read](node)
    assert isinstance(caught.value, NodeUnavailable | BadReply)
    assert caught.value.chain == "eth"
