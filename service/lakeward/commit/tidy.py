"""Remove what a process of ours left behind after its commit existed, or before anything of it did.

After the commit only the attempt's folder and the heartbeat remain to be removed, and a process may die before it
does so. Both carry our mark: an `attempt-` folder, a line that parses as one of our owners.

Touches: `.hoodie/.temp`, `.hoodie/.heartbeat`, temporary names in the timeline folders and beside the lock files.
Keeps:   1. the folder and heartbeat of an instant are removed only when its completed file exists;
         2. nothing without our mark is touched: other engines clean up after themselves;
         3. called under the table lock.
"""

from __future__ import annotations

from lakeward.clock import Clock
from lakeward.commit.attempt import remove_temp_folder
from lakeward.commit.file_system_lock import FLINK_LOCK, RELEASED, SPARK_LOCK
from lakeward.commit.heartbeat import remove_heartbeat
from lakeward.commit.owner import parse_owner
from lakeward.commit.transition import find_completed
from lakeward.errors import NotFound
from lakeward.storage.local import TEMPORARY_SUFFIX
from lakeward.storage.storage import Storage, join, parent

AGE_SECONDS_MIN = 24 * 3600.0
"""A temporary name beside a lock file that is younger may belong to a process that is creating its lock just now, or
is putting one back; a clock that was set does not make it that old."""


def tidy(
    storage: Storage,
    base_path: str,
    timeline_folder: str,
    *,
    clock: Clock,
    metadata_timeline_folder: str | None = None,
) -> None:
    """Remove the leftovers of completed instants of ours. Idempotent.

    Args:
        metadata_timeline_folder: of a table with a metadata table.
    """
    for status in storage.list(join(base_path, ".hoodie/.temp")):
        ours = status.is_folder and _has_attempt(storage, status.path)
        if ours and find_completed(storage, timeline_folder, status.name) is not None:
            remove_temp_folder(storage, base_path, status.name)
    for status in storage.list(join(base_path, ".hoodie/.heartbeat")):
        ours = status.name.isdigit() and _has_owner(storage, status.path)
        if ours and find_completed(storage, timeline_folder, status.name) is not None:
            # However late this is: nobody begins at an instant that is completed, so it is no successor's.
            remove_heartbeat(storage, base_path, status.name)
    # These files are created under the lock that we hold, so a temporary name is a dead process's.
    folders = [timeline_folder, join(base_path, ".hoodie/.heartbeat")]
    if metadata_timeline_folder is not None:
        folders.append(metadata_timeline_folder)
    for folder in folders:
        for status in storage.list(folder):
            if status.name.endswith(TEMPORARY_SUFFIX):
                storage.delete(status.path)
    for lock in (SPARK_LOCK, FLINK_LOCK):
        path = join(base_path, lock)
        for status in storage.list(parent(path)):
            of_the_lock = status.path.startswith(f"{path}.{RELEASED}") or status.name.endswith(TEMPORARY_SUFFIX)
            if of_the_lock and clock.now() - status.modified > AGE_SECONDS_MIN:
                storage.delete(status.path)


def _has_owner(storage: Storage, heartbeat: str) -> bool:
    try:
        return parse_owner(storage.read(heartbeat)) is not None
    except NotFound:
        return False  # whose it is ends it after its commit, and needs no lock for that


def _has_attempt(storage: Storage, folder: str) -> bool:
    return any(
        status.is_folder and status.name.startswith(("attempt-", "dead-attempt-")) for status in storage.list(folder)
    )
