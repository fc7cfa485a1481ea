"""Which tables need attention, of what kind each is, and the tables that a list shows: the same for page and API.

Touches: nothing.
Keeps:   1. what needs attention stands first, and before it all what cannot be read, of which nothing else is known;
         2. each table is of one kind, so that the numbers of all kinds add up to that of the tables;
         3. whatever a query parameter holds, there is a list; what makes no sense is taken as not given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any
from urllib.parse import urlencode

from lakeward.base.quantities import format_count
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import JobEnd, ServiceStatus, TableStatus
from lakeward.daemon.web.list_page import ListPage, cut_page, page_number
from lakeward.daemon.web.signs import END_SIGNS, STATE_SIGNS, Tone, format_duration, label_service
from lakeward.services.service import Service
from lakeward.services.services import load_services
from lakeward.services.together.doctor.diagnosis import Grade
from lakeward.surface.table_kind import TableKind

TABLES_A_PAGE = 50

_BAD_ENDS = frozenset[str]({JobEnd.FAILED, JobEnd.REFUSED, JobEnd.VERIFICATION})

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
    for service in _concerned_services():
        if service.kind in table.remembered:
            found += service.concerns(table.remembered[service.kind])
    if (examination := table.examination) is not None and examination.document is not None:
        grades = [each["grade"] for each in examination.document["found"]]
        found += [format_count(grades.count(grade), noun) for grade, noun in _CONCERNING.items() if grade in grades]
    if breach := table.breach_seconds(now):
        found.append(f"objective missed by {format_duration(breach)}")
    if table.outlook.scan_overdue:
        found.append("not polled for two intervals")
    if table.outlook.parked_groups and table.state is not TableState.PARKED:
        number = len(table.outlook.parked_groups)
        found.append(f"{format_count(number, 'file group')} parked")
    last = table.last_job
    if last is not None and last.result in _BAD_ENDS and table.state is not TableState.REFUSED:
        found.append(f"last {label_service(last.service)}: {END_SIGNS[last.result].word}")
    return tuple(found)


@cache
def _concerned_services() -> tuple[Service[Any], ...]:
    """Services that can have a concern at all: of three thousand tables each is asked for each page."""
    return tuple(each for each in load_services() if type(each).concerns is not Service.concerns)


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
    )


def part_of_objective(table: TableStatus, now: float) -> float:
    """The age of the oldest unmerged record over what the objective allows; 0 where there is none."""
    age = table.oldest_unmerged_age(now)
    objective = table.objective if age else None
    return 0.0 if age is None or objective is None else age / max(objective, 1.0)


_KINDS_BY_STATE: Mapping[TableState, TableKind] = {
    TableState.PARKED: TableKind.PARKED,
    TableState.REFUSED: TableKind.REFUSED,
    TableState.BACKING_OFF: TableKind.HELD,
    TableState.PAUSED: TableKind.HELD,
    TableState.SHADOW: TableKind.HELD,
    TableState.RECOVERING: TableKind.WORKING,
    TableState.PLANNING: TableKind.WORKING,
    TableState.QUEUED: TableKind.WORKING,
    TableState.RUNNING: TableKind.WORKING,
    TableState.IDLE: TableKind.CALM,
    TableState.POLLING: TableKind.CALM,
    TableState.WAITING: TableKind.ELSEWHERE,
    TableState.DISABLED: TableKind.ELSEWHERE,
}


def kind_of(table: TableStatus, now: float) -> TableKind:
    kind = _KINDS_BY_STATE[table.state]
    if not concerns(table, now):
        return TableKind.WAITING if any(each.wait is not None for each in table.progress.values()) else kind
    if table.outlook.unreadable:
        return TableKind.UNREADABLE
    if kind in (TableKind.PARKED, TableKind.REFUSED):
        return kind
    if table.outlook.refused:
        return TableKind.REFUSED
    return TableKind.LATE if table.is_breached(now) else TableKind.CONCERNED


NEEDS_ATTENTION = frozenset(
    {TableKind.UNREADABLE, TableKind.PARKED, TableKind.REFUSED, TableKind.LATE, TableKind.CONCERNED}
)
"""Tables of these kinds have concerns, and no others have."""

_RANKS: Mapping[TableKind, int] = {
    TableKind.UNREADABLE: 0,
    TableKind.PARKED: 1,
    TableKind.REFUSED: 1,
    TableKind.LATE: 1,
    TableKind.CONCERNED: 2,
}
_RANKS_BY_TONE: Mapping[Tone, int] = {Tone.BAD: 1, Tone.WARN: 3, Tone.BUSY: 4, Tone.GOOD: 5, Tone.QUIET: 6}


def kinds_of(tables: Iterable[TableStatus], now: float) -> Mapping[str, TableKind]:
    """The kind of each table, by its name."""
    return {table.name: kind_of(table, now) for table in tables}


def in_order(tables: Iterable[TableStatus], now: float, kinds: Mapping[str, TableKind]) -> list[TableStatus]:
    """Tables that cannot be read first, then those that need attention, then by state, and among equals those nearest
    to their objective."""

    def urgency(table: TableStatus) -> tuple[int, float, str]:
        rank = _RANKS.get(kinds[table.name], _RANKS_BY_TONE[STATE_SIGNS[table.state].tone])
        return (rank, -part_of_objective(table, now), table.name)

    return sorted(tables, key=urgency)


class TableSort(StrEnum):
    URGENCY = "urgency"
    """What cannot be read first, then what needs attention, then by state and objective."""
    NAME = "name"
    OLDEST = "oldest"
    """The oldest unmerged record first."""
    LOG_BYTES = "log_bytes"
    """The most to merge first."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which tables a list shows."""

    search: str = ""
    """A part of the name or of the path, in any case."""
    kind: TableKind | None = None
    """None: all."""
    sort: TableSort = TableSort.URGENCY
    page: int = 1
    refresh: bool = True

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> ListQuery:
        kind, sort, page = (parameters.get(name, "") for name in ("kind", "sort", "page"))
        return cls(
            search=parameters.get("search", "").strip(),
            kind=TableKind(kind) if kind in list(TableKind) else None,
            sort=TableSort(sort) if sort in list(TableSort) else TableSort.URGENCY,
            page=page_number(page),
            refresh=parameters.get("refresh") != "off",
        )

    def link(self, **changes: str | int | bool | None) -> str:
        """The query string of this view with something changed."""
        wanted = replace(self, **changes)  # type: ignore[arg-type]
        usual, parameters = ListQuery(), dict[str, str | int]()
        if wanted.search:
            parameters["search"] = wanted.search
        if wanted.kind is not None:
            parameters["kind"] = wanted.kind.value
        if wanted.sort != usual.sort:
            parameters["sort"] = TableSort(wanted.sort).value
        if wanted.page != 1:
            parameters["page"] = wanted.page
        if not wanted.refresh:
            parameters["refresh"] = "off"
        return "?" + urlencode(parameters, errors="surrogateescape")


