"""Tables of version 8, by Hudi 1.0.2: we compact them, and both 1.0.2 and 1.2.0 read and go on.

Most tables here are 1.0.2's, with a plan of its own on two copies: it carries the plan out on the one, we on the other.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.java_properties import parse_properties
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from tests.crash.compacting import compact as compact_in_process
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.golden_version_8 import INDEXED, by_default, first_writes, rows_of
from tests.hudi.metadata_table import INDEXES, WITHOUT_METADATA, assert_same_records
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import assert_metadata_agrees, assert_verified, our_slices
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ON = {"hoodie.metadata.enable": "true"}
MERGED = {"hoodie.bloom.index.use.metadata": "true", "hoodie.metadata.compact.max.delta.commits": "1"}
"""Bloom upserts use the metadata table, which Hudi compacts first, with what is in it from us."""

BY_COMMIT_TIME = {
    "hoodie.datasource.write.precombine.field": "",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.logfile.data.block.format": "parquet",
}
SHAPES: Mapping[str, TableShape] = {
    "defaults": by_default(),
    "by commit time": by_default(**BY_COMMIT_TIME),
    "without metadata": by_default(**WITHOUT_METADATA),
    "buckets": by_default(**{"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}),
}


@dataclass(frozen=True)
class Scheduled:
    """A table by 1.0.2 with a plan of its own that is not carried out."""

    table: OtherTable
    instant: str
    expected: Mapping[str, str]
    """The value of each key."""


@pytest.fixture(scope="module")
def indexed(older: OtherRelease, tmp_path_factory: pytest.TempPathFactory) -> Scheduled:
    """With every index that 1.0.2 keeps in the metadata table by a setting: the golden table."""
    shown = json.loads((GOLDEN / "v8" / "expected.json").read_text())
    path = copy_golden("v8", tmp_path_factory.mktemp("indexed") / "table", pending=True)
    return Scheduled(older.table(path, INDEXED), shown["instant"], shown["values"])


def scheduled(table: OtherTable, *, by_commit_time: bool = False) -> Scheduled:
    expected = first_writes(table, by_commit_time=by_commit_time)
    return Scheduled(table, table.compaction("op => 'schedule'"), expected)


@pytest.mark.wide
def test_the_oldest_release_goes_on(indexed: Scheduled, tmp_path: Path):
    """1.0.2 reads what we made of a table of its own, by the metadata table and without it; it finds its keys by the
    record index, compacts, and reads again."""
    table = copy_of(indexed.table, tmp_path / "table")
    expected = dict(indexed.expected)
    here = HudiTable(None, table.path, table.shape)  # type: ignore[arg-type]  # for hudi-rs alone
    by_hudi_rs = here.read_by_hudi_rs()

    assert compact_in_this_process(table) == [indexed.instant]

    rows = table.snapshot(**ON)
    assert values_in(rows) == expected
    assert rows == table.snapshot(**WITHOUT_METADATA) == table.read_optimized(**ON)
    assert here.read_by_hudi_rs() == by_hudi_rs
    table.write(rows_of(30, 60, 20, "new"), "upsert", **by_index("RECORD_INDEX"))
    expected |= {f"k{key}": "new" for key in range(30, 60)}
    assert values(table, **ON) == expected
    table.compaction("op => 'scheduleAndExecute'")
    assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
    assert_verified(here)


@pytest.mark.wide
def test_hudi_goes_on(indexed: Scheduled, spark: SparkSession, tmp_path: Path):
    """Hudi goes on with all indexes (`goes_on`), finding keys by the record index, and by bloom filters of the metadata
    table."""
    goes_on(indexed, spark, tmp_path, ("RECORD_INDEX", "BLOOM"))


@pytest.mark.wide
@pytest.mark.parametrize("shape", SHAPES)
def test_hudi_goes_on_with_other_tables(older: OtherRelease, spark: SparkSession, tmp_path: Path, shape: str):
    """`goes_on`, finding keys as the writer does by itself."""
    made = scheduled(older.table(tmp_path / "made", SHAPES[shape]), by_commit_time=shape == "by commit time")
    goes_on(made, spark, tmp_path, ("BUCKET" if shape == "buckets" else "",))


def goes_on(made: Scheduled, spark: SparkSession, folder: Path, indexes: Sequence[str]) -> None:
    """Our compaction writes the records that 1.0.2's own writes; 1.0.2 and 1.2.0 read the same by the metadata table
    and without it; 1.0.2 finds its keys again, compacts, and reads what it wrote; so do we after that."""
    table, twin = copy_of(made.table, folder / "table"), copy_of(made.table, folder / "twin")
    here, there = (HudiTable(spark, each.path, each.shape) for each in (table, twin))
    expected = dict(made.expected)
    by_hudi_rs = here.read_by_hudi_rs()

    twin.compaction(f"op => 'run', timestamp => {made.instant}")
    assert [plan["instant"] for plan in compact(here)["compactions"]] == [made.instant]

    assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
    rows = twin.snapshot(with_meta=True)
    assert table.snapshot(with_meta=True) == rows == here.snapshot(**WITHOUT_METADATA)
    assert table.read_optimized(with_meta=True) == rows == table.read_optimized(with_meta=True, **WITHOUT_METADATA)
    assert here.read_by_hudi_rs() == by_hudi_rs
    if has_metadata(table):
        assert_same_records(here, there)
        assert_metadata_agrees(here, rows)
        assert here.slices_by_hudi_rs() == our_slices(here)

    for number, index in enumerate(indexes):
        keys = range(5 + 20 * number, 50)
        table.write(rows_of(keys.start, keys.stop, 20 + number, "new"), "upsert", **MERGED, **by_index(index))
        expected |= {f"k{key}": "new" for key in keys}
        assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
    table.compaction("op => 'scheduleAndExecute'")
    assert values(table) == expected
    table.write(rows_of(4, 7, 30, "last"), "upsert")
    expected |= {f"k{key}": "last" for key in range(4, 7)}
    assert compact(here)["compactions"]
    assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
    assert_verified(here)


@pytest.mark.wide
def test_a_metadata_table_that_we_compacted_and_cleaned(
    indexed: Scheduled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """1.0.2 finds its files and keys in it, by every index, and goes on writing into it."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    table = copy_of(indexed.table, tmp_path / "table")
    expected = dict(indexed.expected)
    assert compact_in_this_process(table) == [indexed.instant]
    service_metadata(table, "compact")
    assert list((table.path / ".hoodie" / "metadata" / "record_index").glob("*.hfile"))
    assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
    for number, index in enumerate(("RECORD_INDEX", "BLOOM")):
        keys = range(5 + 20 * number, 50)
        by_metadata = {"hoodie.bloom.index.use.metadata": "true"}
        table.write(rows_of(keys.start, keys.stop, 20 + number, index), "upsert", **by_metadata, **by_index(index))
        expected |= {f"k{key}": index for key in keys}
        assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
        service_metadata(table, "clean", "compact")
        assert values(table, **ON) == expected
    assert_verified(table)


