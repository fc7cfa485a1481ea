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
from functools import partial
from typing import TYPE_CHECKING

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Cancelled, LakewardError, Refused
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.options.engine import CommandEngines, EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.parked_groups import ParkedGroups
from lakeward.cli.plan_command import engines_as_json, plan_as_json, render_engines, render_plan
from lakeward.cli.result import DryRunOption, Result, Show
from lakeward.cli.serviced import serviced_table
from lakeward.cli.services import archive_command, clean_view, rollback_command
from lakeward.cli.services.compact_command import compaction_error, render_report, report_as_json
from lakeward.cli.services.metadata_view import metadata_report_as_json, render_metadata_report
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.config.permitted_services import permitted_services_of
from lakeward.engine.task.entry import run_operation_at
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.pending.rollback import Step
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.services.archive.run.archive_preview import preview_archive
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.archive.settings import ArchiveSettings
from lakeward.services.clean.run.clean_choice import CleanChoice
from lakeward.services.clean.run.cleaner import clean_and_purge
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.services.metadata.run.early_service import service_metadata
from lakeward.services.rollback.run.roll_back import find_decisions, preview, roll_back_writes

if TYPE_CHECKING:
    from lakeward.protocol.serviced_table import ServicedTable
    from lakeward.services.compaction.plan.decision import Reason
    from lakeward.table.file_system_view import GroupId


def service(
    *,
    opened: ZonedTable,
    given: LockArguments,
    dry_run: DryRunOption = False,
    engine: EngineArguments,
    show: Show,
) -> Result:
    """Recover a table, roll failed writes back, compact it, clean and archive it: all there is to do, in this order.

    It does at once what the daemon does when it is due, by the same settings: a service that the configuration leaves
    out is left out, and so are file groups that are parked. It waits for no window, and pauses do not hold it.
    """
    locks = given.over(opened, dry_run=dry_run)
    parked = ParkedGroups(opened, SystemClock(), say=partial(typer.echo, err=True))
    done: dict[str, Result] = {}
    with engine.over(opened.settings, memory_bytes=opened.table.memory) as engines:
        if not dry_run:
            engines.check()
        parked_now = parked.records()
        excluded = parked.excluded(parked_now)
        with serviced_table(opened, locks) as serviced:
            compact = _Compaction(opened, serviced, engines, excluded)
            steps: dict[str, Callable[[], Result | None]] = {
                "recovery": compact.recover,
                "rollback": partial(_roll_back, serviced, dry_run=dry_run),
                "compaction": compact.preview if dry_run else compact.run,
                "clean": partial(_clean, opened, serviced, excluded, dry_run=dry_run),
                "archive": partial(_archive, opened, serviced, dry_run=dry_run),
            }
            if dry_run:
                del steps["recovery"]
            for name, step in steps.items():
                result = _do(step) if _is_given(opened, name) else _left_out(name)
                if result is None:
                    continue
                done[name] = result
                show(_headed(name, result))
                if result.error is not None and not isinstance(result.error, Refused):
                    parked.park(result.error)
                    break
    return Result(
        document={
            "dry_run": dry_run,
            "parked": parked.as_json(parked_now),
            **{name: result.document for name, result in done.items()},
        },
        is_nothing=all(result.is_nothing for result in done.values()),
        error=next((result.error for result in done.values() if result.error is not None), None),
    )


def _headed(name: str, result: Result) -> Result:
    def render(console: Terminal) -> None:
        console.print(f"[bold]{name}[/bold]", highlight=False)
        result.show()

    return Rendered(document=None, render=render)


def _do(step: Callable[[], Result | None]) -> Result | None:
    """The step, or what its error leaves to be said of it; a command that is interrupted stops at once."""
    try:
        return step()
    except Cancelled:
        raise
    except LakewardError as error:
        word = "refused" if isinstance(error, Refused) else "failed"
        return Result(
            document={word: str(error)}, lines=[f"{word.capitalize()}: {error}"], is_nothing=True, error=error
        )


def _is_given(opened: ConfiguredTable, name: str) -> bool:
    """The configuration does not leave the service out; recovery belongs to compaction."""
    return (JobKind.COMPACTION if name == "recovery" else JobKind(name)) in opened.table.services


