"""The rows of one file slice that a query chooses, as batches of its columns: the one reader of slices.

    no logs      the base file streams by: where keys are looked for none of it if its bloom filter has none of them,
                 row groups by their statistics, then rows by the filter
    logs         base file and logs are merged (`read/file_slice`), which applies the filter where it may

Queries call `read_slice`. What looks for keys or values beside them (builds of indexes, `verify`, the tagging of a
write) calls `slice_rows`, or for keys alone `read/slice_keys`, and says itself what a file that is gone means.

A row has the key that its key fields make where rows carry none (`read/made_keys`), in every slice.

Touches: reads the slice's files; spill files of merges, outside of the table.
Keeps:   1. the rows are those of a query by Hudi; of a base file without logs none is merged with another;
         2. no more is in memory than merging the slice takes, or a batch;
         3. where a base file is found out of order once rows went out, the scan ends with an error;
         4. where keys are looked for, a base file whose rows have none is an error that names it, and no file that
            lacks them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakeward.base.errors import NotFound, TryLater, Unsupported
from lakeward.base.paths import join
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import table_schema
from lakeward.format.bloom_lookup import SIMPLE_TYPE_CODE, BloomRows
from lakeward.format.parquet.base_file import count_rows, open_base_file
from lakeward.format.parquet.batches import ChooseGroups, ParquetBatches, WantedKeys
from lakeward.format.parquet.key_summary import (
    BLOOM_KEY,
    BLOOM_TYPE_KEY,
    FILTER_ROWS_KEY,
    Extent,
    read_filter_rows,
)
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.parquet.row_groups import ValueRange, row_groups
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.rules.records import record_keys
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read.file_slice import open_slice
from lakeward.read.made_keys import with_made_keys
from lakeward.read.newest_slice import TableReading
from lakeward.read.query.filter import Membership
from lakeward.read.query.predicate import Predicate
from lakeward.read.query.row_group_choice import NO_LOGS, choose_row_groups
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice

_UNKNOWN = ValueRange("", "")
"""Stands for a range of which nothing is known."""


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
    has_given = False
    with _deleted_meanwhile(slice_):
        rows_of = partial(slice_rows, storage, reading, slice_, memory_bytes=memory_bytes, meter=meter)
        try:
            for batch in _queried(reading, slice_, query, rows_of):
                has_given = True
                yield batch
        except NotSorted:
            if has_given:
                raise
            yield from _queried(reading, slice_, query, partial(rows_of, by_order=False))


def _queried(
    reading: TableReading,
    slice_: FileSlice,
    query: SliceQuery,
    read: Callable[[SliceQuery], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """The rows with the columns that the files lack; conditions on these wait until they are there."""
    if reading.path_columns is None or reading.schema is None:
        yield from read(query)
        return
    table = table_schema(reading.schema)
    values = reading.path_columns.values(table, slice_.partition_path)
    stored = Predicate(tuple(each for each in query.predicate.conditions if values.keys().isdisjoint(each.columns)))
    rest = Predicate(tuple(each for each in query.predicate.conditions if values.keys() & {*each.columns}))
    columns = None if query.columns is None else {*query.columns, *rest.columns}
    out = query.chosen_schema(table).names
    for batch in read(replace(query, columns=columns, predicate=stored)):
        for name in values.keys() & set(batch.schema.names):
            column = pa.repeat(values[name], batch.num_rows)
            batch = batch.set_column(batch.schema.get_field_index(name), table.field(name).remove_metadata(), column)
        if (chosen := rest.chosen(batch)).num_rows:
            yield chosen.select(out)


def stored_rows(storage: Storage, base_path: str, slice_: FileSlice) -> int:
    """How many rows the footer of a slice's base file says. Raises as `read_slice` does."""
    assert slice_.base_file is not None
    path = slice_.base_file.path
    with _deleted_meanwhile(slice_), storage.open_input(join(base_path, path)) as source:
        return count_rows(source, name=path)


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


def slice_rows(
    storage: Storage,
    reading: TableReading,
    slice_: FileSlice,
    query: SliceQuery,
    *,
    memory_bytes: int = MEMORY_BYTES,
    by_order: bool = True,
    meter: ReadMeter | None = None,
) -> Iterator[pa.RecordBatch]:
    """The same rows. Raises `BrokenFile`, `Unsupported`, `NotFound`, and `NotSorted`.

    Args:
        by_order: rely on the order of a base file whose footer says that it is sorted.
        meter: what is read is added to it.
    """
    meter = ReadMeter() if meter is None else meter
    if slice_.row_logs:
        slice_input = replace(reading.slice_input(slice_), memory_bytes=memory_bytes)
        with open_slice(storage, slice_input, query=query, by_order=by_order) as merged:
            yield from merged.batches()
        meter.add(merged.meter)
    elif slice_.base_file is not None:
        yield from _stored(storage, reading, slice_.base_file.path, query, meter)


def count_base_rows(
    storage: Storage, reading: TableReading, slice_: FileSlice, query: SliceQuery, *, meter: ReadMeter
) -> int:
    """How many rows of a slice without logs are chosen. Row groups of which the footer says that all their rows are, or
    none, are not read, and of the others the columns of the conditions alone. Raises as `read_slice` does."""
    assert slice_.base_file is not None and not slice_.row_logs
    predicate = query.predicate
    if not predicate.conditions:
        return stored_rows(storage, reading.base_path, slice_)
    whole: list[int] = []
    with _deleted_meanwhile(slice_):
        read = partial(_stored, storage, reading, slice_.base_file.path, meter=meter)
        if reading.path_columns is None:  # or values are in the path, and not in the file
            names = frozenset(predicate.columns[:1]) or query.columns
            batches = read(replace(query, columns=names), on_whole=whole.append)
        else:
            batches = _queried(reading, slice_, query, read)
        read_rows = int(sum(batch.num_rows for batch in batches))
    return read_rows + sum(whole)


