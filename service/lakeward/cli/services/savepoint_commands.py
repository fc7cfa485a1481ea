"""`lakeward savepoint create|list|delete TABLE`: commits that can be gone back to, and what that keeps.

Touches: stdout, stderr; the table, through `services/savepoint/run.py`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from getpass import getuser
from typing import Annotated

import typer

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_size
from lakeward.cli.configured_table import ConfigOption, TableArgument, TimezoneOption, open_table
from lakeward.cli.options.groups import with_option_groups
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.pinned_files import find_pinned
from lakeward.cli.result import DebugOption, JsonOption, print_json
from lakeward.cli.services.serviced import serviced_table
from lakeward.cli.views.savepoints import render_savepoints, savepoints_as_json
from lakeward.cli.views.terminal import Terminal
from lakeward.services.savepoint.run import create_savepoint, delete_savepoint, preview_savepoint


@with_option_groups
def create(
    *,
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANT]", help="Instant of the commit; by default the newest completed one."),
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Comment; shown by `list`.")] = "",
    user: Annotated[str | None, typer.Option(metavar="NAME", help="User; by default the user of this process.")] = None,
    config: ConfigOption = None,
    stated: StatedLocks,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: report what it would keep, write nothing.")
    ] = False,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Keep all files as of a commit, until the savepoint is deleted.

    No cleaner deletes them and Hudi archives no commit from it on, so the table's storage and timeline grow for as long
    as there is a savepoint. `lakeward restore` takes the table back to it.
    """
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=dry_run)

    with serviced_table(opened, locks, timezone=timezone) as serviced:
        if dry_run:
            saved = preview_savepoint(serviced, instant)
        else:
            saved = create_savepoint(serviced, instant, user=user or getuser(), comment=comment)
    if as_json:
        print_json(
            {
                "savepoint": saved.instant,
                "completion_time": saved.completion_time,
                "files": saved.files,
                "bytes": saved.bytes,
                "dry_run": dry_run,
            }
        )
        return
    does = "Would make" if dry_run else "Made"
    files = f"{saved.files} file{'' if saved.files == 1 else 's'}"
    typer.echo(f"{does} a savepoint of {saved.instant}. It keeps {files}, {format_size(saved.bytes)}.")


@with_option_groups
def delete(
    *,
    table: TableArgument,
    instant: Annotated[str, typer.Argument(metavar="INSTANT", help="Instant of the savepoint's commit.")],
    config: ConfigOption = None,
    stated: StatedLocks,
    timezone: TimezoneOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Delete a savepoint. The next clean may delete its files, and the table can no longer be restored to it."""
    opened = open_table(table, config)
    locks = stated.over(opened, dry_run=False)

    with serviced_table(opened, locks, timezone=timezone) as serviced:
        deleted = delete_savepoint(serviced, instant)
    if as_json:
        print_json({"deleted": deleted.instant, "was_completed": deleted.was_completed})
    elif deleted.was_completed:
        typer.echo(f"Deleted the savepoint of {deleted.instant}.")
    else:
        typer.echo(f"Removed what was begun of a savepoint of {deleted.instant}.")


def list_savepoints(
    *,
    table: TableArgument,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the savepoints, Hudi's too, with the bytes that only each keeps: no reader of the newest rows reads them."""
    opened = open_table(table, config)
    snapshot, now = opened.snapshot(timezone=None), SystemClock().now()
    pinned = find_pinned(opened, snapshot)
    begun = [each.time for each in snapshot.timeline.pending if each.action == "savepoint"]
    if as_json:
        print_json({"savepoints": savepoints_as_json(pinned, now=now), "begun": begun})
    else:
        render_savepoints(pinned, begun, Terminal(), now=now)
