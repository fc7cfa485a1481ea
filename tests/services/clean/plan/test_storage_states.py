"""Every data file of a table is in one state."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.services.clean.plan.storage_states import FileState, StateTotal, states_of_files, storage_states
from lakeward.storage.local import LocalStorage
from lakeward.table.backlog import backlog_of
from lakeward.table.quarantine import Manifest, Quarantine, QuarantinedFile, QuarantinedRun, QuarantineKind
from lakeward.table.snapshot import take_snapshot
from tests.clocks import SkippingClock
from tests.runs import runs
from tests.services.clean.plan.clean_cases import read_table
from tests.synthetic_table import minute
from tests.table.table_history import TableHistory

TABLE = """policy commits 2
done commit 10 20 30 40 50
done replacecommit 45
savepoint 10 b@10
group a 10 +11 20 30 40 50
group b 10 20
group r 10 40
replaced r by 45"""


def test_each_state() -> None:
    """A savepoint pins whole slices; what the policy keeps of a replaced group is retained; what a clean set aside is
    counted once, whether it was moved or not."""
    table = read_table(TABLE)
    found = {file.path: file.state for file in states_of_files(table.snapshot(), table.plan())}
    by_state = Counter(found.values())
    assert by_state == {FileState.LIVE: 2, FileState.PINNED: 1, FileState.RETAINED: 3, FileState.DEAD: 4}

    dead = next(path for path, state in found.items() if state is FileState.DEAD)
    files = (QuarantinedFile("p", dead.removeprefix("p/"), 10), QuarantinedFile("p", "gone.parquet", 7))
    kept = QuarantinedRun(minute(60), QuarantineKind.CLEAN, (Manifest(QuarantineKind.CLEAN, 0.0, 1.0, True, files),))
    aside = Quarantine((kept,))
    totals = storage_states(table.snapshot(), table.plan(), aside)
    assert totals[FileState.QUARANTINED] == StateTotal(2, 17)
    assert totals[FileState.DEAD].files == 3
    assert totals[FileState.ORPHAN] == StateTotal()


@pytest.mark.parametrize("seed", range(runs(12)))
def test_the_sums_are_the_listings(tmp_path: Path, seed: int) -> None:
    """Keeps 1 of services/clean/plan/storage_states, over random lives of a table with failed writes, plans,
    savepoints and damage: each file once, and no other; and what is pinned is what the backlog says. So it is in tables
    with native logs."""
    history = TableHistory(tmp_path / "t", seed, native=seed % 3 == 1)
    for _ in range(40):
        history.step()
    snapshot = take_snapshot(LocalStorage(), str(history.base), clock=SkippingClock())
    names = (path for path in history.base.rglob("*") if path.is_file() and ".hoodie" not in path.parts)
    listed = {
        str(path.relative_to(history.base)): path.stat().st_size
        for path in names
        if ".log." in path.name or (path.suffix == ".parquet" and not path.name.startswith("."))
    }
    unrecognised = set(snapshot.unrecognised_files)

    files = list(states_of_files(snapshot, plan_clean(snapshot, CleanPolicy(retain=2), now=0.0)))
    totals = storage_states(snapshot, plan_clean(snapshot, CleanPolicy(retain=2), now=0.0))

    assert Counter(file.path for file in files) == Counter(listed.keys() - unrecognised), history.log
    assert {file.path: file.size for file in files} == {p: s for p, s in listed.items() if p not in unrecognised}
    assert sum(total.bytes for total in totals.values()) == sum(file.size for file in files)
    assert totals[FileState.PINNED].bytes == backlog_of(snapshot).pinned_bytes
    uncommitted = {file.path for file in files if file.state in (FileState.UNCOMMITTED, FileState.ORPHAN)}
    assert uncommitted >= set(snapshot.uncommitted_files)


def test_what_no_instant_explains(tmp_path: Path) -> None:
    """A file of a write under way is uncommitted, one of an instant that is not on the timeline an orphan; set aside
    where it stands, as in a store, it counts once."""
    history = TableHistory(tmp_path / "t", 1)
    for _ in range(5):
        history.write()
    partition = next(path.parent for path in history.base.rglob("*.parquet"))
    stray = partition / f"stray_0-0-0_{minute(60 * 24 * 29)}.parquet"
    stray.write_bytes(b"12345")
    (history.timeline / f"{minute(60 * 24 * 29 + 1)}.deltacommit.requested").touch()
    under_way = partition / f"way_0-0-0_{minute(60 * 24 * 29 + 1)}.parquet"
    under_way.write_bytes(b"123")

    snapshot = take_snapshot(LocalStorage(), str(history.base), clock=SkippingClock())
    totals = storage_states(snapshot, plan_clean(snapshot, CleanPolicy(), now=0.0))

    assert totals[FileState.ORPHAN] == StateTotal(1, 5)
    assert totals[FileState.UNCOMMITTED] == StateTotal(1, 3)

    files = (QuarantinedFile(str(partition.relative_to(history.base)), stray.name, 5),)
    kind = QuarantineKind.ORPHANS
    run = QuarantinedRun(minute(60), kind, (Manifest(kind, 0.0, 1.0, True, files),))
    aside = storage_states(snapshot, plan_clean(snapshot, CleanPolicy(), now=0.0), Quarantine((run,)))
    assert (aside[FileState.ORPHAN], aside[FileState.QUARANTINED]) == (StateTotal(), StateTotal(1, 5))
