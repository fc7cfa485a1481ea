"""Files of the archived timeline of layout 2 (`history`): rows of instants, as Parquet.

With Arrow: a daemon that watches tables does without it until an archive is read.

Touches: nothing but the source it is given.
Keeps:   1. what is written decodes to the same rows, and by Hudi's reader too: the same columns, types and footer;
         2. a file with other columns, or rows of another version, is `Unsupported`, never read in part.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.timeline.history import HistoryRow
from lakeward.storage.storage import is_of_storage

_ROW_VERSION = 1
_ROWS_AT_ONCE = 64
_ROW_GROUP_BYTES = 16 * 1024 * 1024
"""About what a row group holds, uncompressed."""

_AVRO_STRING = {"type": "string", "avro.java.string": "String"}
_AVRO_SCHEMA = {
    "type": "record",
    "name": "HoodieLSMTimelineInstant",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "instantTime", "type": ["null", _AVRO_STRING], "default": None},
        {"name": "completionTime", "type": ["null", _AVRO_STRING], "default": None},
        {"name": "action", "type": ["null", _AVRO_STRING], "default": None},
        {"name": "metadata", "type": ["null", "bytes"], "default": None},
        {"name": "plan", "type": ["null", "bytes"], "default": None},
        {"name": "version", "type": "int", "default": 1},
    ],
}
_FOOTER = {"writer.model.name": "avro", "parquet.avro.schema": orjson.dumps(_AVRO_SCHEMA).decode()}


def encode_rows(rows: Iterable[HistoryRow]) -> bytes:
    """A whole file of these rows, which come by time; held in memory compressed."""
    schema, sink = _schema(), io.BytesIO()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="gzip",
        use_dictionary=False,
        # The least and greatest of contents would be as large as these.
        write_statistics=["instantTime", "completionTime", "action", "version"],
        store_schema=False,
        version="1.0",
    ) as writer:
        held: list[HistoryRow] = []
        held_bytes = 0
        for row in rows:
            held.append(row)
            held_bytes += len(row.metadata or b"") + len(row.plan or b"")
            if held_bytes >= _ROW_GROUP_BYTES:
                writer.write_table(_table(held, schema))
                held, held_bytes = [], 0
        if held:
            writer.write_table(_table(held, schema))
        writer.add_key_value_metadata(_FOOTER)
    return sink.getvalue()


def decode_rows(source: BinaryIO, *, path: str) -> Iterator[HistoryRow]:
    """The rows of a file in its order. Raises `BrokenFile` and `Unsupported`.

    Args:
        path: of the file, for messages.
    """
    try:
        file = pq.ParquetFile(source)
        if set(file.schema_arrow.names) != set(_schema().names):
            raise Unsupported(f"{path} has columns {file.schema_arrow.names}, which this release does not know.")
        for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=_schema().names):
            columns = [batch.column(name).to_pylist() for name in _schema().names]
            for time, completion_time, action, metadata, plan, version in zip(*columns, strict=True):
                if version != _ROW_VERSION:
                    raise Unsupported(f"{path} has rows of version {version}, which this release does not know.")
                yield HistoryRow(time, completion_time, action, metadata, plan)
    except (pa.ArrowException, OSError, ValueError) as error:
        if is_of_storage(error):
            raise
        raise BrokenFile(f"{path} is not a readable file of archived instants.", why=str(error)) from error


def _schema() -> pa.Schema:
    texts = [pa.field(name, pa.string()) for name in ("instantTime", "completionTime", "action")]
    contents = [pa.field(name, pa.binary()) for name in ("metadata", "plan")]
    return pa.schema([*texts, *contents, pa.field("version", pa.int32(), nullable=False)])


def _table(rows: Sequence[HistoryRow], schema: pa.Schema) -> pa.Table:
    columns: list[list[Any]] = [
        [row.time for row in rows],
        [row.completion_time for row in rows],
        [row.action for row in rows],
        [row.metadata for row in rows],
        [row.plan for row in rows],
        [_ROW_VERSION] * len(rows),
    ]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def read_times(
    source: BinaryIO,
    filters: list[tuple[str, str, object]] | None,
    *,
    path: str,
    with_plans: bool = False,
) -> list[tuple[str, str | None, str, bytes | None]]:
    """Time, completion time and action of the rows that pass, and what they had planned, if that is asked for. Raises
    `BrokenFile`."""
    columns = ["instantTime", "completionTime", "action", *(["plan"] if with_plans else [])]
    try:
        table = pq.read_table(source, columns=columns, filters=filters)
    except (pa.ArrowException, OSError, ValueError) as error:
        if is_of_storage(error):
            raise
        raise BrokenFile(f"{path} is not a readable file of archived instants.", why=str(error)) from error
    found = [table.column(name).to_pylist() for name in table.column_names]
    return list(zip(*found, *([] if with_plans else [[None] * table.num_rows]), strict=True))
