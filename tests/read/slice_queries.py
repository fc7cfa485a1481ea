"""Slices laid out by hand with small row groups, and reads of a part of them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.parquet.base_file import SORTED_BY_KEY
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeMode, MergeRules
from lakeward.read.file_slice import open_slice
from lakeward.read.query.slice_query import EVERYTHING, SliceQuery
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.read.log_files import BLOCK_SCHEMA, TABLE_SCHEMA, block

SCHEMA = json.dumps(TABLE_SCHEMA)
TABLE = table_schema(SCHEMA)
BASE = "fg_0-0-0_100.parquet"
EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
COMMIT = MergeRules(MergeMode.COMMIT_TIME_ORDERING, ("ts",))

Rows = list[dict[str, Any]]


def parquet(rows: Rows, group_rows: int, **metadata: str) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows, TABLE)
    pq.write_table(table.replace_schema_metadata(metadata), sink, row_group_size=group_rows)
    return sink.getvalue()


def parquet_block(instant: str, rows: Rows, group_rows: int) -> bytes:
    content = parquet([{**row, "_hoodie_commit_time": instant} for row in rows], group_rows)
    headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: json.dumps(BLOCK_SCHEMA)}
    return block(BlockType.PARQUET_DATA, headers, content)


def lay_out(
    folder: Path, base: Rows | None, logs: Sequence[bytes], *, rules: MergeRules = EVENT, group_rows: int = 1
) -> SliceInput:
    """A base file with row groups of so many rows, which says so where it is sorted, and a log for each block."""
    folder.mkdir(exist_ok=True)
    if base is not None:
        keys = [row[RECORD_KEY_FIELD].encode() for row in base]
        said = {SORTED_BY_KEY: RECORD_KEY_FIELD} if keys == sorted(keys) else {}
        (folder / BASE).write_bytes(parquet(base, group_rows, **said))
    names = [f".fg_{200 + number}.log.1_0-0-0" for number in range(len(logs))]
    for name, data in zip(names, logs, strict=True):
        (folder / name).write_bytes(data)
    return SliceInput(
        partition_path="",
        file_id="fg",
        base_file=None if base is None else BASE,
        log_files=tuple(names),
        base_path=str(folder),
        instant="999",
        schema=SCHEMA,
        rules=rules,
    )


def read(given: SliceInput, query: SliceQuery = EVERYTHING, storage: Storage | None = None) -> tuple[Rows, ReadMeter]:
    """The rows by their keys, and what was read for them."""
    with open_slice(storage or LocalStorage(), given, query=query) as merged:
        rows = [row for batch in merged.batches() for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row.get(RECORD_KEY_FIELD))), merged.meter
