"""What the quarantine of a table holds, for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

from lakeward.base.quantities import format_duration, format_iso_time, format_size, format_time
from lakeward.cli.views.tables import Column, NameCell, new_table
from lakeward.cli.views.terminal import shown
from lakeward.services.clean.plan.purging import find_due
from lakeward.services.clean.run.purging import PurgedRun
from lakeward.table.quarantine import Quarantine, QuarantinedRun


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
