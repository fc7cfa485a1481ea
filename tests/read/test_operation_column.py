"""Slices whose rows have their kind of change beside them; tests/interop/test_kinds_of_rows.py asks Hudi."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.file_slice import MergedSlice, open_slice
from lakeward.read.operation_column import has_operation
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.local import LocalStorage
from tests.read.log_files import META, TABLE_SCHEMA, data_block, delete_block, row
from tests.read.logs.test_log_run import make as make_run
from tests.read.logs.test_partial_blocks import SAMPLED, checked
from tests.read.test_file_slice import BASE, make, slice_input

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",), takes_operations=True)
LOG = ".fg_200.log.1_0-0-0"
FIELD = {"name": "_hoodie_operation", "type": ["null", "string"], "default": None}
SCHEMA = {**TABLE_SCHEMA, "fields": [*META, FIELD, *TABLE_SCHEMA["fields"]]}


def change(operation: str | None, key: str, ts: int, v: str = "log") -> dict[str, Any]:
    return row(key, ts, v) | {"_hoodie_operation": operation}


def changes(instant: str, *rows: dict[str, Any]) -> bytes:
    return data_block(instant, list(rows), schema_json=SCHEMA)


def test_deletes_are_rows_that_say_so(tmp_path: Path):
    """D and -U delete with their ordering value, I, U and nothing are rows, and those that come out keep their values;
    also where a query wants other columns."""
    base = [row(key, 10, "base") for key in "abcde"]
    logs = [
        changes("200", change("D", "a", 11), change("-U", "b", 11), change("D", "c", 9), change("U", "d", 11)),
        changes("201", change("I", "a", 9), change("U", "b", 12), change(None, "e", 12), change("D", "x", 1)),
    ]
    merged = make(tmp_path, base, *logs, rules=EVENT, query=SAMPLED)
    assert checked(merged) == [("b", 12, "log"), ("c", 10, "base"), ("d", 11, "log"), ("e", 12, "log")]
    assert merged.schema.names[4:7] == ["_hoodie_file_name", "_hoodie_operation", "id"]

    names = tuple(path.name for path in sorted(tmp_path.glob(".fg*")))
    given = slice_input(tmp_path, "fg_0-0-0_100.parquet", names, rules=EVENT)
    with open_slice(LocalStorage(), given, query=SliceQuery(["id"])) as queried:
        assert [each["id"] for batch in queried.batches() for each in batch.to_pylist()] == ["b", "c", "d", "e"]


def test_what_is_not_certain_is_refused(tmp_path: Path):
    """Keeps 1 of read/operation_column; and so is a table version that was not tried, and a kind of no known name."""
    log = changes("200", change("U", "a", 11))
    with pytest.raises(Unsupported, match="has not the column _hoodie_operation, which other logs"):
        make(tmp_path, None, log, data_block("201", [row("a", 12, "")]), rules=EVENT)
    with pytest.raises(Unsupported, match="tables of this version"):
        make(tmp_path, None, log, rules=replace(EVENT, takes_operations=False))
    with pytest.raises(Unsupported, match="operation 'X'"):
        list(make(tmp_path, None, changes("200", change("X", "a", 11)), rules=EVENT).batches())


def test_logs_alone_are_refused(tmp_path: Path):
    """Keeps 2 of read/operation_column: the rows of a LOG would have lost their marks."""
    with pytest.raises(Unsupported, match=r"_hoodie_operation.*--type full"):
        make_run(tmp_path, changes("200", change("D", "a", 11)))


def test_what_the_base_file_has_goes_with_rows_without_it(tmp_path: Path):
    """Hudi's compaction drops it there, too: else the newest file would make readers look for it in other logs.
    Under deletes alone it stays."""
    schema = table_schema(json.dumps(TABLE_SCHEMA), has_operation=True)
    table = pa.Table.from_pylist([change("U", key, 10, "base") for key in "ab"], schema)

    def merged(log: bytes) -> MergedSlice:
        pq.write_table(table, tmp_path / BASE)
        (tmp_path / LOG).write_bytes(log)
        return open_slice(LocalStorage(), slice_input(tmp_path, BASE, (LOG,), rules=EVENT))

    with merged(delete_block("200", [("a", None)])) as deleted:
        assert [row["_hoodie_operation"] for batch in deleted.batches() for row in batch.to_pylist()] == ["U"]
    with merged(data_block("200", [row("a", 11, "log")])) as updated:
        assert "_hoodie_operation" not in updated.schema.names
        assert [row["v"] for batch in updated.batches() for row in batch.to_pylist()] == ["log", "base"]


def test_inside_of_a_struct_it_is_a_name_like_others():
    """Its log block is none of a changelog."""
    struct = {"name": "s", "type": {"type": "record", "name": "s", "fields": [FIELD]}}
    nested = {**TABLE_SCHEMA, "fields": [*META, *TABLE_SCHEMA["fields"], struct]}
    for schema, is_one in ((SCHEMA, True), (nested, False), (TABLE_SCHEMA, False)):
        block = LogBlock(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(schema)}, 0, 0, "a.log", 0)
        assert has_operation(block) is is_one
