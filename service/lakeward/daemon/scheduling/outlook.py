"""What the scheduler says of one table: its state, why, and what comes next, in a sentence.

The state follows from the facts, in this order: DISABLED and WAITING, a running job, what holds the table (what went
wrong before what an operator or the configuration said; all of it is shown), what it waits to run, the scan under way,
IDLE.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.base.quantities import format_time
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.table_state import Hold, ParkedGroup, ServiceTrouble, TableState
from lakeward.daemon.scheduling.tracked_table import TrackedTable
from lakeward.protocol.job_kind import JobKind
from lakeward.services.services import ROUND
from lakeward.table.file_system_view import GroupId


@dataclass(frozen=True, slots=True)
class Outlook:
    state: TableState
    reason: str
    """A sentence; where several things hold the table, one for each, what went wrong first."""
    holds: tuple[Hold, ...]
    """All that keeps jobs from it, what went wrong first."""
    next_action: str
    """`poll`, `plan`, `recovery`, `compaction` ..., `next try` of what was refused, or `none`."""
    next_action_at: float | None
    """None: as soon as what the reason says comes about."""
    scanned_at: float | None
    """When the last poll or plan succeeded; None: never by this daemon."""
    scan_overdue: bool
    """Not polled for two intervals although this daemon polls it."""
    planned_at: float | None
    demand: Demand | None
    failures: int
    """Failed jobs in a row."""
    parked_groups: tuple[ParkedGroup, ...]
    paused_groups: tuple[GroupId, ...]
    running: tuple[Job, ...]
    service_troubles: tuple[ServiceTrouble, ...] = ()
    refused: Mapping[JobKind, str] = field(default_factory=dict)
    """Refused services, each with the reason, as the last plan said, or their last job; empty where the whole plan was
    refused.
    """
    unreadable: str = ""
    """Why the table could not be read when it was polled or planned last, in sentences; empty where it could."""

    @property
    def is_settled(self) -> bool:
        """The table was planned for, or cannot be, and nothing is left to do now."""
        if self.running:
            return False
        if self.state in _AT_REST:
            return True
        planned_all = self.planned_at is not None and self.scanned_at is not None
        return planned_all and self.state in (TableState.IDLE, TableState.SHADOW)

    @property
    def is_troubled(self) -> bool:
        """Some of the table could not be serviced."""
        return self.state in _TROUBLED or bool(self.parked_groups) or bool(self.refused)


_TROUBLED = frozenset({TableState.PARKED, TableState.REFUSED, TableState.BACKING_OFF})
_AT_REST = _TROUBLED | {TableState.DISABLED, TableState.WAITING, TableState.PAUSED}

_OVERDUE_INTERVALS = 2

_NOT_SERVICED_HERE = frozenset({TableState.DISABLED, TableState.WAITING})


def outlook_of(
    table: TrackedTable,
    now: float,
    *,
    holds: tuple[Hold, ...],
    obstacle: str | None,
    paused_groups: tuple[GroupId, ...],
    waits_for_plan: bool,
    stopping: bool,
) -> Outlook:
    """`obstacle` is what a table in the queue waits for."""
    state, reason = _state(table, now, holds, obstacle, waits_for_plan)
    if stopping:
        reason += " The daemon is stopping; nothing new is begun."
    action, at = ("none", None) if stopping else _next_action(table, now, state, holds)
    return Outlook(
        state=state,
        reason=reason,
        holds=holds,
        next_action=action,
        next_action_at=at,
        scanned_at=table.scanned_at,
        scan_overdue=_is_overdue(table, now),
        planned_at=table.planned_at,
        demand=table.demand,
        failures=table.failures,
        parked_groups=tuple(table.parking.parked.values()),
        paused_groups=paused_groups,
        running=() if table.running is None else (table.running,),
        service_troubles=tuple(
            ServiceTrouble(service, retry.text, retry.failures, retry.at)
            for service, retry in table.service_retries.items()
            if service in ROUND
        ),
        refused={service: text for service, text in table.all_refused.items() if service in table.schedule.services},
        unreadable=table.unreadable,
    )


def _state(
    table: TrackedTable, now: float, holds: tuple[Hold, ...], obstacle: str | None, waits_for_plan: bool
) -> tuple[TableState, str]:
    running = table.running
    if holds and holds[0].state in _NOT_SERVICED_HERE:
        return holds[0].state, holds[0].reason + (f" {_about(running)}" if running else "")
    held = " And: ".join(hold.reason for hold in holds)
    if running is not None:
        state = TableState.RECOVERING if running.service is JobKind.RECOVERY else TableState.RUNNING
        lets = f" It is let finish, and then: {held}" if holds and running.cancelled is None else ""
        return state, _about(running) + lets
    if holds:
        return holds[0].state, held
    wanted = table.wanted(now)
    if wanted is not None:
        state = TableState.RECOVERING if wanted is JobKind.RECOVERY else TableState.QUEUED
        return state, _why_queued(table, now, wanted, obstacle)
    if table.scan is not None:
        state = TableState.PLANNING if table.scan.is_plan else TableState.POLLING
        return state, "It is being planned." if table.scan.is_plan else "Its timeline is being listed."
    if waits_for_plan:
        return TableState.IDLE, "It waits for its turn to be planned."
    if table.no_work:
        return TableState.IDLE, f"There is nothing to compact: {table.no_work}.{_about_refused(table)}"
    if table.plan_wanted or table.planned_at is None:
        return TableState.IDLE, "It is planned after the next poll."
    found = "nothing else" if table.refused_jobs else "nothing"
    return TableState.IDLE, f"The plan of {format_time(table.planned_at)} found {found} to do.{_about_refused(table)}"


def _about_refused(table: TrackedTable) -> str:
    """A sentence for each reason why single services are refused, with all services that it stops."""
    stopped: dict[str, list[str]] = {}
    for service, text in table.all_refused.items():
        if service in table.schedule.services:
            stopped.setdefault(text, []).append(service.value)
    return "".join(f" Refused, {' and '.join(names)}: {text}" for text, names in stopped.items())


def _about(job: Job) -> str:
    stops = f" It was asked to stop: {job.cancelled}" if job.cancelled else ""
    stuck = " It keeps its place until it answers." if job.stuck else ""
    return f"Job {job.id} ({job.service}) runs since {format_time(job.started_at)}.{stops}{stuck}"


def _why_queued(table: TrackedTable, now: float, wanted: JobKind, obstacle: str | None) -> str:
    if obstacle is not None:
        return f"Its {wanted} waits because {obstacle}."
    edge = table.window_edge(now)
    # Windows are the operator's word: a breached objective opens none.
    when = "" if edge is None else f" at {format_time(edge)}"
    objective = table.objective_at
    breached = (
        f" The oldest unmerged record breached its objective at {format_time(objective)}; windows come first."
        if objective is not None and objective <= now
        else ""
    )
    return f"Its {wanted} waits for a window, which opens{when}.{breached}"


def _next_action(
    table: TrackedTable, now: float, state: TableState, holds: tuple[Hold, ...]
) -> tuple[str, float | None]:
    if state in _NOT_SERVICED_HERE:
        return "none", None
    if table.running is not None:
        return f"end of {table.running.service}", None
    wanted = table.wanted(now)
    if not holds and wanted is not None:
        return wanted.value, None if table.queued_at is not None else table.window_edge(now)
    if (end := _end_of(holds)) is not None and wanted is not None and not table.unreadable:
        # What was refused is asked for again then, and refused again unless something has changed.
        return ("next try" if holds[0].state is TableState.REFUSED else wanted.value), end
    if table.scan is not None:
        return "plan" if table.scan.is_plan else "poll", now
    return "poll", table.poll_at


def _end_of(holds: tuple[Hold, ...]) -> float | None:
    """When the last of them ends by itself; None where one does not, and where there is none."""
    ends = [hold.until for hold in holds if hold.until is not None]
    return max(ends) if ends and len(ends) == len(holds) else None


def _is_overdue(table: TrackedTable, now: float) -> bool:
    """Not polled for two intervals, by whatever cause; what an alert is about."""
    if not table.is_watched:
        return False
    assert table.leased_at is not None
    since = max(table.leased_at, table.scanned_at or 0.0)
    return now > since + _OVERDUE_INTERVALS * table.schedule.interval
