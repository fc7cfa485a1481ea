"""A clean from its plan to its end: whose it is, what it leaves, and who completes it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, LakewardError, Refused, TryLater
from lakeward.format.timeline.clean_plan import Retained, clean_plan_root, write_clean_plan
from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata
from lakeward.protocol.progress import DeletedSoFar, Silent
from lakeward.services.clean.plan.due import FOREIGN_QUIET_SECONDS
from lakeward.services.clean.run import clean_run
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import check_readable, everything
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.protocol.refusals.test_eligibility import all_schemas_gone
from tests.services.clean.run.cleaning import (
    TIMELINE,
    choose_old,
    clean,
    cleaner,
    compacted,
    completed_cleans,
    data_files,
)
from tests.services.metadata.run.compacting_metadata import serviced_table

INSTANT = "20260701000000000"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compacted("v9", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden, tmp_path / "table", copy_function=shutil.copy2))


def old_files(base: Path) -> set[str]:
    plan = choose_old(scan(base))
    assert plan is not None
    return {f"{path}/{name}" for path, names in plan.files.items() for name in names}


def request_by_another(base: Path, *, age_seconds: float = 0.0, also: str | None = None) -> None:
    """A plan on the timeline that does not say that it is Lakeward's."""
    plan = choose_old(scan(base))
    assert plan is not None
    if also is not None:
        partition, _, name = also.rpartition("/")
        plan = replace(plan, files={**plan.files, partition: (*plan.files[partition], name)})
    plan = replace(plan, earliest_retained=Retained("20260101000000000", "deltacommit", "COMPLETED"))
    requested = base / TIMELINE / f"{INSTANT}.clean.requested"
    requested.write_bytes(write_clean_plan(plan, root=clean_plan_root(str(base))))
    then = serviced_table(str(base), LocalStorage(), ScriptedProcesses()).clock.now() - age_seconds
    os.utime(requested, (then, then))


def savepoint(base: Path, *paths: str) -> None:
    """One of the first commit, which names these files."""
    time = min(name.split("_")[0] for name in os.listdir(base / TIMELINE) if name.endswith(".deltacommit"))
    files: dict[str, tuple[str, ...]] = {}
    for path in paths:
        partition, _, name = path.rpartition("/")
        files[partition] = (*files.get(partition, ()), name)
    content = write_savepoint_metadata(SavepointMetadata("me", "", files))
    (base / TIMELINE / f"{time}.savepoint.inflight").touch()
    (base / TIMELINE / f"{time}_{INSTANT}.savepoint").write_bytes(content)


def calls_of(base: Path, tmp_path: Path) -> list[str]:
    storage = FaultyStorage()
    clean(Path(shutil.copytree(base, tmp_path / "trial", copy_function=shutil.copy2)), storage)
    return storage.calls


def killed_at(base: Path, tmp_path: Path, start: str, end: str) -> ScriptedProcesses:
    """A process dies right after the first call of this kind, and the others know."""
    calls = calls_of(base, tmp_path)
    call = next(n for n, each in enumerate(calls) if each.startswith(start) and each.endswith(end))
    processes = ScriptedProcesses()
    with pytest.raises(Killed):
        clean(base, FaultyStorage(Fault(FaultKind.KILL, call)), processes)
    processes.kill_all()
    return processes


def test_old_slices_go_and_a_second_run_has_nothing_to_do(base: Path):
    """What is dead is deleted, the timeline says so, and readers see the same rows."""
    dead = old_files(base)
    before = data_files(base)
    (cleaned,) = clean(base, LocalStorage()).cleans

    assert before - data_files(base) == dead and cleaned.files == len(dead) > 0
    (metadata,) = completed_cleans(base).values()
    assert {f"{path}/{name}" for path, each in metadata.partitions.items() for name in each.deleted} == dead
    assert metadata.extra_metadata == {"planned_by": "lakeward"}
    check_readable(base)
    assert clean(base, LocalStorage()).cleans == ()


