"""What the dead attempt at a compaction or log compaction left goes, whichever engine made it. Its plan stays, or
goes too."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeward.base.errors import TryLater
from lakeward.format.timeline.instant import State
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.pending.pending_work import pending_work
from lakeward.protocol.pending.rollback import WHY, RollbackDecision, RollbackReason, Step
from lakeward.services.compaction.run.claim import claim_plan
from lakeward.services.compaction.run.unschedule import StillScheduled
from lakeward.services.rollback.run.roll_back import FoundBy, find_decisions, preview
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_table import metadata_base_path
from tests.crash.compacting import (
    FULL,
    LOG,
    check_finished,
    check_readable,
    everything,
)
from tests.golden_tables import copy_golden
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.bench import GROUP, PENDING, Bench, pending_states
from tests.services.compaction.run.test_unschedule import schedule
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.rollback.run.failed_tables import roll_back

HOUR = 3600.0
ORPHAN = f"p/{GROUP[1]}_0-55-66_{PENDING}.parquet"
MARKER = f".hoodie/.temp/{PENDING}/{ORPHAN}.marker.MERGE"
INFLIGHT = f".hoodie/timeline/{PENDING}.compaction.inflight"
REQUESTED = f".hoodie/timeline/{PENDING}.compaction.requested"


def dead_compaction(path: Path) -> Path:
    """A compaction of Hudi's that died: it had begun, and written a base file; all of it is a day old."""
    base = copy_golden("v9", path, pending=True)
    for path in (INFLIGHT, ORPHAN, MARKER):
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).touch()
    for path in (INFLIGHT, ORPHAN, MARKER, REQUESTED):
        age(base / path, hours=24)
    return base


def dead_log_compaction(path: Path) -> Path:
    """A log compaction that died, and had written half a log."""
    bench = Bench(copy_golden("v9", path))
    instant = schedule(bench, LOG)
    (bench.base / f".hoodie/timeline/{instant}.logcompaction.inflight").touch()
    (bench.base / "p" / f".{GROUP[1]}_{instant}.log.1_0-5-6").write_bytes(b"half a log")
    return bench.base


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return dead_compaction(tmp_path / "table")


def age(path: Path, *, hours: float) -> None:
    then = time.time() - hours * HOUR
    os.utime(path, (then, then))


def beat(base: Path, *, hours: float) -> None:
    path = Path(heartbeat_path(str(base), PENDING))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    age(path, hours=hours)


def decision(base: Path, **options: object) -> RollbackDecision:
    processes = ScriptedProcesses()
    processes.stillness = LookedOn()
    (found,) = find_decisions(serviced_table(str(base), LocalStorage(), processes, **options))
    return found


@pytest.mark.parametrize(
    ("hours", "stopped", "reason"),
    [
        (1, False, RollbackReason.DEAD_WRITER),
        (None, False, RollbackReason.SILENT),
        (None, True, RollbackReason.WRITERS_STOPPED),
    ],
    ids=["its heartbeat stopped", "silent", "no writer at work"],
)
def test_a_dead_compaction_is_released(base: Path, hours: float | None, stopped: bool, reason: RollbackReason) -> None:
    """Keeps 11 of services/rollback/run/roll_back: its base file, markers, `.inflight` and heartbeat go; its plan
    stays, as do all logs and what else carries its instant. The next compaction carries the plan out."""
    if hours is not None:
        beat(base, hours=hours)
    other = base / "p" / f"99999999-02cc-4e03-aec7-b7450919b7fd-0_0-55-66_{PENDING}.parquet"
    other.write_bytes(b"of a group that is not in the plan")
    before = set(everything(base)) - {ORPHAN, MARKER, INFLIGHT, f".hoodie/.heartbeat/{PENDING}"}

    found = decision(base, writers_stopped=stopped)
    (done,) = roll_back(base, LocalStorage(), writers_stopped=stopped).rolled_back

    assert (found.step, found.reason) == (Step.RELEASE, reason)
    assert (done.planned.decision.reason, done.planned.found_by) == (reason, FoundBy.FILE_GROUPS)
    assert (done.rollback, done.planned.plan.files) == (None, {"p": (ORPHAN.removeprefix("p/"),)})
    assert set(everything(base)) == before
    assert pending_states(base) == {State.REQUESTED}
    other.unlink()
    check_readable(base)
    Bench(base).compactor().compact()
    check_finished(base)


