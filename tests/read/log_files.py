"""Log files laid out by hand, for tests of what is read from them."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro

from lakeward.format.log.block import BlockType, HeaderKey

TABLE_SCHEMA = {
    "type": "record",
    "name": "t",
    "fields": [
        {"name": "id", "type": ["null", "string"], "default": None},
        {"name": "ts", "type": ["null", "long"], "default": None},
        {"name": "v", "type": ["null", "string"], "default": None},
    ],
}
META = [
    {"name": name, "type": ["null", "string"], "default": None}
    for name in (
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    )
]
BLOCK_SCHEMA = {**TABLE_SCHEMA, "fields": [*META, *TABLE_SCHEMA["fields"]]}
_LONG = {"type": "record", "name": "LongWrapper", "fields": [{"name": "value", "type": "long"}]}
# The union's branches are numbered, so those between null and long must be there.
_UNION = ["null", "boolean", "int", _LONG]
_DELETES = {
    "type": "record",
    "name": "l",
    "fields": [
        {
            "name": "deleteRecordList",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "d",
                    "fields": [
                        {"name": "recordKey", "type": ["null", "string"]},
                        {"name": "partitionPath", "type": ["null", "string"]},
                        {"name": "orderingVal", "type": _UNION},
                    ],
                },
            },
        }
    ],
}


def row(key: str, ts: int | None, v: str, *, instant: str = "100") -> dict[str, Any]:
    meta = (instant, f"{instant}_0_{key}", key, "", "file-id")  # files lie directly in the base path
    return dict(zip([field["name"] for field in META], meta, strict=True)) | {"id": key, "ts": ts, "v": v}


def block(kind: BlockType, headers: dict[HeaderKey, str], content: bytes = b"") -> bytes:
    body = struct.pack(">iii", 1, kind, len(headers))
    for key, value in headers.items():
        body += struct.pack(">ii", key, len(value.encode())) + value.encode()
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def data_block(
    instant: str, rows: list[dict[str, Any]], *, schema_json: dict[str, Any] = BLOCK_SCHEMA, **more: str
) -> bytes:
    """An Avro data block. `more` are further headers by name."""
    schema = fastavro.parse_schema(schema_json)
    content = struct.pack(">ii", 3, len(rows))
    for one in rows:
        record = io.BytesIO()
        fastavro.schemaless_writer(record, schema, {**one, "_hoodie_commit_time": instant})
        content += struct.pack(">i", len(record.getvalue())) + record.getvalue()
    headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: json.dumps(schema_json)}
    return block(BlockType.AVRO_DATA, headers | {HeaderKey[name]: value for name, value in more.items()}, content)


def delete_block(instant: str, deletes: list[tuple[str, int | None]], *, version: int = 3, **more: str) -> bytes:
    """Deletes as (key, ordering value or None)."""
    records = [
        {"recordKey": key, "partitionPath": "p", "orderingVal": None if value is None else {"value": value}}
        for key, value in deletes
    ]
    avro = io.BytesIO()
    fastavro.schemaless_writer(avro, fastavro.parse_schema(_DELETES), {"deleteRecordList": records})
    content = struct.pack(">ii", version, len(avro.getvalue())) + avro.getvalue()
    headers = {HeaderKey.INSTANT_TIME: instant} | {HeaderKey[name]: value for name, value in more.items()}
    return block(BlockType.DELETE, headers, content)


def rollback_block(instant: str, target: str) -> bytes:
    return block(
        BlockType.COMMAND,
        {
            HeaderKey.INSTANT_TIME: instant,
            HeaderKey.TARGET_INSTANT_TIME: target,
            HeaderKey.COMMAND_BLOCK_TYPE: "0",
        },
    )
