"""Rollback as a service of the daemon: is there a failed write of the table, or an attempt at a service that died, and
the job that rolls it back.

Touches: the table, through `services/rollback/run/roll_back.py`; to find one it reads the heartbeats of writes that
         have been pending for long.
Keeps:   a write of which the timeline has changed lately is left alone, whatever its heartbeat says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from lakeward.base.quantities import format_time
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.pending.rollback import RollbackDecision, RollbackReason, Step
from lakeward.protocol.pending.stuck import is_begun_service
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.rollback.metrics import METRICS
from lakeward.services.rollback.run.failed_writes import judge_quiet
from lakeward.services.rollback.run.roll_back import (
    PlannedRollback,
    RollbackReport,
    find_decisions,
    find_quiet,
    preview,
    roll_back_writes,
)
from lakeward.services.service import Care, JobOrder, JobTraits, Service, ServiceDemand, TableFacts
from lakeward.table.snapshot import TableSnapshot

QUIET_SECONDS = 600.0
"""A pending write is looked at once nothing of it has changed on the timeline for so long. Hudi's own writers look
before each write or clean, so that this leaves it to them as long as they come."""


class RollbackService(Service[None]):
    kind = JobKind.ROLLBACK
    permission = TableService.ROLLBACK
    jobs: Final = {JobKind.ROLLBACK: JobTraits(rank=1)}
    metrics = METRICS

    def demand(self, facts: TableFacts, care: Care[None]) -> Mapping[JobKind, ServiceDemand]:
        return {self.kind: self._demand(facts, care)}

    def _demand(self, facts: TableFacts, care: Care[None]) -> ServiceDemand:
        """Whether a failed write is to be rolled back, or a service that was left unfinished to be released."""
        if facts.open is None or not facts.snapshot.timeline.pending:
            return ServiceDemand(False)
        table = facts.open()
        found = judge_quiet(table, facts.snapshot, quiet_seconds=QUIET_SECONDS)
        if not found:
            return ServiceDemand(False, _left(table, facts.snapshot))
        newest, more = found[0], f", and {len(found) - 1} more" if len(found) > 1 else ""
        return ServiceDemand(True, f"{newest.action} {newest.instant} failed{more}: {newest.why}", instants=len(found))

    def run(self, table: ServicedTable, care: Care[None], order: JobOrder) -> JobReport:
        """Roll back what failed; with the instants of the rollbacks, or of what was released."""
        found = find_decisions(table) if order.at_once else find_quiet(table, quiet_seconds=QUIET_SECONDS)
        todo, left = _divided(found)
        report = roll_back_writes(table, [each.instant for each in todo])
        plans = [each.planned.plan for each in report.rolled_back]
        figures = JobFigures(
            writes_rolled_back=len(plans),
            files_deleted=sum(len(names) for plan in plans for names in plan.files.values()),
        )
        return JobReport(
            JobResult.COMMITTED if report.rolled_back else JobResult.NOTHING,
            figures,
            tuple(each.rollback or each.planned.plan.instant for each in report.rolled_back),
            reasons=tuple(_reason(each.planned.decision) for each in report.rolled_back),
            own=RollbackReport(report.rolled_back, (*report.left, *left)),
        )

    def preview(
        self, table: ServicedTable, care: Care[None], order: JobOrder
    ) -> tuple[Sequence[PlannedRollback], Sequence[RollbackDecision]]:
        """What would be rolled back, and what is left."""
        todo, left = _divided(find_decisions(table))
        return [preview(table, decision) for decision in todo], left


def _divided(found: Iterable[RollbackDecision]) -> tuple[list[RollbackDecision], list[RollbackDecision]]:
    """What there is to do, and what is left."""
    todo: list[RollbackDecision] = []
    left: list[RollbackDecision] = []
    for decision in found:
        (left if decision.step is Step.LEAVE else todo).append(decision)
    return todo, left


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


SERVICE = RollbackService()
