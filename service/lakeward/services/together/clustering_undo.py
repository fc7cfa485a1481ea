"""Undo the newest clustering of a table: a restore to the commit before it, where that undoes nothing else.

    newest completed write     what happens
    a clustering               the table goes back to the commit that completed before it
    another one                refused: for Hudi a replaced file group stays replaced while its instant is on the
                               timeline, so what came later would go with the clustering

Clusterings that gave up count as if they were not there: nothing is in their commits.

Touches: the table, through `services/together/restore`; the timeline, reading only.
Keeps:   1. no completed write but the clustering is undone, also where one completes while the undo begins;
         2. a refusal names the writes that came later, and what helps.
See:     docs/decisions/0149-the-newest-clustering-is-undone.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.base.errors import Refused
from lakeward.format.timeline.commit_metadata import CLUSTER, CommitMetadata
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.together.restore.restore_choice import find_later
from lakeward.services.together.restore.run.restore import Restored, preview_restore, restore
from lakeward.services.together.restore.run.restore_preparation import PlannedRestore
from lakeward.table.timeline.timeline_reader import TimelineReader

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class UndoneClustering:
    clustering: str
    """The instant of the clustering."""
    planned: PlannedRestore
    restored: Restored | None
    """None for a preview."""


def preview_undo(table: ServicedTable) -> UndoneClustering:
    """What `undo_clustering` would do now; raises as that does. Writes nothing."""
    clustering, target = _choose(table)
    planned = preview_restore(table, target)
    _check_alone(clustering, planned)
    return UndoneClustering(clustering, planned, None)


def undo_clustering(table: ServicedTable) -> UndoneClustering:
    """Raises `Refused` where the newest write is no clustering, or nothing is left to go back to, and what `restore`
    raises."""
    clustering, target = _choose(table)
    restored = restore(table, target, check=lambda planned: _check_alone(clustering, planned))
    return UndoneClustering(clustering, restored.planned, restored)


def _choose(table: ServicedTable) -> tuple[str, str]:
    """The instants of the clustering and of the commit before it."""
    snapshot = table.snapshot(only=(), service=TableService.CLUSTERING)
    reader = TimelineReader(table.storage, table.base_path, snapshot.config, snapshot.timeline)
    completed = sorted(snapshot.timeline.completed_writes, key=lambda each: each.completion_time or each.time)
    places = [at for at, each in enumerate(completed) if _is_clustering(reader, each)]
    if not places:
        raise Refused(
            f"No clustering of {table.base_path} can be undone.",
            why="There is none on the active timeline.",
            remedy="An archived one cannot be undone; `lakeward inspect` shows the timeline.",
        )
    clustering = completed[places[-1]]
    if places[-1] == 0:
        raise Refused(
            f"Clustering {clustering.time} cannot be undone.",
            why="It is the oldest write on the active timeline: the commit before it is archived, so the table cannot "
            "go back to it.",
            remedy="Leave the table as it is; its rows are those of before. Cluster again for another layout.",
        )
    before = completed[places[-1] - 1]
    merge_on_read = snapshot.config.table_type.upper() != "COPY_ON_WRITE"
    later = find_later(snapshot.timeline, before, merge_on_read=merge_on_read)
    names = [
        each.time
        for each in later
        if each.completion_time is not None and each.time != clustering.time and not _is_empty(reader, each)
    ]
    if names:
        raise _not_alone(clustering.time, names)
    return clustering.time, before.time


def _is_clustering(reader: TimelineReader, instant: Instant) -> bool:
    return (commit := _clustering(reader, instant)) is not None and bool(commit.file_groups)


def _is_empty(reader: TimelineReader, instant: Instant) -> bool:
    return (commit := _clustering(reader, instant)) is not None and not commit.file_groups


def _clustering(reader: TimelineReader, instant: Instant) -> CommitMetadata | None:
    commit = reader.commit_metadata(instant) if instant.action == "replacecommit" else None
    return commit if commit is not None and commit.is_clustering else None


def _check_alone(clustering: str, planned: PlannedRestore) -> None:
    others = [
        each.instant
        for each in planned.undone
        if each.is_completed and each.instant != clustering and (each.operation != CLUSTER or each.files)
    ]
    if others:
        raise _not_alone(clustering, others)


def _not_alone(clustering: str, others: Sequence[str]) -> Refused:
    more = f" and {len(others) - _NAMED_MAX} more" if len(others) > _NAMED_MAX else ""
    return Refused(
        f"Clustering {clustering} cannot be undone: {', '.join(sorted(others)[:_NAMED_MAX])}{more} came later.",
        why="The replaced file groups come back only together with all that completed since, so rows would be lost.",
        remedy="Cluster again for another layout; where those rows may go, `lakeward restore TABLE --to COMMIT "
        "--dry-run` shows what would be lost.",
    )
