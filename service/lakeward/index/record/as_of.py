"""The places of keys by the record index when a commit had completed, and nothing after it.

The commit's completion time decides. A location counts if its file group was live then: it is still, or was replaced by
a commit that completed later.

Touches: the files of the index, by reading.
Keeps:   what cannot be known of that moment any more is refused, never guessed.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Refused, UsageError
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.index import record_locations
from lakeward.index.location import FILE_ID, PARTITION_PATH, group_names, names_of
from lakeward.index.record.record_index import RecordIndex
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


def locations_as_of(
    storage: Storage, snapshot: TableSnapshot, index: RecordIndex, keys: pa.Array, instant: str
) -> pa.Table:
    """The locations of these keys, in `LOCATIONS`. Raises `UsageError` for an instant that did not complete on the
    active timeline, `Refused` where the index or the table cannot know."""
    completed = snapshot.timeline.completion_time(instant)
    if completed is None:
        raise UsageError(
            f"No write of the instant {instant} is complete on the active timeline of the table.",
            why="It is not known what had completed by then.",
            remedy="Name the instant of a completed write; `lakeward inspect` lists them.",
        )
    found = record_locations(storage, index.as_of(completed), keys)
    names = group_names(found.column(PARTITION_PATH), found.column(FILE_ID))
    live = snapshot.live_groups
    later = {
        group
        for group, by in snapshot.replaced.items()
        if comparable_time(snapshot.timeline.visible_at(by)) > comparable_time(completed)
    }
    known = live | snapshot.replaced.keys()
    unknown = found.filter(pc.invert(pc.is_in(names, names_of(known))))
    if unknown.num_rows:
        group = unknown.column(FILE_ID)[0].as_py()
        raise Refused(
            f"It is no longer known where keys were at {instant}.",
            why=f"The file group {group} went since, and whether before or after that is not known.",
            remedy="Ask for a later instant.",
        )
    return found.filter(pc.is_in(names, names_of(live | later)))
