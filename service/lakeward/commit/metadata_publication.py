"""Publish what the metadata table's writer prepared in the attempt's folder (`commit/metadata_writer.py`).

    .requested -> .inflight -> log files -> completed file

Hudi can see by `.inflight` that there is something to take back, since no log file is in its place before that. Log
files count as soon as the commit of the data table exists, so they must be whole.

    file system    log files are renamed out of the folder, the completed file is linked, as data files and the commit
                   are (`commit/attempt.py`): whoever takes the attempt over renames the folder away first, so that
                   nothing comes out of it later
    object store   nothing of this is begun before it was announced (`commit/announced.py`). From then on every file has
                   one name and one content, from what lies prepared: it is created where there is none, by whoever
                   announced it or whoever found it announced, and it is the same file however late that is

Touches: of the metadata table, files of the instant.
Keeps:   1. the lock is proved before the first file, and again before the completed one;
         2. what a commit names is whole: its size is the one that was prepared.
See:     docs/decisions/0015-the-metadata-table-in-object-stores.md
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakeward.commit.transition import LAYOUT, TimelineFiles, create_once
from lakeward.errors import AlreadyExists, AttemptLost, BrokenFile, NotFound, OutcomeUnknown
from lakeward.format.commit_metadata import read_commit_metadata
from lakeward.format.file_name import HFILE, parse_base_file, parse_log_file
from lakeward.storage.storage import RenamingStorage, Storage, join

COMMIT_FILE = "metadata-commit"
"""In the attempt's folder: what will be the completed file."""

AT_ONCE_BYTES = 8 * 1024 * 1024
"""A file that is no larger is copied by one request that reads and one that writes."""


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """A delta commit that is whole but for its completion time."""

    latest_time: str | None
    """The greatest time on the metadata table's timeline; every new one must be greater."""
    files: TimelineFiles
    metadata_path: str
    """Where the metadata table is."""
    folder: str
    """The attempt's, with the commit and its log files in it."""
    logs: Mapping[str, str]
    """The path of each log file below the metadata table, by its name in the folder."""


def publish_by_moving(
    storage: RenamingStorage,
    staged: StagedCommit,
    completion_time: str,
    *,
    is_pending: Callable[[], bool],
    fence: Callable[[], None],
) -> None:
    """Complete the delta commit. It counts from the moment that the data table's commit is complete.

    Args:
        is_pending: whether some attempt is under way at the data table's instant.
    """
    fence()
    try:
        staged.files.request(b"")
        staged.files.begin()
    except AlreadyExists as error:
        raise _lost(staged.folder) from error  # it was not there under the lock, which is another's by now
    if storage.stat(staged.folder) is None:
        # t0 we prove the lock ours and are stopped; t1 another process takes our attempt over; t2 we wake up. If
        # it goes on with the plan it removes what we just made; if it took the plan back nobody would.
        if not is_pending():
            staged.files.undo()
            staged.files.unschedule()
        raise _lost(staged.folder)
    for name, path in staged.logs.items():
        try:
            storage.rename(join(staged.folder, name), join(staged.metadata_path, path))
        except NotFound as error:
            raise _lost(staged.folder) from error
    fence()
    staged.files.complete(join(staged.folder, COMMIT_FILE), completion_time)


def create_announced(
    storage: Storage,
    files: TimelineFiles,
    name: str,
    *,
    instant: str,
    metadata_path: str,
    folder: str,
    fence: Callable[[], None],
) -> None:
    """Complete the delta commit that an attempt announced as `name`, from what it prepared in `folder`. Idempotent."""
    staged = join(folder, COMMIT_FILE)
    logs = named_files(storage, staged, instant)
    fence()
    files.open_announced()
    copy_in(storage, folder, logs, metadata_path)
    fence()
    files.finish(staged, name)


def copy_in(storage: Storage, folder: str, files: Mapping[str, int], metadata_path: str) -> None:
    """Files that were prepared in `folder`, by path below the metadata table and with their sizes, are in their places,
    whoever brought them there."""
    for path, size in files.items():
        _copy(storage, join(folder, path.rpartition("/")[2]), join(metadata_path, path), size)


def named_files(storage: Storage, staged: str, instant: str) -> dict[str, int]:
    """The files that a prepared commit of the metadata table names, by path below it, with their sizes. All of them
    are of `instant`."""
    try:
        content = storage.read(staged)
    except NotFound as error:
        raise _gone(staged) from error
    commit = read_commit_metadata(content, file=staged, layout=LAYOUT)
    files: dict[str, int] = {}
    for stats in commit.partition_to_write_stats.values():
        for stat in stats:
            last = (stat.path or "").rpartition("/")[2]
            name = parse_log_file(last) or parse_base_file(last, extension=HFILE)
            if name is None or name.instant != instant or not stat.path or not stat.file_size_in_bytes:
                raise BrokenFile(
                    f"{staged} cannot be published.",
                    why=f"It names {stat.path!r}, which is no file of {instant} with a size.",
                    remedy="Find out who wrote to the temporary files of a compaction; nothing was created.",
                )
            files[stat.path] = stat.file_size_in_bytes
    return files


def _copy(storage: Storage, source: str, target: str, size: int) -> None:
    """The file at `target` is what was prepared at `source`, whoever made it."""
    try:
        if size <= AT_ONCE_BYTES:
            content = storage.read(source)
            if len(content) != size:
                raise _torn(source, len(content), size)
            create_once(storage, target, content)
            return
        _copy_in_parts(storage, source, target)
    except NotFound as error:
        raise _gone(source) from error
    status = storage.stat(target)
    if status is None or status.size != size:
        raise _torn(target, status.size if status is not None else 0, size)


def _copy_in_parts(storage: Storage, source: str, target: str) -> None:
    # Nobody else uses this name, and whoever writes to it writes the same.
    if storage.stat(target) is not None:
        return
    with storage.open_input(source) as prepared:
        try:
            with storage.open_output(target) as sink:
                shutil.copyfileobj(prepared, sink, AT_ONCE_BYTES)
        except AlreadyExists:
            return
        except OSError:
            if storage.stat(target) is None:
                raise


def _lost(folder: str) -> AttemptLost:
    return AttemptLost(
        f"The attempt in {folder} is no longer ours.",
        why="Another process took it over.",
        remedy="Run the command again: it finishes what is left, if anything is.",
    )


def _gone(path: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"A commit of the metadata table was announced, and what was to be in it is gone: {path}.",
        why="Another program removed the temporary files of a compaction that was about to be published.",
        remedy="When no process that carried it out can be left, delete the instant's file in .hoodie/.heartbeat; the "
        "compaction is then carried out again.",
    )


def _torn(path: str, found: int, expected: int) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{path} has {found} bytes instead of {expected}.",
        why="The storage does not hold what was written, or another program wrote there.",
        remedy="Look at the file before anything else touches the table; nothing was deleted.",
    )
