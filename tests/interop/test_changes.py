"""Changes of rows. Those that `lakeward.scan.change_scan` finds are those of released Hudi's query, window by window.
And tables with change data capture that Hudi or we compact, in all three modes: what Hudi's reader of changes says.

Hudi's CDC query on Spark leaves compactions out and infers changes from delta commits; Flink's reads the logs of
changes that compactions write, too (`consumeChangesFromCompaction`). The second is asked here of the same classes: the
switch is set in the query's own extractor before it runs.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Refused
from lakeward.scan.change_scan import ChangeQuery, ChangeScan
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.savepoints import read_savepoints
from lakeward.table.timeline.timeline import load_timeline
from lakeward.write import write as write_rows
from tests.hudi.table import HudiTable, TableShape
from tests.interop.hybrid_table import OPTIONS
from tests.interop.lakeward_cli import lakeward
from tests.interop.test_compaction import assert_verified
from tests.services.clean.run.cleaning import clean, data_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop


def changes(table: HudiTable, begin: str, end: str, *, of_compactions: bool = False) -> list[str]:
    """Operation, row before and after of each change in (begin, end], without instants and meta columns."""
    frame = table.frame(
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": end,
        }
    )
    if of_compactions:
        _consume_changes_of_compactions(frame._jdf)
    return sorted(json.dumps((row["op"], _row(row["before"]), _row(row["after"]))) for row in frame.collect())


def _consume_changes_of_compactions(frame: Any) -> None:
    index = frame.queryExecution().analyzed().collectLeaves().head().relation().location()
    extractor = _field(index, "cdcExtractor").get(index)
    _field(extractor, "consumeChangesFromCompaction").setBoolean(extractor, True)
    again = extractor.getClass().getDeclaredMethod("initInstantAndCommitMetadata", None)
    again.setAccessible(True)
    again.invoke(extractor, None)


def _field(owner: Any, name: str) -> Any:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def _row(image: str | None) -> dict[str, Any] | None:
    row = json.loads(image or "null")  # a log of changes gives the text `null` where a delta commit gives none
    return row and {name: value for name, value in row.items() if not name.startswith("_hoodie")}


class Captured:
    """A table that captures changes, which Hudi writes."""

    def __init__(self, spark: SparkSession, table: HudiTable) -> None:
        self._spark = spark
        self.table = table

    def copy_to(self, path: Path) -> Captured:
        return Captured(self._spark, self.table.copy_to(path))

    def write(self, *rows: tuple[str, int, str], operation: str = "upsert", part: str = "p") -> None:
        values = ", ".join(f"('{key}', '{part}', {ts}L, '{value}')" for key, ts, value in rows)
        self.table.write(self._spark.sql(f"SELECT * FROM VALUES {values} AS t(id, part, ts, v)"), operation)

    def write_own(self, *rows: tuple[str, int, str], operation: str, **options: Any) -> None:
        keys, orders, values = (list(each) for each in zip(*rows, strict=True))
        batch = {"id": keys, "part": ["p"] * len(keys), "ts": pa.array(orders, pa.int64()), "v": values}
        write_rows(pa.table(batch), str(self.table.path), operation=operation, writers_stopped=True, **options)

    def compact(self, *options: str) -> list[tuple[str, list[str]]]:
        """What was carried out: action, and the kinds of its operations."""
        code, printed = lakeward("compact", str(self.table.path), "--writers", "stopped", *options)
        assert code == 0, printed
        return [(each["action"], [one["kind"] for one in each["operations"]]) for each in printed["compactions"]]

    def ends(self) -> list[str]:
        """The completion times of all commits but log compactions."""
        timeline = self.table.path / ".hoodie/timeline"
        return [
            completed
            for requested, completed in self.table.completed_instants()
            if not (timeline / f"{requested}.logcompaction.requested").exists()
        ]


@pytest.mark.slow
@pytest.mark.wide
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"])
def test_changes_are_those_of_hudis_compaction(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """FULL, LOG, and LOG before FULL, asked for in the hybrid form, which is split here: over all commits, and over
    each for itself, Hudi reads the changes that it reads where it compacted, with those of compactions and without;
    and so it does of what it writes afterwards."""
    shape = TableShape(
        partition_fields="part",
        index="BUCKET",
        buckets=1,
        options={
            "hoodie.metadata.enable": "true",
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": mode,
        },
    )
    hudis = Captured(spark, HudiTable(spark, tmp_path / "hudis", shape))
    hudis.write(*((f"k{number:02}", 10, f"a{number}") for number in range(10)), operation="bulk_insert")
    hudis.write(("k00", 11, "b"), ("k01", 11, "a1"), ("k02", 5, "late"), ("n1", 11, "new"), ("k08", 10, "a8"))
    hudis.write(("k03", 11, ""), ("n2", 11, "x"))
    hudis.write(("k04", 11, ""), operation="delete")
    hudis.write(("n2", 12, ""), operation="delete")
    hudis.write(("zz", 12, ""), operation="delete")
    full, mixed, log = (hudis.copy_to(tmp_path / name) for name in ("full", "mixed", "log"))
    hudis.table.compact()
    assert full.compact("--type", "full") == [("compaction", ["FULL"])]
    assert mixed.compact(*OPTIONS, "--type", "log") == [("logcompaction", ["LOG"])]
    assert mixed.compact("--type", "full") == [("compaction", ["FULL"])]
    assert log.compact(*OPTIONS, "--type", "log") == [("logcompaction", ["LOG"])]

    compacted = hudis.ends()
    for of_compactions in (True, False):
        expected = changes(hudis.table, "000", compacted[-1], of_compactions=of_compactions)
        for each in (full, mixed):
            assert changes(each.table, "000", each.ends()[-1], of_compactions=of_compactions) == expected
    expected = changes(hudis.table, *compacted[-2:], of_compactions=True)
    assert [json.loads(change)[0] for change in expected] == ["d", "i", "u", "u", "u", "u"]
    for each in (full, mixed):
        assert changes(each.table, *each.ends()[-2:], of_compactions=True) == expected

    for each in (hudis, full, mixed, log):
        each.write(("k00", 13, "c"), ("n1", 12, "again"))
    expected = changes(hudis.table, *hudis.ends()[-2:])
    for each in (full, mixed, log):
        assert changes(each.table, *each.ends()[-2:]) == expected
        assert each.table.snapshot(with_meta=False) == hudis.table.snapshot(with_meta=False)
        assert_verified(each.table)
    for window in itertools.pairwise(compacted[:-1]):
        assert changes(log.table, *window) == changes(hudis.table, *window)
    if mode == "DATA_BEFORE_AFTER":  # what a log is to other services, no mode changes
        assert_kept_and_cleaned(spark, full, tmp_path)


@pytest.mark.slow
@pytest.mark.wide
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("table_type", "mode"),
    [("COPY_ON_WRITE", "DATA_BEFORE_AFTER"), ("COPY_ON_WRITE", "OP_KEY_ONLY"), ("MERGE_ON_READ", "DATA_BEFORE")],
)
def test_changes_are_those_of_before_a_clustering(
    spark: SparkSession, tmp_path: Path, table_type: str, mode: str
) -> None:
    """A clustering is no change, and takes none away: Hudi reads the changes of each window that it read before, and
    of a window over the clustering, and of what it writes into the new file groups, as where Hudi clustered."""
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.parquet.small.file.limit": "0",
    }
    own = Captured(
        spark, HudiTable(spark, tmp_path / "own", TableShape(partition_fields="part", index="SIMPLE", options=options))
    )
    for number in range(3):
        own.write(*((f"k{number}{each}", 10, "a") for each in range(3)), operation="insert")
    own.write(("k01", 11, "b"), ("k12", 11, "b"), ("k02", 5, "late"), ("n1", 11, "new"))
    own.write(("k00", 12, ""), ("k20", 12, ""), operation="delete")
    hudis, ends = own.copy_to(tmp_path / "hudis"), own.ends()
    windows = [("000", ends[-1]), *itertools.pairwise(ends)]
    expected, rows = [changes(own.table, *window) for window in windows], own.table.snapshot()
    assert all(expected)
    code, report = lakeward("cluster", str(own.table.path), "--min-groups", "2", "--writers", "stopped")
    assert code == 0 and report["input_groups"] >= 3, report
    spark.sql(f"CALL run_clustering(path => '{hudis.table.path}', op => 'scheduleAndExecute')").collect()
    assert own.table.snapshot() == rows
    for each in (own, hudis):
        assert len(each.ends()) == len(ends) + 1
        assert [changes(each.table, *window) for window in windows] == expected
        assert changes(each.table, "000", each.ends()[-1]) == expected[0]
        assert changes(each.table, *each.ends()[-2:]) == []
        each.write(("k01", 13, "c"), ("k22", 13, "c"), ("n2", 13, "new"))
        each.write(("k10", 14, ""), operation="delete")
    after = [changes(each.table, each.ends()[-3], each.ends()[-1]) for each in (own, hudis)]
    assert after[0] == after[1] and [json.loads(change)[0] for change in after[0]] == ["d", "i", "u", "u"]


@pytest.mark.slow
@pytest.mark.wide
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("table_type", "index", "mode"),
    [
        ("COPY_ON_WRITE", "SIMPLE", "DATA_BEFORE_AFTER"),
        ("COPY_ON_WRITE", "BUCKET", "OP_KEY_ONLY"),
        ("MERGE_ON_READ", "SIMPLE", "DATA_BEFORE"),
        ("MERGE_ON_READ", "BUCKET", "DATA_BEFORE_AFTER"),
    ],
)
def test_changes_are_those_of_hudis_writes(
    spark: SparkSession, tmp_path: Path, table_type: str, index: str, mode: str
) -> None:
    """One table that Hudi writes to and a copy that we write to: Hudi's reader finds the same changes in each commit,
    rows that lose, go and come among them. Of an insert into a small file it finds Lakeward's, and fails at its own."""
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.parquet.small.file.limit": "104857600",
    }
    hudis = Captured(
        spark,
        HudiTable(
            spark, tmp_path / "hudis", TableShape(partition_fields="part", index=index, buckets=1, options=options)
        ),
    )
    hudis.write(*((f"k{number}", 10, "a") for number in range(5)), operation="insert")
    own = hudis.copy_to(tmp_path / "own")
    into_buckets: dict[str, Any] = {"buckets": 1} if index == "BUCKET" else {"index": "simple"}
    for operation, rows in (
        ("upsert", [("k1", 11, "b"), ("k7", 11, "new"), ("k2", 5, "late")]),
        ("upsert", [("k2", 5, "late")]),
        ("delete", [("k3", 11, ""), ("zz", 11, "")]),
        ("upsert", [("k4", 10, "a")]),
        ("delete", [(f"k{number}", 0, "") for number in range(8)]),
    ):
        hudis.write(*rows, operation=operation)
        own.write_own(*rows, operation=operation, **into_buckets)
        assert changes(own.table, *own.ends()[-2:]) == changes(hudis.table, *hudis.ends()[-2:])
        assert own.table.snapshot(with_meta=False) == hudis.table.snapshot(with_meta=False)
    for each in (hudis, own):
        each.write(("k9", 12, "again"))
    assert changes(own.table, *own.ends()[-2:]) == changes(hudis.table, *hudis.ends()[-2:])

    own.write_own(("n1", 1, "x"), operation="insert", **into_buckets)
    assert [json.loads(change)[0] for change in changes(own.table, *own.ends()[-2:])] == ["i"]
    if table_type == "COPY_ON_WRITE":
        hudis.write(("n1", 1, "x"), operation="insert")
        with pytest.raises(Exception, match="There should be a cdc log file"):
            changes(hudis.table, *hudis.ends()[-2:])


