"""What slices of an upgraded table may hold: inline logs, native ones, both; and the way back from each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.cli.main import run
from lakeward.format.file_name import CDC_SUFFIX, is_native_log
from lakeward.format.timeline.clean_plan import CleanPlan, Retained
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.together.versions.plan.change_step import StepKind
from lakeward.services.together.versions.plan.native_files import changes_plan_of
from lakeward.services.together.versions.run.version_step import change_version
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import CDC_ENABLED
from tests.clocks import SkippingClock
from tests.crash.compacting import FULL, LOG, everything
from tests.crash.compacting import compact as compact_table
from tests.faults import FaultyStorage
from tests.metadata_golden import set_property
from tests.our_reader import read_rows, scan
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.clean.run.cleaning import completed_cleans
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import BUCKETS, new_table, values, write


class Upgraded:
    """A table with a model of its rows as of each commit."""

    def __init__(self, base: Path, *, metadata: bool = True, **born: object) -> None:
        self.base = new_table(base, has_metadata_table=metadata, **born)
        self.model: dict[str, str] = {}
        self.history: dict[str, dict[str, str]] = {}
        self.time = 0
        self.clock = SkippingClock()

    def upsert(self, **rows: str) -> None:
        self.time += 1
        write(
            self.base,
            [(key, self.time, f"p{key[-1]}", value) for key, value in rows.items()],
            clock=self.clock,
            **BUCKETS,
        )
        self._learn(self.model | rows)

    def delete(self, *keys: str) -> None:
        self.time += 1
        write(self.base, [(key, self.time, f"p{key[-1]}", None) for key in keys], "delete", clock=self.clock, **BUCKETS)
        self._learn({key: value for key, value in self.model.items() if key not in keys})

    def _learn(self, model: dict[str, str]) -> None:
        self.model = model
        self.history[scan(self.base).timeline.completed_writes[-1].time] = model

    def compact(self, planner: Planner = FULL) -> None:
        assert compact_table(self.base, FaultyStorage(), ScriptedProcesses(), planner, clock=self.clock).plans

    def native(self) -> list[str]:
        return sorted(path.name for path in self.base.rglob("*") if is_native_log(path.name))


def change(
    changed: Upgraded,
    target: int,
    storage: FaultyStorage | None = None,
    processes: ScriptedProcesses | None = None,
    *,
    drop_changes: bool = False,
) -> list[StepKind]:
    storage, processes, base = storage or FaultyStorage(), processes or ScriptedProcesses(), changed.base
    processes.stillness = LookedOn()

    def compact(file_ids: Sequence[str]) -> None:
        planner = planner_of(CompactionType.FULL, GroupFilter(file_groups=tuple(file_ids)), {})
        compact_table(base, storage, processes, planner, clock=changed.clock, inline_changes=True)

    table = replace(serviced_table(str(base), storage, processes), clock=changed.clock)
    done = change_version(table, target, compact, is_upgrade=target == 10, drop_changes=drop_changes)
    return [step.kind for step in done.steps]


def upgrade(table: Upgraded) -> None:
    change(table, 10)


def no_write_after(table: Upgraded) -> None:
    table.upsert(a1="a", b2="a")
    table.upsert(a1="b")
    upgrade(table)


def native_on_inline(table: Upgraded) -> None:
    no_write_after(table)
    table.upsert(a1="c", c1="a")
    table.delete("b2")


def newest_native(table: Upgraded) -> None:
    table.upsert(a1="a", b2="a")
    table.upsert(a1="b")
    table.compact()
    table.upsert(b2="b")
    upgrade(table)
    table.upsert(a1="c")
    table.delete("b2")


def new_groups(table: Upgraded) -> None:
    table.upsert(a1="a")
    upgrade(table)
    table.upsert(a3="a", b4="a")
    table.upsert(a3="b")


def both_merged(table: Upgraded) -> None:
    native_on_inline(table)
    table.upsert(a1="d")
    table.compact(LOG)
    assert values(read_rows(table.base)) == table.model
    table.compact()
    table.upsert(a1="e")


CASES: dict[str, Callable[[Upgraded], None]] = {
    "inline-and-no-write-after": no_write_after,
    "native-on-inline": native_on_inline,
    "newest-native": newest_native,
    "new-groups": new_groups,
    "log-and-full-over-both": both_merged,
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_case_and_its_way_back(case: str, tmp_path: Path) -> None:
    """After the upgrade each commit reads as it was written; after the way down no native file is left anywhere, the
    rows are the same, and those as of what is left, too. Keeps 3 of services/together/versions/run/version_step."""
    table = Upgraded(tmp_path / "t", metadata=case == "native-on-inline")
    CASES[case](table)
    for time, model in table.history.items():
        assert values(read_rows(table.base, as_of=time)) == model, time
    assert values(read_rows(table.base)) == table.model
    has_native = bool(table.native())

    steps = change(table, 9)
    assert (StepKind.CLEAN in steps) == has_native == (case != "inline-and-no-write-after")
    assert not table.native()
    assert scan(table.base).config.version.number == 9
    assert values(read_rows(table.base)) == table.model
    newest = scan(table.base).timeline.completed_writes[-1].time
    assert values(read_rows(table.base, as_of=newest)) == table.model
    table.upsert(a1="z", z1="new")
    assert values(read_rows(table.base)) == table.model and not table.native()


def test_version_10_goes_on_without_its_metadata_table(tmp_path: Path) -> None:
    """No Hudi writer builds one again there: removed by our command, it is gone, and the table is written to, compacted
    and read by listing."""
    table = Upgraded(tmp_path / "t")
    table.clock.slept = -600.0
    native_on_inline(table)
    assert run(["metadata", "disable", str(table.base), "--writers", "stopped"]) == 0
    assert not (table.base / ".hoodie/metadata").exists()
    table.upsert(a1="without")
    table.compact()
    assert values(read_rows(table.base)) == table.model


def test_sorted_files_are_files(tmp_path: Path) -> None:
    """A table of the layout lsm_tree loses it on the way down, with all that version 9 does not know."""
    table = Upgraded(tmp_path / "t", metadata=False, version=10, is_lsm_tree=True)
    table.upsert(b1="a", a1="a")
    table.upsert(a1="b")
    table.delete("b1")
    assert change(table, 9)[-1] is StepKind.PROPERTIES
    properties = scan(table.base).config.properties
    assert not {"hoodie.table.storage.layout", "hoodie.meta.fields.mode"} & properties.keys()
    table.upsert(c1="inline")
    assert values(read_rows(table.base)) == table.model and not table.native()


def captured(table: Upgraded) -> None:
    """Native logs of changes in the newest slices of both file groups, on one of them a native log of rows."""
    native_on_inline(table)
    table.upsert(b2="again")
    set_property(table.base, CDC_ENABLED, "true")
    table.compact()
    table.upsert(a1="d")


def test_changes_are_given_up_by_word_alone(tmp_path: Path) -> None:
    """Keeps 3 of services/together/versions/plan/native_files: a log of changes goes with its slice, and where that
    stays only if the operator says so. What the way down compacts itself is written into an inline log."""
    table = Upgraded(tmp_path / "t", metadata=False)
    captured(table)
    names = [name for name in table.native() if ".cdc." in name]
    before = everything(table.base)
    with pytest.raises(Refused, match="--drop-changes") as refused:
        change(table, 9)
    stays = [name for name in names if name in str(refused.value.why)]
    assert 0 < len(stays) < len(names), "one goes with its slice"
    assert everything(table.base) == before
    plan = changes_plan_of(scan(table.base), "20260101000000000")
    assert plan is not None and plan.earliest_retained is not None
    assert plan.earliest_retained.time == "20260101000000000", "Hudi asks the last clean alone"
    assert sorted(name for of in plan.files.values() for name in of) == sorted(stays)

    steps = change(table, 9, drop_changes=True)
    assert steps == [StepKind.COMPACTION, StepKind.CHANGES, StepKind.CLEAN, StepKind.PROPERTIES]
    assert not table.native() and len(list(table.base.rglob(f".*{CDC_SUFFIX}"))) == 1
    assert values(read_rows(table.base)) == table.model


def all_but_the_newest(snapshot: TableSnapshot) -> CleanPlan:
    """The clean of older slices, as of the newest commit."""
    newest = snapshot.timeline.completed_writes[-1]
    older = [slice_ for group in snapshot.file_groups for slice_ in group.slices[1:]]
    files = {slice_.partition_path: tuple(file.file_name for file in slice_.files) for slice_ in older}
    return CleanPlan(Retained(newest.time, newest.comparable_action, "COMPLETED"), newest.time, files)


def test_a_clean_of_changes_says_no_less_than_the_one_before(tmp_path: Path) -> None:
    """Hudi asks the last clean alone as of when the table can be read, so one that cleans no slice names that again."""
    table = Upgraded(tmp_path / "t", metadata=False)
    upgrade(table)
    set_property(table.base, CDC_ENABLED, "true")
    table.upsert(a1="a")
    table.upsert(a1="b")
    table.compact()
    serviced = replace(serviced_table(str(table.base), FaultyStorage(), ScriptedProcesses()), clock=table.clock)
    Cleaner(serviced, {}).clean(all_but_the_newest)
    assert [name for name in table.native() if ".cdc." not in name] == []

    assert change(table, 9, drop_changes=True) == [StepKind.CHANGES, StepKind.PROPERTIES]
    before, after = completed_cleans(table.base).values()
    assert after.earliest_retained == before.earliest_retained != ""
