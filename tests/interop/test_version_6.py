"""Tables of version 6, by Hudi 0.15.0, the oldest release that the version promises: we compact them, and it reads and
goes on, as 1.0.2 and 1.2.0 do.

All of it is `wide`: `tests/scenarios/test_version_6.py` has in each run what 0.15.0 left of a table, and said of it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.errors import LakewardError
from tests.conftest import IN_CI
from tests.crash.compacting import compact as compact_in_process
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import GOLDEN, copy_golden
from tests.hudi.golden_version_6 import BY_COMMANDS, SHAPE, SHAPES, completed, interrupt, rows_of, writes
from tests.hudi.other_release import OtherRelease, OtherTable
from tests.hudi.spark import OLDEST_VERSION_OF_6, OLDEST_VERSION_OF_8, HudiMissing
from tests.hudi.table import HudiTable, Rows
from tests.interop.lakeward_cli import lakeward
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]


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
