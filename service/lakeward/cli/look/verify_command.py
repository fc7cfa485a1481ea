"""`lakeward verify TABLE`: is the table what its metadata says? Reads only; exit 6 where something is wrong.

Touches: stdout; the table, reading only.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.clock import SystemClock
from lakeward.base.quantities import format_count, format_size
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.result import PROBLEMS_EXIT, Result
from lakeward.cli.terminal import Rendered
from lakeward.services.verification.check_report import Check, CheckReport
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table


def verify(
    opened: ZonedTable,
    files: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="How many base files to hold against their statistics and bloom filters."
        ),
    ] = 20,
    keys: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many record keys to look up in the record index.")
    ] = 1000,
    every: Annotated[bool, typer.Option("--all", help="Every base file instead of a sample.")] = False,
    merge_sample: Annotated[
        int, typer.Option(min=0, metavar="N", help="Also read N file slices as a query does, and judge their rows.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample.")] = 0,
) -> Result:
    """Check a table and its metadata table against its files. Reads only; exit 6 if anything is wrong."""
    report = verify_table(
        opened.storage,
        opened.base_path,
        size=SampleSize(None if every else files, keys, seed),
        merge_sample=merge_sample,
        clock=SystemClock(),
        timezone=opened.table.timezone,
    )
    return Rendered(
        document=verification_as_json(opened.base_path, report),
        render=partial(render_verification, report),
        exit_code=PROBLEMS_EXIT if report.problems else 0,
    )


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
    console.print(f"{format_count(count, 'problem')} found." if count else "No problem found.")


def _line(check: Check, problems: int) -> str:
    of = f" of {check.of:,}" if check.of is not None and check.of != check.checked else ""
    state = f"{problems} wrong" if problems else "right"
    notes = [check.note] if check.note else []
    if check.read is not None:
        read, groups = check.read, check.read.row_groups + check.read.row_groups_skipped
        of_groups = f", {read.row_groups:,} of {groups:,} row groups" if groups else ""
        amount = f"read {format_size(read.bytes_read)} of {format_size(read.bytes_stored)}{of_groups}"
        notes.append(f"{amount}, {read.rows:,} rows")
    note = f" ({'; '.join(notes)})" if notes else ""
    return f"{check.name}: {check.checked:,}{of} {check.unit}, {state}{note}"
