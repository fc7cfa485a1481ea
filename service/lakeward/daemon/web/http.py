"""The daemon's HTTP API: pages for people, `/metrics` for Prometheus, health for the supervisor that keeps it running.

It runs on a thread of its own and reads values that the loop left (`daemon/status.py`); it never waits for the loop.

    /                        all tables                 /-/healthy  /healthz  /livez    the loop runs
    /tables/NAME  /jobs/ID   one of them                /-/ready    /readyz             tables are serviced
    /metrics                 text or OpenMetrics        /-/reload   POST, same origin   read the configuration again
    /style.css  /live.js  /icon.svg                     /-/reads    POST, same origin   a read that an engine reports
    /openapi.json            /api/v1alpha/…             for programs (`daemon/web/api.py`)

Who may ask is in `daemon/web/access.py`, how many at a time in `daemon/web/connections.py`.

Touches: one TCP port.
Keeps:   1. every answer has the same security headers, errors included, and only stylesheet, script and icon may be
            kept;
         2. nothing but POST /-/reload, /-/reads and the actions of the API has an effect, and no page of another origin
            can ask for them;
         3. an answer never holds a traceback;
         4. what is refused for its host or for want of a token says nothing about any table, not even that it is there.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError, NotFound, UsageError
from lakeward.base.quantities import format_duration
from lakeward.daemon.metrics.exposition import Exposition
from lakeward.daemon.status import JobPage, MonthTotal, ReloadOutcome, ServicePhase, ServiceStatus, TablePage
from lakeward.daemon.web.access import AccessRules, Denial
from lakeward.daemon.web.api import problem
from lakeward.daemon.web.connections import BoundedConnection, BoundedServer, ConnectionLimits, Seldom
from lakeward.daemon.web.pages import GroupQuery, Pages, job_of_link, table_of_link
from lakeward.daemon.web.pushed_reads import REPORT_BYTES_MAX
from lakeward.daemon.web.table_list import ListQuery
from lakeward.protocol.problem import problem_of
from lakeward.surface.documents import API

LOOP_SILENT_SECONDS_MAX = 60.0
"""The loop comes round every second or so; when it has not for this long, only a new process helps."""

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Endpoint = Callable[[Request], Response]

_log = structlog.stdlib.get_logger(__name__)

_HEADER_BYTES_MAX = 16 * 1024
_OTHER_ORIGIN = "Asked by a page of another origin."
_WENT_WRONG = "The answer could not be made. What went wrong is in the daemon's log."
_CODES = ((UsageError, 400), (NotFound, 404))
"""What is answered for errors; for others, that the store does not answer."""

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


def make_http(
    *,
    registry: CollectorRegistry,
    status: Callable[[], ServiceStatus],
    detail: Callable[[str], TablePage | None],
    job: Callable[[str], JobPage | None],
    reload: Callable[[], ReloadOutcome],
    take_read: Callable[[bytes], int],
    clock: Clock,
    api: ASGIApp,
    access: AccessRules | None = None,
    month: Callable[[], MonthTotal | None] = lambda: None,
) -> ASGIApp:
    """
    Args:
        api: what answers below `API`.
        access: who may ask; None: everybody.
        month: what jobs on all tables took this month, as far as that is known.
        status: the newest one; called often, from several threads, and must not wait for anything.
        detail: of a table by its name, None for one that is not watched. Called from threads of its own.
        job: of a job by its id, None for one that is not known. Called from threads of its own.
        reload: reloads the configuration, and answers when it is in force or refused.
        take_read: counts a read that an engine reports, and says how many reads it were (`pushed_reads.py`).
    """
    pages = Pages()
    exposition = Exposition(registry, clock)

    def all_tables(request: Request) -> Response:
        return _answer(pages.all_tables(status(), ListQuery.parse(request.query_params), month()))

    def one_table(request: Request) -> Response:
        name = table_of_link(request.scope["raw_path"].decode("ascii", errors="replace"))
        found = detail(name)
        if found is None:
            return _answer(
                pages.message("No such table", f"No table is watched under the name “{name}”."), status_code=404
            )
        return _answer(pages.one_table(found, GroupQuery.parse(request.query_params)))

    def one_job(request: Request) -> Response:
        job_id = job_of_link(request.scope["raw_path"].decode("ascii", errors="replace"))
        found = job(job_id)
        if found is None:
            text = f"No job is known under the id “{job_id}”; ended jobs are forgotten after 90 days."
            return _answer(pages.message("No such job", text), status_code=404)
        return _answer(pages.one_job(found, refresh=request.query_params.get("refresh") != "off"))

    def metrics(request: Request) -> Response:
        scrape = exposition.scrape(openmetrics="application/openmetrics-text" in request.headers.get("accept", ""))
        return _answer(scrape.body, scrape.content_type)

    def healthy(request: Request) -> Response:
        silent = clock.monotonic() - status().at_monotonic
        if silent > LOOP_SILENT_SECONDS_MAX:
            return _answer(f"The loop has not run for {format_duration(silent)}.\n", TEXT, status_code=503)
        return _answer("Healthy.\n", TEXT)

    def ready(request: Request) -> Response:
        now = status()
        if now.is_ready:
            return _answer("Ready.\n", TEXT)
        why = "the store does not answer" if now.phase is ServicePhase.RUNNING else now.phase.value
        return _answer(f"Not ready: {why}.\n", TEXT, status_code=503)

    def reload_(request: Request) -> Response:
        if not _is_same_origin(request):
            return _answer(_json(False, (_OTHER_ORIGIN,)), JSON, 403)
        outcome = reload()
        return _answer(_json(outcome.applied, outcome.problems), JSON, 200 if outcome.applied else 500)

    async def reads(request: Request) -> Response:
        if not _is_same_origin(request):
            return _answer(_json(False, (_OTHER_ORIGIN,)), JSON, 403)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > REPORT_BYTES_MAX:
                return _answer(_json(False, (f"A report has {REPORT_BYTES_MAX} bytes at most.",)), JSON, 413)
        try:
            counted = await run_in_threadpool(take_read, body)
        except LakewardError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), 503)
            return _answer(_json(False, (problem_of(error).text,)), JSON, code)
        except Exception:
            _log.exception("a read could not be counted")
            return _answer(_json(False, (_WENT_WRONG,)), JSON, 500)
        return _answer(json.dumps({"counted": counted}) + "\n", JSON)

    def style(request: Request) -> Response:
        return _answer(
            pages.stylesheet, "text/css; charset=utf-8", headers={"Cache-Control": "max-age=31536000, immutable"}
        )

    def live(request: Request) -> Response:
        return _answer(
            pages.script, "text/javascript; charset=utf-8", headers={"Cache-Control": "max-age=31536000, immutable"}
        )

    def icon(request: Request) -> Response:
        return _answer(pages.icon, "image/svg+xml", headers={"Cache-Control": "max-age=86400"})

    def description(request: Request) -> Response:
        return _answer("", headers={"Location": f"{API}/openapi.json"}, status_code=307)

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title, text = error.detail, ""
        if error.status_code == 404:
            title, text = "No such page", "The pages are the one of all tables, and one for each table and each job."
        return _answer(pages.message(title, text), status_code=error.status_code, headers=error.headers)

    def route(path: str, endpoint: Endpoint, *methods: str) -> Route:
        def guarded(request: Request) -> Response:
            try:
                return endpoint(request)
            except Exception:
                # Here and not in Starlette's own handler, which would raise it once more for uvicorn to log.
                _log.exception("a request could not be answered", path=request.url.path)
                return _answer(pages.message("Something went wrong", _WENT_WRONG), status_code=500)

        return Route(path, guarded, methods=list(methods) or None)

    app = Starlette(
        routes=[
            route("/", all_tables),
            route("/tables/{name:path}", one_table),
            route("/jobs/{name:path}", one_job),
            route("/metrics", metrics),
            *(route(path, healthy) for path in ("/-/healthy", "/healthz", "/livez")),
            *(route(path, ready) for path in ("/-/ready", "/readyz")),
            route("/-/reload", reload_, "POST"),
            Route("/-/reads", reads, methods=["POST"]),
            route("/style.css", style),
            route("/live.js", live),
            route("/icon.svg", icon),
            route("/openapi.json", description),
            Mount(API, api),
        ],
        exception_handlers={HTTPException: refused},
    )
    app.router.redirect_slashes = False
    return _with_headers(app if access is None else _guard(app, access, pages))


_DENIED: Mapping[Denial, tuple[str, str, Mapping[str, str]]] = {
    Denial.OTHER_HOST: (
        "Not under this name",
        "This daemon does not know the name that was asked for. The names that it has are listed as http.hosts.",
        {},
    ),
    Denial.NO_TOKEN: (
        "A token is needed",
        "Give it as a bearer token, or as the password of any user.",
        {"WWW-Authenticate": 'Basic realm="Lakeward", charset="UTF-8"'},
    ),
}


def _guard(app: ASGIApp, access: AccessRules, pages: Pages) -> ASGIApp:
    """The app for those who may ask; a short answer for others."""
    as_page, as_problem = {}, {}
    for denial, (title, text, headers) in _DENIED.items():
        as_page[denial] = _answer(pages.message(title, text), status_code=denial.value, headers=headers)
        as_problem[denial] = problem(denial.value, title, remedy=text, headers=headers)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = access.refusal(scope["path"], Headers(scope=scope)) if scope["type"] == "http" else None
        if refusal is None:
            await app(scope, receive, send)
        elif scope["path"].startswith(f"{API}/"):
            await as_problem[refusal](scope, receive, send)
        else:
            await as_page[refusal](scope, receive, send)

    return guarded


def _with_headers(app: ASGIApp) -> ASGIApp:
    """The app, with the headers that each answer has, errors and refusals included. What went wrong below in a way that
    was not foreseen is in the log alone."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await app(scope, receive, headed)
        except Exception:
            # The app has answered.
            _log.exception("a request could not be answered", path=scope["path"])

    return answered


