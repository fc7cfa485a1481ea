"""What `lakeward clean` did, for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from lakeward.execute.clean.cleaner import CleanedTable, CleanReport
from lakeward.quantities import format_instant


def cleaned_as_json(report: CleanReport) -> dict[str, Any]:
    return {
        "cleans": [
            {
                "instant": each.instant,
                "completion_time": each.completion_time,
                "recovered": each.recovered,
                "files": each.files,
                "earliest_retained": each.earliest_retained or None,
                "kept": [{"path": path, "why": why} for path, why in each.kept.items()],
                "seconds": each.seconds,
            }
            for each in report.cleans
        ],
        "waiting": [{"instant": each.instant, "why": each.why} for each in report.waiting],
    }


def render_cleaned(report: CleanReport, console: Console) -> None:
    if not report.cleans and not report.waiting:
        console.print("Nothing to clean.")
    for clean in report.cleans:
        console.print(_headline(clean), highlight=False)
        for path, why in clean.kept.items():
            console.print(f"  kept {escape(path)}: {escape(why)}.", highlight=False)
    for waiting in report.waiting:
        console.print(f"Left clean {waiting.instant} alone: {escape(waiting.why)}.", highlight=False)


def _headline(clean: CleanedTable) -> str:
    pending = " (it was pending)" if clean.recovered else ""
    if clean.completion_time is None:
        return f"[bold]Clean {clean.instant}[/bold]{pending}: taken off the timeline, for files of it are needed again."
    files = f"{clean.files:,} file{'' if clean.files == 1 else 's'} deleted"
    since = f" The table can be read as of {clean.earliest_retained} and after." if clean.earliest_retained else ""
    return (
        f"[bold]Clean {clean.instant}[/bold]{pending}: {files}, {clean.seconds:.1f} s, completed at "
        f"{format_instant(clean.completion_time)}.{since}"
    )
