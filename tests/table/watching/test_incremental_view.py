"""A view that is kept up to date equals a scan of everything, after every step; and costs what changed."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from lakeward.base.errors import NotATable
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.watching.incremental_view import (
    CALM_LISTING_SECONDS,
    CALM_SECONDS,
    PROPERTIES_SECONDS,
    REBUILD_SECONDS,
    Change,
    IncrementalView,
)
from tests.clocks import SkippingClock
from tests.faults import Fault, FaultKind, FaultyStorage
from tests.golden_tables import copy_golden
from tests.runs import spread
from tests.table.table_history import TableHistory

T = TypeVar("T")

SEED = int(os.environ.get("LAKEWARD_SEED", "0"))
HISTORIES = 40
STEPS = 60


def scanned(base: Path) -> TableSnapshot:
    return take_snapshot(LocalStorage(), str(base), clock=SkippingClock())


def assert_equal(seen: TableSnapshot, expected: TableSnapshot, because: str) -> None:
    """All but the files of instants that have not completed, and partitions that hold only such files: a view knows
    them as of the last listing."""
    seen_by_all = {group.partition_path for groups in (expected.file_groups, expected.frozen) for group in groups}
    hidden = {posixpath.dirname(path) for path in expected.uncommitted_files} - seen_by_all
    without = [
        replace(each, uncommitted_files=(), partitions=tuple(path for path in each.partitions if path not in hidden))
        for each in (seen, expected)
    ]
    assert without[0] == without[1], because


@pytest.mark.parametrize(
    "seed",
    [
        *spread(range(SEED, SEED + HISTORIES, 2)),
        *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(SEED + 1, SEED + HISTORIES, 2)),
    ],
)
def test_a_view_equals_a_scan_of_everything(tmp_path: Path, seed: int) -> None:
    """It does after every step of a random history, whether the view polled after each step or only now and then.

    One table in five has version 10, and native logs beside inline ones.
    """
    history = TableHistory(tmp_path / "t", seed, native=seed % 10 in (4, 5))
    history.write()
    clock = SkippingClock()
    views = [IncrementalView(LocalStorage(), str(history.base), clock=clock) for _ in range(2)]
    rebuilt = 0
    for _ in range(STEPS):
        history.step()
        clock.slept += 61  # so that a changed property is noticed
        expected = scanned(history.base)
        for number, view in enumerate(views):
            if number == 1 and history.chance.random() < 0.7:
                continue
            change = view.refresh()
            rebuilt += change.rebuilt
            assert_equal(view.snapshot(), expected, f"seed {seed}: {' > '.join(history.log)}")
    assert rebuilt < STEPS


def test_links_appear_and_go(tmp_path: Path) -> None:
    """A view says of links what a scan of everything says: those in a partition when it is listed, others with the next
    scan of everything. A partition that became a link is no partition any more."""
    history = TableHistory(tmp_path / "t", seed=1)
    for _ in range(5):
        history.write()
    clock = SkippingClock()
    view = IncrementalView(LocalStorage(str(history.base)), str(history.base), clock=clock)
    view.refresh()
    partition = view.snapshot().partitions[0]
    (history.base / "elsewhere").symlink_to(partition)
    (history.base / partition / "x_0-0-0_20260101000000000.parquet").symlink_to("/etc/passwd")
    clock.slept += REBUILD_SECONDS
    assert view.refresh().changed
    assert len(view.snapshot().links) == 2
    assert_equal(view.snapshot(), scanned(history.base), "with two links")

    (history.base / partition).rename(tmp_path / "moved")
    (history.base / partition).symlink_to(tmp_path / "moved")
    clock.slept += REBUILD_SECONDS
    assert view.refresh().changed
    assert [link.path for link in view.snapshot().links] == sorted([partition, "elsewhere"])
    assert_equal(view.snapshot(), scanned(history.base), "with a partition that is a link")

    shutil.copytree(os.fsencode(tmp_path / "moved"), os.fsencode(history.base) + b"/\xff")
    clock.slept += REBUILD_SECONDS
    assert view.refresh().changed
    assert {group.partition_path for group in view.snapshot().frozen} == {"\\xff"}
    assert_equal(view.snapshot(), scanned(history.base), "with a partition that has no printable name")


class Watched:
    """A table with a few writes behind it, and a view of it whose storage calls are counted."""

    def __init__(self, path: Path, fault: Fault | None = None) -> None:
        self.history = TableHistory(path / "t", seed=1)
        for _ in range(5):
            self.history.write()
        self.storage = FaultyStorage(fault)
        self.clock = SkippingClock()
        self.view = IncrementalView(self.storage, str(self.history.base), clock=self.clock)

    def calls(self) -> list[str]:
        """Calls since the last question, with paths below the table."""
        calls, self.storage.calls = self.storage.calls, []
        return [call.replace(str(self.history.base), "T") for call in calls]

    def commit(self, *files: tuple[str, int], operation: str = "UPSERT", **changes: object) -> str:
        """One that says of itself what a test wants; the files are there."""
        history = self.history
        instant = history._now()
        stats: dict[str, list[WriteStat]] = {}
        for name, size in files:
            partition, _, name = name.rpartition("/")
            path = f"{partition}/{name.replace('T', instant)}"
            history._put(path, size)
            fields = {"path": path, "file_size_in_bytes": size, "partition_path": partition} | changes
            stats.setdefault(partition, []).append(WriteStat(**fields))  # type: ignore[arg-type]
        metadata = CommitMetadata({p: tuple(each) for p, each in stats.items()}, operation_type=operation)
        file = history.timeline / f"{instant}_{history._now()}.deltacommit"
        file.write_bytes(write_commit_metadata(metadata))
        return file.name


def test_an_unchanged_table_costs_one_listing(tmp_path: Path) -> None:
    """The poll lists its timeline, and calls nothing else but for that folder's own time."""
    watched = Watched(tmp_path)
    assert watched.view.refresh().rebuilt
    watched.calls()

    assert watched.view.refresh() == Change(changed=False)
    assert watched.calls() == ["stat T/.hoodie/timeline", "list T/.hoodie/timeline"]


