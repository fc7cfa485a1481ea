"""The changes that `lakeward.scan.change_scan` finds, against those of released Hudi's query, window by window."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Refused
from lakeward.scan.change_scan import ChangeQuery, ChangeScan
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from tests.hudi.table import HudiTable, TableShape
from tests.interop.test_change_capture import Captured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

QUICK = ("COPY_ON_WRITE", "SIMPLE", "DATA_BEFORE_AFTER", "9")
"""Merge-on-read in every mode is wide; tests/scan/test_change_scan.py has it without Hudi."""
CASES = [
    pytest.param(kind, index, mode, version, marks=[] if (kind, index, mode, version) == QUICK else pytest.mark.wide)
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for index in ("SIMPLE", "BUCKET")
    for mode in ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER")
    for version in ("9", "8", "6")
    if version == "9" or (index == "SIMPLE" and mode != "DATA_BEFORE")
]


def expected(table: HudiTable, since: str, until: str) -> list[str]:
    """Operation, instant, row before and after of each change in the window, as Hudi's query gives them."""
    frame = table.frame(
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": since,
            "hoodie.datasource.read.end.instanttime": until,
        }
    )
    rows = [(row["op"], row["ts_ms"], image(row["before"]), image(row["after"])) for row in frame.collect()]
    return sorted(map(json.dumps, rows))


def image(text: str | None) -> dict[str, Any] | None:
    """A row without meta columns; a log of changes has the text `null` where a log of rows has none."""
    row = json.loads(text or "null")
    return row and {name: value for name, value in row.items() if not name.startswith("_hoodie")}


def found(table: HudiTable, since: str | None, until: str | None, **query: Any) -> list[str]:
    """The same from Lakeward."""
    snapshot = take_snapshot(LocalStorage(), str(table.path), timezone="UTC", clock=SystemClock())
    scan = ChangeScan(LocalStorage(), snapshot, ChangeQuery(since=since, until=until, **query), SystemClock())
    rows = [row for batch in scan for row in batch.to_pylist()]
    return sorted(json.dumps((row["op"], row["ts_ms"], row["before"], row["after"])) for row in rows)


def assert_same(table: HudiTable, ends: list[str]) -> None:
    for since, until in itertools.pairwise(("000", *ends)):
        assert found(table, None if since == "000" else since, until) == expected(table, since, until), (since, until)
    assert found(table, None, None) == expected(table, "000", ends[-1])


@pytest.mark.turns(30)
@pytest.mark.parametrize(("kind", "index", "mode", "version"), CASES)
def test_changes_are_those_of_hudis_query(
    spark: SparkSession, tmp_path: Path, kind: str, index: str, mode: str, version: str
) -> None:
    """Keeps 1 of scan/change_scan and 2 of scan/change_plan: rows that win, lose, come and go, a delete of all, a
    replaced partition, and compactions of Hudi and of Lakeward in between; and the changes of an insert into a small
    file, at which Hudi's query fails."""
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.parquet.small.file.limit": "104857600",
    }
    if version != "9":
        options |= {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "false"}
    shape = TableShape(partition_fields="part", index=index, buckets=1, options=options)
    hudis = Captured(spark, HudiTable(spark, tmp_path / "hudis", shape))
    hudis.write(*((f"k{number}", 10, "a") for number in range(5)), operation="insert")
    hudis.write(("k1", 11, "b"), ("k7", 11, "new"), ("k2", 5, "late"))
    hudis.write(("k3", 11, ""), ("zz", 11, ""), operation="delete")
    hudis.write(("k4", 10, "a"))
    if (kind, version) == ("MERGE_ON_READ", "6"):
        with pytest.raises(Refused, match="fails over logs of table version 6"):
            found(hudis.table, None, None)
        with pytest.raises(Exception, match="Fail to parse the base file and log files from DeltaCommit"):
            expected(hudis.table, "000", hudis.ends()[-1])
        return
    if kind == "MERGE_ON_READ":
        hudis.table.compact()
        hudis.write(("k1", 12, "c"), ("k3", 12, "back"))
        assert_same(hudis.table, hudis.ends())
        if version == "9":
            hudis.compact("--type", "full")
    hudis.write(("q1", 1, "x"), ("q2", 1, "y"), part="q")
    hudis.write(("k1", 13, "over"), ("n1", 13, "n"), operation="insert_overwrite")
    hudis.write(("k1", 14, "e"), ("q1", 2, "z"))
    hudis.write(("k1", 15, ""), ("n1", 15, ""), operation="delete")
    assert_same(hudis.table, hudis.ends())
    if kind == "COPY_ON_WRITE":
        hudis.write(("q3", 1, "w"), operation="insert", part="q")
        row = {"id": "q3", "part": "q", "ts": 1, "v": "w"}
        since, until = hudis.ends()[-2:]
        assert [json.loads(each)[0::2] for each in found(hudis.table, since, until)] == [["i", None]]
        assert [json.loads(each)[3] for each in found(hudis.table, since, until)] == [row]
        with pytest.raises(Exception, match="There should be a cdc log file"):
            expected(hudis.table, since, until)
