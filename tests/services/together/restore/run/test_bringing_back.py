"""A table goes back to a commit whose files a clean has set aside: they are brought back first."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError, Refused
from lakeward.format.timeline.clean_plan import CleanPlan, write_clean_plan
from lakeward.format.timeline.instant import State
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.together.restore.run.preparing import BroughtBack
from lakeward.services.together.restore.run.restoring import preview_restore
from lakeward.storage.local import LocalStorage
from lakeward.table.quarantine import load_quarantine
from tests.crash.compacting import age_temporary_files, everything, is_leftover
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import DATA_TIMELINE, timeline
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses
from tests.runs import spread
from tests.services.clean.run.cleaning import clean, compacted, completed_cleans, contents, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.restore.run.test_restoring import LATER, go_back, planned, restores, seen_rows, without

HOUR = 3600.0


def commits(base: Path) -> list[str]:
    return [
        each.time
        for each in timeline(base, DATA_TIMELINE)
        if each.state is State.COMPLETED and each.action in ("commit", "deltacommit")
    ]


def then(table: Path, folder: Path) -> Path:
    """The table as of its second commit."""
    return without(Path(shutil.copytree(table, folder)), *commits(table)[2:])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return compacted("v9", tmp_path / "table")


def test_what_a_clean_set_aside_is_used(table: Path, tmp_path: Path) -> None:
    """Keeps 1 of services/together/restore/run/preparing: as if there had never been a clean. A dry run says which one
    is undone, and writes nothing; where nothing of it is needed it stays as it is."""
    target, newest = commits(table)[1], commits(table)[-1]
    expected = then(table, tmp_path / "expected")
    taken = len(data_files(table))
    size = sum((table / path).stat().st_size for path in data_files(table) if newest not in path)
    (cleaned,) = clean(table, LocalStorage(), keep_seconds=HOUR).cleans
    assert read_rows(table) != read_rows(expected)
    before = everything(table)
    told = preview_restore(serviced_table(str(table), LocalStorage(), ScriptedProcesses()), target)
    assert everything(table) == before
    assert told.brought_back == (BroughtBack(cleaned.instant, taken - 1, size),)
    assert go_back(table, newest).planned.brought_back == ()
    assert everything(table) == before

    done = go_back(table, target)

    assert done.planned == told
    assert data_files(table) == data_files(expected)
    assert read_rows(table) == read_rows(expected)
    assert load_quarantine(LocalStorage(), str(table)).runs == ()
    assert [each.extra_metadata.get("lakeward.undoes") for each in completed_cleans(table).values()] == [
        None,
        cleaned.instant,
    ]


def test_after_an_undo_by_hand(table: Path) -> None:
    """The clean does not count any more."""
    from lakeward.services.clean.run.undoing import undo_clean

    (cleaned,) = clean(table, LocalStorage(), keep_seconds=HOUR).cleans
    undo_clean(serviced_table(str(table), LocalStorage(), ScriptedProcesses()), cleaned.instant)
    done = go_back(table, commits(table)[1])
    assert done.restore is not None and done.planned.brought_back == ()


def test_what_is_gone_for_good_is_named(table: Path) -> None:
    """Keeps 2 of services/together/restore/run/preparing: the clean, and why it cannot be undone; nothing is
    written."""
    (cleaned,) = clean(table, LocalStorage()).cleans
    before = everything(table)
    with pytest.raises(Refused, match="not all of its files are there") as error:
        go_back(table, commits(table)[1])
    assert f"Clean {cleaned.instant} took files away since, and cannot be undone" in error.value.why
    assert "deleted at once" in error.value.why
    assert [path for path in everything(table) if not is_leftover(path)] == before


def test_a_clean_that_died_while_it_set_files_aside(table: Path, tmp_path: Path) -> None:
    """It is ended as it was begun, and then undone; another pending one is not ended."""
    target = commits(table)[1]
    expected = then(table, tmp_path / "expected")
    unhurt = FaultyStorage()
    clean(Path(shutil.copytree(table, tmp_path / "trial")), unhurt, keep_seconds=HOUR)
    moves = [n for n, call in enumerate(unhurt.calls) if call.startswith("move ") and "/p/" in call]
    processes = ScriptedProcesses()
    with pytest.raises(Killed):
        clean(table, FaultyStorage(Fault(FaultKind.KILL, moves[len(moves) // 2])), processes, keep_seconds=HOUR)
    processes.kill_all()
    (begun,) = load_quarantine(LocalStorage(), str(table)).runs
    needed = next(path.name for path in (table / "p").glob(f"*{commits(table)[-1]}*"))
    plan = write_clean_plan(CleanPlan(None, target, {"p": (needed,)}, policy="KEEP_LATEST_COMMITS"), root=str(table))
    (table / DATA_TIMELINE / f"{LATER}.clean.requested").write_bytes(plan)

    done = go_back(table, target, processes=processes)

    assert [each.clean for each in done.planned.brought_back] == [begun.run]
    assert done.planned.cleans == (LATER,)
    assert data_files(table) == data_files(expected)
    assert read_rows(table) == read_rows(expected)


KINDS = [kind if kind is FaultKind.KILL else pytest.param(kind, marks=pytest.mark.wide) for kind in FaultKind]


@pytest.mark.crash
@pytest.mark.parametrize("golden", ["v9", pytest.param(WITH_METADATA, marks=pytest.mark.wide)])
@pytest.mark.parametrize("kind", KINDS)
def test_stopped_at_every_call_no_file_is_lost(golden: str, kind: FaultKind, tmp_path: Path) -> None:
    """At each moment the rows are those of now or of then, each file is in its place, in the quarantine, or of an
    instant that a restore names; and the next run ends it."""
    table = compacted(golden, tmp_path / "table")
    target, last = commits(table)[1], commits(table)[-1]
    expected = then(table, tmp_path / "expected")
    between = without(Path(shutil.copytree(table, tmp_path / "between")), *commits(table)[3:])
    states = [read_rows(table), read_rows(between), read_rows(expected)]
    files = contents(table)
    clean(table, LocalStorage(), keep_seconds=HOUR)
    unhurt = FaultyStorage()
    go_back(Path(shutil.copytree(table, tmp_path / "trial", copy_function=shutil.copy2)), target, unhurt)
    for fault in spread(faults_of(kind, unhurt.calls)):
        struck = Path(shutil.copytree(table, tmp_path / "struck", copy_function=shutil.copy2))
        processes = ScriptedProcesses()
        try:
            with suppress(LakewardError, OSError, Killed):
                go_back(struck, target, FaultyStorage(fault), processes=processes)
            assert seen_rows(struck, {last}, tmp_path / "seen") in states
            named = restores(struck, State.REQUESTED)
            there = contents(struck)
            for path, content in files.items():
                if path in there:
                    assert there[path] == content
                else:
                    assert named and any(time in path for time in planned(struck, named[0])), path
            processes.kill_all()
            age_temporary_files(struck)
            go_back(struck, target, processes=processes)
            assert read_rows(struck) == states[-1]
            assert data_files(struck) == data_files(expected)
            assert len(restores(struck, State.COMPLETED)) == 1
            assert [path for path in everything(struck) if ".heartbeat" in path or "/attempt-" in path] == []
        except BaseException as error:
            error.add_note(f"{kind} at call {fault.call}: {unhurt.calls[fault.call]}")
            raise
        shutil.rmtree(struck)


@pytest.mark.crash
@pytest.mark.wide
def test_in_an_object_store(tmp_path: Path) -> None:
    """The same where files stand in their places until they are deleted, killed at every write."""
    table = compacted("v9", tmp_path / "table")
    target = commits(table)[1]
    expected = then(table, tmp_path / "expected")
    objects = Objects()
    bring(table, MemoryObjects(objects), BASE)
    lock = StorageLockOptions(wait_seconds=0.0)
    clean(BASE, MemoryObjects(objects), keep_seconds=HOUR, lock=lock)

    def copied() -> Objects:
        return Objects(dict(objects.data), objects.versions)

    store = MemoryObjects(copied())
    assert len(go_back(BASE, target, store, lock=lock).planned.brought_back) == 1
    for number in range(len(store.writes)):
        stopped, processes = copied(), ScriptedProcesses()
        with suppress(LakewardError, OSError, Killed):
            go_back(BASE, target, MemoryObjects(stopped, Fault(FaultKind.KILL, number)), processes=processes, lock=lock)
        processes.kill_all()
        go_back(BASE, target, MemoryObjects(stopped), processes=processes, lock=lock)
        base = fetch(MemoryObjects(stopped), BASE, tmp_path / f"fetched-{number}")
        assert data_files(base) == data_files(expected), store.writes[number]
        assert read_rows(base) == read_rows(expected), store.writes[number]
