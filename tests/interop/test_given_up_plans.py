"""Plans that are not carried out as they were made: one is unscheduled while writers go on; of one that Hudi made of
file groups that its insert_overwrite has replaced since, Hudi merges these groups once more, for no reader, and fails
for good once its cleaner took their files, and we end it without them; and an attempt of Lakeward dies after its files
are in their places, and Hudi carries its plan out. The last table captures changes, so that a log of changes is among
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from lakeward.base.clock import SystemClock
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.file_system_lock import FileSystemLockOptions
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from lakeward.services.compaction.run.unschedule import Unscheduled
from lakeward.storage.local import LocalStorage
from tests.crash.capturing import capture_changes, data_files, named_change_logs
from tests.crash.compacting import compact as compact_in_process
from tests.crash.metadata_compacting import check_agrees
from tests.crash.other_process import age
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.made_once import made_once
from tests.interop.test_clean_plan import rows as partition_rows
from tests.metadata_golden import DATA_TIMELINE, timeline
from tests.object_lake import Lake, carry_out
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.interop

EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"


def rows(spark: SparkSession, first: int, last: int, ts: int, value: str) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, {ts}L AS ts, concat('{value}', id) AS v FROM range({first}, {last})"
    )


def compactor(table: HudiTable, kind: CompactionType, *, fails: bool = False) -> Compactor:
    """Lakeward's lock, beside Hudi's writers; `fails`: its plans are made and not carried out."""
    storage = LocalStorage()

    def fail(spec: OperationSpec, task_attempt: int) -> OperationResult:
        raise OSError("this plan is not carried out")

    return Compactor(
        ServicedTable.for_one_attempt(
            storage,
            str(table.path),
            CompactionOptions(writers_stopped=False, lock=FileSystemLockOptions(wait_seconds=5.0)),
            clock=SystemClock(),
            processes=Processes(),
        ),
        planner=planner_of(kind, GroupFilter(), {}),
        choose_dispatcher=lambda input_bytes: InProcessDispatcher(),
        run_operation=fail if fails else partial(run_operation, storage),
    )


def schedule_and_leave(table: HudiTable, whose: str) -> str:
    """Leaves a plan that is not carried out. Returns its instant."""
    if whose == "Hudi's":
        return table.schedule_compaction()
    kind = CompactionType.LOG if whose == "our LOG" else CompactionType.FULL
    with pytest.raises(OSError, match="not carried out"):
        compactor(table, kind, fails=True).compact()
    (instant,) = table.pending_instants()
    return instant


@pytest.mark.slow
@pytest.mark.turns
@pytest.mark.parametrize(
    ("whose", "mode"),
    [
        ("our FULL", EVENT),
        pytest.param("our LOG", COMMIT, marks=pytest.mark.wide),
        pytest.param("Hudi's", EVENT, marks=pytest.mark.wide),
        pytest.param("Hudi's", COMMIT, marks=pytest.mark.wide),
        pytest.param("our FULL", COMMIT, marks=pytest.mark.wide),
        pytest.param("our LOG", EVENT, marks=pytest.mark.wide),
    ],
)
def test_a_plan_goes_while_writers_go_on(spark: SparkSession, tmp_path: Path, whose: str, mode: str) -> None:
    """Logs of before and after the plan, one of them of a write that completes only when the plan is gone: every query
    answers as it did, also of the past, and in the end as on a table that never had a plan."""
    shape = TableShape(merge_mode=mode, ordering_fields="ts" if mode == EVENT else "")
    table = HudiTable(spark, tmp_path / "table", shape)
    table.write(rows(spark, 0, 40, 10, "a"), "insert")
    table.write(rows(spark, 5, 15, 11, "b"), "upsert")
    table.write(rows(spark, 8, 20, 12, "c"), "upsert")
    twin = table.copy_to(tmp_path / "twin")

    instant = schedule_and_leave(table, whose)
    for each in (table, twin):
        each.write(rows(spark, 10, 12, 13, "x"), "delete")
        each.write(rows(spark, 11, 25, 9, "late").union(rows(spark, 40, 43, 13, "new")), "upsert")
    history = {requested: table.as_of(requested) for requested, _ in table.completed_instants()}
    changes = table.incremental("000", table.completed_instants()[-1][1])
    for each in (table, twin):
        each.write(rows(spark, 18, 22, 14, "d"), "upsert")
    before, before_by_hudi_rs = table.snapshot(), table.read_by_hudi_rs()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)

    # The last write is under way while the plan goes: its log lies there, and it completes afterwards.
    requested, completed = table.completed_instants()[-1]
    commit = table.path / ".hoodie" / "timeline" / f"{requested}_{completed}.deltacommit"
    hidden = commit.rename(tmp_path / "not yet completed")
    ended = compactor(table, CompactionType.FULL).unschedule(instant, foreign=whose == "Hudi's")
    hidden.rename(commit)

    assert isinstance(ended, Unscheduled)
    assert table.pending_instants() == ()
    assert not [name for name in table.files() if instant in name]
    assert table.snapshot() == before
    assert table.read_by_hudi_rs() == before_by_hudi_rs
    assert {requested: table.as_of(requested) for requested in history} == history
    assert table.incremental("000", table.completed_instants()[-2][1]) == changes

    for each in (table, twin):
        each.write(rows(spark, 0, 12, 15, "e"), "upsert")
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    if whose == "our FULL":
        compactor(table, CompactionType.FULL).compact()
    else:
        table.compact()
    twin.compact()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    assert table.read_optimized(with_meta=False) == table.snapshot(with_meta=False)
    table.write(rows(spark, 30, 45, 16, "f"), "upsert")
    twin.write(rows(spark, 30, 45, 16, "f"), "upsert")
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)


SHAPES = {
    "listed": TableShape(partition_fields="part"),
    # With statistics of columns Hudi 1.2.0 fails over the upsert, by a NullPointerException in its metadata table.
    "metadata table": TableShape(
        partition_fields="part",
        options={"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"},
    ),
}
OF_VERSIONS = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}


@pytest.fixture(
    scope="module",
    params=[
        ("metadata table", "one of two"),
        pytest.param(("metadata table", "all"), marks=pytest.mark.wide),
        pytest.param(("listed", "all"), marks=pytest.mark.wide),
    ],
    ids=" ".join,
)
def overwritten(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> HudiTable:
    """Hudi's plan names a file group in p0 and one in p1, or that in p1 alone, which is replaced after it; a log lies
    on either."""
    shape, of_it = SHAPES[request.param[0]], request.param[1]

    def make(folder: Path) -> None:
        table = HudiTable(spark, folder / "table", shape)
        table.write(partition_rows(spark, range(6), 1), "insert")
        table.write(partition_rows(spark, (1, 3, 5) if of_it == "all" else range(6), 2), "upsert")
        table.schedule_compaction()
        table.write(partition_rows(spark, range(4), 3), "upsert")
        table.write(partition_rows(spark, (7, 9), 4), "insert_overwrite")

    name = f"overwritten {' '.join(request.param)}".replace(" ", "_")
    return HudiTable(spark, made_once(tmp_path_factory, name, make) / "table", shape)


def check(table: HudiTable, before: tuple[str, ...]) -> None:
    assert table.snapshot() == before
    if (table.path / ".hoodie/metadata").exists():
        assert table.snapshot(**{"hoodie.metadata.enable": "true"}) == before
        check_agrees(table.path)
    exit_code, printed = lakeward("verify", str(table.path), "--all")
    assert exit_code == 0, printed


def new_files(table: HudiTable, before: HudiTable) -> set[str]:
    return {name.partition("/")[0] for name in table.data_files().keys() - before.data_files().keys()}


@pytest.mark.slow
@pytest.mark.turns
def test_the_plan_ends_without_what_was_replaced(spark: SparkSession, overwritten: HudiTable, tmp_path: Path) -> None:
    """Hudi writes a base file into the replaced group, we do not; every reader sees the same rows by both, now and as
    of every commit before, and after Lakeward's Hudi upserts, compacts and cleans."""
    hudis, own = (overwritten.copy_to(tmp_path / name) for name in ("hudis", "own"))
    (instant,) = overwritten.pending_instants()
    before = overwritten.snapshot()
    commits = [requested for requested, _ in overwritten.completed_instants()]
    earlier = [overwritten.as_of(commit) for commit in commits]

    hudis.compact_pending(instant)
    printed = compact(own)

    (plan,) = [each for each in printed["compactions"] if each["instant"] == instant]
    assert [each["partition_path"] for each in plan["dropped"]] == ["p1"]
    assert "was replaced by" in plan["dropped"][0]["why"]
    assert "p1" in new_files(hudis, overwritten) and "p1" not in new_files(own, overwritten)
    assert instant not in own.pending_instants()
    for table in (hudis, own):
        check(table, before)
        assert [table.as_of(commit) for commit in commits] == earlier

    own.write(partition_rows(spark, range(10), 5), "upsert")
    own.compact()
    own.write(partition_rows(spark, range(10), 6), "upsert", **OF_VERSIONS)
    after = own.snapshot()
    assert len(after) == 10 and all('"v":"v6"' in row for row in after)
    check(own, after)


