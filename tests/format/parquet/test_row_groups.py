from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.format.avro.schema import REQUIRED_KEY
from lakeward.format.parquet.batches import ParquetBatches
from lakeward.format.parquet.row_groups import ValueRange, row_groups


def ranges(values: pa.Array, wanted: pa.DataType | None = None, **options: Any) -> list[object]:
    """The ranges of row groups of two rows; "unknown" where nothing is said."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": values}), sink, row_group_size=2, store_schema=False, **options)
    file = ParquetBatches(sink, where="a file")
    groups = row_groups(file, pa.schema([pa.field("c", wanted or values.type)]))
    assert [group.number for group in groups] == list(range(len(groups)))
    assert sum(group.rows for group in groups) == len(values)
    return [group.ranges.get("c", "unknown") for group in groups]


def test_text_and_whole_numbers_have_ranges():
    """Nulls are no values, and a group of nulls holds none."""
    assert ranges(pa.array(["b", "é", None, "a", None, None])) == [ValueRange("b", "é"), ValueRange("a", "a"), None]
    assert ranges(pa.array([3, -2, None, 0], pa.int32())) == [ValueRange(-2, 3), ValueRange(0, 0)]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1, 2]), pa.string()),  # 10 is more than 9, and "10" is less
        (pa.array([2**53, 2**53 + 1]), pa.float64()),  # which has no such number
        (pa.array([1, 2]), pa.int32()),
        (pa.array([b"a", b"b"]), pa.string()),
        (pa.array([1, 2], pa.uint8()), None),
        (pa.array([1.0, float("nan")]), None),
        (pa.array([1, 2], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1, 2], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([1, 2], pa.timestamp("us")), pa.int64()),
        (pa.array([1, 2], pa.date32()), pa.int32()),
        (pa.array([1, 2], pa.int32()), pa.date32()),
        (pa.array([[1], [2]]), None),
    ],
)
def test_other_types_have_none(values: pa.Array, wanted: pa.DataType | None):
    """Keeps 2 of format/parquet/row_groups: their order is not known to be that of the bounds."""
    assert ranges(values, wanted) == ["unknown"]


def test_a_column_that_became_wider_has_them():
    """An int that the table reads as a long keeps its order."""
    assert ranges(pa.array([1, 2], pa.int32()), pa.int64()) == [ValueRange(1, 2)]


def test_dates_are_days_and_times_microseconds():
    """Also where the table has them finer than the file, as in one whose type changed."""
    assert ranges(pa.array([-1, 3], pa.date32())) == [ValueRange(-1, 3)]
    assert ranges(pa.array([-1, 3], pa.timestamp("us", "UTC"))) == [ValueRange(-1, 3)]
    assert ranges(pa.array([-1, 3], pa.timestamp("ms"))) == [ValueRange(-1000, 3000)]
    assert ranges(pa.array([-1, 3], pa.timestamp("ms")), pa.timestamp("us")) == [ValueRange(-1000, 3000)]


def test_times_of_96_bits_have_none():
    """Releases wrote bounds of them in another order."""
    times = pa.array([1, 2], pa.timestamp("us"))
    assert ranges(times, use_deprecated_int96_timestamps=True) == ["unknown"]


def test_without_statistics_nothing_is_said():
    assert ranges(pa.array(["a", "b"]), write_statistics=False) == ["unknown"]


def test_a_column_that_the_file_does_not_have_holds_no_value():
    """The file is older than the column, so that it is null in all of its rows."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": [1]}), sink)
    (group,) = row_groups(ParquetBatches(sink, where="a file"), pa.schema([pa.field("new", pa.string())]))
    assert group.ranges == {"new": None}


def test_of_a_missing_column_that_may_not_be_null_nothing_is_said():
    """Its rows hold what is put in its place."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": [1]}), sink)
    required = pa.field("new", pa.int32(), metadata={REQUIRED_KEY: b""})
    (group,) = row_groups(ParquetBatches(sink, where="a file"), pa.schema([required]))
    assert group.ranges == {}


@pytest.mark.parametrize(("low", "high"), [("zzzz", "bbbb"), ("aa\xe9", "bbbb")])
def test_bounds_that_cannot_be_are_not_believed(low: str, high: str):
    """They contradict each other, or are cut within a character."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": ["aaaa", "bbbb"]}), sink, store_schema=False)
    data = sink.getvalue()
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[at:].replace(b"aaaa", b"\0" * 4).replace(b"bbbb", high.encode())
    footer = footer.replace(b"\0" * 4, low.encode("latin-1").ljust(4, b"\xe9"))
    (group,) = row_groups(ParquetBatches(io.BytesIO(data[:at] + footer), where="a file"), pa.schema({"c": pa.string()}))
    assert group.ranges == {}
