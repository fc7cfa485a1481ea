"""Which record keys a file group has: a sample of its base file's, and whether certain ones are among its rows, and
what these hold in a column.

A row of the base file may have been deleted by a log, or moved to another partition; so whether a key is there is known
from the base file alone only where no log lies on top of it, and by the merged slice otherwise.

Of a slice are read the columns that are asked for, and the row groups that may hold a wanted key. A key that is not
found so is looked for once more in all of them, so that no statistics decide that it is not there.

Touches: reads base files' key columns; merges slices where there are logs.
Keeps:   1. equal files, numbers and seeds give the same keys;
         2. a key that a row group holds is found, or the footer that hides it is named.
Memory:  a batch of keys, and what merging a slice needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from random import Random
from typing import BinaryIO

import pyarrow as pa

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.parquet.row_groups import row_groups
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.file_slice import open_slice
from lakeward.read.newest_slice import newest_rows, newest_slice
from lakeward.read.query.predicate import keys_among
from lakeward.read.query.row_group_choice import NO_LOGS, choose_row_groups
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot


def sample_keys(
    storage: Storage, snapshot: TableSnapshot, paths: Collection[str], number: int, seed: int, *, meter: ReadMeter
) -> dict[str, tuple[str, ...]]:
    """About `number` record keys in all, by base file: as many of each file, from one row group of it.

    Raises `BrokenFile`.
    """
    if not paths:
        return {}
    each = -(-number // len(paths))
    found = {}
    for path in sorted(paths):
        try:
            with broken_if_unreadable(path), storage.open_input(join(snapshot.base_path, path)) as source:
                keys = _some_keys(source, each, Random(f"{seed}/{path}"), meter)
        except NotFound:
            continue  # cleaned meanwhile
        if keys:
            found[path] = keys
    return found


def _some_keys(source: BinaryIO, number: int, random: Random, meter: ReadMeter) -> tuple[str, ...]:
    file = ParquetBatches(source, where="the base file")
    if file.metadata.num_rows == 0:
        return ()
    groups = list(range(file.metadata.num_row_groups))
    random.shuffle(groups)
    group = next(group for group in groups if file.metadata.row_group(group).num_rows)
    batches = file.read([RECORD_KEY_FIELD], groups=[group], meter=meter)
    column = pa.chunked_array([batch.column(0) for batch in batches])
    places = sorted(random.sample(range(len(column)), min(number, len(column))))
    return tuple(key for key in column.take(pa.array(places)).to_pylist() if key is not None)


class HiddenRow(BrokenFile):
    """A file holds a row where its footer says that it does not."""


def find_rows(
    storage: Storage, snapshot: TableSnapshot, group: GroupId, keys: Collection[str], *, meter: ReadMeter
) -> set[str] | None:
    """The part of `keys` that a query finds in the file group; None where its files were cleaned since the snapshot.

    Raises `Unsupported` where there are logs that this release cannot merge, and `HiddenRow`.
    """
    found = find_values(storage, snapshot, group, keys, RECORD_KEY_FIELD, meter=meter)
    return None if found is None else set(found)


def find_values(
    storage: Storage, snapshot: TableSnapshot, group: GroupId, keys: Collection[str], column: str, *, meter: ReadMeter
) -> dict[str, object] | None:
    """What a query finds in this column of those rows, by record key; otherwise as `find_rows`."""
    slices = next((g.slices for g in snapshot.file_groups if (g.partition_path, g.file_id) == group), ())
    slice_ = newest_slice(slices)
    if slice_ is None or not keys:
        return {}
    wanted, this_read = frozenset(keys), ReadMeter()
    query = SliceQuery((RECORD_KEY_FIELD, column), keys_among(wanted))
    try:
        found = _values(storage, snapshot, slice_, query, column, this_read)
        missing = wanted - found.keys()
        if missing and this_read.row_groups_skipped:
            everywhere = SliceQuery(query.columns, keys_among(missing), by_statistics=False)
            if hidden := _values(storage, snapshot, slice_, everywhere, column, this_read):
                raise _hidden(group, min(hidden))
    except NotFound:
        return None
    meter.add(this_read)
    return found


def _hidden(group: GroupId, key: str) -> HiddenRow:
    return HiddenRow(
        f"A footer in this file group hides the row with the key {key!r}.",
        why="It is in a row group that by its statistics has no such key: queries that rely on them miss the row.",
        remedy="Restore the file from a copy, or write the row again; a FULL compaction then rewrites the file.",
        file_group=group,
    )


def _values(
    storage: Storage, snapshot: TableSnapshot, slice_: FileSlice, query: SliceQuery, column: str, meter: ReadMeter
) -> dict[str, object]:
    """The column's values by record key; null where a file is older than the column."""
    if slice_.log_files or snapshot.config.made_key_fields:
        batches = _merged_batches(storage, snapshot, slice_, query, meter)
    elif slice_.base_file is not None:
        batches = _base_batches(storage, join(snapshot.base_path, slice_.base_file.path), query, column, meter)
    else:
        return {}
    found: dict[str, object] = {}
    for batch in batches:
        values = batch.column(column) if column in batch.schema.names else pa.nulls(batch.num_rows)
        found.update(zip(batch.column(RECORD_KEY_FIELD).to_pylist(), values.to_pylist(), strict=True))
    return found


def _base_batches(
    storage: Storage, path: str, query: SliceQuery, column: str, meter: ReadMeter
) -> Iterator[pa.RecordBatch]:
    """Its rows as they are: a base file on which no log lies need not be merged, nor its columns be the table's."""
    with broken_if_unreadable(path), storage.open_input(path) as source:
        file = ParquetBatches(source, where=f"the base file {path}")
        columns = [name for name in dict.fromkeys((RECORD_KEY_FIELD, column)) if name in file.schema.names]
        keys = pa.field(RECORD_KEY_FIELD, pa.string())
        groups = None
        if query.prunes:
            groups = choose_row_groups(row_groups(file, pa.schema([keys])), query.predicate, NO_LOGS)
        for batch in file.read(columns, groups=groups, meter=meter):
            at = batch.schema.get_field_index(RECORD_KEY_FIELD)
            yield query.predicate.chosen(batch.set_column(at, keys, batch.column(at).cast(pa.string())))


def _merged_batches(
    storage: Storage, snapshot: TableSnapshot, slice_: FileSlice, query: SliceQuery, meter: ReadMeter
) -> Iterator[pa.RecordBatch]:
    with open_slice(storage, newest_rows(snapshot, slice_), query=query) as merged:
        yield from merged.batches()
    meter.add(merged.meter)
