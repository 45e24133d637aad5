"""The list of endpoints: who is asked, who is left out, who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from structlog.testing import capture_logs

from adapters.transport.endpoints import Endpoints
from adapters.transport.jsonrpc import Garbled, JsonRpc, Lost, Params, RpcError, Unreachable
from gateway.core.errors import BadReply, ConfigError, NodeUnavailable


class Node:
    """Stands in for a client: answers with what it is told, or raises it."""

    def __init__(self, name: str, answer: object = "", *, chain: object = 1) -> None:
        self.name = name
        self.answer = answer or name
        self.chain = chain
        self.calls: list[str] = []
        self.closed = 0

    async def call(self, method: str, params: Params = ()) -> object:
        self.calls.append(method)
        await asyncio.sleep(0)  # as a network would, let the others run
        answer = self.chain if method == "chain" else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def batch(self, calls: Sequence[tuple[str, Params]]) -> list[object]:
        return [await self.call(method, params) for method, params in calls]

    async def close(self) -> None:
        self.closed += 1


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def chain_one(client: JsonRpc) -> str | None:
    chain = await client.call("chain")
    return None if chain == 1 else f"is on chain {chain}, not 1"


def endpoints(*nodes: Node, clock: Callable[[], float] | None = None) -> Endpoints:
    return Endpoints("test", [cast(JsonRpc, n) for n in nodes], check_identity=chain_one, clock=clock or Clock())


def down(why: str = "refused") -> Unreachable:
    return Unreachable(why)


async def test_all_wrong_chains_are_told_at_once() -> None:
    group = endpoints(Node("a", chain=2), Node("b"), Node("c", chain=3))
    with pytest.raises(ConfigError) as caught:
        await group.open()
    assert caught.value.problems == (
        "chain test: a: is on chain 2, not 1",
        "chain test: c: is on chain 3, not 1",
    )


async def test_one_that_is_down_at_start_is_tolerated() -> None:
    a, b = Node("a", chain=down()), Node("b")
    group = endpoints(a, b)
    with capture_logs() as logs:
        await group.open()
    assert [(line["event"], line["node"]) for line in logs] == [("endpoint is down at start", "a")]
    assert await group.read("m") == "b"


async def test_nobody_up_at_start_is_unavailable_and_closes() -> None:
    a, b = Node("a", chain=down()), Node("b", chain=RpcError(-28, "warming up"))
    with pytest.raises(NodeUnavailable, match="a: refused; b: warming up"):
        await endpoints(a, b).open()
    assert (a.closed, b.closed) == (1, 1)


async def test_reads_go_to_the_first_and_fall_over() -> None:
    a, b = Node("a"), Node("b")
    group = endpoints(a, b)
    await group.open()
    assert await group.read("m") == "a"
    a.answer = down()
    assert await group.read("m") == "b"
    assert await group.read("m") == "b"
    assert a.calls.count("m") == 2, "a missing endpoint is not asked while another answers"


@pytest.mark.parametrize("failure", [down(), Lost("time-out"), Lost("HTTP status 503", status=503)])
async def test_nobody_left_is_unavailable(failure: Exception) -> None:
    group = endpoints(Node("a", answer=failure), Node("b", answer=failure))
    await group.open()
    with pytest.raises(NodeUnavailable) as caught:
        await group.read("m")
    assert (caught.value.chain, caught.value.call) == ("test", "m")


async def test_nonsense_from_the_last_one_is_a_bad_reply() -> None:
    group = endpoints(Node("a", answer=Garbled("not JSON")), Node("b", answer=down()))
    await group.open()
    with pytest.raises(BadReply, match="a: not JSON; b: refused"):
        await group.read("m")


async def test_nonsense_does_not_matter_when_another_answers() -> None:
    group = endpoints(Node("a", answer=Garbled("not JSON")), Node("b"))
    await group.open()
    assert await group.read("m") == "b"


async def test_an_application_error_never_makes_a_node_unhealthy() -> None:
    a, b = Node("a", answer=RpcError(-32000, "nonce too low")), Node("b")
    group = endpoints(a, b)
    await group.open()
    for _ in range(3):
        assert isinstance(await group.ask("m"), RpcError)
    with pytest.raises(NodeUnavailable, match="nonce too low"):
        await group.read("m")
    assert a.calls == ["chain", "m", "m", "m", "m"]
    assert b.calls == ["chain"]


@pytest.mark.parametrize("error", [RpcError(-32005, "limit exceeded"), RpcError(1, "slow down", status=429)])
async def test_a_busy_node_is_passed_over_and_stays_healthy(error: RpcError) -> None:
    a, b = Node("a", answer=error), Node("b")
    group = endpoints(a, b)
    await group.open()
    assert await group.read("m") == "b"
    a.answer = "a"
    assert await group.read("m") == "a"
    assert a.calls.count("chain") == 1


async def test_when_all_are_busy_that_is_the_answer() -> None:
    group = endpoints(Node("a", answer=RpcError(-32005, "limit exceeded")))
    await group.open()
    assert isinstance(await group.ask("m"), RpcError)


async def test_a_node_that_is_behind_is_not_read() -> None:
    a, b = Node("a"), Node("b")
    group = endpoints(a, b)
    await group.open()
    group.note_height("a", 99)
    group.note_height("b", 100)
    assert await group.read("m") == "b"
    group.note_height("a", 100)
    assert await group.read("m") == "a"


async def test_the_successor_of_a_dead_node_is_not_read_until_it_has_caught_up() -> None:
    clock = Clock()
    a, b = Node("a"), Node("b")
    group = endpoints(a, b, clock=clock)
    await group.open()
    group.note_height("a", 100)
    group.note_height("b", 99)
    a.answer = a.chain = down()
    with pytest.raises(NodeUnavailable, match="b: behind: at 99, 100 is known"):
        await group.read("m")
    group.note_height("b", 100)
    assert await group.read("m") == "b"


async def test_a_dead_node_does_not_set_the_height_for_ever() -> None:
    clock = Clock()
    a, b = Node("a"), Node("b")
    group = endpoints(a, b, clock=clock)
    await group.open()
    group.note_height("a", 10**9)
    group.note_height("b", 99)
    a.answer = a.chain = down()
    with pytest.raises(NodeUnavailable):
        await group.read("m")
    clock.now += 121
    assert await group.read("m") == "b"
    assert group.floor == 99


async def test_a_chain_may_shrink() -> None:
    group = endpoints(Node("a"))
    await group.open()
    group.note_height("a", 100)
    group.note_height("a", 97)
    assert group.floor == 97
    assert await group.read("m") == "a"


async def test_the_only_node_is_asked_again_after_its_identity() -> None:
    a = Node("a")
    group = endpoints(a)
    await group.open()
    a.answer = Lost("reset")
    with pytest.raises(NodeUnavailable):
        await group.read("m")
    a.answer = "a"
    assert await group.read("m") == "a"
    assert a.calls == ["chain", "m", "chain", "m"]


async def test_a_node_that_returns_on_another_chain_is_refused_with_one_warning() -> None:
    clock = Clock()
    a, b = Node("a"), Node("b")
    group = endpoints(a, b, clock=clock)
    await group.open()
    a.answer = down()
    await group.read("m")
    a.answer, a.chain = "a", 5
    with capture_logs() as logs:
        for _ in range(3):
            clock.now += 60
            await group.revive()
            assert await group.read("m") == "b"
    assert [(line["event"], line["log_level"]) for line in logs] == [("endpoint is refused", "warning")]
    a.chain = 1
    clock.now += 60
    await group.revive()
    assert await group.read("m") == "a"


async def test_a_missing_node_is_looked_for_now_and_then_while_heads_are_read() -> None:
    clock = Clock()
    a, b = Node("a"), Node("b")
    group = endpoints(a, b, clock=clock)
    await group.open()
    a.answer = down()
    assert await group.ask_all("head") == [("b", "b")]
    a.answer = "a"
    await group.ask_all("head")
    await drained(group)
    assert [name for name, _ in await group.ask_all("head")] == ["b"], "it was checked a moment ago"
    clock.now += 6
    await group.ask_all("head")
    await drained(group)
    assert [name for name, _ in await group.ask_all("head")] == ["a", "b"]
    await group.close()


async def drained(group: Endpoints) -> None:
    if group._revival is not None:
        await group._revival


async def test_many_that_wait_for_a_missing_node_check_it_once() -> None:
    a = Node("a")
    group = endpoints(a)
    await group.open()
    a.answer = a.chain = down()
    with pytest.raises(NodeUnavailable):
        await group.read("m")
    a.calls.clear()
    await asyncio.gather(*(group.read("m") for _ in range(20)), return_exceptions=True)
    assert a.calls == ["chain"]


async def test_a_write_goes_once_to_every_healthy_node() -> None:
    a, b = Node("a"), Node("b", answer=RpcError(-32000, "already known"))
    c, d = Node("c", answer=Lost("reset")), Node("d", chain=down())
    group = endpoints(a, b, c, d)
    await group.open()
    answers = dict(await group.write_all("send", ["0x"]))
    assert answers["a"] == "a"
    assert isinstance(answers["b"], RpcError)
    assert isinstance(answers["c"], Lost)
    assert set(answers) == {"a", "b", "c"}
    assert [n.calls.count("send") for n in (a, b, c, d)] == [1, 1, 1, 0]
    assert set(dict(await group.write_all("send", ["0x"]))) == {"a", "b"}


async def test_a_write_that_can_reach_nobody_sends_nothing() -> None:
    a = Node("a")
    group = endpoints(a)
    await group.open()
    a.answer = a.chain = down()
    assert isinstance(dict(await group.write_all("send"))["a"], Unreachable)
    with pytest.raises(NodeUnavailable):
        await group.write_all("send")
    assert a.calls.count("send") == 1


async def test_a_write_looks_for_missing_nodes_when_there_is_no_other() -> None:
    a = Node("a")
    group = endpoints(a)
    await group.open()
    a.answer = down()
    await group.write_all("send")
    a.answer = "taken"
    assert await group.write_all("send") == [("a", "taken")]


async def test_a_batch_is_answered_by_one_node() -> None:
    a, b = Node("a", answer=Lost("reset")), Node("b")
    group = endpoints(a, b)
    await group.open()
    assert await group.ask_batch([("x", []), ("y", [])]) == ["b", "b"]


async def test_closing_ends_the_search_and_every_client() -> None:
    clock = Clock()
    a, b = Node("a"), Node("b")
    group = endpoints(a, b, clock=clock)
    await group.open()
    a.answer = down()
    await group.ask_all("head")
    await group.ask_all("head")
    await group.close()
    await group.close()
    assert (a.closed, b.closed) == (2, 2)
