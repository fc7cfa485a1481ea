"""Avro on the timeline: containers, and the plans and commits in them; commits in JSON, too."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable

import fastavro

from lakeward.base.errors import LakewardError
from lakeward.format.avro.container import read_record
from lakeward.format.avro.primitive import encode_bytes, encode_long
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from lakeward.format.timeline.clean_plan import read_clean_plan
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.compaction_plan import read_compaction_plan
from lakeward.format.timeline.replace_metadata import read_clustered_groups
from lakeward.format.timeline.rollback_metadata import read_restored, read_rollback_plan, read_rolled_back
from tests.fuzz.golden import files

_WHOLE, _RECORD, _SCHEMA = range(3)
"""What the first byte says of the others: a file, a record of a commit's schema, or a schema."""

_READERS: tuple[Callable[[bytes], object], ...] = (
    lambda data: read_record(data, file="x"),
    lambda data: read_commit_metadata(data, file="x", layout=2),
    lambda data: read_compaction_plan(data, file="x"),
    lambda data: read_clean_plan(data, root="file:/t", file="x"),
    lambda data: read_clean_metadata(data, file="x"),
    lambda data: read_clustered_groups(data, file="x"),
    lambda data: read_rolled_back(data, file="x"),
    lambda data: read_restored(data, file="x"),
    lambda data: read_rollback_plan(data, file="x"),
)
"""The second byte says by which of them."""

_SMALL = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "commitsRollback", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "fixed", "name": "F", "size": 2}}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
        {"name": "d", "type": ["double", "int", "F"]},
    ],
}


def _commits() -> list[bytes]:
    return files("v9", ".hoodie/timeline/*commit")


def _schema_of_commits() -> bytes:
    text: str = fastavro.reader(io.BytesIO(_commits()[0])).metadata["avro.schema"]
    return text.encode()


_COMMIT_SCHEMA = _schema_of_commits()


def corpus() -> list[bytes]:
    plan = files("v9", ".hoodie/timeline/*.compaction.requested")[0]
    records = [data[data.index(_COMMIT_SCHEMA) + len(_COMMIT_SCHEMA) + 19 : -16] for data in _commits()]
    small = json.dumps(_SMALL).encode()
    other = b'{"partitionToWriteStats": {"p": [{"fileId": "a", "path": "p/a"}]}, "extraMetadata": {"k": "v"}}'
    return [
        *(bytes([_RECORD, 1]) + data for data in records),
        bytes([_SCHEMA, 6]) + small,
        bytes([_WHOLE, 6]) + _container(small, b"\x02\x02\x02a\x00\x02\x02kxy\x00\x00\x02\x04"),
        bytes([_WHOLE, 2]) + plan,
        bytes([_WHOLE, 1]) + _commits()[0],
        bytes([_WHOLE, 1]) + other,
    ]


def one_input(data: bytes) -> None:
    kind, reader, data = (*data[:2], data[2:]) if len(data) >= 2 else (_WHOLE, 0, data)
    if kind % 3 == _RECORD:
        data = _container(_COMMIT_SCHEMA, data)
    elif kind % 3 == _SCHEMA:
        data = _container(data, b"\x02" * 64)
    with contextlib.suppress(LakewardError):
        _READERS[reader % len(_READERS)](data)


def _container(schema: bytes, record: bytes) -> bytes:
    header = (
        b"Obj\x01" + encode_long(1) + encode_bytes(b"avro.schema") + encode_bytes(schema) + encode_long(0) + bytes(16)
    )
    return header + encode_long(1) + encode_bytes(record) + bytes(16)
