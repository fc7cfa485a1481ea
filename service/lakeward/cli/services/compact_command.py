"""`lakeward compact TABLE`: finish pending compactions, plan again, carry that out, and report it.

Touches: stdout, stderr; the table, through `services/compaction/run/compactor.py`; the store, where a file group is
         parked.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LakewardError
from lakeward.base.quantities import (
    format_count,
    format_duration,
    format_instant,
    format_size,
    parse_duration,
    parse_memory,
)
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.look.plan_command import (
    decision_as_json,
    engines_as_json,
    plan_as_json,
    render_engines,
    render_plan,
)
from lakeward.cli.options.bloom_filter import BloomFilterArguments, bounded_filters
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.plan_options import PlanArguments
from lakeward.cli.options.values import parse_option
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import compaction_options, serviced_table
from lakeward.cli.services.service_steps import ServiceSteps, in_one
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.config.choices import Codec
from lakeward.engine.dispatch.engine_rule import EngineRule
from lakeward.engine.task.entry import run_operation_at
from lakeward.engine.task.operation_spec import OperationKind, OperationResult
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.progress import Engine
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.plan.decision import Choice, PlanOutcome
from lakeward.services.compaction.run.compactor import CompactedPlan, CompactionReport, Compactor
from lakeward.services.together.inspection import damaged_as_json
from lakeward.table.damaged_file import damaged_error


def compact(
    *,
    opened: ZonedTable,
    given: LockArguments,
    wait: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="How long to wait for another process that carries out a pending compaction."
        ),
    ] = "150s",
    plan: PlanArguments,
    no_metadata_services: Annotated[
        bool,
        typer.Option(
            "--no-metadata-services",
            help="Leave the metadata table to its writers. Otherwise it is cleaned and compacted at the end, where "
            "they would soon have to (metadata_compact_after).",
        ),
    ] = False,
    yield_to_writers: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long to wait for a concurrent write that publishing this compaction would make fail; default 1m.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    verify: Annotated[
        bool | None,
        typer.Option(
            "--verify/--no-verify",
            help="Read every new file back and merge a sample of keys a second, slow way; default --verify.",
        ),
    ] = None,
    codec: Annotated[
        Codec | None, typer.Option(help="Compression of new base files; default zstd.", show_default=False)
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Peak memory of one operation, from 300MiB; default 512MiB.")
    ] = None,
    given_filter: BloomFilterArguments,
    engine: EngineArguments,
    accept_damaged_logs: Annotated[
        bool,
        typer.Option(
            "--accept-damaged-logs",
            help="Go on where logs are gone, cut or torn, as Hudi does, instead of leaving their file groups alone. "
            "Their rows are lost for good, also when the files come back; the commit says which files they were.",
        ),
    ] = False,
) -> Result:
    """Finish pending compactions, then plan and carry out a new one."""
    configured, clock = opened.table, SystemClock()
    locks = given.over(opened, dry_run=dry_run)
    options = compaction_options(opened, locks)
    yielding = options.yielding
    yield_seconds = parse_option(parse_duration, "--yield-to-writers", yield_to_writers, yielding.seconds)
    options = replace(
        options,
        yielding=replace(yielding, seconds=yield_seconds),
        wait_seconds=parse_option(parse_duration, "--wait", wait, 0.0),
        codec=options.codec if codec is None else codec.value,
        verify=options.verify if verify is None else verify,
        memory_bytes=parse_option(parse_memory, "--memory", memory, options.memory_bytes),
        bloom_bytes_max=given_filter.over(options.bloom_bytes_max),
        accept_damaged_logs=accept_damaged_logs,
    )
    parked = ParkedGroups(opened, clock, say=partial(typer.echo, err=True))
    parked_now = parked.records(named=plan.file_group or ())
    excluded = parked.excluded(parked_now)
    if no_metadata_services:
        configured = configured.model_copy(update={"metadata_compact_after": 0})
    try:
        with (
            engine.over(opened.settings, memory_bytes=options.memory_bytes) as engines,
            serviced_table(opened, options) as serviced,
        ):
            if not dry_run:
                engines.check()
            compactor = Compactor(
                serviced,
                planner=plan.over(configured),
                choose_dispatcher=engines.choose,
                run_operation=partial(run_operation_at, opened.base_path),
                excluded=excluded,
            )
            if dry_run or plan.narrows:
                preview = compactor.preview().outcome
                plan.check_matches(preview)
            done = in_round(preview if dry_run else compactor.compact(), engines.rule)
            steps = ServiceSteps(
                serviced, configured, opened.snapshot, engines.choose, engines.rule, excluded, dry_run=dry_run
            )
            beside = [] if dry_run else [Result(document={"parked": parked.as_json(parked_now)}, is_nothing=True)]
            return in_one([done, *beside, *steps.beside(JobKind.COMPACTION)])
    except LakewardError as error:
        parked.park(error)
        raise


def in_round(done: PlanOutcome | CompactionReport, rule: EngineRule) -> Result:
    """What it did, or would do: also the step of `lakeward service`."""
    if isinstance(done, CompactionReport):
        return Rendered(
            document=report_as_json(done),
            render=partial(render_report, done),
            is_nothing=not done.plans,
            error=damaged_error(done.damage) if done.damage else None,
        )
    document = {**plan_as_json(done), "runs_on": engines_as_json(done, rule)}

    def render(console: Terminal) -> None:
        render_plan(done, console)
        render_engines(done, rule, console)

    return Rendered(document=document, render=render, is_nothing=not done.operations)


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
    slices = format_count(len(plan.operations), "file slice")
    has_logs = any(operation.kind is OperationKind.LOG for operation in plan.operations)
    return (
        f"[bold]{name} {plan.instant}[/bold]{pending}: {slices}, {rows:,} rows, "
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
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        console.print(f"Excluded: {format_count(len(left), 'file group')} ({reasons}).", highlight=False)


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