def service_metadata(table: OtherTable, *services: str) -> None:
    """The metadata table's own, which must be due."""
    for service in services:
        exit_code, printed = lakeward("metadata", service, str(table.path), "--writers", "stopped")
        assert exit_code == 0 and printed[SERVICED[service]] is not None, printed


SERVICED = {"clean": "metadata_clean", "compact": "metadata_compaction"}


@pytest.mark.wide
def test_a_record_index_built_over_our_files(indexed: Scheduled, tmp_path: Path):
    """1.0.2 builds it from our base files and the logs on top of them, reading by the table's schema, in which some
    columns hold no null; then it finds its keys by it."""
    table = copy_of(indexed.table, tmp_path / "table")
    expected = dict(indexed.expected)
    assert compact_in_this_process(table) == [indexed.instant]
    table.write(rows_of(20, 40, 20, "on top"), "upsert")
    expected |= {f"k{key}": "on top" for key in range(20, 40)}
    exit_code, printed = lakeward("metadata", "drop", str(table.path), "record_index", "--writers", "stopped")
    assert exit_code == 0, printed
    for ts, value in ((21, "while it is built"), (22, "by it")):
        table.write(rows_of(30, 60, ts, value), "upsert", **by_index("RECORD_INDEX"))
        expected |= {f"k{key}": value for key in range(30, 60)}
        assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
    assert list((table.path / ".hoodie" / "metadata" / "record_index").glob("*.hfile"))
    assert_verified(table)


