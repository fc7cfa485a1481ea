"""Orphan files: what an attempt may leave behind, and why each kind of it may go. Here is every deletion that recovers.

    staged        `.hoodie/.temp/<instant>/attempt-*`, and what was fenced off of it
    marker        beside them: that a data file may stand in a partition
    moved in      a base or log file of the instant in a file group of its plan
    heartbeat     `.hoodie/.heartbeat/<instant>`: alive, rolling back or ended
    intent        the same, which names the commit that any process creates
    temporary     a name under which a file was being created, or a heartbeat or lock removed

and a write of another engine, whose process died, or which a restore undoes:

    written       a base or log file of its instant
    marker, heartbeat   its own

What may go depends on what happened to the instant (`Fate`), and `MAY_GO` is the whole rule: a pair that is not in it
stays. Each caller says which fate it has proved, and how: the timeline as it lists it under the table lock, or
`Fencing.fence_off`. `.inflight` and `.requested` are no orphans; `protocol/transition.py` removes them.

Touches: the files above, of our own attempts; under the table lock.
Keeps:   1. a file is deleted only by a reason in `MAY_GO`;
         2. a data file is deleted only if its name carries the instant of a plan of compaction, its file group is in
            that plan, and no completed instant names it; or if it carries that of a write of Lakeward, which no
            completed instant names; or if a rollback on the timeline names it, or a restore its instant;
         3. nothing without our mark is touched, but for what a failed write left, and markers of instants that are
            archived: other engines clean up after themselves;
         4. a file in use by a process that may still be creating it stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum

from lakeward.base.clock import Clock
from lakeward.base.paths import join, parent
from lakeward.format.file_name import PARQUET, BaseFileName, parse_any_data_file
from lakeward.format.timeline.instant import State, parse_instant
from lakeward.protocol.attempts.attempt_files import ATTEMPT, FENCED_OFF, temp_folder
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path, is_ended, parse_intent
from lakeward.protocol.creation import read_if_there
from lakeward.protocol.lock.file_system_lock import FLINK_LOCK, RELEASED, SPARK_LOCK
from lakeward.protocol.owner import parse_owner
from lakeward.protocol.times.seen_times import minted_folder
from lakeward.protocol.transition import LAYOUT
from lakeward.storage.local import TEMPORARY_SUFFIX
from lakeward.storage.storage import FileStatus, Storage

AGE_SECONDS_MIN = 24 * 3600.0
"""A temporary name beside a lock file that is younger may belong to a process that is creating its lock just now, or
is putting one back; a clock that was set does not make it that old."""


class Left(Enum):
    """Kinds of files that an attempt may leave."""

    STAGED = "staged"
    MARKER = "marker"
    MOVED_IN = "moved in"
    WRITTEN = "written"
    HEARTBEAT = "heartbeat"
    INTENT = "intent"
    TEMPORARY = "temporary name"
    LOCK_TEMPORARY = "temporary name of a lock"


class Fate(Enum):
    """What happened to the instant, or the file, as its caller has proved it."""

    COMPLETED = "its completed file exists"
    PUBLISHING = "our attempt is about to complete it, by what it names"
    FENCED_OFF = "no attempt that began can complete it, and none has"
    GONE = "the timeline has nothing of it"
    ROLLED_BACK = "its writer is dead, it is not completed, and a rollback on the timeline names the file"
    RESTORED = "a restore on the timeline names its instant"
    LOCKED = "such a file is created under the lock that we hold"
    AGED = "it is older than any process that creates one may be"


MAY_GO: Mapping[tuple[Left, Fate], str] = {
    (Left.STAGED, Fate.COMPLETED): "what belongs to the commit has left the folder",
    (Left.STAGED, Fate.FENCED_OFF): "nothing is published out of it any more",
    (Left.STAGED, Fate.GONE): "no plan is left by which anything of it could be published",
    (Left.MARKER, Fate.COMPLETED): "there is nothing for Hudi to roll back by it",
    (Left.MARKER, Fate.FENCED_OFF): "the files that it names are deleted before it",
    (Left.MARKER, Fate.GONE): "the same",
    (Left.MOVED_IN, Fate.FENCED_OFF): "no commit names it, and none will",
    (Left.MOVED_IN, Fate.PUBLISHING): "the commit of its instant does not name it: the loser of two runs of a task",
    (Left.WRITTEN, Fate.ROLLED_BACK): "no reader sees it, and any engine that goes on with the rollback deletes it",
    (Left.WRITTEN, Fate.RESTORED): "the table goes back to before it, and any engine that ends the restore deletes it",
    (Left.HEARTBEAT, Fate.COMPLETED): "no process begins at an instant that is completed",
    (Left.HEARTBEAT, Fate.GONE): "no process begins at an instant whose plan is gone",
    (Left.HEARTBEAT, Fate.FENCED_OFF): "it is the one that was judged, or our own; an object store hands it on instead",
    (Left.INTENT, Fate.COMPLETED): "what it names exists, or another engine's in its place",
    (Left.TEMPORARY, Fate.LOCKED): "the process that was creating it has lost the lock or died",
    (Left.LOCK_TEMPORARY, Fate.AGED): "no process takes a day to take a lock, or to put one back",
}


def delete_orphans(storage: Storage, left: Left, fate: Fate, found: Iterable[str]) -> None:
    """Delete files of this kind, after this was proved of them."""
    assert (left, fate) in MAY_GO, f"nothing says that a {left.value} file may go because {fate.value}"
    fencing_of(storage).delete_files(found)


def find_moved_in(
    storage: Storage,
    root: str,
    instant: str,
    groups: Iterable[tuple[str, str]],
    *,
    keep: Collection[str] = (),
    extension: str = PARQUET,
    logs_too: bool = True,
    new_groups_too: bool = False,
    native: bool = False,
) -> list[str]:
    """Paths of base and log files that `instant` wrote in the plan's file groups (partition path, file id), but for
    those names; of a write also those in other groups of the same partitions.

    A log file carries the instant that wrote it in its name since table version 8; before, the slice's base instant.

    Args:
        logs_too: False before version 8, where logs of that name are those of writers.
        native: the table's version has native logs.
    """
    groups = set(groups)
    found = []
    for partition_path in sorted({partition for partition, _ in groups}):
        for status in storage.list(join(root, partition_path)):
            # Most files are of other instants, and taking a name apart takes a while.
            if instant not in status.path or status.name in keep:
                continue
            name = parse_any_data_file(status.name, native=native, extension=extension)
            if name is None or name.instant != instant:
                continue
            if not new_groups_too and (partition_path, name.file_id) not in groups:
                continue
            if logs_too or isinstance(name, BaseFileName):
                found.append(status.path)
    return found


def find_staged(storage: Storage, root: str, instant: str) -> list[str]:
    """What attempts that have begun at the instant staged, with their markers."""
    return fencing_of(storage).find_staged(root, instant)


def delete_staged(storage: Storage, fate: Fate, found: Iterable[str]) -> None:
    """Delete what `find_staged` found."""
    assert (Left.STAGED, fate) in MAY_GO and (Left.MARKER, fate) in MAY_GO, f"staged files stay where {fate.value}"
    fencing_of(storage).delete_staged(found)


def forget_failed_write(storage: Storage, root: str, instant: str) -> None:
    """Remove markers and heartbeat of a write of which the timeline has nothing any more.

    Args:
        root: the table's base path, or its metadata table's.
    """
    assert (Left.MARKER, Fate.GONE) in MAY_GO, "markers say what is to be rolled back, and nothing is"
    storage.delete_folder(temp_folder(root, instant))
    delete_orphans(storage, Left.HEARTBEAT, Fate.GONE, [heartbeat_path(root, instant)])


def forget_markers(storage: Storage, root: str, instants: Collection[str]) -> None:
    """Remove the markers that writers left of completed instants, as Hudi's archiver does.

    Args:
        root: the table's base path.
    """
    assert (Left.MARKER, Fate.COMPLETED) in MAY_GO, "markers say what is to be rolled back"
    for status in storage.list(parent(temp_folder(root, "0"))):
        if status.is_folder and status.name in instants:
            storage.delete_folder(status.path)


def sweep(
    storage: Storage,
    base_path: str,
    timeline_folder: str,
    *,
    clock: Clock,
    metadata_timeline_folder: str | None = None,
    history_folders: Collection[str] = (),
) -> None:
    """Remove what attempts of Lakeward left at instants that are completed, and what was never finished. Idempotent.

    Args:
        history_folders: of what is archived of the timelines.
        metadata_timeline_folder: of a table with a metadata table.
    """
    states = _states(storage, timeline_folder)
    known = states.keys() | (_states(storage, metadata_timeline_folder).keys() if metadata_timeline_folder else ())
    for status in storage.list(parent(temp_folder(base_path, "0"))):
        if State.COMPLETED in states.get(status.name, ()) and status.is_folder and _has_attempt(storage, status.path):
            delete_staged(storage, Fate.COMPLETED, find_staged(storage, base_path, status.name))
    for status in storage.list(parent(heartbeat_path(base_path, "0"))):
        line = read_if_there(storage, status.path) if status.name.isdigit() else None
        if line is None or parse_owner(line) is None:
            continue
        if State.COMPLETED in states.get(status.name, ()):
            left = Left.HEARTBEAT if parse_intent(line) is None else Left.INTENT
            delete_orphans(storage, left, Fate.COMPLETED, [status.path])
        elif status.name not in known and is_ended(line):
            delete_orphans(storage, Left.HEARTBEAT, Fate.GONE, [status.path])
    minted = minted_folder(base_path)
    folders = [timeline_folder, parent(heartbeat_path(base_path, "0")), minted, parent(minted)]
    folders += [folder for folder in (metadata_timeline_folder, *history_folders) if folder is not None]
    for folder in folders:
        temporary = [status.path for status in storage.list(folder) if status.name.endswith(TEMPORARY_SUFFIX)]
        delete_orphans(storage, Left.TEMPORARY, Fate.LOCKED, temporary)
    aged = (
        each.path for each in _lock_temporaries(storage, base_path) if clock.now() - each.modified > AGE_SECONDS_MIN
    )
    delete_orphans(storage, Left.LOCK_TEMPORARY, Fate.AGED, aged)


def _states(storage: Storage, timeline_folder: str) -> dict[str, set[State]]:
    """States of each instant of the timeline."""
    states: dict[str, set[State]] = {}
    for status in storage.list(timeline_folder):
        if (found := parse_instant(status.name, LAYOUT)) is not None:
            states.setdefault(found.time, set()).add(found.state)
    return states


def _lock_temporaries(storage: Storage, base_path: str) -> Iterator[FileStatus]:
    for lock in (SPARK_LOCK, FLINK_LOCK):
        path = join(base_path, lock)
        for status in storage.list(parent(path)):
            if status.path.startswith(f"{path}.{RELEASED}") or status.name.endswith(TEMPORARY_SUFFIX):
                yield status


def _has_attempt(storage: Storage, folder: str) -> bool:
    return any(status.is_folder and status.name.startswith((ATTEMPT, FENCED_OFF)) for status in storage.list(folder))
