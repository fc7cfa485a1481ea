"""Write the log of changes (`.cdc`) that stands beside a base file: what happened to each key that was changed.

It is an inline log file whose blocks are of type CDC. Their content is that of an Avro data block, in a schema that the
table's supplemental logging mode says (`format/supplemental_logging.py`):

    OP_KEY_ONLY         op, record_key
    DATA_BEFORE         op, record_key, before
    DATA_BEFORE_AFTER   op, ts_ms, before, after

`op` is `i`, `u` or `d`, `ts_ms` the instant of the compaction as text; `before` and `after` are the row without its
meta columns, null where there is none.

Touches: the sink it is given, by appending; it is never read or closed. The file that is read back, by reading.
Keeps:   1. what `read_changes` makes of the file is what was written;
         2. there is a block even where nothing was changed, as in Hudi's;
         3. memory is bounded by one block and the rows that are added to it.
Source:  HoodieCDCLogger, HoodieCDCUtils (Hudi 1.2); bytes that it wrote are a fixture of the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO

import pyarrow as pa

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import block_schema
from lakeward.format.log.block import BlockType, CorruptBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.log_writer import LogFileStats, LogFileWriter
from lakeward.format.supplemental_logging import SupplementalLogging

_KEY = "_hoodie_record_key"
_OPERATION_AND_KEY = [{"name": name, "type": ["string", "null"]} for name in ("op", "record_key")]


class ChangeOperation(StrEnum):
    """What happened to a key. The values are those of `op`."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of as many keys to which the same happened; what lies at one place is of one key."""

    operation: ChangeOperation
    before: pa.RecordBatch | None
    """None for inserts."""
    after: pa.RecordBatch | None
    """None for deletes."""

    @property
    def keys(self) -> pa.Array:
        batch = self.after if self.before is None else self.before
        assert batch is not None, "a change has a row on one side at least"
        return batch.column(_KEY)


def change_schema(mode: SupplementalLogging, table_schema_json: str) -> str:
    """The schema header of the blocks: Avro JSON, as Hudi makes it of the table's schema."""
    if mode is SupplementalLogging.OP_KEY_ONLY:
        return _to_json({"type": "record", "name": "Record", "fields": _OPERATION_AND_KEY})
    row = json.loads(table_schema_json)
    row["fields"] = [column for column in row["fields"] if column["name"] not in META_COLUMNS]
    namespace = row.pop("namespace", "")  # the record around it has it, and names without one are in it
    fields = [_nullable("op", "string")]
    if mode is SupplementalLogging.DATA_BEFORE:
        fields += [_nullable("record_key", "string"), _nullable("before", row)]
    else:
        fields += [_nullable("ts_ms", "string"), _nullable("before", row), _nullable("after", row["name"])]
    return _to_json({"type": "record", "name": "CDC", "namespace": namespace, "doc": "", "fields": fields})


class ChangeLogWriter:
    """Writes one log of changes. Close it, or the changes that wait for their block are lost."""

    def __init__(
        self,
        sink: BinaryIO,
        *,
        mode: SupplementalLogging,
        instant: str,
        table_schema_json: str,
        block_bytes: int,
    ) -> None:
        """
        Args:
            instant: of the compaction.
        """
        schema_json = change_schema(mode, table_schema_json)
        self._instant = instant
        self.schema = block_schema(schema_json, where="the log of changes")
        """The schema of the records, as `write` returns them."""
        self._writer = LogFileWriter(
            sink,
            self.schema,
            instant=instant,
            schema_json=schema_json,
            block_type=BlockType.CDC_DATA,
            block_bytes=block_bytes,
        )

    def write(self, changes: ChangedRows) -> pa.RecordBatch:
        """Append changes; the records that they became. Raises `Unsupported` for a row that cannot be encoded."""
        records = change_records(changes, self.schema, instant=self._instant)
        self._writer.write(records)
        return records

    def close(self) -> LogFileStats:
        return self._writer.close()


def change_records(changes: ChangedRows, schema: pa.Schema, *, instant: str) -> pa.RecordBatch:
    """The records that changes of the instant become, in the columns of the table's mode."""
    count = len(changes.keys)
    columns: dict[str, Any] = {
        "op": lambda _: pa.repeat(str(changes.operation), count),
        "ts_ms": lambda _: pa.repeat(instant, count),
        "record_key": lambda kind: _plain(changes.keys, kind),
        "before": lambda kind: _image(changes.before, kind, count),
        "after": lambda kind: _image(changes.after, kind, count),
    }
    return pa.RecordBatch.from_arrays([columns[field.name](field.type) for field in schema], schema=schema)


def read_changes(file: BinaryIO, size: int, *, name: str) -> Iterator[pa.RecordBatch]:
    """The records of a log of changes. Raises `BrokenFile`."""
    for block in scan_blocks(file, size, name=name):
        if isinstance(block, CorruptBlock) or block.type is not BlockType.CDC_DATA:
            raise BrokenFile(f"{name} holds something else than blocks of changes, from byte {block.offset} on.")
        yield from read_data_block(file, block)


def _image(batch: pa.RecordBatch | None, kind: pa.StructType, count: int) -> pa.Array:
    """Rows as one column of records."""
    if batch is None:
        return pa.nulls(count, kind)
    return pa.StructArray.from_arrays(
        [_plain(batch.column(column.name), column.type) for column in kind], fields=list(kind)
    )


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Rows of a merge may come with dictionaries."""
    return column if column.type == kind else column.cast(kind)


def _nullable(name: str, avro_type: object) -> dict[str, object]:
    return {"name": name, "type": ["null", avro_type], "doc": "", "default": None}


def _to_json(schema: object) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
