"""`lakeward orphans list|set-aside TABLE` and `lakeward quarantine list|purge|restore TABLE`: files that are set aside.

Touches: stderr; the table and its quarantine, through `orphans` and `purging` of `services/clean/run`.
Keeps:   nothing is written or deleted without a statement about the table's other writers, nor with --dry-run; a list
         writes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from lakeward.base.clock import SystemClock
from lakeward.base.errors import UsageError
from lakeward.base.quantities import (
    format_duration,
    format_iso_time,
    format_size,
    format_time,
    parse_duration,
    parse_size,
)
from lakeward.cli.configured_table import OpenedTable, ZonedTable
from lakeward.cli.options.lock import StatedLocks
from lakeward.cli.options.values import parse_option
from lakeward.cli.result import Result, shown
from lakeward.cli.serviced import serviced_table
from lakeward.cli.services.clean_view import purged_as_json, render_purged
from lakeward.cli.terminal import Column, NameCell, Rendered, Terminal, new_table
from lakeward.config.settings import Writers
from lakeward.services.clean.plan.orphans import OrphanDecision
from lakeward.services.clean.plan.purge_rules import find_due
from lakeward.services.clean.run.orphans import OrphanReport, look, restore_orphans, set_orphans_aside
from lakeward.services.clean.run.purge import PurgedRun, purge_quarantine
from lakeward.table.quarantine import Quarantine, QuarantinedRun, load_quarantine

DAY_SECONDS = 24 * 3600.0

AgeOption = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long a file must have been unchanged, and recorded by an earlier look; default 1d, and no less "
        "beside writers.",
    ),
]


def list_orphans(
    *,
    opened: ZonedTable,
    age: AgeOption = None,
    stated: StatedLocks,
) -> Result:
    """List every data file that no reader sees: whether it is an orphan file, with the proof, or what keeps it."""
    locks = stated.over(opened, dry_run=True)
    seconds = parse_option(parse_duration, "--age", age, DAY_SECONDS)
    with serviced_table(opened, locks) as serviced:
        return _orphans_result(OrphanReport(look(serviced, age_seconds=seconds), 0, None))


def set_aside(
    *,
    opened: ZonedTable,
    age: AgeOption = None,
    keep_deleted: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long the quarantine keeps what is set aside; default 7d."),
    ] = None,
    stated: StatedLocks,
) -> Result:
    """Record the orphan files that there are, and set those aside that an earlier call recorded long enough ago.

    The first call records only. `lakeward quarantine list` shows what was set aside; `quarantine restore` brings it
    back.
    """
    locks = stated.over(opened, dry_run=False)
    seconds = parse_option(parse_duration, "--age", age, DAY_SECONDS)
    keep_seconds = parse_option(parse_duration, "--keep-deleted", keep_deleted, 7 * DAY_SECONDS)
    if seconds < DAY_SECONDS and locks.writers is not Writers.STOPPED:
        raise UsageError(
            f"--age {age} is too short beside writers.",
            why="A write may be slower than that, and its file is not on the timeline before it is done.",
            remedy="Give 1d or more, or stop the writers and say --writers stopped.",
        )
    with serviced_table(opened, locks) as serviced:
        return _orphans_result(set_orphans_aside(serviced, age_seconds=seconds, keep_seconds=keep_seconds))


def _orphans_result(report: OrphanReport) -> Result:
    return Rendered(document=orphans_as_json(report), render=partial(render_orphans, report))


def list_runs(
    *,
    opened: OpenedTable,
) -> Result:
    """Show what the quarantine holds: the files of each clean, their bytes, their age and until when they stay."""
    found = load_quarantine(opened.storage, opened.base_path)
    now = SystemClock().now()
    return Rendered(
        document=quarantine_as_json(found, now=now), render=lambda console: render_quarantine(found, console, now=now)
    )


def purge(
    *,
    opened: ZonedTable,
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
    stated: StatedLocks,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Dry run: report what would be deleted, delete nothing.")
    ] = False,
) -> Result:
    """Delete for good the files of the quarantine that are due. They cannot be brought back then."""
    locks = stated.over(opened, dry_run=dry_run)
    age_seconds_max = parse_option(parse_duration, "--older-than", older_than, None)
    bytes_max = parse_option(parse_size, "--max", max_size, None)
    if dry_run:
        found = load_quarantine(opened.storage, opened.base_path)
        purged = due_runs(found, now=SystemClock().now(), bytes_max=bytes_max, age_seconds_max=age_seconds_max)
    else:
        with serviced_table(opened, locks) as serviced:
            purged = purge_quarantine(serviced, bytes_max=bytes_max, age_seconds_max=age_seconds_max)

    def render(console: Terminal) -> None:
        if dry_run and purged:
            console.print("Dry run: would delete the following.", highlight=False)
        render_purged(purged, console)
        if not purged:
            console.print("Nothing to delete: nothing is due.", highlight=False)

    return Rendered(document={"dry_run": dry_run, "purged": purged_as_json(purged)}, render=render)


def restore(
    *,
    opened: ZonedTable,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name as shown by `quarantine list`: orphans-...")],
    stated: StatedLocks,
) -> Result:
    """Put orphan files that were set aside back into their places. (A clean is undone by `lakeward clean --undo`.)"""
    locks = stated.over(opened, dry_run=False)
    with serviced_table(opened, locks) as serviced:
        files = restore_orphans(serviced, run)
    return Result(
        document={"run": run, "files": files},
        lines=[f"{run} is back in place: {files} file{'' if files == 1 else 's'}."],
    )


def orphans_as_json(report: OrphanReport) -> dict[str, Any]:
    return {
        "files": [
            {
                "path": each.file.path,
                "bytes": each.file.size,
                "modified": format_iso_time(each.file.modified),
                "instant": each.instant,
                "proof": each.proof and each.proof.value,
                "by": each.by,
                "kept_by": [keeper.value for keeper in each.keepers],
                "recorded_since": None if each.recorded_since is None else format_iso_time(each.recorded_since),
                "removable": each.is_removable,
            }
            for each in report.decisions
        ],
        "recorded": report.recorded,
        "run": report.run,
        "kept_until": None if report.kept_until is None else format_iso_time(report.kept_until),
    }


def render_orphans(report: OrphanReport, console: Console) -> None:
    if not report.decisions:
        console.print("Every data file is of a completed instant.", highlight=False)
        return
    columns = {"file": Column.ELASTIC, "bytes": Column.NUMBER, "of": Column.ELASTIC, "proof": Column.ELASTIC}
    table = new_table({**columns, "kept by": Column.ELASTIC})
    for each in report.decisions:
        table.add_row(
            NameCell(each.file.path), format_size(each.file.size), each.instant, _proof(each), ", ".join(each.keepers)
        )
    console.print(table)
    if report.recorded:
        console.print(f"Recorded, and to be looked at again: {report.recorded}.", highlight=False)
    gone = [each for each in report.decisions if each.is_removable]
    if report.run is not None and report.kept_until is not None:
        size = format_size(sum(each.file.size for each in gone))
        console.print(
            f"Set aside as {report.run}: {len(gone)} files, {size}, until {format_time(report.kept_until)}.",
            highlight=False,
        )
    elif gone:
        console.print(f"`lakeward orphans set-aside` would set aside {len(gone)}.", highlight=False)


def _proof(decision: OrphanDecision) -> str:
    if decision.proof is None:
        return "none"
    return f"{decision.proof} by {decision.by}" if decision.by else decision.proof.value


def due_runs(
    found: Quarantine, *, now: float, bytes_max: int | None, age_seconds_max: float | None
) -> tuple[PurgedRun, ...]:
    """What a purge would delete now."""
    due = find_due(found.runs, now=now, bytes_max=bytes_max, age_seconds_max=age_seconds_max)
    return tuple(PurgedRun(each.run.run, each.reason, len(each.run.files), each.run.bytes) for each in due)


def quarantine_as_json(found: Quarantine, *, now: float) -> dict[str, Any]:
    return {
        "bytes": found.bytes,
        "runs": [
            {
                "run": run.run,
                "kind": run.kind.value,
                "files": len(run.files),
                "bytes": run.bytes,
                "since": format_iso_time(run.since),
                "age_seconds": max(0.0, now - run.since),
                "keep_until": format_iso_time(run.keep_until),
                "in_place": run.in_place,
                "state": _state(run),
                "problem": run.problem,
            }
            for run in found.runs
        ],
    }


def render_quarantine(found: Quarantine, console: Console, *, now: float) -> None:
    if not found.runs:
        console.print("The quarantine is empty.", highlight=False)
        return
    columns = {"run": Column.ELASTIC, "kind": Column.ELASTIC, "files": Column.NUMBER, "bytes": Column.NUMBER}
    table = new_table({**columns, "age": Column.NUMBER, "until": Column.ELASTIC, "state": Column.ELASTIC})
    for run in found.runs:
        table.add_row(
            NameCell(run.run),
            run.kind.value,
            f"{len(run.files):,}",
            format_size(run.bytes),
            format_duration(max(0.0, now - run.since)),
            format_time(run.keep_until),
            _state(run),
        )
    console.print(table)
    for run in found.runs:
        if run.problem is not None:
            console.print(f"{run.run} is left as it is: {shown(run.problem)}", highlight=False, markup=False)
    console.print(f"The quarantine holds {format_size(found.bytes)}.", highlight=False)


def _state(run: QuarantinedRun) -> str:
    if run.problem is not None:
        return "unreadable"
    if run.is_purging:
        return "being deleted"
    if run.undone_by is not None:
        return "being brought back"
    return "in place, to be deleted" if run.in_place else "kept"
