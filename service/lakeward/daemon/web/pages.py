"""The pages that people read: all tables, one table, and one job. HTML made here, read anywhere.

A page is one answer, and nothing is fetched from elsewhere. It says what it says without the stylesheet and without the
script, which only keeps it live. State is shown by a word, a shape and a colour, in that order.

A service that has a section of its own on a table's page keeps it as `page.html` in its folder, and reads there what it
remembers of the table (`memory`).

Touches: nothing; templates are read once, when `Pages` is made.
Keeps:   1. every value is escaped by the template engine: names of tables, partitions and errors are strangers' words;
         2. whatever a query parameter holds, the page is made; what makes no sense is taken as not given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lakeward.base.quantities import DAY_SECONDS, format_number, format_share, format_size, format_time
from lakeward.config.effective import DEFAULT
from lakeward.config.job_card import format_core_seconds
from lakeward.config.job_summary import summarise_job
from lakeward.daemon.backlog_history import BacklogHistory, BacklogSample
from lakeward.daemon.status import (
    DayTotal,
    GroupStatus,
    JobPage,
    MonthTotal,
    ServiceStatus,
    TablePage,
    TableStatus,
)
from lakeward.daemon.web.debt import debt_of
from lakeward.daemon.web.glossary import GLOSSARY
from lakeward.daemon.web.history_chart import Bar, Curve, bars, curve
from lakeward.daemon.web.job_parts import parts_of
from lakeward.daemon.web.list_page import ListPage, cut_page, page_number
from lakeward.daemon.web.signs import (
    ALL_WELL,
    CHOICE_SIGNS,
    END_SIGNS,
    GRADE_SIGNS,
    NO_BREAK,
    STATE_SIGNS,
    doctor_sign,
    format_duration,
    label_service,
)
from lakeward.daemon.web.storage_chart import storage_chart
from lakeward.daemon.web.table_answers import freed_of, reasons_against, settings_of, waits_of
from lakeward.daemon.web.table_list import (
    ListQuery,
    concerns,
    page_of_tables,
    part_of_objective,
    summarise,
)
from lakeward.daemon.web.timeline_strip import strip_of
from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.decision import Choice, Decision
from lakeward.services.compaction.plan.explain import explain
from lakeward.services.services import counting_service, page_templates
from lakeward.surface.table_kind import KIND_WORDS

REFRESH_SECONDS = 5

GROUPS_A_PAGE = 50

PLACES_SHOWN = 5
"""Places of a finding of the doctor, and lines of evidence of each."""

TEMPLATES = Path(__file__).parent / "templates"


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
    find: str = ""
    """A part of a partition path or a file id."""
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
            find=parameters.get("find", "").strip(),
            page=page_number(page),
            refresh=parameters.get("refresh") != "off",
        )

    def link(self, **changes: str | int | bool) -> str:
        """The query string of this view with something changed."""
        wanted: dict[str, str | int | bool] = {
            "sort": self.sort,
            "descending": self.descending,
            "choice": self.choice,
            "find": self.find,
            "page": self.page,
            "refresh": self.refresh,
            **changes,
        }
        parameters = {"sort": wanted["sort"], "order": "desc" if wanted["descending"] else "asc"}
        if wanted["choice"]:
            parameters["choice"] = wanted["choice"]
        if wanted["find"]:
            parameters["find"] = wanted["find"]
        if wanted["page"] != 1:
            parameters["page"] = wanted["page"]
        if not wanted["refresh"]:
            parameters["refresh"] = "off"
        return "?" + urlencode(parameters, errors="surrogateescape")

    def sort_link(self, sort: str) -> str:
        """Sorts by that column; by the column that it is sorted by already, the other way round."""
        descending = not self.descending if sort == self.sort else sort in _FALLING_FIRST
        return self.link(sort=sort, descending=descending, page=1) + "#groups"


@dataclass(frozen=True, slots=True)
class GroupPage(ListPage[GroupStatus]):
    total: int
    """How many file groups the table has."""
    numbers: Mapping[str, int]
    """Numbers of all groups, by choice."""


def groups_of(groups: Sequence[GroupStatus], query: GroupQuery) -> list[GroupStatus]:
    """The file groups that are asked for, in the order that is asked for; equal ones by their names."""
    wanted = query.find.casefold()
    matching = [
        group
        for group in groups
        if (not query.choice or _choice(group) == query.choice)
        and (not wanted or wanted in f"{group.partition_path}/{group.file_id}".casefold())
    ]
    matching.sort(key=_SORTS["group"])
    if query.sort != "group" or query.descending:
        matching.sort(key=_SORTS[query.sort], reverse=query.descending)
    return matching


def page_of(groups: Sequence[GroupStatus], query: GroupQuery) -> GroupPage:
    numbers = dict.fromkeys(_DECISION_ORDER, 0)
    for group in groups:
        numbers[_choice(group)] += 1
    part = cut_page(groups_of(groups, query), query.page, GROUPS_A_PAGE)
    return GroupPage(*part, total=len(groups), numbers=numbers)


# ---- words


def format_moment(at: float, now: float) -> str:
    """`3 min ago`, `in 20 s`."""
    away = int(at - now)
    if away == 0:
        return "now"
    return f"in {format_duration(away)}" if away > 0 else f"{format_duration(-away)} ago"


def _size(size: float) -> str:
    return format_size(size).replace(" ", NO_BREAK)


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


_JOBS = "/jobs/"


def job_link(job_id: str) -> str:
    """The link of a job's page; `job_of_link` is the way back."""
    return _JOBS + quote(job_id, safe="", errors="surrogateescape")


