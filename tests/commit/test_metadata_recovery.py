"""What an attempt left in the metadata table is taken back whole, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeward.commit.metadata_recovery import take_back_metadata
from lakeward.errors import Conflict, LockLost
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.crash.compacting import compact, everything
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA, METADATA_TIMELINE, write_rollback_plan
from tests.processes import ScriptedProcesses


@dataclass(frozen=True)
class Left:
    """A table whose compaction died after the metadata table's commit, and before its own."""

    base: Path
    instant: str

    def take_back(self, fence: object = lambda: None) -> bool:
        return take_back_metadata(
            LocalStorage(),
            str(self.base),
            self.instant,
            clock=SkippingClock(),
            fence=fence,  # type: ignore[arg-type]
        )

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
    """Files of the timeline and log files; what was there before us stays. A second time there is nothing to do."""
    before = everything(copy_golden(GOLDEN, tmp_path / "before") / METADATA)
    assert len(left.of_instant()) == 3 + 5

    assert left.take_back()
    assert everything(left.base / METADATA) == before
    assert not left.take_back()


def test_what_was_published_since_the_listing_stays(left: Left):
    """The lock is proved before the first deletion."""
    there = everything(left.base)

    def lost() -> None:
        raise LockLost("The lock was taken from us.")

    with pytest.raises(LockLost):
        left.take_back(lost)
    assert everything(left.base) == there


def test_requested_goes_last(left: Left):
    """As long as a log file is there, so is `.inflight`; and `.requested` until everything else is gone."""
    calls = FaultyStorage()
    take_back_metadata(calls, str(left.base), left.instant, clock=SkippingClock(), fence=lambda: None)

    deleted = [call.rpartition("/")[2] for call in calls.calls if call.startswith("delete")]
    assert deleted[0].endswith(".deltacommit") and "_" in deleted[0]
    assert all(".log.1_" in name for name in deleted[1:-2])
    assert [name.rpartition(".")[2] for name in deleted[-2:]] == ["inflight", "requested"]


def test_a_commit_that_was_compacted_stays(left: Left):
    """It is an error: what it said is in a base file now."""
    (left.base / METADATA_TIMELINE / "29991231235959000_29991231235959999.commit").write_bytes(b"x")
    there = everything(left.base)

    with pytest.raises(Conflict, match="cannot be taken back"):
        left.take_back()
    assert everything(left.base) == there


@pytest.mark.parametrize("rolled_back", ["ours", "another"])
def test_a_rollback_that_hudi_began_is_left_to_hudi(left: Left, rolled_back: str):
    """If it is of our instant; what it does with others is no concern of ours."""
    target = left.instant if rolled_back == "ours" else "20200101000000000"
    write_rollback_plan(left.base, "29991231235959000", target)

    if rolled_back == "another":
        assert left.take_back()
    else:
        with pytest.raises(Conflict, match="under way or was interrupted"):
            left.take_back()
        assert len(left.of_instant()) == 3 + 5


def test_a_table_without_one(tmp_path: Path):
    """Nothing is done."""
    left = Left(copy_golden("v9", tmp_path / "table"), "20261121043710038")
    there = everything(left.base)
    assert not left.take_back()
    assert everything(left.base) == there
