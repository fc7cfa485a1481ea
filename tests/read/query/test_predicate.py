from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.format.parquet.row_groups import RowGroup, ValueRange
from tests.read.conditions import Among, Between, wanted

NUMBERS = pa.array([1, None, 2, 3, 4])


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        (Among("n", frozenset({1, 3, 9})), [1, 3]),
        (Among("n", frozenset()), []),
        (Between("n", 2, 3), [2, 3]),
        (Between("n", 2), [2, 3, 4]),
        (Between("n", None, 2), [1, 2]),
        (Between("n"), [1, 2, 3, 4]),
        (Between("n", 3, 2), []),
    ],
)
def test_conditions(condition: Among | Between, chosen: list[int]):
    """Bounds belong to what is wanted, and null never does."""
    batch = pa.RecordBatch.from_arrays([NUMBERS], ["n"])
    assert wanted(condition).chosen(batch).column(0).to_pylist() == chosen


def test_text_is_ordered_by_its_bytes():
    """Beyond U+FFFF a character is greater than all below, unlike in Java."""
    batch = pa.RecordBatch.from_arrays([pa.array(["\U0001f600", "\uff01", "z"])], ["s"])
    found = wanted(Between("s", "\uff01")).chosen(batch).column(0).to_pylist()
    assert found == ["\U0001f600", "\uff01"]
    assert wanted(Between("s", "\uff01")).may_hold_in(RowGroup(0, 1, {"s": ValueRange("\U0001f600", "\U0001f600")}))


def test_a_group_is_passed_over_only_where_no_value_could_be_wanted():
    """Keeps 1 and 2 of read/query/predicate: every condition is tried with every range of small numbers; a null may be
    anywhere where nothing says that there is none."""
    bounds = [None, *range(4)]
    conditions: list[Among | Between] = [Between("n", low, high) for low in bounds for high in bounds]
    conditions += [Among("n", frozenset(values)) for values in ([], [0], [1, 3])]
    for condition in conditions:
        for low in range(4):
            for high in range(low, 4):
                batch = pa.RecordBatch.from_arrays([pa.array(range(low, high + 1))], ["n"])
                held = wanted(condition).mask(batch).to_pylist()
                group = RowGroup(0, 1, {"n": ValueRange(low, high)})
                says = wanted(condition).may_hold_in(group)
                assert says or not any(held), (condition, low, high)
                assert any(held) or not says or isinstance(condition, Between), (condition, low, high)
                known = RowGroup(0, 1, group.ranges, frozenset("n"))
                assert wanted(condition).must_hold_in(known) is all(held), (condition, low, high)
                assert not wanted(condition).must_hold_in(group)


def test_nothing_follows_from_what_is_not_known_or_not_comparable():
    """Text against numbers, or a column without a range."""
    predicate = wanted(Among("n", frozenset({"a"})), Between("m", "a", "b"))
    assert predicate.may_hold_in(RowGroup(0, 1, {"n": ValueRange(1, 2), "m": ValueRange(3, 4)}))
    assert predicate.may_hold_in(RowGroup(0, 1, {}))
    assert not predicate.may_hold_in(RowGroup(0, 1, {"n": None}))
