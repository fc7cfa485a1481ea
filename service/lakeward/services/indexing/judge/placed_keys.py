"""Record keys with the file group that each is said to be in, and what the rows say of that.

    there      the file group has a row of the key
    gone       it has none
    unknown    nothing can be known: the group is gone or its slices cannot be told apart, or this release does not
               merge them; a note says the last

Every judge of an index asks here: rows that an index misses, entries without a row, and answers that differ.

Touches: reads the table's newest slices.
Keeps:   what cannot be known is neither there nor gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.read.row_lookup import find_rows
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

PLACED_KEYS: Final = pa.schema([pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH, FILE_ID)])


@dataclass(frozen=True, slots=True)
class RowTruth:
    """Each of the keys that were placed is in one of the three."""

    there: pa.Table
    gone: pa.Table
    unknown: pa.Table
    notes: tuple[str, ...] = ()


def judge_by_rows(
    storage: Storage, snapshot: TableSnapshot, placed: pa.Table, *, meter: ReadMeter | None = None
) -> RowTruth:
    """Ask the rows of each file group for the keys that are said to be in it."""
    frozen = {(group.partition_path, group.file_id) for group in snapshot.frozen}
    there, gone, unknown = ([placed.schema.empty_table()] for _ in range(3))
    notes: list[str] = []
    for group, rows in _by_group(placed):
        try:
            keys = rows.column(RECORD_KEY).to_pylist()
            found = None if group in frozen else find_rows(storage, snapshot, group, keys, meter=meter or ReadMeter())
        except Unsupported as error:
            found = None
            notes.append(f"{error.what} {error.why}")
        if found is None:
            unknown.append(rows)
            continue
        has_row = pc.is_in(rows.column(RECORD_KEY), pa.array(sorted(found), pa.string()))
        there.append(rows.filter(has_row))
        gone.append(rows.filter(pc.invert(has_row)))
    return RowTruth(pa.concat_tables(there), pa.concat_tables(gone), pa.concat_tables(unknown), tuple(notes))


def _by_group(placed: pa.Table) -> Iterator[tuple[GroupId, pa.Table]]:
    """The rows of each file group that has some, in the order of the groups."""
    columns = (placed.column(PARTITION_PATH).to_pylist(), placed.column(FILE_ID).to_pylist())
    places: dict[GroupId, list[int]] = {}
    for number, group in enumerate(zip(*columns, strict=True)):
        places.setdefault(group, []).append(number)
    for group in sorted(places):
        yield group, placed.take(pa.array(places[group]))
