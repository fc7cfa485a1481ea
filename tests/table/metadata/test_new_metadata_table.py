"""The metadata table of a new table, held file by file against those that Hudi made with its first write."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.file_name import parse_log_file, parse_native_log
from lakeward.format.java_properties import dump_properties
from lakeward.format.metadata.index_definitions import parse_index_definitions
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.metadata.schema_text import metadata_schema
from lakeward.table.metadata.new_metadata_table import NewMetadataTable
from lakeward.table.table_version import TableVersion
from tests.golden_tables import copy_golden
from tests.metadata_births import comparable_files, first_files

TABLES = {"v9_metadata": ("golden", "id name ts part"), "v8_metadata": ("t", "id part ts v")}
BORN = 1_700_000_000.0
GROUP_NUMBER = re.compile(r"-\d{4}-")


def new(golden: str = "v9_metadata") -> NewMetadataTable:
    name, columns = TABLES[golden]
    fields = [{"name": column, "type": ["null", "string"], "default": None} for column in columns.split()]
    return NewMetadataTable(
        of=name,
        schema=json.dumps({"type": "record", "name": "r", "fields": fields}),
        version=TableVersion(int(golden[1])),
        is_partitioned=True,
        has_record_index=True,
        has_bloom_filters=True,
    )


@pytest.mark.parametrize("golden", TABLES)
def test_its_files_are_those_that_hudi_made(golden: str, tmp_path: Path) -> None:
    """Keeps 1 of table/metadata/new_metadata_table; for the golden tables fewer file groups were asked."""
    base, table = copy_golden(golden, tmp_path / "table"), new(golden)
    of_hudi = comparable_files(first_files(base))
    properties = {".hoodie/hoodie.properties": dump_properties(table.properties)}
    own = comparable_files(dict(table.files(born=BORN)) | properties)
    assert of_hudi == {name: content for name, content in own.items() if name in of_hudi}
    assert {GROUP_NUMBER.sub("-", name) for name in own} == {GROUP_NUMBER.sub("-", name) for name in of_hudi}
    definitions = (base / ".hoodie/.index_defs/index.json").read_bytes()
    assert table.index_definitions == parse_index_definitions(definitions, file="index.json")
    assert json.loads(table.definitions_file()) == json.loads(definitions)


def test_on_version_10_each_file_group_begins_with_a_native_log_without_records() -> None:
    """Everything else is as in version 9. Keeps 1 of table/metadata/new_metadata_table."""
    table = new()
    of_9, of_10 = (dict(each.files(born=BORN)) for each in (table, replace(table, version=TableVersion(10))))
    groups = [parse_log_file(path.rpartition("/")[2]) for path in of_9 if ".log." in path]
    assert len(groups) == 18
    assert {path: content for path, content in of_9.items() if ".log." not in path} == {
        path: content for path, content in of_10.items() if not path.endswith(".log.hfile")
    }
    assert of_10["files/files-0000-0_0-0-0_00000000000000000_1.log.hfile"]
    native = {path: content for path, content in of_10.items() if path.endswith(".log.hfile")}
    assert len(native) == len(groups)
    for path, content in native.items():
        name = parse_native_log(path.rpartition("/")[2])
        assert name is not None and any(each and each.file_id == name.file_id for each in groups)
        (block,) = metadata_blocks(io.BytesIO(content), len(content), path)
        assert isinstance(block, MetadataBlock) and block.hfile is not None
        schema = metadata_schema(has_typed_stats=True)
        assert (block.instant, block.schema_json, block.hfile.entry_count) == (name.instant, schema, 0)


def test_it_is_complete_at_a_time_that_has_passed_everywhere() -> None:
    """Twelve hours behind UTC, and one build after the other."""
    names = [path for path, _ in new().files(born=BORN) if path.endswith(".deltacommit")]
    assert [name.rpartition("/")[2] for name in names] == [
        f"0000000000000000{number}_2023111410132000{number}.deltacommit" for number in range(5)
    ]


def test_equal_tables_have_equal_files() -> None:
    """Keeps 2 of table/metadata/new_metadata_table, which is what lets a second process go on."""
    assert list(new().files(born=BORN)) == list(new().files(born=BORN))


def test_without_partitions_there_are_no_statistics_of_them() -> None:
    """Hudi leaves them out there, and so are indexes that were not asked for."""
    plain = replace(new(), is_partitioned=False, has_record_index=False, has_bloom_filters=False)
    assert plain.partitions == ("files", "column_stats")
    assert [*plain.index_definitions.by_name] == ["column_stats"]