def assert_kept_and_cleaned(spark: SparkSession, captured: Captured, folder: Path) -> None:
    """A plan that Hudi made over a log of changes is carried out; a savepoint of Lakeward at the compaction names the
    files that Hudi's does, and a clean of Lakeward takes the files that Hudi's takes, logs of changes among them; Hudi
    reads on by its metadata table."""
    (first,) = captured.table.compactions()
    planned = captured.table.schedule_compaction()
    assert captured.compact("--type", "full") == [("compaction", ["FULL"])]
    assert captured.table.compactions() == (first, planned)
    own, of_hudi = (captured.copy_to(folder / f"{name}-cleans").table for name in ("lakeward", "hudi"))
    rows = captured.table.snapshot()

    lakeward("savepoint", "create", str(own.path), first, "--writers", "stopped", "--comment", "why")
    spark.sql(
        f"CALL create_savepoint(path => '{of_hudi.path}', commit_time => '{first}', user => 'h', comments => 'why')"
    ).collect()
    pinned = [saved_files(table.path) for table in (own, of_hudi)]
    assert pinned[0] == pinned[1] and any(name.endswith(".cdc") for name in pinned[0])
    for table in (own, of_hudi):
        assert lakeward("savepoint", "delete", str(table.path), first, "--writers", "stopped")[0] == 0

    before = data_files(own.path)
    clean(own.path, LocalStorage())
    spark.sql(f"CREATE TABLE captured_cleaned USING hudi LOCATION '{of_hudi.path}'")
    spark.sql(
        "CALL run_clean(table => 'captured_cleaned', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', "
        "file_versions_retained => 1, options => 'hoodie.metadata.enable=true')"
    ).collect()
    assert data_files(own.path) == data_files(of_hudi.path)
    gone = before - data_files(own.path)
    assert [first in name for name in gone if name.endswith(".cdc")] == [True]
    assert own.snapshot(**{"hoodie.metadata.enable": "true"}) == rows
    assert_verified(own)


