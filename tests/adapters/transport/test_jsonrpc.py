"""The JSON-RPC client: what became of a call is never in doubt, and no secret leaves it."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.transport.jsonrpc import (
    Garbled,
    JsonRpc,
    Lost,
    RpcError,
    Unreachable,
    endpoint_name,
    make_clients,
)
from gateway.core.errors import ConfigError

Reply = Callable[[web.Request, Any], Awaitable[web.StreamResponse]]
Serve = Callable[[Reply], Awaitable[JsonRpc]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[TestServer] = []
    clients: list[JsonRpc] = []

    async def start(reply: Reply) -> JsonRpc:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await reply(request, json.loads(await request.read()))

        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", handle)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        client = JsonRpc("node:1", str(server.make_url("/v3/key")), timeout=2, max_bytes=10_000)
        clients.append(client)
        return client

    yield start
    for client in clients:
        await client.close()
    for server in servers:
        await server.close()


def text(body: str | bytes, status: int = 200) -> Reply:
    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        return web.Response(
            body=body if isinstance(body, bytes) else body.encode(),
            status=status,
            content_type="application/json",
        )

    return reply


def answer(status: int = 200, **parts: object) -> Reply:
    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], **parts}, status=status)

    return reply


async def test_a_result_comes_back_as_it_is(serve: Serve) -> None:
    seen: list[Any] = []

    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        seen.append((request.method, request.path, call))
        return web.json_response({"jsonrpc": "2.0", "id": call["id"], "result": {"a": [1, None]}})

    client = await serve(reply)
    assert await client.call("m", ["x", True]) == {"a": [1, None]}
    method, path, call = seen[0]
    assert (method, path, call["method"], call["params"]) == ("POST", "/v3/key", "m", ["x", True])


async def test_named_parameters_are_sent_as_an_object(serve: Serve) -> None:
    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        return web.json_response({"id": call["id"], "result": call["params"], "error": None})

    client = await serve(reply)
    assert await client.call("m", {"verbose": 2}) == {"verbose": 2}


async def test_a_null_result_is_a_result(serve: Serve) -> None:
    client = await serve(answer(result=None))
    assert await client.call("m") is None


async def test_numbers_with_a_point_are_exact(serve: Serve) -> None:
    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        return web.Response(text=f'{{"id": {call["id"]}, "result": [0.1, 1e-8, 21000000.00000001, 7]}}')

    client = await serve(reply)
    result = await client.call("m")
    assert result == [Decimal("0.1"), Decimal("1E-8"), Decimal("21000000.00000001"), 7]
    assert isinstance(result, list)
    assert [type(n) for n in result] == [Decimal, Decimal, Decimal, int]


@pytest.mark.parametrize("status", [200, 400, 403, 404, 429, 500, 503])
async def test_an_error_body_is_read_whatever_the_http_status(serve: Serve, status: int) -> None:
    error = {"code": -26, "message": "dust", "data": {"why": [1]}}
    client = await serve(answer(status, result=None, error=error))
    with pytest.raises(RpcError, match="dust") as caught:
        await client.call("m")
    assert (caught.value.code, caught.value.message, caught.value.data, caught.value.status) == (
        -26,
        "dust",
        {"why": [1]},
        status,
    )


async def test_an_error_whose_id_the_node_could_not_read_is_ours(serve: Serve) -> None:
    client = await serve(text('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}', 400))
    with pytest.raises(RpcError, match="parse error"):
        await client.call("m")


@pytest.mark.parametrize(
    ("body", "status"),
    [("", 401), ("<html>", 502), ("{}", 503), ('{"message": "upstream"}', 500), ("[]", 429), ("", 301)],
)
async def test_an_http_error_without_an_error_body_is_lost(serve: Serve, body: str, status: int) -> None:
    client = await serve(text(body, status))
    with pytest.raises(Lost) as caught:
        await client.call("m")
    assert type(caught.value) is Lost
    assert caught.value.status == status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"id": 1, "resu',
        b"[]",
        b"7",
        b"null",
        b'{"id": 1}',
        b'{"id": 2, "result": 5}',
        b'{"id": true, "result": 5}',
        b'{"id": "1", "result": 5}',
        b'{"result": 5}',
        b'{"id": null, "result": 5}',
        b'{"id": 1, "result": 5, "error": {"code": 1, "message": "x"}}',
        b'{"id": 1, "error": {"code": "1", "message": "x"}}',
        b'{"id": 1, "error": {"code": 1}}',
        b'{"id": 1, "error": 5}',
        b'{"id": 1, "result": NaN}',
        b'{"id": 1, "result": Infinity}',
        b'{"id": 1, "result": ' + b"9" * 5_000 + b"}",
        b'{"id": 1, "result": ' + b"[" * 4_900 + b"]" * 4_900 + b"}",
        b'{"id": 1, "result": "\xff\xfe"}',
    ],
    ids=lambda body: repr(body[:40]),
)
async def test_an_answer_that_is_not_json_rpc_is_garbled(serve: Serve, body: bytes) -> None:
    client = await serve(text(body))
    with pytest.raises(Garbled):
        await client.call("m")


async def test_deep_error_data_is_left_out(serve: Serve) -> None:
    deep: object = 1
    for _ in range(100):
        deep = [deep]
    client = await serve(answer(error={"code": 1, "message": "x", "data": deep}))
    with pytest.raises(RpcError) as caught:
        await client.call("m")
    assert caught.value.data is None


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(serve: Serve) -> None:
    client = await serve(answer(result="x" * 20_000))
    with pytest.raises(Garbled, match="longer than 10000 bytes"):
        await client.call("m")


async def test_a_redirect_is_not_followed(serve: Serve) -> None:
    calls: list[str] = []

    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        calls.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    client = await serve(reply)
    with pytest.raises(Lost) as caught:
        await client.call("m")
    assert caught.value.status == 307
    assert calls == ["/v3/key"]


async def test_a_batch_is_matched_by_id_in_any_order(serve: Serve) -> None:
    async def reply(request: web.Request, calls: Any) -> web.StreamResponse:
        parts = [
            {"id": c["id"], "result": c["params"][0]}
            if c["method"] == "yes"
            else {"id": c["id"], "error": {"code": 3, "message": "reverted"}}
            for c in calls
        ]
        return web.json_response(parts[::-1])

    client = await serve(reply)
    first, second, third = await client.batch([("yes", ["a"]), ("no", ["b"]), ("yes", ["c"])])
    assert (first, third) == ("a", "c")
    assert isinstance(second, RpcError)
    assert second.message == "reverted"


async def test_an_empty_batch_asks_nobody() -> None:
    client = JsonRpc("n", "http://127.0.0.1:1/")
    assert await client.batch([]) == []


async def test_one_error_for_a_whole_batch_is_the_error_of_each(serve: Serve) -> None:
    client = await serve(text('{"id": null, "error": {"code": -32600, "message": "batch too large"}}'))
    assert [str(r) for r in await client.batch([("a", []), ("b", [])])] == ["batch too large (code -32600)"] * 2


@pytest.mark.parametrize("ids", [[1], [1, 1], [1, 2, 2], [1, 3], [1, None], [True, 2], ["1", 2], []], ids=repr)
async def test_a_batch_with_missing_foreign_or_double_ids_is_garbled(serve: Serve, ids: list[object]) -> None:
    client = await serve(text(json.dumps([{"id": i, "result": 0} for i in ids])))
    with pytest.raises(Garbled):
        await client.batch([("a", []), ("b", [])])


async def test_a_batch_answered_by_nonsense_is_garbled(serve: Serve) -> None:
    client = await serve(text("[1, 2]"))
    with pytest.raises(Garbled):
        await client.batch([("a", []), ("b", [])])


async def test_a_refused_connection_had_no_effect(unused_tcp_port: int) -> None:
    client = JsonRpc("n", f"http://127.0.0.1:{unused_tcp_port}/")
    with pytest.raises(Unreachable):
        await client.call("m")
    await client.close()


async def test_a_host_that_does_not_exist_had_no_effect() -> None:
    client = JsonRpc("n", "http://nowhere.invalid:1/", timeout=5)
    with pytest.raises(Unreachable):
        await client.call("m")
    await client.close()


async def test_silence_is_lost_after_the_time_out(serve: Serve) -> None:
    release = asyncio.Event()

    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    client = await serve(reply)
    impatient = JsonRpc("n", str(client._url), timeout=0.05)
    with pytest.raises(Lost):
        await impatient.call("m")
    release.set()
    await impatient.close()


class Raw:
    """A server that speaks no HTTP by itself: it counts what arrives and answers with given bytes."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []

    async def start(self) -> str:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(length))
        writer.write(self.answers.pop(0) if self.answers else b"")
        await writer.drain()
        writer.close()

    async def stop(self) -> None:
        self.server.close()
        await self.server.wait_closed()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"id"',
        b"SSH-2.0-x\r\n\r\n",
    ],
    ids=["closed", "half a head", "half a body", "not HTTP"],
)
async def test_a_connection_that_breaks_is_lost_and_nothing_is_sent_again(
    answer: bytes,
) -> None:
    raw = Raw(answer)
    client = JsonRpc("n", await raw.start(), timeout=2)
    with pytest.raises(Lost):
        await client.call("m")
    assert len(raw.requests) == 1
    await client.close()
    await raw.stop()


