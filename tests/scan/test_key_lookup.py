"""Rows by their keys, and where they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeward
from lakeward.format.avro.schema_text import schema_text
from tests.golden_tables import copy_golden, expected_rows
from tests.write.writing import COLUMNS, Row, new_table, rows_of, write

FIRST: list[Row] = [(f"k{number}", 1, "pq"[number % 2], f"v{number}") for number in range(8)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t")
    write(table, FIRST)
    return table


def test_rows_by_their_keys(base: Path) -> None:
    """A row of a base file, one that a log changed, one that a log deleted, one that is nowhere. Keeps 4 of
    scan/table_scan."""
    write(base, [("k2", 2, "p", "new")])
    write(base, [("k3", 2, "q", None)], "delete")
    table = lakeward.Table(str(base))
    found = table.get(["k1", "k2", "k3", "k9", "k2"], columns=["id", "v"])
    assert found.sort_by("id").to_pylist() == [{"id": "k1", "v": "v1"}, {"id": "k2", "v": "new"}]
    rows = table.scan(keys=["k1", "k3", "k9"], columns=["v"])
    assert rows.missing_keys is None
    assert (rows.to_arrow().column("v").to_pylist(), rows.missing_keys) == (["v1"], ("k3", "k9"))
    assert (rows.count(), rows.missing_keys) == (1, ("k3", "k9"))
    assert table.scan(keys=["k1"], where="v = 'x'").to_arrow().num_rows == 0
    assert table.get([]).num_rows == 0 and table.get("k1").num_rows == 1
    cut = table.scan(keys=["k1", "k2", "k4"], limit=1)
    assert (cut.to_arrow().num_rows, cut.missing_keys) == (1, None)


def test_where_rows_are(base: Path) -> None:
    """The partition, the file group, and the commit that wrote the row last; a deleted row is nowhere."""
    write(base, [("k2", 2, "p", "new")])
    write(base, [("k3", 2, "q", None)], "delete")
    table = lakeward.Table(str(base))
    found = table.record_locations(["k1", "k2", "k3"]).sort_by("key").to_pylist()
    rows = table.scan(columns=["_hoodie_record_key", "_hoodie_commit_time"]).to_arrow().to_pylist()
    times = {row["_hoodie_record_key"]: row["_hoodie_commit_time"] for row in rows}
    groups = {each.partition_path: each.file_id for each in table._snapshot.file_groups}
    assert found == [
        {"key": "k1", "partition": "q", "file_id": groups["q"], "instant": times["k1"]},
        {"key": "k2", "partition": "p", "file_id": groups["p"], "instant": times["k2"]},
    ]


def test_a_key_of_several_partitions(base: Path) -> None:
    """Keys that are of one partition: each partition that has it gives its row."""
    write(base, [("k1", 1, "p", "also here")])
    table = lakeward.Table(str(base))
    found = table.get("k1", columns=["part", "v"]).sort_by("part").to_pylist()
    assert found == [{"part": "p", "v": "also here"}, {"part": "q", "v": "v1"}]
    assert table.record_locations("k1").column("partition").to_pylist() == ["p", "q"]


def test_keys_of_several_fields(tmp_path: Path) -> None:
    """Keys as `_hoodie_record_key` has them, or by the names of their fields."""
    columns = pa.schema([("a", pa.int64()), ("b", pa.string()), *COLUMNS])
    base = new_table(tmp_path / "t", schema=schema_text(columns, "t"), record_key_fields=("a", "b"))
    write(base, rows_of([(1, "x", "i", 1, "p", "v"), (2, "y,z", "j", 1, "q", "w")], columns))
    table = lakeward.Table(str(base))
    assert table.get("a:1,b:x").column("v").to_pylist() == ["v"]
    assert table.get({"a": 2, "b": "y,z"}).column("v").to_pylist() == ["w"]


def test_keys_that_are_made_of_columns(tmp_path: Path) -> None:
    """Hudi wrote it, rows without keys, some in logs."""
    table = lakeward.Table(str(copy_golden("keyless", tmp_path / "t")), timezone="UTC")
    fields = table._snapshot.config.record_key_fields
    expected = {",".join(str(row[name]) for name in fields): row for row in expected_rows("keyless")}
    assert len(fields) == 1 and len(expected) > 2
    asked = [*sorted(expected)[:3], "nowhere"]
    rows = table.scan(keys=asked, columns=list(fields))
    assert sorted(str(row[fields[0]]) for row in rows.to_arrow().to_pylist()) == asked[:3]
    assert rows.missing_keys == ("nowhere",)
    bases = table.scan(columns=list(fields), read_optimized=True).to_arrow().column(0).to_pylist()
    assert table.scan(keys=bases, columns=list(fields), read_optimized=True).to_arrow().column(0).to_pylist() == bases
