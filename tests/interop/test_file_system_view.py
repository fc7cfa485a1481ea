"""Our file groups and slices, against those that Hudi's own file-system view makes of the same files; and after each
thing that Hudi does to a watched table, the view is what a scan shows.

The tables hold what tells the two apart most easily: pending compactions and log compactions, compacted and replaced
groups, clustering, encoded partition paths, the archived timeline, both timeline layouts, and files that no commit
owns, planted by hand.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.timeline.service_instants import ServiceName, foreign_instants
from lakeward.table.watching.incremental_view import Change, IncrementalView
from tests.clocks import SkippingClock
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.interop

Slice = tuple[str, str, str, str | None, tuple[str, ...]]
"""Partition path, file id, base instant, base file, logs oldest first."""

AWKWARD = ("a b/ü", "x=1%", "日本")


def rows(spark: SparkSession, keys: range, ts: int, parts: tuple[str, ...]) -> DataFrame:
    values = [(f"k{key}", ts, parts[key % len(parts)]) for key in keys]
    return spark.createDataFrame(values, "id string, ts bigint, part string")


def own(snapshot: TableSnapshot) -> tuple[set[Slice], set[Slice]]:
    """The latest slice of each group, and all slices."""
    latest, every = set(), set()
    for group in snapshot.file_groups:
        for number, slice_ in enumerate(group.slices):
            base = slice_.base_file.name if slice_.base_file else None
            logs = tuple(log.name.text for log in slice_.log_files)
            formatted = (slice_.partition_path, slice_.file_id, slice_.base_instant, base, logs)
            every.add(formatted)
            if number == 0:
                latest.add(formatted)
    return latest, every


def hudis(spark: SparkSession, path: Path, uncommitted: tuple[str, ...]) -> tuple[set[Slice], set[Slice]]:
    """The same by Hudi. Its latest slices leave out uncommitted files; from all slices they are taken out here."""
    jvm: Any = spark._jvm
    hudi = jvm.org.apache.hudi
    configuration = hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    client = hudi.common.table.HoodieTableMetaClient.builder().setConf(configuration).setBasePath(str(path)).build()
    engine = hudi.common.engine.HoodieLocalEngineContext(configuration)
    timeline = client.getActiveTimeline().filterCompletedAndCompactionInstants()
    view = hudi.common.table.view.HoodieTableFileSystemView.fileListingBasedFileSystemView(engine, client, timeline)
    hidden = {Path(name).name for name in uncommitted}
    latest, every = set(), set()
    for partition_path in hudi.common.fs.FSUtils.getAllPartitionPaths(engine, client, False):
        latest |= {
            formatted(slice_, partition_path, set()) for slice_ in each(view.getLatestFileSlices(partition_path))
        }
        every |= {formatted(slice_, partition_path, hidden) for slice_ in each(view.getAllFileSlices(partition_path))}
    view.close()
    return latest, every


def each(stream: Any) -> Iterator[Any]:
    iterator = stream.iterator()
    while iterator.hasNext():
        yield iterator.next()


def formatted(slice_: Any, partition_path: str, hidden: set[str]) -> Slice:
    base = slice_.getBaseFile().get().getFileName() if slice_.getBaseFile().isPresent() else None
    newest_first = [log.getFileName() for log in each(slice_.getLogFiles())]
    logs = tuple(name for name in reversed(newest_first) if name not in hidden)
    base = None if base in hidden else base
    return (partition_path, slice_.getFileId(), slice_.getBaseInstantTime(), base, logs)


def compacted_and_pending(spark: SparkSession, path: Path) -> HudiTable:
    """Encoded partitions; Hudi compacted once, left a plan, and wrote on; then what races and crashes leave behind."""
    shape = TableShape(partition_fields="part", hive_style=True, url_encode=True)
    table = HudiTable(spark, path, shape)
    table.write(rows(spark, range(12), 10, AWKWARD), "insert")
    table.write(rows(spark, range(6), 11, AWKWARD), "upsert")
    compaction = table.compact()
    table.write(rows(spark, range(4), 12, AWKWARD), "upsert")
    plan = table.schedule_compaction()
    table.write(rows(spark, range(3), 13, AWKWARD), "upsert")
    table.write(rows(spark, range(5, 7), 14, AWKWARD), "delete")

    timeline = path / ".hoodie" / "timeline"
    # The upsert before the compaction now completes within it, so its logs lie on the new base.
    (late,) = [
        file for file in timeline.glob("*.deltacommit") if file.name < compaction and file.name > first(timeline)
    ]
    inside = f"{int(compaction) + 1}"
    late.rename(late.with_name(f"{late.name[:17]}_{inside}.deltacommit"))
    # A dead attempt at the pending plan, and logs of a write that was rolled back without its files.
    for folder in sorted(path.glob("part=*"))[:2]:
        file = min(folder.glob("*.parquet"))
        file_id = file.name.partition("_")[0]
        shutil.copy(file, file.with_name(f"{file_id}_9-9-9_{plan}.parquet"))
        (file.with_name(f".{file_id}_{int(plan) + 1}.log.1_0-0-0")).write_bytes(b"torn")
    return table


def first(timeline: Path) -> str:
    return min(file.name for file in timeline.glob("*_*commit"))


def layout_1(spark: SparkSession, path: Path) -> HudiTable:
    """Table version 6 with a pending compaction, logs on top of it, and a replaced partition."""
    shape = TableShape(partition_fields="part", hive_style=True, options={"hoodie.write.table.version": "6"})
    table = HudiTable(spark, path, shape)
    table.write(rows(spark, range(12), 10, ("p", "q")), "insert")
    table.write(rows(spark, range(6), 11, ("p", "q")), "upsert")
    settings = "hoodie.write.table.version=6,hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{settings}')").collect()
    table.write(rows(spark, range(3), 13, ("p", "q")), "upsert")
    table.write(rows(spark, range(1, 12), 14, ("q",)), "insert_overwrite")
    return table


def clustered(spark: SparkSession, path: Path) -> HudiTable:
    """Groups replaced by clustering and by insert_overwrite, and a clustering plan that has not run."""
    table = HudiTable(spark, path, TableShape(partition_fields="part"))
    call = f"CALL run_clustering(path => '{path}', options => 'hoodie.metadata.enable=false', op => "
    table.write(rows(spark, range(8), 10, ("2024/01", "2024/02")), "insert")
    table.write(rows(spark, range(8, 12), 11, ("2024/01",)), "insert")
    spark.sql(f"{call} 'scheduleAndExecute')").collect()
    table.write(rows(spark, range(3), 12, ("2024/02",)), "insert_overwrite")
    table.write(rows(spark, range(20, 24), 13, ("2024/01",)), "insert")
    table.write(rows(spark, range(20, 22), 14, ("2024/01",)), "upsert")
    spark.sql(f"{call} 'schedule')").collect()
    return table


def log_compaction(spark: SparkSession, path: Path) -> HudiTable:
    """A pending log compaction of bucketed groups, with logs after it."""
    table = HudiTable(spark, path, TableShape(index="BUCKET"))
    for ts in (10, 11, 12):
        table.write(rows(spark, range(6), ts, ("p",)), "upsert")
    jvm: Any = spark._jvm
    options = jvm.java.util.HashMap()
    for key, value in (table.shape.write_options() | {"hoodie.log.compaction.blocks.threshold": "1"}).items():
        options.put(key, value)
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]})
    create = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient
    client = create(spark._jsc, schema, str(path), table.shape.name, options)
    assert client.scheduleLogCompaction(jvm.org.apache.hudi.common.util.Option.empty()).isPresent()
    client.close()
    table.write(rows(spark, range(4), 13, ("p",)), "upsert")
    return table


def archived(spark: SparkSession, path: Path) -> HudiTable:
    """Two slices of one group whose commits have left the active timeline, so that only the history can place logs."""
    table = HudiTable(spark, path, TableShape())
    table.write(rows(spark, range(6), 10, ("p",)), "insert")
    table.write(rows(spark, range(3), 11, ("p",)), "upsert")
    table.compact()
    for ts in range(12, 17):
        table.write(rows(spark, range(3), ts, ("p",)), "upsert")
    options = {
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.commits.retained": "1",
    }
    table.write(rows(spark, range(3), 17, ("p",)), "upsert", **options)
    return table


@pytest.mark.turns
@pytest.mark.parametrize("make", [compacted_and_pending, layout_1, clustered, log_compaction, archived])
def test_slices_equal_those_of_hudi(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], HudiTable]
) -> None:
    """Our view and Hudi's make the same groups, slices, base files and logs of the same files; of those of version 6 we
    make a compaction, and Hudi reads the same rows."""
    table = make(spark, tmp_path / "table")

    snapshot = take_snapshot(LocalStorage(), str(table.path), clock=SkippingClock())

    assert not snapshot.frozen and not snapshot.timeline.broken and not snapshot.timeline.unknown
    assert own(snapshot) == hudis(spark, table.path, snapshot.uncommitted_files)
    if make is compacted_and_pending:
        assert len(snapshot.uncommitted_files) == 4
    if make is layout_1:
        before = table.snapshot()
        code, printed = lakeward("compact", str(table.path), "--writers", "stopped", "--engine", "local")
        assert code == 0 and printed["compactions"], printed
        assert table.snapshot() == before
    if make is archived:
        known = {instant.time for instant in snapshot.timeline.instants}
        slices = [slice_ for group in snapshot.file_groups for slice_ in group.slices]
        old = [log for slice_ in slices for log in slice_.log_files if log.instant not in known]
        assert old and len(slices) >= 2, "the history was not needed"


CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
ARCHIVED = {"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}


def daily_rows(spark: SparkSession, keys: range, ts: int) -> DataFrame:
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
        self.table.write(daily_rows(self.spark, keys, self.ts), operation, **options)
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


@pytest.mark.wide
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
        daily_rows(spark, range(1), 1), "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "d2"}
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
