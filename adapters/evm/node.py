"""The half with a network: heads, blocks, sends and facts from the nodes of one EVM chain."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from adapters.evm import address, fees, replies
from adapters.evm.codec import EvmFacts, Gas, Need, Reverts, Unclear
from adapters.evm.fees import LEGACY_PERCENT, GasFees
from adapters.evm.heads import NewHeads
from adapters.evm.params import FALLBACK_DEPTH, TRANSFER_GAS, Settings
from adapters.evm.refusals import classify, most_telling
from adapters.transport.endpoints import Endpoints
from adapters.transport.jsonrpc import JsonRpc, Lost, RpcError, Unreachable, make_clients
from gateway.core.chain import (
    Account,
    Block,
    BlockRef,
    FeeLevel,
    Intent,
    Landed,
    LaneFacts,
    Payment,
    Presence,
    Sent,
    Watch,
)
from gateway.core.errors import BadReply, NodeUnavailable, Outcome, OutcomeUnknown, Refused

T = TypeVar("T")
_Ours = list[tuple[str, replies.Fields, str]]

_SEND = "eth_sendRawTransaction"
_NO_TAG = re.compile(r"\btag\b|hex string|invalid argument|invalid block|unsupported|not supported", re.IGNORECASE)
_NOT_YET = re.compile(r"finalized block not found|unknown block|safe block not found", re.IGNORECASE)
_REVERT = re.compile(r"revert|invalid ?opcode|invalidfeopcode|bad instruction|stack (under|over)flow", re.IGNORECASE)
_REVERT_CODE = 3

_log = structlog.get_logger(__name__)


class EvmNode:
    """See `gateway.core.adapter.Node`."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._settings = settings
        self._endpoints = Endpoints(
            name,
            make_clients(settings.urls, timeout=settings.timeout, max_bytes=settings.max_bytes),
            check_identity=self._wrong_chain,
        )
        self._news = NewHeads(name, settings.ws_url) if settings.ws_url else None

    async def open(self) -> None:
        await self._endpoints.open()
        if self._news is not None:
            self._news.open()

    async def close(self) -> None:
        if self._news is not None:
            await self._news.close()
        await self._endpoints.close()

    async def head(self) -> BlockRef:
        call = "eth_getBlockByNumber"
        heads: list[BlockRef] = []
        problems: list[str] = []
        for node, answer in await self._endpoints.ask_all(call, ["latest", False]):
            if isinstance(answer, RpcError):
                problems.append(f"{node}: {answer}")
                continue
            try:
                head = replies.block_ref(answer)
            except ValueError as error:
                _log.warning("endpoint has no readable head", chain=self._name, node=node, why=str(error))
                problems.append(f"{node}: {error}")
                continue
            self._endpoints.note_height(node, head.height)
            heads.append(head)
        if not heads:
            raise BadReply("; ".join(problems), chain=self._name, call=call)
        best = max(heads, key=lambda head: head.height)
        if best.height < self._endpoints.floor:
            raise self._behind(call, best.height)
        return best

    async def next_head(self, known: BlockRef, within: float) -> BlockRef:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            head = await self.head()
            left = deadline - loop.time()
            if head.hash != known.hash or left <= 0:
                return head
            pause = min(self._settings.poll_interval, left)
            if self._news is None:
                await asyncio.sleep(pause)
            else:
                await self._news.wait(pause)

    async def finalized(self, head: BlockRef) -> int:
        if self._settings.finality != "tag":
            return max(head.height - self._settings.finality, -1)
        call = "eth_getBlockByNumber"
        answer = await self._endpoints.ask(call, ["finalized", False])
        if isinstance(answer, RpcError):
            if _NOT_YET.search(answer.message):
                return -1
            if _NO_TAG.search(answer.message):
                return max(head.height - FALLBACK_DEPTH, -1)
            raise self._endpoints.unavailable(call, answer)
        if answer is None:
            return -1
        return min(self._read(call, lambda: replies.block_ref(answer)).height, head.height)

    async def header(self, height: int) -> BlockRef | None:
        call = "eth_getBlockByNumber"
        answer = await self._endpoints.read(call, [hex(height), False])
        if answer is None:
            return None
        ref = self._read(call, lambda: replies.block_ref(answer))
        if ref.height != height:
            raise self._endpoints.bad_reply(call, f"asked for block {height}, got {ref.height}")
        return ref

    async def block(self, ref: BlockRef, watch: Watch) -> Block | None:
        """Read a block in one call, and its receipts in one more when anything in it is ours.

        Only the outermost transfer of a transaction is seen: what a contract moves inside is not in a block.
        """
        call = "eth_getBlockByHash"
        answer = await self._endpoints.read(call, [ref.hash, True])
        if answer is None:
            return None
        if self._read(call, lambda: replies.block_ref(answer)).hash != ref.hash:
            raise self._endpoints.bad_reply(call, f"asked for {ref.hash}, got another block")
        ours = self._read(call, lambda: _watched(replies.fields(answer), watch))
        if not ours:
            return Block(ref)
        call = "eth_getBlockReceipts"
        receipts = await self._endpoints.read(call, [ref.hash])
        if receipts is None:
            return None
        return Block(ref, self._read(call, lambda: _landed(ours, receipts, ref, watch)))

    async def send(self, raw: bytes, tx_hash: str) -> Sent:
        refused: list[tuple[str, Outcome, str]] = []
        unknown: list[str] = []
        wrong: list[str] = []
        known_to: str | None = None
        for node, answer in await self._endpoints.write_all(_SEND, ["0x" + raw.hex()]):
            match answer:
                case RpcError():
                    outcome = classify(answer.message, answer.data)
                    if outcome is Outcome.ALREADY_KNOWN:
                        known_to = known_to or node
                    else:
                        refused.append((node, outcome, str(answer)))
                case Unreachable():
                    pass
                case Lost():
                    unknown.append(f"{node}: {answer}")
                case str() if answer.lower() == tx_hash:
                    # geth says so too when it only keeps the bytes to offer them later: accepted all the same.
                    return Sent(node)
                case _:
                    wrong.append(node)
        if known_to is not None:
            return Sent(known_to, already_known=True)
        if wrong:
            message = f"{', '.join(wrong)} took the bytes under another hash than {tx_hash}"
            raise BadReply(message, chain=self._name, call=_SEND)
        if unknown:
            raise OutcomeUnknown("; ".join(unknown), chain=self._name, call=_SEND)
        if not refused:
            raise NodeUnavailable("no endpoint was reached", chain=self._name, call=_SEND)
        outcome = most_telling([said for _, said, _ in refused])
        node = next(name for name, said, _ in refused if said is outcome)
        message = "; ".join(f"{name}: {text}" for name, _, text in refused)
        raise Refused(message, chain=self._name, call=_SEND, outcome=outcome, node=node)

    async def presence(self, tx_hash: str) -> Presence:
        # A node that still builds its index answers with an error, which is not the same as "absent".
        call = "eth_getTransactionByHash"
        answer = await self._endpoints.read(call, [tx_hash])
        if answer is None:
            return Presence.ABSENT
        tx = self._read(call, lambda: replies.fields(answer))
        if self._read(call, lambda: replies.hash32(tx.get("hash"))) != tx_hash:
            raise self._endpoints.bad_reply(call, f"asked for {tx_hash}, got another transaction")
        return Presence.IN_POOL if tx.get("blockHash") is None else Presence.IN_BLOCK

    async def fees(self) -> GasFees:
        marks = [self._settings.percentiles[level] for level in FeeLevel]
        answers = await self._ask_batch(
            [
                ("eth_getBlockByNumber", ["latest", False]),
                ("eth_feeHistory", [hex(self._settings.fee_blocks), "latest", marks]),
                ("eth_gasPrice", []),
            ]
        )
        return self._read("eth_feeHistory", lambda: self._quote(*answers))

    async def balance(self, address: str) -> int:
        call = "eth_getBalance"
        answer = await self._endpoints.read(call, [address, "latest"])
        return self._read(call, lambda: replies.quantity(answer))

    async def survey(self, account: Account, intents: Sequence[Intent]) -> LaneFacts:
        """Ask for the account in one batch; in a second for the gas of destinations with code, if there are any.

        The balance is asked after the mined count: a block in between makes the balance look too small, not
        too large.
        """
        targets = list(dict.fromkeys((intent.destination, intent.amount) for intent in intents))
        places = list(dict.fromkeys([account.address, *(place for place, _ in targets)]))
        call = "eth_getTransactionCount"
        head, mined, balance, *codes = await self._ask_batch(
            [
                ("eth_getBlockByNumber", ["latest", False]),
                ("eth_getTransactionCount", [account.address, "latest"]),
                ("eth_getBalance", [account.address, "latest"]),
                *(("eth_getCode", [place, "latest"]) for place in places),
            ]
        )
        height = self._read(call, lambda: replies.block_ref(head)).height
        if height < self._endpoints.floor:
            raise self._behind(call, height)
        with_code = {
            place
            for place, code in zip(places, codes, strict=True)
            if self._read("eth_getCode", lambda code=code: replies.has_code(code))  # type: ignore[misc]
        }
        delegated = account.address in with_code
        asked = [(place, amount) for place, amount in targets if place in with_code]
        if delegated:
            asked.append((account.address, 0))
        needs: dict[tuple[str, int], Need] = {target: Gas(TRANSFER_GAS, exact=True) for target in targets}
        needs.update(await self._estimates(account.address, asked))
        return EvmFacts(
            height=height,
            spendable=self._read(call, lambda: replies.quantity(balance)),
            mined=self._read(call, lambda: replies.quantity(mined, 2**64 - 1)),
            delegated=delegated,
            needs=needs,
        )

    async def opening(self, account: Account) -> str:
        call = "eth_getTransactionCount"
        answer = await self._endpoints.read(call, [account.address, "latest"])
        return str(self._read(call, lambda: replies.quantity(answer, 2**64 - 1)))

    async def replaces(self) -> bool:
        # No call tells; a sequencer without a pool is a matter of configuration.
        return self._settings.replacement

    async def _wrong_chain(self, client: JsonRpc) -> str | None:
        try:
            chain_id = replies.quantity(await client.call("eth_chainId"))
            if chain_id != self._settings.chain_id:
                return f"answers for chain id {chain_id}, not {self._settings.chain_id}"
            if self._settings.genesis is not None:
                genesis = replies.block_ref(await client.call("eth_getBlockByNumber", ["0x0", False]))
                if (genesis.height, genesis.hash) != (0, self._settings.genesis):
                    return f"has genesis {genesis.hash}, not {self._settings.genesis}"
        except ValueError as error:
            return f"does not say which chain it is on: {error}"
        return None

    async def _estimates(self, sender: str, targets: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Need]:
        answers = await self._endpoints.ask_batch(
            [
                ("eth_estimateGas", [{"from": sender, "to": place, "value": hex(amount)}, "latest"])
                for place, amount in targets
            ]
        )
        return {
            target: self._read("eth_estimateGas", lambda answer=answer: _need(answer))  # type: ignore[misc]
            for target, answer in zip(targets, answers, strict=True)
        }

    async def _ask_batch(self, calls: Sequence[tuple[str, Sequence[object]]]) -> list[object]:
        """Return the results of a batch of which every part must succeed."""
        answers = await self._endpoints.ask_batch(calls)
        for (method, _), answer in zip(calls, answers, strict=True):
            if isinstance(answer, RpcError):
                raise self._endpoints.unavailable(method, answer)
        return answers

    def _quote(self, header: object, history: object, gas_price: object) -> GasFees:
        base = None
        if self._settings.fees == "auto":
            base = replies.next_base_fee(history, header)
        if base is None:
            now = replies.quantity(gas_price)
            low, medium, high = (now * LEGACY_PERCENT[level] // 100 for level in FeeLevel)
            return fees.quote(self._settings, None, (low, medium, high))
        tips = fees.tips_of(*replies.fee_history(history))
        return fees.quote(self._settings, base, tips or (0, 0, 0))

    def _read(self, call: str, parse: Callable[[], T]) -> T:
        """Return what `parse` makes of an answer. BadReply: the answer is not what the protocol allows."""
        try:
            return parse()
        except ValueError as error:
            raise self._endpoints.bad_reply(call, str(error)) from error

    def _behind(self, call: str, height: int) -> NodeUnavailable:
        message = f"the node is behind: at {height}, {self._endpoints.floor} is known"
        return NodeUnavailable(message, chain=self._name, call=call)


def _watched(block: replies.Fields, watch: Watch) -> _Ours:
    """Return (hash, transaction, claim) of what a block holds of interest; constant work per transaction."""
    # Lowering our own addresses costs less than a checksum, which is a hash, for each sender in the block.
    senders = {sender.lower() for sender in watch.senders}
    hashes, claims = watch.hashes, watch.claims
    found = []
    for item in replies.items(block.get("transactions")):
        tx = replies.fields(item)
        tx_hash, sender = replies.hash32(tx.get("hash")), replies.address(tx.get("from"))
        claim = address.claim(sender, replies.quantity(tx.get("nonce")))
        if tx_hash in hashes or claim in claims or sender in senders:
            found.append((tx_hash, tx, claim))
    return found


def _landed(ours: _Ours, receipts: object, ref: BlockRef, watch: Watch) -> tuple[Landed, ...]:
    """Put together what a block holds of interest and how it ended there."""
    results = _results(receipts, ref, {tx_hash for tx_hash, _, _ in ours})
    landed = []
    for tx_hash, tx, claim in ours:
        ok, fee, used = results[tx_hash]
        sender = address.checksum(replies.address(tx.get("from")))
        known = sender if sender in watch.senders else ""
        pays = _pays(tx) if ok else ()
        landed.append(Landed(tx_hash, (claim,), known, ok, fee, pays, opaque=_runs_code(tx, used)))
    return tuple(landed)


def _runs_code(tx: replies.Fields, gas_used: int) -> bool:
    """Say whether code ran: then value may have moved on in calls that a block does not show."""
    return tx.get("to") is None or tx.get("input", "0x") != "0x" or gas_used > TRANSFER_GAS


def _results(receipts: object, ref: BlockRef, wanted: set[str]) -> dict[str, tuple[bool, int, int]]:
    """Return of each wanted transaction whether it executed, what it cost in wei, and the gas it used."""
    results = {}
    for item in replies.items(receipts):
        receipt = replies.fields(item)
        tx_hash = replies.hash32(receipt.get("transactionHash"))
        if tx_hash not in wanted:
            continue
        if replies.hash32(receipt.get("blockHash")) != ref.hash:
            raise ValueError("a receipt of another block")
        used, paid = replies.quantity(receipt.get("gasUsed")), replies.quantity(receipt.get("effectiveGasPrice"))
        # Rollups of the OP stack charge for their own chain on top.
        fee = used * paid + (replies.quantity(receipt["l1Fee"]) if receipt.get("l1Fee") else 0)
        results[tx_hash] = (replies.quantity(receipt.get("status"), 1) == 1, fee, used)
    if results.keys() != wanted:
        raise ValueError("receipts that leave out transactions of the block")
    return results


def _pays(tx: replies.Fields) -> tuple[Payment, ...]:
    value = replies.quantity(tx.get("value"))
    if not value or tx.get("to") is None:
        return ()
    return (Payment(address.checksum(replies.address(tx["to"])), value),)


def _need(answer: object) -> Need:
    if not isinstance(answer, RpcError):
        return Gas(replies.quantity(answer, 2**64 - 1), exact=False)
    if answer.code == _REVERT_CODE or _REVERT.search(answer.message):
        return Reverts(answer.message)
    return Unclear(answer.message)
