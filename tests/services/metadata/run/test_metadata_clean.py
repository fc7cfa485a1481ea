"""What compactions of the metadata table left behind is deleted, and readers see no difference at any moment."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Conflict, TryLater
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.file_name import HFILE
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from lakeward.format.timeline.clean_plan import _SCHEMA
from lakeward.format.timeline.compaction_plan import CompactionPlan, read_compaction_plan, write_compaction_plan
from lakeward.format.timeline.instant import State
from lakeward.services.metadata.plan.dead_slices import file_names
from lakeward.storage.local import LocalStorage
from tests.called_storage import WRITES
from tests.crash.compacting import everything
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.metadata_golden import METADATA, METADATA_TIMELINE, timeline, write_rollback_plan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import clean_metadata, compact_metadata, copy_table
from tests.services.metadata.run.test_compaction import (
    GOLDEN,
    a_delta_commit,
    copy_of,
    metadata_leftovers,
    records,
    scan_metadata,
)


@pytest.fixture(scope="module", params=GOLDEN)
def compacted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A golden table whose metadata table we compacted."""
    return compacted_copy(request.param, tmp_path_factory.mktemp("golden") / "table")


def compacted_copy(golden: str, base: Path) -> Path:
    assert compact_metadata(copy_table(golden, base), LocalStorage()) is not None
    return base


@pytest.fixture
def base(compacted: Path, tmp_path: Path) -> Path:
    return copy_of(compacted, tmp_path / "table")


@pytest.fixture(autouse=True)
def one_commit_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of twenty, which no golden table has."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)


def files(base: Path) -> set[str]:
    """Base and log files of the metadata table."""
    return {path for path in everything(base) if f".{HFILE}" in path or ".log." in path}


def older_files(base: Path) -> set[str]:
    """Files of all slices but the newest of each file group, and the one before it where the last commit made the
    newest."""
    table = scan_metadata(base)
    last = max(instant.time for instant in table.timeline.completed_writes)
    slices = []
    for group in (group for of in table.groups.values() for group in of):
        slices.extend(group.slices[2 if group.slices[0].base_instant == last else 1 :])
    return {f"{METADATA}/{slice_.partition_path}/{name}" for slice_ in slices for name in file_names(slice_)}


def cleans(base: Path, state: State) -> list[str]:
    return [i.time for i in timeline(base, METADATA_TIMELINE) if (i.action, i.state) == ("clean", state)]


def test_slices_that_no_reader_needs_are_deleted(base: Path):
    """They go with their logs; everything else stays, readers find the same records, and the clean says what it did."""
    before, expected, dead = files(base), records(base), older_files(base)
    done = clean_metadata(base, LocalStorage())

    assert done is not None
    assert len(dead) == done.files > 5
    assert files(base) == before - dead
    assert records(base) == expected
    assert cleans(base, State.REQUESTED) == cleans(base, State.INFLIGHT) == [done.instant]
    (completed,) = (base / METADATA_TIMELINE).glob("*.clean")
    assert completed.name == f"{done.instant}_{done.completion_time}.clean"
    metadata = read_clean_metadata(completed.read_bytes(), file=completed.name)
    deleted = {f"{METADATA}/{path}/{name}" for path, each in metadata.partitions.items() for name in each.deleted}
    assert deleted == dead
    commits = [i for i in timeline(base, METADATA_TIMELINE) if i.state is State.COMPLETED and i.action != "clean"]
    assert metadata.instant == done.instant > metadata.earliest_retained == metadata.last_completed
    assert metadata.last_completed == max(commit.time for commit in commits)
    assert metadata_leftovers(base) == []


def test_cleaning_again_does_nothing(base: Path):
    """The lock is not even taken."""
    clean_metadata(base, LocalStorage())
    before = everything(base)
    storage = FaultyStorage()
    assert clean_metadata(base, storage) is None
    assert everything(base) == before
    assert not [call for call in storage.calls if call.split()[0] in WRITES]


def stopped_before_a_deletion(base: Path, processes: ScriptedProcesses, number: int) -> str:
    """Returns the instant of the clean that was left."""
    trial = FaultyStorage()
    clean_metadata(copy_of(base, base.with_name("trial")), trial)
    deletions = [n for n, call in enumerate(trial.calls) if call.startswith(("delete ", "remove ")) and HFILE in call]
    with pytest.raises(Killed):
        clean_metadata(base, FaultyStorage(Fault(FaultKind.KILL, deletions[number])), processes)
    (base / ".hoodie" / "lock").unlink()
    (instant,) = cleans(base, State.INFLIGHT)
    return instant


def test_a_clean_of_lakeward_that_was_interrupted_is_ended(base: Path):
    """The next run ends it under its own instant."""
    expected, dead, before = records(base), older_files(base), files(base)
    processes = ScriptedProcesses()
    instant = stopped_before_a_deletion(base, processes, 0)
    done = clean_metadata(base, LocalStorage(), processes)
    assert done is not None
    assert (done.instant, cleans(base, State.COMPLETED)) == (instant, [instant])
    assert (files(base), records(base)) == (before - dead, expected)


