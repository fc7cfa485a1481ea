"""When a record of the metadata table would make readers skip rows that are there, and when it would not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakeward.format.metadata.record import ColumnStatsRecord, PartitionStatsRecord
from lakeward.services.verification.stats_check import partition_stats_fault, stats_fault

SIZES: Any = {"value_count": 2, "null_count": 0, "total_size": 1, "total_uncompressed_size": 1}


def test_statistics_that_are_missing():
    """Beside those of other columns, readers take the column for nothing but nulls."""
    expected = ColumnStatsRecord(file_name="f", column="c", min_value=1, max_value=2, **SIZES)
    assert stats_fault(None, expected) == "there are no statistics, though the file has rows"
    assert "has no range" in str(stats_fault(replace(expected, min_value=None, max_value=None), expected))
    assert stats_fault(replace(expected, min_value="text"), expected) is None


def test_a_partition_is_judged_by_its_range_alone():
    """Its counts are those of all its files; without a record of it no reader skips it."""
    expected = PartitionStatsRecord(file_name="p", column="c", min_value=1, max_value=2, **SIZES)
    assert partition_stats_fault(None, expected) is None
    assert partition_stats_fault(replace(expected, value_count=9, null_count=3, max_value=5), expected) is None
    assert "the record says 2 to 2" in str(partition_stats_fault(replace(expected, min_value=2), expected))
    assert "not that of a partition" in str(partition_stats_fault(replace(expected, is_deleted=True), expected))


@pytest.mark.parametrize(
    ("stored", "found", "is_fault"),
    [
        ((0.0, 1.0), (-0.0, 1.0), False),  # equal to every query
        ((0.0, 1.0), (0.0, float("nan")), True),  # NaN is above all numbers
        ((0.0, float("nan")), (5.0, 7.0), False),
        ((b"", b"\xa5"), (b"\x00", b"\x7f"), False),  # with sign, as Hudi has it, 0xa5 would lie below
        ((b"", b"\x7f"), (b"", b"\xa5"), True),
        (("a", "\uffff"), ("a", "\U0001f30a"), True),  # by UTF-16 units it would lie below
    ],
)
def test_values_are_compared_as_queries_compare_them(stored: tuple[Any, Any], found: tuple[Any, Any], is_fault: bool):
    """They are, whatever order Hudi joins ranges in."""
    expected = PartitionStatsRecord(file_name="p", column="c", min_value=found[0], max_value=found[1], **SIZES)
    record = replace(expected, min_value=stored[0], max_value=stored[1])
    assert bool(partition_stats_fault(record, expected)) == is_fault
