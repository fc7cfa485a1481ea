"""The savepoints of a table: commits that can be gone back to, with the files that each keeps for that.

Hudi counts a savepoint once it is completed: its cleaner then keeps every file slice in which one of the named files
lies, and its archiver leaves the commit, and all after it, on the active timeline.

Touches: storage, reading only: one read for each completed savepoint.
Keeps:   one that cannot be read is a `BrokenFile`, never a savepoint that keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.base.errors import NotFound
from lakeward.base.paths import join
from lakeward.format.timeline.instant import State
from lakeward.format.timeline.savepoint_metadata import read_savepoint_metadata
from lakeward.storage.storage import Storage
from lakeward.table.table_config import TableConfig, timeline_folder
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Savepoint:
    instant: str
    """The commit that it is of, whose time is its own."""
    user: str
    comment: str
    made_at: float
    """Seconds since the epoch; where its writer does not say, by the time of the file."""
    files: Mapping[str, frozenset[str]]
    """Names of the files that it keeps, by partition path."""


def read_savepoints(storage: Storage, base_path: str, config: TableConfig, timeline: Timeline) -> tuple[Savepoint, ...]:
    """The completed savepoints, oldest first. One that was deleted since the timeline was listed is not among them."""
    contents = InstantContents(storage, base_path, config, timeline)
    folder = timeline_folder(base_path, config)
    found = []
    for instant in timeline.instants:
        if instant.action != "savepoint" or instant.state is not State.COMPLETED:
            continue
        try:
            data = contents.read(instant.file_name)
        except NotFound:
            continue
        metadata = read_savepoint_metadata(data, file=join(folder, instant.file_name))
        found.append(
            Savepoint(
                instant=instant.time,
                user=metadata.user,
                comment=metadata.comment,
                made_at=metadata.milliseconds / 1000 or timeline.modified[instant.file_name],
                files={path: frozenset(names) for path, names in metadata.files.items()},
            )
        )
    return tuple(found)
