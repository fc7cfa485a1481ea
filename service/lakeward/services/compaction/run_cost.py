"""What a compaction took and what it was for: its report, and the planner's model, in; the figures of its card out.

A query of one key reads the row group of the base file that holds it, and all logs: no log says which keys it has.
A reader of a file slice opens all of its logs and merges the live ones, in the layout `lsm_tree` all of them. A FULL
leaves it one base file. A LOG leaves its output beside the logs that it did not take; those that it took are opened as
before, unless a clean will take them away.

Touches: nothing.
Keeps:   1. what was predicted is what the planner said of the same sizes, and what a reader takes what it says of logs;
         2. CPU seconds are known only where each task had a process to itself;
         3. a query of one key reads one row group of the base file, and the logs that a full query opens.
See:     docs/decisions/0174-cards.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakeward.engine.task.operation_spec import OperationKind, OperationResult
from lakeward.protocol.job_report import JobCost, ReadLoad
from lakeward.protocol.progress import Engine
from lakeward.services.compaction.plan.cost import operation_seconds
from lakeward.services.compaction.plan.decision import Decision
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.pay_back import read_seconds
from lakeward.services.compaction.plan.read_rates import READS_PER_DAY
from lakeward.services.compaction.run.compactor import CompactedPlan, CompactionReport
from lakeward.services.compaction.run.targets import Target
from lakeward.table.file_system_view import GroupId

ROW_GROUP_BYTES = 120 * 2**20
"""What a row group of a base file has by Hudi's default (`hoodie.parquet.block.size`)."""

RECOVERED = "recovered"
"""The reason of operations whose plan was pending before: who made it knows why."""


def cost_of(report: CompactionReport, options: HybridOptions) -> JobCost | None:
    """None where nothing was merged."""
    decisions = {(each.partition_path, each.file_id): each for each in report.outcome.decisions}
    done = [plan for plan in report.plans if plan.completion_time is not None and plan.operations]
    if not done:
        return None
    operations = [each for plan in done for each in _operations(plan, decisions, options)]
    tasks = [result for plan in done for result in plan.operations]
    cpu = [result.cpu_seconds for result in tasks]
    has_process = all(plan.engine is not Engine.IN_PROCESS for plan in done)
    return JobCost(
        reasons=Counter(each.reason for each in operations),
        before=sum((each.before for each in operations), ReadLoad()),
        after=sum((each.after for each in operations), ReadLoad()),
        saved_seconds_a_day=sum(each.saved_seconds_a_day for each in operations),
        predicted_seconds=options.price.factor * sum(operation_seconds(result.input_bytes) for result in tasks),
        price=options.price.factor,
        task_seconds=sum(result.seconds for result in tasks),
        cpu_seconds=sum(each or 0.0 for each in cpu) if has_process and None not in cpu else None,
        written={plan.instant: len(plan.operations) for plan in done},
        rewritten=Counter(instant for plan in done for target in plan.targets for instant in _rewritten(target)),
    )


@dataclass(frozen=True, slots=True)
class _Operation:
    reason: str
    before: ReadLoad
    after: ReadLoad
    reads_per_day: float

    @property
    def saved_seconds_a_day(self) -> float:
        return max(0.0, self.before.core_seconds - self.after.core_seconds) * self.reads_per_day


def _operations(
    plan: CompactedPlan, decisions: Mapping[GroupId, Decision], options: HybridOptions
) -> Iterator[_Operation]:
    results = {(result.partition_path, result.file_id): result for result in plan.operations}
    for target in plan.targets:
        # The groups of a pending plan are decided about again once that plan is done: that is not why it was made.
        decided = decisions.get(target.group_id)
        decision = None if plan.recovered else decided
        reads = READS_PER_DAY if decided is None else decided.numbers.get("reads_per_day", READS_PER_DAY)
        before = _before(target)
        after = _after(target, results[target.group_id], before, sources_go=options.sources_retire)
        yield _Operation(RECOVERED if decision is None else decision.reason.value, before, after, reads)


def _before(target: Target) -> ReadLoad:
    logs = target.slice.row_logs
    merged = sum(log.size for log in logs if log.name.text in target.live)
    has_base = target.slice.base_file is not None
    return ReadLoad(
        files=len(logs) + has_base,
        bytes=target.slice.base_bytes + sum(log.size for log in logs),
        logs_opened=len(logs),
        merged_bytes=merged,
        core_seconds=read_seconds(merged, len(logs)),
        point_bytes=_point_bytes(target.slice.base_bytes, sum(log.size for log in logs)),
    )


def _point_bytes(base_bytes: int, log_bytes: int) -> int:
    return min(base_bytes, ROW_GROUP_BYTES) + log_bytes


def _after(target: Target, result: OperationResult, before: ReadLoad, *, sources_go: bool) -> ReadLoad:
    if target.kind is OperationKind.FULL:
        return ReadLoad(files=1, bytes=result.output_bytes, point_bytes=_point_bytes(result.output_bytes, 0))
    written = 1 if result.delete_log is None else 2
    # In the layout `lsm_tree` readers would merge them, too: there no LOG is made whose sources stay.
    gone, gone_bytes = (len(target.merged), target.input_bytes) if sources_go else (0, 0)
    merged = before.merged_bytes + result.output_bytes - target.input_bytes
    opened = before.logs_opened + written - gone
    grown = result.output_bytes - gone_bytes
    return ReadLoad(
        files=before.files + written - gone,
        bytes=before.bytes + grown,
        logs_opened=opened,
        merged_bytes=merged,
        core_seconds=read_seconds(merged, opened),
        point_bytes=before.point_bytes + grown,
    )


def _rewritten(target: Target) -> set[str]:
    """The instants whose files are read no more once the operation is done."""
    base = {target.slice.base_instant} if target.kind is OperationKind.FULL and target.slice.base_file else set()
    return base | {log.instant for log in target.merged}
