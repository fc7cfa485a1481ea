"""What the archiver would do, for people and as JSON.

Touches: the given console.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

from lakeward.cli.views.terminal import shown
from lakeward.plan.archiving import ArchivePlan


def archive_as_json(plan: ArchivePlan) -> dict[str, Any]:
    return {
        "commits": plan.commits,
        "commits_min": plan.options.commits_min,
        "commits_max": plan.options.commits_max,
        "is_due": plan.is_due,
        "archived": [
            {"instant": instant.time, "action": instant.action, "completion_time": instant.completion_time}
            for instant in plan.archived
        ],
        "kept": [
            {"from": limit.instant, "reason": limit.reason.value, "explanation": limit.why} for limit in plan.limits
        ],
        "blocked_by": plan.blocked_by and plan.blocked_by.reason.value,
    }


def render_archive(plan: ArchivePlan, console: Console) -> None:
    if not plan.is_due:
        console.print(
            f"The active timeline has {plan.commits} completed commits, of up to {plan.options.commits_max}.",
            highlight=False,
        )
        return
    for instant in plan.archived:
        console.print(f"{instant.time} {instant.action}", highlight=False)
    number = len(plan.archived)
    would = "Nothing would go" if not number else f"{number} instant{'' if number == 1 else 's'} would go"
    console.print(f"{would}; {plan.commits} completed commits are on the timeline.", highlight=False)
    for limit in plan.limits:
        console.print(
            f"Kept from {limit.instant} on ({limit.reason}): {shown(limit.why)}", highlight=False, markup=False
        )
