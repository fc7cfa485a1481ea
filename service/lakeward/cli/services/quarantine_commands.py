"""`lakeward quarantine list|restore|purge|orphans TABLE`: files that were set aside, and orphan files.

Touches: stderr; the table and its quarantine, through `services/together/quarantine_restore.py`, and `orphans` and
         `purge` of `services/clean/run`.
Keeps:   nothing is written or deleted without a statement about the table's other writers, nor with --dry-run; a list
         writes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import (
    format_count,
    format_duration,
    format_iso_time,
    format_size,
    format_time,
    parse_duration,
    parse_size,
)
from lakeward.cli.configured_table import OpenedTable, ZonedTable
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.values import parse_option
from lakeward.cli.result import DryRunOption, Result, shown
from lakeward.cli.serviced import serviced_table
from lakeward.cli.services.clean_view import purged_as_json, render_purged
from lakeward.cli.services.metadata_view import metadata_report_as_json, render_metadata_report
from lakeward.cli.terminal import Column, NameCell, Rendered, Terminal, new_table
from lakeward.services.clean.plan.orphans import OrphanDecision
from lakeward.services.clean.plan.purge_rules import find_due
from lakeward.services.clean.run.orphans import AGE_SECONDS, OrphanReport, look, set_orphans_aside
from lakeward.services.clean.run.purge import PurgedRun, purge_quarantine
from lakeward.services.together.quarantine_restore import RestoredRun, restore_run
from lakeward.table.quarantine import Quarantine, QuarantinedRun, load_quarantine

_KEEP_SECONDS = 7 * 24 * 3600.0


def list_runs(
    *,
    opened: OpenedTable,
) -> Result:
    """List what was set aside, by each clean and each search for orphan files, and until when it stays."""
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
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Delete for good the files of the quarantine that are due. They cannot be brought back then."""
    locks = given.over(opened, dry_run=dry_run)
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
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="What `quarantine list` shows: the instant of a clean, or orphans-..."),
    ],
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Put everything back that one clean or one search for orphan files set aside.

    A clean is undone: its files are listed again, and the table can be read as of before it again. The metadata table
    is compacted behind that. Change the clean policy before the next clean, which would take the same files.
    """
    locks = given.over(opened, dry_run=dry_run)
    with serviced_table(opened, locks) as serviced:
        restored = restore_run(serviced, run, is_preview=dry_run)
    return Rendered(document=restored_as_json(restored), render=partial(render_restored, restored))


def orphans(
    *,
    opened: ZonedTable,
    age: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long a file must have been unchanged, and recorded by an earlier search; default 1d, and no less "
            "beside writers.",
        ),
    ] = None,
    keep_deleted: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long the quarantine keeps what is set aside; default 7d."),
    ] = None,
    given: LockArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Find orphan files, data files of failed attempts that no instant owns; set them aside once two searches agree.

    The first call records only; a later one sets aside what was recorded long enough ago. Each lists every data file
    that no reader sees, with the proof that it may go or with what keeps it. `lakeward quarantine restore` puts back
    what was set aside.
    """
    locks = given.over(opened, dry_run=dry_run)
    seconds = parse_option(parse_duration, "--age", age, AGE_SECONDS)
    keep_seconds = parse_option(parse_duration, "--keep-deleted", keep_deleted, _KEEP_SECONDS)
    with serviced_table(opened, locks) as serviced:
        if dry_run:
            report = OrphanReport(look(serviced, age_seconds=seconds), 0, None)
        else:
            report = set_orphans_aside(serviced, age_seconds=seconds, keep_seconds=keep_seconds)
    return Rendered(document={"dry_run": dry_run, **orphans_as_json(report)}, render=partial(render_orphans, report))


def restored_as_json(restored: RestoredRun) -> dict[str, Any]:
    undone = restored.undone
    return {
        "dry_run": restored.is_preview,
        "run": restored.run,
        "kind": restored.kind.value,
        "files": restored.files,
        "bytes": restored.bytes,
        "instant": undone and undone.instant,
        "completion_time": undone and undone.completion_time,
        "earliest_retained": undone and undone.plan.earliest.time,
        "left": [{"path": path, "why": why} for path, why in (undone.plan.left if undone else {}).items()],
        **metadata_report_as_json(restored.metadata),
    }


def render_restored(restored: RestoredRun, console: Terminal) -> None:
    files = f"{format_count(restored.files, 'file')}, {format_size(restored.bytes)}"
    undone = restored.undone
    since = "" if undone is None else f" The table can be read as of {undone.plan.earliest.time} and after."
    if restored.is_preview:
        console.print(f"Dry run: would put back {restored.run}: {files}.{since}", highlight=False)
    elif undone is None:
        console.print(f"{restored.run} is back in place: {files}.", highlight=False)
    else:
        console.print(
            f"[bold]Clean {restored.run}[/bold] is undone by {undone.instant}: {files}.{since}", highlight=False
        )
    for path, why in (undone.plan.left if undone else {}).items():
        console.print(f"  left {escape(path)}: {escape(why)}.", highlight=False)
    render_metadata_report(restored.metadata, console)
    if restored.metadata.left is not None:
        console.print("Clean nothing before it is compacted: lakeward metadata compact.", highlight=False)


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
        console.print(f"`lakeward quarantine orphans` would set aside {len(gone)}.", highlight=False)


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
