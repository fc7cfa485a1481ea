"""What Hudi itself leaves of a pattern is found, what the pattern does to its rows is as `doctor` says, and the remedy
helps."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden_tables import copy_golden
from tests.hudi.client import hudi_client
from tests.hudi.golden_metadata import OPTIONS
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_clustering import check, made, write
from tests.metadata_golden import DATA_TIMELINE
from tests.services.bench import PENDING
from tests.services.rollback.run.failed_tables import fail_last_write
from tests.services.together.doctor.sick_tables import (
    FUTURE,
    LEFT_MANIFEST,
    SICK,
    put_into_archive,
    without_pending_write,
)
from tests.write.writing import new_table
from tests.write.writing import write as write_rows

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


def keys(spark: SparkSession, base: Path, **options: str) -> list[str]:
    """The record key of each row that Hudi's reader gives, by its defaults where nothing else is said."""
    rows = spark.read.format("hudi").options(**options).load(str(base)).select("_hoodie_record_key").collect()
    return sorted(row["_hoodie_record_key"] for row in rows)


def commits(spark: SparkSession, base: Path) -> dict[str, str]:
    """The instant that wrote the row of each key."""
    frame = spark.read.format("hudi").load(str(base)).select("_hoodie_record_key", "_hoodie_commit_time")
    return {row["_hoodie_record_key"]: row["_hoodie_commit_time"] for row in frame.collect()}


SHAPE = TableShape(partition_fields="p")
ARCHIVES = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
"""An archiver that leaves three commits."""


