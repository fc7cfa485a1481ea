"""What an attempt left in the metadata table is rolled back whole, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from lakeward.base.errors import AttemptLost, Conflict, LockLost
from lakeward.protocol.attempts.attempt_files import attempt_folder
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.metadata.delta_commit import DeltaCommit
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.clocks import SkippingClock
from tests.crash.compacting import compact, everything
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import GOLDEN, METADATA, METADATA_TIMELINE, write_rollback_plan
from tests.processes import ScriptedProcesses

T = TypeVar("T")


@dataclass(frozen=True)
class Left:
    """A table whose compaction died after the metadata table's commit, and before its own."""

    base: Path
    instant: str

    def roll_back(self, fence: Fence = lambda: None, *, by: int = 7, storage: Storage | None = None) -> bool:
        left = DeltaCommit(storage or LocalStorage(), str(self.base), self.instant, SkippingClock())
        return left.roll_back(by=by, fence=fence)

    def of_instant(self) -> list[str]:
        return [path for path in everything(self.base / METADATA) if self.instant in path]


@pytest.fixture
def left(tmp_path: Path) -> Left:
    storage = FaultyStorage()
    compact(copy_golden(GOLDEN, tmp_path / "clean"), storage, ScriptedProcesses())
    completed = next(n for n, call in enumerate(storage.calls) if call.startswith("link"))
    base = copy_golden(GOLDEN, tmp_path / "table")
    with pytest.raises(Killed):
        compact(base, FaultyStorage(Fault(FaultKind.KILL, completed)), ScriptedProcesses())
    (requested,) = (base / ".hoodie" / "timeline").glob("*.compaction.requested")
    return Left(base, requested.name.partition(".")[0])


def test_everything_of_the_instant_goes_and_nothing_else(left: Left, tmp_path: Path):
    """Files of the timeline and log files go; what was there before us stays. A second time there is nothing to do."""
    before = everything(copy_golden(GOLDEN, tmp_path / "before") / METADATA)
    assert len(left.of_instant()) == 3 + 5

    assert left.roll_back()
    assert everything(left.base / METADATA) == before
    assert not left.roll_back()


def test_what_was_published_since_the_listing_stays(left: Left):
    """The lock is proved before the first deletion. Keeps 3 of protocol/metadata/delta_commit."""
    there = everything(left.base)

    def lost() -> None:
        raise LockLost("The lock was taken from us.")

    with pytest.raises(LockLost):
        left.roll_back(lost)
    assert everything(left.base) == there


def test_requested_goes_last(left: Left):
    """`.inflight` stays while a log file is there, and `.requested` until everything else is gone."""
    calls = FaultyStorage()
    left.roll_back(storage=calls)

    gone = [call.rpartition("/")[2] for call in calls.calls if call.startswith(("remove", "rename"))]
    assert gone[0].endswith(".deltacommit") and "_" in gone[0]
    assert len(gone) == 1 + 5 + 2
    assert all(".log.1_" in name for name in gone[1:-2])
    assert [name.rpartition(".")[2] for name in gone[-2:]] == ["inflight", "requested"]


