"""What a writer must know of the metadata table as it is now: file groups, indexed columns, the records' schema.

Touches: storage, reading only: what `table/metadata/metadata_table.py` touches, the index definitions, the head of
         one file.
Keeps:   a table whose metadata table we cannot write to is an error here, before anything is written; for a write of
         rows that is so of each index that must learn of rows and that we have no records for.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Refused
from lakeward.base.paths import join
from lakeward.format.hfile.reader import HFileReader
from lakeward.format.log.block import CorruptBlock
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.index_definitions import IndexDefinition, IndexDefinitions
from lakeward.format.metadata.log_file import metadata_blocks
from lakeward.format.metadata.partition import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
)
from lakeward.protocol.metadata.indexed_by_write import IndexedByWrite, indexed_by_write
from lakeward.protocol.metadata.secondary_pairs import why_not_indexed
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import IndexedColumns, load_index_definitions, load_indexed_columns
from lakeward.table.metadata.metadata_table import MetadataTable, load_metadata_table
from lakeward.table.snapshot import TableSnapshot

WRITTEN = (FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS)
"""The partitions that a compaction or log compaction has records for."""

WRITTEN_BY_WRITES = (*WRITTEN, RECORD_INDEX)
"""The partitions that a write of rows has records for, beside those of secondary indexes."""

_SCHEMA = "schema"
"""The name of the schema in the file info of a base file."""


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """The metadata table as it is now, as far as a writer must know it."""

    table: MetadataTable
    indexed: IndexedColumns | None
    schema_json: str
    """The schema of the newest records in it."""
    by_write: IndexedByWrite | None = None
    """What `indexed` comes from, where the writer writes rows."""
    secondary_indexes: tuple[IndexDefinition, ...] = ()
    """Secondary indexes that must learn of rows; where the writer writes rows."""

    @property
    def has_partition_stats(self) -> bool:
        return PARTITION_STATS in self.table.slices and self.indexed is not None

    @property
    def shape(self) -> tuple[object, ...]:
        """What the prepared files depend on."""
        counts = tuple((partition, len(slices)) for partition, slices in self.table.slices.items())
        return counts, self.indexed, self.schema_json


def take_metadata_snapshot(
    storage: Storage, snapshot: TableSnapshot, *, clock: Clock, write_schema: str | None = None
) -> MetadataSnapshot:
    """The snapshot of a table that has one. Raises `Unsupported` and `BrokenFile` where we cannot write to it.

    Args:
        write_schema: for a write of rows: the table's schema from it on, Avro JSON. Raises `Refused` then, too.
    """
    config = snapshot.config
    if write_schema is not None:
        check_rows_can_be_written(storage, snapshot)
    wanted = [partition for partition in WRITTEN if partition in config.built_metadata_partitions]
    if write_schema is not None:
        wanted = list(config.built_metadata_partitions)
    table = load_metadata_table(storage, snapshot.base_path, config, snapshot.timeline, clock=clock, partitions=wanted)
    by_write = None if write_schema is None else indexed_by_write(storage, snapshot, write_schema)
    if by_write is None:
        indexed = load_indexed_columns(storage, snapshot.base_path, config, snapshot.schema)
    else:
        indexed = by_write.indexed
    schema_json = newest_schema(storage, table)
    metadata_codec(schema_json)
    if by_write is None:
        return MetadataSnapshot(table, indexed, schema_json)
    definitions = load_index_definitions(storage, snapshot.base_path, config)
    secondary = (definitions.by_name[name] for name in wanted if name.startswith(SECONDARY_INDEX_PREFIX))
    return MetadataSnapshot(table, indexed, schema_json, by_write, tuple(secondary))


def check_rows_can_be_written(storage: Storage, snapshot: TableSnapshot) -> None:
    """Raise `Refused` where an index of the table must learn of rows in a way that we have no records for.

    An index that a write passes over leads Hudi's next writer to old places of rows, or to none: it makes a second row.
    """
    config = snapshot.config
    if inflight := config.inflight_metadata_partitions:
        raise Refused(
            f"Rows cannot be written to {snapshot.base_path} now.",
            why=f"An index is being built, and must learn of them while it is: {', '.join(inflight)}.",
            remedy="Wait until it is built, or have Hudi drop it.",
        )
    definitions = load_index_definitions(storage, snapshot.base_path, config)
    for name in config.built_metadata_partitions:
        if name not in WRITTEN_BY_WRITES and (why := _why_not_written(name, snapshot, definitions)) is not None:
            kind = "secondary index" if name.startswith(SECONDARY_INDEX_PREFIX) else "index"
            called = name.removeprefix(SECONDARY_INDEX_PREFIX)
            raise Refused(
                f"Rows cannot be written to {snapshot.base_path}.",
                why=f"Its {kind} {called} must learn of each row, and {why}.",
                remedy=f"Drop it by Hudi (`DROP INDEX {called} ON …`) and create it again after the writes, or write "
                "with Hudi.",
            )
    if RECORD_INDEX in config.built_metadata_partitions and definitions.is_partitioned_record_index:
        raise Refused(
            f"Rows cannot be written to {snapshot.base_path}.",
            why="Each partition of its data has a record index of its own, and this release writes the global one.",
            remedy="Write with Hudi, or have Hudi drop the index and create the global one "
            "(hoodie.metadata.global.record.level.index.enable).",
        )


def _why_not_written(name: str, snapshot: TableSnapshot, definitions: IndexDefinitions) -> str | None:
    if name.startswith(SECONDARY_INDEX_PREFIX) and snapshot.config.version.has_secondary_indexes:
        return why_not_indexed(definitions.by_name.get(name), snapshot.schema)
    return "this release has no records for it"


def newest_schema(storage: Storage, table: MetadataTable) -> str:
    """The schema by which the newest records were written: those of `files`, into which every commit writes."""
    newest = table.slices[FILES][0]
    for log in reversed(newest.log_files):
        with storage.open_input(join(table.base_path, log.path)) as file:
            for block in metadata_blocks(file, log.size, log.path):
                if not isinstance(block, CorruptBlock) and block.hfile is not None and block.schema_json is not None:
                    return block.schema_json
    if (base := newest.base_file) is not None:
        with storage.open_input(join(table.base_path, base.path)) as file:
            schema = HFileReader(file, length=base.size, name=base.path).info.get(_SCHEMA)
        if schema is not None:
            return schema.decode("utf-8", "replace")
    raise BrokenFile(
        f"The metadata table at {table.base_path} cannot be written to.",
        why="No file of its partition `files` says by which schema its records are written.",
        remedy="Let a Hudi writer rebuild it: delete it by Hudi's own command, and write once with it on.",
    )
