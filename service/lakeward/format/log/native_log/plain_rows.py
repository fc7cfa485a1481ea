"""Rows that are no rows of the table, deletes and changes, as a Parquet file: batches in, row groups out.

Touches: the sink it is given, by appending; it is never read or closed.
Keeps:   1. what is held is a row group, bounded by rows and by bytes, and the batch that is added to it;
         2. the first row group says which columns repeat and how wide rows are, as in base files.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.parquet.base_file import ROW_GROUP_ROWS
from lakeward.format.parquet.counted_sink import CountedSink
from lakeward.format.parquet.parquet_writer import open_writer, repeated_columns, values_of_a_page

ROW_GROUP_BYTES = 16 * 1024 * 1024
_VALUES_AT_ONCE_MAX = 1_024


class PlainRowsWriter:
    """Writes one file. Close it, or the sink holds none. As a context manager it leaves a sink alone after an error."""

    def __init__(
        self, sink: BinaryIO, schema: pa.Schema, *, codec: str, row_group_bytes: int = ROW_GROUP_BYTES
    ) -> None:
        """
        Args:
            schema: of every batch; a column that is not nullable holds no null.
            row_group_bytes: more does not wait for the end of a row group.
        """
        self._sink = CountedSink(sink)
        self._stream = pa.PythonFile(self._sink, mode="w")
        self._schema = schema
        self._codec = codec
        self._row_group_bytes = row_group_bytes
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and self._writer is not None:
            # Or the library writes a footer when the object goes, to a sink that is closed by then.
            self._writer.is_open = False

    def write(self, batch: pa.RecordBatch) -> None:
        assert batch.schema.equals(self._schema), f"{batch.schema} is not {self._schema}"
        for start in range(0, batch.num_rows, ROW_GROUP_ROWS):
            self._add(batch.slice(start, ROW_GROUP_ROWS))

    def estimate_size(self) -> int:
        """No fewer bytes than the file would have if it were closed now, its footer left out."""
        return self._sink.position + self._pending_bytes

    def close(self, entries: Mapping[str, str] | None = None) -> int:
        """Write what is left, then the footer with these entries of key-value metadata; the size of the file."""
        self.end_rows()
        assert self._writer is not None
        self._writer.add_key_value_metadata(dict(entries or {}))
        self._writer.close()
        return self._sink.position

    def end_rows(self) -> int:
        """Write what is left of the rows; what lies in front of the footer then."""
        if self._pending or self._writer is None:
            self._flush()
        return self._sink.position

    def _add(self, batch: pa.RecordBatch) -> None:
        # Half of the rows at a time until they fit; a row that does not has a row group of its own.
        if batch.num_rows > 1 and batch.nbytes > self._row_group_bytes:
            half = batch.num_rows // 2
            self._add(batch.slice(0, half))
            self._add(batch.slice(half))
            return
        is_full = self._pending_bytes + batch.nbytes > self._row_group_bytes
        if self._pending and (is_full or self._pending_rows + batch.num_rows > ROW_GROUP_ROWS):
            self._flush()
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        self.rows += batch.num_rows

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._pending, schema=self._schema)
        if self._writer is None:
            at_once = min(_VALUES_AT_ONCE_MAX, values_of_a_page(self._pending_rows, self._pending_bytes))
            self._writer = open_writer(
                self._stream, self._schema, codec=self._codec, repeated=_repeated(table), values_at_once=at_once
            )
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0


def _repeated(table: pa.Table) -> list[str]:
    names = set(table.schema.names)
    return [name for name in repeated_columns(table) if name in names]
