"""`lakeward service TABLE`: all that there is to do for a table now, in the daemon's order, and one report of it.

    recover -> roll back -> compact, the metadata table too -> clean -> archive

Each step is what the verb of its name does, at once: what the daemon waits for (a number of commits, a pause after a
write failed) is not waited for. A step that the table, as it is, cannot be given is told and passed.

Touches: stdout, stderr; the table, through what each step executes.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. a step that is refused holds no other one back, and makes the exit code that of its error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.options.spark import local_below_of, spark_of
from lakeward.cli.options.store import DebugOption, JsonOption, print_json
from lakeward.clock import SystemClock
from lakeward.errors import Refused

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.cli.views.terminal import Terminal
    from lakeward.dispatch.dispatcher import Dispatcher
    from lakeward.execute.serviced_table import ServicedTable

Told = tuple[dict[str, Any], Callable[["Terminal"], None]]
"""What a step did, as JSON and for people."""


@with_option_groups
def service(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, step by step; write nothing.")
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Recover a table, roll failed writes back, compact it, clean and archive it: all there is to do, in this order.

    It does at once what the daemon does when it is due, by the same settings. A verb that writes needs a statement
    about the table's other writers: --writers stopped, or --lock, or what the configuration says under locks.
    """
    from lakeward.cli.serviced import serviced_table
    from lakeward.cli.views.terminal import Terminal

    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    spark = spark_of(opened.settings.spark, None, [])
    console, report = Terminal(), {}
    refused: Refused | None = None
    try:
        with serviced_table(opened, locks, timezone=timezone) as serviced:
            compact = _Compaction(opened, serviced, spark)
            steps: dict[str, Callable[[], Told | None]] = {
                "recovery": compact.recover,
                "rollback": partial(_roll_back, serviced, dry_run=dry_run),
                "compaction": compact.preview if dry_run else compact.run,
                "clean": partial(_clean, opened, serviced, dry_run=dry_run),
                "archive": partial(_archive, opened, serviced, dry_run=dry_run),
            }
            if dry_run:
                del steps["recovery"]
            for name, step in steps.items():
                try:
                    told = step()
                except Refused as error:
                    refused = refused or error
                    told = _refused(error)
                if told is None:
                    continue
                report[name], render = told
                if not as_json:
                    render(console)
    finally:
        spark.stop()
    if as_json:
        print_json({"dry_run": dry_run, **report})
    if refused is not None:
        raise refused


class _Compaction:
    """The steps that are compaction's; none of them on a table that leaves it no work."""

    def __init__(self, opened: ConfiguredTable, serviced: ServicedTable, spark: Dispatcher) -> None:
        from lakeward.dispatch.in_process import InProcessDispatcher
        from lakeward.execute.compaction.compactor import Compactor
        from lakeward.plan.compaction.planner import planner_of
        from lakeward.plan.compaction.selection import GroupFilter
        from lakeward.plan.eligibility import why_no_work
        from lakeward.task.entry import run_operation_at

        self._opened = opened
        self._serviced = serviced
        self._no_work = why_no_work(opened.snapshot(timezone=serviced.options.timezone))
        settings, local = opened.table, local_below_of(opened.settings.spark, None)
        chosen = GroupFilter(partitions=settings.partitions, excluded_partitions=settings.exclude_partitions)
        self._compactor = Compactor(
            serviced.storage,
            serviced.base_path,
            serviced.options,
            planner=planner_of(settings.type, chosen, settings.planner, objective=settings.objective_kept),
            choose_dispatcher=lambda size: InProcessDispatcher() if size < local else spark,
            run_operation=partial(run_operation_at, serviced.base_path),
            clock=serviced.clock,
            processes=serviced.processes,
            observer=serviced.observer,
            guard=serviced.guard,
        )

    def recover(self) -> Told | None:
        if self._no_work is not None:
            return None
        recovery = self._compactor.recover()
        gone = [each.instant for each in recovery.rolled_back]

        def render(console: Terminal) -> None:
            for instant in gone:
                console.print(f"Rolled back an attempt at {instant} that died.")

        return {"rolled_back": gone}, render

    def preview(self) -> Told:
        from lakeward.cli.views.plan import plan_as_json, render_plan

        if self._no_work is not None:
            return self._none(self._no_work)
        outcome = self._compactor.preview().outcome
        return plan_as_json(outcome), partial(render_plan, outcome)

    def run(self) -> Told:
        from lakeward.cli.metadata_compact import metadata_report_as_json, render_metadata_report
        from lakeward.cli.views.compact import render_report, report_as_json
        from lakeward.execute.metadata.trigger import service_metadata

        if self._no_work is not None:
            return self._none(self._no_work)
        report = self._compactor.compact()
        serviced = self._serviced
        metadata = service_metadata(
            serviced.storage,
            serviced.base_path,
            serviced.options,
            after=self._opened.table.metadata_compact_after,
            clock=serviced.clock,
            processes=serviced.processes,
            observer=serviced.observer,
            guard=serviced.guard,
        )

        def render(console: Terminal) -> None:
            render_report(report, console)
            render_metadata_report(metadata, console)

        return {**report_as_json(report), **metadata_report_as_json(metadata)}, render

    def _none(self, why: str) -> Told:
        return {"no_work": why}, lambda console: console.print(f"Nothing to compact: {why}.")