@pytest.mark.wide
def test_what_we_removed_is_built_again(indexed: Scheduled, tmp_path: Path):
    """1.0.2 builds each partition again, and then the whole metadata table, from files of which some are Lakeward's."""
    table = copy_of(indexed.table, tmp_path / "table")
    metadata = table.path / ".hoodie" / "metadata"
    expected = dict(indexed.expected)
    assert compact_in_this_process(table) == [indexed.instant]
    for number, partition in enumerate(("bloom_filters", "column_stats", "record_index", "")):
        removal = ("drop", str(table.path), partition) if partition else ("disable", str(table.path))
        exit_code, printed = lakeward("metadata", *removal, "--writers", "stopped")
        assert exit_code == 0, printed
        assert not (metadata / partition).exists()
        keys = range(10 * number, 10 * number + 30)
        table.write(rows_of(keys.start, keys.stop, 20 + number, "new"), "upsert", **by_index("BLOOM"))
        expected |= {f"k{key}": "new" for key in keys}
        assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
        assert list((metadata / (partition or "record_index")).iterdir())
        assert_verified(HudiTable(None, table.path, table.shape))  # type: ignore[arg-type]  # for our eyes alone


@pytest.mark.wide
def test_hudi_rolls_back_what_we_left(indexed: Scheduled, tmp_path: Path):
    """We died after the metadata table's commit; 1.0.2 sees none of it, rolls it back and carries the plan out."""
    clean = FaultyStorage()
    compact_in_process(copy_of(indexed.table, tmp_path / "clean").path, clean, ScriptedProcesses())
    committed = next(number for number, call in enumerate(clean.calls) if call.startswith("link"))
    table = copy_of(indexed.table, tmp_path / "table")
    with pytest.raises(Killed):
        compact_in_process(table.path, FaultyStorage(Fault(FaultKind.KILL, committed)), ScriptedProcesses())
    (table.path / ".hoodie" / "lock").unlink()
    os.utime(table.path / ".hoodie" / ".heartbeat" / indexed.instant, (0, 0))
    own = set((table.path / ".hoodie" / "metadata").glob(f"*/.*_{indexed.instant}.log.*"))
    assert len(own) > 4
    assert values(table, **ON) == values(table, **WITHOUT_METADATA) == indexed.expected

    table.compaction(f"op => 'run', timestamp => {indexed.instant}")

    assert not [path for path in own if path.exists()]
    assert values(table, **ON) == values(table, **WITHOUT_METADATA) == indexed.expected
    assert table.read_optimized() == table.read_optimized(**WITHOUT_METADATA) == table.snapshot()


@pytest.mark.wide
def test_the_newest_release_goes_on(indexed: Scheduled, spark: SparkSession, tmp_path: Path):
    """1.2.0 writes on without an upgrade, and we compact; then it upgrades the table to version 9, and we compact: by
    the metadata table and without it the rows are always right, and 1.0.2 reads all of version 8."""
    table = copy_of(indexed.table, tmp_path / "table")
    expected = dict(indexed.expected)
    here = HudiTable(spark, table.path, TableShape(partition_fields="part", options=INDEXES))
    assert compact(here)["compactions"]
    for number, (version, index) in enumerate((("8", "GLOBAL_RECORD_LEVEL_INDEX"), ("8", "BLOOM"), ("9", "BLOOM"))):
        stays = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"} if version == "8" else {}
        query = rows_of(20 * number, 60, 40 + number, f"at {version}")
        here.write(spark.sql(query), "upsert", **MERGED, **by_index(index), **stays)
        expected |= {f"k{key}": f"at {version}" for key in range(20 * number, 60)}
        assert f"hoodie.table.version={version}\n" in (table.path / ".hoodie" / "hoodie.properties").read_text()
        for _ in range(2):
            rows = here.snapshot()
            assert values_in(rows) == expected
            assert rows == here.snapshot(**WITHOUT_METADATA)
            if version == "8":
                assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
            assert_verified(here)
            exit_code, printed = lakeward("compact", str(table.path), "--type", "full", "--writers", "stopped")
            assert exit_code == 0, printed


