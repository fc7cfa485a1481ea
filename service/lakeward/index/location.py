"""Locations of records, which are what every index answers, as Arrow.

    _hoodie_record_key        text
    _hoodie_partition_path    text
    file id                   text: the file group that has the key
    instant                   text: the commit that says so; null where the index does not keep it

A location without a file group says that the key is gone, from its partition, or where that is null, too, from all of
the table: it is part of what changes an index, and in no answer.

Touches: nothing.
Source:  HoodieRecordLocation, HoodieRecordGlobalLocation (Hudi 1.2); RFC-08, getRecordLocations
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_ID: Final = "_lakeward_file_id"
INSTANT: Final = "_lakeward_instant"

KEY_COLUMN: Final = pa.schema([pa.field(RECORD_KEY, pa.string())])

LOCATIONS: Final = pa.schema(
    [
        pa.field(RECORD_KEY, pa.string()),
        pa.field(PARTITION_PATH, pa.string()),
        pa.field(FILE_ID, pa.string()),
        pa.field(INSTANT, pa.string()),
    ]
)

BETWEEN: Final = "\0"
"""Stands in no partition path and in no file id."""


def locations_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """One table in `LOCATIONS`, also of no batch."""
    return pa.Table.from_batches(batches, LOCATIONS)


def group_names(partition_paths: pa.Array, file_ids: pa.Array) -> pa.Array:
    """One text for each file group, to be compared; null where there is none."""
    return pc.binary_join_element_wise(partition_paths, file_ids, BETWEEN)


def names_of(groups: Iterable[tuple[str, str]]) -> pa.Array:
    """The names of these file groups, as `group_names` makes them."""
    return pa.array([BETWEEN.join(group) for group in groups], pa.string())


def location_names(locations: pa.RecordBatch | pa.Table) -> pa.Array:
    """One text for each key in a file group, to be compared; null where there is none."""
    columns = (locations.column(name) for name in (RECORD_KEY, PARTITION_PATH, FILE_ID))
    return pc.binary_join_element_wise(*columns, BETWEEN)


def differs(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Whether a value is another one than that before it; the first always is."""
    found = np.ones(len(column), dtype=np.bool_)
    if len(column) > 1:
        other = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
        found[1:] = other.to_numpy() if isinstance(other, pa.ChunkedArray) else other.to_numpy(zero_copy_only=False)
    return found
