"""`lakeward restore TABLE --to COMMIT`: take a table back to a commit.

Touches: stdout, stderr; the table, through `services/together/restore/run/restore.py`.
Keeps:   1. nothing is written unless the operator says that no writer is at work, nor with --dry-run;
         2. what is lost is reported by commit, with rows and files, before and after the restore.
See:     docs/decisions/0035-restore.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.base.errors import Cancelled, UsageError
from lakeward.base.quantities import format_count, format_instant, format_size
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.result import DryRunOption, Result
from lakeward.cli.serviced import serviced_table
from lakeward.cli.services.restore_view import planned_json
from lakeward.services.together.restore.run.restore import Restored, preview_restore
from lakeward.services.together.restore.run.restore import restore as restore_table

if TYPE_CHECKING:
    from lakeward.services.together.restore.run.restore_preparation import BroughtBack, PlannedRestore, Undone


def restore(
    *,
    opened: ZonedTable,
    to: Annotated[
        str,
        typer.Option("--to", metavar="COMMIT", help="The instant of the commit to go back to, or of its savepoint."),
    ],
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Take the table back to a commit. Whatever completed after it is deleted for good, rows included.

    All writers must be stopped, and with them every compaction, cleaning and indexing job. The metadata table is
    removed; the next Hudi writer that has it on rebuilds it. Make a savepoint of a commit that you may want to go back
    to: without one, cleans delete what going back needs. Where a clean kept what it took (--keep-deleted, or
    clean.keep_deleted), it is undone first.
    """
    if not dry_run and not given.says_stopped(opened):
        raise UsageError(
            "A restore is refused beside writers.",
            why="A writer that builds on a commit that is removed would lose rows or write wrong ones, and no lock "
            "prevents that.",
            remedy="Stop all writers and table services, and say so: --writers stopped.",
        )
    locks = given.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks) as serviced:
        if dry_run:
            planned = preview_restore(serviced, to)
            return Result(
                document=planned_json(planned) | {"dry_run": True, "restore": planned.pending_restore},
                lines=list(_preview_lines(planned)),
            )
        try:
            done = restore_table(serviced, to)
        except (KeyboardInterrupt, Cancelled) as error:
            error.add_note("A restore that had begun stays pending; the same command ends it, and Hudi's writers wait.")
            raise
    document = {"dry_run": False, "restore": done.restore, "completion_time": done.completion_time}
    return Result(document=planned_json(done.planned) | document, lines=list(_restored_lines(done)))


def _restored_lines(done: Restored) -> Iterator[str]:
    planned = done.planned
    if done.restore is None:
        yield (f"The table is at {planned.target} already. Nothing to restore.")
        return
    for each in planned.brought_back:
        yield (f"Clean {each.clean} was undone first: {_size(each)} came back.")
    yield (f"Restored to {_moment(planned.target)} by restore {done.restore}.")
    for undone in planned.undone:
        yield (f"  {_line(undone)}")
    for clean in planned.cleans:
        yield (f"  clean {clean}: was pending, and is gone")
    if planned.has_metadata_table:
        yield ("The metadata table is removed; the next Hudi writer that has it on rebuilds it.")


def _preview_lines(planned: PlannedRestore) -> Iterator[str]:
    if planned.pending_restore is not None:
        yield (f"Would end restore {planned.pending_restore}, which was interrupted.")
    elif not planned.undone:
        yield (f"The table is at {planned.target} already. Nothing to restore.")
        return
    for each in planned.brought_back:
        yield (f"Would undo clean {each.clean} first: {_size(each)} come back.")
    files = format_count(sum(len(names) for each in planned.undone for names in each.files.values()), "file")
    size = format_size(sum(each.bytes for each in planned.undone))
    yield (f"Would restore to {_moment(planned.target)}: {files} of {size} would be lost, in this order:")
    for undone in planned.undone:
        yield (f"  {_line(undone)}")
        for path, names in undone.files.items():
            for name in names:
                yield (f"    {path or '(none)'}  {name}")
    for clean in planned.cleans:
        yield (f"  clean {clean}: pending, would go")
    for plan in planned.stays_pending:
        yield (f"Stays pending: {plan}, which was requested before that commit.")
    if planned.has_metadata_table:
        yield ("The metadata table would be removed; the next Hudi writer that has it on rebuilds it.")


def _line(each: Undone) -> str:
    what = f"{each.action} {each.instant}: {format_count(sum(len(names) for names in each.files.values()), 'file')}"
    if not each.is_completed:
        return f"{what}, not completed"
    rows = f"{each.inserted} rows inserted, {each.updated} updated, {each.deleted} deleted"
    return f"{what}, {each.operation.lower() or 'unknown operation'}, {rows}"


def _size(clean: BroughtBack) -> str:
    return f"{format_count(clean.files, 'file')} of {format_size(clean.bytes)}"


def _moment(instant: str) -> str:
    return f"{instant} ({format_instant(instant)})"
