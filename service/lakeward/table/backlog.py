"""What waits to be merged on a table, in few numbers: the one definition behind pages, metrics, plans and reports.

What readers merge are live logs (`table/live_logs.py`). Those that a log compaction has superseded are figures of their
own: bytes on storage, and heads that are opened; in the layout `lsm_tree` they are read whole until they go. Of these a
clean may take those that readers do without (`table/retired_logs.py`), but for the anchors. A log is unmerged until a
base file has taken it in, so the oldest unmerged record may be in a superseded one.

Touches: nothing.
Keeps:   1. a table's backlog is the sum of its groups' backlogs, or the most of them where that is its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lakeward.base.errors import BrokenFile
from lakeward.format.timeline.instant import Instant, State, comparable_time, parse_instant_time
from lakeward.table.file_group import FileGroup
from lakeward.table.live_logs import live_logs
from lakeward.table.past_slices import pinned_slices
from lakeward.table.retired_logs import find_stood_for
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timeline_reader import LogCompaction

# Written, run and completed by services; a pending one holds its file groups.
_PLANNED_ACTIONS = frozenset({"compaction", "logcompaction", "clustering"})


@dataclass(frozen=True, slots=True)
class PendingPlan:
    instant: str
    action: str
    requested_at: float | None
    """Seconds since the epoch, when its plan was written."""


@dataclass(frozen=True, slots=True)
class GroupBacklog:
    """What readers of a file group read: its latest slice, and under a pending compaction the slices down to a base
    file."""

    base_bytes: int
    log_files: int
    """Live logs."""
    log_bytes: int
    superseded_log_files: int
    superseded_log_bytes: int
    superseded_bytes_read: int = 0
    """The part of these bytes that readers read all the same."""
    anchors: int = 0
    """Superseded logs by which readers find an output: they stay as long as that."""
    retirable_log_bytes: int = 0
    """Bytes of the superseded logs that readers do without."""

    @property
    def read_bytes(self) -> int:
        return self.base_bytes + self.log_bytes + self.superseded_bytes_read

    @property
    def merged_bytes(self) -> int:
        """What a reader would read if all was merged, as far as that is known before."""
        return self.base_bytes or self.log_bytes

    @property
    def numbers(self) -> dict[str, int | float]:
        """The figures in the form that they have among the numbers of a decision."""
        return {
            "base_bytes": self.base_bytes,
            "log_files": self.log_files,
            "log_bytes": self.log_bytes,
            "superseded_log_files": self.superseded_log_files,
            "superseded_log_bytes": self.superseded_log_bytes,
        }


BEGUN_ACTIONS = ("compaction", "logcompaction", "clustering", "clean", "indexing", "restore")
"""What is counted of what is begun: all but writes and their rollbacks."""


def backlog_of_group(group: FileGroup, log_compactions: Sequence[LogCompaction]) -> GroupBacklog:
    base_bytes = log_files = log_bytes = superseded_files = superseded_bytes = bytes_read = anchors = retirable = 0
    for slice_ in group.read_slices:
        base_bytes += slice_.base_bytes
        logs = live_logs(slice_, log_compactions)
        log_files += len(logs.live)
        log_bytes += sum(log.size for log in logs.live)
        superseded = logs.superseded
        superseded_files += len(superseded)
        superseded_bytes += sum(log.size for log in superseded)
        bytes_read += sum(log.size for log in superseded) if logs.by_rank else 0
        found = find_stood_for(slice_.log_names, log_compactions)
        anchors += len(found.anchors)
        retirable += sum(log.size for log in slice_.log_files if log.file_name in found.by)
    return GroupBacklog(
        base_bytes, log_files, log_bytes, superseded_files, superseded_bytes, bytes_read, anchors, retirable
    )


def read_amplification(*, read_bytes: float, merged_bytes: float) -> float:
    """Bytes that a reader reads per byte that it would read if all was merged; 1.0 where there is nothing to read."""
    return _ratio(read_bytes, merged_bytes)


@dataclass(frozen=True, slots=True)
class BegunService:
    """A service of whatever engine that is under way, or was left unfinished."""

    instant: str
    action: str
    begun_at: float
    """Seconds since the epoch, when it last changed on the timeline."""


@dataclass(frozen=True, slots=True)
class Backlog:
    file_groups: int
    """File groups that readers see; frozen ones are not counted."""
    slices: int
    log_files: int
    """Live logs of latest slices, and of the slices under a pending compaction."""
    log_bytes: int
    superseded_log_files: int
    """Logs of these slices that readers need not merge any more."""
    superseded_log_bytes: int
    most_log_files: int
    """Live logs of the file group that has most."""
    most_opened_log_files: int
    """Logs of the file group of which readers open most, superseded ones included."""
    base_bytes: int
    oldest_unmerged_at: float | None
    """Seconds since the epoch, when the oldest log completed that no base file has taken in."""
    pending_plans: tuple[PendingPlan, ...]
    timeline_length: int
    """Instants on the active timeline."""
    read_amplification: float
    """Bytes that a reader reads per byte that it would read if all was merged; 1.0 with no logs."""
    space_amplification: float
    """Bytes on disk per byte that a reader reads; 1.0 where no older slice and no superseded log is kept."""
    opened_log_files: int = 0
    """Logs whose heads a query of all file groups opens, superseded ones included."""
    anchors: int = 0
    """Superseded logs by which readers find the output of a log compaction."""
    retirable_log_bytes: int = 0
    """Bytes of the superseded logs that readers do without."""
    damaged_files: int = 0
    """Files of newest slices that are not what their commits say; their groups are excluded."""
    oldest_savepoint_at: float | None = None
    """Seconds since the epoch, when the oldest savepoint was made."""
    oldest_clean_at: float | None = None
    """Seconds since the epoch, when the oldest clean was requested that is not completed."""
    pinned_bytes: int = 0
    """Bytes of the slices that savepoints pin and that readers of the newest state do not read."""
    begun_services: tuple[BegunService, ...] = ()
    """Services that were begun and are not completed, oldest first."""


def backlog_of(snapshot: TableSnapshot) -> Backlog:
    groups = [
        backlog_of_group(group, snapshot.log_compactions.get((group.partition_path, group.file_id), ()))
        for group in snapshot.file_groups
    ]
    read_bytes = sum(group.read_bytes for group in groups)
    slices = [slice_ for group in snapshot.file_groups for slice_ in group.slices]
    instants = {(instant.time, instant.comparable_action) for instant in snapshot.timeline.instants}
    return Backlog(
        file_groups=len(snapshot.file_groups),
        slices=len(slices),
        log_files=sum(group.log_files for group in groups),
        log_bytes=sum(group.log_bytes for group in groups),
        superseded_log_files=sum(group.superseded_log_files for group in groups),
        superseded_log_bytes=sum(group.superseded_log_bytes for group in groups),
        most_log_files=max((group.log_files for group in groups), default=0),
        most_opened_log_files=max((group.log_files + group.superseded_log_files for group in groups), default=0),
        base_bytes=sum(group.base_bytes for group in groups),
        oldest_unmerged_at=_oldest_unmerged_at(snapshot),
        pending_plans=tuple(
            PendingPlan(instant.time, instant.action, _requested_at(snapshot, instant))
            for instant in snapshot.timeline.pending
            if instant.action in _PLANNED_ACTIONS
        ),
        timeline_length=len(instants),
        read_amplification=read_amplification(
            read_bytes=read_bytes, merged_bytes=sum(group.merged_bytes for group in groups)
        ),
        space_amplification=_ratio(sum(slice_.bytes for slice_ in slices), read_bytes),
        opened_log_files=sum(group.log_files + group.superseded_log_files for group in groups),
        anchors=sum(group.anchors for group in groups),
        retirable_log_bytes=sum(group.retirable_log_bytes for group in groups),
        damaged_files=len(snapshot.damage),
        oldest_savepoint_at=_oldest_savepoint_at(snapshot.timeline),
        pinned_bytes=sum(slice_.bytes for slice_, _ in pinned_slices(snapshot)),
        begun_services=tuple(
            BegunService(instant.time, instant.action, at)
            for instant in snapshot.timeline.pending
            if instant.action in BEGUN_ACTIONS and instant.state is State.INFLIGHT
            if (at := snapshot.timeline.modified.get(instant.file_name)) is not None
        ),
        oldest_clean_at=min(
            (
                at
                for instant in snapshot.timeline.pending
                if instant.action == "clean" and (at := _requested_at(snapshot, instant)) is not None
            ),
            default=None,
        ),
    )


def _oldest_savepoint_at(timeline: Timeline) -> float | None:
    saved = [i for i in timeline.completed if i.action == "savepoint"]
    return min((timeline.modified[instant.file_name] for instant in saved), default=None)


def _oldest_unmerged_at(snapshot: TableSnapshot) -> float | None:
    zone = snapshot.zone.zone
    if zone is None:
        return None
    oldest: str | None = None
    seen: set[str] = set()
    for group in snapshot.file_groups:
        for slice_ in group.read_slices:
            for log in slice_.log_files:
                if log.instant in seen or log.name.is_cdc:
                    continue
                seen.add(log.instant)
                moment = comparable_time(snapshot.timeline.visible_at(log.instant))
                oldest = moment if oldest is None or moment < oldest else oldest
    return None if oldest is None else _moment(oldest, zone)


def _requested_at(snapshot: TableSnapshot, instant: Instant) -> float | None:
    return snapshot.timeline.modified.get(f"{instant.time}.{instant.action}.{State.REQUESTED}")


def _moment(instant: str, zone: tzinfo) -> float | None:
    """None for the instants that Hudi reserves, which are no moment."""
    try:
        return parse_instant_time(instant, zone) / 1000
    except BrokenFile:
        return None


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0
