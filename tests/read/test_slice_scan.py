"""Rows of one file slice, where its base file is not in the order that its footer says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward
from lakeward.merge.runs.sort_key import NotSorted
from lakeward.read import slice_scan
from lakeward.read.file_slice import MergedSlice, open_slice
from tests.write.writing import new_table, write


@pytest.fixture
def table(tmp_path: Path) -> lakeward.Table:
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "p", "b")])
    write(base, [("k2", 2, "p", "c")])
    return lakeward.Table(str(base))


def out_of_order(monkeypatch: pytest.MonkeyPatch, *, after: int) -> list[bool]:
    """Slices that are read by the order of their base file fail after so many batches. Returns how each was read."""
    ways: list[bool] = []
    batches = MergedSlice.batches

    def opened(*given: Any, by_order: bool = True, **named: Any) -> MergedSlice:
        ways.append(by_order)
        return open_slice(*given, by_order=by_order, **named)

    def failing(merged: MergedSlice) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches(merged)):
            if ways[-1] and number == after:
                break
            yield batch
        if ways[-1]:
            raise NotSorted("It is out of order.")

    monkeypatch.setattr(slice_scan, "open_slice", opened)
    monkeypatch.setattr(MergedSlice, "batches", failing)
    return ways


def test_found_before_a_row_went_out_it_is_read_again(table: lakeward.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows come, each once, without relying on the order."""
    expected = table.scan().to_arrow().sort_by("id")
    ways = out_of_order(monkeypatch, after=0)
    assert table.scan().to_arrow().sort_by("id") == expected
    assert ways == [True, False]


def test_found_after_rows_went_out_it_ends_the_scan(table: lakeward.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of read/slice_scan: no row comes twice, and none is left out in silence."""
    ways = out_of_order(monkeypatch, after=1)
    with pytest.raises(NotSorted):
        table.scan().to_arrow()
    assert ways == [True]
