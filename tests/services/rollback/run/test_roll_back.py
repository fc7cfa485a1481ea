"""A write that failed is rolled back: nothing of it is left, and everything else is as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, Conflict, Refused, UntrustedName
from lakeward.format.timeline.instant import State
from lakeward.format.timeline.rollback_metadata import read_rolled_back
from lakeward.format.timeline.rollback_plan import RollbackPlan, encode_rollback_plan
from lakeward.protocol.attempts.attempt_files import temp_folder
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.pending.rollback import RollbackDecision, RollbackReason, Step
from lakeward.services.rollback.run.roll_back import (
    FoundBy,
    RollbackReport,
    find_decision,
    find_decisions,
    roll_back_writes,
)
from lakeward.storage.local import LocalStorage
from tests.called_storage import WRITES
from tests.crash.compacting import everything
from tests.faults import FaultyStorage
from tests.golden_tables import GOLDEN as GOLDEN_FILES
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, METADATA_TIMELINE, set_property, timeline, write_rollback_plan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.rollback.run.failed_tables import fail_last_write, mark, roll_back

GOLDEN = ("v9", "v9_metadata", "v8_metadata")
LATER = "20261121235959000"


@pytest.fixture(params=GOLDEN)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return copy_golden(request.param, tmp_path / "table")


def of_write(base: Path, instant: str) -> set[str]:
    """Every file that has to do with a write."""
    return {path for path in everything(base) if instant in path}


def rollbacks(base: Path, state: State) -> list[str]:
    return [i.time for i in timeline(base, DATA_TIMELINE) if (i.action, i.state) == ("rollback", state)]


def check_rolled_back(base: Path, instant: str, before: set[str]) -> None:
    """Nothing of the write is left, nothing of Lakeward, and all that was there of others; one rollback says so."""
    rolled_back = {path for path in everything(base) if ".rollback" in path}
    assert set(everything(base)) - rolled_back == before
    assert len(rollbacks(base, State.COMPLETED)) == 1
    assert rollbacks(base, State.REQUESTED) == rollbacks(base, State.INFLIGHT) == rollbacks(base, State.COMPLETED)
    (completed,) = (base / DATA_TIMELINE).glob("*_*.rollback")
    assert read_rolled_back(completed.read_bytes(), file=completed.name) == (instant,)


@pytest.mark.parametrize("markers", ["none", "direct", "in lists"])
def test_nothing_of_the_write_is_left(base: Path, markers: str):
    """Its files, its instant, its delta commit of the metadata table, markers and heartbeat; by markers or without.
    Keeps 10 of services/rollback/run/roll_back: without any, every partition is listed."""
    instant = fail_last_write(base)
    before = set(everything(base)) - of_write(base, instant)
    if markers != "none":
        mark(base, instant, in_lists=markers == "in lists")
    (base / ".hoodie/.heartbeat").mkdir(exist_ok=True)
    beat = Path(heartbeat_path(str(base), instant))
    beat.touch()
    os.utime(beat, (0, 0))

    (done,) = roll_back(base, LocalStorage()).rolled_back

    check_rolled_back(base, instant, before)
    # A golden table with a metadata table comes without its data files, and so without markers.
    has_markers = markers != "none" and done.planned.plan.files
    assert done.planned.found_by is (FoundBy.MARKERS if has_markers else FoundBy.LISTING)
    assert done.planned.decision.reason is RollbackReason.DEAD_WRITER
    assert roll_back(base, LocalStorage()).rolled_back == (), "two rollbacks are as one"


def test_a_live_writer_is_never_touched(base: Path):
    """Keeps 1 of services/rollback/run/roll_back, and Keeps of services/rollback/run/failed_writes: a heartbeat on
    the table, or on its metadata table, whatever the operator says."""
    instant = fail_last_write(base)
    before = everything(base)
    for place in (base, base / ".hoodie/metadata"):
        if (place / ".hoodie").exists():
            beat = Path(heartbeat_path(str(place), instant))
            beat.parent.mkdir(exist_ok=True)
            beat.touch()
            assert roll_back(base, LocalStorage()).rolled_back == ()
            beat.unlink()
            assert everything(base) == before


def test_a_write_that_completed_meanwhile_stays(base: Path):
    """Keeps 1 of services/rollback/run/roll_back: it is looked at again under the lock."""
    completed = max((base / DATA_TIMELINE).glob("*_*.deltacommit"), key=lambda path: path.name)
    content = completed.read_bytes()
    fail_last_write(base)

    class CompletesUnderTheLock(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path.endswith("/lock"):
                completed.write_bytes(content)

    before = set(everything(base)) | {str(completed.relative_to(base))}
    assert roll_back(base, CompletesUnderTheLock()) == RollbackReport((), ())
    assert set(everything(base)) == before


def test_a_writer_that_wakes_up_under_the_lock_stays(base: Path):
    """The same of a heartbeat that begins to beat."""
    instant = fail_last_write(base)
    (base / ".hoodie/.heartbeat").mkdir(exist_ok=True)

    class WakesUnderTheLock(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path.endswith("/lock"):
                Path(heartbeat_path(str(base), instant)).touch()

    before = of_write(base, instant)
    (left,) = roll_back(base, WakesUnderTheLock()).left
    assert left.reason is RollbackReason.LIVE_WRITER
    assert of_write(base, instant) - before == {f".hoodie/.heartbeat/{instant}"}


def test_a_rollback_of_hudi_is_ended_where_no_writer_is_at_work(base: Path):
    """Under its own instant; beside writers it is left to Hudi, which may be deleting just now."""
    instant = fail_last_write(base)
    before = set(everything(base)) - of_write(base, instant)
    names = tuple(sorted(path.name for path in (base / "p").glob(f"*{instant}*"))) if (base / "p").exists() else ()
    plan = RollbackPlan(instant, "deltacommit", {"p": names} if names else {})
    (base / DATA_TIMELINE / f"{LATER}.rollback.requested").write_bytes(encode_rollback_plan(plan, base_path=str(base)))
    decisions = {each.instant: each for each in find(base, writers_stopped=False)}
    assert decisions[LATER].reason is RollbackReason.FOREIGN_ROLLBACK
    assert decisions[instant].reason is RollbackReason.ROLLBACK_PENDING

    (done,) = roll_back(base, LocalStorage()).rolled_back
    assert (done.rollback, done.planned.found_by) == (LATER, FoundBy.PLAN)
    if names:
        check_rolled_back(base, instant, before)


@pytest.mark.parametrize("plan", [b"", b"Obj\x01 and no more", None], ids=["empty", "cut short", "gone"])
def test_a_rollback_that_cannot_be_read_goes_where_no_writer_is_at_work(base: Path, plan: bytes | None):
    """Keeps 6 of services/rollback/run/roll_back: no engine can end it. The failed write is rolled back as if it had
    never been, and beside writers it stays."""
    instant = fail_last_write(base)
    before = set(everything(base)) - of_write(base, instant)
    dead = base / DATA_TIMELINE / f"{LATER}.rollback"
    if plan is not None:
        dead.with_name(f"{dead.name}.requested").write_bytes(plan)
    dead.with_name(f"{dead.name}.inflight").touch()
    assert find(base, writers_stopped=False)[0].reason is RollbackReason.UNREADABLE_ROLLBACK
    report = roll_back(base, LocalStorage(), writers_stopped=True)
    assert [(each.planned.decision.step, each.rollback is None) for each in report.rolled_back] == [
        (Step.DROP, True),
        (Step.ROLL_BACK, False),
    ]
    check_rolled_back(base, instant, before)


def test_what_hudi_has_begun_in_the_metadata_table_is_left_to_it(tmp_path: Path):
    """Nothing was written then."""
    base = copy_golden("v9_metadata", tmp_path / "table")
    instant = fail_last_write(base)
    write_rollback_plan(base, LATER, instant)
    before = everything(base)
    with pytest.raises(Conflict, match="of the metadata table is under way"):
        roll_back(base, LocalStorage())
    assert everything(base) == before


def test_what_is_merged_in_the_metadata_table_stays(tmp_path: Path):
    """It cannot be rolled back by deleting files, and nothing was written."""
    base = copy_golden("v9_metadata", tmp_path / "table")
    instant = fail_last_write(base)
    (base / METADATA_TIMELINE / f"{LATER}.compaction.requested").touch()
    (base / METADATA_TIMELINE / f"{LATER}_{LATER}.commit").write_bytes(b"x")
    before = everything(base)
    with pytest.raises(Conflict, match="cannot be rolled back"):
        roll_back(base, LocalStorage())
    assert everything(base) == before
    assert of_write(base, instant)


def test_markers_of_an_unknown_kind_are_refused(tmp_path: Path):
    """They name files in a way that is not known."""
    base = copy_golden("v9", tmp_path / "table")
    folder = Path(temp_folder(str(base), fail_last_write(base)))
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("CARRIER_PIGEON")
    before = everything(base)
    with pytest.raises(BrokenFile, match="CARRIER_PIGEON"):
        roll_back(base, LocalStorage())
    assert everything(base) == before


def test_a_marker_that_leads_out_of_the_table_is_refused(tmp_path: Path):
    """Keeps 9 of services/rollback/run/roll_back: nothing is listed there, nor deleted."""
    base = copy_golden("v9", tmp_path / "table")
    folder = Path(temp_folder(str(base), fail_last_write(base)))
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text("p/../../elsewhere/x.parquet.marker.CREATE\n")
    before = everything(base)
    with pytest.raises(UntrustedName):
        roll_back(base, LocalStorage())
    assert everything(base) == before


def test_an_older_table_is_refused_by_name(tmp_path: Path):
    """On version 6 a log is appended to by several writes, and is not deleted."""
    base = copy_golden("v6", tmp_path / "table")
    with pytest.raises(Refused, match="table-version"):
        roll_back(base, LocalStorage())


def test_a_copy_on_write_table(tmp_path: Path):
    """Commits, and their `.inflight` without an action in its name, go likewise."""
    base = copy_golden("v9", tmp_path / "table")
    set_property(base, "hoodie.table.type", "COPY_ON_WRITE")
    folder = base / DATA_TIMELINE
    (folder / "20261121043709999.commit.requested").touch()
    (folder / "20261121043709999.inflight").touch()
    before = set(everything(base)) - of_write(base, "20261121043709999")
    data = base / "p" / "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0_0-9-9_20261121043709999.parquet"
    data.touch()
    (done,) = roll_back(base, LocalStorage()).rolled_back
    assert done.planned.plan.files == {"p": (data.name,)}
    check_rolled_back(base, "20261121043709999", before)


def test_nothing_to_do_takes_no_lock(base: Path):
    """A table without a failed write is only read."""
    storage = FaultyStorage()
    assert roll_back(base, storage) == RollbackReport((), ())
    assert not [call for call in storage.calls if call.split()[0] in WRITES]


def find(base: Path, **options: object) -> tuple[RollbackDecision, ...]:
    return find_decisions(serviced_table(str(base), LocalStorage(), ScriptedProcesses(), **options))


def test_a_clustering_goes_with_its_plan(base: Path):
    """Begun and not completed, it has replaced nothing; what it wrote goes, and its file groups are free. One that is
    only planned stays, and so does one that may be at work beside writers."""
    before = set(everything(base))
    folder = base / DATA_TIMELINE
    begun, planned = "20261121235900000", "20261121235901000"
    plan = (GOLDEN_FILES / "timeline/20261121072052461.clustering.requested").read_bytes()
    for time in (begun, planned):
        (folder / f"{time}.clustering.requested").write_bytes(plan)
    (folder / f"{begun}.clustering.inflight").touch()
    (base / "p").mkdir(exist_ok=True)
    (base / "p/.hoodie_partition_metadata").touch()
    before |= {"p/.hoodie_partition_metadata", f"{DATA_TIMELINE}/{planned}.clustering.requested"}
    (base / "p" / f"0b1b7f77-9450-4dfc-8596-635889b09d81-0_0-9-9_{begun}.parquet").touch()
    reasons = {each.instant: each.reason for each in find(base, writers_stopped=False)}
    assert reasons == {begun: RollbackReason.MAYBE_AT_WORK, planned: RollbackReason.WAITING}

    (done,) = roll_back(base, LocalStorage()).rolled_back

    assert (done.planned.plan.action, len(done.planned.plan.files)) == ("clustering", 1)
    check_rolled_back(base, begun, before)


def test_a_clustering_that_was_not_begun_goes_when_an_operator_names_it(base: Path) -> None:
    """Nothing else takes its plan away, and nothing takes it away that may be about to be begun."""
    before = set(everything(base))
    plan = (GOLDEN_FILES / "timeline/20261121072052461.clustering.requested").read_bytes()
    planned = "20261121235901000"
    (base / DATA_TIMELINE / f"{planned}.clustering.requested").write_bytes(plan)
    shared = serviced_table(str(base), LocalStorage(), ScriptedProcesses(), writers_stopped=False)
    stopped = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    assert find_decision(shared, planned, accepts_left=True).reason is RollbackReason.MAYBE_BEGUN
    with pytest.raises(Refused, match="may be about to begin it"):
        find_decision(shared, planned, accepts_left=False)
    assert [each.reason for each in roll_back_writes(stopped, [planned]).left] == [RollbackReason.WAITING]

    (done,) = roll_back_writes(stopped, [planned], asked=planned).rolled_back

    assert (done.planned.plan.action, done.planned.plan.files) == ("clustering", {})
    check_rolled_back(base, planned, before)
