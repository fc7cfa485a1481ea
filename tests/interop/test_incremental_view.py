"""A watched table that real Hudi writes and services: after each thing that it does, the view is what a scan shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from lakeward.table.timeline.service_instants import ServiceName, foreign_instants
from lakeward.table.watching.incremental_view import Change, IncrementalView
from tests.clocks import SkippingClock
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.wide]

CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
ARCHIVED = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}


def rows(spark: SparkSession, keys: range, ts: int) -> DataFrame:
    return spark.createDataFrame([(f"k{n}", ts, f"d{n % 3}") for n in keys], "id string, ts bigint, part string")


class Story:
    """The table, and the view that is refreshed after each thing that Hudi did to it."""

    def __init__(self, spark: SparkSession, path: Path, shape: TableShape) -> None:
        self.spark = spark
        self.table = HudiTable(spark, path, shape)
        self.view = IncrementalView(LocalStorage(), str(path), clock=SkippingClock())
        self.ts = 10

    def refresh(self) -> Change:
        change = self.view.refresh()
        assert self.view.snapshot() == take_snapshot(LocalStorage(), str(self.table.path), clock=SkippingClock())
        return change

    def write(self, keys: range, operation: str = "upsert", **options: str) -> Change:
        self.ts += 1
        self.table.write(rows(self.spark, keys, self.ts), operation, **options)
        return self.refresh()

    def call(self, procedure: str) -> Change:
        self.spark.sql(f"CALL {procedure}").collect()
        return self.refresh()

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Hudi's own, for what has no SQL procedure."""
        jvm: Any = self.spark._jvm
        options = jvm.java.util.HashMap()
        for key, value in (self.table.shape.write_options() | {"hoodie.log.compaction.blocks.threshold": "1"}).items():
            options.put(key, value)
        fields = [{"name": name, "type": kind} for name, kind in (("id", "string"), ("ts", "long"), ("part", "string"))]
        schema = json.dumps({"type": "record", "name": "r", "fields": fields})
        create = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient
        client = create(self.spark._jsc, schema, str(self.table.path), self.table.shape.name, options)
        yield client
        client.close()

    def log_compact(self) -> Change:
        with self.client() as client:
            instant = client.scheduleLogCompaction(self.spark._jvm.org.apache.hudi.common.util.Option.empty())  # type: ignore[union-attr]
            assert instant.isPresent()
            assert is_small(self.refresh())
            client.logCompact(instant.get(), True)
        return self.refresh()

    def roll_back(self, instant: str) -> Change:
        with self.client() as client:
            assert client.rollback(instant)
        return self.refresh()


def is_small(change: Change) -> bool:
    return change.changed and not change.rebuilt and not change.partitions_listed


def test_a_view_of_a_table_that_hudi_services(spark: SparkSession, tmp_path: Path) -> None:
    """Plain writes, compactions, log compactions, cleans and archival cost what they change."""
    path = tmp_path / "table"
    story = Story(spark, path, TableShape(partition_fields="part", index="BUCKET", buckets=2))
    assert story.write(range(12), "insert").rebuilt
    for keys in (range(6), range(4, 9)):
        assert is_small(story.write(keys))
    assert is_small(story.write(range(2), "delete"))
    assert is_small(story.log_compact())

    story.table.schedule_compaction()
    assert is_small(story.refresh())
    assert is_small(story.write(range(6)))
    story.table.compact_pending(story.view.backlog.pending_plans[0].instant)
    assert is_small(story.refresh())
    assert [i.action for i in foreign_instants(story.view.service_instants(), ServiceName("l", "s"), since=0)] == [
        "logcompaction",
        "compaction",
    ]
    assert is_small(story.write(range(6), **CLEANED)), "with a clean"
    assert list((path / ".hoodie" / "timeline").glob("*.clean"))

    assert not story.write(range(3, 6), "insert_overwrite").rebuilt
    story.table.write(
        rows(spark, range(1), 1), "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "d2"}
    )
    assert not story.refresh().rebuilt
    story.write(range(12), **CLEANED)

    assert story.roll_back(story.table.completed_instants()[-1][0]).rebuilt
    for _ in range(6):
        story.write(range(6), **CLEANED)
    length = story.view.backlog.timeline_length
    changes = [story.write(range(6), **CLEANED, **ARCHIVED) for _ in range(3)]
    assert all(is_small(change) for change in changes) and story.view.backlog.timeline_length < length


@pytest.mark.wide
def test_a_view_of_a_table_of_layout_1(spark: SparkSession, tmp_path: Path) -> None:
    """Table version 6, where logs carry the instant of their slice: touched partitions are listed."""
    shape = TableShape(partition_fields="part", options={"hoodie.write.table.version": "6"})
    story = Story(spark, tmp_path / "table", shape)
    story.write(range(12), "insert")
    assert not story.write(range(6)).rebuilt
    assert not story.write(range(1), "delete").rebuilt
    settings = "hoodie.write.table.version=6,hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
    story.call(f"run_compaction(op => 'scheduleAndExecute', path => '{story.table.path}', options => '{settings}')")
    story.write(range(6), **CLEANED)
    story.write(range(6), "insert_overwrite")
    for _ in range(4):
        story.write(range(6), **CLEANED, **ARCHIVED)
