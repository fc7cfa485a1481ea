"""Native logs of deletes: keys with their ordering values in, one Parquet file out; and the reverse.

    _hoodie_record_key    text, required
    <ordering field>      the table's own column, nullable; one for each field, none by commit time

A null is a delete without an ordering value, which always wins; a 0 is a value. What Hudi makes of a 0 in a column of
ints is another matter: in memory it is the same Integer 0 that stands for null, so it is read as the default here, too.

The first source of Hudi's had other rows, which are read and never written: `record_key`, `partition_path` and
`ordering_val`, the value as bytes. These are Avro binary of the union that delete blocks have, so they are decoded as
the ordering values of such a block and compared as values; a class that is not the table's is refused by the merge.

Touches: the sink it is given, by appending; the file it is given, by seeking and reading.
Keeps:   1. what is read is what was written, ordering values in the table's type of today;
         2. keys are written in the order of their bytes, each once, or the writer stops;
         3. with two or more ordering fields no delete is written without all of their values: Hudi itself reads such a
            one as an ordered delete. One that has none of them is read as a delete that always wins, one that has some
            is refused;
         4. a field inside of another one orders no deletes: Hudi fails on it (apache/hudi#19823).
Source:  HoodieSchemaUtils.createDeleteLogSchema, HoodieNativeLogFormatWriter, apache/hudi#18987.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.encoder import write_number
from lakeward.format.avro.schema import block_schema
from lakeward.format.file_name import HFILE
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import BlockType
from lakeward.format.log.data_block import read_parquet_footer, read_parquet_rows
from lakeward.format.log.delete_block import DELETE_BLOCK_VERSION, DeletedKeys, read_delete_block, wrapper_of
from lakeward.format.log.log_tail import LogTailBuilder
from lakeward.format.log.native_log.data_file import AscendingKeys, NativeLogStats, PositionsOfRows
from lakeward.format.log.native_log.footer import NativeLogFooter, encode_footer
from lakeward.format.log.native_log.native_log_file import NativeLog, file_as_block
from lakeward.format.log.native_log.plain_rows import ROW_GROUP_BYTES, PlainRowsWriter
from lakeward.format.parquet.batches import BATCH_BYTES_MAX, BATCH_ROWS

_KEY = pa.field("_hoodie_record_key", pa.string(), nullable=False)
_EARLY_KEY = "record_key"
_EARLY_ORDERING = "ordering_val"


def delete_schema(schema_json: str, ordering_fields: Sequence[str]) -> pa.Schema:
    """The columns of a file of deletes, by the schema of the table's rows. Raises `Unsupported` for a nested field.

    Args:
        ordering_fields: in the table's order; none where rows are merged by commit time.
    """
    rows = block_schema(schema_json, where="the native log")
    for field in ordering_fields:
        if rows.get_field_index(field) < 0:
            raise Unsupported(
                f"The ordering field {field} cannot order deletes in native logs.",
                why="It is no column of the table; fields inside of others are none, and Hudi fails on them, too.",
                remedy="Order the table by a column, or leave it on a table version below 10.",
            )
    return pa.schema([_KEY, *[pa.field(field, rows.field(field).type) for field in ordering_fields]])


class NativeDeleteWriter:
    """Writes one log of deletes. Close it, or the sink holds no file. A context manager, as `PlainRowsWriter` is."""

    def __init__(
        self,
        sink: BinaryIO,
        *,
        footer: NativeLogFooter,
        ordering_fields: Sequence[str],
        positions_in: str | None = None,
        codec: str = "zstd",
        row_group_bytes: int = ROW_GROUP_BYTES,
        tail: LogTailBuilder | None = None,
    ) -> None:
        """
        Args:
            footer: without positions. Its schema is that of the table's rows, and in a partial file it must have the
                ordering fields.
            ordering_fields: of the table; none where rows are merged by commit time.
            positions_in: as in `NativeDataWriter`.
            tail: as in `NativeDataWriter`.
        """
        self._footer = footer
        self._tail = tail
        self._schema = delete_schema(footer.schema_json, ordering_fields)
        self._order = AscendingKeys()
        self._positions = PositionsOfRows(positions_in)
        self._writer = PlainRowsWriter(sink, self._schema, codec=codec, row_group_bytes=row_group_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, traceback)

    def write(self, keys: pa.Array, ordering: pa.Array | None, positions: npt.NDArray[np.int64] | None = None) -> None:
        """Append deletes.

        Args:
            ordering: values of the ordering column, structs of several; null for the default, None where all have it.
        """
        self._order.add(keys)
        if self._tail is not None:
            self._tail.add(keys)
        self._positions.add(positions, len(keys))
        columns = [keys.cast(pa.string()), *self._columns(ordering, len(keys))]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def estimate_size(self) -> int:
        """No fewer bytes than the file would have if it were closed now, its footer left out."""
        return self._writer.estimate_size()

    def close(self) -> NativeLogStats:
        """Write what is left, then the footer. The sink stays open, since it is the caller's."""
        entries = encode_footer(replace(self._footer, positions=self._positions.found))
        if self._tail is not None:
            entries |= self._tail.close_as_entry(bytes_before=self._writer.end_rows())
        return NativeLogStats(self._writer.rows, self._writer.close(entries))

    def _columns(self, ordering: pa.Array | None, rows: int) -> list[pa.Array]:
        kinds = self._schema.types[1:]
        if len(kinds) < 2:
            return [pa.nulls(rows, kind) if ordering is None else ordering.cast(kind) for kind in kinds]
        values = None if ordering is None else ordering.flatten()
        if values is None or any(each.null_count for each in values):
            raise Unsupported(
                f"A delete without values of {', '.join(self._schema.names[1:])} cannot be written into a native log.",
                why="Hudi reads it as one that has 0 in each of these fields.",
                remedy="Compact this file group with --type full.",
            )
        return [each.cast(kind) for each, kind in zip(values, kinds, strict=True)]


