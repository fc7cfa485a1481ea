"""What the quarantine has held for long enough goes, and a file in its place only if nothing needs it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.quarantine import begin_undo
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.purge_rules import PurgeReason
from lakeward.services.clean.plan.storage_states import FileState, storage_states
from lakeward.services.clean.run.clean_choice import CleanChoice, choose_overdue
from lakeward.services.clean.run.cleaner import FinishedClean
from lakeward.services.clean.run.purge import PurgedRun, purge_quarantine
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import take_snapshot
from tests.clocks import SkippingClock
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import choose_old, clean, compacted, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.table.table_history import replace_metadata

HOUR = 3600.0


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compacted("v9", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden, tmp_path / "table", copy_function=shutil.copy2))


def table_at(base: Path | str, storage: Storage, *, after: float = 0.0, **options: object) -> ServicedTable:
    table = serviced_table(str(base), storage, ScriptedProcesses(), **options)
    table.clock.sleep(after)
    return table


def purge(base: Path | str, storage: Storage, *, after: float = 0.0, **asked: object) -> tuple[PurgedRun, ...]:
    options = {key: asked.pop(key) for key in ("lock",) if key in asked}
    return purge_quarantine(table_at(base, storage, after=after, **options), **{"bytes_max": None, **asked})  # type: ignore[arg-type]


def test_what_a_clean_takes_away_stays_for_as_long_as_was_said(base: Path):
    """Until then the quarantine has it, and after that nothing does. Keeps 4 of services/clean/run/clean_run."""
    before = data_files(base)
    (cleaned,) = clean(base, LocalStorage(), keep_seconds=HOUR).cleans
    gone = before - data_files(base)
    (run,) = load_quarantine(LocalStorage(), str(base)).runs
    assert {file.path for file in run.files} == gone and len(gone) == cleaned.files
    assert run.run == cleaned.instant and run.keep_until == cleaned.kept_until
    assert choose_old(scan(base)) is None

    assert purge(base, LocalStorage(), after=HOUR / 2) == ()
    (purged,) = purge(base, LocalStorage(), after=HOUR + 60)
    assert (purged.run, purged.reason, purged.files) == (run.run, PurgeReason.AGE, len(gone))
    assert load_quarantine(LocalStorage(), str(base)).runs == ()


def test_the_cap_is_kept(base: Path):
    """What is more than the quarantine may hold goes before its time."""
    clean(base, LocalStorage(), keep_seconds=HOUR)
    held = load_quarantine(LocalStorage(), str(base)).bytes
    assert purge(base, LocalStorage(), bytes_max=held) == ()
    assert [each.reason for each in purge(base, LocalStorage(), bytes_max=held - 1)] == [PurgeReason.CAP]


def test_what_a_pending_clean_sets_aside_is_left_alone(base: Path, tmp_path: Path):
    """However old it is: its process may be at it. Keeps 1 of services/clean/run/purge."""
    storage = FaultyStorage()
    trial = Path(shutil.copytree(base, tmp_path / "trial", copy_function=shutil.copy2))
    clean(trial, storage, keep_seconds=HOUR)
    call = next(n for n, each in enumerate(storage.calls) if each.startswith("move ") and ".quarantine" in each)
    with pytest.raises(Killed):
        clean(base, FaultyStorage(Fault(FaultKind.KILL, call)), keep_seconds=HOUR)
    for path in (base / ".hoodie").rglob("lock"):
        path.unlink()

    assert purge(base, LocalStorage(), after=9 * HOUR) == ()
    (run,) = load_quarantine(LocalStorage(), str(base)).runs
    assert not run.is_purging


@pytest.mark.parametrize(
    ("kind", "needed_by"), [("v9", None), ("v9", "savepoint"), (WITH_METADATA, None), (WITH_METADATA, "listing")]
)
def test_what_stands_in_its_place_goes_only_if_nothing_needs_it(kind: str, needed_by: str | None, tmp_path: Path):
    """In an object store: a savepoint that came since keeps its slice, and so does a metadata table that lists it
    again. The next clean names none of it meanwhile. Keeps 2 of services/clean/run/purge."""
    folder = compacted(kind, tmp_path / "folder")
    before = data_files(folder)
    objects, lock = Objects(), StorageLockOptions(wait_seconds=0.0)
    store = MemoryObjects(objects)
    bring(folder, store, BASE)
    (cleaned,) = clean(BASE, store, lock=lock, keep_seconds=HOUR).cleans
    assert data_files(fetch(store, BASE, tmp_path / "after")) == before
    assert clean(BASE, store, lock=lock, keep_seconds=HOUR).cleans == ()

    (run,) = load_quarantine(store, BASE).runs
    assert run.in_place and len(run.files) == cleaned.files
    if needed_by == "listing":
        _list_again(store)
    elif needed_by == "savepoint":
        _savepoint(store, run.files[0].partition_path, run.files[0].name)
    assert [each.run for each in purge(BASE, store, after=2 * HOUR, lock=lock)] == [run.run]
    left = data_files(fetch(store, BASE, tmp_path / "purged"))
    dead = {file.path for file in run.files}
    assert left == (before if needed_by else before - dead)
    assert load_quarantine(store, BASE).runs == ()


def test_what_stands_in_its_place_is_counted_once(tmp_path: Path):
    """It is quarantined and no more than that: nothing of it is dead, to a choice or to the daemon's look at what could
    have gone for long. Keeps 3 of services/clean/run/clean_choice."""
    store, lock, cleaned = _cleaned_in_place(tmp_path)
    table = table_at(BASE, store, lock=lock)
    snapshot, quarantine = table.snapshot(service=TableService.CLEANING), load_quarantine(store, BASE)
    options = CleanOptions(CleanPolicy(CleanPolicyKind.VERSIONS, 1), reader_window=0.0)

    outcome = CleanChoice(store, BASE, options, clock=table.clock).outcome(snapshot)
    assert not any(outcome.dead)
    states = storage_states(snapshot, outcome, quarantine)
    assert (states[FileState.QUARANTINED].files, states[FileState.DEAD].files) == (cleaned.files, 0)
    assert sum(each.files for each in states.values()) == len(data_files(fetch(store, BASE, tmp_path / "files")))
    assert options.policy is not None
    asked = {"after": 1, "clock": table.clock}
    assert choose_overdue(snapshot, options, options.policy, **asked, quarantine=quarantine) == ()
    assert choose_overdue(snapshot, options, options.policy, **asked, quarantine=Quarantine()) != ()


def test_what_is_replaced_while_it_stands_goes_with_what_replaced_it(tmp_path: Path):
    """Once the replacecommit is archived, who lists the table would read it: the clean that takes the replaced group
    deletes it at once."""
    store, lock, _ = _cleaned_in_place(tmp_path)
    (group,) = take_snapshot(store, BASE, clock=SkippingClock()).file_groups
    replaced = replace_metadata({}, {group.partition_path: [group.file_id]})
    store.create(f"{BASE}/.hoodie/timeline/20261121050000000_20261121050001000.replacecommit", replaced)

    (cleaned,) = clean(BASE, store, lock=lock, keep_seconds=HOUR).cleans
    assert cleaned.files > 1 and data_files(fetch(store, BASE, tmp_path / "files")) == set()


def _cleaned_in_place(tmp_path: Path) -> tuple[MemoryObjects, StorageLockOptions, FinishedClean]:
    folder, store = compacted("v9", tmp_path / "folder"), MemoryObjects(Objects())
    lock = StorageLockOptions(wait_seconds=0.0)
    bring(folder, store, BASE)
    (cleaned,) = clean(BASE, store, lock=lock, keep_seconds=HOUR).cleans
    return store, lock, cleaned


def _savepoint(store: MemoryObjects, partition: str, name: str) -> None:
    from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata

    names = [status.name for status in store.list(f"{BASE}/.hoodie/timeline")]
    time = min(each.split("_")[0] for each in names if each.endswith(".deltacommit"))
    content = write_savepoint_metadata(SavepointMetadata("me", "", {partition: (name,)}))
    store.create(f"{BASE}/.hoodie/timeline/{time}.savepoint.inflight", b"")
    store.create(f"{BASE}/.hoodie/timeline/{time}_20990101000000000.savepoint", content)


def _list_again(store: MemoryObjects) -> None:
    """The metadata table is rebuilt, in effect: the part of the clean in it is gone."""
    clean_instant = load_quarantine(store, BASE).runs[0].run
    for folder in (f"{BASE}/.hoodie/metadata/files", f"{BASE}/.hoodie/metadata/.hoodie/timeline"):
        for status in store.list(folder):
            if clean_instant in status.name:
                store.delete(status.path)


def test_an_undo_that_came_to_nothing_holds_nothing_back(base: Path):
    """Its process died before anything of it was on the timeline: the mark goes, and so does what is due. Keeps 3 of
    services/clean/run/purge."""
    clean(base, LocalStorage(), keep_seconds=HOUR)
    (run,) = load_quarantine(LocalStorage(), str(base)).runs
    begin_undo(LocalStorage(), str(base), run.run, "20990101000000000")

    assert [each.run for each in purge(base, LocalStorage(), after=2 * HOUR)] == [run.run]
    assert load_quarantine(LocalStorage(), str(base)).runs == ()


def test_a_guard_stops_a_purge(base: Path):
    """A process that is asked to stop deletes no more; the next one goes on."""
    clean(base, LocalStorage(), keep_seconds=HOUR)

    class Stopped(Exception):
        pass

    table = table_at(base, LocalStorage(), after=2 * HOUR)
    calls = []

    def guard() -> None:
        calls.append(1)
        if load_quarantine(LocalStorage(), str(base)).runs[0].is_purging:
            raise Stopped

    with pytest.raises(Stopped):
        purge_quarantine(replace(table, guard=guard), bytes_max=None)
    assert [each.reason for each in purge(base, LocalStorage())] == [PurgeReason.BEGUN]
