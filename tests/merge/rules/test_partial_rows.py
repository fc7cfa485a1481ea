"""Rows that are filled; against the slow twin they are held in `tests/merge/test_sorted_merge.py`."""

import numpy as np
import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules, PartialUpdates
from lakeward.merge.rules.partial_rows import fill_rows

COMMIT = MergeMode.COMMIT_TIME_ORDERING
IGNORE = MergeRules(COMMIT, partial_updates=PartialUpdates.IGNORE_DEFAULTS)
FILL = MergeRules(COMMIT, partial_updates=PartialUpdates.FILL_UNAVAILABLE, unavailable="?")


def batch(*rows):
    return pa.RecordBatch.from_pylist(list(rows), pa.schema([("a", pa.string()), ("b", pa.struct({"x": pa.int32()}))]))


def test_what_is_none_is_filled_by_the_first_that_has_a_value():
    """Nulls, or texts that are unavailable; what is inside of a value stays as it is."""
    rows = batch({"a": None, "b": None}, {"a": "?", "b": {"x": None}}, {"a": "c", "b": None})
    fillers = [
        (batch({"a": "?", "b": None}, {"a": "f", "b": {"x": 1}}), np.array([0, 1])),
        (batch({"a": "g", "b": {"x": 2}}), np.array([0])),
    ]
    assert fill_rows(rows, fillers, IGNORE).to_pylist() == [
        {"a": "?", "b": {"x": 2}},
        {"a": "?", "b": {"x": None}},
        {"a": "c", "b": None},
    ]
    assert fill_rows(rows, fillers, FILL).to_pylist() == [
        {"a": None, "b": None},
        {"a": "f", "b": {"x": None}},
        {"a": "c", "b": None},
    ]


def test_bytes_that_read_as_unavailable_are_refused():
    """Hudi looks at the text of bytes, and which that is was not tried. Keeps 2 of merge/rules/partial_rows."""
    schema = pa.schema([("a", pa.binary())])
    rows = pa.RecordBatch.from_pylist([{"a": b"?"}, {"a": b"x"}], schema)
    with pytest.raises(Unsupported, match="a holds bytes"):
        fill_rows(rows, [(rows, np.array([0, 1]))], FILL)
    sound = rows.slice(1)
    assert fill_rows(sound, [(sound, np.array([0]))], FILL).equals(sound)
