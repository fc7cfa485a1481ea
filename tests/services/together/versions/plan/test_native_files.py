"""What happens to native logs before a table gets version 9: on snapshots of a golden table and of random lives."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.file_name import is_native_log
from lakeward.services.together.versions.plan.native_files import clean_plan_of, find_native_files
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.runs import runs
from tests.table.table_history import TableHistory
from tests.version_10 import set_version, with_native_logs

NONE_PENDING: Mapping[GroupId, str] = {}


def scan(base: Path) -> TableSnapshot:
    return take_snapshot(LocalStorage(), str(base), clock=SkippingClock())


def compacted(snapshot: TableSnapshot, chance: random.Random) -> TableSnapshot:
    """The table when each of its file groups has a new base file, of some commit since its newest slice began; without
    savepoints and anything pending."""
    groups = []
    for group in snapshot.file_groups:
        times = [each.time for each in snapshot.timeline.completed_writes if each.time >= group.slices[0].base_instant]
        at = chance.choice([*times, snapshot.timeline.latest_time or ""])
        base = BaseFile(group.file_id, at, f"{group.file_id}_0-7-7_{at}.parquet", group.partition_path, 9, "0-7-7")
        newest = FileSlice(group.partition_path, group.file_id, at, base, ())
        groups.append(FileGroup(group.partition_path, group.file_id, (newest, *group.slices)))
    return replace(
        snapshot,
        file_groups=tuple(groups),
        frozen=(),
        savepointed={},
        plans={},
        rollback_targets={},
        pending_compactions=NONE_PENDING,
        pending_log_compactions=NONE_PENDING,
        pending_clusterings=NONE_PENDING,
    )


def paths(*slices: FileSlice) -> set[str]:
    return {file.path for slice_ in slices for file in slice_.files}


@pytest.mark.parametrize("seed", range(runs(8)))
def test_each_native_file_has_a_fate(tmp_path: Path, seed: int) -> None:
    """Keeps 1 and 2 of services/together/versions/plan/native_files, over random lives of a table: once nothing is to
    be merged, each native file of a slice goes, and no file that is read as of E or later."""
    history = TableHistory(tmp_path / "t", seed, native=True)
    del history.steps["break"]
    for _ in range(40):
        history.step()
    before = scan(history.base)
    native = {path for files in before.files for path, _ in files.sizes if is_native_log(path.rpartition("/")[2])}
    snapshot = compacted(before, random.Random(seed))
    replaced = [group for group in snapshot.replaced_groups if isinstance(group, FileGroup)]
    assert find_native_files(before, ()).to_clean == (), "what readers merge comes first"
    here = {p for group in (*snapshot.file_groups, *replaced) for p in paths(*group.slices) if p in native}
    found = find_native_files(snapshot, ())
    if found.obstacles:
        assert {each.path for each in found.obstacles} <= native - here, "files that no commit brought"
        snapshot = replace(snapshot, files=())
        found = find_native_files(snapshot, ())
    dead = paths(*found.to_clean)
    assert here <= dead and not found.to_merge
    for group in (*snapshot.file_groups, *replaced):
        gone = snapshot.replaced.get((group.partition_path, group.file_id))
        if gone is None:
            assert dead.isdisjoint(paths(group.slices[0]))
        for write in snapshot.timeline.completed_writes:
            if write.time >= found.earliest and (gone is None or gone > write.time):
                seen = next((each for each in group.slices if each.base_instant <= write.time), None)
                assert seen is None or dead.isdisjoint(paths(seen)), history.log
    plan = clean_plan_of(snapshot)
    assert (plan is None) == (not dead)
    assert plan is None or sum(map(len, plan.files.values())) == len(dead)


def test_what_is_held_by_others_is_named(tmp_path: Path) -> None:
    """Keeps 1 and 2 of services/together/versions/plan/native_files: what a savepoint names, what is set aside, and
    what no commit brought; the operator sees each, and where to let go of it."""
    base = copy_golden("v9", tmp_path / "table")
    native = with_native_logs(base)[-1]
    set_version(base, 10)
    file_id, token, instant, _ = native.split("_")
    (base / "p" / f"{file_id}_{token}_20261121043709157_1.deletes.parquet").write_bytes(b"deletes")
    snapshot = scan(base)
    found = find_native_files(snapshot, [f"q/{native}", "q/.x_1.log.1_0-0-0"])
    assert {each.path.rpartition(".")[0].rpartition(".")[2]: each.why for each in found.obstacles} == {
        "deletes": "no completed commit brought it",
        "log": "it is set aside and could be brought back",
    }

    next((base / "p").glob("*.deletes.parquet")).unlink()
    saved = replace(compacted(scan(base), random.Random(1)), savepointed={instant: frozenset([f"p/{native}"])})
    (obstacle,) = find_native_files(saved, ()).obstacles
    assert (obstacle.path, obstacle.why) == (f"p/{native}", f"savepoint {instant}")
    assert clean_plan_of(saved) is None
