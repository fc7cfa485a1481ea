"""Rows of a data block as Arrow batches in their writer's own schema; and the same rows in the table's schema.

An Avro data block (type 3) holds int32 block version, int32 record count, then per record int32 length and Avro binary;
the schema is in the block's header. It is decoded straight into Arrow buffers by `format/avro_kernel.py`, some
thousand records at a time. A Parquet data block (type 5) is a whole Parquet file inside of the log file and is read in
place.

Touches: the log file it is given, by seeking and reading.
Keeps:   1. every length is checked against the block before it is used, every value against its type;
         2. as many rows come out as the block says it has, or an error;
         3. `project` changes no value except by a promotion that is listed here; what is not listed is refused.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa

from lakeward.errors import BrokenFile, Unsupported
from lakeward.format.avro_kernel import BadRecord, compile_schema, decode_records
from lakeward.format.avro_schema import block_schema, parse_schema
from lakeward.format.log_block import BlockType, HeaderKey, LogBlock, read_content_range
from lakeward.format.parquet_batches import BATCH_BYTES_MAX, BATCH_ROWS, ParquetBatches
from lakeward.format.parquet_footer import TAIL_BYTES, footer_bytes, is_encrypted
from lakeward.format.parquet_pages import BadPage
from lakeward.storage.storage import is_of_storage

_AVRO_BLOCK_VERSION = 3
_HEAD_BYTES = 8
_WINDOW_BYTES = 4 * 1024 * 1024
_COLUMN_BYTES_MAX = 256 * 1024 * 1024


def read_data_block(
    file: BinaryIO, block: LogBlock, *, batch_rows: int = BATCH_ROWS, bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """The rows of an Avro or Parquet data block, in block order and in the schema of its header.

    No batch of a Parquet block takes more than `bytes_max` when it is decoded; a row that does is `Unsupported`. Avro
    records are as large as they are stored.
    """
    schema_json = block.headers.get(HeaderKey.SCHEMA)
    if schema_json is None:
        raise _broken(block, "it has no schema header")
    if block.type is BlockType.AVRO_DATA:
        yield from _read_avro(file, block, schema_json, batch_rows)
    elif block.type is BlockType.PARQUET_DATA:
        yield from _read_parquet(file, block, schema_json, batch_rows, bytes_max)
    else:
        raise Unsupported(
            f"{block.where} is of type {block.type.name}.",
            why="This release merges Avro and Parquet data blocks.",
            remedy="Compact this table with Hudi itself.",
        )


def project(
    batch: pa.RecordBatch, target: pa.Schema, *, where: str = "the rows", naive_is_utc: bool = False
) -> pa.RecordBatch:
    """The columns of `target`, by name: missing ones null, others dropped, values promoted where types differ.

    `naive_is_utc` is for files with INT96 timestamps, which are instants without saying so.
    """
    promotion = _Promotion(where, naive_is_utc)
    columns = []
    for column in target:
        index = batch.schema.get_field_index(column.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, column.type))
        else:
            columns.append(promotion.array(batch.column(index), column.type, column.name))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _read_avro(file: BinaryIO, block: LogBlock, schema_json: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
    program = compile_schema(parse_schema(schema_json, where=block.where))
    if block.content_length < _HEAD_BYTES:
        raise _broken(block, "its content is shorter than its head")
    version, count = struct.unpack(">ii", read_content_range(file, block, 0, _HEAD_BYTES))
    if not 1 <= version <= _AVRO_BLOCK_VERSION:
        raise Unsupported(
            f"{block.where} has data block version {version}.",
            why=f"This release reads versions 1 to {_AVRO_BLOCK_VERSION}.",
            remedy="Compact this table with the Hudi release that wrote it.",
        )
    position = _HEAD_BYTES
    done = 0
    window_bytes = _WINDOW_BYTES
    while done < count:
        length = min(window_bytes, block.content_length - position)
        window = np.frombuffer(read_content_range(file, block, position, length), dtype=np.uint8)
        used = 0
        while done < count:
            try:
                decoded = decode_records(
                    program,
                    window[used:],
                    records_max=min(batch_rows, count - done),
                    heap_bytes_max=_COLUMN_BYTES_MAX,
                )
            except BadRecord as bad:
                raise _broken(block, f"record {done + bad.record} is not of its schema: {bad.why}") from None
            if decoded is None:
                break
            _check_text(decoded.batch, block)
            yield decoded.batch
            done += decoded.batch.num_rows
            used += decoded.bytes_used
        if used == 0:
            if position + length == block.content_length:
                raise _broken(block, f"it ends after {done} of {count} records")
            window_bytes *= 2  # one record is larger than the window
        position += used
    if count < 0 or position != block.content_length:
        raise _broken(block, f"bytes are left over behind its {count} records")


def _check_text(batch: pa.RecordBatch, block: LogBlock) -> None:
    """Text that is not UTF-8 and decimals beyond their precision are found here, not by the output's next reader."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as invalid:
        raise _broken(block, f"a value is not of its type: {invalid}") from None


