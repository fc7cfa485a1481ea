"""Columns as they are compared by value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeward.merge.rows.row_hash import RowHashes
from lakeward.scan.comparable_values import comparable

OTHER_NAN = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
MAP = pa.map_(pa.string(), pa.list_(pa.float64()))
NESTED = pa.struct([("m", MAP), ("l", pa.large_list(pa.float32()))])


@pytest.mark.parametrize(
    ("kind", "left", "right", "is_equal"),
    [
        (pa.float64(), float("nan"), OTHER_NAN, True),
        (pa.float64(), 0.0, -0.0, True),
        (pa.float64(), None, float("nan"), False),
        (pa.float32(), 1.5, 1.25, False),
        (MAP, [("a", [1.0]), ("b", [0.0])], [("b", [-0.0]), ("a", [1.0])], True),
        (MAP, [("a", [1.0]), ("b", [])], [("b", [1.0]), ("a", [])], False),
        (MAP, [], None, False),
        (NESTED, {"m": [("x", [2.0]), ("y", None)], "l": [-0.0]}, {"m": [("y", None), ("x", [2.0])], "l": [0.0]}, True),
        (NESTED, {"m": None, "l": [0.0]}, {"m": None, "l": [0.0, 0.0]}, False),
        (pa.list_(pa.map_(pa.string(), pa.int64())), [[("b", 1), ("a", 2)]], [[("a", 2), ("b", 1)]], True),
    ],
)
def test_values_that_are_equal_have_equal_bytes(kind: pa.DataType, left: Any, right: Any, is_equal: bool) -> None:
    """Keeps 1 of scan/comparable_values; whatever lies around the value, and under nulls."""
    arrays = [pa.array([None, value, None, value], kind).slice(1) for value in (left, right)]
    found = [comparable(array) for array in arrays]
    hashes = [RowHashes.of(3, [array]) for array in found]
    assert all(array.type == kind for array in found)
    assert (hashes[0].first.tolist() == hashes[1].first.tolist()) is is_equal
    assert found[0].is_null().to_pylist() == arrays[0].is_null().to_pylist()
