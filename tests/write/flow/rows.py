"""Rows that go through a flow, and the table that they go into: a folder, without any commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.avro.schema_text import schema_text
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.table.table_config import TableConfig
from lakeward.write.flow.row_keys import Keying
from lakeward.write.keys.key_generator import key_generator
from lakeward.write.request import FileSizes, WriteOperation
from lakeward.write.target import WriteContext

INSTANT = "20260101000000000"
COLUMNS = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
SCHEMA = schema_text(COLUMNS, "t")


def rows(*of: tuple[str, str, int, str]) -> pa.RecordBatch:
    """Rows of (id, part, ts, v)."""
    return pa.RecordBatch.from_pylist([dict(zip(COLUMNS.names, each, strict=True)) for each in of], COLUMNS)


def keying(*, carries_columns: bool = True) -> Keying:
    properties = {
        "hoodie.table.version": "9",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.keygenerator.type": "SIMPLE",
    }
    return Keying(key_generator(TableConfig(properties)), SCHEMA, carries_columns)


def context(base: Path, *, operation: WriteOperation = WriteOperation.UPSERT, **fields: object) -> WriteContext:
    folder = base / ".hoodie" / ".lakeward-attempt"
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "base_path": str(base),
        "instant": INSTANT,
        "attempt": 1,
        "attempt_folder": str(folder),
        "operation": operation,
        "schema": SCHEMA,
        "rules": MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",)),
        "deduplicates": operation.deduplicates,
        "indexed": None,
        "sizes": FileSizes(),
        "codec": "zstd",
        "verify": True,
        "wants_keys": False,
    }
    return WriteContext(**(values | fields))


def written(base: Path) -> dict[str, list[tuple[str, str]]]:
    """What there is in the base files of the attempt, by name: (key, v) in the order of the file."""
    return {
        path.name: [(row["_hoodie_record_key"], row["v"]) for row in pq.read_table(path, partitioning=None).to_pylist()]
        for path in sorted(base.rglob("*.parquet"))
    }
