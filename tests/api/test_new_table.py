"""`lakeward.create_table` and `Table.write`: a table that Python makes, writes and reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import lakeward
from lakeward.base.errors import UsageError

COLUMNS = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
ROWS = pa.table([["a", "b", "c"], ["lima", "lima", "rome"], [1, 1, 1], [9.5, 20.0, 3.0]], schema=COLUMNS)


@pytest.mark.parametrize("layout", ["default", "lsm_tree"])
def test_a_table_of_version_10_belongs_to_its_owner(tmp_path: Path, layout: Any) -> None:
    """Made, written, updated, deleted from, compacted, and read back, though no release of Hudi reads it."""
    table = new(tmp_path / "t", version=10, layout=layout)
    assert table.count() == 0 and table.scan().to_arrow().schema.names == COLUMNS.names
    table.write(ROWS, writers_stopped=True)
    table.write(changed("b", 2, 21.0), writers_stopped=True)
    assert table.write(changed("c", 3, 0.0), operation="delete", writers_stopped=True).deleted == 1
    assert table.count() == 0, "it is of the moment at which it was opened"
    expected = [{"id": "a", "fare": 9.5}, {"id": "b", "fare": 21.0}]
    assert table.refresh().scan(columns=["id", "fare"]).to_arrow().sort_by("id").to_pylist() == expected
    done = table.service("compaction").run(writers_stopped=True)
    assert done.instants and done.figures.full_operations == 2
    again = lakeward.Table(str(tmp_path / "t"))
    assert again.scan(columns=["id", "fare"]).to_arrow().sort_by("id").to_pylist() == expected
    assert again.scan(read_optimized=True).count() == 2


def test_others_give_their_rows(tmp_path: Path) -> None:
    """Rows come from pandas, DuckDB and another table's scan, by Arrow's stream."""
    table = new(tmp_path / "t")
    table.write(pd.DataFrame(ROWS.slice(0, 1).to_pydict()), writers_stopped=True)
    rows = ROWS.slice(1, 1)
    table.write(duckdb.sql("select * from rows").to_arrow_reader(), writers_stopped=True)
    assert rows.num_rows == 1
    other = new(tmp_path / "other")
    other.write(ROWS.slice(2), writers_stopped=True)
    table.write(other.refresh().scan(), writers_stopped=True)
    assert table.refresh().scan().to_arrow().sort_by("id") == ROWS


def test_slips(tmp_path: Path) -> None:
    """Nothing is written without a word about other writers, nor where the rows are no rows."""
    table = new(tmp_path / "t")
    with pytest.raises(UsageError, match="how the table's other writers behave"):
        table.write(ROWS)
    with pytest.raises(UsageError, match="or give Arrow's stream"):
        table.write([1], writers_stopped=True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="in version 9"):
        new(tmp_path / "lsm", layout="lsm_tree")
    for name, given in {"version": 7, "layout": "lsm", "table_type": "MOR", "merge_mode": "newest"}.items():
        with pytest.raises(UsageError, match=f"{name} cannot be {given!r}"):
            new(tmp_path / "lsm", **{name: given})
    assert not (tmp_path / "lsm").exists()
    assert table.refresh().count() == 0


def new(path: Path, **named: Any) -> lakeward.Table:
    return lakeward.create_table(
        str(path), schema=COLUMNS, record_key=["id"], partition=["city"], ordering=["ts"], **named
    )


def changed(key: str, ts: int, fare: float) -> pa.Table:
    city = {"a": "lima", "b": "lima", "c": "rome"}[key]
    return pa.table([[key], [city], [ts], [fare]], schema=COLUMNS)
