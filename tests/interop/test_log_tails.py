"""Tails of logs (RFC-06) that Lakeward writes into tables which releases of Hudi read and write as well.

Bytes of any kind at that place are in `test_logs.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.client import carry_out_log_compaction, schedule_log_compaction
from tests.hudi.hive_rows import READERS, rows_by_hive
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import HUDI_VERSION, OLDEST_VERSION, OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, TableShape
from tests.interop.every_query import BEFORE_ALL, BEGIN, END, QUERY, judge_every_query, windows
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_our_writes import KINDS, Rows, Turns
from tests.soak.ingest import rows_after
from tests.write.test_ingest_soak import soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

RELEASES = {HUDI_VERSION: "9", OLDEST_VERSION: "9", OLDEST_VERSION_OF_8: "8"}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", RELEASES)
def test_releases_go_on_with_tables_full_of_tails(spark: SparkSession, tmp_path: Path, release: str) -> None:
    """Commit by commit: upserts and deletes of both, log compactions and compactions of both, a rollback of a log with
    a tail, and a clean that deletes such logs. Every kind of query has the rows of the model, of Hudi 1.2.0, of the
    release, of hudi-rs, and of the input format of Hive and Presto."""
    kind, version = KINDS["mor-record"], RELEASES[release]
    turns = Turns(spark, HudiTable(spark, tmp_path / "t", replace(kind.of_hudi, options=STAYS)), kind, {})
    turns.create("--table-version", version)
    with OtherRelease(release, tmp_path / "release") as hudi:
        options = {"hoodie.datasource.write.table.type": kind.table_type}
        options |= kind.options if version == "9" else RECORD_INDEX_OF_8
        options |= {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "false"}
        other = hudi.table(tmp_path / "t", replace(kind.of_hudi, options=options))

        def by_release(operation: str, rows: Rows) -> None:
            values = ", ".join(f"('{key}', {ts}L, '{part}', '{v}')" for key, (ts, part, v) in rows.items())
            other.write(f"SELECT * FROM VALUES {values} AS t(id, ts, part, v)", operation)
            turns.learn(operation, rows)

        def check() -> None:
            turns.check()
            for metadata in ("true", "false"):
                turns.check_read(other.snapshot(**{"hoodie.metadata.enable": metadata}))
            by_hudi_rs = turns.table.read_by_hudi_rs()
            assert not isinstance(by_hudi_rs, str), by_hudi_rs
            assert len(by_hudi_rs) == len(turns.rows)
            expected = sorted((key, str(ts), part, v) for key, (ts, part, v) in turns.rows.items())
            for reader in READERS:
                assert rows_by_hive(spark, turns.table.path, HIVE_COLUMNS, reader) == expected, reader

        turns.own("upsert", {f"k{n}": (1, ("p0", "p1")[n % 2], "base") for n in range(40)})
        assert lakeward("index", "tails", str(turns.table.path), "--auto")[0] == 0
        before = dict(turns.rows)
        gone = turns.own("upsert", {"k4": (9, "p0", "gone")})
        other.procedure(f"rollback_to_instant(table => '{{table}}', instant_time => '{gone['instant']}')")
        turns.rows.clear()
        turns.rows.update(before)
        for n in range(2, 5):
            turns.own("upsert", {f"k{k}": (n, ("p0", "p1")[k % 2], f"own{n}") for k in range(n, 20, n)})
        turns.own("delete", {"k0": (0, "p0", ""), "k11": (0, "p1", "")})
        assert with_tail(turns) == (6, 6)
        check()
        for options in every_query(turns.table):
            asked = dict(options)
            if release == OLDEST_VERSION_OF_8 and options.get(BEGIN, BEFORE_ALL) != BEFORE_ALL:
                asked[BEGIN] = str(int(options[BEGIN]) + 1)  # its windows have what completed at their begin, too
            found = other.snapshot(with_meta=True, **asked)
            assert found == turns.table.snapshot(with_meta=True, **options), options
        by_release("upsert", {f"k{k}": (10, ("p0", "p1")[k % 2], "release") for k in range(4, 12)})
        by_release("delete", {"k2": (0, "p0", "")})
        turns.own("upsert", {"k3": (12, "p1", "own"), "k5": (1, "p1", "late"), "k60": (12, "p0", "new")})
        check()
        if version == "9":
            exit_code, printed = lakeward("compact", str(turns.table.path), "--type", "log", "--writers", "stopped")
            assert exit_code == 0 and printed["compactions"], printed
            check()
            turns.own("upsert", {"k7": (14, "p1", "own"), "k8": (14, "p0", "own")})
        other.compaction("op => 'scheduleAndExecute'")
        check()
        turns.own("upsert", {"k9": (15, "p1", "own"), "k10": (15, "p0", "own")})
        exit_code, printed = lakeward("index", "lookup", str(turns.table.path), "k9", "k10", "none", *BY_BLOOM)
        assert exit_code == 0 and {each["key"] for each in printed["locations"]} == {"k9", "k10"}, printed
        by_release("upsert", {f"k{k}": (16, ("p0", "p1")[k % 2], "release") for k in range(4, 12)})
        check()
        there = set(turns.table.data_files())
        other.procedure("run_clean(table => '{table}', retain_commits => 1)")
        gone_files = there - set(turns.table.data_files())
        assert any(".log." in path for path in gone_files), "it cleans logs with tails"
        check()
        judge_every_query(turns.table)
    exit_code, report = lakeward("verify", str(turns.table.path), "--all")
    assert exit_code == 0, report


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_tails_of_logs_that_hudi_wrote(spark: SparkSession, tmp_path: Path, log_format: str) -> None:
    """Lakeward merged them, and the tail lies behind the last block, of Parquet behind an empty block of deletes: every
    kind of query of Hudi and hudi-rs, Hudi's upsert, delete, log compaction and compaction are as on a twin without
    tails; a lookup reads the tail."""
    tailed = HudiTable(spark, tmp_path / "t", TableShape(log_format=log_format))

    def write(table: HudiTable, keys: range, ts: int, operation: str = "upsert") -> None:
        rows = [(f"k{key}", ts, f"v{ts}") for key in keys]
        table.write(spark.createDataFrame(rows, "id string, ts long, v string").coalesce(1), operation)

    for ts in range(1, 5):
        write(tailed, range(0, 24, ts), ts)
    twin = tailed.copy_to(tmp_path / "twin")
    assert lakeward("index", "tails", str(tailed.path), "--auto")[0] == 0
    for table in (tailed, twin):
        exit_code, printed = lakeward("compact", str(table.path), "--type", "log", "--writers", "stopped")
        assert exit_code == 0 and printed["compactions"], printed
    assert lakeward("index", "tails", str(tailed.path))[1]["with_tail"] == 1

    def check() -> None:
        assert tailed.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
        by_hudi_rs, of_twin = tailed.read_by_hudi_rs(), twin.read_by_hudi_rs()
        assert isinstance(by_hudi_rs, str) == isinstance(of_twin, str) and len(by_hudi_rs) == len(of_twin)
        judge_every_query(tailed)
        for reader in READERS:
            by_hive = rows_by_hive(spark, tailed.path, HIVE_COLUMNS_OF_ONE_PARTITION, reader)
            assert by_hive == rows_by_hive(spark, twin.path, HIVE_COLUMNS_OF_ONE_PARTITION, reader) != [], reader

    check()
    exit_code, printed = lakeward("index", "lookup", str(tailed.path), "k5", "none", *BY_BLOOM)
    assert exit_code == 0 and [each["key"] for each in printed["locations"]] == ["k5"], printed
    for table in (tailed, twin):
        write(table, range(0, 24, 5), 6)
        write(table, range(0, 24, 7), 7, "delete")
    check()
    for table in (tailed, twin):
        carry_out_log_compaction(spark, table, schedule_log_compaction(spark, table))
    check()
    for table in (tailed, twin):
        write(table, range(0, 24, 6), 8)
        table.compact()
    check()


@pytest.mark.timeout(2 * 3600)
def test_hudi_reads_what_was_ingested(spark: SparkSession, tmp_path: Path) -> None:
    """A minute of ingest by a process that is killed again and again, with log compactions, compactions and cleans."""
    expected = rows_after(soak(tmp_path, 60.0))
    found = HudiTable(spark, tmp_path / "table", TableShape()).frame().select("id", "ts", "part", "v").collect()
    assert sorted(tuple(row) for row in found) == sorted(expected.values())


HIVE_COLUMNS = {"id": "string", "ts": "bigint", "part": "string", "v": "string"}
HIVE_COLUMNS_OF_ONE_PARTITION = {"id": "string", "ts": "bigint", "v": "string"}
BY_BLOOM = ("--type", "bloom", "--with-logs")
STAYS = {"hoodie.write.auto.upgrade": "false"}
RECORD_INDEX_OF_8 = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.datasource.write.precombine.field": "ts",
}


def every_query(table: HudiTable) -> Iterator[dict[str, str]]:
    """The options of each: what was read last, each moment, and what each window changed."""
    yield {QUERY: "read_optimized"}
    for instant, _ in sorted(table.completed_instants()):
        yield {"as.of.instant": instant}
    for begin, end in windows(table):
        yield {QUERY: "incremental", BEGIN: begin, END: end}


def with_tail(turns: Turns) -> tuple[int, int]:
    """Logs with a tail, and all of the newest slices."""
    exit_code, said = lakeward("index", "tails", str(turns.table.path))
    assert exit_code == 0, said
    return said["with_tail"], said["logs"]
