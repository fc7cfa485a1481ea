"""What the metadata table says of the columns of files that a clean takes out, kept for the day that they come back.

An HFile, as the metadata table has them: the record of each file and indexed column, by its key there.

Touches: storage, reading the metadata table.
Keeps:   what is kept of columns that are indexed in another way by then is not brought back: readers look into a file
         without any statistics.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable

import orjson

from lakeward.base.clock import Clock
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.hfile.writer import HFileWriter
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import column_stats_key
from lakeward.format.metadata.partition import COLUMN_STATS
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.snapshot import TableSnapshot

_SCHEMA = "schema"
_INDEXED = "indexed"


def collect_stats(
    storage: Storage, snapshot: TableSnapshot, files: Collection[tuple[str, str]], *, clock: Clock
) -> bytes | None:
    """What to keep of these files, by partition path and name; None where nothing is indexed."""
    metadata = take_metadata_snapshot(storage, snapshot, clock=clock)
    if metadata.indexed is None:
        return None
    keys = [column_stats_key(column, *file) for file in files for column in metadata.indexed.columns]
    found = MetadataReader(storage, metadata.table).lookup(COLUMN_STATS, keys)
    codec = metadata_codec(metadata.schema_json)
    sink = io.BytesIO()
    writer = HFileWriter(sink)
    for key in sorted(found, key=str.encode):
        writer.add(key.encode(), codec.encode(found[key]))
    writer.finish({_SCHEMA: metadata.schema_json.encode(), _INDEXED: _shape(metadata.indexed)})
    return sink.getvalue()


def read_stats(
    content: bytes, files: Iterable[tuple[str, str]], indexed: IndexedColumns, *, file: str
) -> dict[tuple[str, str], tuple[ColumnStatsRecord, ...]]:
    """What was kept of these files; nothing where other columns are indexed by now. Raises `BrokenFile`."""
    reader = HFileReader(io.BytesIO(content), length=len(content), name=file)
    if reader.info.get(_INDEXED) != _shape(indexed):
        return {}
    codec = metadata_codec(reader.info[_SCHEMA].decode())
    keys = {column_stats_key(column, *each).encode(): each for each in files for column in indexed.columns}
    found: dict[tuple[str, str], list[ColumnStatsRecord]] = {}
    for key, payload in sorted(reader.lookup(keys).items()):
        record = codec.decode(payload, file)
        if isinstance(record, ColumnStatsRecord):
            found.setdefault(keys[key], []).append(record)
    return {each: tuple(records) for each, records in found.items()}


def _shape(indexed: IndexedColumns) -> bytes:
    return orjson.dumps([str(indexed.version), sorted((name, str(kind)) for name, kind in indexed.columns.items())])
