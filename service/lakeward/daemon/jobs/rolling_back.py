"""Rolling back of one table's failed writes by the daemon, and of what dead attempts at services left: is there one,
and the job that does it.

Touches: the table, through `services/rollback/run/rolling_back.py`; to tell whether there is one it reads the
         heartbeats of writes that have been pending for long.
Keeps:   a write of which the timeline has changed lately is left alone, whatever its heartbeat says.
"""

from __future__ import annotations

from lakeward.base.quantities import format_time
from lakeward.daemon.reports import JobReport
from lakeward.daemon.scheduling.events import JobResult, ServiceDemand
from lakeward.daemon.status import JobFigures
from lakeward.protocol.rollback import RollbackDecision, RollbackReason
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.stuck import is_begun_service
from lakeward.protocol.stuck_services import Judge
from lakeward.services.rollback.run.failed_writes import judge_quiet
from lakeward.services.rollback.run.rolling_back import find_quiet, roll_back_writes
from lakeward.table.snapshot import TableSnapshot


def rollback_demand(serviced: ServicedTable, snapshot: TableSnapshot, *, quiet_seconds: float) -> ServiceDemand:
    """Whether a failed write is to be rolled back, or a service that was left unfinished to be released."""
    found = judge_quiet(serviced, snapshot, quiet_seconds=quiet_seconds)
    if not found:
        return ServiceDemand(False, _left(serviced, snapshot))
    newest, more = found[0], f", and {len(found) - 1} more" if len(found) > 1 else ""
    return ServiceDemand(True, f"{newest.action} {newest.instant} failed{more}: {newest.why}", instants=len(found))


def roll_back(serviced: ServicedTable, *, quiet_seconds: float) -> JobReport:
    """Roll back what failed; with the instants of the rollbacks, or of what was released."""
    found = find_quiet(serviced, quiet_seconds=quiet_seconds)
    report = roll_back_writes(serviced, [each.instant for each in found])
    plans = [each.planned.plan for each in report.rolled_back]
    figures = JobFigures(
        writes_rolled_back=len(plans),
        files_deleted=sum(len(names) for plan in plans for names in plan.files.values()),
    )
    result = JobResult.COMMITTED if report.rolled_back else JobResult.NOTHING
    return JobReport(
        result,
        figures,
        tuple(each.rollback or each.planned.plan.instant for each in report.rolled_back),
        reasons=tuple(_reason(each.planned.decision) for each in report.rolled_back),
    )


def _reason(decision: RollbackDecision) -> str:
    return f"{decision.action} {decision.instant}, {decision.step.value}: {decision.why}"


def _left(serviced: ServicedTable, snapshot: TableSnapshot) -> str:
    """Why nothing is done yet to the oldest service that may be at work, or may have been left unfinished."""
    if not any(is_begun_service(instant) for instant in snapshot.timeline.pending):
        return ""
    maybe = [each for each in Judge.of(serviced).services(snapshot) if each.reason is RollbackReason.MAYBE_AT_WORK]
    if not maybe:
        return ""
    until = f", which is at {format_time(maybe[-1].until)}" if maybe[-1].until is not None else ""
    return f"{maybe[-1].action} {maybe[-1].instant} is left: {maybe[-1].why}{until}."
