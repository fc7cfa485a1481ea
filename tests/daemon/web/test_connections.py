"""Half-open, slow and idle connections: they end, and keep no other client from an answer."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.request import urlopen

import pytest
import structlog
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from lakeward.daemon.web.connections import BoundedServer, ConnectionLimits, Seldom, connections_for
from lakeward.daemon.web.http import HttpServer

LARGE = 64 * 1024 * 1024


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    body = "x" * LARGE if scope["path"] == "/large" else "hello"
    await PlainTextResponse(body)(scope, receive, send)


@contextmanager
def serving(limits: ConnectionLimits) -> Iterator[HttpServer]:
    server = HttpServer(app, "127.0.0.1:0", limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def rest(connection: socket.socket) -> bytes:
    """What comes until the other side ends it."""
    data = b""
    try:
        while part := connection.recv(1024 * 1024):
            data += part
    except ConnectionError:
        pass
    return data


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_half_a_request_is_cut_off(begun: bytes) -> None:
    """The server does not wait for the rest of a header for longer than its time."""
    with serving(ConnectionLimits(header_seconds=0.2)) as server, connect(server) as half:
        half.sendall(begun)
        assert rest(half) == b""


def test_a_trickle_is_no_request() -> None:
    """A byte now and then does not win more time."""
    with serving(ConnectionLimits(header_seconds=0.5)) as server, connect(server) as slow:
        slow.settimeout(0.05)
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        sent = 0
        with pytest.raises(ConnectionError):
            for _ in range(400):
                slow.sendall(b"y")
                sent += 1
                try:
                    if not slow.recv(1):
                        raise ConnectionError
                except TimeoutError:
                    continue
        assert 0 < sent < 100


def test_an_idle_connection_ends() -> None:
    """It ends after an answer, and also when what follows is only the beginning of a request."""
    with serving(ConnectionLimits(idle_seconds=0.2, header_seconds=0.2)) as server:
        for more in (b"", b"G"):
            with connect(server) as idle:
                idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + more)
                assert rest(idle).endswith(b"hello")


@pytest.mark.slow
def test_an_answer_that_is_not_read_is_given_up() -> None:
    """What waits to be sent does not keep a connection for ever."""
    with serving(ConnectionLimits(answer_seconds=0.2, idle_seconds=0.2)) as server, connect(server) as deaf:
        deaf.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        with connect(server) as other:  # answered while the first one is not, and cut off by the same clock later
            other.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            other.shutdown(socket.SHUT_WR)
            with urlopen(server.address, timeout=20) as answer:
                assert answer.read() == b"hello"
            with pytest.raises(ConnectionError):
                while True:
                    deaf.sendall(b"z")
        assert len(rest(deaf)) < LARGE


def test_a_crowd_keeps_no_client_from_an_answer() -> None:
    """Three hundred half-open requests take as many descriptors as connections are allowed, and a probe is answered."""
    before = len(os.listdir("/dev/fd"))
    with serving(ConnectionLimits(connections_max=8, header_seconds=60)) as server, ExitStack() as crowd:
        for _ in range(300):
            half = crowd.enter_context(connect(server))
            half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        for _ in range(3):
            with urlopen(server.address, timeout=20) as answer:
                assert answer.read() == b"hello"
        own = 300 + 1 + 8  # their ends, the listening socket, and the loop's own
        assert len(os.listdir("/dev/fd")) - before <= own + 8


def test_connections_leave_descriptors_for_tables() -> None:
    """Open and waiting connections together are an eighth of all descriptors, but for a process that may have almost
    none."""
    assert connections_for(1024) == 64
    assert connections_for(1_000_000) == 64
    assert connections_for(256) == 16
    assert connections_for(20) == 4


def test_trouble_is_shown_once_a_minute() -> None:
    """A thousand failures to take a connection are one line, with how many they were; so are invalid requests."""
    now = [0.5]  # a minute is over a little late, as such sums go
    server = BoundedServer(uvicorn.Config(app), Seldom(lambda: now[0]))
    loop = asyncio.new_event_loop()
    context = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, "Too many open files"),
    }
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "Invalid HTTP request received.", None, None)
    passed = 0
    with structlog.testing.capture_logs() as lines:
        for _ in range(3_000):
            now[0] += 0.05
            server.on_loop_error(loop, context)
            passed += server._is_due(record)
    loop.close()
    assert [line["times"] for line in lines] == [1, 1201, 1201]
    assert "Too many open files" in lines[0]["error"]
    assert lines[0]["event"] == "trouble with connections: socket.accept() out of system resource"
    assert passed == 3
