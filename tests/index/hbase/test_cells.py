"""Cells of HBase as columns, and blocks that are none."""

from __future__ import annotations

import pytest

from lakeward.index.hbase.cells import QUALIFIER, ROW, VALUE, decode_cells
from tests.index.hbase.region_server import cell, cells


def test_cells_are_columns() -> None:
    rows = [(b"", {b"q": b""}), ("ключ".encode(), {b"a": b"x" * 300, b"b": b"1"})]
    found = decode_cells(cells(rows))
    assert found[ROW].to_pylist() == [b"", "ключ".encode(), "ключ".encode()]
    assert found[QUALIFIER].to_pylist() == [b"q", b"a", b"b"]
    assert found[VALUE].to_pylist() == [b"", b"x" * 300, b"1"]
    assert decode_cells(b"").num_rows == 0


def test_every_cut_of_a_block_is_found() -> None:
    whole = cells([(b"k1", {b"a": b"1"}), (b"k2", {b"a": b"2"})])
    ends = {0, len(whole) // 2, len(whole)}
    for size in range(len(whole) + 1):
        if size in ends:
            assert decode_cells(whole[:size]).num_rows == 2 * size // len(whole)
        else:
            with pytest.raises(ValueError, match=f"cell {2 * size // len(whole)} is cut short"):
                decode_cells(whole[:size])


def test_lengths_that_contradict_each_other() -> None:
    whole = bytearray(cell(b"key", b"q", b"value"))
    for at in (3, 7, 11, 13, 17):  # the cell's, the key part's, the value's, the row's, the family's
        broken = bytearray(whole)
        broken[at] = 255
        with pytest.raises(ValueError, match="cell 0 is cut short"):
            decode_cells(bytes(broken))


def test_a_delete_is_no_value() -> None:
    with pytest.raises(ValueError, match="cell 1 is no plain value"):
        decode_cells(cell(b"k", b"q", b"v") + cell(b"k", b"q", b"v", kind=8))
