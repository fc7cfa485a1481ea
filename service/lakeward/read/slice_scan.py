"""The rows of one file slice that a query chooses, as batches of its columns.

    no logs      the base file streams by: row groups by their statistics, then rows by the filter
    logs         base file and logs are merged (`read/file_slice`), which applies the filter where it may

Touches: reads the slice's files; spill files of merges, outside of the table.
Keeps:   1. the rows are those of a query by Hudi; of a base file without logs none is merged with another;
         2. no more is in memory than merging the slice takes, or a batch;
         3. where a base file is found out of order once rows went out, the scan ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from lakeward.base.errors import NotFound, TryLater
from lakeward.base.paths import join
from lakeward.format.avro.schema import table_schema
from lakeward.format.parquet.base_file import open_base_file, read_shape
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.parquet.row_groups import row_groups
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.file_slice import open_slice
from lakeward.read.made_keys import with_made_keys
from lakeward.read.newest_slice import TableReading
from lakeward.read.query.row_group_choice import NO_LOGS, choose_row_groups
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice


def read_slice(
    storage: Storage,
    reading: TableReading,
    slice_: FileSlice,
    query: SliceQuery,
    *,
    memory_bytes: int,
    meter: ReadMeter,
) -> Iterator[pa.RecordBatch]:
    """The chosen rows of a slice; columns in no order that is promised.

    Raises `BrokenFile`, `Unsupported`, and `TryLater` where its files were deleted since the snapshot.
    """
    with _deleted_meanwhile(slice_):
        if slice_.log_files:
            yield from _merged(storage, reading, slice_, query, memory_bytes=memory_bytes, meter=meter)
        elif slice_.base_file is not None:
            yield from _stored(storage, reading, slice_, query, meter)


def stored_rows(storage: Storage, base_path: str, slice_: FileSlice) -> int:
    """How many rows the footer of a slice's base file says. Raises as `read_slice` does."""
    assert slice_.base_file is not None
    path = slice_.base_file.path
    with _deleted_meanwhile(slice_), storage.open_input(join(base_path, path)) as source:
        return read_shape(source, name=path).rows


@contextmanager
def _deleted_meanwhile(slice_: FileSlice) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise TryLater(
            f"Files of file group {slice_.file_id} were deleted while the query ran.",
            why=f"{error.what} A cleaner, a rollback or a restore took it since the query began at its newest instant.",
            remedy="Run the query again; where queries take long, let the cleaner keep more "
            "(`lakeward clean --help`, or the cleaner's settings of the writers).",
            file_group=slice_.group_id,
        ) from error


def _merged(
    storage: Storage,
    reading: TableReading,
    slice_: FileSlice,
    query: SliceQuery,
    *,
    memory_bytes: int,
    meter: ReadMeter,
) -> Iterator[pa.RecordBatch]:
    slice_input = replace(reading.slice_input(slice_), memory_bytes=memory_bytes)
    has_given = False
    try:
        with open_slice(storage, slice_input, query=query) as merged:
            for batch in merged.batches():
                has_given = True
                yield batch
        meter.add(merged.meter)
    except NotSorted:
        if has_given:
            raise
        with open_slice(storage, slice_input, query=query, by_order=False) as merged:
            yield from merged.batches()
        meter.add(merged.meter)


def _stored(
    storage: Storage, reading: TableReading, slice_: FileSlice, query: SliceQuery, meter: ReadMeter
) -> Iterator[pa.RecordBatch]:
    assert reading.schema is not None and slice_.base_file is not None
    table = table_schema(reading.schema)
    predicate = query.predicate
    out = query.chosen_schema(table)
    # No footer says anything of keys that are made.
    key_fields = reading.key_fields if RECORD_KEY_FIELD in predicate.columns else ()
    read = pa.schema([column for column in table if column.name in {*out.names, *predicate.columns, *key_fields}])
    path = slice_.base_file.path
    with storage.open_input(join(reading.base_path, path)) as source:
        batches = open_base_file(
            source,
            read,
            name=path,
            choose=(lambda file: choose_row_groups(row_groups(file, query.ranged_schema(table)), predicate, NO_LOGS))
            if query.prunes and not key_fields
            else None,
            meter=meter,
        )
        for batch in batches:
            chosen = predicate.chosen(with_made_keys(batch, key_fields))
            if chosen.num_rows:
                yield chosen.select(out.names)
