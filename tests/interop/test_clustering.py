"""Small file groups that Hudi made, packed by Lakeward: Hudi reads the same rows from fewer files, and writes on. So it
does with partitions that expired and that Lakeward deleted, also into them, and reads them again after they were
brought back.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from lakeward.base.clock import SystemClock
from lakeward.base.errors import TryLater
from lakeward.format.avro.container import read_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.replace_metadata import read_requested_clustering
from lakeward.protocol.writers_conflict import YieldOptions
from lakeward.services.clustering.plan.hudi_plan import plan_as_hudi, read_hudi_keys
from lakeward.services.clustering.plan.layout_record import LAYOUT_KEY
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run import joined_file
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.client import hudi_client
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.our_reader import scan
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import SHARED as OWN_LOCK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RECORD_INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
}
BLOOM = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.index.type": "BLOOM",
    "hoodie.bloom.index.use.metadata": "true",
}
BLOOM_OF_FOOTERS = {"hoodie.metadata.enable": "true", "hoodie.index.type": "BLOOM"}
T = TypeVar("T")

BY_LISTING = {"hoodie.metadata.enable": "false"}
SHARED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
CLEANING = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}

Rows = dict[str, tuple[int, str, str]]
"""Maps a key to its ordering value, partition and value."""


def made(spark: SparkSession, path: Path, table_type: str, options: Mapping[str, str]) -> tuple[HudiTable, Rows]:
    """Twelve small file groups in two partitions, some of them updated."""
    shape = TableShape(partition_fields="part", options={"hoodie.datasource.write.table.type": table_type, **options})
    table, rows = HudiTable(spark, path, shape), Rows()
    for turn in range(6):
        write(spark, table, rows, {f"k{turn}{n}": (1, f"p{n % 2}", first(turn)) for n in range(4)}, "insert")
    write(spark, table, rows, {"k00": (2, "p0", "updated"), "k51": (2, "p1", "updated")}, "upsert")
    write(spark, table, rows, {"k12": rows["k12"]}, "delete")
    return table, rows


def first(turn: int) -> str:
    """A text of its own length: no two base files are of one size, where Hudi's plan takes them in any order."""
    return f"first {turn} {sha256(bytes([turn])).hexdigest()[: 5 * turn]}"


def write(spark: SparkSession, table: HudiTable, known: Rows, rows: Rows, operation: str, **options: str) -> None:
    frame = spark.createDataFrame(
        [(key, *row) for key, row in rows.items()], "id string, ts long, part string, v string"
    )
    table.write(frame, operation, **options)
    for key, row in rows.items():
        if operation == "delete":
            del known[key]
        else:
            known[key] = row


def check(table: HudiTable, rows: Rows) -> None:
    """Hudi reads these by listing and by the metadata table, and so does Lakeward."""
    for options in ({}, BY_LISTING):
        found = table.frame(**options).select("id", "ts", "part", "v").collect()
        assert {row["id"]: (row["ts"], row["part"], row["v"]) for row in found} == rows, options
        assert len(found) == len(rows), options
    exit_code, report = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, report


PLAN = "hoodie.clustering.plan.strategy."
PLANS: tuple[dict[str, str], ...] = (
    {},
    {f"{PLAN}max.bytes.per.group": "1400000", f"{PLAN}target.file.max.bytes": "500000"},
    {f"{PLAN}max.bytes.per.group": "1", f"{PLAN}single.group.clustering.enabled": "false"},
    {f"{PLAN}max.bytes.per.group": "500000", f"{PLAN}sort.columns": "v"},
    {f"{PLAN}small.file.limit": "1"},
    {f"{PLAN}target.file.max.bytes": "900000", "hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS"},
    {"hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS", f"{PLAN}daybased.lookback.partitions": "1"},
    {"hoodie.clustering.plan.partition.filter.mode": "SELECTED_PARTITIONS", f"{PLAN}cluster.begin.partition": "p1"},
)
Groups = set[tuple[str, frozenset[str], int]]
"""Partition, file ids, and how many file groups they become."""


