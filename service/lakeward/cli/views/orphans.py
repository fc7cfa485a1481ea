"""Orphan files and what looks like them, for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

from lakeward.base.quantities import format_iso_time, format_size, format_time
from lakeward.cli.views.tables import Column, NameCell, new_table
from lakeward.services.clean.plan.orphans import OrphanDecision
from lakeward.services.clean.run.orphans import OrphanReport


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
