"""A part of a slice: which columns are read for it, and how much of the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeRules, PartialUpdates
from lakeward.read.file_slice import open_slice
from lakeward.read.query.predicate import keys_among
from lakeward.read.query.slice_query import SliceQuery
from tests.counting_storage import CountingStorage
from tests.read.conditions import Between, wanted
from tests.read.log_files import data_block, delete_block, row
from tests.read.slice_queries import EVENT, TABLE, lay_out, parquet_block, read


def test_the_columns_that_come_out_are_those_that_were_asked_for(tmp_path: Path):
    """Records are compared all the same, and names that the table does not have are passed over."""
    logs = (data_block("200", [row("a", 5, "late"), row("b", 20, "new")]), delete_block("201", [("c", 5)]))
    given = lay_out(tmp_path, [row(key, 10, "old") for key in "abc"], logs)
    rows, _ = read(given, SliceQuery(["v", "nothing", RECORD_KEY_FIELD]))
    assert rows == [{RECORD_KEY_FIELD: key, "v": v} for key, v in [("a", "old"), ("b", "new"), ("c", "old")]]


def test_what_merging_needs_is_read(tmp_path: Path):
    """Keeps of read/query/slice_query: the ordering value, a column that deletes; the partition is for logs to read."""
    rules = replace(EVENT, delete_field="id", delete_marker="x")
    read_schema = SliceQuery([RECORD_KEY_FIELD]).read_schema(TABLE, rules)
    assert read_schema.names == [RECORD_KEY_FIELD, "id", "ts"]
    assert SliceQuery().read_schema(TABLE, rules) is TABLE
    with pytest.raises(AssertionError, match="nothing"):
        SliceQuery(predicate=wanted(Between("nothing"))).read_schema(TABLE, rules)


def test_what_is_compared_or_filled_is_no_dictionary():
    """Strings that repeat come as dictionaries where all rows are written again, but for those and, by partial updates,
    for all: values of a dictionary are not joined with plain ones."""
    compared = replace(EVENT, ordering_fields=("ts",), delete_field="id")
    filled = replace(compared, partial_updates=PartialUpdates.IGNORE_DEFAULTS)
    rewrite = SliceQuery(is_rewrite=True)

    def dictionaries(query: SliceQuery, rules: MergeRules) -> list[str]:
        schema = query.with_dictionaries(TABLE, rules, {"id", "v", RECORD_KEY_FIELD})
        return [column.name for column in schema if pa.types.is_dictionary(column.type)]

    assert dictionaries(rewrite, compared) == ["v"]
    assert dictionaries(rewrite, filled) == dictionaries(SliceQuery(), compared) == []


def test_a_few_keys_are_read_of_a_few_row_groups(tmp_path: Path):
    """What the storage gives is less, too, and the figures say by how much."""
    keys = [f"k{number:03}" for number in range(400)]
    base = [row(key, 10, f"{key} of the base file " * 20) for key in keys]
    logs = [parquet_block("200", [row(key, 20, f"{key} of a log " * 20) for key in keys[:200:2]], 25)]
    given = lay_out(tmp_path, base, logs, group_rows=40)
    all_storage, few_storage, one_column = CountingStorage(), CountingStorage(), CountingStorage()
    everything, all_meter = read(given, storage=all_storage)
    few, few_meter = read(given, SliceQuery(predicate=keys_among(frozenset(["k006", "k007"]))), few_storage)
    _, column_meter = read(given, SliceQuery([RECORD_KEY_FIELD]), one_column)

    assert [row["_hoodie_commit_time"] for row in few] == ["200", "100"]
    assert few == [row for row in everything if row[RECORD_KEY_FIELD] in ("k006", "k007")]
    assert (all_meter.row_groups, all_meter.row_groups_skipped, all_meter.rows) == (14, 0, 500)
    assert all_meter.bytes_read == all_meter.bytes_stored
    assert (few_meter.row_groups, few_meter.row_groups_skipped, few_meter.rows) == (2, 12, 3)
    assert few_meter.bytes_stored == all_meter.bytes_stored
    assert few_meter.bytes_read < all_meter.bytes_read / 5
    assert (column_meter.row_groups, column_meter.rows) == (14, 500)
    assert column_meter.bytes_read < all_meter.bytes_read / 2
    footers = few_storage.bytes_read - few_meter.bytes_read
    assert abs(all_storage.bytes_read - all_meter.bytes_read - footers) < footers / 4
    assert one_column.bytes_read < all_storage.bytes_read - column_meter.bytes_read


def test_records_with_other_keys_are_not_kept(tmp_path: Path):
    """Keeps 4 of read/logs/log_run: neither data nor their deletes wait for the base file."""
    logs = (data_block("200", [row(key, 20, "new") for key in "abc"]), delete_block("201", [("a", 5), ("d", None)]))
    given = lay_out(tmp_path, [row(key, 10, "old") for key in "abcd"], logs)
    with open_slice(CountingStorage(), given, query=SliceQuery(predicate=keys_among(frozenset("ax")))) as merged:
        assert [row["v"] for batch in merged.batches() for row in batch.to_pylist()] == ["new"]
    assert (merged.counts.log_records, merged.counts.log_keys, merged.counts.base_rows) == (2, 1, 1)