def test_a_living_process_is_left_alone(base: Path, tmp_path: Path):
    """A clean whose heartbeat beats is not touched, and none is planned beside it. Keeps 1 of
    services/clean/run/cleaner."""
    calls = calls_of(base, tmp_path)
    call = next(n for n, each in enumerate(calls) if each.endswith(".clean.inflight"))
    processes = ScriptedProcesses()
    with pytest.raises(Killed):
        clean(base, FaultyStorage(Fault(FaultKind.KILL, call)), processes)
    for path in (base / ".hoodie").rglob("lock"):
        path.unlink()
    before = data_files(base)

    report = clean(base, LocalStorage(), processes)
    assert report.cleans == () and "a process is carrying it out" in report.waiting[0].why
    assert data_files(base) == before
    processes.kill_all()
    assert [each.recovered for each in clean(base, LocalStorage(), processes).cleans] == [True]


@pytest.mark.parametrize(
    ("age_seconds", "is_stopped"), [(FOREIGN_QUIET_SECONDS - 5, False), (FOREIGN_QUIET_SECONDS + 5, False), (0, True)]
)
def test_another_engines_clean_is_taken_up_when_it_is_quiet(base: Path, age_seconds: float, is_stopped: bool):
    """It is left alone for an hour, unless no writer is at work."""
    request_by_another(base, age_seconds=age_seconds)
    report = clean(base, LocalStorage(), writers_stopped=is_stopped)

    if is_stopped or age_seconds > FOREIGN_QUIET_SECONDS:
        assert [(each.instant, each.recovered) for each in report.cleans] == [(INSTANT, True)]
        assert [each.earliest_retained for each in completed_cleans(base).values()] == ["20260101000000000"]
        assert not report.waiting
    else:
        assert [each.instant for each in report.waiting] == [INSTANT] and not report.cleans
        assert not completed_cleans(base)


def test_what_is_needed_by_now_is_left_out(base: Path):
    """A file of the newest slice that another engine's plan names stays, and the completed file does not name it.
    Keeps 4 of services/clean/run/cleaner."""
    dead = old_files(base)
    newest = sorted(data_files(base) - dead)[0]
    request_by_another(base, also=newest)
    (cleaned,) = clean(base, LocalStorage()).cleans

    assert list(cleaned.kept) == [newest] and "newest" in cleaned.kept[newest]
    assert newest in data_files(base) and not dead & data_files(base)
    (metadata,) = completed_cleans(base).values()
    assert newest.rpartition("/")[2] not in str(metadata)
    assert metadata.earliest_retained == "", "else Hudi's next clean would never look at it again"
    check_readable(base)


def test_our_plan_goes_where_a_savepoint_came_before_it_was_begun(base: Path, tmp_path: Path):
    """It is taken off the timeline, and nothing of it is deleted."""
    processes = killed_at(base, tmp_path, "create", ".clean.requested")
    before = data_files(base)
    savepoint(base, *old_files(base))
    report = clean(base, LocalStorage(), processes)

    assert [each.completion_time for each in report.cleans] == [None]
    assert data_files(base) == before and not list((base / TIMELINE).glob("*.clean*"))


def test_a_clean_that_was_begun_leaves_what_a_savepoint_names_since(base: Path, tmp_path: Path):
    """What is left of the slice stays, the rest goes, and the clean is ended."""
    processes = killed_at(base, tmp_path, "create", ".clean.inflight")
    pinned = old_files(base)
    savepoint(base, *pinned)
    (cleaned,) = clean(base, LocalStorage(), processes).cleans

    assert set(cleaned.kept) == pinned and cleaned.files == 0
    assert pinned <= data_files(base) and len(completed_cleans(base)) == 1