@pytest.mark.parametrize("dies", [False, True])
def test_a_process_that_wakes_up_completes_nothing(base: Path, dies: bool):
    """It was stopped before it created the completed file, and another process is ending the clean, or has ended it."""
    processes = ScriptedProcesses()
    lock = base / ".hoodie" / "lock"

    class StopsBeforeTheEnd(LocalStorage):
        def link(self, source: str, target: str) -> None:
            if target.endswith(".clean"):
                lock.unlink()
                other = FaultyStorage(Fault(FaultKind.KILL, deletions[0])) if dies else FaultyStorage()
                with suppress(Killed):
                    clean_metadata(base, other, processes)
            super().link(source, target)

    trial = FaultyStorage()
    trial_base = copy_of(base, base.with_name("trial-of-ending"))
    stopped_before_a_deletion(trial_base, processes, 0)
    clean_metadata(trial_base, trial, processes)
    deletions = [n for n, call in enumerate(trial.calls) if call.startswith(("delete ", "remove ")) and HFILE in call]
    with pytest.raises(AttemptLost, match="no longer there"):
        clean_metadata(base, StopsBeforeTheEnd(), processes)
    assert len(cleans(base, State.COMPLETED)) == (0 if dies else 1)


def test_who_completes_just_before_it_is_shut_out_has_completed(base: Path):
    """It was about to link its completed file, and is not dead: there is no second one."""
    processes = ScriptedProcesses()
    trial = FaultyStorage()
    clean_metadata(copy_of(base, base.with_name("trial")), trial)
    (staged,) = [n for n, call in enumerate(trial.calls) if call.startswith("create ") and call.endswith("/commit")]
    with pytest.raises(Killed):
        clean_metadata(base, FaultyStorage(Fault(FaultKind.KILL, staged)), processes)
    (base / ".hoodie" / "lock").unlink()
    (instant,) = cleans(base, State.INFLIGHT)

    class MeetsWhoWakesUp(LocalStorage):
        def rename(self, source: str, target: str) -> None:
            if source.endswith("attempt-1000"):
                self.link(f"{source}/commit", str(base / METADATA_TIMELINE / f"{instant}_{int(instant) + 9}.clean"))
            super().rename(source, target)

    with pytest.raises(AttemptLost, match="exists"):
        clean_metadata(base, MeetsWhoWakesUp(), processes)
    assert cleans(base, State.COMPLETED) == [instant]
    processes.kill_all()
    compact_metadata(base, LocalStorage(), processes)
    assert metadata_leftovers(base) == []


def test_files_that_readers_read_again_are_not_deleted(base: Path):
    """The metadata table was restored while a clean of Lakeward waited: what the plan names is the newest slice now.
    Keeps
    1 of services/metadata/run/metadata_round."""
    processes = ScriptedProcesses()
    stopped_before_a_deletion(base, processes, 0)
    (group,) = scan_metadata(base).groups["files"]
    for slice_ in group.slices[:2]:
        for name in file_names(slice_):
            (base / METADATA / "files" / name).unlink()
    before = everything(base)
    with pytest.raises(Conflict, match="cannot be ended"):
        clean_metadata(base, LocalStorage(), processes)
    assert everything(base) == before


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_clean_of_another_engine_is_hudis(base: Path, is_empty: bool):
    """It is not ended by us, and none is made beside it."""
    processes = ScriptedProcesses()
    instant = stopped_before_a_deletion(base, processes, 0)
    path = base / METADATA_TIMELINE / f"{instant}.clean.requested"
    record = read_record(path.read_bytes(), file=path.name) | {"extraMetadata": {}}
    path.write_bytes(b"" if is_empty else write_record(_SCHEMA, record))
    before = everything(base)
    assert clean_metadata(base, LocalStorage(), processes) is None
    assert everything(base) == before


def test_what_is_under_way_is_waited_for(base: Path):
    """A rollback deletes files there; a pending compaction needs slices that look old."""
    newest = timeline(base, METADATA_TIMELINE)[-1]
    write_rollback_plan(base, "20991231235959999", newest.time)
    before = everything(base)
    with pytest.raises(TryLater, match="rollback 20991231235959999"):
        clean_metadata(base, LocalStorage())
    (base / METADATA_TIMELINE / "20991231235959999.rollback.requested").unlink()

    make_pending(base, own=False)
    with pytest.raises(TryLater, match="pending-metadata-compaction"):
        clean_metadata(base, LocalStorage())
    assert files(base) == {path for path in before if f".{HFILE}" in path or ".log." in path}


def make_pending(base: Path, *, own: bool) -> str:
    """The newest compaction was not completed. Returns its instant."""
    newest = [i for i in timeline(base, METADATA_TIMELINE) if i.action == "commit"][-1]
    (base / METADATA_TIMELINE / newest.file_name).unlink()
    if not own:
        path = base / METADATA_TIMELINE / f"{newest.time}.compaction.requested"
        plan = read_compaction_plan(path.read_bytes(), file=path.name, extension=HFILE)
        path.write_bytes(write_compaction_plan(CompactionPlan(plan.operations), extension=HFILE))
    return newest.time


def test_a_compaction_of_lakeward_that_died_does_not_stand_against_it(base: Path):
    """It is rolled back before anything is chosen, and not left to a Hudi writer who may never come."""
    a_delta_commit(base, seconds=2.0)
    assert compact_metadata(base, LocalStorage()) is not None
    expected, before = records(base), files(base)
    instant = make_pending(base, own=True)
    done = clean_metadata(base, LocalStorage())
    assert done is not None
    assert not list(base.rglob(f"*{instant}*.{HFILE}")) and files(base) < before
    assert records(base) == expected
