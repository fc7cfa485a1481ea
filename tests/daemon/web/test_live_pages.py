"""Pages that stay open in a real browser: they follow what happens, by one stream for all tabs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import ServiceStatus
from lakeward.daemon.web.http import HttpServer
from lakeward.state.records import EventRecord
from lakeward.state.store import Store
from lakeward.surface.documents import API
from tests.browser import opened
from tests.daemon.synthetic_status import NOW, service, table
from tests.daemon.web.api_example import app_of, example_store

pytestmark = pytest.mark.browser

STREAM = f"{API}/events/stream"

_REPORT = b"""<script>
const field = document.querySelector("#find");
field.focus();
field.value = "half a wo";
setInterval(() => fetch("/seen", {method: "POST", body: JSON.stringify({
  now: document.querySelector("#now p").textContent, live: document.querySelector("#live").textContent,
  typed: document.querySelector("#find").value,
  fields: document.querySelectorAll("#find").length,
})}), 100);
</script></body>"""


class Daemon:
    """Serves its pages with one more script that says what is to be seen, and remembers what was asked for."""

    def __init__(self, store: Store) -> None:
        self.state = TableState.IDLE
        self.has_streams = True
        self.asked: list[tuple[str, bool]] = []
        """Paths, and whether the page's own script asked."""
        self.seen: list[dict[str, object]] = []
        self._app: ASGIApp = app_of(self.status, store)

    def status(self) -> ServiceStatus:
        shown = table("orders", self.state, f"It is {self.state.value}.")
        return service(shown, table("other"), at_monotonic=NOW)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if scope["path"] == "/seen":
            self.seen.append(json.loads((await receive())["body"]))
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        self.asked.append((scope["path"], b"x-lakeward-live" in headers))
        if scope["path"] == STREAM and not self.has_streams:
            await send({"type": "http.response.start", "status": 503, "headers": [(b"retry-after", b"30")]})
            await send({"type": "http.response.body", "body": b""})
            return

        async def reporting(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = (b"content-security-policy", b"content-length")
                message["headers"] = [each for each in message["headers"] if each[0] not in kept]
            elif "body" in message and scope["path"].startswith("/tables/"):
                message["body"] = message["body"].replace(b"</body>", _REPORT)
            await send(message)

        await self._app(scope, receive, reporting)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[tuple[Daemon, HttpServer, Store]]:
    with example_store(f"sqlite:///{tmp_path}/lakeward.db") as store:
        daemon = Daemon(store)
        server = HttpServer(daemon, "127.0.0.1:0")
        server.start()
        yield daemon, server, store
        server.stop()


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_page_follows_its_table(daemon: tuple[Daemon, HttpServer, Store]):
    """A state that changes is on the page without a reload, and an event of another table asks for nothing. What is
    typed into a field meanwhile stays."""
    shown, server, store = daemon
    with opened(f"{server.address}tables/orders"):
        until(lambda: bool(shown.seen) and shown.seen[-1]["live"] == "Live", f"no stream: {shown.asked}")
        shown.state = TableState.QUEUED
        until(lambda: "It is queued." in str(shown.seen[-1]["now"]), f"not seen: {shown.seen[-1]}")
        asked = [by_script for path, by_script in shown.asked if path == "/tables/orders"]
        assert asked[0] is False and asked.count(False) == 1, "the page was loaded once"
        before = len(shown.asked)
        store.events.record(EventRecord(NOW, "test", "x", "other"))
        time.sleep(2.5)
        assert [path for path, _ in shown.asked[before:] if path.startswith("/tables")] == []
        assert [path for path, _ in shown.asked].count(STREAM) == 1
        assert shown.seen[-1]["live"] == "Live"
        assert (shown.seen[-1]["typed"], shown.seen[-1]["fields"]) == ("half a wo", 1)


def test_without_a_stream_the_page_asks(daemon: tuple[Daemon, HttpServer, Store]):
    """It asks whether anything happened, with what it knows, and changes when something did."""
    shown, server, store = daemon
    shown.has_streams = False
    with opened(f"{server.address}tables/orders"):
        until(lambda: any(path == f"{API}/events" for path, _ in shown.asked), "it did not ask")
        assert shown.seen[-1]["live"] == "Refreshes every 5 s"
        shown.state = TableState.PAUSED
        store.events.record(EventRecord(NOW, "test", "x", "orders"))
        until(lambda: "It is paused." in str(shown.seen[-1]["now"]), "not seen")