def test_a_dry_run_writes_nothing(base: Path) -> None:
    """It names the files that would go."""
    before = everything(base)
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    planned = preview(table, decision(base))
    assert planned.plan.files == {"p": (ORPHAN.removeprefix("p/"),)}
    assert everything(base) == before


@pytest.mark.parametrize("young", [INFLIGHT, MARKER, "heartbeat"])
def test_what_may_live_is_left_by_all(base: Path, young: str) -> None:
    """A sign of life of an hour ago, and for a heartbeat of now: no rollback, compaction or unscheduling takes it over
    beside writers, and a compaction does the rest. Keeps of protocol/pending/stuck_services, and Keeps 5 of
    services/compaction/run/compactor."""
    if young == "heartbeat":
        beat(base, hours=0)
    else:
        age(base / young, hours=1)
    before = everything(base)
    found = decision(base, writers_stopped=False)
    is_live = young == "heartbeat"
    assert found.step is Step.LEAVE
    assert found.reason is (RollbackReason.LIVE_WRITER if is_live else RollbackReason.MAYBE_AT_WORK)
    assert (found.until is None) == is_live
    if found.until is not None:
        assert abs(found.until - time.time() - 5 * HOUR) < 60
    assert roll_back(base, LocalStorage(), writers_stopped=False).rolled_back == ()
    ended = Bench(base).compactor(writers_stopped=False).unschedule(PENDING, foreign=True)
    assert isinstance(ended, StillScheduled)
    if not is_live:
        report = Bench(base).compactor(writers_stopped=False).compact()
        assert [(each.instant, each.why) for each in report.left_pending] == [(PENDING, found.why)]
    assert everything(base) == before


def test_a_heartbeat_of_the_metadata_table_shows_life(tmp_path: Path) -> None:
    """A compaction that has no heartbeat on the table, and has been silent for a day, is left alone while one beats
    on the metadata table. Keeps of protocol/pending/stuck_services."""
    bench = Bench(copy_golden("v9_metadata", tmp_path / "table"))
    instant = schedule(bench, FULL)
    timeline = bench.base / ".hoodie/timeline"
    (timeline / f"{instant}.compaction.inflight").touch()
    for path in timeline.glob(f"{instant}*"):
        age(path, hours=24)
    heartbeat = Path(heartbeat_path(metadata_base_path(str(bench.base)), instant))
    heartbeat.parent.mkdir(parents=True, exist_ok=True)
    heartbeat.touch()
    before = everything(bench.base)
    report = bench.compactor(writers_stopped=False).compact()
    assert [(each.instant, each.why) for each in report.left_pending] == [(instant, WHY[RollbackReason.LIVE_WRITER])]
    assert everything(bench.base) == before


def test_one_that_begins_meanwhile_is_not_taken_over(base: Path) -> None:
    """Keeps 2 of services/compaction/run/claim: it is judged once more under the lock."""
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses(), writers_stopped=False)
    (work,) = pending_work(table.snapshot())
    age(base / INFLIGHT, hours=0)
    before = everything(base)
    with pytest.raises(TryLater, match="may be carrying out compaction"):
        claim_plan(table, work)
    assert everything(base) == before


def test_silence_can_be_ruled_out(base: Path) -> None:
    """With `none` only a heartbeat or the operator's word counts."""
    assert decision(base, writers_stopped=False, silent_after=None).reason is RollbackReason.MAYBE_AT_WORK


def test_a_dead_log_compaction_goes_with_its_plan(tmp_path: Path) -> None:
    """The table is as it was before it was planned."""
    before = everything(copy_golden("v9", tmp_path / "before"))
    base = dead_log_compaction(tmp_path / "table")
    (done,) = roll_back(base, LocalStorage()).rolled_back
    assert done.planned.decision.step is Step.UNSCHEDULE
    assert everything(base) == before
    check_readable(base)
