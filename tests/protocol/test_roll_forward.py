"""A commit intent is rolled forward by another process, unless others changed the table so that it would be wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, Conflict, LockLost, OutcomeUnknown, UntrustedName
from lakeward.format.timeline.commit_metadata import read_commit_metadata, write_commit_metadata
from lakeward.protocol.attempts import intent_fencing
from lakeward.protocol.attempts.attempt import Attempt, AttemptPlace
from lakeward.protocol.attempts.attempt_files import COMMIT_FILE, attempt_folder
from lakeward.protocol.attempts.heartbeat import Heartbeat, find_intent
from lakeward.protocol.attempts.heartbeat_line import CommitIntent, heartbeat_path
from lakeward.protocol.metadata.delta_commit import COMMIT_FILE as METADATA_COMMIT_FILE
from lakeward.protocol.metadata.delta_commit import DeltaCommit
from lakeward.protocol.transition import ServiceAction, TimelineFiles
from tests.clocks import SkippingClock
from tests.crash.metadata_compacting import SERVICES, check_finished, check_readable
from tests.faults import Fault, FaultKind, Killed
from tests.metadata_golden import (
    DATA_TIMELINE,
    GOLDEN,
    METADATA_TIMELINE,
    PARTITION_PROPERTY,
    set_property,
    timeline,
    write_rollback_plan,
)
from tests.object_lake import BASE, Lake, carry_out
from tests.object_tables import bring
from tests.processes import ScriptedProcesses


class Left:
    """A table whose compaction died right after it had stated its intent."""

    def __init__(self, folder: Path) -> None:
        clean = Lake(folder, GOLDEN)
        self.lake = clean.copy()
        store = clean.store()
        carry_out(store, ScriptedProcesses())
        states_intent = next(
            n for n, write in enumerate(store.writes) if write.startswith("replace") and "/.heart" in write
        )
        self.processes = ScriptedProcesses()
        with pytest.raises(Killed):
            carry_out(self.lake.store(Fault(FaultKind.KILL, states_intent)), self.processes)
        self.processes.kill_all()
        self.store = self.lake.store()
        pending = [each.time for each in timeline(self.lake.fetched(), DATA_TIMELINE) if each.action == "compaction"]
        self.instant = pending[0]
        found = find_intent(self.store, BASE, self.instant)
        assert found is not None and found.metadata is not None
        self.intent: CommitIntent = found
        self.metadata: str = found.metadata
        self.time = found.metadata.partition("_")[2].partition(".")[0]
        """The metadata table's completion time."""
        self.folder = attempt_folder(BASE, self.instant, found.attempt)
        self.files = TimelineFiles(self.store, f"{BASE}/{DATA_TIMELINE}", self.instant, ServiceAction.COMPACTION)

    def after(self, seconds: int) -> str:
        return str(int(self.time) + seconds * 1000)

    def finish(self, fence: Callable[[], None] = lambda: None) -> bool:
        return self.attempt().roll_forward(fence=fence) is not None

    def attempt(self) -> Attempt:
        """Another process's, at the same instant."""
        place = AttemptPlace(self.store, BASE, BASE, f"{BASE}/{DATA_TIMELINE}", keeps_plans=True)
        participants = (DeltaCommit(self.store, BASE, self.instant, SkippingClock()),)
        owner = self.processes.new_owner()
        return Attempt(place, self.instant, ServiceAction.COMPACTION, owner, participants=participants)

    def put(self, folder: str, *names: str) -> None:
        for name in names:
            self.store.create(f"{BASE}/{folder}/{name}", b"x")

    def rewrite(self, path: str, content: bytes) -> None:
        self.store.delete(path)
        self.store.create(path, content)

    def change(self, folder: Path, change: Callable[[Path], None]) -> None:
        """Applies a change to the files that another process would make."""
        table = self.lake.fetched()
        change(table)
        self.lake.objects.data.clear()
        bring(table, self.store, BASE)

    def everything(self) -> set[str]:
        return set(self.lake.objects.data)

    def refuses(self, error: type[Exception] = Conflict, match: str | None = None) -> None:
        """Nothing is created or deleted."""
        there = self.everything()
        with pytest.raises(error, match=match):
            self.finish()
        assert self.everything() == there


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return Left(tmp_path_factory.mktemp("left"))


@pytest.fixture
def left(first: Left) -> Left:
    """Each test has its own copy."""
    copy = object.__new__(Left)
    copy.__dict__.update(first.__dict__)
    copy.lake = first.lake.copy()
    copy.store = copy.lake.store()
    copy.files = TimelineFiles(copy.store, f"{BASE}/{DATA_TIMELINE}", copy.instant, ServiceAction.COMPACTION)
    return copy


