"""Hudi's cleaner on a copy of each table deletes what our plan names, by each policy; of version 8 that of Hudi 1.0.2,
which wrote these tables. Of a partition of which a clean leaves nothing Hudi deletes the folder, and we leave it empty.

What we keep beyond that (decision 0030) Hudi's defaults do not bring about; `tests/services/clean/plan/clean.cases` has
it. For the policy by hours the instants of the first writes are moved into the past, in names and in what names them.
With statistics in their metadata table none of Lakeward is made of version 8 (`services/clean/run/cleaner.py`), so
these tables have none.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.paths import join
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.undo import undo_clean
from lakeward.storage.local import LocalStorage
from lakeward.table.listing_source import ListingSource
from tests.crash.metadata_compacting import check_agrees, snapshot_of
from tests.hudi.golden_version_8 import by_default, rows_of
from tests.hudi.log_compacting import log_compact, plan_log_compaction
from tests.hudi.metadata_table import INDEXES
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.hybrid_table import carry_out, compact, some, write_and_plan
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.interop.test_hybrid_compaction import EVENT, shape
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import clean, completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table

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


OF_A_PARTITION = TableShape(partition_fields="part", options=COW_WITH_METADATA)


@pytest.fixture(scope="module")
def gone(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    def make(folder: Path) -> None:
        partition_gone(Story(spark, folder / "table", OF_A_PARTITION))

    return HudiTable(spark, made_once(tmp_path_factory, "partition_gone", make) / "table", OF_A_PARTITION)


def clean_all(table: HudiTable) -> None:
    exit_code, printed = lakeward(
        "clean", str(table.path), "--retain", "1", "--reader-window", "0", "--writers", "stopped"
    )
    assert exit_code == 0 and printed["cleans"], printed


def listed(table: HudiTable) -> tuple[str, ...]:
    """The partitions that the metadata table's record of all partitions names."""
    return snapshot_of(table.path, ListingSource.METADATA).partitions


def read(table: HudiTable) -> Rows:
    """The rows, which are the same by the metadata table and by listing."""
    found = table.snapshot(with_meta=False, **{"hoodie.metadata.enable": "true"})
    assert table.snapshot(with_meta=False, **{"hoodie.metadata.enable": "false"}) == found
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
    return found


@pytest.mark.wide
def test_it_reads_the_same_and_takes_rows_again(spark: SparkSession, gone: HudiTable, tmp_path: Path) -> None:
    """The same files go; Lakeward's has an empty folder and an entry without files more. After Hudi's next write into
    the partition both tables have the same rows and partitions."""
    hudis, own = (gone.copy_to(tmp_path / name) for name in ("hudis", "own"))
    hudi_cleans(spark, hudis, CleanPolicy(retain=1))
    clean_all(own)

    assert set(hudis.data_files()) == set(own.data_files()) < set(gone.data_files())
    assert read(hudis) == read(own) == gone.snapshot(with_meta=False)
    assert (listed(hudis), listed(own)) == (("p0",), ("p0", "p1"))
    assert not (hudis.path / "p1").exists()
    left = {file.name for file in (own.path / "p1").iterdir() if file.suffix != ".crc"}
    assert {name.partition(".parquet")[0] for name in left} == {".hoodie_partition_metadata"}

    for table in (hudis, own):
        check_agrees(table.path)
        table.write(rows(spark, [0, 1, 3], 50), "upsert")
        check_agrees(table.path)
    assert read(hudis) == read(own)
    assert listed(hudis) == listed(own) == ("p0", "p1")


@pytest.mark.wide
def test_hudi_deletes_the_folder_when_it_looks_there(spark: SparkSession, gone: HudiTable, tmp_path: Path) -> None:
    """Its next clean of everything, which has another file to delete, deletes the empty folder. It leaves the entry in
    the metadata table, as of a partition in which it has no file to delete; rows are read as before, and the next write
    brings the partition back."""
    table = gone.copy_to(tmp_path / "table")
    clean_all(table)
    table.write(rows(spark, [0], 50), "upsert")
    before = read(table)
    hudi_cleans(spark, table, CleanPolicy(CleanPolicyKind.VERSIONS, 1))

    assert len(completed_cleans(table.path)) == 2
    assert listed(table) == ("p0", "p1") and not (table.path / "p1").exists()
    assert read(table) == before
    table.write(rows(spark, [1, 3], 51), "upsert")
    assert len(read(table)) == len(before) + 2
    check_agrees(table.path)


WITHOUT_METADATA = {"hoodie.metadata.enable": "false"}
WITHOUT_STATISTICS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
UNTOUCHED = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
}
POLICIES = (
    CleanPolicy(CleanPolicyKind.COMMITS, 1),
    CleanPolicy(CleanPolicyKind.COMMITS, 3),
    CleanPolicy(CleanPolicyKind.VERSIONS, 1),
    CleanPolicy(CleanPolicyKind.VERSIONS, 2),
)


