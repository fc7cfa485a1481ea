"""A decision for every file group, and its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.file_name import LogFileName
from lakeward.format.timeline.compaction_plan import METRICS
from lakeward.plan.decision import Choice, Decision, Reason
from lakeward.plan.full_compaction import plan_full_compaction
from lakeward.plan.selection import GroupFilter
from lakeward.table.backlog import GroupBacklog
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup, LogFile
from lakeward.table.snapshot import TableSnapshot
from tests.golden_tables import copy_golden
from tests.our_reader import scan

MIB = 1024 * 1024
BASE_INSTANT, LOG_INSTANT = "20261121043703223", "20261121043706178"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> TableSnapshot:
    """A snapshot of a real table, without its file groups."""
    snapshot = scan(copy_golden("v9", tmp_path_factory.mktemp("plan") / "table"))
    return replace(snapshot, file_groups=())


def group(partition: str, file_id: str, *, base: int | None = None, logs: tuple[int, ...] = ()) -> FileGroup:
    """A group of one slice; sizes in bytes."""
    base_file = None
    if base is not None:
        name = f"{file_id}_0-0-0_{BASE_INSTANT}.parquet"
        base_file = BaseFile(file_id, BASE_INSTANT, name, f"{partition}/{name}", base, "0-0-0")
    files = tuple(
        LogFile(LogFileName(file_id, LOG_INSTANT, version, "0-0-0", ""), f"{partition}/log{version}", size)
        for version, size in enumerate(logs, start=1)
    )
    base_instant = BASE_INSTANT if base_file else LOG_INSTANT
    return FileGroup(partition, file_id, (FileSlice(partition, file_id, base_instant, base_file, files),))


def decide(snapshot: TableSnapshot, *groups: FileGroup, **options: tuple[str, ...]) -> list[Decision]:
    return list(plan_full_compaction(replace(snapshot, file_groups=groups), GroupFilter(**options)).decisions)


def test_a_slice_with_logs_is_rewritten(empty: TableSnapshot) -> None:
    """It may have a base file or none; one without logs is not rewritten. The numbers stand beside the reason."""
    decisions = decide(
        empty, group("a", "1-0", base=9, logs=(1, 2)), group("a", "2-0", logs=(4,)), group("b", "3-0", base=5)
    )
    assert [(d.file_id, d.choice, d.reason) for d in decisions] == [
        ("1-0", Choice.FULL, Reason.HAS_LOGS),
        ("2-0", Choice.FULL, Reason.HAS_LOGS),
        ("3-0", Choice.NONE, Reason.NO_LOGS),
    ]
    assert decisions[2].numbers == GroupBacklog(5, 0, 0, 0, 0).numbers
    expected = {"base_bytes": 9, "log_files": 2, "log_bytes": 3, "read_bytes": 12, "write_bytes": 9}
    assert expected.items() <= decisions[0].numbers.items()


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("pending_compactions", Reason.PENDING_COMPACTION),
        ("pending_log_compactions", Reason.PENDING_LOG_COMPACTION),
        ("pending_clusterings", Reason.PENDING_CLUSTERING),
    ],
)
def test_a_group_with_pending_work_is_not_planned(empty: TableSnapshot, field: str, reason: Reason) -> None:
    """Keeps 1 of plan/full_compaction: whatever service it is pending in; the decision names the instant."""
    busy = replace(empty, **{field: {("a", "1-0"): "20261121050000000"}})
    decisions = decide(busy, group("a", "1-0", base=9, logs=(1,)), group("a", "2-0", base=9, logs=(1,)))
    assert [(d.file_id, d.reason, d.instant) for d in decisions] == [
        ("1-0", reason, "20261121050000000"),
        ("2-0", Reason.HAS_LOGS, None),
    ]


def test_a_frozen_group_is_reported(empty: TableSnapshot) -> None:
    """Keeps 2 of plan/full_compaction: it has no certain slices, so it is not among the groups, and still has its
    line."""
    frozen = replace(empty, frozen=(FrozenGroup("a", "9-0", "20261121050000000", "in neither timeline"),))
    (decision,) = decide(frozen)
    assert (decision.file_id, decision.reason, decision.instant) == ("9-0", Reason.FROZEN, "20261121050000000")


def test_a_nameless_partition_is_left_out(empty: TableSnapshot) -> None:
    """It has its line, but Hudi is not asked to come back to it: a frozen one is among the partitions left."""
    frozen = (
        FrozenGroup("b", "9-0", "20261121050000000", "in neither timeline"),
        FrozenGroup("\\xff", "9-0", "20261121050000000", "no UTF-8", is_nameable=False),
    )
    outcome = plan_full_compaction(replace(empty, frozen=frozen), GroupFilter())
    assert [(d.partition_path, d.reason) for d in outcome.decisions] == [
        ("\\xff", Reason.NAMELESS),
        ("b", Reason.FROZEN),
    ]
    assert outcome.partitions_left == ("b",)


def test_filters_select(empty: TableSnapshot) -> None:
    """Partition patterns and file ids select; the rest is excluded for that reason."""
    groups = [group(p, f, base=9, logs=(1,)) for p, f in (("x=1", "1-0"), ("x=2", "2-0"), ("y", "3-0"))]

    def chosen(**options: tuple[str, ...]) -> list[str]:
        return [d.file_id for d in decide(empty, *groups, **options) if d.choice is Choice.FULL]

    assert chosen() == ["1-0", "2-0", "3-0"]
    assert chosen(partitions=("x=*",)) == ["1-0", "2-0"]
    assert chosen(partitions=("y", "x=1")) == ["1-0", "3-0"]
    assert chosen(file_groups=("2-0",)) == ["2-0"]
    assert chosen(partitions=("y",), file_groups=("2-0",)) == []


def test_the_plan_lists_files_and_all_metrics(empty: TableSnapshot) -> None:
    """Keeps 3 of plan/decision: names, not paths; Hudi fails on a plan without one of its five
    metrics."""
    outcome = plan_full_compaction(
        replace(empty, file_groups=(group("a", "1-0", base=3 * MIB, logs=(MIB, MIB)),)), GroupFilter()
    )
    assert outcome.full_plan is not None
    (operation,) = outcome.full_plan.operations
    assert operation.base_file == f"1-0_0-0-0_{BASE_INSTANT}.parquet"
    assert operation.log_files == (f".1-0_{LOG_INSTANT}.log.1_0-0-0", f".1-0_{LOG_INSTANT}.log.2_0-0-0")
    assert operation.base_instant == BASE_INSTANT
    assert operation.metrics.keys() == set(METRICS)
    assert operation.metrics["TOTAL_IO_READ_MB"] == 5.0
    assert operation.metrics["TOTAL_LOG_FILES_SIZE"] == 2 * MIB
    assert outcome.input_bytes == 5 * MIB


def test_equal_snapshots_give_equal_plans(empty: TableSnapshot) -> None:
    """Whatever order the groups were found in."""
    groups = [group("b", "1-0", base=9, logs=(1,)), group("a", "2-0", base=9, logs=(1,))]
    assert decide(empty, *groups) == decide(empty, *reversed(groups))


def test_logs_of_pending_writes_are_not_planned(tmp_path: Path) -> None:
    """Keeps 3 of plan/full_compaction: the golden table has one group with a base file and three logs, and a writer is
    about to add a fourth."""
    table = copy_golden("v9", tmp_path / "table")
    newest = max((table / "p").glob(".*.log.*"))
    (table / ".hoodie" / "timeline" / "20261121050000000.deltacommit.inflight").touch()
    (table / "p" / newest.name.replace(newest.name.split("_")[1][:17], "20261121050000000")).write_bytes(b"x")
    outcome = plan_full_compaction(scan(table), GroupFilter())
    assert [len(operation.log_files) for operation in outcome.operations] == [3]
