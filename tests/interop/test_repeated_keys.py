"""A record key in several rows of one base file, as `insert` leaves it: Hudi and Lakeward give the same rows.

Hudi's readers merge by the places that logs name in the base file, which its simple index leaves there: each row of the
key meets the records that name it. Logs without places, and merges of copy-on-write, meet the first one alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

BASE = [
    ("a", 1, "a1"),
    ("k", 5, "k5"),
    ("b", 1, "b1"),
    ("k", 3, "k3"),
    ("t", 5, "t5"),
    ("k", 9, "k9"),
    ("t", 7, "t7"),
    ("u", 1, "u1"),
    ("u", 2, "u2"),
]
EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"


def rows(spark: SparkSession, *values: tuple[str, int, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id string, ts long, v string").coalesce(1)


def table_of(spark: SparkSession, path: Path, mode: str, kind: str = "MERGE_ON_READ") -> HudiTable:
    ordering = "ts" if mode == EVENT else ""
    options = {"hoodie.datasource.write.table.type": kind}
    table = HudiTable(spark, path, TableShape(merge_mode=mode, ordering_fields=ordering, options=options))
    table.write(rows(spark, *BASE), "insert")
    return table


def in_file_order(table: HudiTable) -> list[tuple[str, str, str]]:
    """Key, sequence number and value of each row of the newest base file."""
    newest = max(table.path.glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    columns = ["_hoodie_record_key", "_hoodie_commit_seqno", "v"]
    found = pq.read_table(newest, columns=columns, partitioning=None).to_pylist()
    return [(row["_hoodie_record_key"], row["_hoodie_commit_seqno"], row["v"]) for row in found]


@pytest.mark.turns
@pytest.mark.parametrize("places", [True, False], ids=["by places", "by keys"])
@pytest.mark.parametrize("mode", [EVENT, pytest.param(COMMIT, marks=pytest.mark.wide)])
def test_compaction_comes_to_hudis_rows(spark: SparkSession, tmp_path: Path, mode: str, places: bool) -> None:
    """FULL leaves what queries showed, row by row in the order of Hudi's compaction of a copy; then Hudi goes on."""
    table = table_of(spark, tmp_path / "table", mode)
    named = {"hoodie.write.record.positions": str(places).lower()}
    table.write(rows(spark, ("k", 6, "new6"), ("b", 4, "b4")), "upsert", **named)
    table.write(rows(spark, ("t", 0, "")), "delete", **named)
    before = table.snapshot()
    assert ('"id":"t"' in "".join(before)) != places
    twin = table.copy_to(tmp_path / "twin")
    twin.compact()
    compact(table)
    assert table.snapshot() == twin.snapshot() == before
    assert in_file_order(table) == in_file_order(twin)
    for each in (table, twin):
        each.write(rows(spark, ("k", 20, "again"), ("n", 1, "n")), "upsert", **named)
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    lakeward("verify", str(table.path), "--sample", "10")
    compact(table)
    twin.compact()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)


@pytest.mark.wide
@pytest.mark.parametrize("mode", [EVENT, COMMIT])
def test_writes_come_to_hudis_rows(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Copy-on-write: an upsert and a delete of Lakeward reach the first of the rows, as Hudi's do on a copy."""
    table = table_of(spark, tmp_path / "table", mode, "COPY_ON_WRITE")
    twin = table.copy_to(tmp_path / "twin")
    twin.write(rows(spark, ("k", 6, "new6"), ("n", 1, "n")), "upsert", **{"hoodie.parquet.small.file.limit": "1000000"})
    twin.write(rows(spark, ("t", 0, "")), "delete")
    for name, operation, values in (
        ("up", "upsert", [("k", 6, "new6"), ("n", 1, "n")]),
        ("de", "delete", [("t", 0, "")]),
    ):
        source = tmp_path / f"{name}.jsonl"
        source.write_text("".join(f'{{"id": "{key}", "ts": {ts}, "v": "{v}"}}\n' for key, ts, v in values))
        options = ["--input", str(source), "--operation", operation, "--writers", "stopped", "--index", "simple"]
        lakeward("write", str(table.path), *options)
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    assert [key for key, *_ in in_file_order(table)] == [key for key, *_ in in_file_order(twin)]
