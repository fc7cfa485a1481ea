"""Slices with log blocks that have some of the columns; tests/interop/test_kinds_of_rows.py asks Hudi."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Unsupported
from lakeward.engine.task.verification import OutputSample, check_sample
from lakeward.format.avro.schema import table_schema
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.file_slice import MergedSlice
from lakeward.read.query.slice_query import SliceQuery
from tests.read.log_files import BLOCK_SCHEMA, META, TABLE_SCHEMA, data_block, delete_block, row
from tests.read.logs.test_log_run import make as make_run
from tests.read.test_file_slice import make, rows_of

EVENT = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",), takes_partial_blocks=True)
COMMIT = replace(EVENT, mode=MergeMode.COMMIT_TIME_ORDERING, ordering_fields=())
SAMPLED = SliceQuery(takes_sample=True)
FIELDS: dict[str, dict[str, Any]] = {field["name"]: dict(field) for field in TABLE_SCHEMA["fields"]}  # type: ignore[call-overload]


def part(instant: str, names: str, *rows: dict[str, Any], **fields: dict[str, Any]) -> bytes:
    schema = {**TABLE_SCHEMA, "fields": [*META, *({**FIELDS[name], **fields.get(name, {})} for name in names.split())]}
    return data_block(instant, list(rows), schema_json=schema, IS_PARTIAL="true")


def checked(merged: MergedSlice) -> list[tuple[str, int, str]]:
    """The rows, as the check of a sample finds them right, too."""
    output, rows = OutputSample(merged.sample), []
    for batch in merged.batches():
        output.update(batch)
        rows += [(each["id"], each["ts"], each["v"]) for each in batch.to_pylist()]
    assert merged.sample.keys
    check_sample(merged.sample.keys, output.rows, rules=merged.rules, schema=merged.schema)
    return rows


def test_columns_that_are_not_in_a_block_come_from_the_row_below(tmp_path: Path):
    """A null of the block is a value; of two rows the later, or greater, one gives the columns that it has. A row of a
    new key holds null where its block has no column."""
    base = [row(key, 10, key) for key in "abcd"]
    logs = [
        part("200", "ts", row("a", 12, "-"), row("b", 9, "-"), row("x", 1, "-")),
        part("201", "ts v", row("a", 11, "late"), row("c", 11, "") | {"v": None}),
        data_block("202", [row("d", 11, "whole")]),
        part("203", "ts", row("d", 12, "-"), row("c", 12, "-")),
    ]
    expected = [("a", 12, "late"), ("b", 10, "b"), ("c", 12, None), ("d", 12, "whole"), (None, 1, None)]
    assert checked(make(tmp_path, base, *logs, rules=EVENT, query=SAMPLED)) == expected
    in_time = [("a", 11, "late"), ("b", 9, "b"), *expected[2:]]
    assert checked(make(tmp_path, base, *logs, rules=COMMIT, query=SAMPLED)) == in_time


@pytest.mark.parametrize(
    ("logs", "rules", "why"),
    [
        ([part("200", "ts")], replace(EVENT, takes_partial_blocks=False), "of this version"),
        ([part("200", "v")], EVENT, "lack ts"),
        ([part("200", "ts")], replace(EVENT, delete_field="v", delete_marker="d"), "marks rows as deleted"),
        ([part("200", "ts", ts={"type": ["null", "int"]})], EVENT, "ts is int32, and the table's is int64"),
        ([delete_block("200", []), part("201", "ts")], EVENT, "deletes of .*log.1_0-0-0"),
        ([part("200", "ts"), delete_block("201", []), data_block("202", [])], EVENT, "deletes of .*log.1_0-0-0"),
    ],
)
def test_what_is_not_certain_is_refused(tmp_path: Path, logs: list[bytes], rules: MergeRules, why: str):
    """Keeps 1 of read/logs/partial_blocks: from the heads of the blocks, by name; deletes that come last are no
    matter."""
    with pytest.raises(Unsupported, match=why):
        make(tmp_path, [row("a", 1, "")], *logs, rules=rules)
    assert rows_of(make(tmp_path, None, part("200", "ts"), delete_block("201", []), rules=EVENT)) == []


def test_logs_alone_are_refused(tmp_path: Path):
    """Keeps 2 of read/logs/partial_blocks: a LOG would have to write down what only the base file can complete."""
    schema = table_schema(json.dumps(TABLE_SCHEMA))
    with pytest.raises(Unsupported, match=r"partial updates.*--type full"):
        make_run(tmp_path, data_block("100", [], schema_json=BLOCK_SCHEMA), part("200", "ts"), schema=schema)
