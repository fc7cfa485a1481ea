"""A table comes to be: its folders first, then `hoodie.properties`, which is created once.

    an empty or missing folder -> .hoodie with empty folders -> hoodie.properties: now it is a table

A process that dies before the last step leaves folders without a file, which are no table, and the next one goes on
with them. Of two processes at once one creates the file, and the other is told that there is a table.

Touches: the base folder of the new table.
Keeps:   1. nothing is written where there is anything already: a table, files, folders of others;
         2. a table is there whole or not at all, wherever the process dies; and where the reply to the last step is
            lost, what lies there says how it ended.
"""

from __future__ import annotations

from lakeward.commit.creation import create
from lakeward.errors import AlreadyExists, OutcomeUnknown, Refused
from lakeward.format.java_properties import dump_properties
from lakeward.storage.local import TEMPORARY_SUFFIX
from lakeward.storage.storage import Storage, join
from lakeward.table.new_table import FOLDERS, NewTable
from lakeward.table.table_config import HOODIE_FOLDER, PROPERTIES_FILE, hoodie_folder


def check_is_free(storage: Storage, base_path: str) -> None:
    """Raises `Refused` where there is anything but the folders of a table that was never born."""
    others = [entry.name for entry in storage.list(base_path) if entry.name != HOODIE_FOLDER]
    if found := others or _files_below(storage, hoodie_folder(base_path)):
        raise Refused(
            f"No table can be created in {base_path}.",
            why=f"There is something already: {', '.join(sorted(found)[:3])}{', …' if len(found) > 3 else ''}.",
            remedy="Give a folder that is empty or does not exist; nothing was changed.",
        )


def create_table(storage: Storage, base_path: str, table: NewTable) -> None:
    """Raises `Refused` where there is anything already, and `OutcomeUnknown`."""
    check_is_free(storage, base_path)
    folder = hoodie_folder(base_path)
    for name in FOLDERS:
        storage.make_folder(join(folder, name))
    path, content = join(folder, PROPERTIES_FILE), dump_properties(table.properties)
    try:
        create(storage, path, content)
    except AlreadyExists as error:
        raise Refused(
            f"No table can be created in {base_path}.",
            why="Another process created one at the same moment.",
            remedy="Look at it with `lakeward inspect`; nothing of it was changed.",
        ) from error
    if storage.read(path) != content:
        raise OutcomeUnknown(
            f"{path} does not read back as it was written.",
            why="The storage returned other bytes than it was given, or another process wrote the file.",
            remedy="Look at it before anything writes to the table.",
        )


def _files_below(storage: Storage, folder: str) -> list[str]:
    """The names of all files below a folder but those that a create left half-way, and of folders that are none of
    `FOLDERS`."""
    known = {part for name in FOLDERS for part in name.split("/")}
    found = []
    for entry in storage.list(folder):
        if entry.is_folder and entry.name in known and not entry.is_link:
            found += _files_below(storage, entry.path)
        elif not entry.name.endswith(TEMPORARY_SUFFIX):
            found.append(entry.name)
    return found
