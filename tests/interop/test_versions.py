"""Tables of other versions. They went to version 10, were written to there, and came back: released Hudi reads them and
goes on. And tables of version 6, by Hudi 0.15.0, the oldest release that the version promises: we compact them, and it
reads and goes on, as 1.0.2 and 1.2.0 do.

All of it is `wide`: `tests/scenarios/test_version_6.py` has in each run what 0.15.0 left of a table, and said of it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LakewardError
from lakeward.format.file_name import is_native_log
from lakeward.index.index_type import IndexType
from tests.conftest import IN_CI
from tests.crash.capturing import capture_changes
from tests.crash.compacting import compact as compact_in_process
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.golden_version_6 import BY_COMMANDS, SHAPE, SHAPES, completed, interrupt, rows_of, writes
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import OLDEST_VERSION_OF_6, OLDEST_VERSION_OF_8, HudiMissing
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.lakeward_cli import lakeward
from tests.interop.lakeward_cli import lakeward as command
from tests.interop.test_changes import Captured, changes
from tests.interop.test_our_writes import KINDS, Turns
from tests.processes import ScriptedProcesses
from tests.write.writing import new_table, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]


AT_10 = ("--table-version", "10")
BIRTHS = {"9": (), "9, converted": (), "10": AT_10, "lsm_tree": (*AT_10, "--layout", "lsm_tree")}


@pytest.mark.parametrize("born", BIRTHS)
@pytest.mark.parametrize("name", ["mor-buckets", "mor-commit-time", "mor-record", "mor-listing-encoded", "cow"])
def test_hudi_goes_on_after_version_10(spark: SparkSession, tmp_path: Path, name: str, born: str) -> None:
    """A table that Hudi made, or that was made at version 10 in either layout: rows and deletes are written into native
    logs, and after the way down Hudi reads every row as of the downgrade and later, refuses to read as of before,
    writes on and keeps a metadata table. A table that Hudi made may have become one of the other layout in between."""
    kind = KINDS[name]
    p0, p1, p2 = kind.partitions
    turns = Turns(spark, HudiTable(spark, tmp_path / "t", kind.of_hudi), kind, {})
    first = {f"k{n}": (1, (p0, p1)[n % 2], "first") for n in range(8)}
    if not BIRTHS[born]:
        turns.hudis("upsert", first)
        turns.hudis("upsert", {"k0": (2, p0, "hudis"), "k1": (2, p1, "hudis")})
        turns.goes_to(10)
        if "converted" in born:
            words = ("--layout", "lsm_tree", "--writers", "stopped")
            exit_code, report = command("table", "convert", str(turns.table.path), *words)
            assert exit_code == 0, report
            assert report["steps"][0]["step"] == ("compaction" if kind.table_type == "MERGE_ON_READ" else "sorting")
    else:
        turns.create(*BIRTHS[born])
        turns.own("upsert", first)
    base = turns.table.path
    before = turns.table.completed_instants()[-1][0]
    turns.own("upsert", {"k1": (3, p1, "native"), "k2": (3, p0, "native"), "k30": (3, p2, "native")})
    turns.own("delete", {"k3": (3, p1, "")})
    is_mor = kind.table_type == "MERGE_ON_READ"
    assert any(is_native_log(path.name) for path in base.rglob("*")) == (is_mor or bool(kind.options))

    steps = [step["step"] for step in turns.goes_to(9)["steps"]]
    assert ("clean" in steps, "metadata-table" in steps) == (is_mor, bool(kind.options))
    assert not [path for path in base.rglob("*") if is_native_log(path.name)]
    turns.check()
    newest = turns.table.completed_instants()[-1][0]
    assert turns.table.as_of(newest) == turns.table.snapshot()
    if is_mor:
        with pytest.raises(IllegalArgumentException, match="Cleaner cleaned up the timestamp"):
            turns.table.as_of(before)
    else:
        assert turns.table.as_of(before)
    turns.hudis("upsert", {"k2": (5, p0, "after"), "k40": (5, p2, "after")})
    turns.hudis("delete", {"k4": (6, p0, "")})
    turns.check()
    exit_code, report = command("verify", str(base), "--all")
    assert exit_code == 0, report


def test_incremental_queries_over_commits_of_version_10(spark: SparkSession, tmp_path: Path) -> None:
    """The answers are those after any clean: of a range that ends behind the way down, and by default of others, the
    rows whose newest commit lies in it; asked not to scan the table instead, Hudi fails over the files that are
    gone."""
    kind = KINDS["mor-buckets"]
    p0, p1, _ = kind.partitions
    turns = Turns(spark, HudiTable(spark, tmp_path / "t", kind.of_hudi), kind, {})
    turns.hudis("upsert", {f"k{n}": (1, (p0, p1)[n % 2], "first") for n in range(4)})
    turns.goes_to(10)
    turns.own("upsert", {"k1": (2, p1, "native"), "k2": (2, p0, "native")})
    turns.own("delete", {"k3": (3, p1, "")})
    turns.own("upsert", {"k1": (4, p1, "newest")})
    commits = turns.table.completed_instants()
    turns.goes_to(9)
    ends = ["000", *(completed for _, completed in turns.table.completed_instants())]
    shown = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false",
    }
    for begin, (_, end), keys in zip(ends, commits, [{"k0"}, {"k2"}, set(), {"k1"}], strict=False):
        rows = [json.loads(row) for row in turns.table.incremental(begin, end)]
        assert {row["id"]: row["v"] for row in rows} == {key: turns.rows[key][2] for key in keys}
        window = {"hoodie.datasource.read.begin.instanttime": begin, "hoodie.datasource.read.end.instanttime": end}
        with pytest.raises(Py4JJavaError, match="does not exist"):
            turns.table.frame(**shown, **window).collect()
    for number, keys in enumerate([{"k0", "k1", "k2"}, {"k1", "k2"}, {"k1"}, {"k1"}, set()]):
        rows = [json.loads(row) for row in turns.table.incremental(ends[number], ends[-1])]
        assert {row["id"]: row["v"] for row in rows} == {key: turns.rows[key][2] for key in keys}


def test_changes_that_are_given_up(spark: SparkSession, tmp_path: Path) -> None:
    """A FULL at version 10 writes its changes in a native log, which is given up by name only: queries of changes on
    Spark, which leave compactions out, say what they said; one that reads compactions fails over it."""
    options = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"}
    shape = TableShape(partition_fields="part", index="BUCKET", buckets=1, options=options)
    table = Captured(spark, HudiTable(spark, tmp_path / "t", shape))
    table.write(("a", 1, "first"), ("b", 1, "first"))
    table.write(("a", 2, "second"))
    shown = changes(table.table, "000", table.ends()[-1])
    words = (str(table.table.path), "--writers", "stopped")
    assert command("table", "upgrade", *words, "--to", "10")[0] == 0
    assert table.compact("--type", "full") == [("compaction", ["FULL"])]
    (log,) = table.table.path.rglob("*.cdc.parquet")
    assert command("table", "downgrade", *words, "--to", "9")[0] != 0 and log.exists()
    exit_code, printed = command("table", "downgrade", *words, "--to", "9", "--drop-changes")
    assert exit_code == 0, printed
    assert [step["step"] for step in printed["steps"]] == ["changes", "properties"]
    assert printed["steps"][0]["subjects"] == [f"{log.name.split('_')[2]}: p/{log.name}"] and not log.exists()
    assert changes(table.table, "000", table.ends()[-1]) == shown
    with pytest.raises(Py4JJavaError):
        changes(table.table, "000", table.ends()[-1], of_compactions=True)
    table.write(("b", 3, "after"))
    assert table.table.snapshot(with_meta=False)
    assert changes(table.table, *table.ends()[-2:])


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_changes_whose_files_are_gone(spark: SparkSession, tmp_path: Path, table_type: str) -> None:
    """Writes at version 10, whose native logs the way down takes: a query of changes over one of them fails, and never
    gives fewer; of what comes afterwards it says all."""
    base = new_table(tmp_path / "t", table_type=table_type, version=10)
    capture_changes(base)
    said: dict[str, Any] = {"index": IndexType.SIMPLE, "clock": SystemClock()}  # as the commands that follow have it
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "p", "a")], **said)
    write(base, [("k1", 2, "p", "b")], **said)
    write(base, [("k2", 2, "p", "c")], "delete", **said)
    exit_code, printed = command("table", "downgrade", str(base), "--writers", "stopped", "--to", "9", "--drop-changes")
    assert exit_code == 0, printed
    shape = TableShape(
        partition_fields="part",
        options={"hoodie.table.cdc.enabled": "true", "hoodie.datasource.write.table.type": table_type},
    )
    table = Captured(spark, HudiTable(spark, base, shape))
    ends = table.ends()
    for begin, end in [("000", ends[-1]), *pairwise(ends[:3])]:
        with pytest.raises(Py4JJavaError):
            changes(table.table, begin, end)
    table.write(("k3", 3, "after"))
    assert [json.loads(change)[0] for change in changes(table.table, *table.ends()[-2:])] == ["i"]


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherRelease]:
    yield from release(OLDEST_VERSION_OF_6, tmp_path_factory)


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherRelease]:
    yield from release(OLDEST_VERSION_OF_8, tmp_path_factory)


def release(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherRelease]:
    try:
        started = OtherRelease(version, tmp_path_factory.mktemp("release"))
    except HudiMissing as missing:
        (pytest.fail if IN_CI else pytest.skip)(str(missing))
    with started:
        yield started


@pytest.mark.parametrize("shape", SHAPES)
def test_hudi_goes_on(oldest: OtherRelease, between: OtherRelease, spark: SparkSession, tmp_path: Path, shape: str):
    """0.15.0 reads the rows that it read before, as do 1.0.2 and 1.2.0; it updates, deletes, rolls a dead write back,
    compacts, and takes a commit back by name; we compact what it left."""
    table = oldest.table(tmp_path / "table", SHAPES[shape])
    writes(table)
    assert_compacted(table, spark, between)

    table.write(rows_of(5, 10, 20, "e"), "upsert")
    table.write(rows_of(6, 8, 21, "lost"), "upsert")
    interrupt(table)
    table.write(rows_of(8, 14, 22, "f"), "upsert", **BY_COMMANDS)
    table.write(rows_of(2, 3, 23, "x"), "delete")
    expected = {"k3": "b", "k4": "c"} | {f"k{key}": "e" if key < 8 else "f" for key in range(5, 14)}
    assert values(table) == expected
    assert_compacted(table, spark, between)
    table.write(rows_of(3, 5, 30, "g"), "upsert")
    table.compaction("op => 'scheduleAndExecute'")
    expected |= {"k3": "g", "k4": "g"}
    assert values(table) == values_in(table.read_optimized()) == expected
    table.write(rows_of(3, 4, 31, "h"), "upsert")
    newest = max(completed(table.path, "deltacommit")).name.partition(".")[0]
    assert values(table) == expected | {"k3": "h"}
    table.procedure(f"rollback_to_instant(table => '{{table}}', instant_time => '{newest}')")
    assert values(table) == expected
    table.write(rows_of(4, 5, 32, "i"), "upsert")
    assert_compacted(table, spark, between)
    assert values(table) == expected | {"k4": "i"}


def assert_compacted(table: OtherTable, spark: SparkSession, between: OtherRelease) -> None:
    before = in_any_order(table.snapshot(with_meta=True))
    assert lakeward("verify", str(table.path), "--merge-sample", "10")[0] == 0
    assert compact(table) != []
    for reader in (table, HudiTable(spark, table.path, table.shape), between.table(table.path, table.shape)):
        assert in_any_order(reader.snapshot(with_meta=True)) == before
    assert in_any_order(table.read_optimized(with_meta=True)) == before


def compact(table: OtherTable) -> list[str]:
    """The instants."""
    code, printed = lakeward("compact", str(table.path), "--writers", "stopped", "--engine", "local")
    assert code == 0, printed
    return [plan["instant"] for plan in printed["compactions"]]


def test_a_plan_of_hudis_with_later_logs(oldest: OtherRelease, tmp_path: Path):
    """0.15.0 carries its plan out on the one copy and we on the other, with the same rows; logs that its writer named
    by the plan count on top of either, and both compact again."""
    shown = json.loads((GOLDEN / "v6_oldest" / "expected.json").read_text())
    own = oldest.table(copy_golden("v6_oldest", tmp_path / "own", pending=True), SHAPE)
    hudis = own.at(Path(shutil.copytree(own.path, tmp_path / "hudis", copy_function=shutil.copy2)))
    before = own.snapshot(with_meta=True)
    assert compact(own)[0] == shown["instant"]
    hudis.compaction(f"op => 'run', timestamp => {shown['instant']}")
    assert own.snapshot(with_meta=True) == hudis.snapshot(with_meta=True) == before
    own.write(rows_of(0, 6, 40, "z"), "upsert")
    own.compaction("op => 'scheduleAndExecute'")
    assert values(own) == values_in(hudis.snapshot()) | {f"k{key}": "z" for key in range(6)}


def test_hudi_reads_whatever_a_death_leaves(oldest: OtherRelease, tmp_path: Path):
    """Killed at each step that is seen on the table: 0.15.0 reads the rows, carries the plan out itself on a copy, and
    reads them when we ran again."""
    calls = FaultyStorage()
    clean = copy_golden("v6_oldest", tmp_path / "clean", pending=True)
    compact_in_process(clean, calls, ScriptedProcesses())
    steps = [n for n, call in enumerate(calls.calls) if call.split()[0] in ("link", "move") or "inflight" in call]
    assert len(steps) > 2
    for number in steps:
        table = oldest.table(copy_golden("v6_oldest", tmp_path / f"killed-{number}", pending=True), SHAPE)
        expected = table.snapshot(with_meta=True)
        processes = ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            compact_in_process(table.path, FaultyStorage(Fault(FaultKind.KILL, number)), processes)
        assert table.snapshot(with_meta=True) == expected, calls.calls[number]
        twin = table.at(Path(shutil.copytree(table.path, tmp_path / f"twin-{number}", copy_function=shutil.copy2)))
        twin.write(rows_of(2, 4, 50, "new"), "upsert")
        twin.compaction("op => 'scheduleAndExecute'")
        assert values(twin) == values_in(expected) | {"k2": "new", "k3": "new"}, calls.calls[number]
        processes.kill_all()
        compact_in_process(table.path, FaultyStorage(), processes)
        assert table.snapshot(with_meta=True) == expected, calls.calls[number]


def in_any_order(rows: Rows) -> list[str]:
    """Rows with their columns in the order of their names: 0.15.0 puts partition columns last in some queries."""
    return sorted(json.dumps(json.loads(row), sort_keys=True) for row in rows)


def values(table: OtherTable) -> dict[str, str]:
    return values_in(table.snapshot())


def values_in(rows: Rows) -> dict[str, str]:
    return {row["id"]: row["v"] for row in map(json.loads, rows)}