def test_a_table_that_has_been_calm_for_long_costs_no_listing(tmp_path: Path) -> None:
    """Its timeline's folder says by its own time that nothing came; what comes is seen at once."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.clock.sleep(PROPERTIES_SECONDS)
    watched.view.refresh()
    watched.calls()

    for _ in range(5):
        watched.clock.sleep(10)
        assert watched.view.refresh() == Change(changed=False)
    assert watched.calls() == ["stat T/.hoodie/timeline"] * 5
    watched.commit(("a/f1-0_1-0-0_T.parquet", 100))
    assert watched.view.refresh().changed
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "after the commit")
    watched.clock.sleep(10)
    watched.calls()
    assert watched.view.refresh() == Change(changed=False)
    assert watched.calls() == ["stat T/.hoodie/timeline", "list T/.hoodie/timeline"], "calm has to be proved again"


def test_a_commit_of_one_group_costs_one_update(tmp_path: Path) -> None:
    """It costs two listings beside the data and the commit itself; no partition is listed, and the new log is in its
    slice."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    group = watched.view.snapshot().file_groups[0]
    watched.calls()

    name = watched.commit((f"{group.partition_path}/.{group.file_id}_T.log.1_1-0-0", 77))
    change = watched.view.refresh()

    assert (change.changed, change.rebuilt, change.partitions_listed) == (True, False, 0)
    assert [instant.file_name for instant in change.instants] == [name]
    listed = ["stat T/.hoodie/timeline", "list T/.hoodie/timeline", "list T/.hoodie"]
    assert watched.calls() == [*listed, f"read T/.hoodie/timeline/{name}"]
    assert watched.view.snapshot().file_groups[0].slices[0].log_files[-1].size == 77
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "after the commit")


def test_a_second_snapshot_reads_nothing_again(tmp_path: Path) -> None:
    """Plans, commits and footers are opened once; a commit of one group opens what is new about it."""
    watched = Watched(tmp_path)
    history = watched.history
    while not history.pending or history.pending[0].plan is None:
        history.write()
        history.plan("compaction")
    watched.view.refresh()
    watched.view.snapshot()
    watched.calls()

    watched.view.snapshot()
    assert watched.calls() == []

    group = watched.view.snapshot().file_groups[0]
    watched.commit((f"{group.partition_path}/.{group.file_id}_T.log.1_1-0-0", 77))
    watched.view.refresh()
    watched.calls()
    watched.view.snapshot()
    assert len(watched.calls()) <= 2, "the newest commit has no schema, so the one before is asked; and one footer"


