"""Change `hoodie.properties` as Hudi's writers do, so that readers find the old or the new content at every moment.

    create the backup, with the old content -> delete the properties -> create them again, and read them back
                                            -> delete the backup

Readers take the properties, and where these are missing the backup. A process that finds a backup found an update that
was interrupted, and ends it before anything else:

    properties missing or torn    the backup's content again, which is the old one
    properties whole              the backup is deleted: before the deletion of the properties both are the same, after
                                  their creation the update was done

Our files are whole once they exist. Hudi's grow while they are written, and one that was cut may still have the line
with its checksum; so it is whole if it ends a line and has every key of the backup, but for those that a table loses
which goes back to an older version.

Touches: `hoodie.properties` and its backup, under the table lock, which the caller holds.
Keeps:   1. at every moment one of the two files is whole;
         2. keys that are not changed keep their values, also those that we do not know;
         3. nothing is deleted before the fence proved that the lock is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakeward.base.errors import BrokenFile, NotATable, NotFound, OutcomeUnknown
from lakeward.base.paths import join
from lakeward.format.java_properties import dump_properties, parse_properties
from lakeward.storage.storage import Storage
from lakeward.table.table_config import (
    BACKUP_FILE,
    LSM_TREE_SINCE,
    META_FIELDS_MODE,
    PROPERTIES_FILE,
    STORAGE_LAYOUT,
    TableConfig,
    hoodie_folder,
)

CHECKSUM = "hoodie.table.checksum"

_OF_LATER_VERSIONS = frozenset({META_FIELDS_MODE, STORAGE_LAYOUT, LSM_TREE_SINCE})
"""Keys that a table does not have any more at an older version."""

Fence = Callable[[], None]


def update_properties(storage: Storage, base_path: str, changes: Mapping[str, str | None], *, fence: Fence) -> bool:
    """Set these keys, and remove those that are None. False where all is so already. Raises `BrokenFile` and
    `NotATable`."""
    recover_properties(storage, base_path, fence=fence)
    properties, backup = _paths(base_path)
    old = _read(storage, properties)
    if old is None:
        raise NotATable(f"{base_path} holds no Hudi table.", why=f"There is no {properties}.")
    _check(old, properties)
    values = parse_properties(old)
    if all(values.get(key) == value for key, value in changes.items()):
        return False
    kept = {key: value for key, value in values.items() if changes.get(key, value) is not None}
    values = kept | {key: value for key, value in changes.items() if value is not None}
    values[CHECKSUM] = str(TableConfig(values).checksum)
    new = dump_properties(values)
    fence()
    storage.create(backup, old)
    fence()
    storage.delete(properties)
    storage.create(properties, new)
    _read_back(storage, properties, new)
    storage.delete(backup)
    return True


def recover_properties(storage: Storage, base_path: str, *, fence: Fence) -> bool:
    """End an update that was interrupted. False where none was. Raises `BrokenFile` where neither file is whole."""
    properties, backup = _paths(base_path)
    saved = _read(storage, backup)
    if saved is None:
        return False
    current = _read(storage, properties)
    if current is None or not _is_whole(current) or (_is_whole(saved) and _lost(saved, current)):
        _check(saved, backup)
        fence()
        if current is not None:
            storage.delete(properties)
        storage.create(properties, saved)
        _read_back(storage, properties, saved)
    fence()
    storage.delete(backup)
    return True


def _paths(base_path: str) -> tuple[str, str]:
    folder = hoodie_folder(base_path)
    return join(folder, PROPERTIES_FILE), join(folder, BACKUP_FILE)


def _read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except NotFound:
        return None


def _is_whole(content: bytes) -> bool:
    try:
        config = TableConfig(parse_properties(content))
    except BrokenFile:
        return False
    return bool(config.name) and config.checksum_ok and content.endswith(b"\n")


def _lost(saved: bytes, current: bytes) -> set[str]:
    """The keys that `current` has not, though nothing took them away."""
    before, now = TableConfig(parse_properties(saved)), TableConfig(parse_properties(current))
    lost = before.properties.keys() - now.properties.keys()
    is_older = (now.version.number or 0) < (before.version.number or 0)
    return lost - _OF_LATER_VERSIONS if is_older else lost


def _check(content: bytes, path: str) -> None:
    if not _is_whole(content):
        raise BrokenFile(
            f"{path} is not to be relied on.",
            why="Its hoodie.table.checksum is not that of its content; it may be torn or edited.",
            remedy="Restore the file from a copy, or correct what was edited; nothing was changed.",
        )


def _read_back(storage: Storage, path: str, content: bytes) -> None:
    if storage.read(path) != content:
        raise OutcomeUnknown(
            f"{path} does not read back as it was written.",
            why="The storage returned other bytes than it was given, or another process wrote the file.",
            remedy=f"Look at it and at {BACKUP_FILE} beside it, which has the old content, before anything else "
            "touches the table.",
        )
