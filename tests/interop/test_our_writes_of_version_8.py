"""Tables of version 8 that Lakeward and two releases of Hudi write by turns: 1.0.2, which knows no later version, and
1.2.0, which is asked not to upgrade the table. Wide: fourteen tables of thirty writes each; CI has a short turn in
`test_version_8.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.table import HudiTable
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_our_writes import (
    BUCKETS,
    COMMIT_TIME,
    DIED,
    METADATA,
    SERVICES,
    Kind,
    Rows,
    Turns,
    deaths_of,
    die,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(1800)]

STAYS = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
RECORD_INDEX = {**METADATA, "hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
BY_EVENT_TIME = {"hoodie.datasource.write.precombine.field": "ts"}
"""The ordering field, as 1.0 calls it."""

KINDS: dict[str, Kind] = {
    "mor-buckets": Kind("MERGE_ON_READ", BUCKETS, METADATA | BY_EVENT_TIME),
    "mor-record": Kind("MERGE_ON_READ", {}, RECORD_INDEX | BY_EVENT_TIME),
    "mor-listing-commit-time": Kind("MERGE_ON_READ", COMMIT_TIME),
    "mor-complex": Kind("MERGE_ON_READ", {"key_fields": "id,part", "hive_style": True}, METADATA | BY_EVENT_TIME),
    "cow": Kind("COPY_ON_WRITE", {}, METADATA | BY_EVENT_TIME),
    "cow-record-commit-time": Kind("COPY_ON_WRITE", COMMIT_TIME, RECORD_INDEX),
    "cow-buckets-listing": Kind("COPY_ON_WRITE", BUCKETS, BY_EVENT_TIME),
}


class Three:
    """One table, and its three writers."""

    def __init__(self, spark: SparkSession, older: OtherRelease, path: Path, name: str) -> None:
        self.kind = KINDS[name]
        options = {"hoodie.datasource.write.table.type": self.kind.table_type, **self.kind.options}
        options["hoodie.parquet.small.file.limit"] = "104857600"
        shape = self.kind.of_hudi
        newest = HudiTable(spark, path, replace(shape, options=options | STAYS))
        self.turns = Turns(spark, newest, self.kind, {})
        self.table: OtherTable = older.table(path, replace(shape, options=options))

    def own(self, operation: str, rows: Rows) -> dict[str, Any]:
        return self.turns.own(operation, rows)

    def older(self, operation: str, rows: Rows, **options: str) -> None:
        values = ", ".join(f"('{key}', {ts}L, '{part}', '{v}')" for key, (ts, part, v) in rows.items())
        self.table.write(f"SELECT * FROM VALUES {values} AS t(id, ts, part, v)", operation, **options)
        self.turns.learn(operation, rows)

    def newest(self, operation: str, rows: Rows) -> None:
        self.turns.hudis(operation, rows)

    def check(self) -> None:
        """Both releases read what the model says, with the metadata table and by listing."""
        self.turns.check()
        for metadata in ("true", "false"):
            self.turns.check_read(self.table.snapshot(**{"hoodie.metadata.enable": metadata}))


@pytest.mark.parametrize("first", ["own", "hudis"])
@pytest.mark.parametrize("name", KINDS)
def test_they_take_turns(spark: SparkSession, older: OtherRelease, tmp_path: Path, name: str, first: str) -> None:
    """Commit by commit, on tables that we made and on those of 1.0.2: upserts, late rows, deletes, whole partitions
    again and gone. 1.0.2 rolls our newest write back, both compact our logs, and 1.0.2 cleans our files and
    archives our instants. Both releases read what the model says, by the metadata table and by listing; `verify` finds
    nothing."""
    three = Three(spark, older, tmp_path / "t", name)
    beginning: Rows = {f"k{n}": (1, ("p0", "p1")[n % 2], first) for n in range(8)}
    if first == "own":
        three.turns.create("--table-version", "8")
        three.own("upsert", beginning)
    else:
        three.older("upsert", beginning)
    three.check()
    three.own("upsert", {f"k{n}": (2, ("p0", "p1")[n % 2], "own") for n in range(4, 12)})
    before = dict(three.turns.rows)
    gone = three.own("upsert", {"k4": (3, "p0", "gone"), "k50": (3, "p3", "gone")})
    three.table.procedure(f"rollback_to_instant(table => '{{table}}', instant_time => '{gone['instant']}')")
    three.turns.rows.clear()
    three.turns.rows.update(before)
    three.older("upsert", {f"k{n}": (3, ("p0", "p1")[n % 2], "older") for n in range(6, 14)})
    three.newest("upsert", {f"k{n}": (4, ("p0", "p1")[n % 2], "newest") for n in range(8, 16)})
    three.own("upsert", {"k7": (1, "p1", "late"), "k9": (5, "p1", "own"), "k20": (5, "p2", "new")})
    three.check()
    three.own("delete", {"k0": (0, "p0", ""), "k11": (0, "p1", "")})
    three.older("delete", {"k2": (0, "p0", ""), "k20": (0, "p2", "")})
    # 1.0.2 fails on a row in a log that is behind the delete of its key there, its own, too (ClassCastException).
    back = "k3" if three.kind.table_type == "MERGE_ON_READ" else "k2"
    three.own("upsert", {back: (6, ("p0", "p1")[back == "k3"], "back"), "k21": (6, "p2", "new")})
    three.check()
    three.own("insert_overwrite", {"k1": (7, "p1", "alone")})
    three.older("upsert", {"k1": (8, "p1", "older"), "k3": (8, "p1", "again")})
    three.check()
    three.own("upsert", {"k1": (9, "p1", "own"), "k4": (9, "p0", "own")})
    if three.kind.table_type == "MERGE_ON_READ":
        three.table.compaction("op => 'scheduleAndExecute'")
        three.check()
        three.own("upsert", {"k1": (10, "p1", "own"), "k21": (10, "p2", "own")})
        three.turns.table.compact()
    three.own("bulk_insert", {"k60": (1, "p0", "bulk"), "k61": (1, "p3", "bulk")})
    three.check()
    three.older("upsert", {"k60": (2, "p0", "older"), "k61": (2, "p3", "older")})
    folder = "part=p3" if three.kind.of_hudi.hive_style else "p3"
    words = ("--operation", "delete_partition", "--partition", folder, "--writers", "stopped")
    exit_code, printed = lakeward("write", str(tmp_path / "t"), *words)
    assert exit_code == 0, printed
    for key in [key for key, (_, part, _) in three.turns.rows.items() if part == "p3"]:
        del three.turns.rows[key]
    three.check()
    first_files = {path.name for path in (tmp_path / "t").glob("*/*.parquet")}
    for n in range(8):
        rows: Rows = {"k1": (20 + n, "p1", f"{n}"), f"k{100 + n}": (20 + n, "p1", f"{n}")}
        if n % 3:
            three.own("upsert", rows)
        else:
            three.older("upsert", rows, **SERVICES)
    three.check()
    left = [path.name for path in (tmp_path / "t/.hoodie/timeline").iterdir()]
    assert not [name for name in left if name.endswith("replacecommit")]
    assert not first_files <= {path.name for path in (tmp_path / "t").glob("*/*.parquet")}
    three.own("upsert", {"k4": (50, "p0", "once more")})
    three.check()
    exit_code, report = lakeward("verify", str(tmp_path / "t"), "--all")
    assert exit_code == 0, report


@pytest.mark.parametrize("name", ["mor-record", "cow"])
def test_it_rolls_back_writes_of_lakeward_that_died(
    spark: SparkSession, older: OtherRelease, tmp_path: Path, name: str
) -> None:
    """1.0.2's next upsert rolls such a write back, and finds each key where it is; also where the metadata table had
    its commit and the table had not."""
    first = Three(spark, older, tmp_path / "t", name)
    first.turns.create("--table-version", "8")
    first.own("upsert", {f"k{n}": (1, ("p0", "p1")[n % 2], "first") for n in range(8)})
    for at, call in (deaths := deaths_of(first.turns)).items():
        path = first.turns.table.copy_to(tmp_path / f"{at}").path
        with pytest.raises(Killed):
            die(path, first.kind, FaultyStorage(Fault(FaultKind.KILL, at)))
        three = Three(spark, older, path, name)
        three.turns.rows.update(first.turns.rows)
        if not three.turns.table.pending_instants():
            assert at == max(deaths), "its last step was the commit"
            three.turns.learn("upsert", DIED)
        three.older("upsert", {"k1": (3, "p1", "hudis"), "k10": (3, "p0", "hudis")})
        three.check()
        assert not three.turns.table.pending_instants(), call
        exit_code, report = lakeward("verify", str(path), "--all")
        assert exit_code == 0, (call, report)
