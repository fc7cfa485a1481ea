"""What waits to be merged on a table, in few numbers: for metrics, pages, and to see whether services keep up.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from lakeward.errors import BrokenFile
from lakeward.format.timeline.instant import Instant, State, comparable_time, parse_instant_time
from lakeward.table.file_group import FileGroup, FileSlice
from lakeward.table.snapshot import TableSnapshot

# Written, run and completed by services; a pending one holds its file groups.
_PLANNED_ACTIONS = frozenset({"compaction", "logcompaction", "clustering"})


@dataclass(frozen=True, slots=True)
class PendingPlan:
    instant: str
    action: str
    requested_at: float | None
    """Seconds since the epoch, when its plan was written."""


@dataclass(frozen=True, slots=True)
class Backlog:
    file_groups: int
    """File groups that readers see; frozen ones are not counted."""
    slices: int
    log_files: int
    """Log files of latest slices, and of the slices under a pending compaction."""
    log_bytes: int
    base_bytes: int
    oldest_unmerged_at: float | None
    """Seconds since the epoch, when the oldest log completed that no base file has taken in."""
    pending_plans: tuple[PendingPlan, ...]
    timeline_length: int
    """Instants on the active timeline."""
    read_amplification: float
    """Bytes that a reader reads per byte of base files that it would read if all were merged; 1.0 with no logs."""
    space_amplification: float
    """Bytes on disk per byte that a reader reads; 1.0 where no older slice is kept."""
    damaged_files: int = 0
    """Files of newest slices that are not what their commits say; their groups are excluded."""


def backlog_of(snapshot: TableSnapshot) -> Backlog:
    log_files = log_bytes = base_bytes = slices = read_bytes = all_bytes = merged_bytes = 0
    oldest: str | None = None
    zone = snapshot.zone.zone
    seen: dict[str, str] = {}
    for group in snapshot.file_groups:
        base, logs = 0, 0
        slices += len(group.slices)
        for slice_ in _read_together(group):
            base += slice_.base_bytes
            for log in slice_.log_files:
                log_files += 1
                logs += log.size
                if (moment := seen.get(log.instant)) is None:
                    completed = snapshot.timeline.completion_time(log.instant) or log.instant
                    moment = seen[log.instant] = comparable_time(completed)
                oldest = moment if oldest is None or moment < oldest else oldest
        base_bytes += base
        log_bytes += logs
        read_bytes += base + logs
        merged_bytes += base or logs
        all_bytes += sum(slice_.base_bytes + slice_.log_bytes for slice_ in group.slices)
    instants = {(instant.time, instant.comparable_action) for instant in snapshot.timeline.instants}
    return Backlog(
        file_groups=len(snapshot.file_groups),
        slices=slices,
        log_files=log_files,
        log_bytes=log_bytes,
        base_bytes=base_bytes,
        oldest_unmerged_at=None if oldest is None or zone is None else _moment(oldest, zone),
        pending_plans=tuple(
            PendingPlan(instant.time, instant.action, _requested_at(snapshot, instant))
            for instant in snapshot.timeline.pending
            if instant.action in _PLANNED_ACTIONS
        ),
        timeline_length=len(instants),
        read_amplification=_ratio(read_bytes, merged_bytes),
        space_amplification=_ratio(all_bytes, read_bytes),
        damaged_files=len(snapshot.damage),
    )


def _read_together(group: FileGroup) -> list[FileSlice]:
    """The latest slice, and under one that a pending compaction opened the slices down to a base file."""
    together = []
    for slice_ in group.slices:
        together.append(slice_)
        if slice_.base_file is not None:
            break
    return together


def _requested_at(snapshot: TableSnapshot, instant: Instant) -> float | None:
    return snapshot.timeline.modified.get(f"{instant.time}.{instant.action}.{State.REQUESTED}")


def _moment(instant: str, zone: tzinfo) -> float | None:
    """None for the instants that Hudi reserves, which are no moment."""
    try:
        return parse_instant_time(instant, zone) / 1000
    except BrokenFile:
        return None


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
