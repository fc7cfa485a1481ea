"""The result of `lakeward verify`, for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lakeward.base.quantities import format_size
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.services.verification.check_report import Check, CheckReport


def verification_as_json(base_path: str, report: CheckReport) -> dict[str, Any]:
    return {
        "base_path": base_path,
        "ok": not report.problems,
        "checks": [asdict(check) for check in report.checks],
        "problems": [asdict(problem) for problem in report.problems],
        "notes": list(report.notes),
    }


def render_verification(report: CheckReport, console: Console) -> None:
    for check in report.checks:
        found = sum(problem.check == check.name for problem in report.problems)
        console.print(Text(_line(check, found)))
    for problem in report.problems:
        console.print(Text(f"{problem.check}: {problem.subject}", style="bold"))
        console.print(Text(f"  {problem.what.rstrip('.')}. {problem.remedy}"))
    for note in report.notes:
        console.print(Text(note))
    count = len(report.problems)
    console.print(f"{count} problem{'' if count == 1 else 's'} found." if count else "No problem found.")


def _line(check: Check, problems: int) -> str:
    of = f" of {check.of:,}" if check.of is not None and check.of != check.checked else ""
    state = f"{problems} wrong" if problems else "right"
    notes = [check.note] if check.note else []
    if check.read is not None:
        notes.append(_amount(check.read))
    note = f" ({'; '.join(notes)})" if notes else ""
    return f"{check.name}: {check.checked:,}{of} {check.unit}, {state}{note}"


def _amount(read: ReadMeter) -> str:
    groups = read.row_groups + read.row_groups_skipped
    of_groups = f", {read.row_groups:,} of {groups:,} row groups" if groups else ""
    return f"read {format_size(read.bytes_read)} of {format_size(read.bytes_stored)}{of_groups}, {read.rows:,} rows"