def saved_files(base: Path) -> set[str]:
    """What the one savepoint names, by path."""
    storage = LocalStorage()
    config = load_table_config(storage, str(base), clock=SystemClock()).config
    (savepoint,) = read_savepoints(storage, str(base), config, load_timeline(storage, str(base), config))
    return {f"{partition}/{name}" for partition, names in savepoint.files.items() for name in names}


QUICK = ("COPY_ON_WRITE", "SIMPLE", "DATA_BEFORE_AFTER", "9")
"""Merge-on-read in every mode is wide; tests/scan/test_change_scan.py has it without Hudi."""
CASES = [
    pytest.param(kind, index, mode, version, marks=[] if (kind, index, mode, version) == QUICK else pytest.mark.wide)
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
    for index in ("SIMPLE", "BUCKET")
    for mode in ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER")
    for version in ("9", "8", "6")
    if version == "9" or (index == "SIMPLE" and mode != "DATA_BEFORE")
]


def expected(table: HudiTable, since: str, until: str) -> list[str]:
    """Operation, instant, row before and after of each change in the window, as Hudi's query gives them."""
    frame = table.frame(
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": since,
            "hoodie.datasource.read.end.instanttime": until,
        }
    )
    rows = [(row["op"], row["ts_ms"], image(row["before"]), image(row["after"])) for row in frame.collect()]
    return sorted(map(json.dumps, rows))


