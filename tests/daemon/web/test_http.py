from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from lakeward.base.errors import NotFound, StoreUnavailable, UsageError
from lakeward.daemon.metrics.metrics import Metrics
from lakeward.daemon.status import ReloadOutcome, ServicePhase, ServiceStatus, TablePage
from lakeward.daemon.web.access import AccessRules
from lakeward.daemon.web.http import LOOP_SILENT_SECONDS_MAX, SECURITY_HEADERS, HttpServer, make_http
from lakeward.daemon.web.pages import table_link
from lakeward.daemon.web.pushed_reads import REPORT_BYTES_MAX
from tests.daemon.scrape import compare, value
from tests.daemon.synthetic_status import detail, hostile_tables, job_page, service, varied_tables

KUBE = {"/-/healthy": ("/healthz", "/livez"), "/-/ready": ("/readyz",)}


class StillClock:
    """Monotonic time that a test sets."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        raise AssertionError("an answer never sleeps")


@dataclass
class Daemon:
    """What the server is made of, to be changed by a test."""

    status: ServiceStatus = field(default_factory=lambda: service(*varied_tables()))
    outcome: ReloadOutcome = field(default_factory=lambda: ReloadOutcome(True))
    reloads: int = 0
    reads: list[bytes] = field(default_factory=list)
    read_fails: Exception | None = None
    clock: StillClock = field(default_factory=lambda: StillClock(1000.0))
    asked: list[str] = field(default_factory=list)
    detail: Callable[[str], TablePage | None] | None = None

    def take_read(self, body: bytes) -> int:
        self.reads.append(body)
        if self.read_fails is not None:
            raise self.read_fails
        return len(self.reads)

    def reload(self) -> ReloadOutcome:
        self.reloads += 1
        return self.outcome

    def find(self, name: str) -> TablePage | None:
        self.asked.append(name)
        found = self.status.table(name)
        return None if found is None else detail(found)


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


NO_API = Response(status_code=404)


def make_app(daemon: Daemon, access: AccessRules | None = None) -> ASGIApp:
    metrics = Metrics(CollectorRegistry())
    metrics.show(lambda: daemon.status)
    return make_http(
        registry=metrics.registry,
        status=lambda: daemon.status,
        detail=lambda name: (daemon.detail or daemon.find)(name),
        job=job_page,
        reload=daemon.reload,
        take_read=daemon.take_read,
        clock=daemon.clock,
        api=NO_API,
        access=access,
    )


@pytest.fixture
def client(daemon: Daemon) -> TestClient:
    return TestClient(make_app(daemon), base_url="http://127.0.0.1:8490", raise_server_exceptions=True)


PATHS = (
    "/",
    "/tables/orders",
    "/jobs/j1",
    "/jobs/unknown",
    "/metrics",
    "/-/healthy",
    "/-/ready",
    "/style.css",
    "/live.js",
    "/icon.svg",
    "/nothing",
    "/tables/x",
)


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_security_headers(client: TestClient, path: str):
    """Errors have them, too; and nothing may be kept but what has its content in its address."""
    answer = client.get(path)

    for name, content in SECURITY_HEADERS.items():
        assert answer.headers[name] == content
    kept = path in ("/style.css", "/live.js", "/icon.svg")
    assert answer.headers["cache-control"].startswith("max-age" if kept else "no-store")
    assert "server" not in answer.headers


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(client: TestClient, path: str):
    """It has the same status and headers, and names the same length."""
    got, head = client.get(path), client.head(path)

    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["content-type"] == got.headers["content-type"]


def test_pages_are_pages(client: TestClient):
    """There is one of all tables, and one of each."""
    assert "clickstream.events_raw" in client.get("/").text
    assert "<h1>orders</h1>" in client.get("/tables/orders").text
    answer = client.get("/tables/orders", params={"choice": "FULL", "page": "zzz", "sort": "<"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_stylesheet_is_where_the_pages_say(client: TestClient):
    """The address of the stylesheet changes with it."""
    html = client.get("/").text
    link = html.split('rel="stylesheet" href="')[1].split('"')[0]

    assert client.get(link).headers["content-type"] == "text/css; charset=utf-8"
    assert "?v=" in link


def test_the_link_of_every_name_reaches_its_table(client: TestClient, daemon: Daemon):
    """Base paths, URLs, marks of HTML and bytes that are no text."""
    daemon.status = service(*hostile_tables())
    assert client.get("/").status_code == 200

    for table in hostile_tables():
        answer = client.get(table_link(table.name))
        assert (answer.status_code, daemon.asked[-1]) == (200, table.name)


def test_a_table_that_is_not_watched_is_404(client: TestClient):
    """The page shows what was asked for, as words."""
    answer = client.get("/tables/%3Cb%3Ex")

    assert answer.status_code == 404
    assert "“&lt;b&gt;x”" in answer.text


@pytest.mark.parametrize("path", ["/nothing", "/tables", "/-/quit", "/metrics/", "/tables/../etc/passwd", "/%00"])
def test_what_is_not_there_is_404(client: TestClient, path: str):
    """The page of the error leads back."""
    answer = client.get(path)

    assert answer.status_code == 404
    assert 'href="/"' in answer.text


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/ready", "/tables/orders"])
def test_nothing_else_can_be_posted(client: TestClient, path: str):
    """Pages are read-only."""
    answer = client.post(path)

    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]


def test_metrics_are_text_and_on_request_openmetrics(client: TestClient):
    """Prometheus asks for the newer format, curl for nothing."""
    plain = client.get("/metrics")
    newer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"})

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert value(plain.text, "lakeward_ready") == 1
    comparison = compare(plain.text)
    assert (comparison.undocumented, comparison.missing, comparison.wrong) == (frozenset(), frozenset(), ())
    assert newer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert "lakeward_tables" in {family.name for family in parse_openmetrics(newer.text)}


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=x", "text/plain; version=9.z", "é", "*/*"])
def test_metrics_are_given_whatever_is_accepted(client: TestClient, accept: str):
    """A scrape never fails for its header."""
    answer = client.get("/metrics", headers={"Accept": accept.encode()})

    assert answer.status_code == 200
    assert "lakeward_ready" in answer.text


def test_it_is_healthy_while_the_loop_comes_round(client: TestClient, daemon: Daemon):
    """A loop that hangs is what a new process mends."""
    for path in ("/-/healthy", *KUBE["/-/healthy"]):
        assert (client.get(path).status_code, client.get(path).text) == (200, "Healthy.\n")

    daemon.clock.at += LOOP_SILENT_SECONDS_MAX + 1

    for path in ("/-/healthy", *KUBE["/-/healthy"]):
        assert client.get(path).status_code == 503
        assert "1 min" in client.get(path).text


@pytest.mark.parametrize("phase", [ServicePhase.STARTING, ServicePhase.STOPPING])
def test_it_is_ready_while_it_services_tables(client: TestClient, daemon: Daemon, phase: ServicePhase):
    """It is not ready while it starts or stops, and healthy all the same."""
    assert all(client.get(path).status_code == 200 for path in ("/-/ready", *KUBE["/-/ready"]))

    daemon.status = replace(daemon.status, phase=phase)

    for path in ("/-/ready", *KUBE["/-/ready"]):
        assert (client.get(path).status_code, client.get(path).text) == (503, f"Not ready: {phase.value}.\n")
    assert client.get("/livez").status_code == 200


def test_it_is_not_ready_without_its_store(client: TestClient, daemon: Daemon):
    """Whatever else goes on: it may service no table then."""
    assert client.get("/-/ready").status_code == 200
    daemon.status = replace(daemon.status, lease=replace(daemon.status.lease, leader=False))
    for path in ("/-/ready", "/readyz"):
        assert client.get(path).status_code == 503
        assert client.get(path).text == "Not ready: the store does not answer.\n"
    assert client.get("/-/healthy").status_code == 200


def test_a_reload_answers_what_became_of_it(client: TestClient, daemon: Daemon):
    """It was applied, or refused with every problem."""
    applied = client.post("/-/reload")
    assert (applied.status_code, applied.json()) == (200, {"applied": True, "problems": []})

    daemon.outcome = ReloadOutcome(False, ("lakeward.toml:3:1: no such key: intervall; did you mean interval?",))
    refused = client.post("/-/reload")

    assert refused.status_code == 500
    assert refused.json() == {"applied": False, "problems": list(daemon.outcome.problems)}
    assert refused.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Origin": "http://127.0.0.1:8490"}, True),
        ({"Origin": "http://127.0.0.1:8490", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://127.0.0.1:8491"}, False),
        ({"Origin": "null"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://[bad"}, False),
    ],
)
def test_no_page_of_another_origin_can_ask_for_a_reload(
    client: TestClient, daemon: Daemon, headers: dict[str, str], allowed: bool
):
    """curl may, our own pages may, the others' may not; and no GET does."""
    answer = client.post("/-/reload", headers=headers)

    assert answer.status_code == (200 if allowed else 403)
    assert daemon.reloads == int(allowed)
    assert client.get("/-/reload").status_code == 405
    assert daemon.reloads == int(allowed)


