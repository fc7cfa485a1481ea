"""Completion times of instants that left the active timeline, from the layout-2 history.

The history is a set of Parquet files named `<first instant>_<last instant>_<level>.parquet`; a manifest lists
the live ones and `_version_` names the newest manifest. Only files whose range covers a wanted instant are
opened, and of them only the columns that are asked for.

Touches: storage.
Keeps:   1. a file outside the manifest is never read: it is garbage of an interrupted merge;
         2. what cannot be read is reported as a problem and its instants stay unknown, never guessed
            (Hudi issue 14365 tells how a guess lost data).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import orjson

from lakeward.errors import BrokenFile, NotFound
from lakeward.format.timeline.instant import comparable_time
from lakeward.storage.storage import Storage, is_of_storage, join
from lakeward.table.table_config import TableConfig, hoodie_folder
from lakeward.table.timeline.timeline import WRITE_ACTIONS

_VERSION_FILE = "_version_"
_MANIFEST = re.compile(r"manifest_(\d+)")
_HISTORY_FILE = re.compile(r"(\d+)_(\d+)_(\d)\.parquet")

# A merge of history files deletes its inputs soon after the manifest moved on; a second read sees the new one.
_LOOKS = 3
_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class ArchivedTimes:
    completion_times: Mapping[str, str]
    """Completion times by instant, of those asked for that the history knows as completed writes."""
    problems: tuple[str, ...] = ()


def load_archived_times(
    storage: Storage, base_path: str, config: TableConfig, instants: Collection[str]
) -> ArchivedTimes:
    """When each of `instants` completed, as far as the layout-2 history tells."""
    if not instants or config.layout < 2:
        return ArchivedTimes({})
    folder = join(hoodie_folder(base_path), config.archive_folder)
    problem = ""
    for _ in range(_LOOKS):
        try:
            return ArchivedTimes(_read_times(storage, folder, instants))
        except (BrokenFile, NotFound) as error:
            problem = str(error)
    return ArchivedTimes({}, (problem,))


def _read_times(storage: Storage, folder: str, instants: Collection[str]) -> dict[str, str]:
    times: dict[str, str] = {}
    for name in _live_files(storage, folder):
        match = _HISTORY_FILE.fullmatch(name)
        if match is None:
            raise BrokenFile(f"The manifest in {folder} names {name!r}, which is no history file.")
        first, last = comparable_time(match[1]), comparable_time(match[2])
        if not any(first <= comparable_time(instant) <= last for instant in instants):
            continue
        for instant, completed, action in _read_rows(storage, join(folder, name), sorted(instants)):
            if action in WRITE_ACTIONS and completed:
                times[instant] = completed
    return times


def _live_files(storage: Storage, folder: str) -> list[str]:
    names = {status.name for status in storage.list(folder)}
    # Between two versions `_version_` is gone for a moment: then the highest manifest is the newest.
    numbers = sorted(int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name)))
    if not numbers:
        return []
    newest = numbers[-1]
    if _VERSION_FILE in names:
        text = storage.read(join(folder, _VERSION_FILE)).decode("ascii", "replace").strip()
        newest = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else newest
    path = join(folder, f"manifest_{newest}")
    try:
        manifest = orjson.loads(storage.read(path) or b'{"files": []}')
        return [str(entry["fileName"]) for entry in manifest["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFile(f"{path} is not a manifest of archived instants.", why=str(error)) from error


def _read_rows(storage: Storage, path: str, wanted: list[str]) -> list[tuple[str, str | None, str]]:
    # Imported here: a daemon that watches tables should not hold Arrow in memory for the sake of few small files.
    import pyarrow as pa
    import pyarrow.parquet as pq

    with storage.open_input(path) as source:
        try:
            table = pq.read_table(
                source,
                columns=["instantTime", "completionTime", "action"],
                filters=[("instantTime", "in", wanted)],
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            if is_of_storage(error):
                raise
            raise BrokenFile(f"{path} is not a readable file of archived instants.", why=str(error)) from error
    return list(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))
