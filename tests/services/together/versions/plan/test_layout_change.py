"""What is left to do before a table gets another layout, on snapshots of a golden table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.services.together.versions.plan.change_step import StepKind
from lakeward.services.together.versions.plan.layout_change import (
    LayoutChange,
    StorageLayout,
    files_to_check,
    find_unknown,
    groups_to_merge,
    plan_layout_change,
    slices_to_sort,
)
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup
from lakeward.table.file_order import FileOrder
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import LSM_TREE_SINCE, STORAGE_LAYOUT, TableConfig
from tests.golden_tables import copy_golden
from tests.our_reader import scan
from tests.version_10 import set_version

FAILED = "1"
SORTED, UNSORTED = FileOrder(is_sorted=True), FileOrder(is_sorted=False)
LSM = {STORAGE_LAYOUT: "lsm_tree"}


@pytest.fixture
def snapshot(tmp_path: Path) -> TableSnapshot:
    """One file group, a base file and logs."""
    base = copy_golden("v9", tmp_path / "table")
    set_version(base, 10)
    return scan(base)


def with_properties(snapshot: TableSnapshot, **more: str) -> TableSnapshot:
    config = TableConfig({**snapshot.config.properties, **more})
    return replace(snapshot, loaded_config=replace(snapshot.loaded_config, config=config))


def group(name: str, *, size: int = 7) -> FileGroup:
    """It has a base file alone."""
    base = BaseFile(name, "1", f"{name}_0-0-0_1.parquet", "p", size, "0-0-0")
    return FileGroup("p", name, (FileSlice("p", name, "1", base, ()),))


def merged(snapshot: TableSnapshot, *groups: FileGroup) -> TableSnapshot:
    """The table with these file groups and no others."""
    return replace(snapshot, file_groups=groups)


def plan(
    snapshot: TableSnapshot,
    target: StorageLayout = StorageLayout.LSM_TREE,
    failed: tuple[str, ...] = (),
    **is_sorted: bool,
) -> LayoutChange:
    known = {file: FileOrder(is_sorted[file.file_id]) for file in files_to_check(snapshot) if file.file_id in is_sorted}
    return plan_layout_change(snapshot, target, failed, known)


def test_logs_are_merged_before_anything_is_sorted(snapshot: TableSnapshot) -> None:
    """Keeps 1 of services/together/versions/plan/layout_change: while a slice that readers merge has a log, compaction
    comes before the property; its base file is not read for that."""
    both = merged(snapshot, *snapshot.file_groups, group("a"), group("b", size=9))
    change = plan(both, failed=(FAILED,), a=False, b=True)
    assert [step.kind for step in change.steps] == [
        StepKind.ROLLBACK,
        StepKind.COMPACTION,
        StepKind.SORTING,
        StepKind.VERIFICATION,
        StepKind.PROPERTIES,
    ]
    rollback, compaction, sorting, verification, properties = change.steps
    (of_logs,) = snapshot.file_groups
    assert rollback.subjects == ("1",)
    assert compaction.subjects == (f"p/{of_logs.file_id}",)
    assert compaction.bytes == sum(each.bytes for each in of_logs.read_slices)
    assert (sorting.subjects, sorting.bytes) == (("p/a_0-0-0_1.parquet",), 7)
    assert len(verification.subjects) == 3
    assert dict(properties.changes) == {**LSM, LSM_TREE_SINCE: snapshot.timeline.latest_time}
    assert groups_to_merge(both) == (of_logs.file_id,)
    assert [file.file_id for file in files_to_check(both)] == ["a", "b"]
    assert [each.file_id for each in slices_to_sort(both, dict.fromkeys(files_to_check(both), UNSORTED))] == ["a", "b"]


def test_a_plan_over_a_base_file_alone(snapshot: TableSnapshot) -> None:
    """Keeps 1 of services/together/versions/plan/layout_change: what is pending is carried out first, by whichever
    plan, also where a group is not the table's any more."""
    for name in ("pending_compactions", "pending_log_compactions"):
        of_plan = replace(merged(snapshot, group("a")), **{name: {("p", "a"): "5"}})
        assert plan(of_plan, a=True).steps[0].kind is StepKind.COMPACTION
        assert files_to_check(of_plan) == ()


def test_what_is_not_known_to_be_sorted(snapshot: TableSnapshot) -> None:
    """Keeps 2 of services/together/versions/plan/layout_change: a file that was not read is reported, and so is another
    one by the same name."""
    table = merged(snapshot, group("a"), group("b"))
    a, b = files_to_check(table)
    assert find_unknown(table, {a: SORTED}) == (b,)
    assert find_unknown(table, {a: SORTED, replace(b, size=8): SORTED}) == (b,)
    assert find_unknown(table, {a: SORTED, b: UNSORTED}) == ()
    assert [step.kind for step in plan(table, a=True, b=True).steps] == [StepKind.VERIFICATION, StepKind.PROPERTIES]


def test_the_way_back_reads_nothing(snapshot: TableSnapshot) -> None:
    """Logs are merged by the layout that they were written in; the property says `default` then."""
    table = with_properties(snapshot, **LSM)
    change = plan(table, StorageLayout.DEFAULT)
    assert [step.kind for step in change.steps] == [StepKind.COMPACTION, StepKind.PROPERTIES]
    assert dict(change.steps[-1].changes) == {STORAGE_LAYOUT: "default"}
    (step,) = plan(merged(table, group("a")), StorageLayout.DEFAULT).steps
    assert step.kind is StepKind.PROPERTIES
    assert plan(table).steps == plan(snapshot, StorageLayout.DEFAULT).steps == ()


def test_what_only_the_operator_can_clear_away(snapshot: TableSnapshot) -> None:
    """Keeps 3 of services/together/versions/plan/layout_change; a clustering that is rolled back with the failed writes
    is none."""
    frozen = FrozenGroup("p", "f", "3", "its base file is missing")
    with pytest.raises(Refused, match=r"of 1 file groups .* p/f: its base file is missing"):
        plan(replace(snapshot, frozen=(frozen,)))
    clustered = replace(merged(snapshot, group("a")), pending_clusterings={("p", "a"): "1"})
    with pytest.raises(Refused, match="p/a: clustering 1 is pending on it"):
        plan(clustered, a=True)
    assert plan(clustered, failed=(FAILED,), a=True).steps[0].kind is StepKind.ROLLBACK
    table = merged(snapshot, *snapshot.file_groups, group("a"), group("b"))
    a, b = files_to_check(table)
    orders = {a: SORTED, b: FileOrder(is_sorted=False, repeated="k")}
    with pytest.raises(Refused, match=r"in 1 base files .* p/b_0-0-0_1\.parquet: 'k'\."):
        plan_layout_change(table, StorageLayout.LSM_TREE, (), orders)
    with pytest.raises(Refused, match="it has version 9"):
        plan(with_properties(snapshot, **{"hoodie.table.version": "9"}))
