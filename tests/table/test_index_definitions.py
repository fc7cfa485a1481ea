"""Which columns a table's writers index, as the table says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.base.errors import Unsupported, UntrustedName
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns, load_index_definitions, load_indexed_columns
from lakeward.table.table_config import TableConfig

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "ts", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)
META = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")


def config(partitions: str = "files,column_stats", **properties: str) -> TableConfig:
    defaults = {"hoodie.table.version": "9", "hoodie.table.metadata.partitions": partitions}
    return TableConfig(defaults | {name.replace("_", "."): value for name, value in properties.items()})


def define(base: Path, *, at: str = ".hoodie/.index_defs/index.json", **changes: object) -> None:
    column_stats: dict[str, object] = {
        "indexName": "column_stats",
        "indexType": "column_stats",
        "sourceFields": ["ts"],
        "version": "V2",
    }
    path = base / at
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"indexDefinitions": {"column_stats": column_stats | changes}}))


def load(base: Path, table: TableConfig) -> IndexedColumns | None:
    return load_indexed_columns(LocalStorage(), str(base), table, SCHEMA)


def test_the_columns_that_are_defined(tmp_path: Path):
    """The meta columns are among them, in the definitions' version."""
    define(tmp_path, version="V1")
    found = load(tmp_path, config())
    assert found is not None
    assert (tuple(found.columns), found.version) == ((*META, "ts"), StatsVersion.V1)


def test_without_definitions(tmp_path: Path):
    """The first columns that can have statistics, in the version of the table."""
    found = load(tmp_path, config())
    assert found is not None
    assert (tuple(found.columns), found.version) == ((*META, "id", "ts"), StatsVersion.V2)


def test_without_statistics(tmp_path: Path):
    """Nothing is to be measured."""
    assert load(tmp_path, config("files")) is None


@pytest.mark.parametrize("partitions", ["files,column_stats", "files"])
def test_a_version_from_the_future(tmp_path: Path, partitions: str):
    """Refused, whatever is indexed."""
    define(tmp_path, version="V3")
    with pytest.raises(Unsupported, match="an index that this release does not support"):
        load(tmp_path, config(partitions))


def test_definitions_in_another_place(tmp_path: Path):
    """The property says where, below the table."""
    define(tmp_path, at=".hoodie/elsewhere/index.json", version="V1")
    table = config(hoodie_table_index_defs_path=".hoodie/elsewhere/index.json")
    assert load_index_definitions(LocalStorage(), str(tmp_path), table).by_name["column_stats"].version == 1


@pytest.mark.parametrize(
    "path",
    ["../index.json", "/etc/index.json", "s3://other/index.json", ".hoodie/../../x", "p/index.json", ".hoodie//x"],
)
def test_definitions_outside_of_the_tables_own_folder(tmp_path: Path, path: str):
    """They are not opened."""
    with pytest.raises(UntrustedName):
        load(tmp_path, config(hoodie_table_index_defs_path=path))
