"""The record keys of files and slices, and nothing else of their rows: base files, logs, and both merged.

Touches: base files, of which the column of record keys is read (`read/slice_scan`), and logs; spill files of merges.
Keeps:   1. the keys of a slice are those of the rows that a query finds, in no order that is promised;
         2. the keys of a log are those of all its rows and deletes, whatever happened to them.
Memory:  a batch of keys, and what merging a slice takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa

from lakeward.format.log.block import BlockType, CorruptBlock, HeaderKey, LogBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.format.parquet.batches import ChooseGroups
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, OPERATION_FIELD, RECORD_KEY_FIELD, MergeRules
from lakeward.merge.rules.records import keyless, record_keys
from lakeward.read.logs.block_deletes import read_deletes
from lakeward.read.logs.log_scan import find_block_damage, read_heads
from lakeward.read.made_keys import check_keys_can_be_made, made_keys
from lakeward.read.newest_slice import TableReading
from lakeward.read.query.predicate import Predicate, keys_among
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_scan import base_rows, slice_rows
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import damaged_error
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot

_NONE = pa.schema([])


def slice_keys(
    storage: Storage,
    reading: TableReading,
    slice_: FileSlice,
    *,
    among: Collection[str] | None = None,
    by_order: bool = True,
    memory_bytes: int = MEMORY_BYTES,
    meter: ReadMeter | None = None,
) -> Iterator[pa.StringArray]:
    """The keys of the slice's rows. Raises what `slice_rows` does.

    Args:
        among: only these are asked for.
    """
    predicate = Predicate() if among is None else keys_among(frozenset(among))
    query = SliceQuery((RECORD_KEY_FIELD,), predicate)
    rows = slice_rows(storage, reading, slice_, query, memory_bytes=memory_bytes, by_order=by_order, meter=meter)
    for batch in rows:
        yield record_keys(batch, source=f"file group {slice_.file_id}")


def base_keys(
    storage: Storage,
    path: str,
    *,
    name: str,
    key_columns: pa.Schema = _NONE,
    choose: ChooseGroups | None = None,
    meter: ReadMeter | None = None,
) -> Iterator[pa.StringArray]:
    """The keys of a base file's rows, in the order of the rows. Raises what `base_rows` does.

    Args:
        key_columns: those of which keys are made; none where rows carry their keys.
    """
    columns = pa.schema([pa.field(RECORD_KEY_FIELD, pa.string()), *key_columns])
    rows = base_rows(
        storage,
        path,
        columns,
        name=name,
        key_fields=key_columns.names,
        choose=choose,
        with_bloom=choose is not None,
        meter=meter,
    )
    for batch in rows:
        yield record_keys(batch, source=name)


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
            for deleted in read_deletes(file, block, _NONE):
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
