"""Write an inline log file (format version 1): rows and deletes in, blocks out. `format/log/block.py` has the layout.

The length of a block stands in front of it, so a block is encoded whole before it is written, and rows are cut
into as many blocks as it takes to keep each near `BLOCK_BYTES`. Data goes into Avro or Parquet blocks in the schema of
the header, records of changes into CDC blocks, which are made like Avro blocks; deletes go into delete blocks of
version 3, one for each class of ordering value, because hudi-rs refuses a block that mixes them.

Touches: the sink it is given, by appending; it is never read or closed.
Keeps:   1. every block carries all headers of the writer, so whichever is read first speaks for the file;
         2. memory is bounded by one block and the batch that is added to it; with a tail by two of half the size;
         3. what `read_data_block` and `read_delete_block` make of the file is what was given;
         4. a tail has the keys of every block.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.named_key import named_key
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.encoder import UnwritableRecord, encode_records
from lakeward.format.avro.program import compile_schema
from lakeward.format.avro.schema import parse_schema
from lakeward.format.log.block import FORMAT_VERSION, MAGIC, BlockType, HeaderKey
from lakeward.format.log.delete_block import encode_deletes, no_deletes
from lakeward.format.log.log_tail import LogTailBuilder
from lakeward.format.parquet.parquet_writer import open_writer, repeated_columns, values_of_a_page

BLOCK_BYTES = 64 * 1024 * 1024
"""Content of one block, about; a single row may be larger."""

AVRO_BLOCK_VERSION = 3
BLOCK_END_BYTES = 4 + 8
"""Footer count and the way back."""
_ROWS_AT_ONCE = 16_384
_ROW_GROUP_ROWS = 122_880
_VALUES_AT_ONCE_MAX = 1_024


@dataclass(frozen=True, slots=True)
class LogFileStats:
    """What was written."""

    rows: int
    deletes: int
    blocks: int
    size_bytes: int


def log_block_schema(table_schema_json: str) -> str:
    """The schema header of a block: the table's schema (as commits carry it) with the meta columns in front."""
    schema = json.loads(table_schema_json)
    columns = [column for column in schema["fields"] if column["name"] not in META_COLUMNS]
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]
    return json.dumps({**schema, "fields": [*meta, *columns]}, separators=(",", ":"), ensure_ascii=False)


