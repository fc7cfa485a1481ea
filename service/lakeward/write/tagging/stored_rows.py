"""The rows that file groups hold of keys that an index found in them: whether they are there, and how they are ordered.

An index of base files names a key that a log has deleted since, as a move to another partition leaves it in the group
that it left; and whether a row that comes for another partition wins is shown by the stored row alone.

Touches: storage, reading file slices: keys and ordering values.
Source:  HoodieIndexUtils.getExistingRecords (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lakeward.format.avro.schema import block_schema
from lakeward.merge.rules.records import record_keys
from lakeward.read.newest_slice import TableReading, newest_slice, table_reading
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_scan import slice_rows
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.keyed_rows import PARTITION_PATH, PLACE, RECORD_KEY


@dataclass(frozen=True, slots=True)
class StoredPart:
    """The rows of one file group, to be read; travels to tasks."""

    reading: TableReading
    slice_: FileSlice


@dataclass(frozen=True)
class StoredRows:
    """The rows of a table's file groups, to be read; stays where it is made."""

    snapshot: TableSnapshot

    @cached_property
    def _slices(self) -> Mapping[GroupId, FileSlice]:
        groups = self.snapshot.file_groups
        found = {(group.partition_path, group.file_id): newest_slice(group.slices) for group in groups}
        return {group_id: slice_ for group_id, slice_ in found.items() if slice_ is not None}

    def __contains__(self, group: GroupId) -> bool:
        """False for a group that was replaced, or is frozen."""
        return group in self._slices

    def has_row_logs(self, group: GroupId) -> bool:
        """Whether keys of the group's base file may be deleted."""
        return bool(self._slices[group].row_logs)

    def parts(self, groups: Collection[GroupId], schema: str) -> Sequence[StoredPart]:
        """What to read of each of these groups.

        Args:
            schema: Avro JSON of the columns that rows are to have.
        """
        reading = table_reading(replace(self.snapshot, schema=schema), merges=True)
        return [StoredPart(reading, self._slices[group]) for group in sorted(groups)]


def stored_schema(columns: pa.Schema, ordering_fields: Collection[str]) -> pa.Schema:
    """The schema of stored rows: key, partition, those of the ordering fields that are columns, and the file group."""
    ordering = [pa.field(column.name, column.type) for column in columns if column.name in ordering_fields]
    keys = [pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH)]
    return pa.schema([*keys, *ordering, pa.field(PLACE, pa.string())])


def read_stored(storage: Storage, part: StoredPart) -> Iterator[pa.RecordBatch]:
    """The rows of a part in `stored_schema`. Raises what `slice_rows` raises."""
    reading, slice_ = part.reading, part.slice_
    assert reading.schema is not None and reading.rules is not None, "no table is written without"
    schema = stored_schema(block_schema(reading.schema, where="the table"), reading.rules.ordering_fields)
    ordering = schema.names[2:-1]
    for batch in slice_rows(storage, reading, slice_, SliceQuery({RECORD_KEY, *ordering})):
        rows = batch.num_rows
        columns = [
            record_keys(batch, source=f"file group {slice_.file_id}"),
            pa.repeat(slice_.partition_path, rows),
            *(batch.column(name) for name in ordering),
            pa.repeat(slice_.file_id, rows),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
