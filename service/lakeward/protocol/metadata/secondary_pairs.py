"""What a write changes in a secondary index: pairs of a value and a record key that came, and pairs that are gone.

For each file group that the write adds a file to, the pairs of its rows as a query finds them before and after: what is
in one alone has gone or come. A row whose value stays is in both; one that moved to another file group is gone here and
comes there, and then it came. All rows of a group that is replaced are gone.

Only text and whole numbers are indexed here: of other types it is not known how Hudi writes them into a key.

Touches: storage, reading the slices of those file groups and the new files where they lie.
Keeps:   1. each row of a query after the write has its pair in the index, and no pair is left without one;
         2. in memory are the pairs of one file group, before and after.
Source:  SecondaryIndexRecordGenerationUtils (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.paths import join
from lakeward.format.avro.schema import block_schema, table_schema
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.secondary_keys import secondary_index_keys
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.metadata.changes import NewFile
from lakeward.protocol.metadata.key_changes import WriteChanges, replaced_slices
from lakeward.protocol.metadata.key_sorter import GONE, KeySorter
from lakeward.read.file_slice import open_slice
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_scan import base_rows, slice_rows
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

CAME = 0
"""The place of a pair that is in the index from now on."""


def why_not_indexed(definition: IndexDefinition | None, schema: str | None) -> str | None:
    """Why rows cannot be known to this secondary index; None where they can."""
    if definition is None or len(definition.source_fields) != 1:
        return "its definition does not name one column"
    (column,) = definition.source_fields
    columns = {} if schema is None else {field.name: field.type for field in block_schema(schema, where="the table")}
    kind = columns.get(column)
    if kind is None or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return f"it is on the column {column} of the type {kind}, and how Hudi writes its values is not known"
    return None


class SecondaryPairs:
    """The pairs of one index."""

    def __init__(
        self, storage: Storage, snapshot: TableSnapshot, folder: str, definition: IndexDefinition, write: WriteChanges
    ) -> None:
        """
        Args:
            snapshot: of the table before the write.
            folder: the attempt's.
        """
        self._storage = storage
        self._snapshot = snapshot
        self._folder = folder
        (self._column,) = definition.source_fields
        self._write = write
        self._reading = table_reading(replace(snapshot, schema=write.schema), merges=True)
        self._query = SliceQuery((RECORD_KEY_FIELD, self._column))

    def add_to(self, sorter: KeySorter, files: Sequence[NewFile]) -> None:
        """Raises as `replaced_slices`, and what reading slices raises."""
        for (partition_path, file_id), new in _by_group(files).items():
            before = self._slice((partition_path, file_id))
            old = self._pairs(self._rows(before))
            now = self._pairs(self._rows_after(before, new))
            _add(sorter, _without(old, now), GONE)
            _add(sorter, _without(now, old), CAME)
        for slice_ in replaced_slices(self._snapshot, self._write.replaced):
            _add(sorter, self._pairs(self._rows(slice_)), GONE)

    def _slice(self, group_id: GroupId) -> FileSlice | None:
        slices = (g.slices for g in self._snapshot.file_groups if (g.partition_path, g.file_id) == group_id)
        return newest_slice(next(slices, ()))

    def _pairs(self, rows: Iterator[tuple[pa.Array, pa.Array]]) -> pa.StringArray:
        parts = [secondary_index_keys(keys, values) for keys, values in rows]
        return pa.chunked_array(parts, pa.string()).combine_chunks() if parts else pa.array([], pa.string())

    def _rows(self, slice_: FileSlice | None) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Keys and values of a slice that is in the table."""
        if slice_ is not None:
            yield from self._columns_of(slice_rows(self._storage, self._reading, slice_, self._query))

    def _rows_after(self, before: FileSlice | None, new: Sequence[NewFile]) -> Iterator[tuple[pa.Array, pa.Array]]:
        bases = [file for file in new if file.is_base_file]
        if bases:
            assert len(bases) == len(new) == 1, "a target writes a base file or logs"
            columns = self._query.chosen_schema(table_schema(self._write.schema))
            path = self._path(bases[0])
            yield from self._columns_of(base_rows(self._storage, path, columns, name=path))
        else:
            file = new[0]
            empty = FileSlice(file.partition_path, file.file_id, "", None, ())
            yield from self._merged(before or empty, {join(each.partition_path, each.name): each for each in new})

    def _path(self, file: NewFile) -> str:
        fencing, base_path = fencing_of(self._storage), self._snapshot.base_path
        return fencing.output_path(base_path, self._folder, file.partition_path, file.name)

    def _merged(self, slice_: FileSlice, new_logs: Mapping[str, NewFile]) -> Iterator[tuple[pa.Array, pa.Array]]:
        """
        Args:
            new_logs: by the path that they will have below the base path.
        """
        reading = self._reading.slice_input(slice_)
        reading = replace(reading, log_files=(*reading.log_files, *new_logs))
        staged = {join(self._snapshot.base_path, path): self._path(file) for path, file in new_logs.items()}
        storage = cast("Storage", _Published(self._storage, staged))
        with open_slice(storage, reading, query=self._query) as merged:
            yield from self._columns_of(merged.batches())

    def _columns_of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Array, pa.Array]]:
        for batch in batches:
            yield batch.column(RECORD_KEY_FIELD), batch.column(self._column)


class _Published:
    """The storage for the reader of a slice, which finds files where they will be, and asks for no more than this."""

    def __init__(self, storage: Storage, staged: Mapping[str, str]) -> None:
        self._storage = storage
        self._staged = staged

    def stat(self, path: str) -> FileStatus | None:
        return self._storage.stat(self._staged.get(path, path))

    def read(self, path: str) -> bytes:
        return self._storage.read(self._staged.get(path, path))

    def open_input(self, path: str) -> BinaryIO:
        return self._storage.open_input(self._staged.get(path, path))


def _by_group(files: Sequence[NewFile]) -> Mapping[GroupId, list[NewFile]]:
    groups: dict[GroupId, list[NewFile]] = {}
    for file in files:
        if not file.is_change_log:
            groups.setdefault((file.partition_path, file.file_id), []).append(file)
    return groups


def _add(sorter: KeySorter, pairs: pa.StringArray, place: int) -> None:
    sorter.add(pairs, np.full(len(pairs), place, dtype=np.int32))


def _without(pairs: pa.StringArray, others: pa.StringArray) -> pa.StringArray:
    return pairs.filter(pc.invert(pc.is_in(pairs, others)))
