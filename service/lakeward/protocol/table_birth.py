"""A table is created: its folders, its metadata table, and last of all its `hoodie.properties`, which is created once.

    an empty or missing folder
        -> .hoodie with empty folders
        -> the properties of the metadata table, whose head says when it was born and of which table: the claim
        -> its timeline and file groups, one initial build after the other; index.json
        -> hoodie.properties: now it is a table

A process that dies before the last step leaves what is no table, and the next one that is asked for the same table goes
on with it: all files follow from the table and the time in the claim, and each is created once or is there already. One
that is asked for another table is refused, so parts of two are never mixed. When two processes create it at once, one
creates the last file, and the other gets the error that there is a table.

What a dead process had begun to write has a temporary name of Lakeward, and goes: in a partition of the metadata table
readers would look at it. Where its process lives, that fails, and this one creates the file.

Touches: the base folder of the new table.
Keeps:   1. nothing is written where there is anything already: a table, files, folders of others, what is left of
            another table that was begun; nor inside of another table, however deep;
         2. a table is there whole or not at all, its metadata table too, wherever the process dies; and where the reply
            to the last step is lost, what lies there says how it ended.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.clock import Clock
from lakeward.base.errors import AlreadyExists, LakewardError, OutcomeUnknown, Refused
from lakeward.base.paths import join, parent
from lakeward.format.java_properties import dump_properties, parse_properties
from lakeward.format.metadata.index_definitions import INDEX_DEFINITIONS_PATH
from lakeward.protocol.creation import create, create_once, read_if_there
from lakeward.storage.local import TEMPORARY_SUFFIX
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import FOLDER
from lakeward.table.new_table import FOLDERS, NewTable
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_config import HOODIE_FOLDER, PROPERTIES_FILE, TableConfig, hoodie_folder

_FOOTERS_MAX: Final = 1000
"""Base files whose rows are counted for a message."""
_CLAIM: Final = join(FOLDER, HOODIE_FOLDER, PROPERTIES_FILE)
_HEAD: Final = re.compile(rb"#Properties saved on (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\n")
_DEFINITIONS: Final = INDEX_DEFINITIONS_PATH.removeprefix(f"{HOODIE_FOLDER}/")


@dataclass(frozen=True, slots=True)
class TableBirth:
    """All that a new table is, below its folder `.hoodie`."""

    folders: tuple[str, ...]
    files: dict[str, bytes]
    """Path to content, in the order in which they are created; the table's properties are not among them."""
    properties: bytes


def check_is_free(storage: Storage, base_path: str, table: NewTable, *, clock: Clock) -> None:
    """Raises `Refused` where there is anything but a part of this table; that of another table notes its rows."""
    _look(storage, base_path, table, clock)


def _look(storage: Storage, base_path: str, table: NewTable, clock: Clock) -> tuple[TableBirth, list[str]]:
    """What is to be made of the table there, and files that a create left half-way. Raises `Refused`."""
    _check_no_table_above(storage, base_path)
    # Before the claim: a table whose columns have changed since has the claim of another one than it is made with now.
    properties = read_if_there(storage, join(hoodie_folder(base_path), PROPERTIES_FILE))
    if properties is not None:
        there = Refused(
            f"There is a table already in {base_path}.",
            why=f"Its name is {TableConfig(parse_properties(properties)).name or 'nothing'}.",
            remedy="`lakeward inspect` shows it, `lakeward write` writes to it; give another folder for a new one. "
            "Nothing was changed.",
        )
        there.add_note(_rows_of(storage, base_path, clock))
        raise there
    claim = read_if_there(storage, join(hoodie_folder(base_path), _CLAIM))
    head = _HEAD.match(claim) if claim is not None else None
    saved = head[1].decode() if head is not None else _format_moment(clock.now())
    birth = _birth(table, saved)
    if claim is not None and claim != birth.files.get(_CLAIM):
        raise Refused(
            f"No table can be created in {base_path}.",
            why="The creation of another table, of another name, columns or options, began here and did not end.",
            remedy="Create that one, with the words that it had, or give another folder: what began here is no table. "
            "Nothing was changed.",
        )
    parts = birth.files.keys() if claim is not None else frozenset()
    others = [entry.name for entry in storage.list(base_path) if entry.name != HOODIE_FOLDER]
    folders = {*_with_parents(birth.folders), *_with_parents(path.rpartition("/")[0] for path in birth.files)}
    below = _files_below(storage, hoodie_folder(base_path), "", folders)
    half = [path for path in below if path.endswith(TEMPORARY_SUFFIX)]
    if found := others or [path for path in below if path not in parts and path not in half]:
        raise Refused(
            f"No table can be created in {base_path}.",
            why=f"There is something already: {', '.join(sorted(found)[:3])}{', …' if len(found) > 3 else ''}.",
            remedy="Give a folder that is empty or does not exist; nothing was changed.",
        )
    return birth, half


