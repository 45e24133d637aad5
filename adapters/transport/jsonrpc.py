"""A JSON-RPC client over HTTP that says exactly what became of each call, and never repeats one."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NoReturn

import aiohttp
from yarl import URL

from gateway.core.errors import ConfigError

Params = Sequence[object] | Mapping[str, object]

MAX_BYTES = 64 * 1024 * 1024
_CHUNK = 256 * 1024
_MAX_TEXT = 2_000
_MAX_DATA_DEPTH = 16


class CallFailed(Exception):
    """A call gave no result. Private to the adapters: they translate it before it leaves them."""


class Unreachable(CallFailed):
    """The call certainly had no effect: no connection was made."""


class Lost(CallFailed):
    """The call was sent and its answer was lost: it may have had an effect. `status`: HTTP's, if any."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Garbled(Lost):
    """An answer came, and it is not JSON-RPC: as lost as one that never came, and somebody should look."""


class RpcError(CallFailed):
    """The node read the call and answered with an error."""

    def __init__(self, code: int, message: str, data: object = None, *, status: int = 200) -> None:
        super().__init__(f"{message} (code {code})")
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class JsonRpc:
    """One endpoint. `name` is what logs and errors call it; user, password, path and query stay inside.

    `timeout` bounds a whole call, `connect_timeout` its connection, in seconds; `max_bytes` an answer,
    unpacked. Nobody sends a call again: aiohttp repeats a request on a fresh connection when a kept one turns
    out dead, but only of methods that HTTP calls idempotent, and POST is not one.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        timeout: float = 10.0,
        connect_timeout: float = 5.0,
        max_bytes: int = MAX_BYTES,
        keep_alive: float = 10.0,
        connections: int = 64,
    ) -> None:
        self.name = name
        self._url, self._headers = _split_credentials(url)
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=connect_timeout)
        self._max_bytes = max_bytes
        self._keep_alive = keep_alive
        self._connections = connections
        self._ids = itertools.count(1)
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"JsonRpc({self.name!r})"

    async def close(self) -> None:
        """Close every connection; may be called twice. A later call opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, params: Params = ()) -> object:
        """Return the result of one call. Raises Unreachable, Lost, Garbled or RpcError."""
        identity, request = self._request(method, params)
        status, reply = await self._post(request)
        if not isinstance(reply, dict):
            raise _no_answer(status, "the answer is not an object")
        # A node that could not read the id answers with null: over HTTP it can only mean this call.
        unread = reply.get("id") is None and reply.get("error") is not None
        if not (_same(reply.get("id"), identity) or unread):
            raise _no_answer(status, "the answer has another id")
        answer = _answer(reply, status)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[tuple[str, Params]]) -> list[object | RpcError]:
        """Return the result, or the error, of each call, in the order asked; all go out in one request.

        Raises Unreachable, Lost or Garbled for all of them together.
        """
        if not calls:
            return []
        requests = [self._request(method, params) for method, params in calls]
        status, reply = await self._post([request for _, request in requests])
        if isinstance(reply, dict) and isinstance(refused := _answer(reply, status), RpcError):
            return [refused] * len(calls)
        if not isinstance(reply, list):
            raise _no_answer(status, "the answer to a batch is not a list")
        answers: dict[int, object | RpcError] = {}
        wanted = {identity for identity, _ in requests}
        for part in reply:
            identity = part.get("id") if isinstance(part, dict) else None
            if type(identity) is not int or identity not in wanted or identity in answers:
                raise Garbled("the answer to a batch has an id that is unknown or comes twice", status=status)
            answers[identity] = _answer(part, status)
        if len(answers) != len(wanted):
            raise Garbled("the answer to a batch leaves some calls out", status=status)
        return [answers[identity] for identity, _ in requests]

    def _request(self, method: str, params: Params) -> tuple[int, dict[str, object]]:
        identity = next(self._ids)
        plain = dict(params) if isinstance(params, Mapping) else list(params)
        return identity, {"jsonrpc": "2.0", "id": identity, "method": method, "params": plain}

    async def _post(self, request: object) -> tuple[int, object]:
        body = json.dumps(request, separators=(",", ":")).encode()
        try:
            async with self._open_session().post(self._url, data=body, allow_redirects=False) as response:
                text = await self._read(response)
                status = response.status
        # Neither aiohttp's texts nor its errors are passed on: some hold the URL, and with it a key.
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(f"no connection: {_describe(error)}") from None
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Lost(f"no answer: {_describe(error)}") from None
        try:
            return status, _parse(text)
        except (ValueError, RecursionError):
            raise _no_answer(status, "the answer is not JSON") from None

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_chunked(_CHUNK):
            size += len(part)
            if size > self._max_bytes:
                raise Garbled(f"the answer is longer than {self._max_bytes} bytes", status=response.status)
            parts.append(part)
        return b"".join(parts)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections, keepalive_timeout=self._keep_alive, ttl_dns_cache=30
                ),
                headers={"Content-Type": "application/json", **self._headers},
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=self._timeout,
            )
        return self._session


