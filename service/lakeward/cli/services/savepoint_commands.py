"""`lakeward savepoint create|list|delete TABLE`: commits that can be gone back to, and what that keeps.

Touches: stdout, stderr; the table, through `services/savepoint/run.py`.
Keeps:   nothing is written without a statement about the table's other writers, nor with --dry-run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count, format_duration, format_size, format_time
from lakeward.cli.configured_table import OpenedTable, ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.user import user_name
from lakeward.cli.result import DryRunOption, Result, shown
from lakeward.cli.serviced import serviced_table
from lakeward.cli.terminal import Column, Rendered, new_table
from lakeward.services.savepoint.run import create_savepoint, delete_savepoint, find_pinned, preview_savepoint
from lakeward.services.savepoint.savepoint_plan import Pinned


def create(
    *,
    opened: ZonedTable,
    instant: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANT]", help="Instant of the commit; by default the newest completed one."),
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Comment; shown by `list`.")] = "",
    user: Annotated[str | None, typer.Option(metavar="NAME", help="User; by default the user of this process.")] = None,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Keep all files as of a commit, until the savepoint is deleted.

    No cleaner deletes them and Hudi archives no commit from it on, so the table's storage and timeline grow for as long
    as there is a savepoint. `lakeward restore` takes the table back to it.
    """
    locks = given.over(opened, dry_run=dry_run)

    with serviced_table(opened, locks) as serviced:
        if dry_run:
            saved = preview_savepoint(serviced, instant)
        else:
            saved = create_savepoint(serviced, instant, user=user or user_name(), comment=comment)
    does = "Would make" if dry_run else "Made"
    files = format_count(saved.files, "file")
    return Result(
        document={
            "savepoint": saved.instant,
            "completion_time": saved.completion_time,
            "files": saved.files,
            "bytes": saved.bytes,
            "dry_run": dry_run,
        },
        lines=[f"{does} a savepoint of {saved.instant}. It keeps {files}, {format_size(saved.bytes)}."],
    )


def delete(
    *,
    opened: ZonedTable,
    instant: Annotated[str, typer.Argument(metavar="INSTANT", help="Instant of the savepoint's commit.")],
    given: LockArguments,
) -> Result:
    """Delete a savepoint. The next clean may delete its files, and the table can no longer be restored to it."""
    locks = given.over(opened, dry_run=False)

    with serviced_table(opened, locks) as serviced:
        deleted = delete_savepoint(serviced, instant)
    did = "Deleted the savepoint" if deleted.was_completed else "Removed what was begun of a savepoint"
    return Result(
        document={"deleted": deleted.instant, "was_completed": deleted.was_completed},
        lines=[f"{did} of {deleted.instant}."],
    )


def list_savepoints(
    *,
    opened: OpenedTable,
) -> Result:
    """Show the savepoints, Hudi's too, with the bytes that only each keeps: no reader of the newest rows reads them."""
    snapshot, now = opened.snapshot(), SystemClock().now()
    pinned = find_pinned(opened.storage, opened.base_path, snapshot)
    begun = [each.time for each in snapshot.timeline.pending if each.action == "savepoint"]
    return Rendered(
        document={"savepoints": savepoints_as_json(pinned, now=now), "begun": begun},
        render=lambda console: render_savepoints(pinned, begun, console, now=now),
    )


_COLUMNS = {
    "instant": Column.FIXED,
    "age": Column.NUMBER,
    "only it keeps": Column.NUMBER,
    "files": Column.NUMBER,
    "user": Column.FIXED,
    "comment": Column.ELASTIC,
}


def savepoints_as_json(pinned: Sequence[Pinned], *, now: float) -> list[dict[str, Any]]:
    return [
        {
            "instant": each.savepoint.instant,
            "user": each.savepoint.user,
            "comment": each.savepoint.comment,
            "made_at": format_time(each.savepoint.made_at),
            "age_seconds": round(now - each.savepoint.made_at),
            "files": each.files,
            "bytes": each.bytes,
            "files_only_it_keeps": each.only_files,
            "bytes_only_it_keeps": each.only_bytes,
            "files_gone": each.gone,
        }
        for each in pinned
    ]


def explain_pinned(pinned: Sequence[Pinned], console: Console, *, now: float) -> None:
    """A sentence for each savepoint."""
    for each in pinned:
        age = format_duration(max(0.0, now - each.savepoint.made_at))
        comment = f" ({each.savepoint.comment})" if each.savepoint.comment else ""
        console.print(
            Text(
                shown(
                    f"{format_size(each.only_bytes)} pinned by savepoint {each.savepoint.instant} since {age}{comment}."
                )
            )
        )


def render_savepoints(pinned: Sequence[Pinned], begun: Sequence[str], console: Console, *, now: float) -> None:
    """`begun`: instants of savepoints that are not completed, and so keep nothing."""
    if not pinned:
        console.print("No savepoint.")
    else:
        table = new_table(_COLUMNS)
        for each in pinned:
            savepoint = each.savepoint
            cells = (
                savepoint.instant,
                format_duration(max(0.0, now - savepoint.made_at)),
                format_size(each.only_bytes),
                f"{each.files}, {each.gone} gone" if each.gone else str(each.files),
                savepoint.user,
                savepoint.comment,
            )
            table.add_row(*(Text(shown(cell)) for cell in cells))
        console.print(table)
    for instant in begun:
        console.print(f"A savepoint of {instant} was begun and not completed: it keeps nothing.")
