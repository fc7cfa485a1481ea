"""Small files beside Lakeward's indexes, about partitions of the metadata table that it built: when that was, and which
of them a Hudi writer removed. `protocol/metadata/writers_removal` reads them.

Touches: these files and their folder. Each is created once and deleted once; a crash between a build and its note
         leaves a partition of which no removal is noticed.
Keeps:   1. the first finding stays until the partition is built again, or removed by an operator;
         2. no partition has a finding once it was removed by an operator.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.base.errors import AlreadyExists
from lakeward.base.paths import join, parent
from lakeward.protocol.creation import create
from lakeward.protocol.metadata.writers_removal import (
    BuildNote,
    WritersRemoval,
    built_path,
    find_removals,
    removed_path,
)
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import PROPERTIES_FILE, hoodie_folder


def note_build(storage: Storage, base_path: str, partition: str, completion_time: str) -> None:
    """The properties name the partition since their last change."""
    forget_builds(storage, base_path, [partition])
    properties = storage.stat(join(hoodie_folder(base_path), PROPERTIES_FILE))
    if properties is not None:
        _create(storage, built_path(base_path, partition), BuildNote(completion_time, properties.modified).as_bytes())


def note_removals(storage: Storage, snapshot: TableSnapshot) -> tuple[WritersRemoval, ...]:
    """The partitions that a writer removed soon after they were built; those are noted that were not yet."""
    found = find_removals(storage, snapshot)
    for removal in found:
        if not removal.is_noted:
            _create(storage, removed_path(snapshot.base_path, removal.partition), removal.why.encode())
    return found


def forget_builds(storage: Storage, base_path: str, partitions: Iterable[str]) -> None:
    """They are built again, or an operator removes them."""
    for partition in partitions:
        storage.delete(removed_path(base_path, partition))
        storage.delete(built_path(base_path, partition))


def _create(storage: Storage, path: str, content: bytes) -> None:
    storage.make_folder(parent(path))
    try:
        create(storage, path, content)
    except AlreadyExists:
        return  # another process was first