def test_it_is_rolled_forward_as_its_intent_says(left: Left) -> None:
    """Its completed files get the names in the commit intent, the metadata table's first; a second time there is
    nothing to do."""
    assert left.finish()
    assert left.files.find_completed() == f"{BASE}/{DATA_TIMELINE}/{left.intent.completed}"
    created = [write.rpartition("/")[2] for write in left.store.writes]
    assert created[:2] == [f"{left.instant}.deltacommit.{state}" for state in ("requested", "inflight")]
    assert created[-2:] == [left.metadata, left.intent.completed]
    assert left.finish()
    assert len(left.store.writes) == len(created)
    carry_out(left.lake.store(), left.processes)  # tidies up
    check_finished(left.lake.fetched(), SERVICES[0])


def test_a_process_that_would_roll_it_back_rolls_it_forward(left: Left) -> None:
    """An attempt that stated its intent is never rolled back."""
    attempt = left.attempt()
    assert not attempt.fence_off()
    attempt.roll_forward(fence=lambda: None)
    assert left.files.find_completed() is not None
    assert find_intent(left.store, BASE, left.instant) == left.intent


def test_the_lock_is_proved_before_each_timeline_changes(left: Left) -> None:
    """The proof comes before the first file, and before each of the completed ones."""
    proofs: list[int] = []

    def fence(fails: int) -> None:
        proofs.append(len(left.store.writes))
        if len(proofs) == fails:
            raise LockLost("The lock was taken from us.")

    for fails, written in ((1, 0), (2, 7), (3, 8)):
        proofs.clear()
        with pytest.raises(LockLost):
            left.finish(lambda fails=fails: fence(fails))  # type: ignore[misc]
        assert proofs[-1] >= written
        names = [write.rpartition("/")[2] for write in left.store.writes]
        assert (left.metadata in names) == (fails == 3)
        assert left.intent.completed not in names
        left.store.writes.clear()
    assert left.finish()


def test_commits_of_writers_do_not_matter(left: Left) -> None:
    """Cleanings and rollbacks matter as little: their records lie beside Lakeward's, whichever came first."""
    for seconds, action in ((1, "deltacommit"), (3, "clean"), (5, "rollback")):
        name = f"{left.after(seconds)}_{left.after(seconds + 1)}.{action}"
        left.put(METADATA_TIMELINE, name)
        if action == "deltacommit":
            left.put(DATA_TIMELINE, name)
    left.put(METADATA_TIMELINE, f"{left.after(7)}.deltacommit.requested")
    assert left.finish()


@pytest.mark.parametrize("name", ["{}.compaction.requested", "{}_{}.commit", "{}_{}.restore"])
def test_a_metadata_table_that_was_compacted_since(left: Left, name: str) -> None:
    """Its new base files hide what completes before them."""
    left.put(METADATA_TIMELINE, name.format(left.after(1), left.after(2)))
    left.refuses(match="does not fit")


@pytest.mark.parametrize("instant", ["00000000000000000", "{}"])
def test_a_partition_that_was_built_since(left: Left, instant: str) -> None:
    """A writer or an indexer built it without our files, whose instant was pending: nothing is rolled forward."""
    name = f"{instant.format(left.after(1))}_{left.after(2)}"
    left.store.delete(f"{BASE}/{METADATA_TIMELINE}/{name}.deltacommit")
    left.put(METADATA_TIMELINE, f"{name}.deltacommit")
    left.put(DATA_TIMELINE, f"{left.after(1)}_{left.after(3)}.indexing")
    left.refuses(match="does not fit")


def test_what_was_there_before_does_not_matter(left: Left) -> None:
    """A compaction below our completion time lies under our records."""
    left.put(METADATA_TIMELINE, f"{left.after(-1)}_{left.after(1)}.commit")
    assert left.finish()


def test_another_commit_of_the_instant(left: Left) -> None:
    """Another engine made it: there must be one only."""
    left.put(METADATA_TIMELINE, f"{left.instant}_{left.after(1)}.deltacommit")
    left.refuses(match="does not fit")


def test_a_rollback_that_hudi_began(left: Left, tmp_path: Path) -> None:
    """It would delete what is created now."""
    left.change(tmp_path, lambda table: write_rollback_plan(table, left.after(1), left.instant))
    left.refuses(match="under way or was interrupted")


def test_a_table_that_was_rolled_back(left: Left, tmp_path: Path) -> None:
    """Its files are gone, and so must no commit name them; or they are about to go, as the rollback's plan says."""
    left.store.delete(left.files.inflight)
    (output,) = [path for path in left.everything() if path.endswith(f"_{left.instant}.parquet")]
    content = left.store.read(output)
    left.store.delete(output)
    left.refuses(match="inflight is gone")
    left.store.create(output, content)
    left.change(tmp_path, lambda table: write_rollback_plan(table, left.after(1), left.instant, DATA_TIMELINE))
    left.refuses(match="inflight is gone")


def test_inflight_that_a_late_process_deleted(left: Left) -> None:
    """t0 A rolls an earlier attempt back, and is stopped before it deletes `.inflight`; t1 B begins, states its intent
    and dies; t2 A wakes. All files are there and no rollback is, so it is begun again and finished."""
    left.store.delete(left.files.inflight)
    assert left.finish()
    assert left.files.is_inflight()
    assert left.files.find_completed() == f"{BASE}/{DATA_TIMELINE}/{left.intent.completed}"


