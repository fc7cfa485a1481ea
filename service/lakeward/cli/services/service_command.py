"""`lakeward service TABLE`: all that there is to do for a table now, in the daemon's order, and one report of it.

    recover -> roll back -> compact, the metadata table too -> clean -> archive

Each step is what the verb of its name does, at once: what the daemon waits for (a number of commits, a pause after a
write failed) is not waited for. A step that is refused on this table is reported and skipped.

Touches: stdout, stderr; the table, through what each step executes.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. a step that is refused holds no other one back, and makes the exit code that of its error; after one that
            failed none follows, and what was done before is reported;
         3. what the configuration leaves out, and file groups that are parked, are left out with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Cancelled, LakewardError, Refused, VerificationFailed
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.engine import CommandEngines, StatedEngine
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.views.archive import archive_as_json, archived_as_json, render_archive, render_archived
from lakeward.cli.views.clean import clean_as_json, render_clean
from lakeward.cli.views.cleaned import cleaned_as_json, render_cleaned
from lakeward.cli.views.compact import render_report, report_as_json
from lakeward.cli.views.engines import engines_as_json, render_engines
from lakeward.cli.views.metadata import metadata_report_as_json, render_metadata_report
from lakeward.cli.views.plan import plan_as_json, render_plan
from lakeward.cli.views.rollback import (
    rollbacks_planned_as_json,
    rolled_back_as_json,
    tell_rollbacks_planned,
    tell_rolled_back,
)
from lakeward.cli.views.terminal import Terminal
from lakeward.config.standing import standing_of
from lakeward.engine.task.entry import run_operation_at
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.pending.rollback import Step
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.archive.run.preview import preview_archive
from lakeward.services.archive.settings import ArchiveSettings
from lakeward.services.clean.run.choosing import CleanChoice
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.clean.run.purging import purge_quarantine
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.services.metadata.run.trigger import service_metadata
from lakeward.services.rollback.run.rolling_back import find_decisions, preview, roll_back_writes
from lakeward.table.damaged_file import damaged_error
from lakeward.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.protocol.serviced_table import ServicedTable
    from lakeward.services.compaction.plan.decision import Reason
    from lakeward.table.file_system_view import GroupId


@dataclass(frozen=True, slots=True)
class _Step:
    """What a step did, as JSON and for people."""

    document: dict[str, Any]
    render: Callable[[Terminal], None]
    is_any: bool
    """There was something to do."""
    error: LakewardError | None = None
    """What the command ends with, once the other steps are done."""


@with_option_groups
def service(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: report what would be done, step by step; write nothing.")
    ] = False,
    engine: StatedEngine,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 where there is nothing to do.")] = False,
    debug: DebugOption = False,
) -> None:
    """Recover a table, roll failed writes back, compact it, clean and archive it: all there is to do, in this order.

    It does at once what the daemon does when it is due, by the same settings: a service that the configuration leaves
    out is left out, and so are file groups that are parked. It waits for no window, and pauses do not hold it. A verb
    that writes needs a statement about the table's other writers: --writers stopped, or --lock, or what the
    configuration says under locks.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    engines = engine.over(opened.settings, memory_bytes=opened.table.memory)
    if not dry_run:
        engines.check()
    parked = ParkedGroups(opened, config, SystemClock(), say=partial(typer.echo, err=True))
    parked_now = parked.records()
    excluded = parked.excluded(parked_now)
    console, report, failed, is_any = Terminal(), dict[str, Any](), None, False
    try:
        with serviced_table(opened, locks, timezone=timezone) as serviced:
            compact = _Compaction(opened, serviced, engines, excluded)
            steps: dict[str, Callable[[], _Step | None]] = {
                "recovery": compact.recover,
                "rollback": partial(_roll_back, serviced, dry_run=dry_run),
                "compaction": compact.preview if dry_run else compact.run,
                "clean": partial(_clean, opened, serviced, excluded, dry_run=dry_run),
                "archive": partial(_archive, opened, serviced, dry_run=dry_run),
            }
            if dry_run:
                del steps["recovery"]
            for name, step in steps.items():
                done = _do(step) if _is_given(opened, name) else _left_out(name)
                if done is None:
                    continue
                report[name], is_any, failed = done.document, is_any or done.is_any, failed or done.error
                if not as_json:
                    console.print(f"[bold]{name}[/bold]", highlight=False)
                    done.render(console)
                if done.error is not None and not isinstance(done.error, Refused):
                    parked.park(done.error)
                    break
    finally:
        engines.stop()
    if as_json:
        print_json({"dry_run": dry_run, "parked": parked.as_json(parked_now), **report})
    if failed is not None:
        raise failed
    if exit_code and not is_any:
        raise typer.Exit(3)


def _do(step: Callable[[], _Step | None]) -> _Step | None:
    """The step, or what its error leaves to be said of it; a command that is interrupted stops at once."""
    try:
        return step()
    except Cancelled:
        raise
    except LakewardError as error:
        word, told = ("refused" if isinstance(error, Refused) else "failed"), str(error)
        return _Step(
            {word: told}, lambda console: console.print(f"{word.capitalize()}: {told}", markup=False), False, error
        )


def _is_given(opened: ConfiguredTable, name: str) -> bool:
    """The configuration does not leave the service out; recovery belongs to compaction."""
    return (JobKind.COMPACTION if name == "recovery" else JobKind(name)) in opened.table.services


def _left_out(name: str) -> _Step | None:
    if name == "recovery":
        return None
    why = f"services of the configuration does not have {name}"
    return _Step({"left_out": why}, lambda console: console.print(f"Left out: {why}."), False)