def test_deletions_stop_at_a_savepoint_that_appears(base: Path, monkeypatch: pytest.MonkeyPatch):
    """After the batch during which it appeared nothing more goes. Keeps 2 of services/clean/run/clean_run."""
    monkeypatch.setattr(clean_run, "DELETIONS_A_BATCH", 1)
    dead = old_files(base)
    assert len(dead) > 1

    class Saving(Silent):
        def step(self, text: str) -> None:
            if "files deleted: 1 of" in text:
                savepoint(base, *(dead & data_files(base)))

    table = replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), observer=Saving())
    with pytest.raises(TryLater, match="savepoint"):
        Cleaner(table, {}).clean(choose_old)

    left = dead & data_files(base)
    assert len(left) == len(dead) - 1
    (cleaned,) = clean(base, LocalStorage()).cleans
    assert set(cleaned.kept) == left and left <= data_files(base)


@pytest.mark.parametrize("keep_seconds", [0.0, 3600.0], ids=["deleted", "set aside"])
def test_nothing_goes_where_a_savepoint_came_after_the_claim(base: Path, keep_seconds: float):
    """The clean was proved right under the lock, and Hudi makes a savepoint, which asks for no pending clean, before
    the first file goes."""
    dead, before, processes = old_files(base), data_files(base), ScriptedProcesses()

    class Saving(Silent):
        def deleted(self, state: DeletedSoFar) -> None:
            if state.files == 0:
                savepoint(base, *dead)

    table = replace(serviced_table(str(base), LocalStorage(), processes), observer=Saving())
    with pytest.raises(TryLater, match="savepoint"):
        Cleaner(table, {}, keep_seconds=keep_seconds).clean(choose_old)
    assert data_files(base) == before and not completed_cleans(base)
    (cleaned,) = clean(base, LocalStorage(), processes).cleans
    assert set(cleaned.kept) == dead and data_files(base) == before


@pytest.mark.parametrize("keep_seconds", [0.0, 3600.0], ids=["deleted", "set aside"])
@pytest.mark.parametrize("action", ["restore", "rollback"])
def test_deletions_stop_where_the_table_goes_back(
    base: Path, monkeypatch: pytest.MonkeyPatch, action: str, keep_seconds: float
):
    """What was the newest slice before may become it again: nothing more goes once a restore or rollback is
    requested, deleted or set aside."""
    monkeypatch.setattr(clean_run, "DELETIONS_A_BATCH", 1)
    dead = old_files(base)

    class Requesting(Silent):
        def step(self, text: str) -> None:
            if "files deleted: 1 of" in text:
                (base / TIMELINE / f"{INSTANT}.{action}.requested").touch()

    table = replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), observer=Requesting())
    with pytest.raises(TryLater, match=f"{action} {INSTANT} appeared"):
        Cleaner(table, {}, keep_seconds=keep_seconds).clean(choose_old)
    assert len(dead & data_files(base)) == len(dead) - 1 and not completed_cleans(base)


def test_what_cannot_be_deleted_leaves_the_clean_pending(base: Path, tmp_path: Path):
    """Its attempt is rolled back, its `.inflight` stays, and the next run goes on; what is gone already is success.
    Keeps 3 of services/clean/run/clean_run."""
    dead = old_files(base)
    calls = calls_of(base, tmp_path)
    last = max(n for n, each in enumerate(calls) if each.startswith("remove ") and any(name in each for name in dead))
    with pytest.raises(OSError, match="injected"):
        clean(base, FaultyStorage(Fault(FaultKind.BEFORE, last)))

    assert not completed_cleans(base) and list((base / TIMELINE).glob("*.clean.inflight"))
    assert len(dead & data_files(base)) == 1
    (cleaned,) = clean(base, LocalStorage()).cleans
    assert cleaned.files == len(dead) and not dead & data_files(base)


def test_only_what_the_plan_names_and_what_is_dead_goes(base: Path):
    """A file that lies beside and that nothing explains stays, also where a plan names it. Keeps 1 of
    services/clean/run/clean_run."""
    stray = base / "p" / "b7a5e4f0-0000-4000-8000-000000000000-0_0-0-0_20991231000000000.parquet"
    stray.write_bytes(b"x")
    request_by_another(base, also=str(stray.relative_to(base)))
    (cleaned,) = clean(base, LocalStorage()).cleans

    assert stray.exists() and str(stray.relative_to(base)) in cleaned.kept


