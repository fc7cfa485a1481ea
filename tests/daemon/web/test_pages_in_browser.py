"""The pages in a real browser, from a real server: what it makes of them, and what it has to say about them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lakeward.daemon.status import ReloadOutcome, ServiceStatus, TableStatus
from lakeward.daemon.web.http import HttpServer, make_http
from lakeward.daemon.web.pages import table_link
from lakeward.daemon.web.table_list import TABLES_A_PAGE, in_order, kinds_of
from tests.browser import visit
from tests.clocks import SkippingClock
from tests.daemon.synthetic_status import (
    LIMITATION,
    NOW,
    detail,
    hostile_tables,
    job_page,
    service,
    table,
    varied_tables,
)

pytestmark = pytest.mark.browser

MANY = tuple(table(f"lake.table_{number:03}") for number in range(60 - len(varied_tables())))


class Listening:
    """Remembers what was asked for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.paths: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        await self._app(scope, receive, send)


class Served:
    def __init__(self) -> None:
        self.tables: tuple[TableStatus, ...] = ()
        app = make_http(
            registry=CollectorRegistry(),
            status=self.status,
            detail=lambda name: next((detail(each) for each in self.tables if each.name == name), None),
            job=job_page,
            reload=lambda: ReloadOutcome(True),
            take_read=len,
            clock=SkippingClock(),
            api=Response(status_code=404),
        )
        self.heard = Listening(app)
        self.server = HttpServer(self.heard, "127.0.0.1:0")

    def status(self) -> ServiceStatus:
        return service(*self.tables, limitations=(LIMITATION,))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served()
    served.server.start()
    yield served
    served.server.stop()


@pytest.mark.parametrize("number", [0, 3, 60])
@pytest.mark.parametrize("width", [1440, 360])
def test_the_page_of_all_tables_in_a_browser(served: Served, number: int, width: int):
    """It has a row for each table, fifty at most; the console stays empty, and no other server is asked."""
    served.tables = (*varied_tables(), *MANY)[:number]
    served.heard.paths.clear()

    seen = visit(f"{served.server.address}?refresh=off", width=width)

    assert seen.console == ()
    assert len(re.findall(r'<td class="state">', seen.dom)) == min(number, TABLES_A_PAGE)
    shown = in_order(served.tables, NOW, kinds_of(served.tables, NOW))[:TABLES_A_PAGE]
    assert all(f">{each.name}</a>" in seen.dom for each in shown)
    assert set(served.heard.paths) == {"/", "/style.css", "/icon.svg"} or set(served.heard.paths) == {"/", "/style.css"}
    assert ("No tables yet" in seen.dom) == (number == 0)
    if number == 60:
        first = seen.dom.partition("<tbody>")[2].partition("</tr>")[0]
        assert ">broken</a>" in first and "cannot be read" in first
        last = visit(f"{served.server.address}?refresh=off&page=2", width=width)
        assert last.console == ()
        nothing = re.search(r'<span class="sign quiet">(<svg.*?</svg>) nothing to do</span>', seen.dom + last.dom)
        assert nothing is not None and "M2 6h8" in nothing[1], "neither the tick nor the cross"


def test_tables_are_searched_for_in_a_browser(served: Served):
    """The form of a page that is paused is one that the browser may send; what it asks for is shown."""
    served.tables = (*varied_tables(), *MANY)

    held = visit(f"{served.server.address}?refresh=off")
    found = visit(f"{served.server.address}?search=TABLE_007")

    assert held.console == found.console == ()
    assert '<form class="search"' in held.dom
    assert len(re.findall(r'<td class="state">', found.dom)) == 1 and ">lake.table_007</a>" in found.dom


def test_the_page_of_one_table_in_a_browser(served: Served):
    """It shows the file groups, each with its reason, what its indexes cover and how far a build of one is, and the
    storage over time as a picture of its own."""
    served.tables = varied_tables()

    seen = visit(f"{served.server.address}tables/orders?refresh=off&sort=group&choice=FULL")

    assert seen.console == ()
    assert '<th scope="col" aria-sort="ascending">' in seen.dom
    assert seen.dom.count("FULL, base and logs into a new base") == 46
    assert ' class="why">34 of 37 base files; <strong class="bad">2 could not be read</strong></td>' in seen.dom
    assert "</strong>: A build has read 12 of 46 file groups, the last one 5 min ago.</p>" in seen.dom
    assert re.findall(r'<path class="of-(\w+)" d="M[^"]+Z"', seen.dom) == [
        *("live", "pinned", "retained", "dead", "uncommitted", "quarantined")
    ]


def test_hostile_names_stay_words_in_a_browser(served: Served):
    """What the browser makes of them is text: no script, no handler."""
    served.tables = hostile_tables()

    for link in ("", *(table_link(each.name)[1:] for each in hostile_tables())):
        seen = visit(f"{served.server.address}{link}?refresh=off")

        assert seen.console == ()
        assert "<script" not in seen.dom
        assert not re.search(r"<[^>]* on\w+=", re.sub(r'"[^"]*"', '""', seen.dom))
        assert "Something went wrong" not in seen.dom
        assert "No such table" not in seen.dom


def test_a_page_that_asks_for_more_than_it_may_is_heard_of(served: Served):
    """The check of the console sees what it is for: a page with a script, an inline style and a foreign image."""

    async def careless(scope: Scope, receive: Receive, send: Send) -> None:
        body = b'<p style="color:red">x<script>1</script><img src="http://elsewhere.example/x.png">'
        csp = (b"content-security-policy", b"default-src 'none'")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html"), csp]})
        await send({"type": "http.response.body", "body": body})

    server = HttpServer(careless, "127.0.0.1:0")
    server.start()
    try:
        assert len(visit(server.address).console) >= 3
    finally:
        server.stop()
