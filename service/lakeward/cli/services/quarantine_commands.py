"""`lakeward quarantine list|purge|restore TABLE`: what cleans took out of the table, and how to bring it back.

Touches: stdout, stderr; the quarantine, through `services/clean/run/purging.py`.
Keeps:   nothing is deleted without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import parse_duration, parse_size
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks, parse_option
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.views.cleaned import purged_as_json, render_purged
from lakeward.cli.views.quarantine import due_runs, quarantine_as_json, render_quarantine
from lakeward.cli.views.terminal import Terminal
from lakeward.services.clean.run.orphans import restore_orphans
from lakeward.services.clean.run.purging import purge_quarantine
from lakeward.table.quarantine import load_quarantine


def list_runs(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what the quarantine holds: the files of each clean, their bytes, their age and until when they stay."""
    opened = open_table(table, config)
    found = load_quarantine(opened.storage, opened.base_path)
    now = SystemClock().now()
    if as_json:
        print_json(quarantine_as_json(found, now=now))
    else:
        render_quarantine(found, Terminal(), now=now)


@with_option_groups
def purge(
    *,
    table: TableArgument,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Delete what was set aside longer ago than this, whatever its own time is; 0s: all. Without it: "
            "what is due.",
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max", metavar="SIZE", help="Size limit of the quarantine afterwards; the oldest files are deleted first."
        ),
    ] = None,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: report what would be deleted, delete nothing.")
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Delete for good the files of the quarantine that are due. They cannot be brought back then."""
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)
    age_seconds_max = parse_option(parse_duration, "--older-than", older_than, None)
    bytes_max = parse_option(parse_size, "--max", max_size, None)
    if dry_run:
        found = load_quarantine(opened.storage, opened.base_path)
        purged = due_runs(found, now=SystemClock().now(), bytes_max=bytes_max, age_seconds_max=age_seconds_max)
    else:
        with serviced_table(opened, locks, timezone=timezone) as serviced:
            purged = purge_quarantine(serviced, bytes_max=bytes_max, age_seconds_max=age_seconds_max)
    if as_json:
        print_json({"dry_run": dry_run, "purged": purged_as_json(purged)})
        return
    console = Terminal()
    if dry_run and purged:
        console.print("Dry run: would delete the following.", highlight=False)
    render_purged(purged, console)
    if not purged:
        console.print("Nothing to delete: nothing is due.", highlight=False)


@with_option_groups
def restore(
    *,
    table: TableArgument,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name as shown by `quarantine list`: orphans-...")],
    config: ConfigOption = None,
    stated: StatedLocks,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Put orphan files that were set aside back into their places. (A clean is undone by `lakeward clean --undo`.)"""
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=False)
    with serviced_table(opened, locks, timezone=timezone) as serviced:
        files = restore_orphans(serviced, run)
    if as_json:
        print_json({"run": run, "files": files})
    else:
        typer.echo(f"{run} is back in place: {files} file{'' if files == 1 else 's'}.")