class LogFileWriter:
    """Writes one log file. Close it, or the rows that wait for their block are lost."""

    def __init__(
        self,
        sink: BinaryIO,
        schema: pa.Schema,
        *,
        instant: str,
        schema_json: str,
        block_type: BlockType,
        headers: Mapping[HeaderKey, str] | None = None,
        codec: str = "zstd",
        block_bytes: int = BLOCK_BYTES,
        remedy: str = "Compact this file group with --type full.",
        tail: LogTailBuilder | None = None,
    ) -> None:
        """
        Args:
            schema: of every batch: the meta columns, then those of the table, or that of records of changes. For
                Parquet blocks strings may come in dictionaries.
            schema_json: the same in Avro, from `log_block_schema` or `change_schema`.
            block_type: of the data blocks: Avro, Parquet or CDC.
            headers: of every block, beside instant and schema.
            codec: of Parquet blocks; Avro blocks are not compressed.
            remedy: what can be done about a row that a block cannot hold.
            tail: gets the keys, and is written behind the records of the last block, or of an empty block of deletes
                behind Parquet, whose end is its footer; for rows that carry their keys.
        """
        assert block_type in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.CDC_DATA)
        assert tail is None or block_type is not BlockType.CDC_DATA
        self._sink = sink
        self._block_type = block_type
        self._headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema_json, **(headers or {})}
        self._codec = codec
        self._tail = tail
        self._held: tuple[BlockType, list[bytes]] | None = None
        """The block that is the last one until another comes, where it will get the tail."""
        self._block_bytes = block_bytes if tail is None else max(1, block_bytes // 2)
        self._remedy = remedy
        self._program = compile_schema(parse_schema(schema_json, where="the log block"))
        # The schema without its nullability, which Avro's and Arrow's say differently; names and types must agree.
        self._schema = pa.schema([pa.field(column.name, column.type) for column in schema])
        kinds = [
            kind.value_type if pa.types.is_dictionary(kind) and block_type is BlockType.PARQUET_DATA else kind
            for kind in schema.types
        ]
        assert self._program.schema.names == schema.names and self._program.schema.types == kinds
        self._repeated: list[str] | None = None
        """The columns with a dictionary, by the first block."""
        self._pending: list[Any] = []  # encoded records, or batches for Parquet
        self._pending_bytes = 0
        self._pending_rows = 0
        self._rows = 0
        self._deletes = 0
        self._blocks = 0
        self._size = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. Raises `Unsupported` for a row that the Avro schema cannot encode."""
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            if self._block_type is BlockType.PARQUET_DATA:
                self._add_parquet(part)
            else:
                self._add_avro(part)
        if self._tail is not None:
            self._tail.add(batch.column(batch.schema.get_field_index("_hoodie_record_key")))
        self._rows += batch.num_rows

    def write_deletes(self, keys: pa.Array, ordering: pa.Array | None, *, partition_path: str) -> None:
        """Append deletes of the partition: `ordering` as values of the ordering column, null (or None) for the default.

        Deletes and rows of one file must not share a key; then their order does not matter to any reader.
        """
        self._flush()
        for content in encode_deletes(keys, ordering, partition_path=partition_path, bytes_max=self._block_bytes):
            self._add_block(BlockType.DELETE, [content])
        if self._tail is not None:
            self._tail.add(keys)
        self._deletes += len(keys)

    def close(self) -> LogFileStats:
        """Write what is left. The sink stays open, since it is the caller's."""
        self._flush()
        if self._block_type is BlockType.CDC_DATA and not self._blocks:
            self._write_records()  # Hudi's logger of changes flushes what it has at its end, also nothing
        if self._tail is not None and self._held is not None:
            if self._held[0] is BlockType.PARQUET_DATA:
                self._add_block(BlockType.DELETE, [no_deletes()])
            kind, content = self._held
            length = sum(len(part) for part in content)
            size = self._size + len(block_head(kind, self._headers, length)) + length + BLOCK_END_BYTES
            self._write_block(kind, [*content, self._tail.close(file_bytes=size, blocks=self._blocks + 1)])
        return LogFileStats(rows=self._rows, deletes=self._deletes, blocks=self._blocks, size_bytes=self._size)

    def _add_avro(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            try:
                encoded = encode_records(self._program, batch, bytes_max=self._block_bytes)
            except UnwritableRecord as bad:
                raise self._unwritable(batch, bad) from None
            if self._pending and self._pending_bytes + len(encoded.data) > self._block_bytes:
                self._flush()
            self._pending.append(encoded.data)
            self._pending_bytes += len(encoded.data)
            self._pending_rows += encoded.records
            batch = batch.slice(encoded.records)

    def _add_parquet(self, batch: pa.RecordBatch) -> None:
        # Encoded, rows are about as large or smaller; half of the slice's rows at a time until they fit.
        if batch.num_rows > 1 and batch.nbytes > self._block_bytes:
            half = batch.num_rows // 2
            self._add_parquet(batch.slice(0, half))
            self._add_parquet(batch.slice(half))
            return
        if self._pending and self._pending_bytes + batch.nbytes > self._block_bytes:
            self._flush()
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        self._pending_rows += batch.num_rows

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._block_type is BlockType.PARQUET_DATA:
            self._add_block(BlockType.PARQUET_DATA, [self._as_parquet()])
        else:
            self._write_records()
        self._pending = []
        self._pending_bytes = 0
        self._pending_rows = 0

    def _write_records(self) -> None:
        self._add_block(self._block_type, [struct.pack(">ii", AVRO_BLOCK_VERSION, self._pending_rows), *self._pending])

    def _as_parquet(self) -> bytes:
        out = io.BytesIO()
        table = pa.Table.from_batches([batch.cast(self._schema) for batch in self._pending], schema=self._schema)
        # The library writes one dictionary for a row group; rows of a second one it would write plain.
        table = table.unify_dictionaries()
        at_once = min(_VALUES_AT_ONCE_MAX, values_of_a_page(self._pending_rows, self._pending_bytes))
        if self._repeated is None:
            self._repeated = repeated_columns(table)
        repeated = self._repeated
        with open_writer(out, self._schema, codec=self._codec, repeated=repeated, values_at_once=at_once) as writer:
            writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)
        return out.getvalue()

    def _add_block(self, kind: BlockType, content: list[bytes]) -> None:
        if self._tail is None:
            self._write_block(kind, content)
            return
        if self._held is not None:
            self._write_block(*self._held)
        self._held = kind, content

    def _write_block(self, kind: BlockType, content: list[bytes]) -> None:
        length = sum(len(part) for part in content)
        head = block_head(kind, self._headers, length)
        self._sink.write(head)
        for part in content:
            self._sink.write(part)
        self._sink.write(block_end(len(head) + length))
        self._blocks += 1
        self._size += len(head) + length + BLOCK_END_BYTES

    def _unwritable(self, batch: pa.RecordBatch, bad: UnwritableRecord) -> Unsupported:
        if self._block_type is BlockType.CDC_DATA:
            return Unsupported(
                f"The change {batch.slice(bad.row, 1).to_pylist()[0]!r:.300} cannot be written to a log of changes.",
                why=f"{bad.why[:1].upper()}{bad.why[1:]}.",
                remedy="Leave compaction of this table to Hudi.",
            )
        key = batch.column(batch.schema.get_field_index("_hoodie_record_key"))[bad.row].as_py()
        return Unsupported(
            f"The row with key {named_key(key)} cannot be written to a log.",
            why=f"{bad.why[:1].upper()}{bad.why[1:]}.",
            remedy=self._remedy,
        )


def block_head(kind: BlockType, headers: Mapping[HeaderKey, str], content_length: int) -> bytes:
    """All of a block that stands in front of its content."""
    entries = b""
    for key, text in headers.items():
        value = text.encode("utf-8")
        entries += struct.pack(">ii", key, len(value)) + value
    frame = 4 + 4 + 4 + len(entries) + 8 + content_length + BLOCK_END_BYTES
    return (
        MAGIC
        + struct.pack(">qiii", frame, FORMAT_VERSION, kind, len(headers))
        + entries
        + struct.pack(">q", content_length)
    )


def block_end(length: int) -> bytes:
    """All of a block that follows its content, with so many bytes up to there: no footer entries, then the way back to
    the block's start for readers that come from the end."""
    return struct.pack(">iq", 0, length + BLOCK_END_BYTES - 8)
