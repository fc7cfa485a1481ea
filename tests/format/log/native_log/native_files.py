"""Native logs for tests: a small table, its schema, and files of its rows and deletes in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakeward.format.avro.schema import table_schema
from lakeward.format.file_name import NativeLogKind, NativeLogName
from lakeward.format.log.log_writer import log_block_schema
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.delete_file import NativeDeleteWriter
from lakeward.format.log.native_log.footer import NativeLogFooter

FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"
INSTANT = "20261122003000000"
TABLE = {
    "type": "record",
    "name": "t_record",
    "namespace": "hoodie.t",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "ts", "type": ["null", "long"], "default": None},
        {"name": "n", "type": ["null", "int"], "default": None},
        {"name": "v", "type": ["null", "string"], "default": None},
    ],
}
TABLE_JSON = json.dumps(TABLE)
SCHEMA = table_schema(TABLE_JSON)
FOOTER = NativeLogFooter(INSTANT, log_block_schema(TABLE_JSON))


def native_name(kind: NativeLogKind = NativeLogKind.DATA, **more: Any) -> NativeLogName:
    parts = {"file_id": FILE_ID, "write_token": "0-15-11", "instant": INSTANT, "version": 1, **more}
    return NativeLogName(kind=kind, **parts)


def row(key: str, ts: int | None = 1, v: str = "", n: int | None = None) -> dict[str, Any]:
    return {
        "_hoodie_commit_time": INSTANT,
        "_hoodie_commit_seqno": f"{INSTANT}_0_0",
        "_hoodie_record_key": key,
        "_hoodie_partition_path": "p",
        "_hoodie_file_name": "to be replaced",
        "id": key,
        "ts": ts,
        "n": n,
        "v": v,
    }


def data_file(
    rows: Sequence[dict[str, Any]],
    footer: NativeLogFooter = FOOTER,
    positions: Sequence[int] | None = None,
    **more: Any,
) -> bytes:
    sink = io.BytesIO()
    with NativeDataWriter(sink, SCHEMA, file_id=FILE_ID, footer=footer, **more) as writer:
        for start in range(0, len(rows), 3):
            part = pa.RecordBatch.from_pylist(list(rows[start : start + 3]), SCHEMA)
            writer.write(part, None if positions is None else np.array(positions[start : start + 3], dtype=np.int64))
        stats = writer.close()
    assert (stats.rows, stats.size_bytes) == (len(rows), len(sink.getvalue()))
    return sink.getvalue()


def delete_file(
    keys: Sequence[str],
    ordering: pa.Array | None,
    fields: Sequence[str],
    footer: NativeLogFooter = FOOTER,
    positions: Sequence[int] | None = None,
    **more: Any,
) -> bytes:
    sink = io.BytesIO()
    writer = NativeDeleteWriter(sink, footer=footer, ordering_fields=fields, **more)
    writer.write(pa.array(keys, pa.string()), ordering, None if positions is None else np.array(positions, np.int64))
    stats = writer.close()
    assert (stats.rows, stats.size_bytes) == (len(keys), len(sink.getvalue()))
    return sink.getvalue()
