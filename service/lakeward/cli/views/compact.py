"""The result of `lakeward compact`, for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape

from lakeward.base.quantities import format_duration, format_instant, format_size
from lakeward.cli.views.bloom_filters import bounded_filters
from lakeward.cli.views.plan import decision_as_json
from lakeward.engine.task.operation_spec import OperationKind, OperationResult
from lakeward.protocol.progress import Engine
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.plan.decision import Choice, PlanOutcome
from lakeward.services.compaction.run.compactor import CompactedPlan, CompactionReport
from lakeward.services.together.inspection import damaged_as_json

_PLACES = {
    Engine.IN_PROCESS: "in this process",
    Engine.LOCAL: "in processes of this machine",
    Engine.SPARK: "on Spark",
}


def report_as_json(report: CompactionReport) -> dict[str, Any]:
    return {
        "compactions": [_plan_as_json(plan) for plan in report.plans],
        "unscheduled": [ended.instant for ended in report.unscheduled],
        "left_pending": [asdict(left) for left in report.left_pending],
        "decisions": [decision_as_json(decision) for decision in report.outcome.decisions],
        "damage": [damaged_as_json(file) for file in report.damage],
    }


def render_report(report: CompactionReport, console: Console) -> None:
    if not report.plans:
        console.print("Nothing to compact.")
    for plan in report.plans:
        console.print(_headline(plan), highlight=False)
        if plan.bloom_error_rates:
            console.print(f"  {bounded_filters(plan.bloom_error_rates)}", highlight=False)
        for dropped in plan.dropped:
            console.print(f"  dropped {dropped.file_id} in {dropped.partition_path or '(none)'}: {dropped.why}.")
    for ended in report.unscheduled:
        console.print(f"Unscheduled plan {ended.instant}, since a file group of it is excluded.")
    for left in report.left_pending:
        console.print(f"Left plan {left.instant} pending: {left.why}.")
    for file in report.damage:
        console.print(f"[red]damaged[/]  {escape(file.what)}.", highlight=False)
    _render_reasons(report.outcome, console)


def _headline(plan: CompactedPlan) -> str:
    name = "Log compaction" if plan.action is ServiceAction.LOG_COMPACTION else "Compaction"
    pending = " (it was pending)" if plan.recovered else ""
    if plan.completion_time is None:
        return f"[bold]{name} {plan.instant}[/bold]{pending}: nothing of it could be carried out any more."
    where = f" {_PLACES[plan.engine]}" if plan.engine is not None else ""
    rows = sum(operation.counts.rows for operation in plan.operations)
    has_logs = any(operation.kind is OperationKind.LOG for operation in plan.operations)
    return (
        f"[bold]{name} {plan.instant}[/bold]{pending}: {_count(len(plan.operations), 'file slice')}, {rows:,} rows, "
        f"{format_size(plan.input_bytes)} in, {format_size(plan.output_bytes)} out, "
        f"{format_duration(plan.seconds)}{where}, committed at {format_instant(plan.completion_time)}. "
        f"A query reads {format_size(plan.read_bytes_after)} of these slices "
        f"instead of {format_size(plan.read_bytes_before)}."
        + (
            f" No operation needed more than {format_size(plan.peak_memory_bytes)} of memory."
            if plan.peak_memory_bytes
            else ""
        )
        + (f" {format_size(plan.base_bytes_left)} of base files did not have to be written." if has_logs else "")
    )


def _render_reasons(outcome: PlanOutcome, console: Console) -> None:
    left = [decision for decision in outcome.decisions if decision.choice is Choice.NONE]
    counts: dict[str, int] = {}
    for decision in left:
        counts[decision.reason] = counts.get(decision.reason, 0) + 1
    if counts:
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        console.print(f"Excluded: {_count(len(left), 'file group')} ({told}).", highlight=False)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plan_as_json(plan: CompactedPlan) -> dict[str, Any]:
    return {
        "instant": plan.instant,
        "action": plan.action.pending,
        "completion_time": plan.completion_time,
        "recovered": plan.recovered,
        "seconds": round(plan.seconds, 3),
        "engine": plan.engine,
        "input_bytes": plan.input_bytes,
        "output_bytes": plan.output_bytes,
        "merged_log_files": plan.merged_log_files,
        "merged_log_bytes": plan.merged_log_bytes,
        "read_bytes_before": plan.read_bytes_before,
        "read_bytes_after": plan.read_bytes_after,
        "base_bytes_left": plan.base_bytes_left,
        "peak_memory_bytes": plan.peak_memory_bytes,
        "operations": [_operation_as_json(operation) for operation in plan.operations],
        "dropped": [asdict(dropped) for dropped in plan.dropped],
    }


def _operation_as_json(operation: OperationResult) -> dict[str, Any]:
    fields = asdict(operation)
    del fields["column_stats"]  # a report has none
    if operation.delete_log is not None:
        del fields["delete_log"]["column_stats"]
    fields["damage"] = [damaged_as_json(file) for file in operation.damage]
    return fields