def test_at_rest_plans_are_read_again(tmp_path: Path) -> None:
    """What is large and on disk is dropped when a table is quiet, and the next snapshot is the same."""
    watched = Watched(tmp_path)
    while not watched.history.pending:
        watched.history.write()
        watched.history.plan("compaction")
    watched.view.refresh()
    before = watched.view.snapshot()
    watched.calls()

    watched.view.rest()

    assert watched.view.snapshot() == before
    assert [call for call in watched.calls() if call.endswith(".compaction.requested")]


DOUBTS: dict[str, dict[str, object]] = {
    "no size": {"file_size_in_bytes": None},
    "an empty file": {"file_size_in_bytes": 0},
    "no path": {"path": None},
    "a path of another partition": {"path": "elsewhere/.g-0_1.log.1_1-0-0"},
    "the name of another instant": {"path": "p=1/.g-0_20250101000000000.log.1_1-0-0"},
    "change data": {"cdc_stats": {"p=1/x": 1}},
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_doubtful_write_stat_lists_its_partition(tmp_path: Path, doubt: str) -> None:
    """What the metadata does not say for certain is looked up where it says that something happened."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.commit(("p=1/.g-0_T.log.1_1-0-0", 30), **DOUBTS[doubt])

    change = watched.view.refresh()

    assert (change.rebuilt, change.partitions_listed) == (False, 1)
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), doubt)


def test_a_new_partition_is_listed_once(tmp_path: Path) -> None:
    """That it is one, and what is in it besides, only its folder says."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    name = "new=1/h-0_1-0-0_T.parquet"
    watched.commit((name, 30))
    assert watched.view.refresh().partitions_listed == 1
    watched.commit((name, 30))
    assert watched.view.refresh().partitions_listed == 0
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "two base files")


def test_an_unknown_operation_is_scanned_again(tmp_path: Path) -> None:
    """What it does to files is unknown."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.commit(operation="BOOTSTRAP")
    assert watched.view.refresh().rebuilt


def test_an_instant_that_came_and_went_between_two_polls(tmp_path: Path) -> None:
    """A timeline that starts later than all that we know may have archived commits that were missed."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.commit(("p=1/.g-0_T.log.1_1-0-0", 30))
    for file in list(watched.history.timeline.glob("*.*")):
        file.unlink()
    watched.commit(("p=1/.g-0_T.log.1_1-0-0", 30))

    assert watched.view.refresh().rebuilt
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "all but the last is archived")


@pytest.mark.parametrize("size", [None, 0, 7], ids=["missing", "empty", "cut"])
def test_damage_ends_when_its_commit_is_archived(tmp_path: Path, size: int | None) -> None:
    """A scan holds files against active commits only, so a table is not damaged for ever in the eyes of a view. Keeps 3
    of table/written_files."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    commit = watched.commit(("p=1/h-0_1-0-0_T.parquet", 30))
    file = watched.history.base / f"p=1/h-0_1-0-0_{commit.partition('_')[0]}.parquet"
    for _ in range(2):
        watched.commit(("p=1/g-0_1-0-0_T.parquet", 30))
    watched.view.refresh()
    file.unlink() if size is None else file.write_bytes(b"x" * size)
    watched.view.doubt()
    watched.view.refresh()
    assert watched.view.snapshot().damage
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "damaged")

    for archived in watched.history.timeline.iterdir():
        if archived.name[:17] <= commit[:17]:
            archived.unlink()

    assert not watched.view.refresh().rebuilt
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "archived")


def test_a_changed_property_without_an_instant_is_noticed_within_a_minute(tmp_path: Path) -> None:
    """Properties are read when the timeline changed, and now and then without."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.history.set_properties()
    assert not watched.view.refresh().changed

    watched.clock.slept += PROPERTIES_SECONDS

    assert watched.view.refresh().changed
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "the properties changed")