@pytest.mark.wide
def test_version_8_by_the_newest_release(older: OtherRelease, spark: SparkSession, tmp_path: Path):
    """A table that 1.2.0 writes in version 8: our records are those of its own compaction, and 1.0.2 reads it."""
    stays = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
    shape = TableShape(partition_fields="part", options={**INDEXES, **stays})
    table = HudiTable(spark, tmp_path / "table", shape)
    for first, last, ts, value in ((0, 40, 10, "a"), (10, 30, 11, "b"), (12, 20, 9, "late")):
        table.write(spark.sql(rows_of(first, last, ts, value)), "upsert")
    table.write(spark.sql(rows_of(0, 4, 12, "")), "delete")
    table.schedule_compaction()
    (instant,) = table.pending_instants()
    twin = table.copy_to(tmp_path / "twin")

    twin.compact_pending(instant)
    assert [plan["instant"] for plan in compact(table)["compactions"]] == [instant]

    assert_same_records(table, twin)
    rows = table.snapshot()
    assert rows == twin.snapshot()
    assert_metadata_agrees(table, rows)
    read = older.table(table.path, by_default())
    assert read.snapshot(with_meta=True, **ON) == read.snapshot(with_meta=True, **WITHOUT_METADATA) == rows


def by_index(index: str) -> dict[str, str]:
    return {"hoodie.index.type": index} if index else {}


def compact_in_this_process(table: OtherTable) -> list[str]:
    """The instants."""
    options = ("--type", "full", "--writers", "stopped", "--engine", "local")
    exit_code, printed = lakeward("compact", str(table.path), *options)
    assert exit_code == 0, printed
    return [plan["instant"] for plan in printed["compactions"]]


def copy_of(table: OtherTable, path: Path) -> OtherTable:
    shutil.copytree(table.path, path, copy_function=shutil.copy2)
    return table.at(path)


def has_metadata(table: OtherTable) -> bool:
    return (table.path / ".hoodie" / "metadata").exists()


def values(table: OtherTable, **options: str) -> dict[str, str]:
    return values_in(table.snapshot(with_meta=False, **options))


def values_in(rows: Rows) -> dict[str, str]:
    found = [json.loads(row) for row in rows]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


@pytest.mark.wide
def test_it_goes_on_with_a_table_that_we_made(older: OtherRelease, tmp_path: Path):
    """1.0.2 writes to it, changes no property of Lakeward, and reads what we compacted of it."""
    timeline = copy_golden("v8", tmp_path / "golden") / ".hoodie" / "timeline"
    commit = read_commit_metadata(max(timeline.glob("*_*.deltacommit")).read_bytes(), file="golden", layout=2)
    columns, base = tmp_path / "columns.avsc", tmp_path / "table"
    columns.write_text(commit.extra_metadata["schema"])
    words = ["--record-key", "id", "--partition", "part", "--ordering", "ts", "--table-version", "8", "--name", "t"]
    assert lakeward("table", "create", str(base), "--schema", str(columns), *words)[0] == 0
    made = parse_properties((base / ".hoodie/hoodie.properties").read_bytes())

    table = older.table(base, SHAPES["defaults"])
    expected = first_writes(table)

    now = parse_properties((base / ".hoodie/hoodie.properties").read_bytes())
    added = ("hoodie.table.metadata.partitions", "hoodie.table.index.defs.path")
    assert {key: value for key, value in now.items() if not key.startswith(added)} == made
    assert values(table) == expected
    assert compact_in_this_process(table)
    assert values(table, **ON) == values(table, **WITHOUT_METADATA) == expected