def endpoint_name(url: str) -> str:
    """Return "host:port" of a URL: no user, password, path or query, for keys hide in each of them."""
    try:
        parsed = URL(url)
        if parsed.scheme in ("http", "https", "ws", "wss") and parsed.host:
            host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
            return f"{host}:{parsed.port}"
    except ValueError:
        pass
    raise ConfigError(["an endpoint's URL is not of the form http(s)://host[:port]/…"])


def make_clients(urls: Sequence[str], *, timeout: float = 10.0, max_bytes: int = MAX_BYTES) -> list[JsonRpc]:
    """Return a client for each URL, each with a name of its own ("host:port", then "host:port#2")."""
    seen: dict[str, int] = {}
    clients = []
    for url in urls:
        name = endpoint_name(url)
        seen[name] = seen.get(name, 0) + 1
        unique = name if seen[name] == 1 else f"{name}#{seen[name]}"
        clients.append(JsonRpc(unique, url, timeout=timeout, connect_timeout=min(5.0, timeout), max_bytes=max_bytes))
    return clients


def _split_credentials(url: str) -> tuple[URL, dict[str, str]]:
    endpoint_name(url)
    parsed = URL(url)
    if parsed.scheme not in ("http", "https"):
        raise ConfigError([f"{endpoint_name(url)}: only http and https carry JSON-RPC calls"])
    if parsed.user is None and parsed.password is None:
        return parsed, {}
    token = base64.b64encode(f"{parsed.user or ''}:{parsed.password or ''}".encode()).decode()
    return parsed.with_user(None), {"Authorization": f"Basic {token}"}


def _parse(text: bytes) -> object:
    """Parse JSON exactly: decimals stay decimal; NaN, endless numbers and endless nesting are refused."""
    return json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _same(identity: object, expected: int) -> bool:
    return type(identity) is int and identity == expected


def _answer(reply: object, status: int) -> object | RpcError:
    """Return the result or the error in one answer object."""
    if not isinstance(reply, dict):
        raise _no_answer(status, "an answer is not an object")
    error = reply.get("error")
    if error is None:
        if not 200 <= status < 300 or "result" not in reply:
            raise _no_answer(status, "the answer has neither result nor error")
        result: object = reply["result"]
        return result
    if reply.get("result") is not None:
        raise _no_answer(status, "the answer has both a result and an error")
    if isinstance(error, str):
        return RpcError(0, error[:_MAX_TEXT], status=status)
    code = error.get("code") if isinstance(error, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    if not isinstance(error, dict) or type(code) is not int or not isinstance(message, str):
        raise _no_answer(status, "the error is not one of JSON-RPC")
    data = error.get("data")
    kept = data if _shallow(data, _MAX_DATA_DEPTH) else None
    return RpcError(code, message[:_MAX_TEXT], kept, status=status)


def _shallow(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        return levels > 0 and all(_shallow(v, levels - 1) for v in value.values())
    if isinstance(value, list):
        return levels > 0 and all(_shallow(v, levels - 1) for v in value)
    return True


def _no_answer(status: int, why: str) -> Lost:
    """With HTTP 200 it is the node that broke the protocol; else it is whatever stands before it."""
    if 200 <= status < 300:
        return Garbled(why, status=status)
    return Lost(f"HTTP status {status}", status=status)


def _describe(error: BaseException) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    strerror = getattr(cause, "strerror", None)
    return f"{type(error).__name__} ({strerror})" if isinstance(strerror, str) else type(error).__name__
