"""The endpoints of one chain: reads go to one that is not behind, writes once to all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from adapters.transport.jsonrpc import CallFailed, Garbled, JsonRpc, Lost, Params, RpcError, Unreachable
from gateway.core.errors import BadReply, ChainError, ConfigError, NodeUnavailable

CheckIdentity = Callable[[JsonRpc], Awaitable[str | None]]
"""Asks an endpoint which chain it is on: None when it is the right one, else what is wrong."""

PROBE_EVERY = 5.0
_REMEMBER = 120.0
_LIMIT_EXCEEDED = -32005

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Endpoint:
    """`trusted`: it answered last time, and its identity was checked since it last did not."""

    client: JsonRpc
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    trusted: bool = False
    height: int = -1
    checks: int = 0
    checked_at: float = float("-inf")
    failed_at: float = float("-inf")
    failure: CallFailed | None = None
    refusal: str = ""


class Endpoints:
    """Chooses who is asked. Repeats no call on the same endpoint and never sleeps.

    An endpoint that cannot be reached or whose answer was lost is left out until its identity was checked
    again: the wrong chain is never asked. An error that a node answers with says nothing about its health.
    """

    def __init__(
        self,
        chain: str,
        clients: Sequence[JsonRpc],
        *,
        check_identity: CheckIdentity,
        probe_every: float = PROBE_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chain = chain
        self._endpoints = [_Endpoint(client) for client in clients]
        self._check_identity = check_identity
        self._probe_every = probe_every
        self._clock = clock
        self._revival: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Check every endpoint's identity. ConfigError: all that are on a wrong chain.

        NodeUnavailable: none answers. One that does not is left out when another does.
        """
        await self._admit_all()
        wrong = [f"chain {self.chain}: {e.client.name}: {e.refusal}" for e in self._endpoints if e.refusal]
        if wrong:
            await self.close()
            raise ConfigError(wrong)
        if not any(e.trusted for e in self._endpoints):
            error = self._failed("open", self._failures())
            await self.close()
            raise error
        for e in self._endpoints:
            if not e.trusted:
                _log.warning("endpoint is down at start", chain=self.chain, node=e.client.name, why=str(e.failure))

    async def close(self) -> None:
        """Close every connection; may be called twice."""
        revival, self._revival = self._revival, None
        if revival is not None:
            revival.cancel()
            await asyncio.gather(revival, return_exceptions=True)
        for e in self._endpoints:
            await e.client.close()

    @property
    def floor(self) -> int:
        """The greatest height that is known; whoever is under it is behind (-1: nothing is known yet).

        One that does not answer any more counts for two minutes, so that its successor is not one that lags.
        """
        now = self._clock()
        return max(
            (e.height for e in self._endpoints if e.trusted or now - e.failed_at < _REMEMBER),
            default=-1,
        )

    def note_height(self, name: str, height: int) -> None:
        """Keep the height at which an endpoint says that it is; it may be less than the last one."""
        for e in self._endpoints:
            if e.client.name == name:
                e.height = height

    async def read(self, method: str, params: Params = ()) -> object:
        """Return a result. NodeUnavailable: nobody gives one, or the node answered with an error."""
        answer = await self.ask(method, params)
        if isinstance(answer, RpcError):
            raise self.unavailable(method, answer)
        return answer

    async def ask(self, method: str, params: Params = ()) -> object:
        """Return a result, or the node's error as an RpcError for the caller to read."""
        return await self._first(method, lambda client: client.call(method, params))

    async def ask_batch(self, calls: Sequence[tuple[str, Params]]) -> list[object]:
        """Return the result or the RpcError of each call, all of one endpoint."""
        methods = "+".join(sorted({method for method, _ in calls}))
        answers = await self._first(methods, lambda client: client.batch(calls))
        # An error that met the whole batch is the error of each.
        return answers if isinstance(answers, list) else [answers] * len(calls)

    async def ask_all(self, method: str, params: Params = ()) -> list[tuple[str, object]]:
        """Return (endpoint, result or RpcError) of every healthy endpoint that answered, at least one.

        Meant for the call that is made all the time: it also has the missing endpoints looked for, aside.
        """
        self._look_for_missing()
        answers = await self._everywhere(method, params)
        good = [(name, answer) for name, answer in answers if not isinstance(answer, Unreachable | Lost)]
        if not good:
            raise self._failed(method, [(n, a) for n, a in answers if isinstance(a, CallFailed)])
        return good

    async def write_all(self, method: str, params: Params = ()) -> list[tuple[str, object]]:
        """Call every healthy endpoint once; return (endpoint, result, RpcError, Lost or Unreachable) of each.

        NodeUnavailable: there is none, and nothing was sent.
        """
        return await self._everywhere(method, params)

    async def revive(self) -> None:
        """Check every missing endpoint again that was not checked for a while."""
        await self._admit_all(due=True)

    def unavailable(self, method: str, error: RpcError) -> NodeUnavailable:
        """Return the core's error for a node that answered a read with an error."""
        return NodeUnavailable(str(error), chain=self.chain, call=method)

    def bad_reply(self, method: str, message: str) -> BadReply:
        """Return the core's error for an answer that the protocol does not allow."""
        return BadReply(message, chain=self.chain, call=method)

    async def _first(self, method: str, run: Callable[[JsonRpc], Awaitable[object]]) -> object:
        """Ask one endpoint after the other until one answers; the missing ones last."""
        floor = self.floor
        busy: RpcError | None = None
        failures: list[tuple[str, CallFailed]] = []
        present = [e for e in self._endpoints if e.trusted]
        for e in [*present, *(e for e in self._endpoints if e not in present)]:
            if e.height < floor:
                failures.append((e.client.name, CallFailed(f"behind: at {e.height}, {floor} is known")))
                continue
            if not await self._admit(e):
                failures.append((e.client.name, self._why(e)))
                continue
            try:
                answer = await run(e.client)
            except RpcError as error:
                answer = error
            except (Unreachable, Lost) as error:
                self._miss(e, error)
                failures.append((e.client.name, error))
                continue
            if isinstance(answer, RpcError) and (answer.status == 429 or answer.code == _LIMIT_EXCEEDED):
                busy = answer
                continue
            return answer
        if busy is not None:
            return busy
        raise self._failed(method, failures)

    async def _everywhere(self, method: str, params: Params) -> list[tuple[str, object]]:
        present = [e for e in self._endpoints if e.trusted]
        if not present:
            await self._admit_all()
            present = [e for e in self._endpoints if e.trusted]
        if not present:
            raise self._failed(method, self._failures())
        answers = await asyncio.gather(*(self._one(e, method, params) for e in present))
        return [(e.client.name, answer) for e, answer in zip(present, answers, strict=True)]

    async def _one(self, e: _Endpoint, method: str, params: Params) -> object:
        try:
            return await e.client.call(method, params)
        except RpcError as error:
            return error
        except (Unreachable, Lost) as error:
            self._miss(e, error)
            return error

    def _miss(self, e: _Endpoint, error: CallFailed) -> None:
        if e.trusted:
            _log.warning("endpoint is missing", chain=self.chain, node=e.client.name, why=str(error))
        e.trusted = False
        e.failed_at = self._clock()
        e.failure = error

    async def _admit_all(self, *, due: bool = False) -> None:
        now = self._clock()
        missing = [e for e in self._endpoints if not e.trusted]
        if due:
            missing = [e for e in missing if now - e.checked_at >= self._probe_every]
        await asyncio.gather(*(self._admit(e) for e in missing))

    async def _admit(self, e: _Endpoint) -> bool:
        """Say whether an endpoint may be used, after a look at its identity if it was missing."""
        if e.trusted:
            return True
        before = e.checks
        async with e.lock:
            if e.checks != before:  # somebody else asked while we waited
                return e.trusted
            e.checked_at = self._clock()
            try:
                problem = await self._check_identity(e.client)
            except CallFailed as error:
                e.failure = error
                return False
            finally:
                e.checks += 1
            if problem is not None:
                if e.refusal != problem:
                    _log.warning("endpoint is refused", chain=self.chain, node=e.client.name, why=problem)
                e.refusal = problem
                return False
            if e.failed_at > float("-inf") or e.refusal:
                _log.info("endpoint is back", chain=self.chain, node=e.client.name)
            e.refusal = ""
            e.failure = None
            e.trusted = True
            return True

    def _look_for_missing(self) -> None:
        if all(e.trusted for e in self._endpoints) or not any(e.trusted for e in self._endpoints):
            return
        if self._revival is None or self._revival.done():
            self._revival = asyncio.create_task(self.revive(), name=f"{self.chain}: look for endpoints")

    def _why(self, e: _Endpoint) -> CallFailed:
        return CallFailed(e.refusal) if e.refusal else (e.failure or CallFailed("not asked"))

    def _failures(self) -> list[tuple[str, CallFailed]]:
        return [(e.client.name, self._why(e)) for e in self._endpoints if not e.trusted]

    def _failed(self, method: str, failures: Sequence[tuple[str, CallFailed]]) -> ChainError:
        """BadReply when an endpoint answered nonsense and no other helped; else none was there."""
        text = "; ".join(f"{name}: {why}" for name, why in failures)
        if any(isinstance(why, Garbled) for _, why in failures):
            return self.bad_reply(method, text)
        return NodeUnavailable(text or "no endpoint", chain=self.chain, call=method)
