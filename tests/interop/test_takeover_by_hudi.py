"""An attempt of Lakeward dies after its files are in their places, and Hudi carries its plan out. The table captures
changes, so that a log of changes is among them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.format.timeline.instant import State
from tests.crash.capturing import capture_changes, data_files, named_change_logs
from tests.crash.compacting import compact
from tests.crash.other_process import age
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.hudi.table import HudiTable, TableShape
from tests.metadata_golden import DATA_TIMELINE, timeline
from tests.object_lake import Lake, carry_out
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.crash]

GOLDEN = "v9"
SHAPE = TableShape(name="golden", partition_fields="part")


def number_of(calls: list[str], at: Callable[[str], bool]) -> int:
    return next(number for number, call in enumerate(calls) if at(call))


def copy_capturing(target: Path) -> Path:
    base = copy_golden(GOLDEN, target)
    capture_changes(base)
    return base


def died_in_files(folder: Path, at: Callable[[str], bool]) -> Path:
    """A table in a file system whose compaction was killed right after the first call that is `at`."""
    clean = FaultyStorage()
    compact(copy_capturing(folder / "clean"), clean, ScriptedProcesses())
    base = copy_capturing(folder / "table")
    with pytest.raises(Killed):
        compact(base, FaultyStorage(Fault(FaultKind.KILL, number_of(clean.calls, at))), ScriptedProcesses())
    (base / ".hoodie/lock").unlink()
    return base


def died_in_objects(folder: Path, at: Callable[[str], bool]) -> Path:
    """The same in an object store; brought to a disk, since the bundle holds no client of a store."""
    lake = Lake(folder, GOLDEN, change=capture_changes)
    clean = lake.copy().store()
    carry_out(clean, ScriptedProcesses())
    with pytest.raises(Killed):
        carry_out(lake.store(Fault(FaultKind.KILL, number_of(clean.writes, at))), ScriptedProcesses())
    return lake.fetched()


def moves_in(call: str) -> bool:
    return call.startswith("move") and call.endswith(".cdc")


def stages(write: str) -> bool:
    return write.endswith("/commit")


@pytest.mark.parametrize(
    ("dies", "at"),
    [
        pytest.param(died_in_files, moves_in, id="files-moved-in"),
        pytest.param(died_in_objects, stages, id="objects-staged"),
    ],
)
def test_no_file_of_lakeward_stays_beside_hudis(
    dies: Callable[[Path, Callable[[str], bool]], Path],
    at: Callable[[str], bool],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Hudi rolls our attempt back by our markers, so that the group has one base file and one log of changes of the
    instant, and no engine finds another file than the commit names. Keeps 3 of protocol/attempts/fencing."""
    base = dies(tmp_path, at)
    (instant,) = {each.time for each in timeline(base, DATA_TIMELINE) if each.action == "compaction"}
    own = files_of(base, instant)
    assert len(own) == 2

    age(base, ".hoodie/.heartbeat/*", seconds=600)
    table = HudiTable(spark, base, SHAPE)
    row = spark.sql("SELECT 'k6' AS id, 'later' AS name, 99L AS ts, 'p' AS part")
    table.write(row, "upsert", **{"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "100"})

    assert [i.state for i in timeline(base, DATA_TIMELINE) if i.time == instant][-1] is State.COMPLETED
    named = {path.rpartition("/")[2] for path in named_change_logs(base)}
    hudis = files_of(base, instant)
    assert len(hudis) == 2 and not own & hudis and hudis >= named != set()
    found = [row.asDict() for row in table.frame().drop("_hoodie_file_name").collect()]
    assert sorted(found, key=lambda row: row["_hoodie_record_key"]) == read_rows(base)


def files_of(base: Path, instant: str) -> set[str]:
    """Names of the data files that this instant wrote."""
    return {name for name in data_files(base) if f"_{instant}." in name}