def test_an_engine_reports_a_read(client: TestClient, daemon: Daemon):
    """It is counted, or refused with why; no page of another origin can, and its size is bounded."""
    answer = client.post("/-/reads", content=b"one")
    assert (answer.status_code, answer.json(), daemon.reads) == (200, {"counted": 1}, [b"one"])
    assert answer.headers["cache-control"] == "no-store"
    assert client.get("/-/reads").status_code == 405
    assert client.post("/-/reads", content=b"x", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/-/reads", content=b"x" * (REPORT_BYTES_MAX + 1)).status_code == 413
    assert daemon.reads == [b"one"]
    assert client.post("/-/reads", content=b"x" * REPORT_BYTES_MAX).status_code == 200
    for error, code in (
        (UsageError("It is no JSON."), 400),
        (NotFound("No such table."), 404),
        (StoreUnavailable("It is away."), 503),
        (RuntimeError("secret-of-the-inside"), 500),
    ):
        daemon.read_fails = error
        refused = client.post("/-/reads", content=b"x")
        assert refused.status_code == code
        assert "secret-of-the-inside" not in refused.text and refused.json()["problems"]


def test_a_read_is_reported_with_the_token(daemon: Daemon):
    client = TestClient(make_app(daemon, AccessRules(token="a-token-of-some-length")), base_url="http://127.0.0.1:8490")
    assert client.post("/-/reads", content=b"x").status_code == 401
    headers = {"Authorization": "Bearer a-token-of-some-length"}
    assert client.post("/-/reads", content=b"x", headers=headers).status_code == 200
    assert daemon.reads == [b"x"]


@pytest.mark.slow
def test_an_answer_that_cannot_be_made_says_so_and_no_more(
    client: TestClient, daemon: Daemon, caplog: pytest.LogCaptureFixture
):
    """No traceback reaches the page; it goes to the log, once; the headers stay."""

    def fail(name: str) -> TablePage:
        raise RuntimeError("secret-of-the-inside")

    daemon.detail = fail

    answer = client.get("/tables/orders")

    assert answer.status_code == 500
    assert "secret-of-the-inside" not in answer.text
    assert "Something went wrong" in answer.text
    assert answer.headers["content-security-policy"] == SECURITY_HEADERS["Content-Security-Policy"]


@pytest.fixture
def server(daemon: Daemon) -> Iterator[HttpServer]:
    app = make_http(
        registry=CollectorRegistry(),
        status=lambda: daemon.status,
        detail=daemon.find,
        job=job_page,
        reload=daemon.reload,
        take_read=daemon.take_read,
        clock=daemon.clock,
        api=NO_API,
    )
    server = HttpServer(app, "127.0.0.1:0")
    server.start()
    yield server
    server.stop()


def test_a_server_answers_when_start_returns_and_its_port_is_free_after_stop(server: HttpServer):
    """It takes any free port, and says which."""
    with urlopen(f"{server.address}-/healthy", timeout=10) as answer:
        assert answer.read() == b"Healthy.\n"
        assert answer.headers["Server"] is None

    port = server.port
    server.stop()

    with socket.create_server(("127.0.0.1", port)) as again:
        assert again.getsockname()[1] == port


def test_an_idle_connection_does_not_hold_a_stop_up(server: HttpServer):
    """Browsers and Prometheus keep their connections open."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/-/ready")
    assert connection.getresponse().read() == b"Ready.\n"

    server.stop()

    assert not server.is_running
    connection.close()


def test_half_a_request_does_not_hold_others_up(server: HttpServer):
    """A client begins a request and says no more."""
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        with urlopen(f"{server.address}-/ready", timeout=10) as answer:
            assert answer.status == 200


def test_a_port_that_is_taken_is_shown_in_three_sentences(server: HttpServer):
    """What, why, and what to do."""
    second = HttpServer(make_nothing(), f"127.0.0.1:{server.port}")

    with pytest.raises(UsageError) as raised:
        second.start()

    assert str(server.port) in raised.value.what
    assert raised.value.why.startswith("Address already in use")
    assert "service.listen" in raised.value.remedy
    second.stop()


@pytest.mark.parametrize("listen", ["8490", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000", ":²"])
def test_an_address_without_a_port_is_refused(listen: str):
    """The error says how to write it."""
    with pytest.raises(UsageError) as raised:
        HttpServer(make_nothing(), listen).start()

    assert "127.0.0.1:8490" in raised.value.remedy


def test_an_address_for_everybody_is_shown_as_one_for_this_machine():
    """A browser does not open 0.0.0.0."""
    server = HttpServer(make_nothing(), "0.0.0.0:0")
    server.start()
    try:
        assert server.address == f"http://127.0.0.1:{server.port}/"
    finally:
        server.stop()


def make_nothing():
    """An app for servers that get no request."""
    daemon = Daemon()
    return make_http(
        registry=CollectorRegistry(),
        status=lambda: daemon.status,
        detail=daemon.find,
        job=job_page,
        reload=daemon.reload,
        take_read=daemon.take_read,
        clock=daemon.clock,
        api=NO_API,
    )


def test_json_is_ascii_whatever_the_problem_holds(client: TestClient, daemon: Daemon):
    """A path in a problem may be bytes that are no text."""
    daemon.outcome = ReloadOutcome(False, ("half\udce4",))

    assert json.loads(client.post("/-/reload").content)["problems"] == ["half\udce4"]
