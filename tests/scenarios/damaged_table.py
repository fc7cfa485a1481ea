"""A golden table with one more completed delta commit, whose log holds whatever bytes a test gives it.

The commit is as Hudi would have written it: its write stat names the log with the size that it has, so that nothing but
the log's content is wrong.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import fastavro

from lakeward.format.log.block import BlockType, HeaderKey
from lakeward.format.timeline.commit_metadata import CommitMetadata, read_commit_metadata, write_commit_metadata
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.protocol.times.seen_times import FOLDER as MINTED
from tests.read.log_files import block

FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"
BASE_FILE = f"p/{FILE_ID}_0-0-0_20261121043703223.parquet"
INSTANT = "20261121043711000"
COMPLETED = "20261121043712000"
LOG = f"p/.{FILE_ID}_{INSTANT}.log.1_0-60-44"
COMMIT = f".hoodie/timeline/{INSTANT}_{COMPLETED}.deltacommit"
PLAN = ".hoodie/timeline/20261121043710038.compaction.requested"
_TEMPLATE = ".hoodie/timeline/20261121043709156_20261121043709888.deltacommit"
_NULLABLE = [("id", "string"), ("part", "string"), ("ts", "long"), ("name", "string")]
_META = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "golden_record",
    "namespace": "hoodie.golden",
    "fields": [
        *({"name": f"_hoodie_{name}", "type": ["null", "string"], "default": None} for name in _META),
        *({"name": name, "type": ["null", kind], "default": None} for name, kind in _NULLABLE),
    ],
}
HEADERS = {HeaderKey.INSTANT_TIME: INSTANT, HeaderKey.SCHEMA: json.dumps(SCHEMA)}


def row(key: str | None, ts: int | None = 9, name: str | None = "n") -> dict[str, Any]:
    meta = (INSTANT, f"{INSTANT}_0_9", key, "p", FILE_ID)
    named = {f"_hoodie_{field}": value for field, value in zip(_META, meta, strict=True)}
    return named | {"id": key, "part": "p", "ts": ts, "name": name}


def encoded(record: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def avro_content(*records: bytes, count: int | None = None, version: int = 3) -> bytes:
    head = struct.pack(">ii", version, len(records) if count is None else count)
    return head + b"".join(struct.pack(">i", len(record)) + record for record in records)


def data_block(*records: bytes, headers: dict[HeaderKey, str] | None = None) -> bytes:
    return block(BlockType.AVRO_DATA, HEADERS | (headers or {}), avro_content(*records))


def put_log(base: Path, content: bytes) -> Path:
    """The table with the log and its completed commit."""
    (base / LOG).write_bytes(content)
    template = base / _TEMPLATE
    commit = read_commit_metadata(template.read_bytes(), file="", layout=2)
    (stat,) = commit.partition_to_write_stats["p"]
    size = len(content)
    put_commit(
        base,
        replace(
            commit,
            partition_to_write_stats={
                "p": (
                    replace(
                        stat,
                        path=LOG,
                        prev_commit=INSTANT,
                        log_files=(LOG.removeprefix("p/"),),
                        total_write_bytes=size,
                        file_size_in_bytes=size,
                    ),
                )
            },
        ),
    )
    return base


def put_commit(base: Path, metadata: CommitMetadata | bytes) -> Path:
    """The table with a completed delta commit that says this."""
    folder = base / ".hoodie/timeline"
    for name in (f"{INSTANT}.deltacommit.requested", f"{INSTANT}.deltacommit.inflight"):
        (folder / name).touch()
    content = metadata if isinstance(metadata, bytes) else write_commit_metadata(metadata)
    (base / COMMIT).write_bytes(content)
    seconds = parse_instant_time(COMPLETED, UTC) / 1000
    os.utime(base / COMMIT, (seconds, seconds))
    return base


def commit_json(*, path: str = LOG, partition: str = "p", file_id: str = FILE_ID, schema: str | None = None) -> bytes:
    """A commit as early releases of 1.x left them in layout 2, which says this of its one file."""
    stat = {"fileId": file_id, "path": path, "partitionPath": partition}
    extra = {} if schema is None else {"schema": schema}
    return json.dumps({"partitionToWriteStats": {partition: [stat]}, "extraMetadata": extra}).encode()


def digest(base: Path) -> dict[str, str]:
    """Every file of the table with a digest of what is in it."""
    files = (path for path in sorted(base.rglob("*")) if path.is_file() and MINTED not in str(path))
    return {str(path.relative_to(base)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
