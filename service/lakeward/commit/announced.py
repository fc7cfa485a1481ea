"""What an attempt in an object store announced is finished, by whoever comes later; who announced nothing is shut out.

    announced   log files and completed file of the metadata table, where there is one -> the completed file
    not         its heartbeat is taken over; then nobody can announce, and all of it can be undone

In a file system nothing is announced: whoever takes an attempt over renames its folder away (`commit/attempt.py`).

Whoever announced goes on at once, under the same lock. Whoever comes later may find that others worked on the table:

    t0 A announces and dies; t1 its lock runs out, a Hudi writer takes it and compacts the metadata table; t2 B comes.

The completion time that A announced lies before that compaction then, and readers would not see A's records behind it.
A's completed file is on its way all the same, for all that B knows, so it cannot have another name either. The same
holds for a partition that was built meanwhile, without the files of an instant that was pending. So B looks first, and
where such a thing happened it leaves everything as it is and says what helps: without a metadata table there is
nothing in its way, and the next writer builds it anew, with A's files in it.

Touches: the heartbeat, the timelines, and files of the instant in the metadata table; under the table lock.
Keeps:   1. what was announced is never undone, and published whole or not at all;
         2. a commit is not completed without its records in the metadata table that readers use.
See:     docs/decisions/0015-the-metadata-table-in-object-stores.md
"""

from __future__ import annotations

from collections.abc import Callable

from lakeward.clock import Clock
from lakeward.commit.attempt import COMMIT_FILE, attempt_folder, put_aside
from lakeward.commit.heartbeat import Announced, find_announced, take_over
from lakeward.commit.metadata_publication import create_announced
from lakeward.commit.metadata_recovery import check_not_rolled_back
from lakeward.commit.owner import Owner
from lakeward.commit.transition import LAYOUT, MetadataAction, TimelineFiles
from lakeward.errors import BrokenFile, Conflict
from lakeward.format.instant import State, comparable_time, parse_instant
from lakeward.storage.storage import RenamingStorage, Storage, VersionedStorage, join
from lakeward.table.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.table_config import load_table_config, timeline_folder
from lakeward.table.timeline import Timeline, load_timeline


def finish_announced(
    storage: Storage, base_path: str, instant: str, files: TimelineFiles, *, clock: Clock, fence: Callable[[], None]
) -> bool:
    """Publish what an attempt at `instant` announced and may not have published. False where nothing was announced.

    Raises `Conflict` where the table changed so that it cannot be published.
    """
    if isinstance(storage, RenamingStorage) or (announced := find_announced(storage, base_path, instant)) is None:
        return False
    if files.find_completed() is None:
        if not files.is_inflight():
            raise Conflict(
                f"{announced.completed} was announced, and its .inflight is gone.",
                why="Another engine took it for dead and rolled it back, with its files.",
                remedy="When no process that carried it out can be left, delete the instant's file in "
                ".hoodie/.heartbeat; the compaction is then carried out again.",
            )
        folder = attempt_folder(base_path, instant, announced.attempt)
        _finish_metadata(storage, base_path, instant, announced, folder, clock=clock, fence=fence)
        fence()
        files.finish(join(folder, COMMIT_FILE), announced.completed)
    return True


def exclude(
    storage: Storage,
    base_path: str,
    instant: str,
    files: TimelineFiles,
    *,
    by: Owner,
    clock: Clock,
    fence: Callable[[], None],
) -> None:
    """No attempt that has begun at `instant` can publish from here on, unless it has announced that it will: what it
    announced is then published here."""
    if not shut_out(storage, base_path, instant, by=by):
        finish_announced(storage, base_path, instant, files, clock=clock, fence=fence)


def shut_out(storage: Storage, base_path: str, instant: str, *, by: Owner, folders: str | None = None) -> bool:
    """No attempt that has begun at `instant` can publish from here on. False where one has announced that it will.

    Args:
        folders: the table below which attempts have theirs, where it is not the one that has their heartbeats.
    """
    if isinstance(storage, RenamingStorage):
        put_aside(storage, folders or base_path, instant, by=by.attempt)
        return True
    assert isinstance(storage, VersionedStorage), "a storage renames, or it replaces on conditions"
    return take_over(storage, base_path, instant, by=by)


def _finish_metadata(
    storage: Storage,
    base_path: str,
    instant: str,
    announced: Announced,
    folder: str,
    *,
    clock: Clock,
    fence: Callable[[], None],
) -> None:
    config = load_table_config(storage, base_path, clock=clock).config
    if not has_metadata_table(config):
        return  # its next writer builds it from the storage, with the files of this commit
    if announced.metadata is None:
        raise _changed(instant, "The table got a metadata table since, without the files of this commit.")
    metadata_path = metadata_base_path(base_path)
    metadata_config = load_table_config(storage, metadata_path, clock=clock).config
    timeline = load_timeline(storage, metadata_path, metadata_config)
    timeline_path = timeline_folder(metadata_path, metadata_config)
    check_not_rolled_back(storage, timeline_path, instant, timeline)
    _check_still_right(instant, announced.metadata, timeline, load_timeline(storage, base_path, config))
    create_announced(
        storage,
        TimelineFiles(storage, timeline_path, instant, MetadataAction.DELTA_COMMIT),
        announced.metadata,
        instant=instant,
        metadata_path=metadata_path,
        folder=folder,
        fence=fence,
    )


def _check_still_right(instant: str, name: str, metadata: Timeline, data: Timeline) -> None:
    """Since the completion time that `name` carries the metadata table got nothing but the commits of writers."""
    announced = parse_instant(name, LAYOUT)
    if announced is None or announced.completion_time is None:
        raise BrokenFile(
            f"The heartbeat of {instant} announces {name!r}.",
            why="That is not the name of a completed file.",
            remedy="Find out who wrote that file in .hoodie/.heartbeat; nothing was created by that name.",
        )
    since = comparable_time(announced.completion_time)
    writers = {each.time for each in data.instants if each.action != "indexing"}
    for each in metadata.instants:
        if each.time == instant:
            if each.state is State.COMPLETED and each.file_name != name:
                raise _changed(instant, f"{each.file_name} is on the metadata table's timeline, which we did not make.")
        elif each.comparable_action == MetadataAction.DELTA_COMMIT.completed:
            completed = each.completion_time if each.state is State.COMPLETED else None
            if completed is not None and comparable_time(completed) > since and each.time not in writers:
                raise _changed(instant, f"{each.file_name} built a partition of the metadata table since.")
        elif each.action not in ("clean", "rollback") and comparable_time(each.time) > since:
            raise _changed(instant, f"The metadata table was compacted or restored since: {each.file_name} is there.")
    if metadata.unknown:
        raise _changed(instant, f"{metadata.unknown[0]} on the metadata table's timeline is not known.")


def _changed(instant: str, why: str) -> Conflict:
    return Conflict(
        f"{instant} was about to be published when its process died, and does not fit the metadata table any more.",
        why=why,
        remedy="Run `lakeward metadata disable` and then this again, before any writer writes: the commit is finished "
        "without the metadata table, which the next writer builds anew.",
    )