def tables_of(
    tables: Iterable[TableStatus], query: ListQuery, now: float, kinds: Mapping[str, TableKind]
) -> Sequence[TableStatus]:
    """The tables that are asked for, in the order that is asked for, on all pages together."""
    wanted = query.search.casefold()
    found = [
        table
        for table in tables
        if (not wanted or any(wanted in text.casefold() for text in (table.name, table.title, table.served.base_path)))
        and (query.kind is None or kinds[table.name] is query.kind)
    ]
    match query.sort:
        case TableSort.URGENCY:
            return in_order(found, now, kinds)
        case TableSort.NAME:
            return sorted(found, key=lambda table: (table.title, table.name))
        case TableSort.OLDEST:
            return sorted(found, key=lambda table: (-(table.oldest_unmerged_age(now) or 0.0), table.name))
        case TableSort.LOG_BYTES:
            return sorted(found, key=lambda table: (-(table.backlog.log_bytes if table.backlog else 0), table.name))


@dataclass(frozen=True, slots=True)
class TableListPage(ListPage[TableStatus]):
    numbers: Mapping[TableKind, int]
    """How many tables there are of each kind that there is, the worst first."""

    @property
    def concerned(self) -> int:
        return number_concerned(self.numbers)


def page_of_tables(status: ServiceStatus, query: ListQuery) -> TableListPage:
    kinds = kinds_of(status.tables, status.at)
    matching = tables_of(status.tables, query, status.at, kinds)
    return TableListPage(*cut_page(matching, query.page, TABLES_A_PAGE), numbers=numbers_of(kinds))


def numbers_of(kinds: Mapping[str, TableKind]) -> Mapping[TableKind, int]:
    """How many tables are of each kind that there is, the worst first."""
    found = Counter(kinds.values())
    return {kind: found[kind] for kind in TableKind if found[kind]}


def number_concerned(numbers: Mapping[TableKind, int]) -> int:
    """How many need attention."""
    return sum(number for kind, number in numbers.items() if kind in NEEDS_ATTENTION)