async def test_a_kept_connection_that_died_never_makes_a_second_request() -> None:
    body = b'{"id": 1, "result": 1}'
    raw = Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    client = JsonRpc("n", await raw.start(), timeout=2)
    assert await client.call("m") == 1
    with pytest.raises(Lost):
        await client.call("m")
    assert len(raw.requests) <= 2
    assert sum(b'"id":2' in request for request in raw.requests) <= 1
    await client.close()
    await raw.stop()


async def test_credentials_go_to_basic_auth_and_nowhere_else(serve: Serve) -> None:
    heads: list[str | None] = []

    async def reply(request: web.Request, call: Any) -> web.StreamResponse:
        heads.append(request.headers.get("Authorization"))
        return web.Response(status=401)

    plain = await serve(reply)
    port = plain._url.port
    client = JsonRpc("node", f"http://us%40er:s3cr%2Fet@127.0.0.1:{port}/token", timeout=2)
    with pytest.raises(Lost) as caught:
        await client.call("m")
    assert heads == ["Basic dXNAZXI6czNjci9ldA=="]
    shown = "".join(traceback.format_exception(caught.value)) + repr(client) + repr(caught.value)
    for secret in ("us@er", "us%40er", "s3cr/et", "s3cr%2Fet", "dXNAZXI6", "token"):
        assert secret not in shown
    await client.close()


