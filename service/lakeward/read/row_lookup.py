"""Which record keys a file group has: a sample of its base file's, and whether certain ones are among its rows, and
what these hold in a column.

A row of the base file may have been deleted by a log, or moved to another partition; so whether a key is there is known
from the base file alone only where no log lies on top of it, and by the merged slice otherwise.

Of a slice are read the columns that are asked for, and the row groups that may hold a wanted key. A key that is not
found so is looked for once more in all of them, so that no statistics decide that it is not there.

Touches: reads base files' key columns; slices, merged where there are logs (`read/slice_scan`).
Keeps:   1. equal files, numbers and seeds give the same keys;
         2. a key that a row group holds is found, or the footer that hides it is named.
Memory:  a batch of keys, and what merging a slice needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from random import Random

import pyarrow as pa

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.named_key import named_key
from lakeward.base.paths import join
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.read.newest_slice import newest_slice, table_reading
from lakeward.read.query.predicate import keys_among
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_keys import base_keys
from lakeward.read.slice_scan import slice_rows
from lakeward.storage.storage import Storage
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
    key_columns = table_reading(snapshot, merges=False).key_columns
    found = {}
    for path in sorted(paths):
        random = Random(f"{seed}/{path}")
        where = join(snapshot.base_path, path)
        read = base_keys(
            storage, where, name=path, key_columns=key_columns, choose=partial(_one_group, random), meter=meter
        )
        try:
            column = pa.chunked_array(read, pa.string())
        except NotFound:
            continue  # cleaned meanwhile
        if len(column):
            places = sorted(random.sample(range(len(column)), min(each, len(column))))
            found[path] = tuple(column.take(pa.array(places)).to_pylist())
    return found


def _one_group(random: Random, file: ParquetBatches) -> Sequence[int]:
    """The number of a row group that has rows, if there is one."""
    groups = list(range(file.metadata.num_row_groups))
    if not file.metadata.num_rows:
        return []
    random.shuffle(groups)
    return [next(group for group in groups if file.metadata.row_group(group).num_rows)]


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
    columns = (RECORD_KEY_FIELD, column)
    reading = table_reading(snapshot, merges=bool(slice_.row_logs), whole_slices=True)
    try:
        query = SliceQuery(columns, keys_among(wanted))
        found = _values(slice_rows(storage, reading, slice_, query, meter=this_read), column)
        missing = wanted - found.keys()
        if missing and this_read.row_groups_skipped:
            everywhere = SliceQuery(columns, keys_among(missing), by_statistics=False)
            if hidden := _values(slice_rows(storage, reading, slice_, everywhere, meter=this_read), column):
                raise _hidden(group, min(hidden))
    except NotFound:
        return None
    meter.add(this_read)
    return found


def _hidden(group: GroupId, key: str) -> HiddenRow:
    return HiddenRow(
        f"A footer in this file group hides the row with the key {named_key(key)}.",
        why="It is in a row group that by its statistics has no such key: queries that rely on them miss the row.",
        remedy="Restore the file from a copy, or write the row again; a FULL compaction then rewrites the file.",
        file_group=group,
    )


def _values(batches: Iterator[pa.RecordBatch], column: str) -> dict[str, object]:
    """The column's values by record key; null where the table's schema does not have the column."""
    found: dict[str, object] = {}
    for batch in batches:
        values = batch.column(column) if column in batch.schema.names else pa.nulls(batch.num_rows)
        found.update(zip(batch.column(RECORD_KEY_FIELD).to_pylist(), values.to_pylist(), strict=True))
    return found
