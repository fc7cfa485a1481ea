"""What Hudi itself leaves of a pattern is found, what the pattern does to its rows is as `doctor` says, and the remedy
helps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.client import hudi_client
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_clustering import check, made, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def test_an_overwrite_under_a_pending_clustering(spark: SparkSession, tmp_path: Path) -> None:
    """apache/hudi issue 18830, by Hudi 1.2.0: it requests a clustering, and overwrites a partition of it. Carried out,
    the clustering brings the overwritten rows back. Rolled back, it does not, and the table is well again."""
    table, rows = made(spark, tmp_path / "t", "COPY_ON_WRITE", {})
    path = str(table.path)
    assert lakeward("doctor", path)[0] == 0
    nothing = spark._jvm.org.apache.hudi.common.util.Option.empty()  # type: ignore[union-attr]
    with hudi_client(spark, table) as client:
        instant = client.scheduleClustering(nothing).get()
    overwritten = [key for key, (_, part, _) in rows.items() if part == "p0"]
    write(spark, table, rows, {"new": (3, "p0", "overwrites")}, "insert_overwrite")
    for key in overwritten:
        del rows[key]

    exit_code, report = lakeward("doctor", path)
    assert exit_code == 6, report
    (found,) = report["found"]
    (symptom,) = found["symptoms"]
    assert (found["code"], symptom["subject"]) == ("clustering-overwritten", f"clustering {instant}")
    assert all("has replaced" in line for line in symptom["evidence"])

    doomed = table.copy_to(tmp_path / "doomed")
    with hudi_client(spark, doomed) as client:
        client.cluster(instant, True)
    came_back = {row["id"] for row in doomed.frame().select("id").collect()} - rows.keys()
    print("came back", sorted(came_back))
    assert came_back == set(overwritten)

    assert symptom["command"] == f"lakeward rollback {path} {instant}"
    assert lakeward("rollback", path, instant, "--writers", "stopped")[0] == 0
    exit_code, report = lakeward("doctor", path)
    assert exit_code == 0, report
    check(table, rows)
