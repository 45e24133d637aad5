"""The half that talks to nodes of the family (Core's RPC): heads, blocks, coins, fees, sending."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal

import structlog

from adapters.bitcoin.address import script_of
from adapters.bitcoin.blocks import Malformed, block_hash, mapping, number, rate_units, read_block, read_ref, units
from adapters.bitcoin.coins import Coin, CoinFacts
from adapters.bitcoin.fees import Rates, clamp
from adapters.bitcoin.params import COIN_UNITS, COINBASE_MATURITY, Settings
from adapters.bitcoin.payload import SEQUENCE, Draft, Output, Spend, vsize
from adapters.bitcoin.refusals import classify
from adapters.bitcoin.transaction import unsigned
from adapters.transport.endpoints import Endpoints
from adapters.transport.jsonrpc import JsonRpc, Lost, RpcError, Unreachable, make_clients
from gateway.core.chain import (
    Account,
    Block,
    BlockRef,
    FeeLevel,
    Intent,
    LaneFacts,
    Presence,
    Sent,
    Watch,
)
from gateway.core.errors import BadReply, NodeUnavailable, Outcome, OutcomeUnknown, Refused

NOT_FOUND = -5
OUT_OF_RANGE = -8
REPLACES_ALWAYS = 190_000
"""Bitcoin Core from this version on replaces whatever signals it (BIP 125); the option to refuse was removed."""
PROBES = 20
CAUTIOUS_FIRST = (
    Outcome.LOOKUP,
    Outcome.FEE_TOO_LOW,
    Outcome.FUNDS,
    Outcome.GAP,
    Outcome.EXPIRED,
    Outcome.RETRY,
    Outcome.PERMANENT,
)
"""When nodes refuse the same bytes for different reasons: permanent only where all agree."""

_log = structlog.get_logger(__name__)


class BitcoinNode:
    """Keeps nothing but connections. One scan for coins at a time: a node refuses a second one."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._settings = settings
        self._coin = settings.params
        self._endpoints = Endpoints(
            name, make_clients(settings.urls, timeout=settings.timeout), check_identity=self._identity
        )
        self._scan = asyncio.Lock()

    async def open(self) -> None:
        """Connect and check genesis and network of every endpoint. ConfigError: the wrong chain answered."""
        await self._endpoints.open()

    async def close(self) -> None:
        """Close every connection; may be called twice."""
        await self._endpoints.close()

    async def head(self) -> BlockRef:
        """Return the best block of the healthy node that is highest."""
        call = "getblockchaininfo"
        tips: list[tuple[int, str]] = []
        problems: list[str] = []
        for name, answer in await self._endpoints.ask_all(call):
            if isinstance(answer, RpcError):
                problems.append(f"{name}: {answer}")
                continue
            try:
                with self._reading(call):
                    tree = mapping(answer)
                    tip = (number(tree.get("blocks")), block_hash(tree.get("bestblockhash")))
            except BadReply as error:
                _log.warning("endpoint has no readable head", chain=self._name, node=name, why=error.message)
                problems.append(f"{name}: {error.message}")
                continue
            self._endpoints.note_height(name, tip[0])
            tips.append(tip)
        height, best = max(tips, key=lambda tip: tip[0], default=(-1, ""))
        if height < self._endpoints.floor or not tips:
            behind = f"the highest answer is {height}, {self._endpoints.floor} is known"
            raise self._unavailable(call, "; ".join(problems) or behind)
        ref = await self._ref(best)
        if ref is None:
            raise self._unavailable(call, "the best block went away while it was read")
        return ref

    async def next_head(self, known: BlockRef, within: float) -> BlockRef:
        """Return the head as soon as it differs from `known`, at the latest after `within` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            answers = await self._endpoints.ask_all("getbestblockhash")
            if any(answer != known.hash for _, answer in answers):
                head = await self.head()
                if head.hash != known.hash:
                    return head
            left = deadline - loop.time()
            if left <= 0:
                return known
            await asyncio.sleep(min(self._settings.poll_interval, left))

    async def finalized(self, head: BlockRef) -> int:
        """Return the height that has the configured number of confirmations, -1 when there is none yet."""
        return max(-1, head.height - self._settings.depth + 1)

    async def header(self, height: int) -> BlockRef | None:
        """Return the canonical block at a height, None when the chain does not reach it."""
        if height < 0:
            return None
        answer = await self._endpoints.ask("getblockhash", [height])
        if isinstance(answer, RpcError):
            if answer.code == OUT_OF_RANGE:
                return None
            raise self._endpoints.unavailable("getblockhash", answer)
        with self._reading("getblockhash"):
            found = block_hash(answer)
        ref = await self._ref(found)
        if ref is not None and ref.height != height:
            raise self._endpoints.bad_reply("getblockheader", f"the block at {height} says it is at {ref.height}")
        return ref

    async def block(self, ref: BlockRef, watch: Watch) -> Block | None:
        """Read one whole block by its hash in one call, None when the node does not know it (any more)."""
        answer = await self._endpoints.ask("getblock", [ref.hash, 2])
        if isinstance(answer, RpcError):
            if answer.code == NOT_FOUND:
                return None
            raise self._endpoints.unavailable("getblock", answer)
        with self._reading("getblock"):
            return read_block(self._coin, answer, ref, watch)

    async def send(self, raw: bytes, tx_hash: str) -> Sent:
        """Offer signed bytes once to every healthy node. A node that has them already says so, or takes them again."""
        call = "sendrawtransaction"
        answers = await self._endpoints.write_all(call, [raw.hex(), self._max_fee_rate()])
        refusals: list[tuple[str, RpcError, Outcome]] = []
        known: str | None = None
        lost: list[str] = []
        for name, answer in answers:
            match answer:
                case RpcError():
                    outcome = classify(answer.code, answer.message, answer.data)
                    refusals.append((name, answer, outcome))
                    known = name if outcome is Outcome.ALREADY_KNOWN and known is None else known
                case Lost():
                    lost.append(f"{name}: {answer}")
                case Unreachable():
                    pass
                case _ if answer == tx_hash:
                    return Sent(name)
                case _:
                    # It took something, under a hash that we do not know: look, and let a person look too.
                    lost.append(f"{name}: it answered with {str(answer)[:80]!r}")
        if known is not None:
            return Sent(known, already_known=True)
        if lost:
            raise OutcomeUnknown("; ".join(lost), chain=self._name, call=call)
        if not refusals:
            raise self._unavailable(call, "; ".join(f"{name}: {answer}" for name, answer in answers))
        name, error, outcome = min(refusals, key=lambda refusal: CAUTIOUS_FIRST.index(refusal[2]))
        raise Refused(str(error), chain=self._name, call=call, outcome=outcome, node=name)

    async def presence(self, tx_hash: str) -> Presence:
        """Ask where a hash is; the answer is a hint, never a proof.

        A node without a transaction index knows a mined transaction only by an output that is not spent yet, so
        the first two are asked for (a payment of ours has no more).
        """
        raw, *outputs = await self._endpoints.ask_batch(
            [
                ("getrawtransaction", [tx_hash, True]),
                ("gettxout", [tx_hash, 0, False]),
                ("gettxout", [tx_hash, 1, False]),
            ]
        )
        if any(isinstance(output, dict) for output in outputs):
            return Presence.IN_BLOCK
        if not isinstance(raw, RpcError):
            with self._reading("getrawtransaction"):
                tree = mapping(raw)
                if tree.get("txid") != tx_hash:
                    raise Malformed("it is another transaction than the one asked for")
                # In a block that was left it has no confirmations.
                mined = number(tree.get("confirmations", 0)) > 0
            return Presence.IN_BLOCK if mined else Presence.IN_POOL
        if raw.code == NOT_FOUND:
            return Presence.ABSENT
        raise self._endpoints.unavailable("getrawtransaction", raw)

    async def fees(self) -> Rates:
        """Return the present rates: the node's estimates, or our own where it has none, within the bounds."""
        levels = list(FeeLevel)
        pool, network, *estimates = await self._endpoints.ask_batch(
            [
                ("getmempoolinfo", []),
                ("getnetworkinfo", []),
                *(("estimatesmartfee", [self._settings.conf_targets[level]]) for level in levels),
            ]
        )
        for call, answer in (("getmempoolinfo", pool), ("getnetworkinfo", network)):
            if isinstance(answer, RpcError):
                raise self._endpoints.unavailable(call, answer)
        with self._reading("getmempoolinfo"):
            pool, network = mapping(pool), mapping(network)
            relay = rate_units(pool.get("minrelaytxfee", network.get("relayfee")))
            least = rate_units(pool.get("mempoolminfee"))
            step = rate_units(pool.get("incrementalrelayfee", network.get("incrementalfee")))
        with self._reading("estimatesmartfee"):
            found = {level: _estimate(answer) for level, answer in zip(levels, estimates, strict=True)}
        return clamp(self._settings, found, relay_floor=max(relay, least), incremental=step)

    async def balance(self, address: str) -> int:
        """Return the base units in confirmed coins of an address that may be spent at the head."""
        facts = await self._coins_of(address)
        return facts.spendable

    async def survey(self, account: Account, intents: Sequence[Intent]) -> LaneFacts:
        """Return the account's coins, all at one named head. No destination here depends on the chain's state."""
        del intents
        return await self._coins_of(account.address)

    async def opening(self, account: Account) -> str:
        """Return nothing: coins that an account had before are as good as later ones."""
        del account
        return ""

    async def replaces(self) -> bool:
        """Say whether the nodes replace a pending transaction.

        `replacement` in the settings decides, unless it is "auto". Then: Bitcoin Core does, since 0.19 whatever
        signals it, since 28 everything. Litecoin and others do where the operator of the node switched it on, which
        no call shows, so one that waits is challenged without signatures (see `_probe`). Where nothing waits that
        could be challenged the answer is no: a boost that is not offered harms nobody.
        """
        if self._settings.replacement != "auto":
            return self._settings.replacement == "yes"
        network, pool = await self._endpoints.ask_batch([("getnetworkinfo", []), ("getmempoolinfo", [])])
        for call, answer in (("getnetworkinfo", network), ("getmempoolinfo", pool)):
            if isinstance(answer, RpcError):
                raise self._endpoints.unavailable(call, answer)
        with self._reading("getnetworkinfo"):
            network = mapping(network)
            if mapping(pool).get("fullrbf") is True:
                return True
            if "/Satoshi:" in str(network.get("subversion")):
                return number(network.get("version")) >= REPLACES_ALWAYS
        return await self._probe()

    async def _coins_of(self, address: str) -> CoinFacts:
        """Read the confirmed coins of an address and the head at which they are.

        This walks the node's whole set of unspent outputs: instant on a small network, minutes on a main one. There
        an index of watched addresses (a watch-only wallet, electrs) belongs behind this one function.
        """
        script_of(self._coin, address)
        async with self._scan:
            answer = await self._endpoints.read("scantxoutset", ["start", [f"addr({address})"]])
        with self._reading("scantxoutset"):
            tree = mapping(answer)
            if tree.get("success") is not True:
                raise Malformed("the scan was stopped")
            height = number(tree.get("height"))
            block_hash(tree.get("bestblock"))
            unspent = tree.get("unspents")
            if not isinstance(unspent, list):
                raise Malformed("no list of coins")
            coins = [_coin(mapping(entry)) for entry in unspent]
        coins = await self._with_origin(coins, height)
        return CoinFacts(
            height=height,
            spendable=sum(coin.amount for coin in coins if coin.is_mature(height)),
            coins=tuple(coins),
        )

    async def _with_origin(self, coins: list[Coin], height: int) -> list[Coin]:
        """Find out which of the young coins were newly mined: those must rest, and old nodes do not list it."""
        young = [coin for coin in coins if coin.height is None or height - coin.height + 1 < COINBASE_MATURITY]
        if not young:
            return coins
        call = "gettxout"
        answers = await self._endpoints.ask_batch([(call, [c.txid, c.vout, False]) for c in young])
        mined: dict[str, bool] = {}
        for coin, answer in zip(young, answers, strict=True):
            if isinstance(answer, RpcError):
                raise self._endpoints.unavailable(call, answer)
            with self._reading(call):
                # Spent, or gone, since the scan: as good as not mature.
                mined[coin.claim] = answer is None or mapping(answer).get("coinbase") is True
        return [_with_coinbase(coin, mined.get(coin.claim, False)) for coin in coins]

    async def _probe(self) -> bool:
        """Ask what would become of an unsigned rival of something that waits and allows its replacement.

        A node without replacement says `txn-mempool-conflict` before it looks at anything else of the rival; any
        other answer means that it went on to weigh fees and signatures. Nothing is sent: `testmempoolaccept`.
        """
        waiting = await self._endpoints.read("getrawmempool")
        if not isinstance(waiting, list) or not waiting:
            return False
        calls = [("getrawtransaction", [txid, True]) for txid in waiting[:PROBES]]
        for answer in await self._endpoints.ask_batch(calls):
            with self._reading("getrawtransaction"):
                rival = None if isinstance(answer, RpcError) else _rival(mapping(answer))
            if rival is None:
                continue
            verdict = await self._endpoints.read("testmempoolaccept", [[rival]])
            with self._reading("testmempoolaccept"):
                if not isinstance(verdict, list) or len(verdict) != 1:
                    raise Malformed("not one verdict")
                return not str(mapping(verdict[0]).get("reject-reason")).startswith("txn-mempool-conflict")
        return False

    async def _ref(self, block: str) -> BlockRef | None:
        answer = await self._endpoints.ask("getblockheader", [block])
        if isinstance(answer, RpcError):
            if answer.code == NOT_FOUND:
                return None
            raise self._endpoints.unavailable("getblockheader", answer)
        with self._reading("getblockheader"):
            ref = read_ref(mapping(answer))
            if ref.hash != block:
                raise Malformed("it is another block than the one asked for")
        return ref

    async def _identity(self, client: JsonRpc) -> str | None:
        """Say what is wrong with an endpoint: genesis block and name of its network."""
        genesis = await client.call("getblockhash", [0])
        if genesis != self._coin.genesis:
            return f"its first block is {str(genesis)[:80]}, {self._settings.coin} begins with {self._coin.genesis}"
        info = await client.call("getblockchaininfo")
        chain = info.get("chain") if isinstance(info, dict) else None
        if chain != self._coin.chain:
            return f"it is on the network {str(chain)[:80]!r}, not on {self._coin.chain!r}"
        return None

    def _max_fee_rate(self) -> str:
        """Return the cap to hand to the node: what our own cap can come to for the smallest transaction.

        Nodes take none of a coin or more per 1 000 bytes; "0" switches their check off.
        """
        smallest = vsize(1, [bytes(22)])
        rate = self._settings.max_fee * 1000 // smallest + 1
        return "0" if rate >= COIN_UNITS else f"{Decimal(rate) / COIN_UNITS:.8f}"

    def _unavailable(self, call: str, message: str) -> NodeUnavailable:
        return NodeUnavailable(message, chain=self._name, call=call)

    @contextmanager
    def _reading(self, call: str) -> Iterator[None]:
        """Turn whatever is wrong with an answer into BadReply."""
        try:
            yield
        except (Malformed, KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadReply(f"the answer cannot be read: {error}", chain=self._name, call=call) from error


def _estimate(answer: object) -> int | None:
    """Return an estimate per 1 000 virtual bytes, None when the node has none."""
    if isinstance(answer, RpcError):
        return None
    rate = mapping(answer).get("feerate")
    return None if rate is None else rate_units(rate) or None


def _coin(entry: Mapping[str, object]) -> Coin:
    return Coin(
        txid=block_hash(entry.get("txid")),
        vout=number(entry.get("vout")),
        amount=units(entry.get("amount")),
        height=number(entry.get("height")),
        coinbase=entry.get("coinbase") is True,
    )


def _with_coinbase(coin: Coin, mined: bool) -> Coin:
    return Coin(coin.txid, coin.vout, coin.amount, coin.height, coin.coinbase or mined)


def _rival(answer: Mapping[str, object]) -> str | None:
    """Return an unsigned transaction that spends the first input of one that allows its replacement (BIP 125)."""
    inputs = answer.get("vin")
    if not isinstance(inputs, list) or not inputs or not any(number(vin.get("sequence")) <= SEQUENCE for vin in inputs):
        return None
    draft = Draft(
        inputs=(Spend(block_hash(inputs[0]["txid"]), number(inputs[0]["vout"]), 0),),
        outputs=(Output(b"\x00\x20" + bytes(32), COIN_UNITS),),
        locktime=0,
    )
    return bytes(unsigned(draft).serialize()).hex()
