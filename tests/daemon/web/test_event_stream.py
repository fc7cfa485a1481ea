"""Events as they happen: which, how often, to whom, and what 200 streams that are asked for cost others.

Keeps 1, 2, 3 of daemon/web/event_stream.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import ServiceStatus
from lakeward.daemon.web import event_stream
from lakeward.daemon.web.connections import STREAMS_MAX, ConnectionLimits
from lakeward.daemon.web.event_stream import EventStream
from lakeward.daemon.web.http import HttpServer
from lakeward.state.records import EventRecord
from lakeward.state.store import Store
from lakeward.surface.documents import API
from lakeward.surface.store_answers import StoreAnswers
from tests.clocks import SettableClock
from tests.daemon.synthetic_status import NOW, service, table
from tests.daemon.web.api_example import STATUS, app_of, client_of, example_store

EVERYTHING: Callable[[str | None], bool] = lambda of: True  # noqa: E731


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:  # type: ignore[no-untyped-def]
    with example_store(f"sqlite:///{tmp_path}/lakeward.db") as store:
        yield store


class Counting(StoreAnswers):
    """Counts how often events are asked for."""

    asked = 0

    def events_after(self, event_id, limit):  # type: ignore[no-untyped-def]
        type(self).asked += 1
        return super().events_after(event_id, limit)


def streaming(store: Store, status: Callable[[], ServiceStatus] = lambda: STATUS, beat: float = 20.0) -> EventStream:
    Counting.asked = 0
    return EventStream(Counting(store, SettableClock(NOW)), status, poll_seconds=0.01, beat_seconds=beat)


def happen(store: Store, text: str, of: str | None = "orders") -> int:
    return store.events.record(EventRecord(NOW, "test", text, of))


async def texts(messages: AsyncIterator[bytes], number: int) -> list[str]:
    """The sentences of the next events."""
    found: list[str] = []
    while len(found) < number:
        message = (await asyncio.wait_for(anext(messages), 20)).decode()
        if message.startswith("id: "):
            found.append(json.loads(message.partition("data: ")[2])["text"])
    return found


def test_each_client_gets_what_happens_from_then_on_once(store: Store):
    """A client gets events of the tables that it wants; one that says which event it had last gets those since then
    first. The store is asked once for all of them."""

    async def story() -> None:
        stream = streaming(store)
        known = store.events.newest_id()
        late = stream.messages(known - 2, EVERYTHING)
        assert await texts(late, 2) == ["commit 1", "commit 2"]
        others = [stream.messages(None, lambda of: of == "other") for _ in range(5)]
        for other in others:
            assert (await anext(other)).startswith(b"retry:")
        for number in range(3):
            happen(store, f"orders {number}")
            happen(store, f"other {number}", "other")
        assert await texts(late, 6) == [f"{of} {number}" for number in range(3) for of in ("orders", "other")]
        asked = Counting.asked
        for other in others:
            assert await texts(other, 3) == ["other 0", "other 1", "other 2"]
        assert asked < 30 and stream.clients == 6
        for each in (late, *others):
            await each.aclose()  # type: ignore[attr-defined]
        assert stream.clients == 0

    asyncio.run(story())


def test_an_event_that_becomes_visible_late_is_not_missed(store: Store):
    """When two daemons write at the same time, the greater id may be there first."""

    async def story() -> None:
        stream = streaming(store)
        messages = stream.messages(None, EVERYTHING)
        await anext(messages)
        held: list[object] = []
        real = Counting.events_after

        def without_the_first(self, event_id, limit):  # type: ignore[no-untyped-def]
            return [event for event in real(self, event_id, limit) if event.text != "first" or held]

        Counting.events_after = without_the_first  # type: ignore[method-assign]
        try:
            happen(store, "first")
            happen(store, "second")
            assert await texts(messages, 1) == ["second"]
            held.append(True)
            assert await texts(messages, 1) == ["first"]
        finally:
            Counting.events_after = real  # type: ignore[method-assign]
            await messages.aclose()  # type: ignore[attr-defined]

    asyncio.run(story())


def test_a_client_that_does_not_read_is_left_behind(store: Store, monkeypatch: pytest.MonkeyPatch):
    """Its stream ends, and what it has then is in order; it comes again and says which event it had last."""
    monkeypatch.setattr(event_stream, "QUEUE_MAX", 20)

    async def story() -> None:
        stream = streaming(store)
        deaf = stream.messages(None, EVERYTHING)
        await anext(deaf)
        first = happen(store, "0")
        for number in range(1, 70):
            happen(store, str(number))
        while stream.clients:
            await asyncio.sleep(0.01)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(deaf), 10)
        again = stream.messages(first, EVERYTHING)
        assert await texts(again, 69) == [str(number) for number in range(1, 70)]
        await again.aclose()  # type: ignore[attr-defined]

    asyncio.run(story())


def test_silence_is_broken_now_and_then(store: Store):
    """A line without meaning, so that each end knows that the other one is there."""

    async def story() -> None:
        messages = streaming(store, beat=0.05).messages(None, EVERYTHING)
        await anext(messages)
        assert await asyncio.wait_for(anext(messages), 10) == b": beat\n\n"
        await messages.aclose()  # type: ignore[attr-defined]

    asyncio.run(story())


def test_tables_that_look_different_are_named(store: Store):
    """Not those of which only time has passed, and only to clients that want them."""
    tables = [table(name) for name in ("a", "b", "c")]
    shown = [service(*tables)]

    async def story() -> None:
        stream = streaming(store, lambda: shown[0], beat=0.2)
        messages = stream.messages(None, lambda of: of != "c")
        await anext(messages)
        later = [replace(each, outlook=replace(each.outlook, scanned_at=NOW + 9)) for each in tables]
        shown[0] = service(*later, at=NOW + 10)
        assert await asyncio.wait_for(anext(messages), 10) == b": beat\n\n"
        later[1:] = [replace(each, outlook=replace(each.outlook, state=TableState.QUEUED)) for each in later[1:]]
        shown[0] = service(*later)
        assert await asyncio.wait_for(anext(messages), 10) == b'event: status\ndata: {"tables": ["b"]}\n\n'
        await messages.aclose()  # type: ignore[attr-defined]

    asyncio.run(story())


def test_events_that_a_client_has_are_not_sent_again(store: Store):
    """A client without a stream asks with what it had."""
    client = client_of(STATUS, store)
    first = client.get(f"{API}/events?limit=1")
    again = client.get(f"{API}/events?limit=1", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    happen(store, "new")
    assert client.get(f"{API}/events?limit=1", headers={"If-None-Match": first.headers["etag"]}).status_code == 200


def ask(server: HttpServer, path: str, headers: str = "") -> tuple[socket.socket, bytes]:
    """A connection with the head of the answer to a request."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        part = connection.recv(4096)
        assert part, "it was cut off"
        head += part
    return connection, head


