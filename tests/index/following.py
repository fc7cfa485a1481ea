"""An index in memory beside a table, and where the keys of the table are by its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa

from lakeward.format.timeline.instant import State
from lakeward.index.index import Index, WritableIndex, record_locations
from lakeward.index.key_changes.table_commits import CHANGING
from lakeward.index.location import LOCATIONS
from lakeward.index.overlay import OVERLAY_BYTES_MAX, current_index
from lakeward.read.newest_slice import newest_slice
from lakeward.services.indexing.run.index_update import IndexUpdate, update_index
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.archived import load_archived_commits
from tests.index.memory_index import MemoryIndex
from tests.our_reader import scan, slice_rows

STORAGE = LocalStorage()
Place = tuple[str, str]


def completion_times(base: Path, instants: Collection[str]) -> Mapping[str, str]:
    """What the timelines say of these instants now."""
    snapshot = scan(base)
    archived = load_archived_commits(
        STORAGE, str(base), snapshot.config, lambda time, _: time in instants, actions=CHANGING, number=100_000
    )
    times = {row.time: row.completion_time or row.time for row in archived.rows}
    active = (each for each in snapshot.timeline.completed if each.comparable_action in CHANGING)
    times |= {each.time: each.completion_time or each.time for each in active if each.state is State.COMPLETED}
    return {each: times[each] for each in instants if each in times}


def memory_index(base: Path, *, is_global: bool = True) -> MemoryIndex:
    return MemoryIndex(lambda instants: completion_times(base, instants), is_global)


def update(base: Path, index: WritableIndex, **words: object) -> IndexUpdate:
    return update_index(STORAGE, lambda _: index, lambda: scan(base), **words)  # type: ignore[arg-type]


def places(index: Index, keys: Collection[str]) -> list[tuple[str, Place]]:
    """The places in which the index has these keys, as often as it says so."""
    found = record_locations(STORAGE, index, pa.array(sorted(keys), pa.string()))
    rows = zip(*(found.column(name).to_pylist() for name in LOCATIONS.names[:3]), strict=True)
    return sorted((key, (path, file_id)) for key, path, file_id in rows)


def shown(
    base: Path, index: WritableIndex, keys: Collection[str], *, bytes_max: int = OVERLAY_BYTES_MAX
) -> list[tuple[str, Place]]:
    """The places in which the index has them, with what it does not have yet."""
    return places(current_index(STORAGE, scan(base), index, bytes_max=bytes_max), keys)


def truth(base: Path, snapshot: TableSnapshot | None = None) -> list[tuple[str, Place]]:
    """The place of each key, by the rows of the table."""
    snapshot = snapshot or scan(base)
    found = []
    for group in snapshot.file_groups:
        slice_ = newest_slice(group.slices)
        if slice_ is not None and not slice_.is_empty:
            rows = slice_rows(base, snapshot, slice_)
            found += [(row["_hoodie_record_key"], (group.partition_path, group.file_id)) for row in rows]
    return sorted(found)