def test_a_calm_table_costs_a_listing_of_its_properties_each_minute_and_one_of_its_timeline_each_ten(
    tmp_path: Path,
) -> None:
    """An hour passes, with a poll every ten seconds. A timeline file that grew in place is noticed by that listing."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.clock.sleep(CALM_SECONDS)
    watched.view.refresh()
    watched.calls()

    for _ in range(360):
        watched.clock.sleep(10)
        assert watched.view.refresh() == Change(changed=False)
    calls = Counter(watched.calls())
    assert calls["list T/.hoodie"] in (59, 60)
    assert calls["list T/.hoodie/timeline"] in (5, 6)

    completed = max(path for path in watched.history.timeline.iterdir() if path.suffix == ".deltacommit")
    completed.write_bytes(completed.read_bytes() + b"x")
    assert not watched.view.refresh().changed
    watched.clock.sleep(CALM_LISTING_SECONDS)
    assert watched.view.refresh().changed


def test_everything_is_scanned_again_now_and_then(tmp_path: Path) -> None:
    """A file that a writer deleted without a word does not stay for ever."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    before = watched.view.snapshot()
    (watched.history.base / before.file_groups[0].slices[0].base_file.path).unlink()  # type: ignore[union-attr]
    assert watched.view.refresh() == Change(changed=False)

    watched.clock.slept += REBUILD_SECONDS

    change = watched.view.refresh()
    assert (change.changed, change.rebuilt, change.instants) == (True, True, ())
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "a file is gone")


def test_a_rebuild_that_finds_nothing_new_is_no_change(tmp_path: Path) -> None:
    """Every table would be planned every few hours for no reason otherwise."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.clock.slept += REBUILD_SECONDS
    change = watched.view.refresh()
    assert (change.changed, change.rebuilt) == (False, True)


def test_a_table_that_is_gone_says_so(tmp_path: Path) -> None:
    """The view is there again when the table is."""
    watched = Watched(tmp_path)
    watched.view.refresh()
    watched.history.base.rename(tmp_path / "away")
    with pytest.raises(NotATable):
        watched.view.refresh()
    (tmp_path / "away").rename(watched.history.base)
    watched.view.refresh()
    assert_equal(watched.view.snapshot(), scanned(watched.history.base), "it came back")


@pytest.mark.parametrize("call", spread(range(30)))
def test_a_storage_error_leaves_no_half_of_a_change(tmp_path: Path, call: int) -> None:
    """Whichever call fails, the next poll sees the table as it is."""
    watched = Watched(tmp_path, Fault(FaultKind.BEFORE, call))
    for step in ("write", "new partition", "replace", "clean", "roll back"):
        if step == "new partition":
            watched.commit((f"new={call}/h-0_1-0-0_T.parquet", 30))
        else:
            watched.history.steps[step][1]()
        again(watched.view.refresh)
        assert_equal(again(watched.view.snapshot), scanned(watched.history.base), step)


def again(act: Callable[[], T]) -> T:
    """What `act` returns, the second time where the first one failed."""
    try:
        return act()
    except OSError:
        return act()


@pytest.mark.parametrize("version", ["v6", "v9"])
def test_a_table_that_hudi_wrote_step_by_step(tmp_path: Path, version: str) -> None:
    """The golden tables, file after file as their writer made them; layout 1 is listed where it was written to."""
    table = copy_golden(version, tmp_path / "table", pending=True)
    timeline = table / ".hoodie" / ("" if version == "v6" else "timeline")
    away = tmp_path / "away"
    away.mkdir()
    times = {file: file.stat() for file in timeline.iterdir() if file.is_file() and file.name[0].isdigit()}
    for file in times:
        file.rename(away / file.name)
    view = IncrementalView(LocalStorage(), str(table), timezone="UTC", clock=SkippingClock())
    view.refresh()

    def completion(file: Path) -> tuple[int, str]:
        return int(file.name.split("_")[-1].split(".")[0]), file.name

    for file in sorted(times, key=completion):
        (away / file.name).rename(file)
        change = view.refresh()
        assert change.changed
        expected = take_snapshot(LocalStorage(), str(table), timezone="UTC", clock=SkippingClock())
        assert view.snapshot() == expected, file.name