class Tried:
    """The sick tables, by code, for Hudi's readers and its write client."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.none = spark._jvm.org.apache.hudi.common.util.Option.empty()  # type: ignore[union-attr]

    def make(self, code: str) -> Path:
        return SICK[code].make(self.folder / code)

    def keys(self, base: Path, **options: str) -> list[str]:
        return keys(self.spark, base, **options)

    def client(self, base: Path, **changed: str) -> AbstractContextManager[Any]:
        return hudi_client(self.spark, HudiTable(self.spark, base, SHAPE), **changed)

    def begin_write(self, base: Path) -> None:
        with self.client(base) as client:
            client.startCommit()

    def clean(self, base: Path, **changed: str) -> None:
        with self.client(base, **changed) as client:
            client.clean()

    def archive(self, base: Path) -> int:
        """How many files of the timeline have gone."""
        before = len(list((base / DATA_TIMELINE).glob("2*")))
        with self.client(base, **ARCHIVES) as client:
            client.archive()
        return before - len(list((base / DATA_TIMELINE).glob("2*")))

    def compact(self, base: Path) -> None:
        with self.client(base) as client:
            client.compact(PENDING, True)


@pytest.fixture
def tried(spark: SparkSession, tmp_path: Path) -> Tried:
    return Tried(spark, tmp_path)


def test_what_hudis_readers_make_of_each_pattern(tried: Tried, tmp_path: Path) -> None:
    """Hudi 1.2.0 reads rows twice, reads deleted rows again, misses rows, or fails, as each pattern says. Keeps 3 of
    services/together/doctor/catalogue."""
    sound = tried.keys(copy_golden("v9", tmp_path / "sound"))
    assert len(sound) == 4
    sick = {code: tried.make(code) for code in SICK}

    assert tried.keys(sick["replaced-group-back"]) == ["k1", "k1", "k2", "k9"], "it was k1 and k9"
    assert tried.keys(sick["doubled-keys"]) == ["k1"] * 4 + ["onlya", "onlyb"]
    gained = set(tried.keys(sick["damaged-files"])) - set(sound)
    assert len(gained) == 2, "the log that was cut held their deletes"
    assert set(tried.keys(sick["anchor-gone"])) == {*sound, *gained}, "as without all of its logs"
    assert tried.keys(sick["partition-gone"]) == []
    assert tried.keys(sick["unexplained-file-group"]) in (["k1", "k2"], ["k1", "k3"])
    with pytest.raises(Exception, match="does not exist"):
        tried.keys(sick["metadata-out-of-step"])
    by_listing = tried.keys(sick["metadata-out-of-step"], **{"hoodie.metadata.enable": "false"})
    assert 0 < len(by_listing) < 11
    incremental = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "0"}
    assert set(tried.keys(sick["timeline-broken"], **incremental)) == {*sound, *gained}
    for code in ("failed-write-left", "rollback-not-ended"):
        assert set(tried.keys(sick[code])) == {*sound, *gained}, "the write that is passed over deleted them"
    alike = {"mixed-zones", "timeline-broken", "archive-broken", "version-change-interrupted", "service-stuck"}
    for code in (*alike, "archive-manifest-left", "dead-markers", "instant-in-future", "orphan-files"):
        assert tried.keys(sick[code]) == sound, code
    assert tried.keys(sick["small-files"]) == [f"k{number}" for number in range(6)]


def test_while_an_anchor_is_left(tried: Tried, tmp_path: Path) -> None:
    """Hudi 1.2.0 reads what a log compaction wrote as long as one log is there that it stands for, whichever."""
    base = copy_golden("v9", tmp_path / "table")
    sound = tried.keys(base)
    gone = SICK["anchor-gone"].make(tmp_path / "gone")
    logs = {path.name for path in (base / "p").glob(".*.log.*")}
    assert logs and not logs & {path.name for path in (gone / "p").iterdir()}
    for name in logs:
        (gone / "p" / name).write_bytes((base / "p" / name).read_bytes())
        assert tried.keys(gone) == sound, name
        (gone / "p" / name).unlink()


def test_an_orphan_file_from_before_the_timeline(tried: Tried) -> None:
    """Hudi 1.2.0 passes over a file whose instant is unknown, but for one from before the timeline: then each row of it
    is a row of the table."""
    base = tried.make("orphan-files")
    sound = tried.keys(base)
    (stray,) = (base / "p").glob("b7a5e4f0*")
    (written,) = (base / "p").glob("ebf517f7*.parquet")
    stray.write_bytes(written.read_bytes())
    assert tried.keys(base) == sound
    stray.rename(stray.with_name(stray.name.replace("_2026", "_2025")))
    assert len(tried.keys(base)) == len(sound) + 6


def test_what_hudis_writers_make_of_a_pattern(tried: Tried) -> None:
    """Hudi 1.2.0 begins no write beside half a restore, nor where a write failed before an instant in the future; it
    ends half a rollback with its next write, and what the completed commit had deleted is there again."""
    halted = tried.make("restore-interrupted")
    with pytest.raises(Exception, match="Found pending restore"):
        tried.begin_write(halted)

    late = tried.make("instant-in-future")
    for state in ("requested", "inflight"):
        (late / DATA_TIMELINE / f"{FUTURE}.deltacommit.{state}").touch()
    completed = min((late / DATA_TIMELINE).glob("*_*.deltacommit"))
    (late / DATA_TIMELINE / f"{FUTURE}_{FUTURE}.deltacommit").write_bytes(completed.read_bytes())
    failed = fail_last_write(late, before=FUTURE)
    with pytest.raises(Exception, match=f"Found commits after time :{failed}, please rollback greater commits first"):
        tried.begin_write(late)

    half = tried.make("commit-half-rolled-back")
    before = tried.keys(half)
    tried.begin_write(half)
    assert len(set(tried.keys(half)) - set(before)) == 2

    for code in ("failed-write-left", "rollback-not-ended"):
        base = tried.make(code)
        tried.clean(base)
        assert not list((base / DATA_TIMELINE).glob("*_*.rollback")), "a clean leaves it"
        tried.begin_write(base)
        assert list((base / DATA_TIMELINE).glob("*_*.rollback")), code
    for code in ("timeline-broken", "archive-broken", "version-change-interrupted", "dead-markers"):
        base = tried.make(code)
        tried.begin_write(base)
        tried.clean(base)
    assert list((base / ".hoodie/.temp").rglob("*.marker.CREATE")), "nothing takes dead markers"


@pytest.mark.turns(26, together="doctor")
def test_a_column_of_statistics_that_is_gone(tried: Tried) -> None:
    """Hudi 1.2.0 reads by the column statistics that there are, and writes as before."""
    base = tried.make("wrong-index-definitions")
    rows = tried.spark.read.format("hudi").load(str(base))
    assert rows.where("name IS NOT NULL AND ts >= 0").count() == 4
    row = rows.limit(1).drop(*[name for name in rows.columns if name.startswith("_hoodie")])
    shape = TableShape(name="golden", partition_fields="part", options=OPTIONS)
    HudiTable(tried.spark, base, shape).write(tried.spark.createDataFrame(row.collect(), row.schema), "upsert")
    assert rows.where("name IS NOT NULL AND ts >= 0").count() == 4


@pytest.mark.turns(26, together="doctor")
def test_what_hudis_compactions_and_cleans_make_of_a_pattern(tried: Tried, tmp_path: Path) -> None:
    """Hudi 1.2.0 fails on a plan whose files are gone, each time; where its own clean is about to take them, it does.
    Their rows are lost to readers at once. A compaction that died is done by its instant, and by nothing else."""
    sound = commits(tried.spark, copy_golden("v9", tmp_path / "sound"))
    older = {**sound, "k1": sound["k2"]}
    assert older != sound

    gone = tried.make("plan-over-gone-files")
    assert commits(tried.spark, gone) == older, "the log had a newer row of k1"
    for _ in range(2):
        with pytest.raises(Exception, match="FileNotFoundException"):
            tried.compact(gone)
    assert commits(tried.spark, gone) == older
    assert list((gone / "p").glob(f"*_{PENDING}.parquet")), "a base file that does not count"

    planned = tried.make("clean-of-planned-files")
    assert commits(tried.spark, planned) == sound
    tried.clean(planned)
    assert commits(tried.spark, planned) == older
    with pytest.raises(Exception, match="FileNotFoundException"):
        tried.compact(planned)

    overwritten = tried.make("compaction-overwritten")
    by_versions = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    tried.clean(overwritten, **by_versions)
    assert not list((overwritten / "p").glob("*ebf517f7*"))
    with pytest.raises(Exception, match="FileNotFoundException"):
        tried.compact(overwritten)

    stuck = tried.make("service-stuck")
    tried.begin_write(stuck)
    with tried.client(stuck, **{"hoodie.compact.inline.max.delta.commits": "1"}) as client:
        assert not client.scheduleCompaction(tried.none).isPresent()
    assert not list((stuck / DATA_TIMELINE).glob(f"{PENDING}_*"))
    tried.compact(stuck)
    assert list((stuck / DATA_TIMELINE).glob(f"{PENDING}_*.commit"))
    assert commits(tried.spark, stuck) == sound


@pytest.mark.turns(26, together="doctor")
def test_what_hudis_archiver_makes_of_a_pattern(tried: Tried, tmp_path: Path) -> None:
    """Hudi 1.2.0 fails on a torn manifest and on what is left of one, and takes nothing while a write is pending."""
    torn, left = (
        new_table(tmp_path / name, table_type="COPY_ON_WRITE", has_metadata_table=False) for name in ("torn", "left")
    )
    for base in (torn, left):
        for number in range(6):
            write_rows(base, [("k1", number, "p", "a")], "upsert")
    put_into_archive(torn, "manifest_1", b"torn")
    put_into_archive(torn, "_version_", b"1")
    put_into_archive(left, LEFT_MANIFEST, b"")
    with pytest.raises(Exception, match="Error deserializing manifest entries"):
        tried.archive(torn)
    for _ in range(2):
        with pytest.raises(Exception, match="For input string"):
            tried.archive(left)
    for base in (torn, left):
        assert tried.keys(base) == ["k1"]

    held = tried.make("archiving-held")
    assert tried.archive(held) == 0
    without_pending_write(held)
    assert tried.archive(held) > 100
