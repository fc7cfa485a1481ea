"""What a planner chose, for people and as JSON: the result of `plan`, `explain` and `compact --dry-run`.

Touches: the console it is given.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

from lakeward.base.quantities import format_size
from lakeward.cli.views.tables import WIDE_CELLS, Column, NameCell, id_cell, new_table
from lakeward.services.compaction.plan.decision import Choice, Decision, PlanOutcome
from lakeward.services.compaction.plan.explain import explain
from lakeward.table.backlog import read_amplification


def plan_as_json(outcome: PlanOutcome) -> dict[str, Any]:
    return {
        "form": outcome.form.value,
        "operations": len(outcome.operations),
        "predicted": _predicted(outcome),
        "decisions": [decision_as_json(decision) for decision in outcome.decisions],
    }


def explanations_as_json(outcome: PlanOutcome) -> dict[str, Any]:
    return {
        "decisions": [
            {**decision_as_json(decision), "explanation": explain(decision)} for decision in outcome.decisions
        ]
    }


def decision_as_json(decision: Decision) -> dict[str, Any]:
    return {
        "partition": decision.partition_path,
        "file_group": decision.file_id,
        "choice": decision.choice.value,
        "reason": decision.reason.value,
        "instead_of": decision.instead_of.value if decision.instead_of else None,
        "instant": decision.instant,
        "numbers": dict(decision.numbers),
    }


def render_plan(outcome: PlanOutcome, console: Console, *, explained: bool = False) -> None:
    kinds = {"partition": Column.ELASTIC, "file group": Column.FIXED, "choice": Column.FIXED, "reason": Column.FIXED}
    kinds |= dict.fromkeys(("base", "logs", "log size"), Column.NUMBER)
    table = new_table(kinds, title="What compact would do now")
    columns = (("base_bytes", format_size), ("log_files", str), ("log_bytes", format_size))
    for decision in outcome.decisions:
        # The explanation has the instant too.
        reason, instant = decision.reason.value, decision.instant if console.width >= WIDE_CELLS else None
        table.add_row(
            NameCell(decision.partition_path or "(none)"),
            id_cell(decision.file_id, console),
            _COLOURS[decision.choice].format(decision.choice),
            reason if instant is None else f"{reason} {instant}",
            *(str(formatted(decision.numbers[name])) for name, formatted in columns if name in decision.numbers),
        )
    console.print(table)
    if explained:
        render_explanations(outcome, console)
    predicted = _predicted(outcome)
    console.print(
        f"{_unmerged(predicted)} {_count(outcome, Choice.FULL)} FULL, {_count(outcome, Choice.LOG)} LOG, "
        f"{_count(outcome, Choice.NONE)} excluded. To read {format_size(predicted['read_bytes'])}, to write "
        f"{format_size(predicted['write_bytes'])}; rewriting every slice that has logs would write "
        f"{format_size(predicted['write_bytes_if_all_full'])}. "
        f"About {predicted['core_seconds']:.0f} core-seconds. A query reads "
        f"{predicted['read_amplification_before']:.2f} times the base now, "
        f"{predicted['read_amplification_after']:.2f} times after. Nothing written.",
        highlight=False,
    )


def _unmerged(predicted: dict[str, float]) -> str:
    logs, size = int(predicted["log_files"]), format_size(predicted["log_bytes"])
    said = f"Readers merge {logs:,} log{'' if logs == 1 else 's'} of {size}"
    if not (superseded := int(predicted["superseded_log_files"])):
        return f"{said}."
    return f"{said}; {superseded:,} superseded of {format_size(predicted['superseded_log_bytes'])} lie beside them."


def render_explanations(outcome: PlanOutcome, console: Console) -> None:
    for decision in outcome.decisions:
        where = f"{decision.partition_path or '(none)'} {decision.file_id}"
        console.print(f"[bold]{where}[/bold] {explain(decision)}", highlight=False)


_COLOURS = {Choice.FULL: "[green]{}[/green]", Choice.LOG: "[cyan]{}[/cyan]", Choice.NONE: "[dim]{}[/dim]"}


def _count(outcome: PlanOutcome, choice: Choice) -> int:
    return sum(decision.choice is choice for decision in outcome.decisions)


def _predicted(outcome: PlanOutcome) -> dict[str, float]:
    """Sums over the decisions, by the definitions of `table/backlog.py`."""
    seconds = 0.0
    log_files = log_bytes = superseded_files = superseded_bytes = read = read_after = merged = write = all_full = 0
    for decision in outcome.decisions:
        numbers = decision.numbers
        base, logs = int(numbers.get("base_bytes", 0)), int(numbers.get("log_bytes", 0))
        log_files += int(numbers.get("log_files", 0))
        log_bytes += logs
        superseded_files += int(numbers.get("superseded_log_files", 0))
        superseded_bytes += int(numbers.get("superseded_log_bytes", 0))
        read += base + logs
        merged += base or logs
        write += int(numbers.get("write_bytes", 0))
        seconds += numbers.get("core_seconds", 0)
        all_full += (base or logs) if logs else 0
        # Merging logs removes what they have in common, and how much that is is not known before: counted as nothing.
        read_after += (base or logs) if decision.choice is Choice.FULL else base + logs
    return {
        "log_files": log_files,
        "log_bytes": log_bytes,
        "superseded_log_files": superseded_files,
        "superseded_log_bytes": superseded_bytes,
        "read_bytes": outcome.input_bytes,
        "write_bytes": write,
        "write_bytes_if_all_full": all_full,
        "core_seconds": round(seconds, 3),
        "read_amplification_before": round(read_amplification(read_bytes=read, merged_bytes=merged), 4),
        "read_amplification_after": round(read_amplification(read_bytes=read_after, merged_bytes=merged), 4),
    }