def test_who_finds_it_completed_changes_nothing(base: Path, monkeypatch: pytest.MonkeyPatch):
    """Hudi completes our clean while we delete: there is one completed file, and we say nothing of our own. Keeps 3 of
    services/clean/run/cleaner."""

    class Completing(Silent):
        def step(self, text: str) -> None:
            if "done its work, committing" in text:
                (requested,) = (base / TIMELINE).glob("*.clean.requested")
                completed = base / TIMELINE / f"{requested.name.split('.')[0]}_{INSTANT}.clean"
                completed.write_bytes(b"others")

    table = replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), observer=Completing())
    report = Cleaner(table, {}).clean(choose_old)

    assert report.cleans == ()
    assert [path.read_bytes() for path in (base / TIMELINE).glob("*_*.clean")] == [b"others"]
    assert not list((base / ".hoodie" / ".heartbeat").glob("2*"))


def test_a_plan_that_changed_before_it_was_written_is_not(base: Path):
    """What was chosen is held against the table under the lock, and nothing is written where it is needed by now."""

    def choose(snapshot):  # type: ignore[no-untyped-def]
        plan = choose_old(snapshot)
        savepoint(base, *old_files(base))
        return plan

    with pytest.raises(TryLater, match="changed while its clean was planned"):
        cleaner(base, LocalStorage()).clean(choose)
    assert not list((base / TIMELINE).glob("*.clean*"))


def test_none_is_planned_beside_one_that_appeared(base: Path):
    """Another cleaner wrote its plan down while Lakeward's was made: under the lock it is seen, and Lakeward's is not
    written."""

    def choose(snapshot):  # type: ignore[no-untyped-def]
        plan = choose_old(snapshot)
        request_by_another(base)
        return plan

    before = data_files(base)
    with pytest.raises(TryLater, match=f"clean {INSTANT} was requested"):
        cleaner(base, LocalStorage()).clean(choose)
    assert [path.name for path in (base / TIMELINE).glob("*.clean*")] == [f"{INSTANT}.clean.requested"]
    assert data_files(base) == before


def test_version_8_with_statistics_is_refused(tmp_path: Path):
    """Writers of Hudi 1.0.2 may fail over what a clean deletes in its metadata table."""
    base = compacted("v8", tmp_path / "v8")
    before = data_files(base)

    with pytest.raises(Refused, match="version 8"):
        clean(base, LocalStorage())
    assert data_files(base) == before and not list((base / TIMELINE).glob("*.clean*"))


@pytest.mark.parametrize("is_pending", [False, True])
def test_nothing_goes_that_the_metadata_table_could_not_be_shown_of(is_pending: bool, tmp_path: Path):
    """Keeps 5 of services/clean/run/cleaner: it cannot be read, or nothing says of which columns it has ranges."""
    base = compacted("v9_metadata", tmp_path / "table")
    if is_pending:
        request_by_another(base, age_seconds=7200.0)
    before, partition = everything(base), base / ".hoodie" / "metadata" / "files"
    partition.rename(tmp_path / "aside")
    with pytest.raises(BrokenFile, match="its partition files"):
        clean(base, LocalStorage())
    (tmp_path / "aside").rename(partition)
    all_schemas_gone(base)
    with pytest.raises(Refused, match="no-schema"):
        clean(base, LocalStorage())
    assert everything(base) == before


def test_the_guard_stops_the_deletions(base: Path):
    """A process that is asked to stop deletes nothing more, and the clean stays pending."""

    class Stopped(LakewardError):
        """Stopped."""

    dead = old_files(base)
    is_begun: list[str] = []

    def guard() -> None:
        if list((base / TIMELINE).glob("*.clean.inflight")):
            is_begun.append("yes")
            raise Stopped

    table = replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), guard=guard)
    with pytest.raises(Stopped):
        Cleaner(table, {}).clean(choose_old)
    assert is_begun and dead <= data_files(base)
    assert clean(base, LocalStorage()).cleans[0].files == len(dead)
