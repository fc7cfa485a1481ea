"""Compaction as a service of the daemon: its plan, and the jobs of recovery, plan expiry and compaction.

What there is to do is no demand like others: the plan, with a decision for every file group
(docs/decisions/0108-the-contract-of-a-service.md).

    what it remembers        until
    groups not to merge      the next compaction; a group, until one of its logs is gone
    groups to take whole,    the group's base file is another one
    or without LOG

Touches: the table, through `services/compaction/run/compactor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from lakeward.base.errors import LakewardError
from lakeward.engine.task.entry import run_operation_at
from lakeward.engine.task.operation_spec import OperationKind
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobFigures, JobReport, JobResult
from lakeward.protocol.progress import Engine
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.read.slice_input import count_merges
from lakeward.services.compaction.metrics import METRICS
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import PlanOutcome, Reason
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.price import PastMerge, price_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.shadow import with_shadow
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.run.compactor import CompactionReport, Compactor
from lakeward.services.compaction.run.unschedule import Unscheduled
from lakeward.services.compaction.run_cost import cost_of
from lakeward.services.service import Care, JobOrder, JobTraits, Service
from lakeward.table.file_group import FileSlice, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


class CompactionKeys(Protocol):
    """What the configuration says of a table."""

    @property
    def type(self) -> CompactionType: ...
    @property
    def planner(self) -> Mapping[str, str]: ...
    @property
    def partitions(self) -> tuple[str, ...]: ...
    @property
    def exclude_partitions(self) -> tuple[str, ...]: ...
    @property
    def objective_kept(self) -> float | None: ...
    @property
    def sources_retire(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Unmergeable:
    reason: Reason
    logs: frozenset[LogFile]


@dataclass(slots=True)
class CompactionMemory:
    groups_unmergeable: Mapping[GroupId, _Unmergeable] = field(default_factory=dict)
    groups_whole: frozenset[tuple[GroupId, str]] = frozenset()
    groups_without_log: frozenset[tuple[GroupId, str]] = frozenset()

    def keep_unmergeable(self, reasons: Mapping[GroupId, Reason], slices: Iterable[FileSlice]) -> None:
        """Replace what the compaction before found: these groups have logs that it could not merge.

        Args:
            slices: the newest of each file group; a group that has none any more is not kept.
        """
        logs = {slice_.group_id: frozenset(slice_.log_files) for slice_ in slices if slice_.group_id in reasons}
        self.groups_unmergeable = {group: _Unmergeable(reasons[group], found) for group, found in logs.items()}

    def unmergeable(self, slices: Iterable[FileSlice]) -> dict[GroupId, Reason]:
        """The reasons for those groups among `slices` that still have the logs which could not be merged."""
        known = self.groups_unmergeable
        if not known:
            return {}
        return {
            slice_.group_id: found.reason
            for slice_ in slices
            if (found := known.get(slice_.group_id)) is not None and found.logs <= frozenset(slice_.log_files)
        }

    def keep_whole(self, groups: Set[GroupId], slices: Iterable[FileSlice]) -> None:
        """Add what a compaction found: a LOG of these groups has to start at the oldest log. A slice never loses the
        deletes that are in it."""
        self.groups_whole = _added(self.groups_whole, groups, slices)

    def whole(self, slices: Iterable[FileSlice]) -> frozenset[GroupId]:
        """The groups among `slices` of which that is known."""
        return _still(self.groups_whole, slices)

    def keep_without_log(self, groups: Set[GroupId], slices: Iterable[FileSlice]) -> None:
        """Add what a compaction found: no LOG is made of these groups, for what their logs hold."""
        self.groups_without_log = _added(self.groups_without_log, groups, slices)

    def without_log(self, slices: Iterable[FileSlice]) -> frozenset[GroupId]:
        """The groups among `slices` of which that is known."""
        return _still(self.groups_without_log, slices)


_Known = frozenset[tuple[GroupId, str]]
"""File groups with the instants of their base files."""


def _added(known: _Known, groups: Set[GroupId], slices: Iterable[FileSlice]) -> _Known:
    return frozenset(
        (slice_.group_id, slice_.base_instant)
        for slice_ in slices
        if slice_.group_id in groups or (slice_.group_id, slice_.base_instant) in known
    )


def _still(known: _Known, slices: Iterable[FileSlice]) -> frozenset[GroupId]:
    if not known:
        return frozenset()
    return frozenset(each.group_id for each in slices if (each.group_id, each.base_instant) in known)


class TableCompaction(Service[Planner]):
    kind = JobKind.COMPACTION
    permission = TableService.COMPACTION
    jobs: Final = {
        JobKind.RECOVERY: JobTraits(rank=0),
        JobKind.PLAN_EXPIRY: JobTraits(rank=1),
        JobKind.COMPACTION: JobTraits(rank=1, waits_for_window=True, takes_memory=True),
    }
    is_of_merges = True
    metrics = METRICS

    def rules(self, table: CompactionKeys) -> Planner:
        """What says what to do: with Hudi's own trigger for the rules of RFC-103, unless the operator gives another."""
        return _planner(table, Trigger())

    def rules_at_once(self, table: CompactionKeys) -> Planner:
        """No trigger is waited for, but one that the operator gives."""
        return _planner(table, None)

    def new_memory(self) -> CompactionMemory:
        return CompactionMemory()

    def plan(self, snapshot: TableSnapshot, at: str, care: Care[Planner]) -> PlanOutcome:
        memory, slices = care.memory, snapshot.latest_slices
        excluded = {**memory.unmergeable(slices), **care.excluded}
        whole, without_log = memory.whole(slices), memory.without_log(slices)
        outcome = _informed(care)(snapshot, at, excluded, whole, without_log)
        if care.shadow is None:
            return outcome
        by_cost = _informed(replace(care, rules=care.shadow))(snapshot, at, excluded, whole, without_log)
        return with_shadow(outcome, by_cost)

    def run(self, table: ServicedTable, care: Care[Planner], order: JobOrder) -> JobReport:
        report = _DOES[order.kind](_compactor(table, care, order), care, order)
        return _saying_what_holds(report, care, at=table.clock.now())

    def preview(self, table: ServicedTable, care: Care[Planner], order: JobOrder) -> PlanOutcome:
        return _compactor(table, care, order).preview().outcome