@pytest.mark.slow
@pytest.mark.wide
def test_hudi_never_ends_a_plan_whose_files_its_cleaner_took(
    spark: SparkSession, overwritten: HudiTable, tmp_path: Path
) -> None:
    """Hudi cleans the replaced group, by versions, although its plan names it, and then cannot carry the plan out. We
    end it, and Hudi goes on."""
    table = overwritten.copy_to(tmp_path / "table")
    (instant,) = overwritten.pending_instants()
    table.write(partition_rows(spark, (0, 7), 5), "upsert", **OF_VERSIONS)
    assert {name.partition("/")[0] for name in overwritten.data_files().keys() - table.data_files().keys()} == {"p1"}
    before = table.snapshot()
    with pytest.raises(Py4JJavaError):
        table.copy_to(tmp_path / "hudis").compact_pending(instant)

    compact(table)

    assert instant not in table.pending_instants()
    check(table, before)
    table.write(partition_rows(spark, range(10), 6), "upsert")
    table.compact()
    assert len(table.snapshot()) == 10


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
    compact_in_process(copy_capturing(folder / "clean"), clean, ScriptedProcesses())
    base = copy_capturing(folder / "table")
    with pytest.raises(Killed):
        compact_in_process(base, FaultyStorage(Fault(FaultKind.KILL, number_of(clean.calls, at))), ScriptedProcesses())
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


@pytest.mark.crash
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
