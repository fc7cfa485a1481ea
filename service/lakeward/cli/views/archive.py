"""What the archiver would do, and what it did, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from lakeward.base.quantities import format_duration
from lakeward.cli.views.terminal import shown
from lakeward.format.timeline.instant import Instant
from lakeward.services.archive.plan.archiving import ArchivePlan
from lakeward.services.archive.run.archiver import ArchiveReport


def archive_as_json(plan: ArchivePlan) -> dict[str, Any]:
    return {
        "commits": plan.commits,
        "commits_min": plan.options.commits_min,
        "commits_max": plan.options.commits_max,
        "is_due": plan.is_due,
        "archived": _instants_as_json(plan.archived),
        "leftovers": plan.leftovers,
        "kept": [
            {"from": limit.instant, "reason": limit.reason.value, "explanation": limit.why} for limit in plan.limits
        ],
        "blocked_by": plan.blocked_by and plan.blocked_by.reason.value,
    }


def archived_as_json(report: ArchiveReport) -> dict[str, Any]:
    return archive_as_json(report.plan) | {
        "archived": _instants_as_json(report.archived),
        "left": report.left or None,
        "merged_files": report.merged_files,
        "seconds": report.seconds,
    }


def render_archived(report: ArchiveReport, console: Console) -> None:
    if report.archived:
        first, last = report.archived[0].time, report.archived[-1].time
        console.print(
            f"Archived {_count(len(report.archived))}, {first} to {last}, in {format_duration(report.seconds)}.",
            highlight=False,
        )
        if not report.plan.is_due:
            return
    elif not report.plan.is_due:
        console.print(f"Nothing to archive: {_on_timeline(report.plan)}", highlight=False)
        return
    else:
        console.print("Nothing was archived.")
    if report.left:
        console.print(f"The rest stays for now: {shown(report.left)}.", highlight=False, markup=False)
    _render_limits(report.plan, console)


def render_archive(plan: ArchivePlan, console: Console) -> None:
    if not plan.is_due and not plan.archived:
        console.print(_on_timeline(plan), highlight=False)
        return
    for instant in plan.archived:
        console.print(f"{instant.time} {instant.action}", highlight=False)
    would = f"{_count(len(plan.archived))} would go" if plan.archived else "Nothing would go"
    console.print(f"{would}; {plan.commits} completed commits are on the timeline.", highlight=False)
    if plan.leftovers:
        console.print(
            f"The archive has {_count(plan.leftovers)} of these already: an archiver died over them.", highlight=False
        )
    _render_limits(plan, console)


def _render_limits(plan: ArchivePlan, console: Console) -> None:
    for limit in plan.limits:
        console.print(
            f"Kept from {limit.instant} on ({limit.reason}): {shown(limit.why)}", highlight=False, markup=False
        )


def _on_timeline(plan: ArchivePlan) -> str:
    return f"The active timeline has {plan.commits} completed commits, of up to {plan.options.commits_max}."


def _count(instants: int) -> str:
    return f"{instants} instant{'' if instants == 1 else 's'}"


def _instants_as_json(instants: Sequence[Instant]) -> list[dict[str, Any]]:
    return [
        {"instant": instant.time, "action": instant.action, "completion_time": instant.completion_time}
        for instant in instants
    ]
