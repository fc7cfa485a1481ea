"""What there is of times on a table: those that a new one has to be greater than.

An instant never comes back. A task that outlives its plan may still create a file by the plan's time, which would
become valid with the next plan of the same time. So what was minted is remembered, also of plans that were deleted:

    .hoodie/.lakeward/times/20261121063705979      the greatest time that was ever minted, in its name
                                                   {"table": [...], "metadata": [...]}: files of the two archives in
                                                   which there is none greater, so that each is read once

Two files are there for a moment, and after a crash: the greater name counts. The file lies beside the timeline, so a
copy of the table takes it along; no program but Lakeward reads it, and only the next mint deletes it (`instant_time`).

Touches: reads the timelines of the table and of its metadata table, new files of both archives, and the folder above.
Keeps:   1. the greatest time is the greatest in the timelines, the archives and the file, in whatever state;
         2. an archive that cannot be read stops no service of a table whose zone is known: its times are past.
See:     docs/decisions/0092-instants-without-a-zone.md
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotATable, NotFound
from lakeward.base.paths import join
from lakeward.format.timeline.instant import comparable_time
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import metadata_base_path
from lakeward.table.table_config import TableConfig, hoodie_folder, load_table_config
from lakeward.table.timeline.archived import load_newest_archived
from lakeward.table.timeline.timeline import Timeline, load_timeline
from lakeward.table.timeline.timezone import TimelineZone

FOLDER: Final = ".lakeward/times"
"""Below `.hoodie`."""
TIME: Final = re.compile(r"\d{17}")
_Read = dict[str, tuple[str, ...]]
"""Names of files of each archive."""


@dataclass(frozen=True, slots=True)
class SeenTimes:
    """What there is of times, as it was read under the lock."""

    greatest: str | None
    """The greatest of all; None where there is none."""
    minted: str | None
    """The greatest that was ever minted."""
    content: bytes
    """What the file says that remembers a greater one: which files of the archives need not be read again."""


def read_times(
    storage: Storage, base_path: str, *, config: TableConfig, timeline: Timeline, zone: TimelineZone, clock: Clock
) -> SeenTimes:
    """The greatest time of all. Raises `BrokenFile`.

    Args:
        timeline: the table's, as it is under the lock.
    """
    minted = find_minted(storage, base_path)
    known = {} if minted is None else _read_content(storage, join(minted_folder(base_path), minted))
    greatest = later(minted, timeline.latest_time)
    places = {"table": (base_path, config)}
    metadata_path = metadata_base_path(base_path)
    try:
        metadata = load_table_config(storage, metadata_path, clock=clock).config
    except NotATable:
        pass  # there is no metadata table
    else:
        places["metadata"] = metadata_path, metadata
        greatest = later(greatest, load_timeline(storage, metadata_path, metadata).latest_time)
    read: _Read = {}
    for name, (path, of_place) in places.items():
        newest = load_newest_archived(storage, path, of_place, read=known.get(name, ()), after=greatest)
        if newest.problem and zone.zone is None:
            raise BrokenFile(
                f"The archive of {path} cannot be read.",
                why=f"{newest.problem} The time zone of the table is not known, so a new instant has to be greater "
                "than every one that there is.",
                remedy="Name the zone in which the writers run: `timezone` in the configuration, or --timezone.",
            )
        read[name] = newest.files
        greatest = later(greatest, newest.time)
    return SeenTimes(greatest, minted, json.dumps(read).encode())


def minted_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER)


def find_minted(storage: Storage, base_path: str) -> str | None:
    """The greatest time that was ever minted for the table; None where none was."""
    names = (status.name for status in storage.list(minted_folder(base_path)))
    return max((name for name in names if TIME.fullmatch(name)), default=None)


def later(*times: str | None) -> str | None:
    """The greatest of some times on timelines, None where there is none."""
    return max((time for time in times if time is not None), key=comparable_time, default=None)


def _read_content(storage: Storage, path: str) -> _Read:
    """What the file says. Where that cannot be read, the archives are read again: its name has the time."""
    try:
        content = json.loads(storage.read(path))
    except (NotFound, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: tuple(map(str, files)) for name, files in content.items() if isinstance(files, list)}