def check_plans(spark: SparkSession, table: HudiTable, of: Sequence[dict[str, str]]) -> None:
    """With each of these keys Lakeward's plan is that of Hudi, whose plan is taken off the timeline again."""
    for keys in of:
        found = plan_as_hudi(scan(table.path), read_hudi_keys(keys, hour=0), PackOptions())
        groups: Groups = {
            (each.partition_path, frozenset(slice_.file_id for slice_ in each.slices), each.outputs)
            for each in found.packed
        }
        assert groups == hudi_plan(spark, table, keys), keys


def hudi_plan(spark: SparkSession, table: HudiTable, keys: dict[str, str]) -> Groups:
    with hudi_client(spark, table, **keys) as client:
        scheduled = client.scheduleClustering(spark._jvm.org.apache.hudi.common.util.Option.empty())  # type: ignore[union-attr]
    if not scheduled.isPresent():
        return set()
    (requested,) = table.path.glob(f".hoodie/timeline/{scheduled.get()}.clustering.requested")
    plan = RecordFields(read_record(requested.read_bytes(), file=""), file="").record("clusteringPlan")
    requested.unlink()
    assert plan is not None
    return {
        (
            str(group.records("slices")[0].text("partitionPath")),
            frozenset(str(slice_.text("fileId")) for slice_ in group.records("slices")),
            group.integer("numOutputFileGroups") or 1,
        )
        for group in plan.records("inputGroups")
    }


@pytest.mark.wide
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_hudis_plans(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    """Keeps of services/clustering/plan/hudi_plan: eight sets of keys, on tables with and without logs, under a pending
    compaction, and after a clustering."""
    table, rows = made(spark, tmp_path / "t", table_type, BY_LISTING)
    check_plans(spark, table, PLANS)
    if table_type == "MERGE_ON_READ":
        table.schedule_compaction()
        check_plans(spark, table, PLANS)
        table.compact()
    exit_code, report = lakeward("cluster", str(table.path), "--writers", "stopped", "--partition", "p0")
    assert exit_code == 0, report
    write(spark, table, rows, {"k20": (7, "p0", "later")}, "upsert")
    check_plans(spark, table, PLANS)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("table_type", "keys", "has_begun"),
    [
        ("COPY_ON_WRITE", PLANS[0], False),
        ("MERGE_ON_READ", {f"{PLAN}sort.columns": "v", f"{PLAN}max.bytes.per.group": "1400000"}, True),
    ],
)
def test_hudis_request_is_carried_out(
    spark: SparkSession, tmp_path: Path, table_type: str, keys: dict[str, str], has_begun: bool
) -> None:
    """Keeps 1 of services/together/clustering_execution and of services/clustering/plan/requested_plan: Hudi requests a
    clustering and leaves it, or dies right after it began. Its groups become new ones by its plan, sorted as it says;
    Hudi reads the same rows, and writes to the file groups that it refused to update before."""
    table, rows = made(spark, tmp_path / "t", table_type, RECORD_INDEX)
    with hudi_client(spark, table, **keys) as client:
        instant = client.scheduleClustering(spark._jvm.org.apache.hudi.common.util.Option.empty()).get()  # type: ignore[union-attr]
    (requested,) = table.path.glob(f".hoodie/timeline/{instant}.clustering.requested")
    planned = read_requested_clustering(requested.read_bytes(), file="")
    assert planned is not None
    if has_begun:
        requested.with_suffix(".inflight").touch()
    with pytest.raises(Py4JJavaError):
        write(spark, table.copy_to(tmp_path / "copy"), dict(rows), {"k00": (8, "p0", "refused")}, "upsert")
    path, given = str(table.path), ("--execute", instant)
    exit_code, report = lakeward("cluster", path, *given, "--dry-run")
    assert exit_code == 0 and requested.exists(), report
    assert lakeward("cluster", path, "--execute", "20200101000000000", "--writers", "stopped")[0] == 2
    exit_code, done = lakeward("cluster", path, *given, "--writers", "stopped")
    assert exit_code == 0, done
    expected = {file_id for group in planned.groups for _, file_id in group.file_groups}
    assert {each["file_id"] for each in done["file_groups"]} == expected
    assert (done["input_groups"], done["rows"]) == (len(expected), len(rows))
    assert report["output_groups"] == done["output_groups"] == sum(group.outputs for group in planned.groups)
    assert not table.pending_instants()
    (completed,) = table.path.glob(f".hoodie/timeline/{done['instant']}_*.replacecommit")
    said = read_commit_metadata(completed.read_bytes(), file="", layout=2).extra_metadata.get(LAYOUT_KEY, "{}")
    assert json.loads(said).get("columns", []) == (["v"] if has_begun else [])
    check(table, rows)
    write(spark, table, rows, {"k00": (9, "p0", "after"), "k98": (9, "p1", "new")}, "upsert")
    check(table, rows)