def _planner(table: CompactionKeys, trigger: Trigger | None) -> Planner:
    chosen = GroupFilter(partitions=table.partitions, excluded_partitions=table.exclude_partitions)
    return planner_of(
        table.type,
        chosen,
        table.planner,
        objective=table.objective_kept,
        trigger=trigger,
        sources_retire=table.sources_retire,
    )


def _informed(care: Care[Planner]) -> Planner:
    """The planner with what jobs and readers of the table showed."""
    price = price_of(_past_merges(care), at_first=care.rules.options.price.factor)
    return care.rules.priced(price).learning(care.learned)


def _past_merges(care: Care[Planner]) -> list[PastMerge]:
    return [
        PastMerge(each.ended_at, each.predicted_seconds or 0.0, each.actual_seconds or 0.0, each.detail.get("price", 1))
        for each in care.costs
    ]


def _saying_what_holds(report: JobReport, care: Care[Planner], *, at: float) -> JobReport:
    """The report, which says so where the model begins or ends to hold of the table by this job."""
    cost, jobs = report.cost, _past_merges(care)
    if cost is None or care.rules.options.reads is None:
        return report
    job = PastMerge(at, cost.predicted_seconds, cost.actual_seconds, cost.price)
    was, now = price_of(jobs).is_off, price_of([*jobs, job]).is_off
    if was == now:
        return report
    return replace(report, reasons=(*report.reasons, MODEL_IS_OFF if now else MODEL_HOLDS))


MODEL_IS_OFF = (
    "For a day jobs of the table took three times what was predicted, or a third of it: it is planned by the rules of "
    "RFC-103 until a job is predicted well"
)
MODEL_HOLDS = "The job took what was predicted: the table is planned by what pays again"