def job_of_link(path: str) -> str:
    """The id in a request's path, still quoted."""
    return unquote(path.removeprefix(_JOBS), errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Meter:
    """The oldest unmerged record's age beside the objective, in hundredths of the drawing's width."""

    filled: float
    mark: float | None
    """The place of the objective, once it is passed; until then it is the right end."""
    breached: bool


def meter(table: TableStatus, now: float) -> Meter:
    ratio = part_of_objective(table, now)
    if ratio <= 1:
        return Meter(filled=round(100 * ratio, 1), mark=None, breached=False)
    return Meter(filled=100, mark=round(100 / ratio, 1), breached=True)


# ---- charts


@dataclass(frozen=True, slots=True)
class BacklogChart:
    title: str
    text: Callable[[float], str]
    """A value in words."""
    curve: Curve


def _backlog_charts(history: BacklogHistory) -> tuple[BacklogChart, ...]:
    """None before there are two samples."""
    samples = list(history)
    if len(samples) < 2:
        return ()
    titles: tuple[tuple[str, Callable[[float], str], Callable[[BacklogSample], float]], ...] = (
        ("Logs to merge", _size, lambda sample: sample.log_bytes),
        ("Oldest unmerged record", format_duration, lambda sample: sample.oldest_age),
        ("Read amplification", "{:.2f}".format, lambda sample: sample.read_amplification),
    )
    curves = [(title, text, curve([(each.at, value(each)) for each in samples])) for title, text, value in titles]
    return tuple(BacklogChart(title, text, found) for title, text, found in curves if found is not None)


def _spark(table: TableStatus) -> Curve | None:
    """The backlog as a small line; None before there are two samples."""
    if len(table.history) < 2:
        return None
    return curve([(each.at, each.log_bytes) for each in table.history], width=140, height=18)


@dataclass(frozen=True, slots=True)
class DayChart:
    title: str
    text: Callable[[float], str]
    most: float
    bars: tuple[Bar, ...]


_DAYS_DRAWN_MIN = 14


def _day_charts(detail: TablePage) -> tuple[DayChart, ...]:
    """Each day from the first to the last one has its place, also without a job; there are two weeks at least."""
    if not detail.days:
        return ()
    known = {day.at: day for day in detail.days}
    last = detail.at // DAY_SECONDS * DAY_SECONDS
    first = min(detail.days[0].at, last - (_DAYS_DRAWN_MIN - 1) * DAY_SECONDS)
    all_days = [first + DAY_SECONDS * number for number in range(round((last - first) / DAY_SECONDS) + 1)]
    titles: tuple[tuple[str, Callable[[float], str], Callable[[DayTotal], float]], ...] = (
        ("Bytes written", _size, lambda day: day.written_bytes),
        ("Core-seconds taken", format_core_seconds, lambda day: day.core_seconds),
        ("Core-seconds saved for readers", format_core_seconds, lambda day: day.saved_seconds_a_day),
    )
    charts = []
    for title, text, value in titles:
        days = [(_iso(at)[:10], value(known[at]) if at in known else 0.0) for at in all_days]
        charts.append(DayChart(title, text, max(number for _, number in days), bars(days)))
    return tuple(chart for chart in charts if chart.most)


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
        self.script = (TEMPLATES / "live.js").read_bytes()
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
            job_link=job_link,
        )
        self._templates.globals.update(
            # A changed stylesheet or script has another address, so that browsers may keep it.
            style_link="/style.css?v=" + hashlib.sha256(self.stylesheet).hexdigest()[:12],
            live_link="/live.js?v=" + hashlib.sha256(self.script).hexdigest()[:12],
            state_signs=STATE_SIGNS,
            end_signs=END_SIGNS,
            choice_signs=CHOICE_SIGNS,
            grade_signs=GRADE_SIGNS,
            doctor_sign=doctor_sign,
            places_shown=PLACES_SHOWN,
            all_well=ALL_WELL,
            glossary=GLOSSARY,
            concerns=concerns,
            debt=debt_of,
            spark=_spark,
            kind_words=KIND_WORDS,
            meter=meter,
            moment=format_moment,
            refresh_seconds=REFRESH_SECONDS,
        )

    def all_tables(
        self,
        status: ServiceStatus,
        query: ListQuery = ListQuery(),  # noqa: B008
        month: MonthTotal | None = None,
    ) -> str:
        return self._render(
            "tables.html",
            now=status.at,
            status=status,
            summary=summarise(status),
            month=month,
            page=page_of_tables(status, query),
            query=query,
            refresh=query.refresh,
            refresh_link=query.link(refresh=not query.refresh),
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
            waits=waits_of(detail),
            cores=detail.cores,
            against=reasons_against(detail.groups),
            freed=freed_of(detail),
            settings=settings_of(detail),
            sections=[section for section in self._sections if section.kind in detail.table.remembered],
            storage=storage_chart(detail.storage, self._states),
            backlog_charts=_backlog_charts(detail.table.history),
            day_charts=_day_charts(detail),
            strip=strip_of(detail.timeline, detail.at),
            given=sum(line.where != DEFAULT for line in detail.settings),
            refresh=query.refresh,
            refresh_link=query.link(refresh=not query.refresh),
        )

    def one_job(self, detail: JobPage, *, refresh: bool = True) -> str:
        phases = {} if detail.card is None else detail.card.cost.detail.get("phases", {})
        refresh = refresh and detail.is_running
        return self._render(
            "job.html",
            now=detail.at,
            detail=detail,
            parts=parts_of(detail.seconds, phases) if phases else (),
            refresh=refresh,
            refresh_link=("?refresh=off" if refresh else "?") if detail.is_running else "",
        )

    def message(self, title: str, text: str) -> str:
        """A page that says only why there is no other."""
        return self._render("message.html", title=title, text=text, refresh=False, refresh_link="")

    def _render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(**values)