class Overtaken(FaultyStorage):
    """Stopped right before it takes a file off the timeline: that is when `meanwhile` happens."""

    def __init__(self, state: str, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._last = f".deltacommit.{state}"
        self._meanwhile = meanwhile

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        if name in ("rename", "delete", "remove") and path.endswith(self._last):
            self._last = "nothing more"
            self._meanwhile()
        return super()._call(name, path, act, tear)


@pytest.mark.parametrize("state", ["inflight", "requested"])
@pytest.mark.parametrize("rolled_back_by_both", [True, False])
def test_who_sleeps_over_it_takes_nothing_of_a_later_attempt(left: Left, state: str, rolled_back_by_both: bool):
    """t0 A has proved its lock and is stopped; t1 B, the lock being its own by now, begins again under the same instant
    and has log files in their places; t2 A wakes up. B may or may not have found something to roll back itself. Keeps 5
    of protocol/metadata/delta_commit."""
    timeline = left.base / METADATA_TIMELINE
    hudis = [timeline / f"{left.instant}.deltacommit.{each}" for each in ("requested", "inflight")]
    log = left.base / METADATA / "files" / f".files-0000-0_{left.instant}.log.1_0-9-0"

    def begin_again() -> None:
        base, processes = str(left.base), ScriptedProcesses()
        fencing = fencing_of(LocalStorage())
        if rolled_back_by_both:
            assert fencing.fence_off(base, base, left.instant, by=processes.new_owner())
            fencing.delete_staged(fencing.find_staged(base, left.instant))
        fencing.fence_off_rollbacks(base, left.instant, by=9)
        LocalStorage().make_folder(attempt_folder(base, left.instant, 9))
        left.roll_back(by=9)
        for path in (*hudis, log):
            path.touch()

    storage = Overtaken(state, begin_again)
    with pytest.raises(AttemptLost, match="no longer there"):
        left.roll_back(storage=storage)
    assert [path for path in (*hudis, log) if not path.exists()] == []
    assert Path(attempt_folder(str(left.base), left.instant, 9)).exists()


def test_two_that_roll_back_do_not_disturb_each_other(left: Left):
    """The one that sleeps finds that nothing is left."""

    def take_back() -> None:
        assert left.roll_back(by=9)

    storage = Overtaken("inflight", take_back)
    assert left.roll_back(storage=storage)
    assert left.of_instant() == []


def test_in_an_object_store_the_lock_is_proved_before_the_timeline_is_touched(left: Left):
    """Nothing can be renamed there, so that a later attempt's files are kept from this one."""
    objects, base = Objects(), "s3://lake/t"
    for name in everything(left.base):
        objects.put(f"{base}/{name}", (left.base / name).read_bytes())
    storage, proofs = MemoryObjects(objects), list[list[str]]()

    def fence() -> None:
        proofs.append(sorted(name.rpartition(".")[2] for name in objects.data if on_timeline(name)))
        if len(proofs) == 2:
            raise LockLost("The lock was taken from us.")

    def on_timeline(name: str) -> bool:
        return name.startswith(f"{base}/{METADATA_TIMELINE}/{left.instant}")

    with pytest.raises(LockLost):
        DeltaCommit(storage, base, left.instant, SkippingClock()).roll_back(by=7, fence=fence)
    assert proofs == [["deltacommit", "inflight", "requested"], ["inflight", "requested"]]
    assert DeltaCommit(storage, base, left.instant, SkippingClock()).roll_back(by=7, fence=lambda: None)
    assert [name for name in objects.data if left.instant in name and METADATA in name] == []


def test_a_commit_that_was_compacted_stays(left: Left):
    """It is an error: what it said is in a base file now. Keeps 4 of protocol/metadata/delta_commit."""
    (left.base / METADATA_TIMELINE / "29991231235959000_29991231235959999.commit").write_bytes(b"x")
    there = everything(left.base)

    with pytest.raises(Conflict, match="cannot be rolled back"):
        left.roll_back()
    assert everything(left.base) == there


@pytest.mark.parametrize("rolled_back", ["own", "another"])
def test_a_rollback_that_hudi_began_is_left_to_hudi(left: Left, rolled_back: str):
    """This concerns a rollback of our instant; what Hudi does with others is no concern of Lakeward."""
    target = left.instant if rolled_back == "own" else "20200101000000000"
    write_rollback_plan(left.base, "29991231235959000", target)

    if rolled_back == "another":
        assert left.roll_back()
    else:
        with pytest.raises(Conflict, match="under way or was interrupted"):
            left.roll_back()
        assert len(left.of_instant()) == 3 + 5


def test_a_table_without_one(tmp_path: Path):
    """Nothing is done."""
    left = Left(copy_golden("v9", tmp_path / "table"), "20261121043710038")
    there = everything(left.base)
    assert not left.roll_back()
    assert everything(left.base) == there
