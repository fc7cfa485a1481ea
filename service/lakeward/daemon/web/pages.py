"""The two pages that people read: all tables, and one table. HTML made here, read anywhere.

A page is one answer: no script, nothing fetched from elsewhere, and beside the stylesheet nothing fetched at all. It
says what it says without the stylesheet, too. State is shown by a word, a shape and a colour, in that order.

A service that has a section of its own on a table's page keeps it as `page.html` in its folder, and reads there what it
remembers of the table (`memory`).

Touches: nothing; templates are read once, when `Pages` is made.
Keeps:   1. every value is escaped by the template engine: names of tables, partitions and errors are strangers' words;
         2. what needs attention stands first, and before it all what cannot be read, of which nothing else is known;
         3. whatever a query parameter holds, the page is made; what makes no sense is taken as not given.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lakeward.base import quantities
from lakeward.base.quantities import format_count, format_number, format_share, format_size, format_time
from lakeward.config.job_card import format_core_seconds
from lakeward.config.job_summary import summarise_job
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import (
    GroupStatus,
    JobEnd,
    ServiceStatus,
    TablePage,
    TableStatus,
)
from lakeward.daemon.web.storage_chart import storage_chart
from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.decision import Choice, Decision
from lakeward.services.compaction.plan.explain import explain
from lakeward.services.services import counting_service, load_services, page_templates
from lakeward.services.together.doctor.diagnosis import Grade

REFRESH_SECONDS = 5

GROUPS_A_PAGE = 50

PLACES_SHOWN = 5
"""Places of a finding of the doctor, and lines of evidence of each."""

TEMPLATES = Path(__file__).parent / "templates"


class Tone(StrEnum):
    """How much a thing wants attention. The values are class names of the stylesheet."""

    BAD = "bad"
    WARN = "warn"
    BUSY = "busy"
    GOOD = "good"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class StateSign:
    """A word with a shape and a tone."""

    word: str
    shape: str
    """Name of a macro in `signs.html`."""
    tone: Tone


STATE_SIGNS: Mapping[TableState, StateSign] = {
    TableState.IDLE: StateSign("idle", "ring", Tone.GOOD),
    TableState.POLLING: StateSign("polling", "ring_dot", Tone.GOOD),
    TableState.PLANNING: StateSign("planning", "ring_dot", Tone.BUSY),
    TableState.QUEUED: StateSign("queued", "half", Tone.BUSY),
    TableState.RUNNING: StateSign("running", "disc", Tone.BUSY),
    TableState.RECOVERING: StateSign("recovering", "disc", Tone.BUSY),
    TableState.BACKING_OFF: StateSign("backing off", "triangle", Tone.WARN),
    TableState.PARKED: StateSign("parked", "square", Tone.BAD),
    TableState.REFUSED: StateSign("refused", "cross", Tone.BAD),
    TableState.PAUSED: StateSign("paused", "bars", Tone.WARN),
    TableState.SHADOW: StateSign("shadow", "diamond", Tone.WARN),
    TableState.WAITING: StateSign("elsewhere", "dashes", Tone.QUIET),
    TableState.DISABLED: StateSign("disabled", "minus", Tone.QUIET),
}

END_SIGNS: Mapping[str, StateSign] = {
    JobEnd.COMMITTED: StateSign("committed", "tick", Tone.GOOD),
    JobEnd.NOTHING: StateSign("nothing to do", "minus", Tone.QUIET),
    JobEnd.TEMPORARY: StateSign("will be tried again", "triangle", Tone.WARN),
    JobEnd.REFUSED: StateSign("refused", "cross", Tone.BAD),
    JobEnd.FAILED: StateSign("failed", "cross", Tone.BAD),
    JobEnd.VERIFICATION: StateSign("wrong result", "cross", Tone.BAD),
    JobEnd.CANCELLED: StateSign("cancelled", "minus", Tone.QUIET),
    JobEnd.LOST: StateSign("taken over", "minus", Tone.QUIET),
}

CHOICE_SIGNS: Mapping[Choice, StateSign] = {
    Choice.FULL: StateSign("FULL", "square", Tone.BUSY),
    Choice.LOG: StateSign("LOG", "half", Tone.BUSY),
    Choice.NONE: StateSign("NONE", "ring", Tone.QUIET),
}

GRADE_SIGNS: Mapping[str, StateSign] = {
    Grade.DANGER: StateSign("danger", "cross", Tone.BAD),
    Grade.WARNING: StateSign("warning", "triangle", Tone.WARN),
    Grade.ADVICE: StateSign("advice", "diamond", Tone.QUIET),
}

_BAD_ENDS = frozenset[str]({JobEnd.FAILED, JobEnd.REFUSED, JobEnd.VERIFICATION})

_UNREADABLE, _CONCERNED = 0, 2
_RANKS: Mapping[Tone, int] = {Tone.BAD: 1, Tone.WARN: 3, Tone.BUSY: 4, Tone.GOOD: 5, Tone.QUIET: 6}
"""Ranks of tables on the page, by the tones of their states; between these a concern in a state that is none."""


# ---- what needs attention

_CONCERNING = {Grade.DANGER: "danger", Grade.WARNING: "warning"}
"""Grades of findings of the doctor, as nouns."""


def concerns(table: TableStatus, now: float) -> tuple[str, ...]:
    """What an operator should know of the table first, each a few words; empty when all is well."""
    found = []
    if table.outlook.unreadable:
        found.append("cannot be read")
    if table.state in (TableState.REFUSED, TableState.PARKED):
        found.append(f"{table.state.value}, nothing is done")
    elif table.outlook.refused:
        found.append(f"refused: {', '.join(label_service(service) for service in table.outlook.refused)}")
    if table.backlog is not None and (number := table.backlog.damaged_files):
        found.append(format_count(number, "damaged file"))
    for service in load_services():
        if service.kind in table.remembered:
            found += service.concerns(table.remembered[service.kind])
    if (examination := table.examination) is not None and examination.document is not None:
        grades = [each["grade"] for each in examination.document["found"]]
        found += [format_count(grades.count(grade), noun) for grade, noun in _CONCERNING.items() if grade in grades]
    if table.is_breached(now):
        found.append(f"objective missed by {format_duration(table.breach_seconds(now))}")
    if table.outlook.scan_overdue:
        found.append("not polled for two intervals")
    if table.outlook.parked_groups and table.state is not TableState.PARKED:
        number = len(table.outlook.parked_groups)
        found.append(f"{format_count(number, 'file group')} parked")
    last = table.last_job
    if last is not None and last.result in _BAD_ENDS and table.state is not TableState.REFUSED:
        found.append(f"last {label_service(last.service)}: {END_SIGNS[last.result].word}")
    return tuple(found)


def in_order(tables: Sequence[TableStatus], now: float) -> list[TableStatus]:
    """Tables that cannot be read first, then those that need attention, then by state, and among equals those nearest
    to their objective."""

    def urgency(table: TableStatus) -> tuple[int, float, str]:
        rank = _RANKS[STATE_SIGNS[table.state].tone]
        if table.outlook.unreadable:
            rank = _UNREADABLE
        elif table.is_breached(now):
            rank = _RANKS[Tone.BAD]
        elif concerns(table, now):
            rank = min(rank, _CONCERNED)
        return (rank, -_part_of_objective(table, now), table.name)

    return sorted(tables, key=urgency)


@dataclass(frozen=True, slots=True)
class Summary:
    """The line at the top."""

    tables: int
    running: int
    waiting: int
    """How many of the running jobs wait."""
    log_files: int
    log_bytes: int
    superseded_log_files: int
    superseded_log_bytes: int
    anchors: int
    oldest_age: float | None
    concerned: int


def summarise(status: ServiceStatus) -> Summary:
    backlogs = [table.backlog for table in status.tables if table.backlog is not None]
    ages = [age for table in status.tables if (age := table.oldest_unmerged_age(status.at)) is not None]
    return Summary(
        tables=len(status.tables),
        running=len(status.running),
        waiting=status.waiting,
        log_files=sum(backlog.log_files for backlog in backlogs),
        log_bytes=sum(backlog.log_bytes for backlog in backlogs),
        superseded_log_files=sum(backlog.superseded_log_files for backlog in backlogs),
        superseded_log_bytes=sum(backlog.superseded_log_bytes for backlog in backlogs),
        anchors=sum(backlog.anchors for backlog in backlogs),
        oldest_age=max(ages, default=None),
        concerned=sum(bool(concerns(table, status.at)) for table in status.tables),
    )


# ---- a table's file groups: sorted, filtered, a page at a time

_UNDECIDED = "undecided"

_DECISION_ORDER: Mapping[str, int] = {Choice.FULL.value: 0, Choice.LOG.value: 1, Choice.NONE.value: 2, _UNDECIDED: 3}

_SORTS: Mapping[str, Callable[[GroupStatus], Any]] = {
    "logs": lambda group: (group.backlog.log_files, group.backlog.log_bytes),
    "log_bytes": lambda group: (group.backlog.log_bytes, group.backlog.log_files),
    "base_bytes": lambda group: group.backlog.base_bytes,
    "slices": lambda group: group.slices,
    "group": lambda group: (group.partition_path, group.file_id),
    "decision": lambda group: _DECISION_ORDER[_choice(group)],
}

_FALLING_FIRST = ("logs", "log_bytes", "base_bytes", "slices")
"""Columns of sizes, of which people look for the largest."""


def _choice(group: GroupStatus) -> str:
    return _UNDECIDED if group.decision is None else group.decision.choice.value


@dataclass(frozen=True, slots=True)
class GroupQuery:
    """Which file groups a page shows."""

    sort: str = "log_bytes"
    descending: bool = True
    choice: str = ""
    """FULL, LOG, NONE or `undecided`; empty for all."""
    page: int = 1
    refresh: bool = True

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> GroupQuery:
        sort = parameters.get("sort", "")
        sort = sort if sort in _SORTS else cls().sort
        order = parameters.get("order", "")
        choice = parameters.get("choice", "")
        page = parameters.get("page", "")
        return cls(
            sort=sort,
            descending=order == "desc" if order in ("asc", "desc") else sort in _FALLING_FIRST,
            choice=choice if choice in _DECISION_ORDER else "",
            page=int(page) if page.isdecimal() and page.isascii() and 0 < len(page) < 10 else 1,
            refresh=parameters.get("refresh") != "off",
        )

    def link(self, **changes: str | int | bool) -> str:
        """The query string of this view with something changed."""
        wanted: dict[str, str | int | bool] = {
            "sort": self.sort,
            "descending": self.descending,
            "choice": self.choice,
            "page": self.page,
            "refresh": self.refresh,
            **changes,
        }
        parameters = {"sort": wanted["sort"], "order": "desc" if wanted["descending"] else "asc"}
        if wanted["choice"]:
            parameters["choice"] = wanted["choice"]
        if wanted["page"] != 1:
            parameters["page"] = wanted["page"]
        if not wanted["refresh"]:
            parameters["refresh"] = "off"
        return "?" + urlencode(parameters)

    def sort_link(self, sort: str) -> str:
        """Sorts by that column; by the column that it is sorted by already, the other way round."""
        descending = not self.descending if sort == self.sort else sort in _FALLING_FIRST
        return self.link(sort=sort, descending=descending, page=1) + "#groups"


@dataclass(frozen=True, slots=True)
class GroupPage:
    groups: tuple[GroupStatus, ...]
    first: int
    """Number of the first one shown, from 1; 0 when there is none."""
    matching: int
    total: int
    page: int
    pages: int
    numbers: Mapping[str, int]
    """Numbers of all groups, by choice."""

    @property
    def last(self) -> int:
        return self.first + len(self.groups) - 1 if self.groups else 0


def groups_of(groups: Sequence[GroupStatus], query: GroupQuery) -> list[GroupStatus]:
    """The file groups that are asked for, in the order that is asked for; equal ones by their names."""
    matching = [group for group in groups if not query.choice or _choice(group) == query.choice]
    matching.sort(key=_SORTS["group"])
    if query.sort != "group" or query.descending:
        matching.sort(key=_SORTS[query.sort], reverse=query.descending)
    return matching


def page_of(groups: Sequence[GroupStatus], query: GroupQuery) -> GroupPage:
    numbers = dict.fromkeys(_DECISION_ORDER, 0)
    for group in groups:
        numbers[_choice(group)] += 1
    matching = groups_of(groups, query)
    pages = max(1, math.ceil(len(matching) / GROUPS_A_PAGE))
    page = min(query.page, pages)
    start = (page - 1) * GROUPS_A_PAGE
    return GroupPage(
        groups=tuple(matching[start : start + GROUPS_A_PAGE]),
        first=start + 1 if matching else 0,
        matching=len(matching),
        total=len(groups),
        page=page,
        pages=pages,
        numbers=numbers,
    )


# ---- words

_NO_BREAK = "\u00a0"


def format_duration(seconds: float) -> str:
    """The same as everywhere, and never broken at a line's end."""
    return quantities.format_duration(seconds).replace(" ", _NO_BREAK)


