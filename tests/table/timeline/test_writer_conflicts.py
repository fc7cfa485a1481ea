"""Which writes may have failed for a service of Lakeward."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from lakeward.format.timeline.instant import State
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline
from lakeward.table.timeline.writer_conflicts import WriterConflict, find_writer_conflicts
from tests.clocks import SkippingClock
from tests.crash.compacting import LOG, instants
from tests.golden_tables import copy_golden
from tests.services.bench import GROUP, Bench
from tests.services.hudi_writes import HudiWrite, roll_back

PARTITION, FILE_ID = GROUP


class Rolled(Bench):
    """A golden table on which a write is rolled back."""

    def roll_back(self, write: str, *, files: Iterable[tuple[str, str | None, str]]) -> tuple[WriterConflict, ...]:
        roll_back(self.base, self.clock, write, files=files)
        config = load_table_config(self.storage, str(self.base), clock=self.clock).config
        found = load_timeline(self.storage, str(self.base), config)
        rollbacks = [each for each in found.completed if each.action == "rollback"]
        return find_writer_conflicts(LocalStorage(), str(self.base), config, found, rollbacks)


@pytest.fixture
def rolled(tmp_path: Path) -> Rolled:
    bench = Rolled(copy_golden("v9", tmp_path / "table"))
    bench.clock = SkippingClock()
    return bench


def log_of(file_id: str, instant: str) -> str:
    return f"file:/lake/t/{PARTITION}/.{file_id}_{instant}.log.1_0-1-1"


@pytest.mark.parametrize("file_id", [None, "", FILE_ID], ids=["by-files", "by-files-and-no-id", "by-id"])
def test_a_log_compaction_completed_meanwhile(rolled: Rolled, file_id: str | None) -> None:
    """On a file group that the write had written to, as its rollback says in one way or the other."""
    write = HudiWrite(rolled.base, rolled.clock, ago=5.0, heartbeat=False)
    rolled.compactor(LOG, writers_stopped=False).compact()
    rolled.clock.slept += 1.0
    (own,) = {each.time for each in instants(rolled.base) if each.action == "logcompaction"}

    (found,) = rolled.roll_back(write.instant, files=[(PARTITION, file_id, log_of(FILE_ID, write.instant))])

    assert (found.write, found.by) == (write.instant, own)


def test_what_completed_before_is_no_conflict(rolled: Rolled) -> None:
    """The write began after it."""
    rolled.compactor(LOG).compact()
    rolled.clock.slept += 1.0
    write = HudiWrite(rolled.base, rolled.clock, heartbeat=False)
    rolled.clock.slept += 1.0

    assert rolled.roll_back(write.instant, files=[(PARTITION, None, log_of(FILE_ID, write.instant))]) == ()


def test_other_groups_are_no_conflict(rolled: Rolled) -> None:
    """Neither another file group nor the same id in another partition."""
    write = HudiWrite(rolled.base, rolled.clock, ago=5.0, heartbeat=False)
    rolled.compactor(LOG, writers_stopped=False).compact()
    rolled.clock.slept += 1.0
    other = log_of("another-0", write.instant)

    assert rolled.roll_back(write.instant, files=[(PARTITION, None, other), ("q", FILE_ID, other)]) == ()


def test_what_another_service_did_is_not_own(rolled: Rolled) -> None:
    """A plan that says nothing of us is not counted."""
    write = HudiWrite(rolled.base, rolled.clock, ago=5.0, heartbeat=False)
    rolled.compactor(LOG, writers_stopped=False).compact()
    rolled.clock.slept += 1.0
    (plan,) = (rolled.base / ".hoodie" / "timeline").glob("*.logcompaction.requested")
    plan.write_bytes(plan.read_bytes().replace(b"planned_by", b"painted_by"))

    assert rolled.roll_back(write.instant, files=[(PARTITION, None, log_of(FILE_ID, write.instant))]) == ()


def test_a_plan_that_cannot_be_read_shows_nothing(rolled: Rolled) -> None:
    """It is counted as none, and the poll goes on."""
    write = HudiWrite(rolled.base, rolled.clock, ago=5.0, heartbeat=False)
    timeline = rolled.base / ".hoodie" / "timeline"
    (timeline / f"{write.instant[:-1]}9.rollback.requested").write_bytes(b"no Avro")
    (timeline / f"{write.instant[:-1]}9_{write.instant[:-1]}9.rollback").write_bytes(b"x")

    assert rolled.roll_back(write.instant, files=[]) == ()
    assert [each.state for each in instants(rolled.base) if each.action == "rollback"].count(State.COMPLETED) == 2
