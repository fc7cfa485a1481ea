"""Hudi's cleaner on a copy of each table deletes what our plan names, by each policy.

What we keep beyond that (decision 0030) Hudi's defaults do not bring about; `tests/services/clean/plan/clean.cases` has
it. For the policy by hours the instants of the first writes are moved into the past, in names and in what names them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.paths import join
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from tests.hudi.log_compacting import log_compact, plan_log_compaction
from tests.hudi.metadata_table import INDEXES
from tests.hudi.table import HudiTable, TableShape
from tests.interop.hybrid_table import carry_out, compact, some, write_and_plan
from tests.interop.made_once import made_once
from tests.interop.test_hybrid_compaction import EVENT, shape
from tests.our_reader import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COW = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
WITH_METADATA = {"hoodie.metadata.enable": "true"}
COW_WITH_METADATA = COW | WITH_METADATA

COMMITS = [CleanPolicy(CleanPolicyKind.COMMITS, number) for number in (1, 3)]
VERSIONS = [CleanPolicy(CleanPolicyKind.VERSIONS, number) for number in (1, 2)]
HOURS = CleanPolicy(CleanPolicyKind.HOURS, 1)
RETAIN = {
    CleanPolicyKind.COMMITS: "retain_commits",
    CleanPolicyKind.VERSIONS: "file_versions_retained",
    CleanPolicyKind.HOURS: "hours_retained",
}


class Story:
    """A table whose writers and services are Hudi's, and the timeline of which is long enough to be cleaned."""

    def __init__(self, spark: SparkSession, path: Path, shape: TableShape) -> None:
        self.spark = spark
        self.table = HudiTable(spark, path, shape)
        self._ts = 0

    def write(self, ids: Iterable[int] = range(6), operation: str = "upsert", **options: str) -> None:
        self._ts += 1
        self.table.write(rows(self.spark, ids, self._ts), operation, **options)

    def call(self, procedure: str, **arguments: str | int) -> None:
        call(self.spark, self.table, procedure, **arguments)

    def newest_write(self) -> str:
        return max(requested for requested, _ in self.table.completed_instants())


def rows(spark: SparkSession, ids: Iterable[int], ts: int) -> DataFrame:
    records = [(f"k{number}", f"p{number % 2}", ts, f"v{ts}") for number in ids]
    return spark.createDataFrame(records, "id string, part string, ts long, v string")


def call(spark: SparkSession, table: HudiTable, procedure: str, **arguments: str | int) -> None:
    """A procedure of Hudi's on the table, which it wants by a name."""
    name = f"cleaned_{abs(hash(table.path))}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{table.path}'")
    given = ", ".join(f"{key} => {value!r}" for key, value in {"table": name, **arguments}.items())
    spark.sql(f"CALL {procedure}({given})").collect()
    spark.sql(f"DROP TABLE {name}")


def options_of(table: HudiTable) -> str:
    options = table.shape.write_options()
    return ",".join(f"{key}={value}" for key, value in options.items() if key.startswith("hoodie.metadata."))


# ------------------------------------------------------------------------------------------------ histories


def copy_on_write(story: Story) -> None:
    """Upserts, a savepoint, and a partition that is overwritten."""
    for number in range(5):
        story.write()
        if number == 1:
            story.call("create_savepoint", commit_time=story.newest_write())
    story.write([1, 3], "insert_overwrite")
    story.write([0, 2])


