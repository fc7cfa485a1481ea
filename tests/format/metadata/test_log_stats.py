"""Column statistics of log files."""

from __future__ import annotations

import pytest

from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.stats.column_range import LENGTH_MAX, ColumnRange
from lakeward.format.stats.stats_value import StatsVersion, ValueKind, ValueType, Wrapper

COLUMNS = {"i": "int", "day": ["null", {"type": "int", "logicalType": "date"}]}


@pytest.mark.parametrize("version", StatsVersion)
def test_a_record_for_each_column(version: StatsVersion):
    """Ranges and counts of the rows, no sizes, and the type of the column, not of the values."""
    ranges = {"i": ColumnRange(1, 5, 10, 2), "day": ColumnRange(None, None, 10, 10), "other": ColumnRange(1, 1, 10, 0)}

    number, day = log_column_stats(".f.log.1_0-0-0", ranges, columns=COLUMNS, version=version)

    is_v1 = version is StatsVersion.V1
    assert number == ColumnStatsRecord(
        file_name=".f.log.1_0-0-0",
        column="i",
        min_value=1,
        max_value=5,
        value_count=10,
        null_count=2,
        total_size=0,
        total_uncompressed_size=0,
        value_type=None if is_v1 else ValueType(ValueKind.INT),
        wrapper=Wrapper.INT if is_v1 else None,
    )
    assert (day.min_value, day.max_value, day.value_count, day.null_count) == (None, None, 10, 10)
    assert (day.value_type, day.wrapper) == (None if is_v1 else ValueType(ValueKind.DATE), None)


@pytest.mark.parametrize("version", StatsVersion)
def test_deletes_alone(version: StatsVersion):
    """A log file without rows has records that say so, of no type."""
    for ranges in ({}, {name: ColumnRange() for name in COLUMNS}):
        records = log_column_stats("f", ranges, columns=COLUMNS, version=version)
        assert [record.column for record in records] == ["i", "day"]
        for record in records:
            assert (record.min_value, record.max_value, record.value_count, record.null_count) == (None, None, 0, 0)
            assert record.value_type == (None if version is StatsVersion.V1 else ValueType(ValueKind.NULL))
            assert record.wrapper is None


def test_long_ends_are_cut():
    """A record stays small."""
    text = "x" * (LENGTH_MAX + 1)
    (record,) = log_column_stats(
        "f", {"t": ColumnRange(text, text, 1, 0)}, columns={"t": "string"}, version=StatsVersion.V2
    )
    assert (record.min_value, record.max_value) == ("x" * 256, "x" * 255 + "y")