def files_read(table: HudiTable) -> int:
    return table.frame().select("_hoodie_file_name").distinct().count()


@pytest.mark.turns(50)
@pytest.mark.parametrize(
    ("table_type", "options"),
    [
        ("MERGE_ON_READ", RECORD_INDEX),
        pytest.param("COPY_ON_WRITE", RECORD_INDEX, marks=pytest.mark.wide),
        pytest.param("COPY_ON_WRITE", BLOOM, marks=pytest.mark.wide),
        pytest.param("COPY_ON_WRITE", BLOOM_OF_FOOTERS, marks=pytest.mark.wide),
        pytest.param("MERGE_ON_READ", BY_LISTING, marks=pytest.mark.wide),
    ],
)
def test_hudi_reads_the_same_rows_and_writes_on(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_type: str,
    options: dict[str, str],
) -> None:
    """Keeps 1 of services/clustering/run/clusterer, as released Hudi and hudi-rs see it: every row with its meta
    columns, from two files instead of twelve. It is refused beside a writer without heartbeats. Updates, deletes and a
    clean of Hudi's find keys in the new groups, time travel finds the old ones. A partition that expired is gone, and
    can be written to again. Row groups of copy-on-write tables are copied (`services/clustering/run/joined_file`)."""
    monkeypatch.setattr(joined_file, "SHARE_OF_SMALL", 10**6)
    table, rows = made(spark, tmp_path / "t", table_type, options)
    last = table.completed_instants()[-1]
    before, as_of, files = table.snapshot(), table.as_of(last[0]), files_read(table)
    by_hudi_rs = table.read_by_hudi_rs()
    assert lakeward("cluster", str(table.path), "--lock", "filesystem")[0] == 2, "its writers leave no heartbeat"
    exit_code, report = lakeward("cluster", str(table.path), "--writers", "stopped")
    assert exit_code == 0, report
    assert (report["input_groups"], report["output_groups"], report["rows"]) == (12, 2, len(rows))
    written_by = {
        pq.read_metadata(table.path / each.base_file.path).created_by.partition(" ")[0]
        for each in scan(table.path).latest_slices
        if each.base_file is not None
    }
    assert written_by == {"parquet-mr" if table_type == "COPY_ON_WRITE" else "parquet-cpp-arrow"}
    assert table.snapshot() == table.snapshot(**BY_LISTING) == before
    assert table.read_by_hudi_rs() == by_hudi_rs
    assert files >= 12 and files_read(table) == 2
    assert table.as_of(last[0]) == as_of
    assert table.incremental(last[1], table.completed_instants()[-1][1]) == ()
    check(table, rows)
    write(spark, table, rows, {"k01": (3, "p1", "after"), "k20": (3, "p0", "after"), "k99": (3, "p0", "new")}, "upsert")
    write(spark, table, rows, {"k33": rows["k33"]}, "delete")
    check(table, rows)
    for _ in range(2):
        write(spark, table, rows, {"k40": (4, "p0", "cleaned")}, "upsert", **CLEANING)
    check(table, rows)
    assert lakeward("cluster", str(table.path), "--dry-run")[1]["input_groups"] == 0
    left: Rows = {key: row for key, row in rows.items() if row[1] != "p0"}
    assert lakeward("ttl", str(table.path), "--keep", "1ms", "--partition", "p0", "--writers", "stopped")[0] == 0
    write(spark, table, left, {"k00": (9, "p0", "again"), "k41": (9, "p1", "after")}, "upsert")
    check(table, left)
    replaced = {each["file_id"] for each in report["file_groups"]}
    assert not [name for name in table.data_files() if any(file_id in name for file_id in replaced)]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("table_type", "options", "modes"),
    [
        ("MERGE_ON_READ", RECORD_INDEX, ["hybrid", "sort"]),
        ("COPY_ON_WRITE", RECORD_INDEX, ["sort", "hybrid"]),
        ("COPY_ON_WRITE", BLOOM, ["curve"]),
        ("MERGE_ON_READ", BY_LISTING, ["curve"]),
    ],
)
def test_ranges_of_columns_by_tasks_of_spark(
    spark: SparkSession, tmp_path: Path, table_type: str, options: dict[str, str], modes: list[str]
) -> None:
    """Keeps of services/clustering/run/moving_flow, as released Hudi sees it: the same rows, and its writers find keys
    in the new groups."""
    table, rows = made(spark, tmp_path / "t", table_type, options)
    for mode in modes:
        before = table.snapshot()
        arguments = ("--by", "v,ts", "--mode", mode, "--target-size", "2KiB", "--again", "--engine", "spark")
        exit_code, report = lakeward("cluster", str(table.path), *arguments, "--writers", "stopped")
        assert exit_code == 0 and report["output_groups"] >= 4, report
        assert table.snapshot() == before
        write(spark, table, rows, {"k41": (5, "p1", mode), f"k9{mode}": (1, "p0", mode)}, "upsert")
        check(table, rows)