def base_rows(
    storage: Storage,
    path: str,
    columns: pa.Schema,
    *,
    name: str,
    key_fields: Collection[str] = (),
    choose: ChooseGroups | None = None,
    with_bloom: bool = False,
    wanted_keys: WantedKeys | None = None,
    meter: ReadMeter | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a base file as they are in it, whatever lies on it. Raises `BrokenFile`, `Unsupported`, `NotFound`.

    Args:
        path: where the file is.
        columns: with their types; those that the file does not have are filled in.
        name: the file's in errors.
        key_fields: those of the columns of which keys are made.
        choose: which row groups are read; None: all.
        with_bloom: `choose` finds the file's bloom filter in its footer.
        wanted_keys: rows with other record keys, as they are stored, may be left out.
    """
    with storage.open_input(path) as source:
        for batch in open_base_file(
            source, columns, name=name, choose=choose, with_bloom=with_bloom, wanted_keys=wanted_keys, meter=meter
        ):
            yield with_made_keys(batch, tuple(key_fields))


def _stored(
    storage: Storage,
    reading: TableReading,
    path: str,
    query: SliceQuery,
    meter: ReadMeter,
    on_whole: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The chosen rows of a base file.

    Args:
        on_whole: takes the rows of the row groups all of whose rows are chosen by the footer, which are not given out.
    """
    predicate = query.predicate
    names = None if query.columns is None else {*query.columns, *predicate.columns}
    key_fields = reading.key_fields if names is None or RECORD_KEY_FIELD in names else ()
    table = _table_columns(reading, None if names is None else names | {*key_fields})
    out = query.chosen_schema(table)
    read = pa.schema([each for each in table if each.name in {*out.names, *predicate.columns, *key_fields}])
    # No footer says anything of keys that are made.
    ranged = predicate.on_values if key_fields else predicate

    def choose(file: ParquetBatches) -> Sequence[int]:
        groups = row_groups(file, query.ranged_schema(table))
        chosen = choose_row_groups(groups, ranged, NO_LOGS)
        if not ranged.on_keys.conditions:
            return chosen
        if chosen:
            chosen = _with_keys(file, ranged, chosen)
        keyless = {group.number for group in groups if group.ranges.get(RECORD_KEY_FIELD, _UNKNOWN) is None}
        return sorted(keyless.union(chosen))

    def choose_undecided(file: ParquetBatches) -> Sequence[int]:
        chosen = set(choose(file))
        if on_whole is None or key_fields:
            return sorted(chosen)
        groups = row_groups(file, query.ranged_schema(table))
        whole = [group for group in groups if group.number in chosen and predicate.must_hold_in(group)]
        on_whole(sum(group.rows for group in whole))
        return sorted(chosen.difference(group.number for group in whole))

    batches = base_rows(
        storage,
        join(reading.base_path, path),
        read,
        name=path,
        key_fields=key_fields,
        choose=choose_undecided if query.by_statistics and ranged.conditions else None,
        with_bloom=bool(ranged.on_keys.conditions),
        wanted_keys=ranged.wanted_keys if query.by_statistics else None,
        meter=meter,
    )
    for batch in batches:
        if predicate.on_keys.conditions:
            record_keys(batch, source=path)
        chosen = predicate.chosen(batch)
        if chosen.num_rows:
            yield chosen.select(out.names)


def _with_keys(file: ParquetBatches, predicate: Predicate, groups: list[int]) -> list[int]:
    """The row groups that may have the keys that are looked for by the footer's bloom filter."""
    entries = file.metadata.metadata or {}
    text, kind = entries.get(BLOOM_KEY.encode()), entries.get(BLOOM_TYPE_KEY.encode(), SIMPLE_TYPE_CODE.encode())
    named = [each for each in predicate.on_keys.conditions if isinstance(each, Membership) and not each.is_negated]
    if text is None or not named:
        return groups
    try:
        rows = BloomRows.of_base64(text, kind.decode("utf-8", "replace"))
    except ValueError:
        return groups  # broken
    said = entries.get(FILTER_ROWS_KEY.encode())
    parts = None if said is None else read_filter_rows(said.decode(), text.decode(), _extents(file), count=rows.count)
    if parts is None:
        return groups if _may_have(rows, named) else []
    return [group for group in groups if _may_have(rows.part(parts[group]), named)]


def _may_have(rows: BloomRows, named: Sequence[Membership]) -> bool:
    return all(bool(rows.lookup(each.values).any()) for each in named)


def _extents(file: ParquetBatches) -> list[Extent]:
    """Places and rows of the row groups."""
    found = []
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        chunks = [group.column(at) for at in range(group.num_columns)]
        starts = [each.dictionary_page_offset or each.data_page_offset for each in chunks]
        ends = [start + each.total_compressed_size for start, each in zip(starts, chunks, strict=True)]
        found.append(Extent(min(starts), max(ends), group.num_rows, b"", b""))
    return found


def _table_columns(reading: TableReading, names: Collection[str] | None) -> pa.Schema:
    """The columns of the table; Hudi's own where no others are named, which need no schema."""
    if names is not None and set(names) <= set(META_COLUMNS):
        return pa.schema([pa.field(name, pa.string()) for name in META_COLUMNS])
    if reading.schema is None:
        raise Unsupported("The rows of the table cannot be read.", why="Its schema is not known.")
    return table_schema(reading.schema)