def _read_parquet(
    file: BinaryIO, block: LogBlock, schema_json: str, batch_rows: int, bytes_max: int
) -> Iterator[pa.RecordBatch]:
    schema = block_schema(schema_json, where=block.where)
    _check_plain(file, block)
    try:
        source = ParquetBatches(cast(BinaryIO, _Section(file, block)), where=block.where, bytes_max=bytes_max)
        for batch in source.read(source.schema.names, rows_max=batch_rows):
            yield project(batch, schema, where=block.where)
    except (pa.ArrowException, OSError, BadPage) as broken:
        if is_of_storage(broken):
            raise
        raise _broken(block, f"its Parquet file cannot be read: {broken}") from broken


def _check_plain(file: BinaryIO, block: LogBlock) -> None:
    """Encrypted columns make pyarrow end the process, so they are looked for without it."""
    if block.content_length < TAIL_BYTES:
        raise _broken(block, f"its Parquet file has {block.content_length} bytes")
    at = block.content_length - TAIL_BYTES
    tail = read_content_range(file, block, at, TAIL_BYTES)
    length = footer_bytes(tail, file=block.where)
    if length > at:
        raise _broken(block, "its Parquet file is shorter than its footer says")
    if is_encrypted(tail, read_content_range(file, block, at - length, length), file=block.where):
        raise Unsupported(
            f"{block.where} is encrypted.",
            why="The Parquet file in it or some of its columns are, and this release has no keys.",
            remedy="Leave compaction of this table to Hudi.",
        )


class _Section(io.RawIOBase):
    """The content of one block as a file of its own."""

    def __init__(self, file: BinaryIO, block: LogBlock) -> None:
        self._file = file
        self._block = block
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._block.content_length}[whence]
        self._position = origin + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._block.content_length - self._position)
        length = left if size < 0 else min(size, left)
        data = read_content_range(self._file, self._block, self._position, length) if length else b""
        self._position += length
        return data


class _Promotion:
    """Brings arrays to their target types, children included; `where` and the path are for errors."""

    def __init__(self, where: str, naive_is_utc: bool) -> None:
        self._where = where
        self._naive_is_utc = naive_is_utc

    def array(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        source = array.type
        if source == target:
            return array
        if pa.types.is_dictionary(source):
            return self.array(array.dictionary_decode(), target, path)
        if pa.types.is_struct(target) and pa.types.is_struct(source):
            return self._struct(array, target, path)
        if pa.types.is_list(target) and pa.types.is_list(source):
            # The element goes by place, not by name: it is `element` in 3-level lists and `array` in 2-level ones.
            return _with_children(array, target, [self.array(array.values, target.value_type, f"{path}.element")])
        if pa.types.is_map(target) and pa.types.is_map(source):
            keys = self.array(array.keys, target.key_type, f"{path}.key")
            items = self.array(array.items, target.item_type, f"{path}.value")
            entries = pa.StructArray.from_arrays(
                [keys, items], fields=[pa.field("key", target.key_type, nullable=False), target.item_field]
            )
            return _with_children(array, target, [entries])
        try:
            promoted = self._leaf(array, source, target)
        except pa.ArrowException as lossy:
            raise self._refused(source, target, path, f"a value does not fit: {lossy}") from None
        if promoted is None:
            raise self._refused(source, target, path, "this change of type is not supported")
        return promoted

    def _struct(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        children = []
        for child in target:
            index = array.type.get_field_index(child.name)
            if index < 0:
                children.append(pa.nulls(len(array), child.type))
            else:
                children.append(self.array(array.field(index), child.type, f"{path}.{child.name}"))
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    def _leaf(self, array: pa.Array, source: pa.DataType, target: pa.DataType) -> pa.Array | None:
        """The values as Hudi would rewrite them, or None when nobody has proven that Arrow does the same."""
        types = pa.types
        if types.is_signed_integer(source):
            # Spark's row writer annotates byte and short; in Avro both are int.
            if types.is_signed_integer(target) and target.bit_width >= source.bit_width:
                return array.cast(target)
            if types.is_floating(target):
                return array.cast(target, safe=False)  # to the nearest, as Java's conversion does
            if types.is_string(target) or types.is_decimal(target):
                return array.cast(target)
            return None
        if types.is_float32(source) and types.is_float64(target):
            # Through the shortest decimal text: 1.1f becomes 1.1, not 1.10000002384185791015625.
            return array.cast(pa.string()).cast(target)
        if types.is_binary(source) and types.is_string(target):
            return array.cast(target)
        if types.is_string(source) and types.is_binary(target):
            return array.cast(target)
        if types.is_decimal(source) and types.is_decimal(target) and target.scale >= source.scale:
            return array.cast(target)
        if not (types.is_timestamp(source) and types.is_timestamp(target)):
            return None
        if (source.tz is None) == (target.tz is None) or (source.tz is None and self._naive_is_utc):
            return array.cast(target)
        return None

    def _refused(self, source: pa.DataType, target: pa.DataType, path: str, why: str) -> Unsupported:
        return Unsupported(
            f"The column {path} of {self._where} cannot be read as {target}.",
            why=f"It was written as {source}, and {why}.",
            remedy="Compact this table with Hudi itself.",
        )


def _with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The same lists or maps over other children: validity and offsets are shared, not copied."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), [validity, offsets], array.null_count, offset=array.offset, children=children
    )


def _broken(block: LogBlock, why: str) -> BrokenFile:
    return BrokenFile(
        f"The log file {block.file} is broken in its block at byte {block.offset}.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Restore the file, or roll back the commit that wrote it.",
    )