@pytest.mark.wide
@pytest.mark.parametrize("by", ["lakeward", "hudi"])
@pytest.mark.parametrize(
    ("table_type", "options"),
    [("MERGE_ON_READ", RECORD_INDEX), ("COPY_ON_WRITE", RECORD_INDEX), ("COPY_ON_WRITE", BLOOM)],
)
def test_an_undo_behind_later_writes(
    spark: SparkSession, tmp_path: Path, table_type: str, options: dict[str, str], by: str
) -> None:
    """Keeps 1 of services/clustering/run/undo, as released Hudi sees it, also for a clustering of Hudi's: rows that it
    wrote to another partition since stay, the others are in as many file groups as before, where it finds their keys
    and writes on; its clean takes what was replaced. Refused once it wrote to the clustering's file groups."""
    table, rows = made(spark, tmp_path / "t", table_type, options)
    number = len(scan(table.path).latest_slices)
    if by == "hudi":
        with hudi_client(spark, table, **{f"{PLAN}sort.columns": "v"}) as client:
            instant = client.scheduleClustering(spark._jvm.org.apache.hudi.common.util.Option.empty()).get()  # type: ignore[union-attr]
            client.cluster(instant, True)
    else:
        instant = lakeward("cluster", str(table.path), "--writers", "stopped")[1]["instant"]
    assert len(scan(table.path).latest_slices) < number
    write(spark, table, rows, {"k77": (1, "p2", "later")}, "insert")
    before = table.snapshot()
    written, found = table.copy_to(tmp_path / "written"), dict(rows)
    write(spark, written, found, {"k41": (5, "p1", "to a new group")}, "upsert")
    assert lakeward("cluster", str(written.path), "--undo", "--writers", "stopped")[0] == 2
    check(written, found)
    assert lakeward("cluster", str(table.path), "--undo", "--dry-run")[1]["undone"] == instant
    exit_code, undo = lakeward("cluster", str(table.path), "--undo", "--writers", "stopped")
    assert exit_code == 0 and undo["undone"] == instant, undo
    assert table.snapshot() == table.snapshot(**BY_LISTING) == before
    assert len(scan(table.path).latest_slices) == number + 1
    check(table, rows)
    write(spark, table, rows, {"k41": (5, "p1", "after"), "k99": (1, "p0", "new")}, "upsert")
    write(spark, table, rows, {"k33": rows["k33"]}, "delete")
    for _ in range(2):
        write(spark, table, rows, {"k40": (6, "p0", "cleaned")}, "upsert", **CLEANING)
    check(table, rows)