def _rows_of(storage: Storage, base_path: str, clock: Clock) -> str:
    """What an existing table holds, as the footers of its newest base files say."""
    rows = 0
    try:
        slices = take_snapshot(storage, base_path, clock=clock).latest_slices
        bases = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
        for base in bases[:_FOOTERS_MAX]:
            with storage.open_input(join(base_path, base.path)) as file:
                rows += int(pq.read_metadata(file).num_rows)
    except (LakewardError, OSError, pa.ArrowException) as error:
        return f"How many rows it has cannot be read: {error}"
    logs = sum(len(slice_.row_logs) for slice_ in slices)
    more = "more than " if len(bases) > _FOOTERS_MAX else ""
    beside = f", and {logs:,} logs that are not merged" if logs else ""
    return f"It has {more}{rows:,} rows in {len(bases):,} base files{beside}."


def _check_no_table_above(storage: Storage, base_path: str) -> None:
    """Raises `Refused` where the new table would lie inside of another one, whose readers may take it for a part."""
    folder, is_path = base_path, "://" not in base_path
    while (above := parent(folder)) != folder and ("://" in above or is_path):
        is_inside = folder.rpartition("/")[2] == HOODIE_FOLDER or _is_table(storage, above)
        folder = above
        if is_inside:
            raise Refused(
                f"No table can be created in {base_path}.",
                why=f"That is inside of the table in {folder}.",
                remedy="Give a folder that is beside it. Nothing was changed.",
            )


def _is_table(storage: Storage, folder: str) -> bool:
    try:
        return storage.stat(join(hoodie_folder(folder), PROPERTIES_FILE)) is not None
    except PermissionError:  # credentials for a part of a bucket, say: a table there could not be opened by them either
        return False


def create_table(storage: Storage, base_path: str, table: NewTable, *, clock: Clock) -> None:
    """Raises `Refused` where there is anything already, and `OutcomeUnknown`."""
    birth, half = _look(storage, base_path, table, clock)
    folder = hoodie_folder(base_path)
    for name in half:
        storage.delete(join(folder, name))
    for name in birth.folders:
        storage.make_folder(join(folder, name))
    path = join(folder, PROPERTIES_FILE)
    try:
        for name, content in birth.files.items():
            create_once(storage, join(folder, name), content)
        create(storage, path, birth.properties)
    except AlreadyExists as error:
        raise Refused(
            f"No table can be created in {base_path}.",
            why="Another process created one at the same moment, or is about to.",
            remedy="Look at it with `lakeward inspect`; nothing of it was changed.",
        ) from error
    if storage.read(path) != birth.properties:
        raise OutcomeUnknown(
            f"{path} does not read back as it was written.",
            why="The storage returned other bytes than it was given, or another process wrote the file.",
            remedy="Look at it before anything writes to the table.",
        )


def _birth(table: NewTable, saved: str) -> TableBirth:
    properties = dump_properties(table.properties)
    metadata = table.metadata_table
    if metadata is None:
        return TableBirth(FOLDERS, {}, properties)
    born = datetime.datetime.fromisoformat(saved).timestamp()
    files = {join(FOLDER, path): content for path, content in metadata.files(born=born)}
    files[_DEFINITIONS] = metadata.definitions_file()
    digest = blake2b(digest_size=16)
    for path, content in (*files.items(), (PROPERTIES_FILE, properties)):
        digest.update(f"{path} {len(content)} ".encode() + content)
    head = f"#Properties saved on {saved}\n#Of the table {digest.hexdigest()}\n".encode()
    claim = head + dump_properties(metadata.properties)
    own = (join(FOLDER, HOODIE_FOLDER, name) for name in (*FOLDERS, *metadata.folders))
    folders = (*FOLDERS, *own, *dict.fromkeys(path.rpartition("/")[0] for path in files))
    return TableBirth(folders, {_CLAIM: claim, **files}, properties)


def _format_moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_parents(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        while folder:
            yield folder
            folder = folder.rpartition("/")[0]


def _files_below(storage: Storage, folder: str, below: str, known: set[str]) -> list[str]:
    """The paths of all files in `below` and deeper, and of folders that are none of the `known`."""
    found = []
    for entry in storage.list(join(folder, below)):
        path = join(below, entry.name)
        if entry.is_folder and path in known and not entry.is_link:
            found += _files_below(storage, folder, path, known)
        else:
            found.append(path)
    return found
