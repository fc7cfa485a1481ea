"""Native logs of changes: what `change_log.py` writes as blocks of an inline log, as the rows of one Parquet file.

The columns are those of the table's supplemental logging mode. There is no entry of the footer: name and mode say all.

Touches: the sink it is given, by appending; the file it is given, by seeking and reading.
Keeps:   1. what is read is what was written;
         2. memory is bounded by a row group of changes, or one change that is larger.
Source:  HoodieAvroNativeCDCLogger, HoodieCDCNativeLogRecordIterator (Hudi's master of July 2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.schema import block_schema
from lakeward.format.file_name import PARQUET, NativeLogKind, NativeLogName
from lakeward.format.log.block import BlockType
from lakeward.format.log.change_log import ChangedRows, change_records, change_schema
from lakeward.format.log.data_block import read_parquet_footer, read_parquet_rows
from lakeward.format.log.native_log.data_file import NativeLogStats
from lakeward.format.log.native_log.native_log_file import file_as_block, unknown_format
from lakeward.format.log.native_log.plain_rows import ROW_GROUP_BYTES, PlainRowsWriter
from lakeward.format.parquet.batches import BATCH_BYTES_MAX
from lakeward.format.supplemental_logging import SupplementalLogging


def native_change_schema(mode: SupplementalLogging, table_schema_json: str) -> pa.Schema:
    """The columns of the file."""
    rows = block_schema(change_schema(mode, table_schema_json), where="the log of changes")
    return pa.schema([pa.field(column.name, column.type) for column in rows])


class NativeChangeWriter:
    """Writes one log of changes. Close it, or the sink holds no file. A context manager, as `PlainRowsWriter` is."""

    def __init__(
        self,
        sink: BinaryIO,
        *,
        mode: SupplementalLogging,
        instant: str,
        table_schema_json: str,
        codec: str = "zstd",
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        """
        Args:
            instant: of the commit or compaction whose changes these are.
            row_group_bytes: more does not wait for the end of a row group.
        """
        self._instant = instant
        self.schema = native_change_schema(mode, table_schema_json)
        self._writer = PlainRowsWriter(sink, self.schema, codec=codec, row_group_bytes=row_group_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, traceback)

    def write(self, changes: ChangedRows) -> pa.RecordBatch:
        """Append changes; the records that they became."""
        records = change_records(changes, self.schema, instant=self._instant)
        self._writer.write(records)
        return records

    def close(self) -> NativeLogStats:
        """Write what is left. The sink stays open, since it is the caller's."""
        size = self._writer.close()
        return NativeLogStats(self._writer.rows, size)


def read_native_changes(
    file: BinaryIO,
    size: int,
    name: NativeLogName,
    *,
    mode: SupplementalLogging,
    table_schema_json: str,
    where: str,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """The records of a log of changes. Raises `BrokenFile` and `Unsupported`.

    Args:
        mode: the table's; a file of another one lacks a column of it.
    """
    assert name.kind is NativeLogKind.CHANGES
    if name.format != PARQUET:
        raise unknown_format(name, where)
    schema = native_change_schema(mode, table_schema_json)
    block = file_as_block(BlockType.PARQUET_DATA, size, where)
    columns = read_parquet_footer(file, block).columns
    if missing := [column for column in schema.names if column not in columns]:
        raise BrokenFile(
            f"The native log {where} is no log of changes in the mode {mode}.",
            why=f"It has no column {' and none '.join(missing)}.",
            remedy="Find out which writer made it, or in which mode it captured changes.",
        )
    yield from read_parquet_rows(file, block, schema, bytes_max=bytes_max)