@pytest.mark.wide
def test_hudi_rolls_back_a_clustering_that_died(spark: SparkSession, tmp_path: Path) -> None:
    """Once it has begun, with its files in their places, and with the metadata table's commit: Hudi's writers, who
    share the lock, write on beside what is left, and their clean rolls it back once the heartbeat is old; a single
    writer does so at once. No file stays that could come back."""
    table, rows = made(spark, tmp_path / "t", "COPY_ON_WRITE", RECORD_INDEX)
    storage = FaultyStorage()
    pack(table.copy_to(tmp_path / "trial").path, storage, clock=SystemClock())
    inflight = next(at for at, call in enumerate(storage.calls) if call.endswith("inflight"))
    moves = [at for at, call in enumerate(storage.calls) if call.startswith("move ")]
    commits = [at for at, call in enumerate(storage.calls) if call.startswith("link ") and call.endswith("commit")]
    for at in (inflight + 1, moves[-1] + 1, commits[0] + 1):
        for by, options in {"shared": SHARED, "single": {}}.items():
            copy, found = table.copy_to(tmp_path / f"{by}-{at}"), dict(rows)
            with pytest.raises(Killed):
                pack(copy.path, FaultyStorage(Fault(FaultKind.KILL, at)), clock=SystemClock())
            (instant,) = copy.pending_instants()
            (copy.path / ".hoodie" / "lock").unlink(missing_ok=True)  # which the operator would do, or its expiry
            for beat in (copy.path / ".hoodie" / ".heartbeat").iterdir():
                os.utime(beat, (beat.stat().st_mtime - 900,) * 2)
            for turn in range(2):
                write(spark, copy, found, {"k20": (5 + turn, "p0", by)}, "upsert", **options, **CLEANING)
            assert instant not in copy.pending_instants()
            assert not [name for name in copy.data_files() if instant in name], storage.calls[at]
            check(copy, found)


class Meanwhile(FaultyStorage):
    """Begins something, right before the first call that has all these words in it, and waits for a while."""

    def __init__(self, begin: Callable[[], Future[None]], *words: str) -> None:
        super().__init__()
        self._begin, self._words = begin, words
        self.done: Future[None] | None = None
        self.waits_for: Callable[[], bool] | None = None

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        if self.done is None and all(word in f"{name} {path}" for word in self._words):
            self.done, until = self._begin(), time.monotonic() + (5 if self.waits_for is None else 60)
            while time.monotonic() < until and not (self.waits_for is not None and self.waits_for()):
                time.sleep(0.05)
        return super()._call(name, path, act, tear)


@pytest.mark.wide
@pytest.mark.parametrize("mode", ["SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL"])
def test_a_writer_that_begins_meanwhile(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Keeps 6 of write/write_run and Keeps 2 of services/clustering/run/clusterer, as released Hudi sees it: a writer
    that updates a file group begins while files are made, and the clustering gives up; it begins while the lock is held
    to publish. Its write never fails, and its rows are there."""
    table, rows = made(spark, tmp_path / "t", "COPY_ON_WRITE", RECORD_INDEX)
    by = SHARED | {"hoodie.write.concurrency.mode": mode, "hoodie.write.lock.client.num_retries": "60"}
    by["hoodie.write.lock.client.wait_time_ms_between_retry"] = "100"
    write(spark, table, rows, {"k20": (4, "p0", "shared")}, "upsert", **by)
    moments = {
        "given-up": ("create", "replacecommit.inflight"),
        "in-place": ("move", ".parquet"),
        "completed": ("link", "_", ".replacecommit"),
    }
    for name, words in moments.items():
        copy, found = table.copy_to(tmp_path / name), dict(rows)
        with ThreadPoolExecutor(1) as threads:
            storage = Meanwhile(partial(threads.submit, update, spark, copy, found, by), *words)
            storage.waits_for = partial(begun, copy) if name == "given-up" else None
            packing = partial(pack, copy.path, storage, clock=SystemClock(), **OWN_LOCK)
            if name == "given-up":
                with pytest.raises(TryLater):
                    packing(yielding=YieldOptions(seconds=0.0))
            else:
                assert packing(yielding=YieldOptions(seconds=0.0)).output_groups == 2
            assert storage.done is not None
            storage.done.result()
        assert list(copy.path.glob(".hoodie/timeline/*.replacecommit.requested"))
        check(copy, found)


def update(spark: SparkSession, table: HudiTable, rows: Rows, options: Mapping[str, str]) -> None:
    write(spark, table, rows, {"k20": (5, "p0", "meanwhile"), "k99": (1, "p0", "new")}, "upsert", **options)


def begun(table: HudiTable) -> bool:
    """A write of Hudi's is pending."""
    return any(each.action == "commit" for each in scan(table.path).timeline.pending)


@pytest.mark.wide
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
    only = ("--keep", "1ms", "--partition", "p0")
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
