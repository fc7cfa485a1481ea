"""`lakeward plan TABLE`: what compact would do now, or the daemon, and why; `explain` shows the same. Reads only.

Touches: stdout; the table and the store, reading only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count, format_size
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.options.engine import EngineArguments, describe_engine, engine_as_json
from lakeward.cli.options.plan_options import PlanArguments
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.result import Result
from lakeward.cli.serviced import compaction_options
from lakeward.cli.services.service_steps import ServiceSteps, in_one
from lakeward.cli.terminal import WIDE_CELLS, Column, NameCell, Rendered, Terminal, id_cell, new_table
from lakeward.config.settings import Writers
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.engine_rule import EngineRule, EngineSetting, rule_of_daemon
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.java import find_missing_java
from lakeward.engine.task.entry import run_operation_at
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.decision import Choice, Decision, Form, PlanOutcome
from lakeward.services.compaction.plan.explain import explain
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.services.compaction.run.plan_preview import Preview
from lakeward.table.backlog import read_amplification
from lakeward.table.timeline.service_instants import newest_plan_of_daemon


def engine_rule_of(opened: ConfiguredTable, given: PlanArguments) -> EngineRule:
    """On what `compact` would run its plans now, or the daemon."""
    settings, memory = opened.settings, opened.table.memory
    if _is_of_daemon(opened, given):
        missing = find_missing_java()
        return rule_of_daemon(
            EngineSetting(settings.service.engine),
            master=settings.spark.where,
            is_named=settings.spark.is_named,
            why_no_spark=None if missing is None else missing.what,
            memory_bytes=memory,
            memory_limit_bytes=settings.service.memory,
        )
    return EngineArguments().over(settings, memory_bytes=memory).rule


def _is_of_daemon(opened: ConfiguredTable, given: PlanArguments) -> bool:
    """A command line that says nothing of its own asks what the daemon of that configuration would do."""
    return opened.config is not None and given.is_silent


def preview(opened: ConfiguredTable, given: PlanArguments, rule: EngineRule) -> tuple[Preview, Sequence[Result]]:
    """The decisions that `compact` would take now, or the daemon, and what it would do beside."""
    clock = SystemClock()
    parked = ParkedGroups(opened, clock, say=partial(typer.echo, err=True))
    options = compaction_options(opened, opened.locks)
    # Where nothing is said of the writers yet, it is what could be done once they are stopped.
    options = replace(options, writers_stopped=opened.locks.writers is not Writers.SHARE)
    storage, base_path = opened.storage, opened.base_path
    table = ServicedTable.for_one_attempt(storage, base_path, options, clock=clock, processes=Processes())
    excluded = parked.excluded(parked.records(named=given.file_group or ()))

    def choose(input_bytes: int) -> Dispatcher:
        return InProcessDispatcher()

    compactor = Compactor(
        table,
        planner=given.over(opened.table, trigger=Trigger() if _is_of_daemon(opened, given) else None),
        choose_dispatcher=choose,
        run_operation=partial(run_operation_at, base_path),
        excluded=excluded,
    )
    found = compactor.preview()
    given.check_matches(found.outcome)
    if opened.config is None and (plan := newest_plan_of_daemon(storage, base_path, clock=clock)) is not None:
        typer.echo(
            f"Service {plan.planned_by_service} works on this table, too: its daemon planned {plan.action} "
            f"{plan.time}. This is what would be done without its configuration; name that with --config "
            "to see what it would do.",
            err=True,
        )
    steps = ServiceSteps(table, opened.table, opened.snapshot, choose, rule, excluded, dry_run=True)
    return found, list(steps.beside(JobKind.COMPACTION))


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
    said = f"Readers merge {format_count(logs, 'log')} of {size}"
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


def engines_as_json(outcome: PlanOutcome, rule: EngineRule) -> list[dict[str, Any]]:
    """An object for each plan that would be made."""
    found = []
    for choices, input_bytes in _plans(outcome):
        found.append({"choices": [choice.value for choice in choices], **engine_as_json(input_bytes, rule)})
    return found


def render_engines(outcome: PlanOutcome, rule: EngineRule, console: Console) -> None:
    """A sentence for each plan that would be made."""
    for choices, input_bytes in _plans(outcome):
        names = " and ".join(choice.value for choice in choices)
        console.print(f"{names} would run {describe_engine(input_bytes, rule)}.", highlight=False, markup=False)


def _plans(outcome: PlanOutcome) -> Iterator[tuple[list[Choice], int]]:
    """What each plan has of FULL and LOG, and what it reads."""
    read = {
        choice: sum(each.read_bytes for each in outcome.operations if each.operation_type == choice.value)
        for choice in (Choice.LOG, Choice.FULL)
        if any(each.operation_type == choice.value for each in outcome.operations)
    }
    if outcome.form is Form.HYBRID and read:
        yield list(read), sum(read.values())
    else:
        yield from (([choice], input_bytes) for choice, input_bytes in read.items())


def preview_result(
    outcome: PlanOutcome,
    beside: Sequence[Result],
    rule: EngineRule,
    *,
    document: Callable[[PlanOutcome], dict[str, Any]] = plan_as_json,
    render: Callable[[PlanOutcome, Console], None] = render_plan,
) -> Result:
    """What compact would do, on what it would run, and what it would do beside."""

    def render_all(console: Terminal) -> None:
        render(outcome, console)
        render_engines(outcome, rule, console)

    planned = Rendered(
        document={**document(outcome), "runs_on": engines_as_json(outcome, rule)},
        render=render_all,
        is_nothing=not outcome.operations,
    )
    return in_one([planned, *beside])


def plan(
    *,
    opened: ZonedTable,
    given: PlanArguments,
    explain_too: Annotated[
        bool, typer.Option("--explain", help="Say for every file group in a sentence why, or why not.")
    ] = False,
) -> Result:
    """Say what compact would do now, with --config what the daemon would: the operations, what they would cost, and why
    not the others. Writes nothing."""
    rule = engine_rule_of(opened, given)
    found, beside = preview(opened, given, rule)
    return preview_result(found.outcome, beside, rule, render=partial(render_plan, explained=explain_too))
