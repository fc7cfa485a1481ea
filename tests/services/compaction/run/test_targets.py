"""Pending compactions of file groups that were replaced since: nothing of the group is merged, and the plan ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.file_name import LogFileName
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.format.timeline.compaction_plan import CompactionOperation, CompactionPlan
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.run.compactor import CompactedPlan
from lakeward.services.compaction.run.targets import find_targets
from lakeward.table.file_group import LogFile
from lakeward.table.table_config import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.our_reader import read_rows
from tests.services.bench import GROUP, NOTHING, PENDING, Bench, pending_states
from tests.synthetic_table import TOKEN, file_group, minute, pending, snapshot_of
from tests.table.table_history import replace_metadata

REPLACED_BY = "20261121043720000"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table", pending=True))


def replace_group(base: Path) -> None:
    """Replaces the group like an insert_overwrite that completes now."""
    instant = base / ".hoodie/timeline" / f"{REPLACED_BY}_20261121043721000.replacecommit"
    instant.write_bytes(replace_metadata({}, {GROUP[0]: [GROUP[1]]}))


def check_ended(base: Path, plan: CompactedPlan) -> None:
    assert (plan.instant, plan.operations) == (PENDING, ()) and plan.completion_time is not None
    (dropped,) = plan.dropped
    assert (dropped.partition_path, dropped.file_id) == GROUP
    assert dropped.why == f"the file group was replaced by {REPLACED_BY}"
    file = base / ".hoodie/timeline" / f"{PENDING}_{plan.completion_time}.commit"
    assert not any(read_commit_metadata(file.read_bytes(), file=str(file), layout=2).partition_to_write_stats.values())


@pytest.mark.parametrize("is_cleaned", [False, True], ids=["there", "taken by a cleaner"])
def test_what_was_replaced_is_not_merged(bench: Bench, is_cleaned: bool) -> None:
    """Keeps 3 of services/compaction/run/targets. The plan is completed without the file group, whether its files are
    there or Hudi's cleaner has taken them; no file comes or goes, and nothing is pending any more."""
    replace_group(bench.base)
    if is_cleaned:
        for file in (bench.base / "p").glob("*ebf517f7*"):
            file.unlink()
    before = {path for path in everything(bench.base) if path.startswith("p/")}

    (plan,) = bench.compactor(NOTHING).compact().plans

    check_ended(bench.base, plan)
    assert {path for path in everything(bench.base) if path.startswith("p/")} == before
    assert read_rows(bench.base) == []
    assert bench.compactor(NOTHING).compact().plans == ()


def test_what_is_replaced_while_it_is_merged_is_thrown_away(bench: Bench) -> None:
    """The merged base file is not published, and goes with the attempt."""
    working = bench.run

    def overtaken(spec: OperationSpec, task_attempt: int) -> OperationResult:
        replace_group(bench.base)
        return working(spec, task_attempt)

    bench.run = overtaken  # type: ignore[assignment]
    before = {path for path in everything(bench.base) if path.startswith("p/")}

    (plan,) = bench.compactor(NOTHING, writers_stopped=False).compact().plans

    check_ended(bench.base, plan)
    assert {path for path in everything(bench.base) if path.startswith("p/")} == before
    assert not list((bench.base / ".hoodie/.temp").glob("*/*"))
    assert pending_states(bench.base) and bench.compactor(NOTHING).compact().plans == ()


def test_a_plan_that_splits_a_write_is_not_carried_out() -> None:
    """Keeps 1 of services/compaction/run/targets: its output would hide the log of the write that it leaves out."""
    group = file_group("p", "g", base=(minute(1), 1), logs=[(minute(number), 1) for number in (20, 21, 22)])
    (slice_,) = group.slices
    second = replace(slice_.log_files[0], name=LogFileName("g", minute(20), 2, TOKEN))
    slice_ = replace(slice_, log_files=(slice_.log_files[0], second, *slice_.log_files[1:]))
    snapshot = snapshot_of([replace(group, slices=(slice_,))], [])

    def dropped(*logs: LogFile) -> list[str]:
        names = tuple(log.file_name for log in logs)
        operation = CompactionOperation("p", "g", slice_.base_instant, None, names, {})
        targets = find_targets(snapshot, minute(30), CompactionPlan((operation,)), ServiceAction.LOG_COMPACTION)
        return [each.why for each in targets.dropped]

    assert dropped(*slice_.log_files[1:]) == dropped(*slice_.log_files[:1]) == ["a write has logs outside of it, too"]
    assert dropped(*slice_.log_files) == dropped(*slice_.log_files[2:]) == dropped(*slice_.log_files[:3]) == []
    assert dropped(*slice_.log_files[:2]) == ["its logs were merged meanwhile, or some of them are gone"]


def test_what_a_reader_may_rank_behind_older_writes_is_not_published_beside_them() -> None:
    """Keeps 1 of services/compaction/run/targets: by commit time on version 10 a write that began before the plan, and
    is pending or completed meanwhile, would lose to the output. By event time, and on version 9, it does not."""
    logs = [(minute(number), 1) for number in (20, 21, 25)]
    group = file_group("p", "g", base=(minute(1), 1), logs=logs)
    (slice_,) = group.slices

    def dropped(instant: str, *more: Instant, version: str = "10", mode: str = COMMIT_TIME_ORDERING) -> bool:
        properties = {"hoodie.table.version": version, "hoodie.record.merge.mode": mode}
        snapshot = snapshot_of([group], more, properties=properties)
        names = tuple(log.file_name for log in slice_.log_files[:2])
        plan = CompactionPlan((CompactionOperation("p", "g", slice_.base_instant, None, names, {}),))
        found = find_targets(snapshot, instant, plan, ServiceAction.LOG_COMPACTION)
        return any("would lose to its output" in each.why for each in found.dropped)

    assert dropped(minute(30)) and not dropped(minute(24)), "the log of minute 25 lies beside it"
    late = pending(minute(23), "deltacommit")
    assert dropped(minute(24), *late) and not dropped(minute(22), *late)
    assert not dropped(minute(30), *late, version="9")
    assert not dropped(minute(30), *late, mode=EVENT_TIME_ORDERING)
