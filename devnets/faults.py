"""What can go wrong between a client and a node: the faults that a `FaultProxy` puts in between.

Those that speak a chain's language (a replica that is behind, a hidden transaction, another chain) are in
`devnets/<chain>/faults.py`.
"""

# ruff: noqa: ARG002 - a fault uses what it needs of call, reply and ask

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """One JSON-RPC call, or one item of a batch; for anything else `method` is like "GET /v2/status"."""

    method: str
    params: Any


@dataclass(frozen=True)
class Reply:
    """What is said to one call: a JSON-RPC answer with `result` or `error`, and its HTTP status.

    In answer to a REST call, `result` is the whole JSON body.
    """

    body: dict[str, Any]
    status: int = 200


@dataclass(frozen=True)
class Lost:
    """No answer to this call: missing from the answer to its batch; alone, its connection is closed."""


@dataclass(frozen=True)
class Spoilt:
    """The whole HTTP answer, other items of a batch included, is put through `spoil`."""

    reply: Reply | None
    spoil: Callable[[Http], Http]


@dataclass(frozen=True)
class Http:
    """An HTTP answer. Where `announced` is more than the body, the connection ends before the body does."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    announced: int | None = None
    closed: bool = False


Outcome = Reply | Lost | Spoilt
Ask = Callable[[str, list[Any]], Awaitable[Any]]
"""Ask the node itself, unseen and unharmed; returns the result, None for an error."""


class Fault:
    """Lets everything pass; a fault overrides one or both."""

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        """Return the call as the node shall see it, or what becomes of it without the node."""
        return call

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        """Return what the client shall see of the node's reply to the call."""
        return reply


@dataclass(frozen=True)
class Delay(Fault):
    """Wait, before the node sees the call or, with `answer`, after it has acted on it."""

    seconds: float
    answer: bool = False

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        if not self.answer:
            await asyncio.sleep(self.seconds)
        return call

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        if self.answer:
            await asyncio.sleep(self.seconds)
        return reply


@dataclass(frozen=True)
class DropRequest(Fault):
    """The node never sees the call, the client never gets an answer."""

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        return Lost()


@dataclass(frozen=True)
class DropAnswer(Fault):
    """The node acts on the call, the client never gets an answer."""

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Lost()


@dataclass(frozen=True)
class Refuse(Fault):
    """Answer with this JSON-RPC error; the node does not see the call unless `acted`.

    `status` is the HTTP status: EVM nodes send 200 with an error, Bitcoin Core sends 500.
    """

    code: int
    message: str
    data: Any = None
    acted: bool = False
    status: int = 200

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        return call if self.acted else self._reply()

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return self._reply()

    def _reply(self) -> Reply:
        error = {"code": self.code, "message": self.message}
        return Reply({"error": error if self.data is None else error | {"data": self.data}}, self.status)


@dataclass(frozen=True)
class Answer(Fault):
    """Answer with this result; the node does not see the call unless `acted`."""

    result: Any
    acted: bool = False

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        return call if self.acted else Reply({"result": self.result})

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Reply({"result": self.result})


@dataclass(frozen=True)
class Status(Fault):
    """Answer with this HTTP status, as a provider's front does; the node sees the call only if `acted`."""

    status: int
    body: bytes = b"try again later"
    retry_after: int | None = None
    acted: bool = False

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        return call if self.acted else Spoilt(None, self._spoil)

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Spoilt(reply, self._spoil)

    def _spoil(self, _: Http) -> Http:
        headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/plain"),)
        if self.retry_after is not None:
            headers += (("Retry-After", str(self.retry_after)),)
        return Http(self.status, self.body, headers)


@dataclass(frozen=True)
class Close(Fault):
    """Close the connection without a word; the node does not see the call unless `acted`."""

    acted: bool = False

    async def before(self, call: Call, ask: Ask) -> Call | Outcome:
        return call if self.acted else Spoilt(None, _close)

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Spoilt(reply, _close)


@dataclass(frozen=True)
class Garbage(Fault):
    """The node acts on the call; the client gets something that is no JSON."""

    body: bytes = b"<html>\xff\x00 upstream says hello</html>"

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Spoilt(reply, lambda http: Http(http.status, self.body, http.headers))


@dataclass(frozen=True)
class Truncate(Fault):
    """The node acts on the call; the client gets half of the JSON, as if that were all."""

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Spoilt(reply, lambda http: Http(http.status, http.body[: len(http.body) // 2], http.headers))


@dataclass(frozen=True)
class CutOff(Fault):
    """The node acts on the call; the connection ends in the middle of the answer."""

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Spoilt(reply, _cut_off)


@dataclass(frozen=True)
class Oversize(Fault):
    """The node acts on the call; its answer, still proper JSON, comes after `size` bytes of white space."""

    size: int

    async def after(self, call: Call, reply: Reply, ask: Ask) -> Outcome:
        return Spoilt(reply, lambda http: Http(http.status, b" " * self.size + http.body, http.headers))


def _close(_: Http) -> Http:
    return Http(closed=True)


def _cut_off(http: Http) -> Http:
    return Http(http.status, http.body[: len(http.body) // 2], http.headers, announced=len(http.body))