@pytest.mark.parametrize("url", ["http://u:s3cret@127.0.0.1:{}/k3y?t=k3y", "http://u:s3cret@nowhere.invalid/k3y"])
async def test_a_failed_connection_tells_no_secret(url: str, unused_tcp_port: int) -> None:
    client = JsonRpc("node", url.format(unused_tcp_port), timeout=2)
    with pytest.raises(Unreachable) as caught:
        await client.call("m")
    shown = "".join(traceback.format_exception(caught.value)) + repr(client)
    assert "s3cret" not in shown
    assert "k3y" not in shown
    await client.close()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://u:p@a.example:8545/v3/key?x=1", "a.example:8545"),
        ("https://a.example/v3/key", "a.example:443"),
        ("http://[::1]:8545/", "[::1]:8545"),
        ("ws://a.example/", "a.example:80"),
    ],
)
def test_a_name_is_host_and_port(url: str, name: str) -> None:
    assert endpoint_name(url) == name


@pytest.mark.parametrize("url", ["", "secret", "ftp://secret/", "http://", "http://secret:notaport/", "//secret"])
def test_a_bad_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        endpoint_name(url)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ConfigError):
        JsonRpc("n", url)


def test_a_web_socket_url_carries_no_calls() -> None:
    with pytest.raises(ConfigError, match="only http"):
        JsonRpc("n", "ws://a.example/")


def test_two_endpoints_of_one_host_have_two_names() -> None:
    assert [c.name for c in make_clients(["http://a:1/x", "http://a:1/y", "http://b:1/"])] == [
        "a:1",
        "a:1#2",
        "b:1",
    ]


async def test_closing_twice_is_allowed(serve: Serve) -> None:
    client = await serve(answer(result=1))
    assert await client.call("m") == 1
    await client.close()
    await client.close()
