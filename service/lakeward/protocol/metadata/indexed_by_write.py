"""Which columns have statistics from a write on: those of the index definitions, and those that the write brings.

A table whose definitions name every column that Hudi indexes by default gets its new columns indexed too, up to the
32nd. Where they name fewer an operator chose them, and no column joins.

    t10 a write brings the column c; t20 it is complete; t30 a compaction writes c's values again, without statistics,
    since the definitions do not name c yet; t40 they do: readers take t30's file for one in which c is null.

So we name c before the commit is complete, other than Hudi, which does it afterwards. Where the write dies in between
the definitions name a column that the table does not have: no file has values of it, and no query asks for it.

Touches: storage, reading the definitions; `name_columns` replaces their file, under the table lock.
Keeps:   1. a column is named before a commit that has values of it is complete;
         2. whatever else the definitions say stays as it is, and their file is there at every moment.
Source:  HoodieColumnStatsIndexUtils.updateColsToIndex (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakeward.format.metadata.index_definitions import with_source_fields
from lakeward.format.metadata.partition import COLUMN_STATS
from lakeward.format.stats.indexed_columns import indexed_columns
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import IndexedColumns, index_definitions_path, load_index_definitions
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class IndexedByWrite:
    indexed: IndexedColumns | None
    """What new files have statistics of (`write/target.WriteContext.indexed`); None where the table has none."""
    named: tuple[str, ...] = ()
    """What the definitions must name; empty where they do."""


def indexed_by_write(storage: Storage, snapshot: TableSnapshot, schema: str) -> IndexedByWrite:
    """The columns that are indexed in the table once it has this schema.

    Args:
        snapshot: of the table before the write.
        schema: Avro JSON, without meta columns.

    Raises `BrokenFile`, `Unsupported` and `UntrustedName`.
    """
    config = snapshot.config
    definitions = load_index_definitions(storage, snapshot.base_path, config)
    if COLUMN_STATS not in config.built_metadata_partitions:
        return IndexedByWrite(None)
    version = definitions.stats_version(has_typed_stats=config.version.has_typed_stats)
    named = definitions.column_stats_columns
    has_meta_columns = config.populate_meta_fields

    def covered(schema_json: str, source_fields: tuple[str, ...]) -> dict[str, object]:
        return indexed_columns(schema_json, source_fields, version=version, has_meta_columns=has_meta_columns)

    joining: tuple[str, ...] = ()
    if named:
        before = covered(snapshot.schema, ()) if snapshot.schema is not None else {}
        if before.keys() <= set(named):
            joining = tuple(name for name in covered(schema, ()) if name not in named and name not in before)
    return IndexedByWrite(
        IndexedColumns(covered(schema, (*named, *joining)), version), (*named, *joining) if joining else ()
    )


def name_columns(
    storage: Storage, snapshot: TableSnapshot, found: IndexedByWrite, *, fence: Callable[[], None]
) -> None:
    """The definitions name what must be named. Under the table lock, under which `found` was found."""
    if not found.named:
        return
    path = index_definitions_path(snapshot.base_path, snapshot.config)
    old = storage.read(path)
    fence()
    fencing_of(storage).replace_file(path, old, with_source_fields(old, COLUMN_STATS, found.named, file=path))
