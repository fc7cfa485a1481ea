"""`lakeward clean TABLE`: delete old file slices that nothing needs any more; with --dry-run say which, and why. With
--undo it brings back what an earlier one took away.

Touches: stdout, stderr; the table, through `services/clean/run/cleaner.py`.
Keeps:   1. a partition that matches nothing is an error;
         2. nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import parse_duration, parse_size
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.clean import StatedClean
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks, parse_option
from lakeward.cli.options.plan import check_partitions
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.views.clean import clean_as_json, render_clean
from lakeward.cli.views.cleaned import cleaned_as_json, render_cleaned, render_undone, undone_as_json
from lakeward.cli.views.metadata import metadata_report_as_json, render_metadata_report
from lakeward.cli.views.terminal import Terminal
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.protocol.refusals.refusal import refuse
from lakeward.services.clean.run.choosing import CleanChoice
from lakeward.services.clean.settings import CleanSettings
from lakeward.services.compaction.plan.selection import matches
from lakeward.services.metadata.plan.trigger import MetadataService
from lakeward.services.metadata.run.trigger import MetadataReport, service_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakeward.cli.configured_table import ConfiguredTable
    from lakeward.config.settings import LockSettings
    from lakeward.format.timeline.clean_plan import CleanPlan
    from lakeward.services.clean.plan.decision import CleanOutcome
    from lakeward.services.clean.run.cleaner import Where
    from lakeward.table.snapshot import TableSnapshot


@with_option_groups
def clean(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    kept: StatedClean,
    partition: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Only partitions of this path; * and ? match. Repeatable.")
    ] = None,
    keep_deleted: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long deleted files are kept in the quarantine, below .hoodie, from where they can be brought "
            "back. 0s, the default: files are deleted at once, as Hudi does.",
        ),
    ] = None,
    quarantine_max: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size limit of the quarantine; beyond it the oldest files are deleted first. Default: no limit.",
        ),
    ] = None,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Bring back what the clean of this instant deleted, while the quarantine has it; do nothing else. "
            "`lakeward quarantine list` shows which there are.",
        ),
    ] = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Dry run: list what would be deleted, or with --undo come back; change nothing."
        ),
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 where there is nothing to do.")] = False,
    debug: DebugOption = False,
) -> None:
    """Delete old file slices that no query, plan or savepoint needs any more, by Hudi's rules.

    Cleans that are pending are ended first, and what the quarantine has held for long enough is deleted last. A verb
    that writes needs a statement about the table's other writers: --writers stopped, or --lock, or what the
    configuration says under locks.
    """
    if undo is not None:
        if kept != StatedClean() or partition or keep_deleted or quarantine_max:
            raise UsageError(
                "--undo goes with no option that says what to clean.",
                why="It brings back all that one clean took away, and cleans nothing.",
                remedy="Leave the others out.",
            )
        opened = open_table(table, config)
        _undo(opened, stated.over(opened, dry_run=dry_run), undo, timezone, dry_run=dry_run, as_json=as_json)
        return
    opened = open_table(table, config)
    configured = opened.table.section(CleanSettings)
    options = kept.over(configured)
    locks = stated.over(opened, dry_run=dry_run)
    keep_seconds = parse_option(parse_duration, "--keep-deleted", keep_deleted, configured.keep_deleted)
    bytes_max = parse_option(parse_size, "--quarantine-max", quarantine_max, configured.quarantine_max)

    choice = CleanChoice(opened.storage, opened.base_path, options, clock=SystemClock())

    def show(snapshot: TableSnapshot) -> CleanOutcome:
        return choice.outcome(snapshot, _partitions(snapshot, partition))

    def plan(snapshot: TableSnapshot) -> CleanPlan | None:
        return choice.plan(snapshot, _partitions(snapshot, partition))

    if dry_run:
        is_any = _preview(opened, show, timezone, as_json=as_json)
    else:
        where = None if partition else choice.where
        is_any = _clean(
            opened, locks, plan, where, timezone, keep_seconds=keep_seconds, bytes_max=bytes_max, as_json=as_json
        )
    if exit_code and not is_any:
        raise typer.Exit(3)


def _preview(
    opened: ConfiguredTable, plan: Callable[[TableSnapshot], CleanOutcome], timezone: str | None, *, as_json: bool
) -> bool:
    """Whether anything would go."""
    snapshot = opened.snapshot(timezone=timezone)
    refuse(opened.base_path, find_refusals(snapshot, TableService.CLEANING))
    outcome = plan(snapshot)
    if as_json:
        print_json(clean_as_json(outcome))
    else:
        render_clean(outcome, Terminal())
    return any(outcome.dead)


def _clean(
    opened: ConfiguredTable,
    locks: LockSettings,
    choose: Callable[[TableSnapshot], CleanPlan | None],
    where: Where | None,
    timezone: str | None,
    *,
    keep_seconds: float,
    bytes_max: int | None,
    as_json: bool,
) -> bool:
    """Whether anything was done."""
    from lakeward.services.clean.run.cleaner import Cleaner
    from lakeward.services.clean.run.purging import purge_quarantine

    with serviced_table(opened, locks, timezone=timezone) as serviced:
        report = Cleaner(serviced, {}, keep_seconds=keep_seconds).clean(choose, where)
        purged = purge_quarantine(serviced, bytes_max=bytes_max)
    if as_json:
        print_json(cleaned_as_json(report, purged))
    else:
        render_cleaned(report, purged, Terminal())
    return bool(report.cleans or purged)


def _undo(
    opened: ConfiguredTable, locks: LockSettings, run: str, timezone: str | None, *, dry_run: bool, as_json: bool
) -> None:
    from lakeward.services.clean.run.undoing import preview_undo, undo_clean

    metadata = MetadataReport()
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        undone = preview_undo(serviced, run) if dry_run else undo_clean(serviced, run)
        if not dry_run:
            # Gone, back and gone again come to nothing among the logs of the metadata table, by Hudi's rule for them,
            # whose base file would then go on listing a file that is gone: so "back" must not stay a log.
            metadata = service_metadata(
                opened.storage,
                opened.base_path,
                serviced.options,
                after=1,
                clock=serviced.clock,
                processes=serviced.processes,
                observer=serviced.observer,
                guard=serviced.guard,
                only=MetadataService.COMPACTION,
            )
    if as_json:
        print_json({**undone_as_json(undone), **metadata_report_as_json(metadata)})
        return
    console = Terminal()
    render_undone(undone, console)
    render_metadata_report(metadata, console)
    if metadata.left is not None:
        console.print("Clean nothing before it is compacted: lakeward metadata compact.", highlight=False)


def _partitions(snapshot: TableSnapshot, patterns: Sequence[str] | None) -> frozenset[str] | None:
    """The table's partitions that match. Raises `UsageError` for a pattern that matches none."""
    if not patterns:
        return None
    check_partitions(patterns, snapshot.partitions)
    return frozenset(path for path in snapshot.partitions if matches(path, tuple(patterns)))