@dataclass(frozen=True)
class Made:
    table: OtherTable
    second: str
    """The instant of the second write."""


@pytest.fixture(
    scope="module",
    params=[
        ("COPY_ON_WRITE", WITHOUT_METADATA),
        ("MERGE_ON_READ", WITHOUT_METADATA),
        ("MERGE_ON_READ", WITHOUT_STATISTICS),
    ],
    ids=["copy-on-write", "merge-on-read", "merge-on-read with a metadata table"],
)
def made_by_the_oldest(
    request: pytest.FixtureRequest, older: OtherRelease, tmp_path_factory: pytest.TempPathFactory
) -> Made:
    """Some writes with compactions between, a savepoint, and a partition that is overwritten and written to again."""
    kind, metadata = request.param
    shape = by_default(**UNTOUCHED, **metadata, **{"hoodie.datasource.write.table.type": kind})
    table = older.table(tmp_path_factory.mktemp("made") / "table", shape)
    for number in range(4):
        table.write(rows_of(0, 20, number, f"v{number}"), "upsert")
        if kind == "MERGE_ON_READ" and number in (1, 2):
            table.compaction("op => 'scheduleAndExecute'")
        if number == 2:
            table.procedure(f"create_savepoint(path => '{{path}}', commit_time => '{writes(table)[-1]}')")
    table.write(f"SELECT * FROM ({rows_of(0, 20, 4, 'v4')}) WHERE part = 'p1'", "insert_overwrite")
    for number in (5, 6):
        table.write(rows_of(0, 20, number, f"v{number}"), "upsert")
    return Made(table, writes(table)[1])


def writes(table: OtherTable) -> list[str]:
    """Instants of the completed commits."""
    names = (path.name for path in (table.path / ".hoodie/timeline").glob("*_*.*commit"))
    return sorted(name.partition("_")[0] for name in names)


def copy_of(made_by_the_oldest: Made, path: Path) -> OtherTable:
    return made_by_the_oldest.table.at(
        Path(shutil.copytree(made_by_the_oldest.table.path, path, copy_function=shutil.copy2))
    )


@pytest.mark.wide
def test_it_deletes_what_we_would(made_by_the_oldest: Made, tmp_path: Path):
    """Its cleaner on a copy of each table deletes what our plan names, by each policy."""
    gone: set[str] = set()
    for number, policy in enumerate(POLICIES):
        table = copy_of(made_by_the_oldest, tmp_path / str(number))
        own, before = planned_at(table.path, policy), data_files(table.path)
        options = ",".join(f"{key}={value}" for key, value in table.shape.options.items() if ".metadata." in key)
        table.procedure(
            f"run_clean(table => '{{table}}', clean_policy => '{policy.hudi_name}', {RETAIN[policy.kind]} => "
            f"{policy.retain}, options => '{options},hoodie.clean.failed.writes.policy=NEVER')"
        )
        assert before - data_files(table.path) == own, policy
        gone |= own
    assert gone, "this history says nothing"


@pytest.mark.wide
def test_it_goes_back_in_time_after_an_undo(made_by_the_oldest: Made, tmp_path: Path):
    """Cleaned by us, and what went set aside: it reads the newest rows, and as of the second write nothing. Undone: the
    rows of then, by its metadata table and by listing; it writes, cleans what had come back, and reads on."""
    table = copy_of(made_by_the_oldest, tmp_path / "table")
    has_metadata = (table.path / ".hoodie/metadata").exists()
    ways = [WITHOUT_METADATA, *([WITHOUT_STATISTICS] if has_metadata else [])]
    now, then, files = table.snapshot(), as_of(table, made_by_the_oldest.second), data_files(table.path)
    assert then
    (cleaned,) = clean(table.path, LocalStorage(), keep_seconds=3600.0).cleans
    assert files - data_files(table.path)
    for way in ways:
        assert table.snapshot(**way) == now
        assert as_of(table, made_by_the_oldest.second, **way) != then
    verify(table)

    undone = undo_clean(serviced_table(str(table.path), LocalStorage(), ScriptedProcesses()), cleaned.instant)
    assert undone.completion_time is not None and data_files(table.path) == files
    for way in ways:
        assert table.snapshot(**way) == now
        assert as_of(table, made_by_the_oldest.second, **way) == then
    verify(table)
    own = set(completed_cleans(table.path))
    cleans = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
    table.write(rows_of(0, 20, 7, "v7"), "upsert", **cleans)
    assert set(completed_cleans(table.path)) - own and files - data_files(table.path)
    for way in ways:
        rows = table.snapshot(**way)
        assert len(rows) == 20 and all('"v":"v7"' in row for row in rows)
    verify(table)


def as_of(table: OtherTable, instant: str, **options: str) -> Rows:
    return table.snapshot(**{"as.of.instant": instant}, **options)


def verify(table: OtherTable) -> None:
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed
