"""The result of `lakeward compact`, for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from lakeward.cli.quantities import spell_size
from lakeward.execute.compaction import CompactedPlan, CompactionReport
from lakeward.plan.decision import Choice, Decision, PlanOutcome


def report_as_json(report: CompactionReport) -> dict[str, Any]:
    return {
        "compactions": [_plan_as_json(plan) for plan in report.plans],
        "decisions": [_decision_as_json(decision) for decision in report.outcome.decisions],
    }


def preview_as_json(outcome: PlanOutcome) -> dict[str, Any]:
    return {"dry_run": True, "decisions": [_decision_as_json(decision) for decision in outcome.decisions]}


def render_report(report: CompactionReport, console: Console) -> None:
    if not report.plans:
        console.print("Nothing to compact.")
    for plan in report.plans:
        rows = sum(operation.counts.rows for operation in plan.operations)
        pending = " (it was pending)" if plan.recovered else ""
        console.print(
            f"[bold]Compaction {plan.instant}[/bold]{pending}: {len(plan.operations)} file slices, {rows:,} rows, "
            f"{spell_size(plan.input_bytes)} in, {spell_size(plan.output_bytes)} out, {plan.seconds:.1f} s, "
            f"committed at {plan.completion_time}.",
            highlight=False,
        )
    _render_reasons(report.outcome, console)


def render_preview(outcome: PlanOutcome, console: Console) -> None:
    table = Table(title="What compact would do now", title_justify="left")
    for column in ("partition", "file group", "choice", "reason"):
        table.add_column(column, overflow="fold")
    for column in ("base", "logs", "log size"):
        table.add_column(column, justify="right")
    columns = (("base_bytes", spell_size), ("log_files", str), ("log_bytes", spell_size))
    for decision in outcome.decisions:
        table.add_row(
            decision.partition_path or "(none)",
            decision.file_id,
            decision.choice,
            decision.reason if decision.instant is None else f"{decision.reason} {decision.instant}",
            *(str(spell(decision.numbers[name])) for name, spell in columns if name in decision.numbers),
        )
    console.print(table)
    console.print(f"{len(outcome.operations)} operations, {spell_size(outcome.input_bytes)} to read. Nothing written.")


def _render_reasons(outcome: PlanOutcome, console: Console) -> None:
    left = [decision for decision in outcome.decisions if decision.choice is Choice.NONE]
    counts: dict[str, int] = {}
    for decision in left:
        counts[decision.reason] = counts.get(decision.reason, 0) + 1
    if counts:
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        console.print(f"Left alone: {len(left)} file groups ({told}).", highlight=False)


def _plan_as_json(plan: CompactedPlan) -> dict[str, Any]:
    return {
        "instant": plan.instant,
        "completion_time": plan.completion_time,
        "recovered": plan.recovered,
        "seconds": round(plan.seconds, 3),
        "input_bytes": plan.input_bytes,
        "output_bytes": plan.output_bytes,
        "operations": [asdict(operation) for operation in plan.operations],
    }


def _decision_as_json(decision: Decision) -> dict[str, Any]:
    return {
        "partition": decision.partition_path,
        "file_group": decision.file_id,
        "choice": decision.choice.value,
        "reason": decision.reason.value,
        "instant": decision.instant,
        "numbers": dict(decision.numbers),
    }
