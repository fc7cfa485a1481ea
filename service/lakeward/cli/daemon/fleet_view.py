"""The tables of a daemon on one screen: how many of each kind, what runs and what it waits for, the tables in an order.

    lakeward at http://lake:8490, running   312 tables: 2 parked, 1 objective missed, 309 calm   1 of 2 jobs runs
    table     service     since  step
    table     state       to merge  oldest, of objective  what is wrong, or what comes next

The kinds, the order and the words are those of the daemon's page.

Touches: nothing.
Keeps:   no line is wider, and no frame higher, than the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakeward.base.quantities import format_count, format_duration, format_size
from lakeward.cli.terminal import Column, NameCell, new_table
from lakeward.surface.documents import JobDocument
from lakeward.surface.table_documents import ServiceDocument, TableDocument
from lakeward.surface.table_kind import KIND_WORDS, TableKind

_STYLES = {
    **dict.fromkeys(("unreadable", "parked", "refused"), "bold red"),
    **dict.fromkeys(("late", "concerned", "held"), "yellow"),
    **dict.fromkeys(("waiting", "working"), "cyan"),
    "elsewhere": "dim",
}


_WIDE = 100
"""Cells from which on there is room for the objective."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a daemon said at one moment."""

    address: str
    service: ServiceDocument
    tables: Sequence[TableDocument]
    """The first of those that match."""
    matching: int
    """How many match."""
    running: Sequence[JobDocument]


def fleet_lines(fleet: Fleet, *, width: int, height: int, note: str = "") -> RenderableType:
    """A frame of so many lines at most.

    Args:
        note: a line at the end.
    """
    head = _head(fleet, width)
    rest = height - len(head) - bool(note)
    jobs = fleet.running[: max(0, rest // 3 - 1)]
    rest -= (len(jobs) + 1) if jobs else 0
    tables = fleet.tables[: max(0, rest - 1)]
    parts: list[RenderableType] = list(head)
    if jobs:
        parts.append(_jobs(jobs, fleet.service.at))
    if tables:
        parts.append(_tables(tables, fleet.service.at, is_wide=width >= _WIDE))
    if note:
        parts.append(Text(note, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _head(fleet: Fleet, width: int) -> list[Text]:
    service = fleet.service
    first = _line(f"{service.name} at {fleet.address}, {service.phase}")
    if not service.ready:
        first.append(" and not ready", style="bold red")
    kinds = Text(f"{format_count(service.tables, 'table')}")
    for place, (kind, number) in enumerate(service.kinds.items()):
        kinds.append(": " if place == 0 else ", ")
        kinds.append(f"{number:,} {_word(kind)}", style=_STYLES.get(kind, ""))
    used, most = format_size(service.memory_reserved_bytes), format_size(service.memory_bytes)
    waiting = f", {service.waiting:,} of them waiting" if service.waiting else ""
    work = _line(f"{service.running:,} of {format_count(service.jobs_max, 'job')} under way{waiting}; {used} of {most}")
    limits = [_line(f"{each.what} {each.remedy}", style="yellow") for each in service.limitations[:2]]
    return [first, *kinds.wrap(Console(), width), work, *limits]


def _word(kind: str) -> str:
    """Also of a kind that only a later release knows."""
    return KIND_WORDS[TableKind(kind)] if kind in list(TableKind) else kind


def _line(text: str, *, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _jobs(jobs: Sequence[JobDocument], now: float) -> Table:
    view = new_table({"job of": Column.ELASTIC, "service": Column.FIXED, "since": Column.NUMBER, "it": Column.ELASTIC})
    for job in jobs:
        view.add_row(NameCell(job.table), job.service, format_duration(max(0.0, now - job.began_at)), _doing(job, now))
    return view


def _doing(job: JobDocument, now: float) -> Text:
    progress = job.progress
    if waits := progress.get("waiting_for"):
        since = format_duration(max(0.0, now - float(progress["waiting_since"])))
        return _line(f"waits for {since}: {waits}", style="yellow")
    return _line(str(progress.get("sentence") or progress.get("step") or "has begun"))


def _tables(tables: Sequence[TableDocument], now: float, *, is_wide: bool) -> Table:
    columns = {"table": Column.ELASTIC, "state": Column.FIXED, "to merge": Column.NUMBER, "oldest": Column.NUMBER}
    view = new_table({**columns, **({"objective": Column.NUMBER} if is_wide else {}), "note": Column.ELASTIC})
    for table in tables:
        logs = "" if table.backlog is None else format_size(int(table.backlog["log_bytes"]))
        age, objective = table.oldest_unmerged_seconds, table.objective_seconds
        oldest = table.age_unknown if age is None else format_duration(age)
        view.add_row(
            NameCell(table.title),
            Text(table.state, style=_STYLES.get(table.kind, "")),
            logs,
            Text(oldest, style="yellow" if table.breach_seconds else "", no_wrap=True, overflow="ellipsis"),
            *([] if not is_wide else ["" if objective is None else format_duration(objective)]),
            _line("; ".join(table.concerns) or _next(table, now)),
        )
    return view


def _next(table: TableDocument, now: float) -> str:
    if table.next_action and table.next_action_at is not None and table.next_action_at > now:
        return f"{table.next_action} in {format_duration(table.next_action_at - now)}"
    return table.next_action or table.reason
