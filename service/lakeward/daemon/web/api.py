"""The API for programs, below `/api/v1alpha`: the values of pages, metrics and commands as JSON.

    /service                          the daemon
    /tables                           those that match, the most urgent first
    /tables/NAME                      one of them; `/` in its name is `%2F`
    /tables/NAME/groups               its file groups as pages show them
    /tables/NAME/decisions            what was decided about these, also at an earlier time
    /tables/NAME/storage              bytes by state, over time
    /tables/NAME/examination          what the doctor found
    /jobs  /jobs/ID                   what runs and ran; one with its card
    /events  /events/stream           what happened; the same as it happens
    /costs                            what jobs took, by month
    /tables/NAME/pause|resume|cancel  POST: what an operator asks for, also of a file group
    /groups/NAME/pause|resume         POST: of all tables of a group
    /jobs/ID/cancel                   POST
    /openapi.json                     all of this, in a form that programs read

An error is a problem document (RFC 9457) with the code that the command line has for it.

Touches: the store; what changes it needs a token as `Bearer`, and a key that makes it safe to send again.
Keeps:   1. each path is in the document of the API, with the types of what it answers;
         2. an error has the form of a problem, and holds no traceback.
See:     docs/decisions/0181-an-api-of-the-same-values.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import unquote

import structlog
from fastapi import FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lakeward.base.errors import LakewardError, StoreUnavailable, UsageError
from lakeward.daemon.status import ServiceStatus, TablePage
from lakeward.daemon.web.access import AccessRules
from lakeward.daemon.web.api_actions import TableName, add_actions
from lakeward.daemon.web.connections import STREAMS_MAX, begin_stream
from lakeward.daemon.web.document_makers import (
    decision_document,
    group_document,
    service_document,
    table_document,
    whole_table,
)
from lakeward.daemon.web.event_stream import EventStream
from lakeward.daemon.web.pages import GroupQuery, groups_of
from lakeward.daemon.web.table_list import NEEDS_ATTENTION, ListQuery, TableSort, kinds_of, tables_of
from lakeward.surface.actions import Actions, KeyReused
from lakeward.surface.documents import API, EventDocument, JobDocument, MonthDocument, ProblemDocument
from lakeward.surface.store_answers import StoreAnswers
from lakeward.surface.table_documents import (
    DecisionDocument,
    ExaminationDocument,
    GroupDocument,
    ListDocument,
    ServiceDocument,
    StorageDocument,
    TableDocument,
    WholeTableDocument,
)
from lakeward.surface.table_kind import TableKind

PROBLEM: Final = "application/problem+json"

_LIMIT = 50
_LIMIT_MAX = 1000

_log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")


GroupOrder = Literal["group", "base_bytes", "log_bytes", "logs", "slices", "decision"]
Limit = Annotated[int, Query(ge=1, le=_LIMIT_MAX, description="How many, at most.")]
Offset = Annotated[int, Query(ge=0, description="How many to pass over.")]
OfTable = Annotated[str | None, Query(description="Only of the table of that name or short name.")]


def make_api(
    *,
    status: Callable[[], ServiceStatus],
    detail: Callable[[str], TablePage | None],
    stored: StoreAnswers,
    actions: Actions,
    access: AccessRules | None,
) -> ASGIApp:
    """
    Args:
        status: the newest one.
        detail: of a table by its name, None for one that is not watched.
        stored: what the store says.
        actions: what the store is asked for.
        access: who may act; None: everybody.
    """
    api = FastAPI(
        title="Lakeward",
        version="v1alpha",
        description="What a daemon of Lakeward knows of its tables, and what it does for them.",
        docs_url=None,
        redoc_url=None,
        servers=[{"url": API}],
        redirect_slashes=False,
        responses={400: {"model": ProblemDocument}, 404: {"model": ProblemDocument}, 503: {"model": ProblemDocument}},
    )
    get = partial(api.get, response_model_exclude_unset=True)
    stream = EventStream(stored, status)

    def page_of(table: str) -> TablePage:
        found = detail(_of_path(table))
        if found is None:
            raise _no_such_table(_of_path(table))
        return found

    def name_of(table: str) -> str:
        found = status().table(table)
        if found is None:
            raise _no_such_table(table)
        return found.name

    def asked(table: str | None) -> str | None:
        return None if table is None else name_of(table)

    @get("/service", tags=["service"], summary="The daemon")
    def service() -> ServiceDocument:
        return service_document(status())

    @get("/tables", tags=["tables"], summary="Tables, the most urgent first")
    def tables(
        search: Annotated[str, Query(description="A part of the name or of the path, in any case.")] = "",
        state: Annotated[Sequence[str], Query(description="States, of which one must be the table's.")] = (),
        concerned: Annotated[bool | None, Query(description="Whether it needs attention.")] = None,
        group: Annotated[str | None, Query(description="The group of tables that it is in.")] = None,
        kind: Annotated[TableKind | None, Query(description="What it is first of all.")] = None,
        sort: TableSort = TableSort.URGENCY,
        limit: Limit = _LIMIT,
        offset: Offset = 0,
    ) -> ListDocument[TableDocument]:
        now = status()
        kinds = kinds_of(now.tables, now.at)
        found = [
            table
            for table in tables_of(now.tables, ListQuery(search, kind, sort), now.at, kinds)
            if (not state or table.state.value in state)
            and (group is None or table.served.settings.group == group)
            and (concerned is None or (kinds[table.name] in NEEDS_ATTENTION) is concerned)
        ]
        return _part(found, offset, limit, partial(table_document, now=now.at))

    @get("/tables/{table}", tags=["tables"], summary="A table")
    def table(table: TableName) -> WholeTableDocument:
        return whole_table(page_of(table))

    @get("/tables/{table}/groups", tags=["tables"], summary="File groups of a table, and what was decided about them")
    def groups(
        table: TableName,
        sort: GroupOrder = "log_bytes",
        order: Annotated[Literal["asc", "desc"] | None, Query(description="Sizes fall and names rise if none.")] = None,
        choice: Annotated[Literal["FULL", "LOG", "NONE", "undecided"] | None, Query(description="All if none.")] = None,
        limit: Limit = _LIMIT,
        offset: Offset = 0,
    ) -> ListDocument[GroupDocument]:
        query = GroupQuery.parse({"sort": sort, "order": order or "", "choice": choice or ""})
        return _part(groups_of(page_of(table).groups, query), offset, limit, group_document)

    @get("/tables/{table}/decisions", tags=["tables"], summary="What was decided about file groups, now or earlier")
    def decisions(
        table: TableName,
        at: Annotated[float | None, Query(description="Seconds since the epoch; the newest if not given.")] = None,
        limit: Limit = _LIMIT,
        offset: Offset = 0,
    ) -> ListDocument[DecisionDocument]:
        return _part(stored.decisions(name_of(_of_path(table)), at), offset, limit, decision_document)

    @get("/tables/{table}/storage", tags=["tables"], summary="Bytes by state, the oldest count first")
    def storage(table: TableName) -> list[StorageDocument]:
        return stored.storage(name_of(_of_path(table)))

    @get("/tables/{table}/examination", tags=["tables"], summary="What the doctor found in a table, and when")
    def examination(table: TableName) -> ExaminationDocument:
        return stored.examination(name_of(_of_path(table)))

    @get("/jobs", tags=["jobs"], summary="What runs and ran, the newest first")
    def jobs(table: OfTable = None, limit: Limit = _LIMIT) -> list[JobDocument]:
        return stored.jobs(asked(table), limit)

    @get("/jobs/{job}", tags=["jobs"], summary="A job: why, what it took and what was predicted")
    def job(job: Annotated[str, Path(description="Its id.")]) -> JobDocument:
        return stored.job(job).document

    @get("/costs", tags=["jobs"], summary="What jobs took, by month, table and service")
    def costs(table: OfTable = None) -> list[MonthDocument]:
        return stored.costs(asked(table))

    @get(
        "/events",
        tags=["events"],
        summary="What happened, the newest first",
        response_model=list[EventDocument],
        responses={304: {"description": "As the client has it, by `If-None-Match`."}},
    )
    def events(
        request: Request,
        response: Response,
        table: OfTable = None,
        limit: Limit = _LIMIT,
        before: Annotated[int | None, Query(description="Only events whose id is less.")] = None,
    ) -> Any:
        found = stored.events(asked(table), limit, before)
        # An event never changes, so the first, the last and their number say which ones these are.
        response.headers["ETag"] = tag = f'"{found[0].id}-{found[-1].id}-{len(found)}"' if found else '"none"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return found

    @api.get(
        "/events/stream",
        tags=["events"],
        summary="What happens, as it happens: server-sent events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def event_stream(
        request: Request,
        table: OfTable = None,
        last_event_id: Annotated[
            str | None, Header(description="The id of the event that the client had last.")
        ] = None,
    ) -> Response:
        """Each message without a name is an event, with its id. One that is named `status` says which tables look
        different than before; `tables` is null where there are many. A line that begins with `:` only says that the
        daemon is there."""
        name = asked(table)
        if not begin_stream(request.scope):
            return problem(
                503,
                "There is no room for another stream of events.",
                why=f"{STREAMS_MAX} are open, or fewer where this process may not have so many files open.",
                remedy=f"Ask again later, or GET {API}/events with If-None-Match.",
                headers={"Retry-After": "30"},
            )
        after = int(last_event_id) if last_event_id is not None and last_event_id.isdecimal() else None
        messages = stream.messages(after, lambda of: name is None or of == name)
        return StreamingResponse(messages, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    add_actions(
        api,
        actions,
        access=access,
        table_named=lambda table: name_of(_of_path(table)),
        groups=lambda: {table.served.settings.group for table in status().tables},
    )

    _answer_problems(api)
    description = api.openapi

    def without_other_errors() -> dict[str, Any]:
        """FastAPI announces an answer 422, which is none of this API."""
        if api.openapi_schema is None:
            document = description()
            for path in document["paths"].values():
                for operation in path.values():
                    if (found := operation["responses"].get("422")) is not None and "HTTPValidationError" in str(found):
                        del operation["responses"]["422"]
            for name in ("HTTPValidationError", "ValidationError"):
                document["components"]["schemas"].pop(name, None)
        return description()

    api.openapi = without_other_errors  # type: ignore[method-assign]
    return _with_quoted_names(api)


def _answer_problems(api: FastAPI) -> None:
    def of_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, LakewardError)
        return problem(_status_of(error), error.what, why=error.why, remedy=error.remedy, code=error.code)

    def of_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
        return problem(400, "The request cannot be answered as it was asked.", why=f"{wrong}.", remedy=_SEE_DOCUMENT)

    def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem(error.status_code, error.detail, remedy=_SEE_DOCUMENT, headers=error.headers)

    def of_others(request: Request, error: Exception) -> Response:
        why = "What went wrong is in the daemon's log."
        return problem(500, "The answer could not be made.", why=why, code=LakewardError.code)

    api.exception_handler(LakewardError)(of_error)
    api.exception_handler(Exception)(of_others)
    api.exception_handler(RequestValidationError)(of_request)
    api.exception_handler(HTTPException)(of_http)


_SEE_DOCUMENT = f"{API}/openapi.json has all paths and parameters."


def problem(
    status: int,
    title: str,
    *,
    why: str = "",
    remedy: str = "",
    code: str = UsageError.code,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer that says why there is no other one."""
    document = ProblemDocument(
        type=f"urn:lakeward:error:{code}", code=code, title=title, status=status, detail=why, remedy=remedy
    )
    return Response(document.model_dump_json(), status, media_type=PROBLEM, headers=headers)


def _status_of(error: LakewardError) -> int:
    if isinstance(error, KeyReused):
        return 422
    if isinstance(error, UsageError):
        return 404
    return 503 if isinstance(error, StoreUnavailable) else 500


def _no_such_table(name: str) -> UsageError:
    return UsageError(
        f"No table is watched under the name {name}.",
        why="Neither a name nor a short name of a table of this daemon is equal to it.",
        remedy=f"GET {API}/tables lists the tables.",
    )


S = TypeVar("S")


def _part(found: Sequence[S], offset: int, limit: int, document: Callable[[S], T]) -> ListDocument[T]:
    items = [document(each) for each in found[offset : offset + limit]]
    return ListDocument(items=items, total=len(found), offset=offset)


def _of_path(table: str) -> str:
    return unquote(table, errors="surrogateescape")


def _with_quoted_names(api: ASGIApp) -> ASGIApp:
    """A name may hold `/`, which is `%2F` in a path, and has to be that until the path is taken apart."""

    async def quoted(scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope["raw_path"].decode("ascii", errors="replace")
        await api({**scope, "path": raw}, receive, send)

    return quoted
