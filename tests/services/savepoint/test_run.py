"""A savepoint of a golden table is made and deleted, beside other processes. Faults of storage are in tests/crash."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Refused, TryLater, UsageError
from lakeward.daemon.work.watcher import Watcher
from lakeward.format.timeline.clean_plan import CleanPlan, write_clean_plan
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.savepoint import run as saving
from lakeward.services.savepoint.run import create_savepoint, delete_savepoint, preview_savepoint
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.savepoints import Savepoint, read_savepoints
from lakeward.table.timeline.timeline import load_timeline
from tests.clocks import SkippingClock
from tests.crash.compacting import everything
from tests.faults import Fault, FaultKind, FaultyStorage
from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import read_rows
from tests.processes import LookedOn, ScriptedProcesses

NEWEST = "20261121043709156"
FILES = 4


def serviced(
    base: Path,
    storage: FaultyStorage | None = None,
    processes: ScriptedProcesses | None = None,
    *,
    shared: bool = True,
    clock: SkippingClock | None = None,
) -> ServicedTable:
    processes = processes or ScriptedProcesses()
    processes.stillness = LookedOn()
    return ServicedTable.for_one_attempt(
        storage or FaultyStorage(),
        str(base),
        CompactionOptions(
            writers_stopped=not shared,
            lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0, expire_seconds=60.0),
            timezone="UTC",
        ),
        clock=clock or SkippingClock(),
        processes=processes,
        observer=None,
        guard=lambda: None,
    )


def create(
    base: Path, storage: FaultyStorage | None = None, processes: ScriptedProcesses | None = None, **options: object
) -> None:
    create_savepoint(serviced(base, storage, processes, **options), None, user="ann", comment="why")  # type: ignore[arg-type]


def savepoints(base: Path) -> tuple[Savepoint, ...]:
    storage = LocalStorage()
    config = load_table_config(storage, str(base), clock=SkippingClock()).config
    return read_savepoints(storage, str(base), config, load_timeline(storage, str(base), config))


def begun(base: Path) -> list[str]:
    return [path for path in everything(base) if path.endswith(".savepoint.inflight")]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table", pending=True)


def test_made_and_deleted(table: Path) -> None:
    """A dry run writes nothing; deleting leaves the table as it was."""
    before = everything(table)
    assert preview_savepoint(serviced(table), None).files == FILES
    assert everything(table) == before

    create(table)
    (found,) = savepoints(table)
    assert (found.instant, found.user, found.comment) == (NEWEST, "ann", "why")
    assert sum(map(len, found.files.values())) == FILES
    assert read_rows(table) == expected_rows("v9")
    with pytest.raises(UsageError, match="savepoint already"):
        create(table)

    assert delete_savepoint(serviced(table), NEWEST).was_completed
    assert [path for path in everything(table) if not path.endswith(("/lock", "/commit"))] == before


@pytest.mark.parametrize("state", ["inflight", "completed"])
def test_a_lost_reply_is_read(table: Path, tmp_path: Path, state: str) -> None:
    """The savepoint is there although the storage did not say so: it is reported as made."""
    trial = FaultyStorage()
    create(copy_golden("v9", tmp_path / "trial", pending=True), trial)
    creates = [n for n, call in enumerate(trial.calls) if call.startswith("create ") and ".savepoint" in call]
    assert len(creates) == 2

    create(table, FaultyStorage(Fault(FaultKind.LOST_REPLY, creates[state == "completed"])))
    assert len(savepoints(table)) == 1


def test_one_that_another_process_may_be_making(table: Path) -> None:
    """Hudi waits for the lock between the two files; long after, it does not. Keeps 2 of services/savepoint/run."""
    (table / ".hoodie" / "timeline" / f"{NEWEST}.savepoint.inflight").touch()
    with pytest.raises(TryLater, match="was begun"):
        create(table)
    assert savepoints(table) == ()

    clock = SkippingClock()
    clock.slept = saving.ABANDONED_SECONDS + 60
    create(table, clock=clock)
    assert len(savepoints(table)) == 1


def test_a_pending_clean_of_file_versions(table: Path) -> None:
    """It may be about to delete what would be kept, and does not say that it is not."""
    plan = CleanPlan(None, NEWEST, {"p": ()}, policy="KEEP_LATEST_FILE_VERSIONS")
    (table / ".hoodie" / "timeline" / "20261121043709999.clean.requested").write_bytes(
        write_clean_plan(plan, root="/t")
    )
    with pytest.raises(Refused, match="clean 20261121043709999 is pending"):
        create(table)
    assert begun(table) == []


@pytest.mark.parametrize("when", ["before the lock", "after the lock was lost"])
def test_a_clean_that_comes_in_between(table: Path, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was listed before it does not count; a savepoint that was completed after it is deleted again."""
    plan = write_clean_plan(CleanPlan(None, NEWEST, {"p": ()}, policy="KEEP_LATEST_FILE_VERSIONS"), root="/t")
    file = table / ".hoodie" / "timeline" / "20261121043709999.clean.requested"
    where = "_prepare" if when == "before the lock" else "write_savepoint_metadata"
    act = getattr(saving, where)

    def and_then(*words: object) -> object:
        done = act(*words)
        file.write_bytes(plan)
        return done

    monkeypatch.setattr(saving, where, and_then)
    with pytest.raises(Refused if when == "before the lock" else AttemptLost):
        create(table)
    assert (savepoints(table), begun(table)) == ((), [])


@pytest.mark.parametrize(
    ("name", "listings"),
    [
        ("20261121043709999.deltacommit.requested", 1),
        ("20261121043701000.deltacommit.requested", 2),
        ("20261121043709999.rollback.inflight", 2),
    ],
)
def test_under_the_lock_the_table_is_listed_only_where_it_matters(
    table: Path, name: str, listings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later write adds files that are none of the savepoint's; writers wait for no listing for its sake."""
    prepare, calls = saving._prepare, []

    def and_then(*words: object) -> object:
        calls.append(words)
        done = prepare(*words)  # type: ignore[arg-type]
        if len(calls) == 1:
            (table / ".hoodie" / "timeline" / name).touch()
        return done

    monkeypatch.setattr(saving, "_prepare", and_then)
    with suppress(Refused):  # a rollback whose plan is not there
        create(table)
    assert len(calls) == listings


def test_a_group_in_doubt(table: Path) -> None:
    """Nothing says which files would have to be kept."""
    log = next((table / "p").glob(".*.log.*"))
    os.truncate(log, log.stat().st_size - 1)
    with pytest.raises(Refused, match="in doubt"):
        create(table)


def test_a_daemon_sees_it_at_its_next_poll(table: Path) -> None:
    """It sees that the savepoint is there, and that it is gone, though no data file changed."""
    watcher = Watcher(lambda url: (LocalStorage(), url), SkippingClock())
    watcher.poll("t", str(table))
    create(table)
    watcher.poll("t", str(table))
    backlog = watcher.backlog("t")
    assert backlog is not None and backlog.oldest_savepoint_at is not None
    delete_savepoint(serviced(table), NEWEST)
    watcher.poll("t", str(table))
    backlog = watcher.backlog("t")
    assert backlog is not None and backlog.oldest_savepoint_at is None