class _Compaction:
    """The steps that are compaction's; none of them on a table that leaves it no work."""

    def __init__(
        self,
        opened: ConfiguredTable,
        serviced: ServicedTable,
        engines: CommandEngines,
        excluded: Mapping[GroupId, Reason],
    ) -> None:
        self._opened = opened
        self._serviced = serviced
        self._rule = engines.rule
        snapshot = opened.snapshot(timezone=serviced.options.timezone)
        standing = standing_of(opened.table, snapshot, beside_writers=not serviced.options.writers_stopped)
        self._no_work = standing.no_work
        self._is_stopped = JobKind.COMPACTION in standing.stopped
        settings = opened.table
        chosen = GroupFilter(partitions=settings.partitions, excluded_partitions=settings.exclude_partitions)
        self._compactor = Compactor(
            serviced.storage,
            serviced.base_path,
            serviced.options,
            planner=planner_of(settings.type, chosen, settings.planner, objective=settings.objective_kept),
            choose_dispatcher=engines.choose,
            run_operation=partial(run_operation_at, serviced.base_path),
            clock=serviced.clock,
            processes=serviced.processes,
            observer=serviced.observer,
            guard=serviced.guard,
            excluded=excluded,
        )

    def recover(self) -> _Step | None:
        if self._is_stopped:
            return None  # the step that is compaction's says why
        recovery = self._compactor.recover()
        gone = [each.instant for each in recovery.rolled_back]

        def render(console: Terminal) -> None:
            for instant in gone:
                console.print(f"Rolled back an attempt at {instant} that died.")

        return _Step({"rolled_back": gone}, render, bool(gone))

    def preview(self) -> _Step:
        if self._no_work:
            return self._none(self._no_work)
        outcome, rule = self._compactor.preview().outcome, self._rule

        def render(console: Terminal) -> None:
            render_plan(outcome, console)
            render_engines(outcome, rule, console)

        document = {**plan_as_json(outcome), "runs_on": engines_as_json(outcome, rule)}
        return _Step(document, render, bool(outcome.operations))

    def run(self) -> _Step:
        if self._no_work:
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
        wrong = metadata.left if isinstance(metadata.left, VerificationFailed) else None

        def render(console: Terminal) -> None:
            render_report(report, console)
            render_metadata_report(metadata, console)

        return _Step(
            {**report_as_json(report), **metadata_report_as_json(metadata)},
            render,
            bool(report.plans) or metadata.done is not None,
            wrong or (damaged_error(report.damage) if report.damage else None),
        )

    def _none(self, why: str) -> _Step:
        return _Step({"no_work": why}, lambda console: console.print(f"Nothing to compact: {why}."), False)


def _roll_back(serviced: ServicedTable, *, dry_run: bool) -> _Step:
    found = find_decisions(serviced)
    left = [decision for decision in found if decision.step is Step.LEAVE]
    todo = [decision for decision in found if decision.step is not Step.LEAVE]
    if dry_run:
        planned = [preview(serviced, decision) for decision in todo]
        return _Step(
            rollbacks_planned_as_json(planned, left),
            lambda _: tell_rollbacks_planned(planned, left, as_json=False),
            bool(planned),
        )
    report = roll_back_writes(serviced, [decision.instant for decision in todo])
    all_left = [*report.left, *left]
    return _Step(
        rolled_back_as_json(report.rolled_back, all_left),
        lambda _: tell_rolled_back(report.rolled_back, all_left, as_json=False),
        bool(report.rolled_back),
    )


def _archive(opened: ConfiguredTable, serviced: ServicedTable, *, dry_run: bool) -> _Step:
    options = opened.table.section(ArchiveSettings).chosen(opened.table.as_hudi_has_it)
    if dry_run:
        timezone = serviced.options.timezone
        plan = preview_archive(serviced.storage, serviced.base_path, options, clock=serviced.clock, timezone=timezone)
        return _Step(archive_as_json(plan), partial(render_archive, plan), bool(plan.archived))
    report = Archiver(serviced, options).archive()
    is_any = bool(report.archived or report.merged_files)
    return _Step(archived_as_json(report), partial(render_archived, report), is_any)


def _clean(
    opened: ConfiguredTable, serviced: ServicedTable, excluded: Mapping[GroupId, Reason], *, dry_run: bool
) -> _Step:
    settings = opened.table
    clean = settings.section(CleanSettings)
    chosen = GroupFilter(partitions=settings.partitions, excluded_partitions=settings.exclude_partitions)
    choice = CleanChoice(opened.storage, opened.base_path, clean.options, clock=SystemClock())

    def choose(snapshot: TableSnapshot) -> CleanPlan | None:
        return choice.plan(snapshot, chosen.selected_partitions(snapshot.partitions), excluded)

    if dry_run:
        snapshot = serviced.snapshot(service=TableService.CLEANING)
        outcome = choice.outcome(snapshot, chosen.selected_partitions(snapshot.partitions), excluded)
        return _Step(clean_as_json(outcome), partial(render_clean, outcome), any(outcome.dead))
    cleaner = Cleaner(serviced, {}, keep_seconds=clean.keep_deleted)
    is_part = bool(excluded) or chosen != GroupFilter()
    report = cleaner.clean(choose, None if is_part else choice.where)
    purged = purge_quarantine(serviced, bytes_max=clean.quarantine_max)
    is_any = bool(report.cleans or purged)
    return _Step(cleaned_as_json(report, purged), partial(render_cleaned, report, purged), is_any)
