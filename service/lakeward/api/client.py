"""A daemon asked from Python: the API below `/api/v1alpha`, with the same documents.

    client = lakeward.Client("http://lakeward:8490", token=…)
    for table in client.tables(concerned=True):
        print(table.title, *table.concerns)

Touches: the daemon, over HTTP.
Keeps:   1. a list that has more than one answer holds is asked for in parts, and comes whole;
         2. what the daemon refuses is raised as the error that it names, with its reason and remedy.
See:     docs/reference/api.md
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from lakeward.base.errors import LakewardError, StoreUnavailable, UsageError
from lakeward.surface.documents import API, ControlDocument, Document, EventDocument, JobDocument, MonthDocument
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

ANSWER_SECONDS = 30.0
PART = 500
"""Items of a list that are asked for at once."""

D = TypeVar("D", bound=Document)

_ERRORS: Mapping[int, type[LakewardError]] = {
    **dict.fromkeys((400, 403, 404, 409, 422), UsageError),
    503: StoreUnavailable,
}


class Client:
    """Each call is one request, or one for each part of a list. Raises `UsageError` for what the daemon does not know,
    `StoreUnavailable` where its store does not answer, and `LakewardError` where it does not answer itself."""

    def __init__(self, url: str, *, token: str | None = None, timeout: float = ANSWER_SECONDS) -> None:
        """
        Args:
            url: `http://lakeward:8490`.
            token: `http.token` of its configuration.
            timeout: seconds to wait for an answer.
        """
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
        self._timeout = timeout

    @property
    def url(self) -> str:
        return self._url

    def service(self) -> ServiceDocument:
        return ServiceDocument.model_validate(self._get("/service"))

    def tables(
        self,
        *,
        search: str | None = None,
        state: Iterable[str] = (),
        kind: str | None = None,
        concerned: bool | None = None,
        group: str | None = None,
        sort: str | None = None,
    ) -> Iterator[TableDocument]:
        """The tables that match, the most urgent first.

        Args:
            search: a part of the name or of the path, in any case.
            state: of which one must be the table's.
            kind: `unreadable`, `parked`, `refused`, `late`, `concerned`, `held`, `waiting`, `working`, `calm` or
                `elsewhere`.
            concerned: whether it needs attention.
            group: the group of tables that it is in.
            sort: `urgency`, `name`, `oldest` or `log_bytes`.
        """
        asked = {
            "search": search,
            "state": list(state),
            "kind": kind,
            "concerned": concerned,
            "group": group,
            "sort": sort,
        }
        return self._all("/tables", TableDocument, asked)

    def first_tables(
        self, number: int, *, offset: int = 0, search: str | None = None, sort: str | None = None
    ) -> ListDocument[TableDocument]:
        """So many of the tables that match, and how many there are."""
        asked = {"limit": number, "offset": offset, "search": search, "sort": sort}
        return ListDocument[TableDocument].model_validate(self._get("/tables", asked))

    def table(self, name: str) -> WholeTableDocument:
        return WholeTableDocument.model_validate(self._get(_of(name)))

    def groups(self, table: str, *, choice: str | None = None, sort: str | None = None) -> Iterator[GroupDocument]:
        """File groups of a table.

        Args:
            choice: `FULL`, `LOG`, `NONE` or `undecided`.
            sort: `group`, `base_bytes`, `log_bytes`, `logs`, `slices` or `decision`.
        """
        return self._all(f"{_of(table)}/groups", GroupDocument, {"choice": choice, "sort": sort})

    def decisions(self, table: str, *, at: float | None = None) -> Iterator[DecisionDocument]:
        """What was decided about file groups of a table.

        Args:
            at: seconds since the epoch; None: the newest.
        """
        return self._all(f"{_of(table)}/decisions", DecisionDocument, {"at": at})

    def storage(self, table: str) -> list[StorageDocument]:
        return _each(StorageDocument, self._get(f"{_of(table)}/storage"))

    def examination(self, table: str) -> ExaminationDocument:
        """What the doctor found in a table, and when."""
        return ExaminationDocument.model_validate(self._get(f"{_of(table)}/examination"))

    def jobs(self, table: str | None = None, *, limit: int = 50) -> list[JobDocument]:
        """The newest first."""
        return _each(JobDocument, self._get("/jobs", {"table": table, "limit": limit}))

    def job(self, job_id: str) -> JobDocument:
        """With its card."""
        return JobDocument.model_validate(self._get(f"/jobs/{quote(job_id, safe='')}"))

    def costs(self, table: str | None = None) -> list[MonthDocument]:
        return _each(MonthDocument, self._get("/costs", {"table": table}))

    def events(self, table: str | None = None, *, limit: int = 50, before: int | None = None) -> list[EventDocument]:
        """The newest first.

        Args:
            before: only events whose id is less.
        """
        return _each(EventDocument, self._get("/events", {"table": table, "limit": limit, "before": before}))

    def pause(
        self,
        table: str,
        reason: str,
        *,
        seconds: float | None = None,
        file_group: tuple[str, str] | None = None,
        by: str = "",
        key: str | None = None,
    ) -> ControlDocument:
        """Have nothing new begin for a table, or for one of its file groups.

        Args:
            seconds: how long; None: until it is resumed.
            file_group: partition path and file id.
            by: who asks, for events and pages.
            key: of the request, to send it again where the answer was lost; None: a new one.
        """
        asked = {"reason": reason, "seconds": seconds, "file_group": file_group, "by": by}
        return self._post(f"{_of(table)}/pause", asked, key)

    def resume(
        self,
        table: str,
        reason: str = "",
        *,
        file_group: tuple[str, str] | None = None,
        by: str = "",
        key: str | None = None,
    ) -> ControlDocument:
        """End a pause, and release what is parked there."""
        return self._post(f"{_of(table)}/resume", {"reason": reason, "file_group": file_group, "by": by}, key)

    def cancel(self, table: str, reason: str, *, by: str = "", key: str | None = None) -> ControlDocument:
        """Stop the jobs of a table that run; nothing half-done stays visible."""
        return self._post(f"{_of(table)}/cancel", {"reason": reason, "by": by}, key)

    def pause_group(
        self, group: str, reason: str, *, seconds: float | None = None, by: str = "", key: str | None = None
    ) -> ControlDocument:
        """The same for all tables of a group."""
        return self._post(
            f"/groups/{quote(group, safe='')}/pause", {"reason": reason, "seconds": seconds, "by": by}, key
        )

    def resume_group(self, group: str, reason: str = "", *, by: str = "", key: str | None = None) -> ControlDocument:
        return self._post(f"/groups/{quote(group, safe='')}/resume", {"reason": reason, "by": by}, key)

    def cancel_job(self, job_id: str, reason: str, *, by: str = "", key: str | None = None) -> ControlDocument:
        return self._post(f"/jobs/{quote(job_id, safe='')}/cancel", {"reason": reason, "by": by}, key)

    def _post(self, path: str, asked: Mapping[str, Any], key: str | None) -> ControlDocument:
        given = {name: value for name, value in asked.items() if value is not None}
        headers = {"Content-Type": "application/json", "Idempotency-Key": key or uuid.uuid4().hex}
        request = Request(f"{self._url}{API}{path}", json.dumps(given).encode(), self._headers | headers, method="POST")
        return ControlDocument.model_validate(self._answer(request))

    def _all(self, path: str, document: type[D], asked: Mapping[str, Any]) -> Iterator[D]:
        offset, total = 0, 1
        while offset < total:
            part = self._get(path, {**asked, "limit": PART, "offset": offset})
            yield from _each(document, part["items"])
            offset, total = offset + PART, part["total"]

    def _get(self, path: str, asked: Mapping[str, Any] | None = None) -> Any:
        given = {name: _text(value) for name, value in (asked or {}).items() if value not in (None, [])}
        address = f"{self._url}{API}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        return self._answer(Request(address, headers=self._headers))

    def _answer(self, request: Request) -> Any:
        try:
            with urlopen(request, timeout=self._timeout) as answer:
                return json.load(answer)
        except HTTPError as refused:
            raise _error_of(refused, self._url) from refused
        except (OSError, ValueError) as error:
            raise LakewardError(
                f"No daemon answers at {self._url}.",
                why=f"{getattr(error, 'reason', error)}.",
                remedy="Give the address of a running daemon, its service.listen, or of the proxy before it.",
            ) from error


def _of(table: str) -> str:
    return f"/tables/{quote(table, safe='', errors='surrogateescape')}"


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _each(document: type[D], found: Iterable[Any]) -> list[D]:
    return [document.model_validate(each) for each in found]


def _error_of(refused: HTTPError, url: str) -> LakewardError:
    try:
        problem = json.loads(refused.read())
        what, why, remedy = (str(problem[name]) for name in ("title", "detail", "remedy"))
    except (ValueError, KeyError, TypeError):
        what, why = f"{url} does not answer as a daemon of Lakeward ({refused.code}).", str(refused.reason)
        remedy = "Give the address of a daemon."
    return _ERRORS.get(refused.code, LakewardError)(what, why=why, remedy=remedy)
