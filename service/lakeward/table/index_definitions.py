"""What a table's writers index of its columns, as the table says it: the definitions and what they result in.

Touches: storage, reading the definitions.
Keeps:   definitions that are not understood, or that lie outside of `.hoodie`, are an error: statistics of other
         columns than the writers' would make queries skip files that hold what they look for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.base.errors import NotFound, UntrustedName
from lakeward.base.paths import join
from lakeward.format.metadata.index_definitions import (
    INDEX_DEFINITIONS_PATH,
    NO_INDEX_DEFINITIONS,
    IndexDefinitions,
    parse_index_definitions,
)
from lakeward.format.metadata.partition import COLUMN_STATS
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.storage.storage import Storage
from lakeward.table.table_config import HOODIE_FOLDER, TableConfig

PATH_PROPERTY = "hoodie.table.index.defs.path"


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """Which columns have statistics, and how these are encoded. Picklable, for tasks."""

    columns: Mapping[str, Any]
    """Each with its Avro type."""
    version: StatsVersion


def index_definitions_path(base_path: str, config: TableConfig) -> str:
    """Raises `UntrustedName`."""
    relative = config.get(PATH_PROPERTY) or INDEX_DEFINITIONS_PATH
    parts = relative.split("/")
    if parts[0] != HOODIE_FOLDER or {"", ".", ".."} & set(parts):
        raise UntrustedName(
            f"The index definitions of {base_path} are not where they can be trusted.",
            why=f"{PATH_PROPERTY} is {relative!r}, and it must lie below {HOODIE_FOLDER}.",
            remedy="Correct the property.",
        )
    return join(base_path, relative)


def load_index_definitions(storage: Storage, base_path: str, config: TableConfig) -> IndexDefinitions:
    """Raises `BrokenFile`, `Unsupported` and `UntrustedName`."""
    path = index_definitions_path(base_path, config)
    try:
        return parse_index_definitions(storage.read(path), file=path)
    except NotFound:
        return NO_INDEX_DEFINITIONS


def load_indexed_columns(
    storage: Storage, base_path: str, config: TableConfig, schema_json: str | None
) -> IndexedColumns | None:
    """Columns that are indexed in a table with this schema; None where its metadata table has no statistics of
    columns, for which alone there must be a schema."""
    # Also where there are none: an index that we do not know may want other records than we write.
    definitions = load_index_definitions(storage, base_path, config)
    if COLUMN_STATS not in config.built_metadata_partitions:
        return None
    assert schema_json is not None, "eligibility refuses a table with statistics and without a schema"
    # Imported here: a daemon that watches tables needs no Arrow in memory.
    from lakeward.format.stats.indexed_columns import indexed_columns

    version = definitions.stats_version(has_typed_stats=config.version.has_typed_stats)
    columns = indexed_columns(
        schema_json,
        definitions.column_stats_columns,
        version=version,
        has_meta_columns=config.populate_meta_fields,
    )
    return IndexedColumns(columns, version)
