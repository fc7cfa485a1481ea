"""Which record keys a file group has: a sample of its base file's, and whether certain ones are among its rows, and
what these hold in a column.

A row of the base file may have been deleted by a log, or moved to another partition; so whether a key is there is told
by the base file alone only where no log lies on top of it, and by the merged slice otherwise.

Touches: reads base files' key columns; merges slices where there are logs.
Keeps:   equal files, numbers and seeds give the same keys.
Memory:  a batch of keys, and what merging a slice needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from random import Random
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.errors import BrokenFile, NotFound, Unsupported
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.pages import BadPage
from lakeward.merge.merge_rules import RECORD_KEY_FIELD
from lakeward.read.file_slice import open_slice
from lakeward.read.log_scan import NEWEST
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import Storage, is_of_storage, join
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import PAYLOAD_MODES


def sample_keys(
    storage: Storage, snapshot: TableSnapshot, paths: Collection[str], number: int, seed: int
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
            with storage.open_input(join(snapshot.base_path, path)) as source:
                keys = _some_keys(source, each, Random(f"{seed}/{path}"))
        except NotFound:
            continue  # cleaned meanwhile
        except (pa.ArrowException, OSError, KeyError, BadPage) as broken:
            if is_of_storage(broken):
                raise
            raise BrokenFile(f"{path} cannot be read.", why=f"{broken}.", remedy="Restore it from a copy.") from broken
        if keys:
            found[path] = keys
    return found


def _some_keys(source: BinaryIO, number: int, random: Random) -> tuple[str, ...]:
    file = ParquetBatches(source, where="the base file")
    if file.metadata.num_rows == 0:
        return ()
    groups = list(range(file.metadata.num_row_groups))
    random.shuffle(groups)
    group = next(group for group in groups if file.metadata.row_group(group).num_rows)
    column = pa.chunked_array([batch.column(0) for batch in file.read([RECORD_KEY_FIELD], groups=[group])])
    places = sorted(random.sample(range(len(column)), min(number, len(column))))
    return tuple(key for key in column.take(pa.array(places)).to_pylist() if key is not None)


def find_rows(storage: Storage, snapshot: TableSnapshot, group: GroupId, keys: Collection[str]) -> set[str] | None:
    """The part of `keys` that a query finds in the file group; None where its files were cleaned since the snapshot.

    Raises `Unsupported` where there are logs that this release cannot merge.
    """
    found = find_values(storage, snapshot, group, keys, RECORD_KEY_FIELD)
    return None if found is None else set(found)


def find_values(
    storage: Storage, snapshot: TableSnapshot, group: GroupId, keys: Collection[str], column: str
) -> dict[str, object] | None:
    """What a query finds in this column of those rows, by record key; otherwise as `find_rows`."""
    slice_ = _readable(snapshot, group)
    if slice_ is None or not keys:
        return {}
    wanted = pa.array(sorted(keys), type=pa.string())
    found: dict[str, object] = {}
    try:
        for record_keys, values in _columns_of(storage, snapshot, slice_, column):
            is_wanted = pc.is_in(record_keys, value_set=wanted)
            found.update(zip(*(each.filter(is_wanted).to_pylist() for each in (record_keys, values)), strict=True))
    except NotFound:
        return None
    return found


def _readable(snapshot: TableSnapshot, group: GroupId) -> FileSlice | None:
    """The newest slice that can be read; under a pending compaction, the one before it with the logs that came
    since."""
    slices = next((g.slices for g in snapshot.file_groups if (g.partition_path, g.file_id) == group), ())
    if not slices:
        return None
    latest = slices[0]
    if latest.base_file is not None or len(slices) == 1:
        return latest
    return replace(slices[1], log_files=(*slices[1].log_files, *latest.log_files))


def _columns_of(
    storage: Storage, snapshot: TableSnapshot, slice_: FileSlice, column: str
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Record keys and the column's values, batch by batch; nulls where a file is older than the column."""
    if slice_.log_files:
        batches = _merged_batches(storage, snapshot, slice_)
    elif slice_.base_file is not None:
        batches = _base_batches(storage, join(snapshot.base_path, slice_.base_file.path), column)
    else:
        return
    for batch in batches:
        has_column = column in batch.schema.names
        yield (
            batch.column(RECORD_KEY_FIELD).cast(pa.string()),
            batch.column(column) if has_column else pa.nulls(batch.num_rows),
        )


def _base_batches(storage: Storage, path: str, column: str) -> Iterator[pa.RecordBatch]:
    with storage.open_input(path) as source:
        file = ParquetBatches(source, where=f"the base file {path}")
        columns = [name for name in {RECORD_KEY_FIELD, column} if name in file.schema.names]
        yield from file.read(columns)


def _merged_batches(storage: Storage, snapshot: TableSnapshot, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
    if snapshot.schema is None or snapshot.config.merge_mode not in PAYLOAD_MODES.values():
        raise Unsupported(
            f"The rows of file group {slice_.file_id} cannot be told.",
            why=f"Its logs are merged by {snapshot.config.merge_mode} rules, or its schema is not known.",
        )
    reading = SliceInput(
        base_path=snapshot.base_path,
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        base_file=slice_.base_file.path if slice_.base_file is not None else None,
        log_files=tuple(log.path for log in slice_.log_files),
        instant=NEWEST,
        schema=snapshot.schema,
        rules=merge_rules(snapshot),
    )
    with open_slice(storage, reading) as merged:
        yield from merged.batches()
