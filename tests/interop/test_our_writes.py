"""Tables that Lakeward and released Hudi write by turns: what either wrote the other finds, and both read the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward.write
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact
from tests.interop.lakeward_cli import lakeward as command

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COLUMNS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("v", pa.string())])

Rows = dict[str, tuple[int, str, str]]
"""Maps a key to its ordering value, partition and value."""


@dataclass(frozen=True, slots=True)
class Turns:
    """One table, its model, and two writers."""

    spark: SparkSession
    table: HudiTable
    options: dict[str, str]
    words: tuple[str, ...]
    rows: Rows

    def ours(self, operation: str, rows: Rows) -> dict[str, Any]:
        path = self.table.path.parent / "rows.parquet"
        columns = [list(rows), *(list(each) for each in zip(*rows.values(), strict=True))]
        pq.write_table(pa.table(columns, schema=COLUMNS), path)
        exit_code, printed = command(
            "write",
            str(self.table.path),
            "--input",
            str(path),
            "--operation",
            operation,
            "--writers",
            "stopped",
            *self.words,
        )
        assert exit_code == 0, printed
        self._learn(operation, rows)
        return printed

    def ours_on_spark(self, operation: str, rows: Rows) -> None:
        """From Python, out of a data frame."""
        index = dict(zip(self.words[::2], self.words[1::2], strict=True))
        report = lakeward.write.write(
            self._frame(rows),
            str(self.table.path),
            operation=operation,
            writers_stopped=True,
            index=index.get("--index"),
            buckets=int(index["--buckets"]) if "--buckets" in index else None,
        )
        assert report.files
        self._learn(operation, rows)

    def theirs(self, operation: str, rows: Rows) -> None:
        self.table.write(self._frame(rows), operation, **self.options)
        self._learn(operation, rows)

    def _frame(self, rows: Rows) -> DataFrame:
        of = [(key, *value) for key, value in rows.items()]
        return self.spark.createDataFrame(of, "id string, ts bigint, part string, v string")

    def check(self) -> None:
        """Hudi reads what the model says, with the metadata table and by listing."""
        for metadata in ("true", "false"):
            found = [
                json.loads(row) for row in self.table.snapshot(with_meta=False, **{"hoodie.metadata.enable": metadata})
            ]
            assert {row["id"]: (row["ts"], row["part"], row["v"]) for row in found} == self.rows
            assert len(found) == len(self.rows)

    def _learn(self, operation: str, rows: Rows) -> None:
        if operation == "insert_overwrite":
            taken = {part for _, part, _ in rows.values()}
            for key in [key for key, (_, part, _) in self.rows.items() if part in taken]:
                del self.rows[key]
        for key, value in rows.items():
            if operation == "delete":
                self.rows.pop(key, None)
            elif key not in self.rows or self.rows[key][0] <= value[0]:
                self.rows[key] = value


BUCKETS = {"index": "BUCKET", "buckets": 2}
RECORD_INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}


@pytest.mark.parametrize(
    ("kind", "shape", "options", "words"),
    [
        ("MERGE_ON_READ", BUCKETS, {"hoodie.metadata.enable": "true"}, ("--index", "bucket", "--buckets", "2")),
        ("COPY_ON_WRITE", {}, {"hoodie.metadata.enable": "true"}, ()),
        pytest.param("MERGE_ON_READ", {}, {}, (), marks=pytest.mark.wide),
        pytest.param("MERGE_ON_READ", {}, {"hoodie.metadata.enable": "true"}, (), marks=pytest.mark.wide),
        pytest.param("COPY_ON_WRITE", BUCKETS, {}, ("--index", "bucket", "--buckets", "2"), marks=pytest.mark.wide),
        pytest.param("MERGE_ON_READ", {}, RECORD_INDEX, ("--index", "record"), marks=pytest.mark.wide),
        pytest.param("COPY_ON_WRITE", {}, RECORD_INDEX, ("--index", "record"), marks=pytest.mark.wide),
    ],
    ids=["mor-buckets", "cow", "mor-listing", "mor", "cow-buckets", "mor-record", "cow-record"],
)
def test_they_take_turns(
    spark: SparkSession,
    tmp_path: Path,
    kind: str,
    shape: dict[str, Any],
    options: dict[str, str],
    words: tuple[str, ...],
    request: pytest.FixtureRequest,
) -> None:
    """Upserts, late rows, deletes, rows that come back, whole partitions anew, and compaction, commit by commit."""
    made = TableShape(partition_fields="part", **shape)
    options = {"hoodie.datasource.write.table.type": kind, "hoodie.parquet.small.file.limit": "104857600", **options}
    on_spark = request.node.get_closest_marker("wide") is not None
    turns = Turns(spark, HudiTable(spark, tmp_path / "t", made), options, words, {})
    turns.theirs("upsert", {f"k{n}": (1, f"p{n % 2}", "theirs") for n in range(8)})
    printed = turns.ours("upsert", {f"k{n}": (2, f"p{n % 2}", "ours") for n in range(4, 12)})
    assert printed["inserted"] + printed["updated"] == 8
    turns.check()
    turns.theirs("upsert", {f"k{n}": (3, f"p{n % 2}", "again") for n in range(6, 14)})
    ours = turns.ours_on_spark if on_spark else turns.ours
    ours("upsert", {f"k{n}": (1 if n == 7 else 4, f"p{n % 2}", "late" if n == 7 else "new") for n in (7, 12, 20)})
    ours("delete", {f"k{n}": (0, f"p{n % 2}", "") for n in (0, 5)})
    turns.check()
    turns.theirs("delete", {"k20": (5, "p0", "")})
    turns.ours("upsert", {"k21": (5, "p1", "first"), "k22": (5, "p2", "of a new partition")})
    ours("insert_overwrite", {"k1": (6, "p1", "alone")})
    turns.theirs("upsert", {"k1": (7, "p1", "theirs"), "k22": (7, "p2", "theirs")})
    turns.check()
    if kind == "MERGE_ON_READ":
        assert compact(turns.table)["compactions"]
        turns.check()
    exit_code, printed = command("verify", str(turns.table.path), "--all")
    assert exit_code == 0, printed
