"""The archived timeline of layout 2: names of its files, its manifests, and rows of instants as Parquet.

    <first instant>_<last instant>_<level>.parquet   rows of instants; the level is one digit
    manifest_<n>                                     JSON: all files of snapshot n, with their bytes
    _version_                                        the newest n, in digits, without a newline

A row is one completed instant: its requested and completion time, its completed action, the bytes of its completed
file, and of its plan: of the requested file for a compaction, log compaction or clean; for a replacecommit or
clustering of the inflight file, or of the requested one where that is empty; none for others.

Touches: nothing but the source it is given.
Keeps:   1. what is written decodes to the same rows, and by Hudi's reader too: the same columns, types and footer;
         2. a file with other columns, or rows of another version, is `Unsupported`, never read in part.
Source:  LSMTimeline, HoodieLSMTimelineManifest, MetadataConversionUtils.createLSMTimelineInstant (Hudi 1.2).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.timeline.instant import Instant, State
from lakeward.storage.storage import is_of_storage

if TYPE_CHECKING:
    import pyarrow as pa

VERSION_FILE = "_version_"

_NAME = re.compile(r"([0-9]+)_([0-9]+)_([0-9])\.parquet")
_MANIFEST = re.compile(r"manifest_([0-9]{1,18})")
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


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A file of rows, as its name tells."""

    first: str
    last: str
    level: int

    @property
    def name(self) -> str:
        return f"{self.first}_{self.last}_{self.level}.parquet"


@dataclass(frozen=True, slots=True)
class HistoryRow:
    time: str
    completion_time: str | None
    action: str
    """The completed one: commit for a compaction."""
    metadata: bytes | None
    """The completed file; None where that is empty."""
    plan: bytes | None


def parse_history_file(name: str) -> HistoryFile | None:
    """What a name says; None for what is no file of rows."""
    match = _NAME.fullmatch(name)
    return HistoryFile(match[1], match[2], int(match[3])) if match else None


def manifest_name(number: int) -> str:
    return f"manifest_{number}"


def parse_manifest_name(name: str) -> int | None:
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def dump_manifest(sizes: Mapping[HistoryFile, int]) -> bytes:
    """The manifest that names these files with their bytes, as Hudi prints it."""
    entries = [f'{{\n    "fileName" : "{file.name}",\n    "fileLen" : {size}\n  }}' for file, size in sizes.items()]
    return f'{{\n  "files" : [ {", ".join(entries)}{" " if entries else ""}]\n}}'.encode()


def parse_manifest(content: bytes, *, path: str) -> dict[HistoryFile, int]:
    """Files with their bytes, in the manifest's order. Raises `BrokenFile`.

    Args:
        path: of the manifest, for messages.
    """
    try:
        entries = [
            (str(each["fileName"]), int(each["fileLen"])) for each in orjson.loads(content or b'{"files":[]}')["files"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFile(f"{path} is not a manifest of archived instants.", why=str(error)) from error
    found = {}
    for name, size in entries:
        if (file := parse_history_file(name)) is None:
            raise BrokenFile(f"The manifest {path} names {name!r}, which is no history file.")
        found[file] = size
    return found


def plan_file(states: Sequence[Instant]) -> Iterator[Instant]:
    """The files of an instant whose bytes are its plan, best first: the first that is not empty counts.

    Args:
        states: the instant's files on the active timeline.
    """
    requested = next((each for each in states if each.state is State.REQUESTED), None)
    inflight = next((each for each in states if each.state is State.INFLIGHT), None)
    pending = requested or inflight
    if pending is None:
        return
    if pending.action in ("replacecommit", "clustering"):
        yield from (each for each in (inflight, requested) if each is not None)
    elif pending.action == "clean" or (pending.action in ("compaction", "logcompaction") and requested is not None):
        yield pending


def encode_rows(rows: Iterable[HistoryRow]) -> bytes:
    """A whole file of these rows, which come by time; held in memory compressed."""
    import pyarrow.parquet as pq

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
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    import pyarrow as pa

    texts = [pa.field(name, pa.string()) for name in ("instantTime", "completionTime", "action")]
    contents = [pa.field(name, pa.binary()) for name in ("metadata", "plan")]
    return pa.schema([*texts, *contents, pa.field("version", pa.int32(), nullable=False)])


def _table(rows: Sequence[HistoryRow], schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

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
