"""What Hudi itself leaves of a pattern is found, what the pattern does to its rows is as `doctor` says, and the remedy
helps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.golden_tables import copy_golden
from tests.hudi.client import hudi_client
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_clustering import check, made, write
from tests.services.together.doctor.sick_tables import SICK

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


def keys(spark: SparkSession, base: Path) -> list[str]:
    """The record key of each row that Hudi's reader gives, by its defaults."""
    rows = spark.read.format("hudi").load(str(base)).select("_hoodie_record_key").collect()
    return sorted(row["_hoodie_record_key"] for row in rows)


def test_what_hudi_makes_of_each_pattern(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi 1.2.0 reads rows twice, reads deleted rows again, misses rows, or fails, as docs/operate/doctor.md says."""
    sound = keys(spark, copy_golden("v9", tmp_path / "sound"))
    assert len(sound) == 4
    sick = {code: SICK[code].make(tmp_path / code) for code in SICK}

    assert keys(spark, sick["replaced-group-back"]) == ["k1", "k1", "k2", "k9"], "it was k1 and k9"
    assert keys(spark, sick["doubled-keys"]) == ["k1"] * 4 + ["onlya", "onlyb"]
    gained = set(keys(spark, sick["damaged-files"])) - set(sound)
    assert len(gained) == 2, "the log that was cut held their deletes"
    assert keys(spark, sick["partition-gone"]) == []
    with pytest.raises(Exception, match="does not exist"):
        keys(spark, sick["metadata-out-of-step"])


def test_what_hudis_writers_make_of_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    """Hudi 1.2.0 begins no write beside half a restore; it ends half a rollback with its next write, and what the
    completed commit had deleted is there again."""
    shape = TableShape(partition_fields="p")
    halted = SICK["restore-interrupted"].make(tmp_path / "halted")
    with (
        pytest.raises(Exception, match="Found pending restore"),
        hudi_client(spark, HudiTable(spark, halted, shape)) as client,
    ):
        client.startCommit()

    half = SICK["commit-half-rolled-back"].make(tmp_path / "half")
    before = keys(spark, half)
    with hudi_client(spark, HudiTable(spark, half, shape)) as client:
        client.startCommit()
    assert len(set(keys(spark, half)) - set(before)) == 2
