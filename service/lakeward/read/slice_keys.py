"""The record keys of files and slices, and nothing else of their rows: base files, logs, and both merged.

Touches: base files, of which the column of record keys is read, and logs; spill files of merges.
Keeps:   1. the keys of a slice are those of the rows that a query finds, in no order that is promised;
         2. the keys of a log are those of all its rows and deletes, whatever happened to them.
Memory:  a batch of keys, and what merging a slice takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa

from lakeward.base.paths import join
from lakeward.format.log.block import BlockType, CorruptBlock, HeaderKey, LogBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.row_groups import row_groups
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, OPERATION_FIELD, RECORD_KEY_FIELD, MergeRules
from lakeward.merge.rules.records import keyless
from lakeward.read.file_slice import open_slice
from lakeward.read.keys_input import KeysInput, keys_input
from lakeward.read.logs.block_deletes import read_deletes
from lakeward.read.logs.log_scan import find_block_damage, read_heads
from lakeward.read.made_keys import check_keys_can_be_made, made_keys
from lakeward.read.query.predicate import Predicate, keys_among
from lakeward.read.query.row_group_choice import NO_LOGS, choose_row_groups
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import damaged_error
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot

_NO_ORDERING = pa.schema([])


def slice_keys(
    storage: Storage,
    snapshot: TableSnapshot,
    slice_: FileSlice,
    *,
    among: Collection[str] | None = None,
    by_order: bool = True,
) -> Iterator[pa.StringArray]:
    """The keys of the slice's rows. Raises what `keys_input` and `read_keys` do."""
    return read_keys(storage, keys_input(snapshot, slice_), among=among, by_order=by_order)


def read_keys(
    storage: Storage, of: KeysInput, *, among: Collection[str] | None = None, by_order: bool = True
) -> Iterator[pa.StringArray]:
    """The keys of a slice's rows. Raises `Unsupported`, `BrokenFile`, `NotFound`, and `NotSorted`.

    Args:
        among: only these are asked for.
        by_order: rely on the order of a base file whose footer says that it is sorted.
    """
    predicate = Predicate() if among is None else keys_among(frozenset(among))
    if of.merged is not None:
        query = SliceQuery((RECORD_KEY_FIELD,), predicate)
        with open_slice(storage, of.merged, query=query, by_order=by_order) as merged:
            for batch in merged.batches():
                yield batch.column(RECORD_KEY_FIELD).cast(pa.string())
    elif of.base_file is not None:
        yield from _stored_keys(storage, join(of.base_path, of.base_file), predicate)


def base_keys(storage: Storage, snapshot: TableSnapshot, path: str) -> Iterator[pa.StringArray]:
    """The keys of a base file's rows. Raises `BrokenFile`, `NotFound`.

    Args:
        path: relative to the base path.
    """
    fields = snapshot.config.made_key_fields
    if not fields:
        yield from _stored_keys(storage, join(snapshot.base_path, path), Predicate())
        return
    with broken_if_unreadable(path), storage.open_input(join(snapshot.base_path, path)) as source:
        for batch in ParquetBatches(source, where=f"the base file {path}").read(list(fields)):
            yield _made(batch, fields, path)


def log_keys(storage: Storage, snapshot: TableSnapshot, path: str) -> Iterator[pa.StringArray]:
    """The keys of all rows and deletes of a log. Raises `Unsupported`, `BrokenFile`, `NotFound`.

    Args:
        path: relative to the base path.
    """
    fields = snapshot.config.made_key_fields
    for block, file in read_heads(storage, snapshot.base_path, path):
        if isinstance(block, CorruptBlock):
            raise damaged_error(list(find_block_damage(storage, snapshot.base_path, path)))
        if block.type is BlockType.DELETE:
            for deleted in read_deletes(file, block, _NO_ORDERING):
                yield deleted.keys.cast(pa.string())
        elif block.type not in (BlockType.COMMAND, BlockType.CDC_DATA):
            check_keys_can_be_made([block], fields)
            for batch in read_data_block(file, block, columns=list(fields) or [RECORD_KEY_FIELD]):
                yield _made(batch, fields, block.where)


def may_delete(storage: Storage, snapshot: TableSnapshot, logs: Iterable[str], rules: MergeRules) -> bool:
    """Whether one of these logs holds a delete, or a column that may say so of a row. Raises `BrokenFile`, `NotFound`.

    Args:
        logs: paths relative to the base path.
    """
    for path in logs:
        for block, _ in read_heads(storage, snapshot.base_path, path):
            if isinstance(block, CorruptBlock):
                raise damaged_error(list(find_block_damage(storage, snapshot.base_path, path)))
            if _may_delete(block, rules):
                return True
    return False


def _may_delete(block: LogBlock, rules: MergeRules) -> bool:
    if block.type in (BlockType.COMMAND, BlockType.CDC_DATA):
        return False
    schema = block.headers.get(HeaderKey.SCHEMA, "")
    names = (IS_DELETED_FIELD, OPERATION_FIELD, rules.delete_field)
    return block.type is BlockType.DELETE or any(name is not None and f'"{name}"' in schema for name in names)


def _made(batch: pa.RecordBatch, fields: Collection[str], where: str) -> pa.StringArray:
    keys = made_keys(batch, tuple(fields)) if fields else batch.column(RECORD_KEY_FIELD)
    if keys.null_count:
        raise keyless(where)
    return keys.cast(pa.string())


def _stored_keys(storage: Storage, path: str, predicate: Predicate) -> Iterator[pa.StringArray]:
    """A base file on which no log lies need not be merged."""
    keys = pa.schema([pa.field(RECORD_KEY_FIELD, pa.string())])
    with broken_if_unreadable(path), storage.open_input(path) as source:
        file = ParquetBatches(source, where=f"the base file {path}")
        wanted = choose_row_groups(row_groups(file, keys), predicate, NO_LOGS)
        for batch in file.read([RECORD_KEY_FIELD], groups=wanted):
            found = pa.RecordBatch.from_arrays([batch.column(0).cast(pa.string())], schema=keys)
            yield predicate.chosen(found).column(0)
