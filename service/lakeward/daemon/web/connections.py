"""Connections to the daemon's HTTP API: how many there may be, how long each may take, and what is said of the rest.

    made --header_seconds--> request is there --answer_seconds--> answered --idle_seconds--> next request, or the end
                                     `--it is a stream of events: stream_seconds--> cut off, and the client comes again

A connection that is too slow is cut off. Where there are too many, the one that has been silent the longest makes room,
so that a crowd of half-open ones does not keep the next probe from its answer. Streams of events are silent for long,
and are counted by themselves: none makes room for others, and no others make room for them.

Touches: the connections; the log, once a minute for each kind of trouble.
Keeps:   1. there are never more than `connections_max`, and `streams_max` streams beside them, so that files and stores
            have descriptors left;
         2. no connection lives longer than its requests and these times, whatever its other end sends or does not read;
         3. trouble that comes a thousand times a second is logged once a minute, with how often it came.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import structlog
import uvicorn
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

SAY_SECONDS = 60.0

STREAMS_MAX = 32

_CONNECTIONS_MAX = 64
_CONNECTIONS_MIN = 4
_SHARE_OF_DESCRIPTORS = 16
# Connections that the kernel keeps until they are taken. The loop would also take so many at a time, each with a
# descriptor; so it gets a smaller number, and the kernel this one afterwards.
_QUEUE = 1024

_log = structlog.stdlib.get_logger(__name__)


def connections_for(descriptors: int) -> int:
    """How many connections a process that may have so many descriptors can afford.

    As many again may have been taken before others are cut off, so that all of them are at most an eighth. Streams are
    half as many.
    """
    return max(_CONNECTIONS_MIN, min(_CONNECTIONS_MAX, descriptors // _SHARE_OF_DESCRIPTORS))


def _connections_here() -> int:
    return connections_for(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    connections_max: int = field(default_factory=_connections_here)
    header_seconds: float = 10.0
    """Seconds from the first byte of a request, or from the connection's beginning, to the end of its header."""
    answer_seconds: float = 60.0
    """Seconds from there until the answer is handed over."""
    idle_seconds: float = 10.0
    """Seconds from there until something comes; the server itself ends it a little sooner."""
    stream_seconds: float = 3600.0
    """Seconds that a stream of events lasts; its client connects again, and misses nothing."""

    @property
    def streams_max(self) -> int:
        return min(STREAMS_MAX, self.connections_max // 2)


class Seldom:
    """Says a thing at most once a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said: dict[str, float] = {}
        self._times: dict[str, int] = {}

    def is_due(self, what: str) -> int:
        """How often it came since it was said last, this time included; 0 while it is too soon to say it again."""
        self._times[what] = self._times.get(what, 0) + 1
        now = self._monotonic()
        if now - self._said.get(what, -SAY_SECONDS) < SAY_SECONDS:
            return 0
        self._said[what] = now
        return self._times.pop(what)

    def say(self, what: str, **fields: object) -> None:
        if times := self.is_due(what):
            _log.warning(what, times=times, **fields)


class _Phase(Enum):
    HEADER = "no whole request came"
    ANSWER = "its answer was not read"
    IDLE = "nothing came"
    STREAM = "its time is over"


class BoundedConnection(H11Protocol):
    """One connection. Every wait of it has an end."""

    def __init__(self, limits: ConnectionLimits, seldom: Seldom, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._seldom = seldom
        self._phase = _Phase.HEADER
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_cut = False

    @property
    def is_waiting(self) -> bool:
        """For its other end, and not the other way round."""
        return not self.is_cut and self._phase in (_Phase.HEADER, _Phase.IDLE)

    @property
    def is_stream(self) -> bool:
        return not self.is_cut and self._phase is _Phase.STREAM

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        has_room = self._has_room()
        super().connection_made(transport)
        self._enter(_Phase.HEADER)
        if not has_room:
            self.cut("all connections are being answered")

    def data_received(self, data: bytes) -> None:
        if self._phase is _Phase.IDLE:
            self._enter(_Phase.HEADER)
        before = self.cycle
        super().data_received(data)
        self._begin_if_new(before)

    def on_response_complete(self) -> None:
        before = self.cycle
        self._enter(_Phase.IDLE)
        super().on_response_complete()
        self._begin_if_new(before)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.is_cut = True
        super().connection_lost(exc)

    def cut(self, why: str) -> None:
        """End it now, with what was not sent."""
        self.is_cut = True
        self._seldom.say("connection cut off", why=why, peer=self.client[0] if self.client else "")
        self.transport.abort()

    def _begin_if_new(self, before: object) -> None:
        if self.cycle is not before and self.cycle is not None and not self.cycle.response_complete:
            self._enter(_Phase.ANSWER)
            # The app runs only after this, and asks for it where the answer is to be a stream.
            self.scope.setdefault("extensions", {})[_EXTENSION] = {"begin": self._begin_stream}

    def _begin_stream(self) -> bool:
        """Whether there is room for one more; this connection is one from now on."""
        if sum(other.is_stream for other in _bounded(self.connections)) >= self._limits.streams_max:
            return False
        self._enter(_Phase.STREAM)
        return True

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
        seconds = {
            _Phase.HEADER: self._limits.header_seconds,
            _Phase.ANSWER: self._limits.answer_seconds,
            _Phase.IDLE: self._limits.idle_seconds,
            _Phase.STREAM: self._limits.stream_seconds,
        }[phase]
        self._timer = self.loop.call_later(seconds, self.cut, phase.value)

    def _has_room(self) -> bool:
        """Make it, if need be."""
        others = [other for other in _bounded(self.connections) if not other.is_stream]
        if sum(not other.is_cut for other in others) < self._limits.connections_max:
            return True
        waiting = [other for other in others if other.is_waiting]
        if not waiting:
            return False
        min(waiting, key=lambda other: other._since).cut("others came")
        return True


_EXTENSION = "lakeward.stream"


def begin_stream(scope: Scope) -> bool:
    """Whether the answer to a request may be a stream of events, which lasts as long as its client wants; one of a
    server without connections of its own, such as that of a test, may."""
    offered = scope.get("extensions", {}).get(_EXTENSION)
    return True if offered is None else bool(offered["begin"]())


TICK_SECONDS = 0.5


class BoundedServer(uvicorn.Server):
    """Says of trouble with connections what there is to say, now and then."""

    def __init__(self, config: uvicorn.Config, seldom: Seldom) -> None:
        super().__init__(config)
        self._seldom = seldom
        self._logger = logging.getLogger("uvicorn.error")

    async def main_loop(self) -> None:
        """Asks twice a second whether to end; the library's own loop does ten times, a fifth of what idling costs."""
        while not await self.on_tick(0):
            await asyncio.sleep(TICK_SECONDS)

    async def startup(self, sockets: Any = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self.on_loop_error)
        self._logger.addFilter(self._is_due)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_QUEUE)

    async def shutdown(self, sockets: Any = None) -> None:
        for stream in [one for one in _bounded(self.server_state.connections) if one.is_stream]:
            stream.transport.abort()  # it would be waited for
        await super().shutdown(sockets)
        self._logger.removeFilter(self._is_due)

    def on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's own handler writes a traceback for each; without descriptors that is hundreds a second."""
        error = context.get("exception")
        self._seldom.say(f"trouble with connections: {context['message']}", error=repr(error))
        if isinstance(error, OSError):
            for waiting in [one for one in _bounded(self.server_state.connections) if one.is_waiting]:
                waiting.cut("descriptors are short")

    def _is_due(self, record: logging.LogRecord) -> bool:
        return record.levelno < logging.WARNING or self._seldom.is_due(str(record.msg)) > 0


def _bounded(connections: Any) -> Iterator[BoundedConnection]:
    return (one for one in connections if isinstance(one, BoundedConnection))
