"""Avro object container files of exactly one record, which is what Hudi keeps on its timeline.

    header: magic `Obj` 1, metadata map, sync marker | block: count 1, length, record, sync marker

Written without codec and with `avro.schema` as the only metadata, as Hudi does. The sync marker is a digest of the
record, so that equal records give equal files.

Touches: nothing.
Keeps:   1. a file that is cut short, or holds more or less than one record, is a `BrokenFile`, never half a record;
         2. a schema under which few bytes could claim endless memory or stack is refused before anything is decoded:
            fastavro ends the process on a deeply recursive record, and fills the memory with an array of nulls.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from hashlib import blake2b
from itertools import islice
from typing import Any

import fastavro
import orjson

from lakeward.errors import BrokenFile

MAGIC = b"Obj\x01"

_CODECS = ("null", "deflate")
_SCHEMA_DEPTH_MAX = 32
_SYNC = {"type": "fixed", "name": "Sync", "size": 16}
_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(MAGIC)}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": _SYNC},
    ],
}
_BLOCK = {
    "type": "record",
    "name": "Block",
    "fields": [
        {"name": "count", "type": "long"},
        {"name": "records", "type": "bytes"},
        {"name": "sync", "type": _SYNC},
    ],
}


def read_record(data: bytes, *, file: str) -> dict[str, Any]:
    """The one record of the container `data`; `file` names it in errors. Raises `BrokenFile`."""
    try:
        reader = fastavro.reader(io.BytesIO(data))
        codec = reader.metadata.get("avro.codec", "null")
        if codec not in _CODECS:
            raise ValueError(f"Its codec is {codec!r}.")
        _check_schema(reader.writer_schema, open_records=(), depth=0)
        records = list(islice(reader, 2))
    # Torn and hostile bytes surface in fastavro as a dozen unrelated exceptions.
    except Exception as error:
        raise _broken(file, str(error) or type(error).__name__) from error
    if len(records) != 1:
        raise _broken(file, f"It holds {len(records) or 'no'} records instead of one.")
    record = records[0]
    if not isinstance(record, dict):
        raise _broken(file, "What it holds is no record.")
    return record


def write_record(schema: dict[str, Any], record: Mapping[str, Any]) -> bytes:
    """A container of `record`, which has every field of `schema` and no other."""
    body = _encode(schema, record)
    sync = blake2b(body, digest_size=16).digest()
    header = _encode(_HEADER, {"magic": MAGIC, "meta": {"avro.schema": orjson.dumps(schema)}, "sync": sync})
    return header + _encode(_BLOCK, {"count": 1, "records": body, "sync": sync})


def _encode(schema: dict[str, Any], record: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record, strict=True)
    return out.getvalue()


def _check_schema(schema: object, *, open_records: tuple[str, ...], depth: int) -> None:
    """Refuse recursion, and every type whose values take no bytes; then a record is no larger than its bytes allow.

    Names are compared without their namespaces, which may refuse a schema that is harmless; Hudi has none such.
    """
    if depth > _SCHEMA_DEPTH_MAX:
        raise ValueError("Its schema is nested too deeply.")
    match schema:
        case "null" | {"type": "null"} | {"type": "fixed", "size": 0} | {"type": "record", "fields": []}:
            raise ValueError("Its schema has values that take no bytes.")
        case str() if _short(schema) in open_records:
            raise ValueError("Its schema is recursive.")
        case str():
            children: list[object] = []
        case list():
            children = [branch for branch in schema if branch != "null"]
        case {"type": "record" | "error", "name": str(name), "fields": list(fields)}:
            open_records = (*open_records, _short(name))
            children = [field["type"] for field in fields]
        case {"type": "array", "items": items}:
            children = [items]
        case {"type": "map", "values": values}:
            children = [values]
        case {"type": "enum" | "fixed"}:
            children = []
        case {"type": inner}:
            children = [inner]
        case _:
            raise ValueError("Its schema is not understood.")
    for child in children:
        _check_schema(child, open_records=open_records, depth=depth + 1)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _broken(file: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"{file} is not the Avro file that its name promises.",
        why=why,
        remedy="Its writer died over it or it was damaged; restore it, or roll back the instant it belongs to.",
    )