def _compactor(table: ServicedTable, care: Care[Planner], order: JobOrder) -> Compactor:
    return Compactor(
        table,
        planner=_informed(care),
        choose_dispatcher=order.choose,
        run_operation=order.task(run_operation_at),
        excluded=care.excluded,
        planned_by=care.planned_by,
    )


def _recover(compactor: Compactor, care: Care[Planner], order: JobOrder) -> JobReport:
    instants = tuple(attempt.instant for attempt in compactor.recover().rolled_back)
    return JobReport(JobResult.COMMITTED if instants else JobResult.NOTHING, instants=instants)


def _expire_plans(compactor: Compactor, care: Care[Planner], order: JobOrder) -> JobReport:
    ended = [compactor.unschedule(instant) for instant in order.expired_plans]
    gone = tuple(each.instant for each in ended if isinstance(each, Unscheduled))
    return JobReport(JobResult.COMMITTED if gone else JobResult.NOTHING, instants=gone)


def _compact(compactor: Compactor, care: Care[Planner], order: JobOrder) -> JobReport:
    report = compactor.compact()
    compacted = replace(_compacted(report), cost=cost_of(report, _informed(care).options), own=report)
    _keep_found_in_logs(care.memory, order, report)
    if report.damage:
        order.doubt()
    order.unsampled.add(compacted.instants)
    return compacted


_DOES: Mapping[JobKind, Callable[[Compactor, Care[Any], JobOrder], JobReport]] = {
    JobKind.RECOVERY: _recover,
    JobKind.PLAN_EXPIRY: _expire_plans,
    JobKind.COMPACTION: _compact,
}


def _keep_found_in_logs(memory: CompactionMemory, order: JobOrder, report: CompactionReport) -> None:
    """A job opened logs that it then could not merge, or not as planned; the next plan need not ask again."""
    found = {
        (decision.partition_path, decision.file_id): decision.reason
        for decision in report.outcome.decisions
        if decision.reason is Reason.UNSUPPORTED_LOGS
    }
    try:
        slices = order.scanned().latest_slices if found or report.whole or report.without_log else ()
    except (LakewardError, OSError):
        slices = ()  # the job is committed all the same, and the next one finds these logs again
    memory.keep_unmergeable(found, slices)
    if report.whole:
        memory.keep_whole(report.whole, slices)
    if report.without_log:
        memory.keep_without_log(report.without_log, slices)


def _compacted(report: CompactionReport) -> JobReport:
    done = [plan for plan in report.plans if plan.completion_time is not None]
    operations = [operation for plan in done for operation in plan.operations]
    counts = [operation.counts for operation in operations]
    figures = JobFigures(
        full_operations=sum(operation.kind is OperationKind.FULL for operation in operations),
        log_operations=sum(operation.kind is OperationKind.LOG for operation in operations),
        read_bytes=sum(operation.input_bytes for operation in operations),
        written_bytes=sum(operation.output_bytes for operation in operations),
        log_files=sum(plan.merged_log_files for plan in done),
        log_bytes=sum(plan.merged_log_bytes for plan in done),
        rows_written=sum(count.rows for count in counts),
        rows_inserted=sum(count.inserted for count in counts),
        rows_updated=sum(count.updated for count in counts),
        rows_deleted=sum(count.deleted for count in counts),
        merges=count_merges(counts),
        row_groups_copied=sum(count.row_groups_copied for count in counts),
        peak_memory_bytes=max((plan.peak_memory_bytes for plan in done), default=0),
        operations_verified=sum(bool(operation.digest) for operation in operations),
        spark_jobs=sum(plan.engine is Engine.SPARK for plan in done),
    )
    ended = (*(plan.instant for plan in report.plans), *(gone.instant for gone in report.unscheduled))
    # A plan that the job itself made and gave up is no progress: the next plan would demand it again.
    achieved = report.unscheduled or any(plan.completion_time is not None or plan.recovered for plan in report.plans)
    return JobReport(JobResult.COMMITTED if achieved else JobResult.NOTHING, figures, ended)


SERVICE = TableCompaction()