def image(text: str | None) -> dict[str, Any] | None:
    """A row without meta columns; a log of changes has the text `null` where a log of rows has none."""
    row = json.loads(text or "null")
    return row and {name: value for name, value in row.items() if not name.startswith("_hoodie")}


def found(table: HudiTable, since: str | None, until: str | None, **query: Any) -> list[str]:
    """The same from Lakeward."""
    snapshot = take_snapshot(LocalStorage(), str(table.path), timezone="UTC", clock=SystemClock())
    scan = ChangeScan(LocalStorage(), snapshot, ChangeQuery(since=since, until=until, **query), SystemClock())
    rows = [row for batch in scan for row in batch.to_pylist()]
    return sorted(json.dumps((row["op"], row["ts_ms"], row["before"], row["after"])) for row in rows)


def assert_same(table: HudiTable, ends: list[str]) -> None:
    for since, until in itertools.pairwise(("000", *ends)):
        assert found(table, None if since == "000" else since, until) == expected(table, since, until), (since, until)
    assert found(table, None, None) == expected(table, "000", ends[-1])


@pytest.mark.turns(30)
@pytest.mark.parametrize(("kind", "index", "mode", "version"), CASES)
def test_changes_are_those_of_hudis_query(
    spark: SparkSession, tmp_path: Path, kind: str, index: str, mode: str, version: str
) -> None:
    """Keeps 1 of scan/change_scan and 2 of scan/change_plan: rows that win, lose, come and go, a delete of all, a
    replaced partition, and compactions of Hudi and of Lakeward in between; and the changes of an insert into a small
    file, at which Hudi's query fails."""
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.parquet.small.file.limit": "104857600",
    }
    if version != "9":
        options |= {"hoodie.write.table.version": version, "hoodie.write.auto.upgrade": "false"}
    shape = TableShape(partition_fields="part", index=index, buckets=1, options=options)
    hudis = Captured(spark, HudiTable(spark, tmp_path / "hudis", shape))
    hudis.write(*((f"k{number}", 10, "a") for number in range(5)), operation="insert")
    hudis.write(("k1", 11, "b"), ("k7", 11, "new"), ("k2", 5, "late"))
    hudis.write(("k3", 11, ""), ("zz", 11, ""), operation="delete")
    hudis.write(("k4", 10, "a"))
    if (kind, version) == ("MERGE_ON_READ", "6"):
        with pytest.raises(Refused, match="fails over logs of table version 6"):
            found(hudis.table, None, None)
        with pytest.raises(Exception, match="Fail to parse the base file and log files from DeltaCommit"):
            expected(hudis.table, "000", hudis.ends()[-1])
        return
    if kind == "MERGE_ON_READ":
        hudis.table.compact()
        hudis.write(("k1", 12, "c"), ("k3", 12, "back"))
        assert_same(hudis.table, hudis.ends())
        if version == "9":
            hudis.compact("--type", "full")
    hudis.write(("q1", 1, "x"), ("q2", 1, "y"), part="q")
    hudis.write(("k1", 13, "over"), ("n1", 13, "n"), operation="insert_overwrite")
    hudis.write(("k1", 14, "e"), ("q1", 2, "z"))
    hudis.write(("k1", 15, ""), ("n1", 15, ""), operation="delete")
    assert_same(hudis.table, hudis.ends())
    if kind == "COPY_ON_WRITE":
        hudis.write(("q3", 1, "w"), operation="insert", part="q")
        row = {"id": "q3", "part": "q", "ts": 1, "v": "w"}
        since, until = hudis.ends()[-2:]
        assert [json.loads(each)[0::2] for each in found(hudis.table, since, until)] == [["i", None]]
        assert [json.loads(each)[3] for each in found(hudis.table, since, until)] == [row]
        with pytest.raises(Exception, match="There should be a cdc log file"):
            expected(hudis.table, since, until)