def test_without_a_metadata_table_only_the_commit_is_finished(left: Left, tmp_path: Path) -> None:
    """It was disabled: its next writer builds it with our files."""
    left.change(tmp_path, lambda table: set_property(table, PARTITION_PROPERTY, ""))
    left.store.writes.clear()
    assert left.finish()
    assert [write.rpartition("/")[2] for write in left.store.writes] == [left.intent.completed]


def test_a_metadata_table_that_was_built_since(left: Left) -> None:
    """It was built without our files: a commit whose intent did not name it must not be completed. Keeps 6 of
    protocol/metadata/delta_commit."""
    owner = next(each for each in left.processes.owners if each.attempt == left.intent.attempt)
    left.store.delete(heartbeat_path(BASE, left.instant))
    beat = Heartbeat(left.store, BASE, left.instant, owner)
    beat.start()
    beat.state_intent(left.intent.completed)
    left.refuses(match="does not fit")


def test_a_completed_file_of_another_stays(left: Left) -> None:
    """There is nothing to roll forward where it exists, and nothing to roll back."""
    left.put(DATA_TIMELINE, f"{left.instant}_{left.after(9)}.commit")
    there = left.everything()
    assert left.finish()
    assert left.everything() == there


def test_what_was_prepared_must_be_whole(left: Left) -> None:
    """Each file that is gone or cut, and a commit that names what it must not. Keeps 2 of
    protocol/attempts/intent_fencing; Keeps 2 of protocol/metadata/delta_commit."""
    logs = sorted(path for path in left.everything() if path.startswith(f"{left.folder}/.") and ".log." in path)
    assert len(logs) == 5
    staged = f"{left.folder}/{METADATA_COMMIT_FILE}"
    content = left.store.read(logs[0])
    left.rewrite(logs[0], content[:-1])
    with pytest.raises(OutcomeUnknown, match=f"has {len(content) - 1} bytes instead of {len(content)}"):
        left.finish()
    left.rewrite(logs[0], content)
    for path in (*logs[:2], staged, f"{left.folder}/{COMMIT_FILE}"):
        assert not [each for each in left.everything() if left.metadata in each]
        content = left.store.read(path)
        left.store.delete(path)
        with pytest.raises(OutcomeUnknown, match="is gone"):
            left.finish()
        left.store.create(path, content)
    assert left.finish()


@pytest.mark.parametrize(
    ("path", "error"),
    [("files/../../x", UntrustedName), ("files/x", BrokenFile), ("files/.f_20200101000000000.log.1_0-0-0", BrokenFile)],
)
def test_a_commit_names_log_files_of_its_instant_only(left: Left, path: str, error: type[Exception]) -> None:
    """Whatever lies in the folder was written by us, or it is not published. Keeps of
    protocol/attempts/staged_commit."""
    staged = f"{left.folder}/{METADATA_COMMIT_FILE}"
    content = left.store.read(staged)
    commit = read_commit_metadata(content, file=staged, layout=2)
    ((stat, *_), *_) = commit.partition_to_write_stats.values()
    assert stat.path is not None
    padded = path.ljust(len(stat.path), "x") if error is UntrustedName else path
    stats = {name: tuple(each) for name, each in commit.partition_to_write_stats.items()}
    object.__setattr__(stat, "path", padded)
    object.__setattr__(commit, "partition_to_write_stats", stats)
    left.rewrite(staged, write_commit_metadata(commit))
    left.refuses(error)


def test_large_log_files_are_copied_in_parts(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has the same bytes; what is there already is not written again."""
    monkeypatch.setattr(intent_fencing, "AT_ONCE_BYTES", 100)
    assert left.finish()
    logs = [path for path in left.everything() if f"_{left.instant}.log." in path and left.folder not in path]
    assert len(logs) == 5
    for path in logs:
        assert left.store.read(path) == left.store.read(f"{left.folder}/{os.path.basename(path)}")
    left.store.delete(f"{BASE}/{DATA_TIMELINE}/{left.intent.completed}")
    left.store.writes.clear()
    assert left.finish()
    assert not [write for write in left.store.writes if write.startswith("close")]
    check_readable(left.lake.fetched())


def test_timelines_are_untouched_by_what_written_no_intent(left: Left) -> None:
    """An attempt without an intent is fenced off, and never states one again."""
    owner = next(each for each in left.processes.owners if each.attempt == left.intent.attempt)
    left.store.delete(heartbeat_path(BASE, left.instant))
    Heartbeat(left.store, BASE, left.instant, owner).start()
    there = timeline(left.lake.fetched(), METADATA_TIMELINE)
    assert not left.finish()
    assert left.attempt().fence_off()
    assert timeline(left.lake.fetched(), METADATA_TIMELINE) == there
    assert find_intent(left.store, BASE, left.instant) is None
