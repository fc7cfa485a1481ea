"""Ranges over batches: against the slow twin, a loop over Python's values."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import Unsupported
from lakeward.format.stats.column_range import (
    LENGTH_MAX,
    ColumnRange,
    ColumnRangeAccumulator,
    cut,
    joined,
    range_of,
)

NAN = float("nan")


def reference(values: list[Any]) -> ColumnRange:
    """The range found in a loop: NaN above all numbers, text and bytes in the order of their bytes."""
    there = [value for value in values if value is not None]

    def order(value: Any) -> Any:
        if isinstance(value, float):
            return (value != value, 0.0 if value != value else value)
        return value.encode() if isinstance(value, str) else value

    smallest, largest = (min(there, key=order), max(there, key=order)) if there else (None, None)
    return ColumnRange(smallest, largest, len(values), len(values) - len(there))


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.floats().map(lambda value: value + 0.0)),  # no -0.0, which equals 0.0
    "float": (pa.float32(), st.floats(width=32).map(lambda value: value + 0.0)),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
    "large text": (pa.large_string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
    "bytes": (pa.binary(), st.binary(max_size=4)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "decimal": (pa.decimal128(38, 3), st.integers(-(10**37), 10**37).map(lambda value: Decimal(value).scaleb(-3))),
}


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_range_of_any_batches(name: str, data: st.DataObject):
    """The range of all batches is that of all their values."""
    kind, values = TYPES[name]
    batches = data.draw(st.lists(st.lists(st.none() | values, max_size=8), max_size=4))
    accumulator = ColumnRangeAccumulator(["c"], pa.schema([pa.field("c", kind)]))

    for batch in batches:
        accumulator.add(pa.RecordBatch.from_arrays([pa.array(batch, kind)], names=["c"]))

    expected = reference(pa.array([value for batch in batches for value in batch], kind).to_pylist())
    assert repr(accumulator.ranges["c"]) == repr(expected)


def test_times_are_ints_in_their_unit():
    """They are days, and milliseconds, microseconds or nanoseconds since 1970, before it too."""
    for values, expected in [
        (pa.array([datetime.date(1969, 12, 31), datetime.date(2000, 1, 1)]), (-1, 10957)),
        (pa.array([-5, 7], pa.timestamp("ms", "UTC")), (-5, 7)),
        (pa.array([-5, 7], pa.timestamp("us")), (-5, 7)),
        (pa.array([-(2**63), 2**63 - 1], pa.timestamp("ns", "UTC")), (-(2**63), 2**63 - 1)),
        (pa.array([5, 7], pa.time32("ms")), (5, 7)),
        (pa.array([5, 7], pa.time64("us")), (5, 7)),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ("a", "b")),
        (pa.array([9, None, 5, 7], pa.timestamp("us")).slice(1, 2), (5, 5)),
    ]:
        found = range_of(values)
        assert (found.min_value, found.max_value) == expected, values.type


def test_fields_of_records():
    """A column may lie in records; it is null wherever one of them is."""
    kind = pa.struct([("a", pa.struct([("b", pa.int32())]))])
    values = pa.array([{"a": {"b": 3}}, None, {"a": None}, {"a": {"b": None}}, {"a": {"b": 1}}], kind)
    schema = pa.schema([pa.field("c", kind), pa.field("c.d", pa.int32())])
    accumulator = ColumnRangeAccumulator(["c.a.b", "c.d", "c.a.x", "nothing", "no.thing"], schema)

    accumulator.add(pa.RecordBatch.from_arrays([values, pa.array([1, 2, 3, 4, 5], pa.int32())], schema=schema))

    assert accumulator.ranges == {"c.a.b": ColumnRange(1, 3, 5, 3), "c.d": ColumnRange(1, 5, 5, 0)}


@pytest.mark.parametrize("column", ["record", "list", "map", "list.element", "map.key"])
def test_what_has_no_order_is_refused(column: str):
    """The error names the column, before any row is read."""
    schema = pa.schema(
        [
            pa.field("record", pa.struct([("a", pa.int32())])),
            pa.field("list", pa.list_(pa.int32())),
            pa.field("map", pa.map_(pa.string(), pa.int32())),
        ]
    )
    with pytest.raises(Unsupported, match=column):
        ColumnRangeAccumulator([column], schema)


def test_joining_with_nothing():
    """No rows change nothing."""
    found = ColumnRange(1, 2, 5, 1)
    assert joined(found, ColumnRange()) == joined(ColumnRange(), found) == found


@given(st.text(min_size=1, max_size=3), st.text(max_size=3), st.sampled_from([LENGTH_MAX - 3, LENGTH_MAX + 1]))
def test_a_cut_range_of_text_holds_the_whole_one(head: str, tail: str, length: int):
    """Short ends stay; of long ones little is left, and it lies outside."""
    value = (head * length)[:length] + tail
    found = cut(ColumnRange(value, value, 1, 0))
    if len(value) <= LENGTH_MAX:
        assert found == ColumnRange(value, value, 1, 0)
    else:
        assert found.min_value <= value <= found.max_value  # type: ignore[operator]
        assert len(str(found.min_value)) < 300
        assert len(str(found.max_value)) < 300 or set(value[:256]) == {"\U0010ffff"}


def test_cut_at_the_ends_of_the_alphabet():
    """A last character that cannot be greater leaves its turn to the one before it; without any, the end stays
    whole."""
    long = LENGTH_MAX + 1
    for value, expected in [
        ("a" + "\U0010ffff" * long, "b"),
        ("\ud7ff" * long, "\ud7ff" * 255 + "\ue000"),
        ("\U0010ffff" * long, "\U0010ffff" * long),
        (b"a" + b"\xff" * long, b"b"),
        (b"\x00" * long, b"\x00" * 255 + b"\x01"),
        (b"\xff" * long, b"\xff" * long),
    ]:
        found = cut(ColumnRange(value, value, 1, 0))
        assert found.max_value == expected
        assert found.min_value == value[:256]
        assert found.max_value >= value  # type: ignore[operator]


def test_many_rows_without_python(request: pytest.FixtureRequest):
    """A million rows of four columns cost a fraction of a second: nothing is done row by row."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    numbers = np.random.default_rng(seed).random(1_000_000)
    texts = pa.array(numbers).cast(pa.string())
    batch = pa.RecordBatch.from_arrays([pa.array(numbers), texts, pa.array(numbers > 0.5)], names=["a", "b", "c"])
    accumulator = ColumnRangeAccumulator(batch.schema.names, batch.schema)
    started = datetime.datetime.now()

    accumulator.add(batch)

    assert (datetime.datetime.now() - started).total_seconds() < 2
    assert accumulator.ranges["a"] == ColumnRange(float(numbers.min()), float(numbers.max()), 1_000_000, 0)