def _roll_back(serviced: ServicedTable, *, dry_run: bool) -> Told:
    from lakeward.cli.views.rollback import (
        rollbacks_planned_as_json,
        rolled_back_as_json,
        tell_rollbacks_planned,
        tell_rolled_back,
    )
    from lakeward.execute.rollback.rolling_back import find_decisions, preview, roll_back_writes
    from lakeward.plan.rollback import Step

    found = find_decisions(serviced)
    left = [decision for decision in found if decision.step is Step.LEAVE]
    todo = [decision for decision in found if decision.step is not Step.LEAVE]
    if dry_run:
        planned = [preview(serviced, decision) for decision in todo]
        return rollbacks_planned_as_json(planned, left), lambda _: tell_rollbacks_planned(planned, left, as_json=False)
    report = roll_back_writes(serviced, [decision.instant for decision in todo])
    all_left = [*report.left, *left]
    return (
        rolled_back_as_json(report.rolled_back, all_left),
        lambda _: tell_rolled_back(report.rolled_back, all_left, as_json=False),
    )


def _archive(opened: ConfiguredTable, serviced: ServicedTable, *, dry_run: bool) -> Told:
    from lakeward.cli.views.archive import archive_as_json, archived_as_json, render_archive, render_archived
    from lakeward.execute.archive.archiver import Archiver
    from lakeward.execute.archive.preview import preview_archive

    options = opened.table.archive.chosen(opened.table.clean, opened.table.planner)
    if dry_run:
        timezone = serviced.options.timezone
        plan = preview_archive(serviced.storage, serviced.base_path, options, clock=serviced.clock, timezone=timezone)
        return archive_as_json(plan), partial(render_archive, plan)
    report = Archiver(serviced, options).archive()
    return archived_as_json(report), partial(render_archived, report)


def _clean(opened: ConfiguredTable, serviced: ServicedTable, *, dry_run: bool) -> Told:
    from lakeward.cli.views.clean import clean_as_json, render_clean
    from lakeward.cli.views.cleaned import cleaned_as_json, render_cleaned
    from lakeward.execute.clean.choosing import CleanChoice
    from lakeward.execute.clean.cleaner import Cleaner
    from lakeward.execute.clean.purging import purge_quarantine
    from lakeward.format.timeline.clean_plan import CleanPlan
    from lakeward.plan.compaction.selection import GroupFilter
    from lakeward.plan.eligibility import TableService
    from lakeward.table.snapshot import TableSnapshot

    settings = opened.table
    chosen = GroupFilter(partitions=settings.partitions, excluded_partitions=settings.exclude_partitions)
    choice = CleanChoice(opened.storage, opened.base_path, settings.clean.options, clock=SystemClock())

    def choose(snapshot: TableSnapshot) -> CleanPlan | None:
        return choice.plan(snapshot, chosen.selected_partitions(snapshot.partitions))

    if dry_run:
        snapshot = serviced.snapshot(service=TableService.CLEANING)
        outcome = choice.outcome(snapshot, chosen.selected_partitions(snapshot.partitions))
        return clean_as_json(outcome), partial(render_clean, outcome)
    cleaner = Cleaner(serviced, {}, keep_seconds=settings.clean.keep_deleted)
    report = cleaner.clean(choose, None if chosen != GroupFilter() else choice.where)
    purged = purge_quarantine(serviced, bytes_max=settings.clean.quarantine_max)
    return cleaned_as_json(report, purged), partial(render_cleaned, report, purged)


def _refused(error: Refused) -> Told:
    return {"refused": str(error)}, lambda console: console.print(f"Refused: {error}")
