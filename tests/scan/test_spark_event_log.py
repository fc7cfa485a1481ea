"""Scans in lines as Spark 3.5.9 writes them with Hudi 1.2.0. Real logs are read by the test of this name in interop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeward.scan.spark_event_log import SparkRead, asked_partitions, reads_of
from lakeward.table.table_config import TableConfig

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us"))])
DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")
STARTED = {"Event": "SparkListenerApplicationStart", "App Name": "dashboard-7", "User": "bi", "Timestamp": 1}


def scan(location: str, filters: str = "[]", *, index: str = "HoodieFileIndex") -> dict[str, Any]:
    metadata = {"Location": f"{index}(1 paths)[{location}]", "PartitionFilters": filters, "PushedFilters": "[]"}
    return {"nodeName": "Scan HudiFileGroup ", "simpleString": "", "children": [], "metadata": metadata, "metrics": []}


def execution(*scans: dict[str, Any], at: float = 1000.0) -> dict[str, Any]:
    joined = {"nodeName": "BroadcastHashJoin", "children": list(scans), "metadata": {}, "metrics": []}
    plan = {"nodeName": "AdaptiveSparkPlan", "children": [joined], "metadata": {}, "metrics": []}
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    return {"Event": name, "executionId": 5, "sparkPlanInfo": plan, "time": int(at * 1000)}


def lines(*events: dict[str, Any]) -> list[bytes]:
    return [json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events]


def test_each_scan_of_a_table_is_a_read_by_who_runs_the_application():
    """Also where one query joins a table with itself; a plan that changes as it runs is no query more (Keeps 1 of
    scan/spark_event_log)."""
    query = execution(scan("/data/orders", "[(day#88 = 2026-11-01)]"), scan("s3a://lake/trips"))
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate"
    other = {"nodeName": "FileScan parquet", "children": [], "metadata": {"Location": "InMemoryFileIndex(1 paths)[/x]"}}
    incremental = execution(scan("/data/x", index="HoodieIncrementalFileIndex"))
    log = lines(STARTED, query, {**query, "Event": name}, execution(other), incremental)

    assert list(reads_of(log)) == [
        SparkRead("/data/orders", "[(day#88 = 2026-11-01)]", "bi", "dashboard-7", 1000.0),
        SparkRead("s3a://lake/trips", "[]", "bi", "dashboard-7", 1000.0),
    ]


def asked(filters: str, paths: Sequence[str] = DAYS, fields: str = "day") -> tuple[str, ...] | None:
    config = TableConfig({"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": fields})
    return asked_partitions(filters, paths, config=config, schema=SCHEMA)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("[isnotnull(day#88), (day#88 = 2026-11-01)]", DAYS[:1]),
        ("[day#88 IN (2026-11-01,2026-11-02)]", DAYS[:2]),
        ("[isnotnull(day#88), (day#88 >= 2026-11-02), (day#88 < 2026-11-03)]", DAYS[1:2]),
        ("[(day#88 = 2026-12-24)]", ()),
        ("[isnotnull(day#88)]", None),
    ],
)
def test_partitions_that_a_filter_fits(filters: str, expected: tuple[str, ...] | None):
    """The conditions are those that Spark prints, with text unquoted."""
    assert asked(filters) == expected


@pytest.mark.parametrize(
    ("filters", "paths"),
    [
        ("[((day#88 = a) OR (day#88 = b))]", DAYS),
        ("[(substring(day#88, 1, 7) = 2026-11)]", DAYS),
        ("[(day#88 = a (b))]", ("a (b)", "c")),
        ("[day#88 IN (a,b,c)]", ("a,b", "c")),
        ("[dynamicpruningexpression(day#88 IN dynamicpruning#9)]", DAYS),
        ("[(at#3 = 2026-11-01 00:00:00)]", DAYS),
    ],
)
def test_a_condition_that_is_not_clear_fits_all(filters: str, paths: tuple[str, ...]):
    """Too many partitions are counted rather than too few (Keeps 2 of scan/spark_event_log)."""
    assert asked(filters, paths) in (None, paths)


def test_numbers_are_compared_as_numbers():
    """A text that is none lets all through."""
    assert asked("[(n#3 > 9)]", ("9", "10", "100"), "n") == ("10", "100")
    assert asked("[n#3 IN (1,2)]", ("1", "3"), "n") == ("1",)
    assert asked("[(n#3 > 9.5)]", ("9", "10"), "n") is None
