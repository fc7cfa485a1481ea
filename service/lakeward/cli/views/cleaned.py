"""What `lakeward clean` did, for people and as JSON.

Touches: the console it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from lakeward.base.quantities import format_duration, format_instant, format_iso_time, format_size, format_time
from lakeward.services.clean.plan.purging import PurgeReason

if TYPE_CHECKING:
    from lakeward.services.clean.run.cleaner import CleanedTable, CleanReport
    from lakeward.services.clean.run.purging import PurgedRun
    from lakeward.services.clean.run.undoing import UndoneClean


def cleaned_as_json(report: CleanReport, purged: Sequence[PurgedRun]) -> dict[str, Any]:
    return {
        "cleans": [
            {
                "instant": each.instant,
                "completion_time": each.completion_time,
                "recovered": each.recovered,
                "files": each.files,
                "undoes": each.undoes,
                "kept_until": None if each.kept_until is None else format_iso_time(each.kept_until),
                "bytes": each.bytes,
                "earliest_retained": each.earliest_retained or None,
                "kept": [{"path": path, "why": why} for path, why in each.kept.items()],
                "seconds": each.seconds,
            }
            for each in report.cleans
        ],
        "waiting": [{"instant": each.instant, "why": each.why} for each in report.waiting],
        "purged": purged_as_json(purged),
    }


def purged_as_json(purged: Iterable[PurgedRun]) -> list[dict[str, Any]]:
    return [{"run": each.run, "reason": each.reason.value, "files": each.files, "bytes": each.bytes} for each in purged]


def undone_as_json(undone: UndoneClean) -> dict[str, Any]:
    plan = undone.plan
    return {
        "dry_run": undone.instant is None,
        "undone": plan.run,
        "instant": undone.instant,
        "completion_time": undone.completion_time,
        "files": len(plan.files),
        "bytes": plan.bytes,
        "earliest_retained": plan.earliest.time,
        "left": [{"path": path, "why": why} for path, why in plan.left.items()],
    }


def render_undone(undone: UndoneClean, console: Console) -> None:
    plan = undone.plan
    files = f"{len(plan.files):,} file{'' if len(plan.files) == 1 else 's'}, {format_size(plan.bytes)}"
    since = f"as of {plan.earliest.time} and after"
    if undone.instant is None:
        console.print(
            f"{files}, would come back, and the table could be read {since}. Nothing written.", highlight=False
        )
    else:
        console.print(
            f"[bold]Clean {plan.run}[/bold] is undone by {undone.instant}: {files}, brought back. The table can be "
            f"read {since}.",
            highlight=False,
        )
    for path, why in plan.left.items():
        console.print(f"  left {escape(path)}: {escape(why)}.", highlight=False)


_WHY = {
    PurgeReason.AGE: "kept for long enough",
    PurgeReason.CAP: "the quarantine held more than it may, and this was the oldest in it",
    PurgeReason.BEGUN: "a process died over it",
}


def render_purged(purged: Iterable[PurgedRun], console: Console) -> None:
    for each in purged:
        files = f"{each.files:,} file{'' if each.files == 1 else 's'}, {format_size(each.bytes)}"
        console.print(f"Quarantine of {each.run} purged: {files}; {_WHY[each.reason]}.", highlight=False)


def render_cleaned(report: CleanReport, purged: Sequence[PurgedRun], console: Console) -> None:
    if not report.cleans and not report.waiting and not purged:
        console.print("Nothing to clean.")
    for clean in report.cleans:
        console.print(_headline(clean), highlight=False)
        for path, why in clean.kept.items():
            console.print(f"  kept {escape(path)}: {escape(why)}.", highlight=False)
    for waiting in report.waiting:
        console.print(f"Left clean {waiting.instant} alone: {escape(waiting.why)}.", highlight=False)
    render_purged(purged, console)


def _headline(clean: CleanedTable) -> str:
    pending = " (it was pending)" if clean.recovered else ""
    if clean.completion_time is None:
        return f"[bold]Clean {clean.instant}[/bold]{pending}: taken off the timeline, for files of it are needed again."
    went = "deleted" if clean.kept_until is None else f"set aside until {format_time(clean.kept_until)}"
    if clean.undoes is not None:
        went = f"of clean {clean.undoes} brought back"
    files = f"{clean.files:,} file{'' if clean.files == 1 else 's'} of {format_size(clean.bytes)} {went}"
    since = f" The table can be read as of {clean.earliest_retained} and after." if clean.earliest_retained else ""
    return (
        f"[bold]Clean {clean.instant}[/bold]{pending}: {files}, {format_duration(clean.seconds)}, completed at "
        f"{format_instant(clean.completion_time)}.{since}"
    )
