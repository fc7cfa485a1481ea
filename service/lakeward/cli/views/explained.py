"""What is known of a file and of an instant, as JSON, and what holds a table's storage, also for people: the results of
`explain`.

Touches: the given console.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

from lakeward.base.quantities import format_iso_time, format_size
from lakeward.cli.views.clean import keeper_as_json
from lakeward.services.archive.plan.archiving import ArchivePlan
from lakeward.services.clean.plan.decision import CleanOutcome
from lakeward.services.together.explaining.file_explanation import FileExplanation
from lakeward.services.together.explaining.instant_explanation import InstantExplanation
from lakeward.services.together.explaining.judged_by import JudgedBy
from lakeward.services.together.explaining.storage_states import StorageStates


def file_as_json(file: FileExplanation) -> dict[str, Any]:
    written, place = file.written_by, file.place
    return {
        "path": file.path,
        "verdict": file.verdict.value,
        "bytes": file.size,
        "file_group": file.file_id,
        "instant": file.instant,
        "written_by": None
        if written is None
        else {"action": written.action, "state": written.state.value, "completion_time": written.completion_time},
        "is_archived": file.is_archived,
        "slice": None
        if place is None
        else {"base_instant": place.base_instant, "number": place.number, "of": place.slices},
        "superseded_by": place and place.superseded_by,
        "replaced_by": file.replaced_by,
        "merged_by": file.merged_by,
        "kept_by": [keeper_as_json(keeper) for keeper in file.keepers],
        "dead_by": list(file.dead_by),
        "hindrance": file.hindrance,
        "frozen_because": file.frozen and file.frozen.why,
        "savepoints": [each.savepoint.instant for each in file.pinned],
        "plans": list(file.plans),
        "cleaned_by": file.cleaned_by,
        "cleaning_by": file.cleaning_by,
        "quarantine_run": file.quarantine_run,
        "quarantined_until": None if file.quarantined_until is None else format_iso_time(file.quarantined_until),
        "rolled_back_by": file.rolled_back_by,
    }


def instant_as_json(instant: InstantExplanation) -> dict[str, Any]:
    facts = instant.facts
    return {
        "instant": instant.time,
        "on_timeline": [
            {"action": each.action, "state": each.state.value, "completion_time": each.completion_time}
            for each in instant.instants
        ],
        "is_archived": instant.is_archived,
        "archived_completion_time": facts.archived_at,
        "operation": facts.operation,
        "merged_by": facts.merged_by,
        "rolled_back_by": facts.rolled_back_by,
        "rolls_back": list(facts.rolls_back),
        "planned_groups": instant.planned_groups,
        "rollback": None
        if facts.decision is None
        else {
            "step": facts.decision.step.value,
            "reason": facts.decision.reason.value,
            "explanation": facts.decision.why,
            "until": facts.decision.until,
        },
        "deleted": None
        if facts.clean is None
        else {partition: list(names) for partition, names in facts.clean.deleted.items()},
        "files": [{"path": file.path, "verdict": file.verdict.value, "bytes": file.size} for file in facts.files],
        "archiving": {
            "goes_next": instant.goes_next,
            "kept_by": [{"reason": limit.reason.value, "explanation": limit.why} for limit in instant.limits],
        },
    }


def judged_by_as_json(judged_by: JudgedBy) -> dict[str, Any]:
    clean, archive = judged_by.clean, judged_by.archive
    return {
        "clean": {"policy": clean.kind.value, "retain": clean.retain, "because": judged_by.clean_because},
        "archive": {
            "commits_min": archive.commits_min,
            "commits_max": archive.commits_max,
            "because": judged_by.archive_because,
        },
    }


def storage_as_json(states: StorageStates) -> dict[str, Any]:
    return {state.value: {"files": total.files, "bytes": total.bytes} for state, total in states.items()}


def render_storage(
    states: StorageStates,
    clean: CleanOutcome,
    archiving: ArchivePlan | None,
    judged_by: JudgedBy,
    console: Console,
) -> None:
    """What holds the storage, what a clean would take, what blocks the archiver."""
    told = (f"{format_size(total.bytes)} {state}" for state, total in states.items() if total.files)
    console.print(f"Storage: {', '.join(told) or 'nothing'}.", highlight=False)
    dead = tuple(clean.dead)
    files, size = sum(len(each.file_names) for each in dead), format_size(sum(each.bytes for each in dead))
    goes = f"would take {files:,} file{'' if files == 1 else 's'} of {size}" if dead else "would take nothing"
    console.print(f"A clean {goes}; `lakeward clean --dry-run` says which, and what keeps the rest.", highlight=False)
    if archiving is not None and archiving.blocked_by is not None:
        console.print(
            f"Archiving is held ({archiving.blocked_by.reason}): {archiving.blocked_by.why}",
            highlight=False,
            markup=False,
        )
    elif archiving is not None and archiving.archived:
        console.print(f"The archiver would take {len(archiving.archived):,} instants.", highlight=False)
    console.print(judged_by.sentence, highlight=False, markup=False)
