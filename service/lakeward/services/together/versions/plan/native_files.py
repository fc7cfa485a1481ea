"""What happens to each native log file of a table of version 10 before it may have version 9: a snapshot in, work and
obstacles out.

Readers of version 9 take a native log for a base file, so none may be left anywhere, read or not:

    in the newest slice of a file group     FULL merges it, and then it is in an older slice
    in an older slice, in a replaced group  the slice goes, with all that are older; below
    of a failed write                       rolled back before
    in the metadata table                   that goes as a whole, before
    a log of changes in a slice             goes with its slice; where that stays, by the operator's word alone: what it
    has is in no other file anywhere else                           an obstacle, which is reported: a savepoint or a
    plan names it, it is set
                                            aside, or no commit brought it

Where a slice goes, a query as of its time would read an older one without a word. So everything goes that is needed
only as of a time before E, the first one as of which no native file is needed; and the clean says E, so that Hudi
refuses such a query.

Touches: nothing.
Keeps:   1. every native file of the snapshot is merged, cleaned or an obstacle;
         2. nothing goes that is read as of E or later, nor what a savepoint or a pending plan names;
         3. a log of changes whose slice stays is an obstacle, unless the operator gives it up.
See:     docs/decisions/0068-upgrade-and-downgrade.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakeward.format.file_name import is_native_log
from lakeward.format.timeline.clean_plan import CleanPlan, Retained
from lakeward.format.timeline.instant import comparable_time
from lakeward.services.clean.plan.decision import SAVEPOINTED_TIMESTAMPS
from lakeward.services.clean.plan.validity import DROPS_CHANGES, find_needed
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, LogFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class NativeObstacle:
    path: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class NativeFiles:
    to_merge: tuple[FileSlice, ...]
    """The newest slices with native files, or under a pending plan."""
    to_clean: tuple[FileSlice, ...]
    """Older slices that go; known once nothing is to be merged."""
    earliest: str
    """E; empty where nothing goes."""
    obstacles: tuple[NativeObstacle, ...]
    waiting: tuple[NativeObstacle, ...] = ()
    """Files of pending instants, which a step before may take away."""
    changes: tuple[LogFile, ...] = ()
    """Logs of changes that the operator gives up; their slices stay."""


_SET_ASIDE = "Run `lakeward quarantine orphans` and then `lakeward quarantine purge`, or take it out by hand."
_PURGE = "Run `lakeward quarantine purge --older-than 0s`, or bring it back, and then begin again."
_INSPECT = "See `lakeward inspect`."
_ROLL_BACK = "Have it rolled back, or carried out."
_LET_GO = "Delete the savepoint, or have the plan carried out or unscheduled."
_DROP = "Let the readers of changes finish, and give such logs up with --drop-changes."


def find_native_files(
    snapshot: TableSnapshot, quarantined: Iterable[str], *, drop_changes: bool = False
) -> NativeFiles:
    """What there is to do on the table, its metadata table apart.

    Args:
        snapshot: a scan of the whole table, its failed writes rolled back.
        quarantined: paths of files that are set aside.
        drop_changes: the operator gives up the logs of changes that would stay.
    """
    merged = {slice_.group_id: slice_ for slice_ in _latest_with_native_files(snapshot)}
    older = [
        slice_
        for group in (*snapshot.file_groups, *_replaced(snapshot))
        for number, slice_ in enumerate(group.slices)
        if _native(slice_) and (number > 0 or slice_.group_id in snapshot.replaced)
    ]
    in_the_way, waiting = _in_the_way(snapshot)
    found = tuple(merged[each] for each in sorted(merged))
    earliest, to_clean = ("", ()) if found else _to_clean(snapshot)
    changes = _changes_that_stay(snapshot, merged.keys(), to_clean)
    obstacles = [
        *in_the_way,
        *_obstacles(snapshot, older, merged.keys()),
        *_held_changes(snapshot, changes, drop_changes=drop_changes),
        *_set_aside(quarantined),
    ]
    if obstacles:
        return NativeFiles(found, (), "", tuple(sorted(obstacles, key=lambda each: each.path)), tuple(waiting))
    return NativeFiles(found, to_clean, earliest, (), tuple(waiting), changes)


def clean_plan_of(snapshot: TableSnapshot) -> CleanPlan | None:
    """The clean after which no native file is left; None where none is to be cleaned, or something else is first."""
    found = find_native_files(snapshot, ())
    if not found.to_clean:
        return None
    writes = snapshot.timeline.completed_writes
    instant = next((each for each in writes if each.time == found.earliest), None)
    # Hudi looks no more where nothing was written since E; so E is named only where all that is older goes.
    is_whole = not snapshot.savepointed
    return CleanPlan(
        earliest_retained=Retained(instant.time, instant.comparable_action, "COMPLETED")
        if instant is not None and is_whole
        else None,
        last_completed=writes[-1].time if writes else "",
        files=_names(file for slice_ in found.to_clean for file in slice_.files),
    )


def changes_plan_of(snapshot: TableSnapshot, earliest: str) -> CleanPlan | None:
    """The clean of the logs of changes that the operator gives up; None where there is none.

    Args:
        earliest: what the last clean names. It is named again: Hudi asks the last clean alone as of when the table can
            be read.
    """
    found = find_native_files(snapshot, (), drop_changes=True)
    if not found.changes:
        return None
    writes = snapshot.timeline.completed_writes
    instant = next((each for each in writes if each.time == earliest), None)
    action = "commit" if instant is None else instant.comparable_action
    savepoints = ",".join(sorted(snapshot.timeline.savepoints, key=comparable_time))
    return CleanPlan(
        earliest_retained=Retained(earliest, action, "COMPLETED") if earliest else None,
        last_completed=writes[-1].time if writes else "",
        files=_names(found.changes),
        extra_metadata={DROPS_CHANGES: "true", **({SAVEPOINTED_TIMESTAMPS: savepoints} if savepoints else {})},
    )


def _names(files: Iterable[BaseFile | LogFile]) -> dict[str, tuple[str, ...]]:
    """The names of files, by partition path."""
    names: dict[str, list[str]] = {}
    for file in files:
        names.setdefault(file.partition_path, []).append(file.file_name)
    return {partition: tuple(of) for partition, of in names.items()}


def _native(slice_: FileSlice) -> list[str]:
    """Paths of the native logs of rows and deletes."""
    return [log.path for log in slice_.log_files if is_native_log(log.file_name) and not log.name.is_cdc]


def _native_changes(slice_: FileSlice) -> list[LogFile]:
    return [log for log in slice_.log_files if is_native_log(log.file_name) and log.name.is_cdc]


def _replaced(snapshot: TableSnapshot) -> list[FileGroup]:
    return [group for group in snapshot.replaced_groups if isinstance(group, FileGroup)]


def _latest_with_native_files(snapshot: TableSnapshot) -> Iterator[FileSlice]:
    """Under a pending compaction what readers merge is in two slices."""
    for group in snapshot.file_groups:
        if any(_native(slice_) for slice_ in group.read_slices):
            yield group.slices[0]


def _in_the_way(snapshot: TableSnapshot) -> tuple[list[NativeObstacle], list[NativeObstacle]]:
    """(native logs that stand in the way as they are, those of pending instants, which are in no slice yet)"""
    groups = (*snapshot.file_groups, *_replaced(snapshot))
    in_slices = {log.path for group in groups for slice_ in group.slices for log in slice_.log_files}
    frozen = {(each.partition_path, each.file_id): each.why for each in snapshot.frozen}
    pending = {instant.time for instant in snapshot.timeline.pending}
    obstacles, waiting = [], []
    for log in (log for files in snapshot.files for log in files.log_files if is_native_log(log.file_name)):
        waits = log.path not in in_slices and log.instant in pending
        if waits:
            waiting.append(NativeObstacle(log.path, f"instant {log.instant} is pending", _ROLL_BACK))
        if (why := frozen.get((log.partition_path, log.name.file_id))) is not None:
            obstacles.append(NativeObstacle(log.path, f"its file group is unknown: {why}", _INSPECT))
        elif log.path not in in_slices and not waits:
            obstacles.append(NativeObstacle(log.path, "no completed commit brought it", _SET_ASIDE))
    return obstacles, waiting


def _obstacles(
    snapshot: TableSnapshot, older: Sequence[FileSlice], merged: Iterable[tuple[str, str]]
) -> Iterator[NativeObstacle]:
    for group in snapshot.frozen:
        if not group.is_nameable:
            yield NativeObstacle(group.file_id, f"the content of its partition is unknown: {group.why}", _INSPECT)
    for path in snapshot.unrecognised_files:
        if is_native_log(path.rpartition("/")[2]):
            yield NativeObstacle(path, "no reader knows its name", "Take it out by hand.")
    waits = set(merged)
    names: dict[str, list[str]] = {}
    for slice_ in older:
        if slice_.group_id not in waits:  # a compaction may still need what it is to read
            of = names.setdefault(slice_.partition_path, [])
            of += [path.rpartition("/")[2] for path in _native(slice_)]
    for path, why in find_needed(snapshot, names).items():
        yield NativeObstacle(path, why, _LET_GO)
    for group_id, instant in snapshot.pending_clusterings.items():
        if group_id in waits:
            path = "/".join(part for part in group_id if part)
            yield NativeObstacle(path, f"clustering {instant} is pending on it", "Have it carried out or rolled back.")


def _changes_that_stay(
    snapshot: TableSnapshot, merged: Collection[GroupId], to_clean: Sequence[FileSlice]
) -> tuple[LogFile, ...]:
    """The native logs of changes of slices that no clean on the way takes. Where something is to be merged, all that is
    older than the merge goes afterwards, but for what a savepoint names."""
    dead = {(*slice_.group_id, slice_.base_instant) for slice_ in to_clean}
    pinned = _pinned(snapshot)
    found: list[LogFile] = []
    for group in (*snapshot.file_groups, *_replaced(snapshot)):
        for number, slice_ in enumerate(group.slices):
            is_old = number > 0 or slice_.group_id in merged or slice_.group_id in snapshot.replaced
            goes = bool(merged) and is_old and not any(file.path in pinned for file in slice_.files)
            if not goes and (*slice_.group_id, slice_.base_instant) not in dead:
                found += _native_changes(slice_)
    return tuple(sorted(found, key=lambda log: log.path))


def _held_changes(
    snapshot: TableSnapshot, changes: Sequence[LogFile], *, drop_changes: bool
) -> Iterator[NativeObstacle]:
    held = find_needed(snapshot, _names(changes), drops_changes=True)
    for log in changes:
        if (why := held.get(log.path)) is not None:
            yield NativeObstacle(log.path, why, _LET_GO)
        elif not drop_changes:
            why = f"it has the changes of {log.instant}, which no other file has"
            yield NativeObstacle(log.path, why, _DROP)


def _pinned(snapshot: TableSnapshot) -> set[str]:
    """Paths that a savepoint names."""
    return {path for paths in snapshot.savepointed.values() for path in paths}


def _set_aside(quarantined: Iterable[str]) -> Iterator[NativeObstacle]:
    for path in quarantined:
        if is_native_log(path.rpartition("/")[2]):
            yield NativeObstacle(path, "it is set aside and could be brought back", _PURGE)


def _to_clean(snapshot: TableSnapshot) -> tuple[str, tuple[FileSlice, ...]]:
    """E and the slices that are read as of earlier times only."""
    times: list[str] = []
    for group in snapshot.file_groups:
        newest = next((number for number, each in enumerate(group.slices) if _native(each)), None)
        if newest is not None:
            times.append(group.slices[newest - 1].base_instant)
    replaced = _replaced(snapshot)
    for group in replaced:
        if any(_native(slice_) for slice_ in group.slices):
            times.append(snapshot.replaced[group.partition_path, group.file_id])
    if not times:
        return "", ()
    earliest = max(times, key=comparable_time)
    limit = comparable_time(earliest)
    dead: list[FileSlice] = []
    for group in snapshot.file_groups:
        read = next((n for n, each in enumerate(group.slices) if comparable_time(each.base_instant) <= limit), None)
        dead += [] if read is None else group.slices[read + 1 :]
    for group in replaced:
        if comparable_time(snapshot.replaced[group.partition_path, group.file_id]) <= limit:
            dead += group.slices
    pinned = _pinned(snapshot)
    return earliest, tuple(each for each in dead if not any(file.path in pinned for file in each.files))
