"""Partition TTL as a service of the daemon: which partitions have expired, the notice before the first run, and the job
that deletes them. Off unless `ttl.keep` is set.

    nothing expired                    -> asked again after an hour, or when the next one expires
    expired, no notice was given       -> a job gives it, and deletes nothing
    expired, the notice lasts          -> waits until it is over, which the page and a metric show
    expired, the notice is over        -> a job deletes, in a pause of the writers

Touches: the table, through `services/ttl/run/expirer.py`; to know ages it reads a footer of each partition, or its
         metadata file, once; the notice.
Keeps:   1. without `keep` nothing is read and nothing done;
         2. no partition is deleted before the notice of what is asked for now was over, at once or not; where nothing
            has expired none is given;
         3. file groups that are parked or paused keep their partition, and partitions that the configuration leaves out
            stay;
         4. what writers prevent is no failure: the job ends with nothing done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeward.base.errors import Conflict, TryLater
from lakeward.base.quantities import format_count, format_size, format_time
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.protocol.pause_of_writers import writes_at_work
from lakeward.protocol.problem import problem_of
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.service import Care, Fact, JobOrder, JobTraits, Service, ServiceDemand, TableFacts, TableRules
from lakeward.services.ttl.metrics import METRICS
from lakeward.services.ttl.plan.options import TtlOptions
from lakeward.services.ttl.plan.ttl_plan import TtlPlan, TtlReport
from lakeward.services.ttl.run.notice import give_notice, noticed_at
from lakeward.services.ttl.run.partition_ages import plan_expiry
from lakeward.services.ttl.settings import TtlSettings
from lakeward.table.snapshot import TableSnapshot

_OFF = "No partition expires: ttl.keep is not set."
LOOK_SECONDS = 3600.0
"""Ages are asked no more often."""


@dataclass(frozen=True, slots=True)
class TtlRules:
    options: TtlOptions
    notice: float


@dataclass(frozen=True, slots=True)
class TtlLook:
    """What had expired when that was asked last."""

    until: float
    """When it is asked again, in seconds since the epoch."""
    partitions: int
    bytes: int
    paths: tuple[str, ...]
    first_at: float | None
    """When the first run may be, where it is not over; None: no notice was given, or there is nothing to give it of."""


@dataclass(slots=True)
class TtlMemory:
    look: TtlLook | None = None
    """None before the first, and after a job."""
    known: dict[str, str | None] = field(default_factory=dict)
    """What was read of footers and metadata files."""


class TtlService(Service[TtlRules]):
    kind = JobKind.TTL
    permission = TableService.WRITING
    jobs: Final = {JobKind.TTL: JobTraits(rank=1, waits_for_window=True)}
    metrics = METRICS

    def is_asked_for(self, table: TableRules) -> bool:
        return table.section(TtlSettings).options.keep is not None

    def new_memory(self) -> TtlMemory:
        return TtlMemory()

    def rules(self, table: TableRules) -> TtlRules:
        section = table.section(TtlSettings)
        return TtlRules(section.options, section.notice)

    def demand(self, facts: TableFacts, care: Care[TtlRules]) -> Mapping[JobKind, ServiceDemand]:
        if care.rules.options.keep is None:
            return {self.kind: ServiceDemand(False)}
        return {self.kind: _demand(facts, care)}

    def run(self, table: ServicedTable, care: Care[TtlRules], order: JobOrder) -> JobReport:
        # It loads what writes rows: only once there is something to delete.
        from lakeward.services.ttl.run.expirer import expire_partitions

        memory: TtlMemory = care.memory
        memory.look = None
        rules = care.rules
        if rules.options.keep is None:
            return JobReport(JobResult.NOTHING, own=_OFF)
        planned = self._planned_at(table, care)
        if planned.first_at is not None:
            noticed = noticed_at(table.storage, table.base_path, rules.options) is not None
            give_notice(table.storage, table.base_path, rules.options, now=table.clock.now())
            return JobReport(JobResult.NOTHING if noticed else JobResult.COMMITTED, own=planned)
        try:
            report = expire_partitions(table, rules.options, select=care.selected, excluded=frozenset(care.excluded))
        except (Conflict, TryLater) as error:
            text = problem_of(error).text
            return JobReport(JobResult.NOTHING, problems=(WorkProblem(ProblemKind.TEMPORARY, text),), own=text)
        if report.instant is None:
            return JobReport(JobResult.NOTHING, own=report)
        figures = JobFigures(partitions_deleted=len(report.plan.partitions))
        return JobReport(JobResult.COMMITTED, figures, (report.instant,), own=report)

    def preview(self, table: ServicedTable, care: Care[TtlRules], order: JobOrder) -> TtlReport | str:
        """What has expired, or why nothing does."""
        return _OFF if care.rules.options.keep is None else self._planned_at(table, care)

    def _planned_at(self, table: ServicedTable, care: Care[TtlRules]) -> TtlReport:
        """What has expired, and until when its notice lasts, be it given or not."""
        options, now = care.rules.options, table.clock.now()
        plan = _planned(table, table.snapshot(service=self.permission), care)
        if not plan.partitions:
            return TtlReport(plan)
        noticed = noticed_at(table.storage, table.base_path, options)
        first_at = (now if noticed is None else noticed) + care.rules.notice
        return TtlReport(plan, first_at=first_at if first_at > now else None)

    def shown(self, memory: TtlMemory) -> Sequence[Fact]:
        look = memory.look
        if look is None or not look.partitions:
            return ()
        named = ", ".join(look.paths[:3]) + (", …" if look.partitions > 3 else "")
        return (Fact("Expired", f"{format_count(look.partitions, 'partition')} of {format_size(look.bytes)}: {named}"),)


def _demand(facts: TableFacts, care: Care[TtlRules]) -> ServiceDemand:
    memory, now = care.memory, facts.clock.now()
    look: TtlLook | None = memory.look
    if look is None or now >= look.until:
        look = memory.look = _looked(facts, care)
    if not look.partitions:
        return ServiceDemand(False, due_at=look.until)
    text = f"{format_count(look.partitions, 'partition')} of {format_size(look.bytes)} expired"
    if look.first_at is not None and look.first_at > now:
        why = f"{text}; the first run on this table deletes them from {format_time(look.first_at)} on"
        return ServiceDemand(False, why, due_at=look.first_at)
    for path in look.paths:
        if (write := next(writes_at_work(facts.snapshot, (path,)), None)) is not None:
            return ServiceDemand(False, f"{text}, and wait: {write.action} {write.time} is at work.", due_at=look.until)
    return ServiceDemand(True, text)


def _looked(facts: TableFacts, care: Care[TtlRules]) -> TtlLook:
    plan = _planned(facts, facts.snapshot, care)
    now, options = facts.clock.now(), care.rules.options
    assert options.keep is not None
    ends = [now + LOOK_SECONDS]
    if plan.next_at is not None:
        ends.append(plan.next_at + options.keep + 1.0)
    size = sum(each.bytes for each in plan.expired)
    noticed = noticed_at(facts.storage, facts.snapshot.base_path, options) if plan.expired else None
    first_at = None if noticed is None else noticed + care.rules.notice
    return TtlLook(max(now + 1.0, min(ends)), len(plan.expired), size, plan.partitions, first_at)


def _planned(at: TableFacts | ServicedTable, snapshot: TableSnapshot, care: Care[TtlRules]) -> TtlPlan:
    return plan_expiry(
        at.storage,
        snapshot,
        care.rules.options,
        now=at.clock.now(),
        known=care.memory.known,
        selected=care.selected(snapshot.partitions),
        excluded=frozenset(care.excluded),
    )


SERVICE = TtlService()