def format_moment(at: float, now: float) -> str:
    """`3 min ago`, `in 20 s`."""
    away = int(at - now)
    if away == 0:
        return "now"
    return f"in {format_duration(away)}" if away > 0 else f"{format_duration(-away)} ago"


def doctor_sign(page: TablePage) -> StateSign:
    """How the table was when it was seen last; what was not seen, or could not be since, is never good."""
    examination = page.examination
    assert examination is not None and examination.document is not None, "only what was seen has a sign"
    document = examination.document
    if (worst := document["worst"]) is not None:
        return GRADE_SIGNS[worst]
    if examination.problem is not None or not document["healthy"]:
        return StateSign("not all seen", "triangle", Tone.WARN)
    return StateSign("nothing found", "tick", Tone.GOOD)


def _size(size: float) -> str:
    return format_size(size).replace(" ", _NO_BREAK)


def label_service(service: str) -> str:
    return service.replace("-", " ")


def _iso(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def why(decision: Decision) -> str:
    """The sentence of a decision; of one that an older release stored, at least its reason."""
    try:
        return explain(decision)
    except KeyError:
        return f"{decision.choice.value}: {decision.reason.value}"


def figures(of_job: Mapping[str, Any]) -> str:
    """What a job did, in a few words, whose numbers no line's end breaks."""
    return summarise_job(of_job, size=_size)


_TABLES = "/tables/"


def table_link(name: str) -> str:
    """A name may be a base path or a URL, so all of it is quoted; `table_of_link` is the way back."""
    return _TABLES + quote(name, safe="", errors="surrogateescape")


def table_of_link(path: str) -> str:
    """The name in a request's path, still quoted. A file system's names are bytes, and not all of them are text."""
    return unquote(path.removeprefix(_TABLES), errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Meter:
    """The oldest unmerged record's age beside the objective, in hundredths of the drawing's width."""

    filled: float
    mark: float | None
    """The place of the objective, once it is passed; until then it is the right end."""
    breached: bool


def _part_of_objective(table: TableStatus, now: float) -> float:
    if table.objective is None:
        return 0.0
    return (table.oldest_unmerged_age(now) or 0.0) / max(table.objective, 1.0)


def meter(table: TableStatus, now: float) -> Meter:
    ratio = _part_of_objective(table, now)
    if ratio <= 1:
        return Meter(filled=round(100 * ratio, 1), mark=None, breached=False)
    return Meter(filled=100, mark=round(100 / ratio, 1), breached=True)


# ---- pages


@dataclass(frozen=True, slots=True)
class _Section:
    """A service's section of a table's page."""

    kind: JobKind
    template: str


class Pages:
    """Makes the pages from values; the same values give the same bytes."""

    def __init__(self) -> None:
        self.stylesheet = (TEMPLATES / "style.css").read_bytes()
        self.icon = (TEMPLATES / "icon.svg").read_bytes()
        counting = counting_service()
        self._states = () if counting is None else counting.states
        templates = page_templates()
        self._sections = tuple(_Section(kind, f"{path.parent.name}/{path.name}") for kind, path in templates.items())
        self._templates = Environment(
            loader=FileSystemLoader([TEMPLATES, *dict.fromkeys(path.parents[1] for path in templates.values())]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            size=_size,
            duration=format_duration,
            number=format_number,
            share=format_share,
            service=label_service,
            utc=format_time,
            iso=_iso,
            why=why,
            figures=figures,
            lines=lambda card: card.lines(size=_size),
            core_seconds=format_core_seconds,
            table_link=table_link,
        )
        self._templates.globals.update(
            # A changed stylesheet has another address, so that browsers may keep it.
            style_link="/style.css?v=" + hashlib.sha256(self.stylesheet).hexdigest()[:12],
            state_signs=STATE_SIGNS,
            end_signs=END_SIGNS,
            choice_signs=CHOICE_SIGNS,
            grade_signs=GRADE_SIGNS,
            doctor_sign=doctor_sign,
            places_shown=PLACES_SHOWN,
            concerns=concerns,
            meter=meter,
            moment=format_moment,
            refresh_seconds=REFRESH_SECONDS,
        )

    def all_tables(self, status: ServiceStatus, *, refresh: bool = True) -> str:
        return self._render(
            "tables.html",
            now=status.at,
            status=status,
            summary=summarise(status),
            tables=in_order(status.tables, status.at),
            refresh=refresh,
            refresh_link="?refresh=off" if refresh else "?",
        )

    def one_table(self, detail: TablePage, query: GroupQuery) -> str:
        page = page_of(detail.groups, query)
        return self._render(
            "table.html",
            now=detail.at,
            detail=detail,
            table=detail.table,
            query=query,
            page=page,
            sections=[section for section in self._sections if section.kind in detail.table.remembered],
            storage=storage_chart(detail.storage, self._states),
            refresh=query.refresh,
            refresh_link=query.link(refresh=not query.refresh),
        )

    def message(self, title: str, text: str) -> str:
        """A page that says only why there is no other."""
        return self._render("message.html", title=title, text=text, refresh=False, refresh_link="")

    def _render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)
