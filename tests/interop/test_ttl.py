"""Partitions that expired, deleted by Lakeward from tables of Hudi's: Hudi reads the table without them, writes on,
also into them, and reads them again after they were brought back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.lakeward_cli import lakeward
from tests.interop.test_clustering import BY_LISTING, CLEANING, RECORD_INDEX, Rows, check, made, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]


@pytest.mark.parametrize(
    ("table_type", "options"),
    [
        ("COPY_ON_WRITE", RECORD_INDEX),
        ("MERGE_ON_READ", RECORD_INDEX),
        ("MERGE_ON_READ", BY_LISTING),
    ],
)
def test_a_partition_goes_and_comes_again(
    spark: SparkSession, tmp_path: Path, table_type: str, options: dict[str, str]
) -> None:
    """Keeps 1 of services/ttl/run/expirer, as released Hudi sees it: by listing and by the metadata table the partition
    is gone, its keys can be written again, and a clean of Hudi's takes its files. A restore to the commit before gives
    the rows of before."""
    table, rows = made(spark, tmp_path / "t", table_type, options)
    last = table.completed_instants()[-1][0]
    only = ("--keep", "1s", "--partition", "p0")
    planned = lakeward("ttl", str(table.path), *only, "--dry-run")[1]
    assert planned["expired"] == 1 and planned["instant"] is None
    before = table.snapshot()
    exit_code, report = lakeward("ttl", str(table.path), *only, "--writers", "stopped")
    assert exit_code == 0 and report["expired"] == 1, report
    undone = table.copy_to(tmp_path / "undone")
    assert lakeward("restore", str(undone.path), "--to", last, "--writers", "stopped")[0] == 0
    assert undone.snapshot() == before
    left: Rows = {key: row for key, row in rows.items() if row[1] != "p0"}
    assert left and len(left) < len(rows)
    check(table, left)
    write(spark, table, left, {"k00": (7, "p0", "again"), "k01": (7, "p1", "after")}, "upsert")
    check(table, left)
    for _ in range(2):
        write(spark, table, left, {"k21": (8, "p1", "cleaned")}, "upsert", **CLEANING)
    check(table, left)