def seconds_for_health(server: HttpServer) -> float:
    def one() -> float:
        began = time.perf_counter()
        with urlopen(f"{server.address}-/healthy", timeout=20) as answer:
            assert answer.status == 200
        return time.perf_counter() - began

    return statistics.median(one() for _ in range(15))


def test_a_crowd_of_streams_delays_no_probe(store: Store):
    """A daemon gives 32 of the 200 that are asked for, which last although others come; the rest are to come later, and
    `/-/healthy` takes no 50 ms longer. A stream is real: what happens comes, and after its time it is cut off."""
    limits = ConnectionLimits(connections_max=64, stream_seconds=60, idle_seconds=0.2)
    server = HttpServer(app_of(replace(STATUS, at_monotonic=NOW), store), "127.0.0.1:0", limits)
    server.start()
    try:
        with ExitStack() as crowd:
            alone = seconds_for_health(server)
            heads = []
            for _ in range(200):
                connection, head = ask(server, f"{API}/events/stream")
                crowd.callback(connection.close)
                heads.append((connection, head))
            given = [connection for connection, head in heads if head.startswith(b"HTTP/1.1 200")]
            refused = [head for _, head in heads if head.startswith(b"HTTP/1.1 503")]
            assert len(given) == STREAMS_MAX and len(refused) == 200 - STREAMS_MAX
            assert all(b"\r\nretry-after: 30\r\n" in head.lower() for head in refused)
            assert seconds_for_health(server) - alone < 0.05
            for _ in range(100):
                half = crowd.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                half.sendall(b"GET /")
            happen(store, "after the crowd")
            for connection in given:
                seen = b""
                while b"after the crowd" not in seen:
                    part = connection.recv(65536)
                    assert part, "a stream was cut off for others"
                    seen += part
        began = time.perf_counter()
    finally:
        server.stop()
    assert time.perf_counter() - began < 1.5, "streams are not waited for at the end"


def test_a_stream_has_an_end(store: Store):
    """Its client connects again, and its place is free for another one."""
    limits = ConnectionLimits(connections_max=4, stream_seconds=0.3)
    server = HttpServer(app_of(STATUS, store), "127.0.0.1:0", limits)
    server.start()
    try:
        for _ in range(3):
            streams = [ask(server, f"{API}/events/stream", "Last-Event-ID: 1\r\n") for _ in range(limits.streams_max)]
            assert all(head.startswith(b"HTTP/1.1 200") for _, head in streams)
            for connection, _ in streams:
                try:
                    while connection.recv(65536):
                        pass
                except ConnectionError:
                    pass
                connection.close()
    finally:
        server.stop()


def test_streams_take_no_room_of_others(store: Store):
    """Other connections may be as many as without streams, and each of these is answered."""
    limits = ConnectionLimits(connections_max=4, header_seconds=30)
    server = HttpServer(app_of(replace(STATUS, at_monotonic=NOW), store), "127.0.0.1:0", limits)
    server.start()
    try:
        with ExitStack() as opened:
            for _ in range(limits.streams_max):
                opened.enter_context(ask(server, f"{API}/events/stream")[0])
            others = []
            for _ in range(limits.connections_max):
                others.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
                opened.enter_context(others[-1]).sendall(b"GET /-/healthy HTTP/1.1\r\n")
                time.sleep(0.02)
            for other in others:
                other.sendall(b"Host: 127.0.0.1\r\nConnection: close\r\n\r\n")
                assert other.recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        server.stop()


def test_a_stream_of_a_table_that_is_not_there(store: Store):
    """It has no stream, but a problem that says so."""
    client: TestClient = client_of(STATUS, store)
    assert client.get(f"{API}/events/stream?table=none").status_code == 404
