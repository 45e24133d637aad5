"""Each fault of the proxy, seen by a client, and by the node behind."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from devnets import faults
from devnets.process import free_port
from devnets.proxy import FaultProxy


@dataclass
class EchoNode:
    """A JSON-RPC node that answers each call with its own method, and remembers what it has acted on."""

    url: str = ""
    acted: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            self.acted.append(request.path)
            return web.json_response({"path": request.path_qs})
        body = await request.json()
        self.requests.append(body)
        calls = body if isinstance(body, list) else [body]
        self.acted += [call["method"] for call in calls]
        answers = [{"jsonrpc": "2.0", "id": call["id"], "result": call["method"]} for call in calls]
        # A node may answer the items of a batch in any order.
        return web.json_response(answers[::-1] if isinstance(body, list) else answers[0])


@pytest.fixture
async def node() -> AsyncIterator[EchoNode]:
    node, port = EchoNode(), free_port()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", node.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    node.url = f"http://127.0.0.1:{port}"
    yield node
    await runner.cleanup()


@pytest.fixture
async def proxy(node: EchoNode) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(node.url) as proxy:
        yield proxy


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session


Post = Callable[[Any], Any]


@pytest.fixture
def post(proxy: FaultProxy, session: aiohttp.ClientSession) -> Post:
    async def post(body: Any) -> tuple[int, bytes, dict[str, str]]:
        async with session.post(proxy.url, json=body) as answer:
            return answer.status, await answer.read(), dict(answer.headers)

    return post


def call(method: str, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": []}


async def test_without_rules_it_changes_nothing_and_counts(proxy: FaultProxy, post: Post, node: EchoNode) -> None:
    status, body, _ = await post(call("send"))
    assert (status, json.loads(body)) == (200, {"jsonrpc": "2.0", "id": 1, "result": "send"})
    await post([call("send", 1), call("read", 2)])
    assert proxy.requests == 2
    assert proxy.counts == {"send": 2, "read": 1}
    assert (proxy.count("send"), proxy.count("re*"), proxy.count()) == (2, 1, 3)
    assert node.requests == [call("send"), [call("send", 1), call("read", 2)]]
    proxy.reset()
    assert (proxy.requests, proxy.count()) == (0, 0)


async def test_a_call_can_be_awaited(proxy: FaultProxy, post: Post) -> None:
    waiting = asyncio.create_task(proxy.seen("send", 2))
    await post(call("send"))
    assert not waiting.done()
    await post(call("send"))
    await asyncio.wait_for(waiting, 5)


@pytest.mark.parametrize(
    ("fault", "acted"),
    [
        (faults.DropRequest(), False),
        (faults.DropAnswer(), True),
        (faults.Close(), False),
        (faults.Close(acted=True), True),
    ],
)
async def test_a_lost_call_may_or_may_not_have_had_effect(
    proxy: FaultProxy, post: Post, node: EchoNode, fault: faults.Fault, acted: bool
) -> None:
    proxy.rule("send", fault)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await post(call("send"))
    assert node.acted == (["send"] if acted else [])
    status, _, _ = await post(call("read"))
    assert status == 200


async def test_an_answer_can_end_in_the_middle(proxy: FaultProxy, post: Post, node: EchoNode) -> None:
    proxy.rule("send", faults.CutOff())
    with pytest.raises(aiohttp.ClientPayloadError):
        await post(call("send"))
    assert node.acted == ["send"]


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("acted", [False, True])
async def test_a_status_comes_before_or_after_the_effect(
    proxy: FaultProxy, post: Post, node: EchoNode, status: int, acted: bool
) -> None:
    proxy.rule("send", faults.Status(status, body=b"no", retry_after=7, acted=acted))
    got, body, headers = await post(call("send"))
    assert (got, body, headers["Retry-After"]) == (status, b"no", "7")
    assert node.acted == (["send"] if acted else [])


@pytest.mark.parametrize("fault", [faults.Garbage(), faults.Truncate()])
async def test_an_answer_can_be_no_json(proxy: FaultProxy, post: Post, node: EchoNode, fault: faults.Fault) -> None:
    proxy.rule("send", fault)
    status, body, _ = await post(call("send"))
    assert status == 200
    with pytest.raises(ValueError, match=r"."):
        json.loads(body)
    assert node.acted == ["send"]


async def test_an_answer_can_be_far_too_long(proxy: FaultProxy, post: Post) -> None:
    proxy.rule("send", faults.Oversize(1_000_000))
    _, body, _ = await post(call("send"))
    assert len(body) > 1_000_000
    assert json.loads(body)["result"] == "send"


@pytest.mark.parametrize("acted", [False, True])
async def test_a_node_error_carries_code_text_and_data(
    proxy: FaultProxy, post: Post, node: EchoNode, acted: bool
) -> None:
    proxy.rule("send", faults.Refuse(-32000, "nonce too low", data="0x01", acted=acted, status=500))
    status, body, _ = await post(call("send", 9))
    error = {"code": -32000, "message": "nonce too low", "data": "0x01"}
    assert (status, json.loads(body)) == (500, {"jsonrpc": "2.0", "id": 9, "error": error})
    assert node.acted == (["send"] if acted else [])


async def test_a_result_can_be_made_up(proxy: FaultProxy, post: Post, node: EchoNode) -> None:
    proxy.rule("send", faults.Answer("0xfeed"))
    _, body, _ = await post(call("send"))
    assert json.loads(body)["result"] == "0xfeed"
    assert node.acted == []


@pytest.mark.parametrize("answer", [False, True])
async def test_a_slow_call_has_its_effect_even_when_the_client_gives_up(
    proxy: FaultProxy, session: aiohttp.ClientSession, node: EchoNode, answer: bool
) -> None:
    proxy.rule("send", faults.Delay(0.3, answer=answer))
    with pytest.raises(TimeoutError):
        async with session.post(proxy.url, json=call("send"), timeout=aiohttp.ClientTimeout(total=0.1)):
            pass
    assert node.acted == (["send"] if answer else [])
    async with asyncio.timeout(5):
        while node.acted != ["send"]:  # noqa: ASYNC110 - the echo has no event for it
            await asyncio.sleep(0.01)


async def test_a_rule_is_used_so_many_times_and_then_no_more(proxy: FaultProxy, post: Post) -> None:
    rule = proxy.rule("send", faults.Status(503), times=2)
    assert [(await post(call("send")))[0] for _ in range(4)] == [503, 503, 200, 200]
    assert rule.used == 2


async def test_rules_can_be_removed_one_by_one_and_all_at_once(proxy: FaultProxy, post: Post) -> None:
    first = proxy.rule("send", faults.Status(500))
    proxy.rule("read", faults.Status(500))
    proxy.remove(first)
    assert (await post(call("send")))[0] == 200
    assert (await post(call("read")))[0] == 500
    proxy.heal()
    assert (await post(call("read")))[0] == 200


async def test_several_rules_apply_to_one_call_and_the_first_without_the_node_ends_it(
    proxy: FaultProxy, post: Post
) -> None:
    refuse = proxy.rule("send", faults.Refuse(-1, "no"), times=1)
    status = proxy.rule("s*", faults.Status(503, acted=True), times=1)
    assert "error" in json.loads((await post(call("send")))[1])
    assert (refuse.used, status.used) == (1, 0)
    proxy.rule("send", faults.Answer("other", acted=True))
    assert (await post(call("send")))[0] == 503
    assert json.loads((await post(call("send")))[1])["result"] == "other"


async def test_each_item_of_a_batch_has_its_own_fate(proxy: FaultProxy, post: Post, node: EchoNode) -> None:
    proxy.rule("refused", faults.Refuse(-1, "no"))
    proxy.rule("unseen", faults.DropRequest())
    proxy.rule("unheard", faults.DropAnswer())
    methods = ["plain", "refused", "unseen", "unheard", "also plain"]
    _, body, _ = await post([call(method, number) for number, method in enumerate(methods)])
    answers = {answer["id"]: answer.get("result", answer.get("error")) for answer in json.loads(body)}
    assert answers == {0: "plain", 1: {"code": -1, "message": "no"}, 4: "also plain"}
    assert node.acted == ["plain", "unheard", "also plain"]
    assert len(node.requests) == 1


async def test_a_batch_of_which_nothing_is_left_is_cut_off(proxy: FaultProxy, post: Post) -> None:
    proxy.rule("*", faults.DropAnswer())
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await post([call("a", 1), call("b", 2)])


async def test_a_spoilt_item_spoils_its_whole_batch(proxy: FaultProxy, post: Post, node: EchoNode) -> None:
    proxy.rule("send", faults.Status(429))
    status, _, _ = await post([call("send", 1), call("read", 2)])
    assert status == 429
    assert node.acted == ["read"]


async def test_a_rest_call_is_named_by_verb_and_path(
    proxy: FaultProxy, session: aiohttp.ClientSession, node: EchoNode
) -> None:
    async def get(path: str) -> tuple[int, Any]:
        async with session.get(proxy.url.rstrip("/") + path) as answer:
            return answer.status, await answer.json(content_type=None)

    assert await get("/v2/status?wait=1") == (200, {"path": "/v2/status?wait=1"})
    assert proxy.count("GET /v2/*") == 1
    proxy.rule("GET /v2/*", faults.Status(503, body=b"{}"), times=1)
    assert await get("/v2/status") == (503, {})
    proxy.rule("GET /v2/*", faults.Answer({"made": "up"}), times=1)
    assert await get("/v2/status") == (200, {"made": "up"})
    # Always, not once: aiohttp asks again by itself when a kept connection ends without an answer to a GET.
    proxy.rule("GET /v2/*", faults.DropAnswer())
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await get("/v2/status")
    assert set(node.acted) == {"/v2/status"}


async def test_a_dead_node_cuts_its_clients_off_and_comes_back(session: aiohttp.ClientSession) -> None:
    async with FaultProxy(f"http://127.0.0.1:{free_port()}") as proxy:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.post(proxy.url, json=call("send"))
        assert proxy.count("send") == 1


async def test_it_comes_back_on_its_port(proxy: FaultProxy, post: Post) -> None:
    url = proxy.url
    await proxy.stop()
    await proxy.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await post(call("send"))
    await proxy.start()
    assert proxy.url == url
    assert (await post(call("send")))[0] == 200


async def test_user_and_password_of_the_target_stay_in_the_url() -> None:
    async with FaultProxy("http://user:secret@127.0.0.1:1/wallet") as proxy:
        assert proxy.url.startswith("http://user:secret@127.0.0.1:")
        assert proxy.url.endswith("/wallet")