def read_native_deletes(
    file: BinaryIO,
    log: NativeLog,
    ordering: pa.Schema,
    *,
    batch_rows: int = BATCH_ROWS,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[DeletedKeys]:
    """All deletes of an open log, batch by batch, as those of a delete block. Raises `BrokenFile` and `Unsupported`.

    Args:
        ordering: the ordering columns as the table has them today; none where rows are merged by commit time.
        bytes_max: no batch takes more when it is decoded; a delete that does is `Unsupported`.
    """
    assert log.block.type is BlockType.DELETE
    where = log.block.file
    if log.name.format == HFILE:
        for entries in HFileReader(file, length=log.block.content_length, name=where).scan():
            yield _unordered(_text(entries.keys.view(pa.string()), where))
        return
    block = replace(log.block, type=BlockType.PARQUET_DATA)
    columns = read_parquet_footer(file, block).columns
    is_early = _KEY.name not in columns and _EARLY_KEY in columns
    if not is_early and _KEY.name not in columns:
        raise _broken(where, f"it has no column {_KEY.name}")
    schema = pa.schema([_KEY.with_nullable(True), *[pa.field(each.name, each.type) for each in ordering]])
    if is_early:
        schema = pa.schema([pa.field(_EARLY_KEY, pa.string()), pa.field(_EARLY_ORDERING, pa.binary())])
    before = 0
    for batch in read_parquet_rows(file, block, schema, batch_rows=batch_rows, bytes_max=bytes_max):
        keys = _text(batch.column(0), where)
        if keys.null_count:
            raise _broken(where, f"one of the deletes from the number {before} on has no key")
        if is_early:
            yield _early_deletes(keys, batch.column(1), where, before)
        else:
            yield _deletes(keys, batch.columns[1:], ordering.names, where, before)
        before += len(keys)


def _deletes(
    keys: pa.StringArray, values: Sequence[pa.Array], names: Sequence[str], where: str, before: int
) -> DeletedKeys:
    if not values or all(column.null_count == len(keys) for column in values):
        return _unordered(keys)
    wrappers = tuple(wrapper_of(column.type) for column in values)
    is_null = [column.is_null().to_numpy(zero_copy_only=False) for column in values]
    is_default = np.logical_and.reduce(is_null)
    if len(values) == 1:
        (column,) = values
        if wrappers == ("IntWrapper",):
            is_default = is_default | (column.fill_null(0).to_numpy(zero_copy_only=False) == 0)
            if is_default.all():
                return _unordered(keys)
            column = pa.array(column.fill_null(0).to_numpy(zero_copy_only=False), column.type, mask=is_default)
        return DeletedKeys(keys, column, is_default, wrappers)
    has_some = np.logical_or.reduce(is_null) & ~is_default
    if has_some.any():
        raise Unsupported(
            f"Delete {before + int(np.argmax(has_some))} of the native log {where} lacks a value in at least one of "
            f"{', '.join(names)}.",
            why="Hudi takes a 0 for it there, of a class that it may not be able to compare.",
            remedy="Roll back the commit that wrote it, and delete the row by its key alone.",
        )
    ordering = pa.StructArray.from_arrays(list(values), list(names), mask=pa.array(is_default))
    return DeletedKeys(keys, ordering, is_default, wrappers)


def _early_deletes(keys: pa.StringArray, values: pa.Array, where: str, before: int) -> DeletedKeys:
    """Deletes whose ordering value is bytes: what a delete block with the same keys and bytes would hold."""
    count = len(keys)
    null = write_number(0)
    parts = [write_number(count)]
    for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
        text = key.encode()
        # Key and partition path are unions with null; so is the value, whose bytes begin with its branch.
        parts += [write_number(1), write_number(len(text)), text, write_number(0), null if value is None else value]
    avro = b"".join([*parts, write_number(0)])
    content = struct.pack(">ii", DELETE_BLOCK_VERSION, len(avro)) + avro
    block = file_as_block(BlockType.DELETE, len(content), f"{where}, deletes from the number {before} on")
    found = list(read_delete_block(io.BytesIO(content), block, window_bytes=len(content)))
    # Bytes that are more or less than one value would move the keys that are behind them.
    if len(found) != 1 or not found[0].keys.equals(keys):
        raise _broken(where, f"an {_EARLY_ORDERING} of the deletes from the number {before} on is not one value")
    return found[0]


def _unordered(keys: pa.StringArray) -> DeletedKeys:
    return DeletedKeys(keys, None, np.ones(len(keys), dtype=np.bool_), ())


def _text(keys: pa.StringArray, where: str) -> pa.StringArray:
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as invalid:
        raise _broken(where, f"a key is not UTF-8 text: {invalid}") from None
    return keys


def _broken(where: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The native log {where} is broken.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Restore the file, or roll back the commit that wrote it.",
    )
