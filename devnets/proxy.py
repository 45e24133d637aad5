"""A JSON-RPC proxy in front of a node: counts every call and applies faults by rules.

Works for REST nodes too: such a call's method is "GET /path" and rules match it by pattern. No WebSockets.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, Self

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, encode_basic_auth, web
from yarl import URL

from devnets.faults import Call, Fault, Http, Lost, Outcome, Reply, Spoilt
from devnets.process import free_port

MAX_REQUEST_BYTES = 256 * 1024 * 1024
JSON_HEADERS = (("Content-Type", "application/json"),)


@dataclass
class Rule:
    """One fault for calls whose method matches; `times` None means always, `used` is how often so far."""

    method: str
    fault: Fault
    times: int | None = None
    used: int = 0

    def take(self, call: Call) -> bool:
        """Say whether the rule applies to this call, and count it if so."""
        spent = self.times is not None and self.used >= self.times
        if spent or not fnmatchcase(call.method, self.method):
            return False
        self.used += 1
        return True


@dataclass
class _Item:
    """One call on its way: the faults that met it, and what it has come to."""

    call: Call
    envelope: dict[str, Any]
    faults: list[Fault] = field(default_factory=list)
    outcome: Outcome | None = None


class FaultProxy:
    """Stands on its own port in front of `target`; use as an async context manager, or `start` and `stop`.

    Rules apply in the order in which they were added, all that match. A batch stays a batch towards the node,
    without the items that a rule keeps from it. A client that gives up early does not stop its call.
    """

    def __init__(self, target: str) -> None:
        self._target = URL(target)
        self._rules: list[Rule] = []
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None
        self._port: int | None = None
        self._news = asyncio.Condition()
        self.calls: list[Call] = []
        self.requests = 0
        """HTTP requests so far; a batch is one."""

    @property
    def url(self) -> str:
        """Where clients connect; user and password are those of the target."""
        return str(self._target.with_host("127.0.0.1").with_port(self._port))

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        # A kept connection would fail once after each restart of the node, and would delay its end.
        self._session = ClientSession(
            connector=TCPConnector(force_close=True, limit=0), timeout=ClientTimeout(total=None)
        )
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self._port = self._port or free_port()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def stop(self) -> None:
        """Close all connections and free the port; stopping twice does nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def rule(self, method: str, fault: Fault, *, times: int | None = None) -> Rule:
        """Apply the fault to calls of `method` (`*` and `?` as in file names), at most `times` times."""
        rule = Rule(method, fault, times)
        self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        self._rules.remove(rule)

    def heal(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def count(self, method: str = "*") -> int:
        """Calls of this method (or pattern) since the last `reset`; items of batches count each."""
        return sum(fnmatchcase(call.method, method) for call in self.calls)

    @property
    def counts(self) -> Counter[str]:
        return Counter(call.method for call in self.calls)

    def reset(self) -> None:
        """Forget the calls counted so far; rules stay."""
        self.calls.clear()
        self.requests = 0

    async def seen(self, method: str, count: int = 1) -> None:
        """Return when `count` calls of this method have come in, counted since the last `reset`."""
        async with self._news:
            await self._news.wait_for(lambda: self.count(method) >= count)

    # ------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        envelopes, is_batch = _parse(body)
        items = [_Item(Call(e["method"], e.get("params", [])), e) for e in envelopes]
        if not items:
            items = [_Item(Call(f"{request.method} /{request.match_info['path']}", body), {})]
        await self._record([item.call for item in items])
        for item in items:
            await self._before(item)
        try:
            http = await self._forward(request, body, items, is_batch)
        except (ClientError, OSError):  # the node is down: its clients would be cut off too
            http = Http(closed=True)
        for spoilt in [item.outcome for item in items if isinstance(item.outcome, Spoilt)]:
            http = spoilt.spoil(http)
        return await _send(request, http)

    async def _record(self, calls: list[Call]) -> None:
        async with self._news:
            self.requests += 1
            self.calls += calls
            self._news.notify_all()

    async def _before(self, item: _Item) -> None:
        for rule in list(self._rules):
            if not rule.take(item.call):
                continue
            result = await rule.fault.before(item.call, self._ask)
            if not isinstance(result, Call):
                item.outcome = result
                return
            item.call = result
            item.faults.append(rule.fault)

    async def _after(self, item: _Item, reply: Reply) -> None:
        item.outcome = reply
        for fault in reversed(item.faults):
            current = item.outcome
            if isinstance(current, Spoilt) and current.reply is not None:
                inner = await fault.after(item.call, current.reply, self._ask)
                item.outcome = Spoilt(inner, current.spoil) if isinstance(inner, Reply) else inner
            elif isinstance(current, Reply):
                item.outcome = await fault.after(item.call, current, self._ask)

    async def _forward(self, request: web.Request, body: bytes, items: list[_Item], is_batch: bool) -> Http:
        """Hand the node what is left for it, then put the answer together."""
        left = [item for item in items if item.outcome is None]
        is_rpc = bool(items[0].envelope)
        answered = Http()
        if left:
            if is_rpc and any(item.faults or item.outcome for item in items):
                sent = [item.envelope | {"params": item.call.params} for item in left]
                body = json.dumps(sent if is_batch else sent[0]).encode()
            answered = await self._pass_on(request, body)
            if not any(item.faults for item in items) and left == items:
                return answered
            for item, reply in zip(left, _replies(answered, left, is_batch), strict=True):
                await self._after(item, reply)
        replies = [(item, _reply(item)) for item in items if not isinstance(item.outcome, Lost)]
        if not replies:
            return Http(closed=True)
        if not is_rpc:
            if left:  # the faults for REST calls change the whole answer, not what it says
                return answered
            return _json(replies[0][1].body.get("result"), replies[0][1].status)
        bodies = [_kept(item.envelope) | reply.body for item, reply in replies]
        if is_batch:
            return _json(bodies, answered.status)
        return _json(bodies[0], replies[0][1].status)

    async def _pass_on(self, request: web.Request, body: bytes) -> Http:
        url = self._target.with_user(None).join(URL(request.raw_path, encoded=True))
        headers = {k: v for k, v in request.headers.items() if k.lower() in ("authorization", "content-type")}
        async with self._open.request(request.method, url, data=body, headers=headers) as answer:
            return Http(
                answer.status,
                await answer.read(),
                (("Content-Type", answer.headers.get("Content-Type", "")),),
            )

    async def _ask(self, method: str, params: list[Any]) -> Any:
        user, password = self._target.user, self._target.password
        headers = {} if user is None else {"Authorization": encode_basic_auth(user, password or "")}
        call = {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}
        async with self._open.post(self._target.with_user(None), json=call, headers=headers) as answer:
            return (await answer.json(content_type=None)).get("result")

    @property
    def _open(self) -> ClientSession:
        if self._session is None:
            raise RuntimeError("the proxy is not started")
        return self._session


def _parse(body: bytes) -> tuple[list[dict[str, Any]], bool]:
    """Return the JSON-RPC calls in the body and whether they are a batch; none for anything else."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return [], False
    calls = parsed if isinstance(parsed, list) else [parsed]
    if all(isinstance(call, dict) and isinstance(call.get("method"), str) for call in calls):
        return calls, isinstance(parsed, list)
    return [], False


def _replies(answered: Http, items: list[_Item], is_batch: bool) -> list[Reply]:
    """Return the node's reply to each item; an empty one where it gave none, or no JSON-RPC at all."""
    try:
        parsed = json.loads(answered.body)
    except ValueError:
        parsed = []
    replies = parsed if isinstance(parsed, list) else [parsed]
    if not is_batch and len(replies) == 1 and isinstance(replies[0], dict):
        return [Reply(replies[0], answered.status)]
    by_id = {_key(reply): reply for reply in replies if isinstance(reply, dict)}
    return [Reply(by_id.get(_key(item.envelope), {}), answered.status) for item in items]


def _kept(envelope: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer repeats of the call."""
    return {key: envelope[key] for key in ("jsonrpc", "id") if key in envelope}


def _key(envelope: dict[str, Any]) -> str:
    return json.dumps(envelope.get("id"))


def _reply(item: _Item) -> Reply:
    match item.outcome:
        case Reply() as reply:
            return reply
        case Spoilt(reply=Reply() as reply):
            return reply
        case _:
            return Reply({"result": None})


def _json(body: Any, status: int) -> Http:
    return Http(status, json.dumps(body).encode(), JSON_HEADERS)


async def _send(request: web.Request, http: Http) -> web.StreamResponse:
    if http.closed:
        _cut(request)
        return web.Response()
    if http.announced is None:
        return web.Response(status=http.status, body=http.body, headers=dict(http.headers))
    response = web.StreamResponse(status=http.status, headers=dict(http.headers))
    response.content_length = http.announced
    await response.prepare(request)
    await response.write(http.body)
    request.protocol.close()
    return response


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()
