"""A plan is unscheduled while writers go on: Hudi reads what it read before, of now and of the past, and lives on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import SystemClock
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
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
from tests.hudi.table import HudiTable, TableShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

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