def _left_out(name: str) -> Result | None:
    if name == "recovery":
        return None
    why = f"services of the configuration does not have {name}"
    return Result(document={"left_out": why}, lines=[f"Left out: {why}."], is_nothing=True)


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
        snapshot = opened.snapshot()
        permitted = permitted_services_of(opened.table, snapshot, beside_writers=not serviced.options.writers_stopped)
        self._no_work = permitted.no_work
        self._is_stopped = JobKind.COMPACTION in permitted.stopped
        settings = opened.table
        chosen = GroupFilter(partitions=settings.partitions, excluded_partitions=settings.exclude_partitions)
        self._compactor = Compactor(
            serviced,
            planner=planner_of(settings.type, chosen, settings.planner, objective=settings.objective_kept),
            choose_dispatcher=engines.choose,
            run_operation=partial(run_operation_at, serviced.base_path),
            excluded=excluded,
        )

    def recover(self) -> Result | None:
        if self._is_stopped:
            return None  # the step that is compaction's says why
        recovery = self._compactor.recover()
        gone = [each.instant for each in recovery.rolled_back]
        return Result(
            document={"rolled_back": gone},
            lines=[f"Rolled back an attempt at {instant} that died." for instant in gone],
            is_nothing=not gone,
        )

    def preview(self) -> Result:
        if self._no_work:
            return self._none(self._no_work)
        outcome, rule = self._compactor.preview().outcome, self._rule

        def render(console: Terminal) -> None:
            render_plan(outcome, console)
            render_engines(outcome, rule, console)

        document = {**plan_as_json(outcome), "runs_on": engines_as_json(outcome, rule)}
        return Rendered(document=document, render=render, is_nothing=not outcome.operations)

    def run(self) -> Result:
        if self._no_work:
            return self._none(self._no_work)
        report = self._compactor.compact()
        metadata = service_metadata(self._serviced, after=self._opened.table.metadata_compact_after)

        def render(console: Terminal) -> None:
            render_report(report, console)
            render_metadata_report(metadata, console)

        return Rendered(
            document={**report_as_json(report), **metadata_report_as_json(metadata)},
            render=render,
            is_nothing=not report.plans and metadata.done is None,
            error=compaction_error(report, metadata),
        )

    def _none(self, why: str) -> Result:
        return Result(document={"no_work": why}, lines=[f"Nothing to compact: {why}."], is_nothing=True)


def _roll_back(serviced: ServicedTable, *, dry_run: bool) -> Result:
    found = find_decisions(serviced)
    left = [decision for decision in found if decision.step is Step.LEAVE]
    todo = [decision for decision in found if decision.step is not Step.LEAVE]
    if dry_run:
        return rollback_command.planned_result([preview(serviced, decision) for decision in todo], left)
    report = roll_back_writes(serviced, [decision.instant for decision in todo])
    return rollback_command.rolled_back_result(report.rolled_back, [*report.left, *left])


def _archive(opened: ConfiguredTable, serviced: ServicedTable, *, dry_run: bool) -> Result:
    options = opened.table.section(ArchiveSettings).chosen(opened.table.as_hudi_has_it)
    if dry_run:
        plan = preview_archive(
            serviced.storage,
            serviced.base_path,
            options,
            clock=serviced.clock,
            timezone=serviced.options.timezone,
        )
        return archive_command.planned_result(plan)
    return archive_command.archived_result(Archiver(serviced, options).archive())


def _clean(
    opened: ConfiguredTable, serviced: ServicedTable, excluded: Mapping[GroupId, Reason], *, dry_run: bool
) -> Result:
    settings = opened.table
    clean = settings.section(CleanSettings)
    chosen = GroupFilter(partitions=settings.partitions, excluded_partitions=settings.exclude_partitions)
    if dry_run:
        choice = CleanChoice(opened.storage, opened.base_path, clean.options, clock=SystemClock())
        snapshot = serviced.snapshot(service=TableService.CLEANING)
        outcome = choice.outcome(snapshot, chosen.selected_partitions(snapshot.partitions), excluded)
        return clean_view.planned_result(outcome)
    report, purged = clean_and_purge(
        serviced,
        clean.rules,
        selected=chosen.selected_partitions,
        is_part=bool(excluded) or chosen != GroupFilter(),
        excluded=excluded,
    )
    return clean_view.cleaned_result(report, purged)