def partition_deleted(story: Story) -> None:
    """One of two partitions goes, and comes back in other file groups."""
    for _ in range(3):
        story.write()
    story.write([1], "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "p1"})
    story.write([0, 2])
    story.write([1])
    story.write([0])


def compacted(story: Story) -> None:
    """Three compactions with logs between them, a savepoint of logs, and a compaction that waits, with logs on top."""
    story.write(operation="insert")
    for number in range(3):
        story.write()
        if number == 1:
            story.call("create_savepoint", commit_time=story.newest_write())
        story.write([0, 1])
        story.table.compact()
    story.write([0, 2])
    story.table.schedule_compaction()
    story.write([0, 1])


def logs_alone(story: Story) -> None:
    """Bucketed file groups that begin with logs, log compactions of Lakeward, and logs that they superseded."""
    story.write()
    story.write()
    log_compact(story.table.path)
    story.write()
    story.table.compact()
    story.write()
    story.write()
    log_compact(story.table.path)
    story.table.compact()
    story.write()


def clustered(story: Story) -> None:
    """File groups that clustering replaced, and a clustering that waits."""
    for number in range(3):
        story.write(range(number * 4, number * 4 + 4), "insert")
    options = options_of(story.table)
    story.call("run_clustering", op="scheduleAndExecute", options=options)
    for number in range(3, 5):
        story.write(range(number * 4, number * 4 + 4), "insert")
    story.write(range(16, 20))
    story.call("run_clustering", op="schedule", options=options)


def log_compaction_waits(story: Story) -> None:
    """A log compaction that is planned and not carried out, with a slice below and logs on top."""
    story.write(operation="insert")
    for _ in range(2):
        story.write()
        story.table.compact()
    story.write()
    story.write([0, 2])
    plan_log_compaction(story.table.path)
    story.write()


def hybrid_commits(story: Story) -> None:
    """Commits of Lakeward with full compactions and log compactions in one plan, and what Hudi wrote between and
    after.
    """
    shown = write_and_plan(story.spark, story.table.path, EVENT)
    carry_out(shown)
    for number in range(30, 33):
        shown.upsert(*(some(part, range(6), number, "x") for part in ("hot", "warm", "late", "cold")))
    compact(shown.table)
    shown.upsert(*(some(part, range(6), 40, "y") for part in ("hot", "warm", "cold")))
    shown.table.compact()
    shown.upsert(some("hot", range(6), 41, "z"))


def partition_gone(story: Story) -> None:
    """A partition that is deleted and stays so: nothing is left in it."""
    for _ in range(2):
        story.write()
    story.write([1], "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "p1"})
    for _ in range(4):
        story.write([0, 2])


def cleaned_before(story: Story) -> None:
    """Hudi's cleaner has been here: now it looks only at what was written to since."""
    for _ in range(4):
        story.write()
    hudi_cleans(story.spark, story.table, COMMITS[0])
    for _ in range(3):
        story.write([0])
    story.write([1])


def failed_and_late(story: Story) -> None:
    """A write that never completed, and one that completed after a compaction that began after it."""
    story.write(operation="insert")
    story.write()
    story.table.compact()
    story.write()
    story.table.compact()
    story.write()
    timeline = story.table.path / ".hoodie" / "timeline"
    *_, newest = sorted(timeline.glob("*_*.deltacommit"))
    story.table.compact()
    # It completes a moment after everything that is there.
    latest = max(int(file.name.partition("_")[2].partition(".")[0]) for file in timeline.glob("*_*commit"))
    newest.rename(newest.with_name(f"{newest.name.partition('_')[0]}_{latest + 1}.deltacommit"))
    story.write()
    *_, last = sorted(timeline.glob("*_*.deltacommit"))
    last.unlink()


SHAPES: dict[str, tuple[Callable[[Story], None], TableShape]] = {
    "copy-on-write": (copy_on_write, TableShape(partition_fields="part", options=COW)),
    "copy-on-write, metadata table": (copy_on_write, TableShape(partition_fields="part", options=COW_WITH_METADATA)),
    "partition deleted": (partition_deleted, TableShape(partition_fields="part", options=COW)),
    "compacted": (compacted, TableShape(partition_fields="part")),
    "compacted, metadata table": (compacted, TableShape(partition_fields="part", options=WITH_METADATA)),
    "logs alone": (logs_alone, TableShape(partition_fields="part", index="BUCKET", buckets=1)),
    "clustered": (clustered, TableShape(partition_fields="part", options=COW)),
    "log compaction waits": (log_compaction_waits, TableShape(partition_fields="part")),
    "hybrid commits": (hybrid_commits, replace(shape(EVENT), options=INDEXES)),
    "partition gone": (partition_gone, TableShape(partition_fields="part", options=COW)),
    "partition gone, metadata table": (
        partition_gone,
        TableShape(partition_fields="part", options=COW_WITH_METADATA),
    ),
    "cleaned before": (cleaned_before, TableShape(partition_fields="part", options=COW)),
    "failed and late": (failed_and_late, TableShape()),
}


# ------------------------------------------------------------------------------------------------ who deletes what


def hudi_cleans(spark: SparkSession, table: HudiTable, policy: CleanPolicy) -> None:
    options = f"{options_of(table)},hoodie.clean.failed.writes.policy=NEVER"
    given = {"clean_policy": policy.hudi_name, RETAIN[policy.kind]: policy.retain, "options": options}
    call(spark, table, "run_clean", **given)


def planned(table: HudiTable, policy: CleanPolicy) -> set[str]:
    return planned_at(table.path, policy)


def planned_at(path: Path, policy: CleanPolicy) -> set[str]:
    """Paths of the files that a clean of Lakeward would delete."""
    snapshot = scan(path)
    assert not find_refusals(snapshot, TableService.CLEANING)
    plan = plan_clean(snapshot, policy, now=time.time()).plan({})
    return {join(partition, name) for partition, names in plan.files.items() for name in names}


@pytest.mark.wide
@pytest.mark.parametrize("name", SHAPES)
def test_hudi_deletes_what_we_would(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, name: str
) -> None:
    """The sets of files are equal, and over all policies together something goes."""
    history, table_shape = SHAPES[name]

    def make(folder: Path) -> None:
        history(Story(spark, folder / "table", table_shape))

    made = HudiTable(spark, made_once(tmp_path_factory, f"clean {name}".replace(" ", "_"), make) / "table", table_shape)
    gone: set[str] = set()
    for number, policy in enumerate((*COMMITS, *VERSIONS, HOURS)):
        table = made.copy_to(tmp_path / str(number))
        own = planned(table, policy)
        before = set(table.data_files())
        assert own <= before
        hudi_cleans(spark, table, policy)
        hudis = before - set(table.data_files())
        assert hudis == own, (name, policy)
        gone |= own
    assert gone, "this history says nothing"


def age(table: HudiTable, instants: int, hours: int) -> None:
    """The oldest completed instants happened earlier by so many hours: all that bears their times is changed
    accordingly."""
    times = [time for pair in sorted(table.completed_instants())[:instants] for time in pair]
    earlier = {time.encode(): _earlier(time, hours).encode() for time in times}
    for path in sorted(table.path.rglob("*")):
        if path.suffix == ".crc":  # of what was there before
            path.unlink()
        elif path.is_file():
            content = path.read_bytes()
            if ".hoodie" in path.relative_to(table.path).parts:
                path.write_bytes(_replaced(content, earlier))
            path.rename(path.with_name(_replaced(path.name.encode(), earlier).decode()))


def _earlier(instant: str, hours: int) -> str:
    moment = datetime.strptime(instant[:14], "%Y%m%d%H%M%S") - timedelta(hours=hours)
    return f"{moment:%Y%m%d%H%M%S}{instant[14:]}"


def _replaced(content: bytes, words: Mapping[bytes, bytes]) -> bytes:
    for word, by in words.items():
        content = content.replace(word, by)
    return content


@pytest.mark.wide
@pytest.mark.parametrize("name", ["compacted", "clustered", "partition deleted"])
@pytest.mark.parametrize("instants", [3, 5])
def test_hudi_deletes_what_we_would_by_hours(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, name: str, instants: int
) -> None:
    """The same where some writes are two days old."""
    history, table_shape = SHAPES[name]

    def make(folder: Path) -> None:
        history(Story(spark, folder / "table", table_shape))

    made = HudiTable(spark, made_once(tmp_path_factory, f"clean {name}".replace(" ", "_"), make) / "table", table_shape)
    gone: set[str] = set()
    for hours in (24, 72):
        table = made.copy_to(tmp_path / str(hours))
        age(table, instants, hours=48)
        policy = CleanPolicy(CleanPolicyKind.HOURS, hours)
        own = planned(table, policy)
        before = set(table.data_files())
        hudi_cleans(spark, table, policy)
        hudis = before - set(table.data_files())
        assert hudis == own, policy
        assert not own or hours == 24
        gone |= own
    assert gone or instants == 3, "this history says nothing"
