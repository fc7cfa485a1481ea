"""What real Spark writes of queries of a table that real Hudi wrote is counted by partition."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.state.migration import migrate
from lakeward.state.store import open_store
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_clustering import made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.turns(12)]

STARTED = {"Event": "SparkListenerApplicationStart", "App Name": "dashboard-7", "User": "bi", "Timestamp": 1}
"""The line with which Spark begins the log of an application; the session of the tests began long ago."""


def test_queries_are_counted_by_the_partitions_that_they_ask_for(spark: SparkSession, tmp_path: Path) -> None:
    """Readers of a table merged on read ask for one partition, for one of several, and twice within ten minutes for all
    of it; an incremental query is none of these reads."""
    table, _ = made(spark, tmp_path / "t", "MERGE_ON_READ", {})
    path = str(table.path)
    migrate(url := f"sqlite:///{tmp_path}/lakeward.db")
    clock = SystemClock()
    with closing(open_store(url, clock=clock)) as store:
        store.observations.watch("orders", path, clock.now())

    context = spark.sparkContext
    scala, jvm = context._jsc.sc(), context._jvm
    assert jvm is not None
    written = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app-1",
        jvm.scala.Option.apply(None),
        jvm.java.io.File(str(tmp_path)).toURI(),
        scala.conf(),
        scala.hadoopConfiguration(),
    )
    written.start()
    scala.addSparkListener(written)
    rows = spark.read.format("hudi").load(path)
    for asked in ("part = 'p0'", "part in ('p1', 'p2')", "v is not null", "id = 'k00'"):
        assert rows.where(asked).collect()
    changes = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "000"}
    assert spark.read.format("hudi").options(**changes).load(path).collect()
    scala.listenerBus().waitUntilEmpty()
    scala.removeSparkListener(written)
    written.stop()

    (log,) = tmp_path.glob("app-1*")
    log.write_bytes(json.dumps(STARTED, separators=(",", ":")).encode() + b"\n" + log.read_bytes())
    code, learned = lakeward("learn-reads", str(log), "--url", url)
    assert (code, learned["problems"], learned["reads"]) == (0, [], 4)
    with closing(open_store(url, clock=clock)) as store:
        counted = {each.partition_path: each.reads for each in store.reads.days("orders", since_day=0)}
    assert counted == {"*": 1, "p0": 1, "p1": 1}
    assert lakeward("learn-reads", str(log), "--url", url)[1]["counted"] == {"orders": 0}