def _answer(
    content: str | bytes,
    content_type: str = HTML,
    status_code: int = 200,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    # A name from a file system may hold half of a character; a page shows a question mark in its place.
    body = content.encode(errors="replace") if isinstance(content, str) else content
    return Response(body, status_code, headers={"Content-Type": content_type, **(headers or {})})


def _json(applied: bool, problems: Sequence[str]) -> str:
    return json.dumps({"applied": applied, "problems": list(problems)}) + "\n"


def _is_same_origin(request: Request) -> bool:
    """Browsers say where a POST comes from; what says nothing is no browser."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


class HttpServer:
    """An app on a port, from `start` to `stop`."""

    def __init__(self, app: ASGIApp, listen: str, limits: ConnectionLimits | None = None) -> None:
        """
        Args:
            listen: `127.0.0.1:8490`, `[::]:8490`; port 0 takes any free one.
        """
        self._listen = listen
        self._limits = limits = limits or ConnectionLimits()
        seldom = Seldom()
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            http=cast(type[asyncio.Protocol], partial(BoundedConnection, limits, seldom)),
            h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
            backlog=limits.connections_max,
            ws="none",
            loop="asyncio",
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
        )
        self._server = BoundedServer(config, seldom)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        assert self._socket is not None, "started first"
        return int(self._socket.getsockname()[1])

    @property
    def address(self) -> str:
        """What a person on this machine types into a browser."""
        host = _split(self._listen)[0]
        here = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
        return f"http://[{here}]:{self.port}/" if ":" in here else f"http://{here}:{self.port}/"

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Connections are taken when this returns. Raises `UsageError` when the address cannot be had."""
        host, port = _split(self._listen)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=self._limits.connections_max)
        except OSError as error:
            raise UsageError(
                f"The address {self._listen} cannot be listened on.",
                why=f"{error.strerror or error}.",
                remedy="Stop what uses it, or set another service.listen.",
            ) from error
        self._thread = threading.Thread(target=self._run, name="lakeward-http", daemon=True)
        self._thread.start()

    def stop(self, *, wait_seconds: float = 5.0) -> None:
        """Answers that have begun may end, within two seconds; then the port is free."""
        if self._thread is None or self._socket is None:
            return
        self._server.should_exit = True
        self._thread.join(wait_seconds)
        self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None
        self._server.run(sockets=[self._socket])


def _split(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise UsageError(
            f"service.listen cannot be '{listen}'.",
            why="It has no port between 0 and 65535.",
            remedy="Write it like 127.0.0.1:8490 or [::]:8490.",
        )
    return host.strip("[]"), int(port)
