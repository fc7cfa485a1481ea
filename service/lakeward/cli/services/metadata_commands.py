"""`lakeward metadata compact|clean|disable|drop|abort-indexing TABLE`: service the metadata table, or take it or a
part of it away.

Touches: stdout, stderr; the table, through `services.py`, `removal.py` and `aborting.py` of `execute/metadata`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.compaction import compaction_options
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.metadata_compact import service_metadata_now
from lakeward.cli.services.metadata_removal import removal_told, remove_partition
from lakeward.config.settings import Writers
from lakeward.protocol.owner import Processes
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.services.metadata.plan.trigger import MetadataService
from lakeward.services.metadata.run.aborting import abort_indexing as abort
from lakeward.services.metadata.run.aborting import preview_aborting

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Dry run: report what would be removed, write nothing.")]


ExitCodeOption = Annotated[bool, typer.Option("--exit-code", help="Exit with 3 where there is nothing to do.")]


@with_option_groups
def compact(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: report what would be compacted, write nothing.")
    ] = False,
    verify: Annotated[
        bool | None, typer.Option("--verify/--no-verify", help="Read every new file back; default --verify.")
    ] = None,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    exit_code: ExitCodeOption = False,
    debug: DebugOption = False,
) -> None:
    """Merge the logs of the metadata table into new base files, all of its partitions together.

    Hudi's writers do it by themselves when they begin a write, `lakeward compact` at its end and the daemon as a job of
    its own, each once enough delta commits have come. This does it now. Until it is done, every reader merges the
    logs, and Hudi archives nothing of the table's timeline. What a compaction replaced, `lakeward metadata clean`
    deletes once no reader can need it.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    options = compaction_options(opened, locks, timezone=timezone)
    if verify is not None:
        options = replace(options, verify=verify)
    found = service_metadata_now(opened, options, MetadataService.COMPACTION, dry_run=dry_run, as_json=as_json)
    if exit_code and not found:
        raise typer.Exit(3)


@with_option_groups
def clean(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: list the files that would be deleted, delete nothing.")
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    exit_code: ExitCodeOption = False,
    debug: DebugOption = False,
) -> None:
    """Delete the files of the metadata table that its compactions replaced and no reader can need any more.

    By Hudi's own rule: what a reader that began up to 20 commits ago reads stays, and so does what a savepoint or a
    pending instant of the table could go back to. A clean that was interrupted is ended first.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    options = compaction_options(opened, locks, timezone=timezone)
    found = service_metadata_now(opened, options, MetadataService.CLEAN, dry_run=dry_run, as_json=as_json)
    if exit_code and not found:
        raise typer.Exit(3)


@with_option_groups
def disable(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove the whole metadata table: readers list the storage. The next Hudi writer with it on rebuilds it.

    `lakeward metadata drop` removes one partition of it.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    remove_partition(opened, None, locks, dry_run=dry_run, as_json=as_json)


@with_option_groups
def drop(
    *,
    table: TableArgument,
    partition: Annotated[
        str,
        typer.Argument(metavar="PARTITION", help="A partition of the metadata table, for example column_stats."),
    ],
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove one partition of the metadata table, for example because it is wrong. Lakeward builds none: the next Hudi
    writer whose options keep it rebuilds it."""
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    remove_partition(opened, partition, locks, dry_run=dry_run, as_json=as_json)


def rebuild() -> None:
    """The old name of `lakeward metadata drop`."""
    raise UsageError(
        "`lakeward metadata rebuild` is called `lakeward metadata drop` now.",
        why="It only removes a partition; the next Hudi writer whose options keep it rebuilds it.",
        remedy="Run `lakeward metadata drop TABLE PARTITION`, with the same options.",
    )


@with_option_groups
def abort_indexing(
    *,
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANT]", help="Instant of the indexing; without it the oldest pending one."),
    ] = None,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: DryRunOption = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """End an indexing that was begun and whose process is gone: delete what it was building, and its plan.

    Hudi does not resume an indexing, and until it is removed the table refuses writes. An index that is built already
    stays. It counts as gone with --writers stopped, or once nothing of it has changed for rollback.silent_after.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    judge = Judge(
        opened.storage,
        opened.base_path,
        SystemClock(),
        Processes(),
        opened.table.silent_after,
        writers_stopped=locks.writers is Writers.STOPPED,
    )
    zone = timezone or opened.table.timezone
    if dry_run:
        done = preview_aborting(judge, instant, timezone=zone)
    else:
        done = abort(judge, instant, timezone=zone, lock=locks.options)
    if as_json:
        aborted = (
            None
            if done is None
            else {
                "instant": done.decision.instant,
                "reason": done.decision.reason.value,
                "why": done.decision.why,
                "removed": [asdict(removal) for removal in done.removals],
                "kept": list(done.kept),
            }
        )
        print_json({"aborted": aborted, "dry_run": dry_run})
        return
    if done is None:
        typer.echo("No indexing is pending.")
        return
    would = "Would abort" if dry_run else "Aborted"
    typer.echo(f"{would} indexing {done.decision.instant}, because {done.decision.why}.")
    for removal in done.removals:
        for line in removal_told(removal, dry_run=dry_run):
            typer.echo(f"  {line}")
    if done.kept:
        typer.echo(f"  Built, or of which nothing was there: {', '.join(done.kept)}.")
