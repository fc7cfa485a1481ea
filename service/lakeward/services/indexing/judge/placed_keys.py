"""Record keys with the file group that each is in, as checks draw and judge them.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.table.file_system_view import GroupId

PLACED_KEYS: Final = pa.schema([pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH, FILE_ID)])


def by_group(placed: pa.Table) -> Iterator[tuple[GroupId, list[str]]]:
    """The keys of each file group that has some, in the order of the groups."""
    grouped = placed.group_by([PARTITION_PATH, FILE_ID]).aggregate([(RECORD_KEY, "list")])
    for row in sorted(grouped.to_pylist(), key=lambda row: (row[PARTITION_PATH], row[FILE_ID])):
        yield (row[PARTITION_PATH], row[FILE_ID]), row[f"{RECORD_KEY}_list"]


def select_placed(placed: pa.Table, group: GroupId, keys: Collection[str]) -> pa.Table:
    """The rows of these keys in this file group."""
    here = pc.and_(pc.equal(placed.column(PARTITION_PATH), group[0]), pc.equal(placed.column(FILE_ID), group[1]))
    return placed.filter(pc.and_(here, pc.is_in(placed.column(RECORD_KEY), pa.array(sorted(keys), pa.string()))))
