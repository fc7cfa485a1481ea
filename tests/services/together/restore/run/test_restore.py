"""A golden table goes back to a commit: whole, stopped at every storage call, and beside whatever is in its way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Conflict, LakewardError, Refused, TryLater
from lakeward.format.timeline.clean_plan import CleanPlan, write_clean_plan
from lakeward.format.timeline.instant import State
from lakeward.format.timeline.restore_plan import (
    PlannedInstant,
    RestorePlan,
    encode_restore_plan,
    read_restore_plan,
)
from lakeward.format.timeline.rollback_metadata import read_restored
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.owner import Processes
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.together.restore.run.restore import Restored, preview_restore, restore
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.called_storage import WRITES
from tests.crash.compacting import FULL, LOG, compact, everything, is_leftover
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE, PARTITION_PROPERTY, rollback_plan, set_property, timeline
from tests.native_table import Group, NativeTable, Record
from tests.our_reader import read_rows
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.clean.run.cleaning import clean
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.version_10 import made_native

FIRST, SECOND, THIRD, LAST = (
    "20261121043703223",
    "20261121043706178",
    "20261121043708181",
    "20261121043709156",
)
PENDING = "20261121043710038"
LATER = "20261121235959000"


def go_back(base: Path | str, target: str, storage: Storage | None = None, **options: object) -> Restored:
    processes = options.pop("processes", None) or ScriptedProcesses()
    assert isinstance(processes, Processes)
    processes.stillness = LookedOn()
    return restore(serviced_table(str(base), storage or LocalStorage(), processes, **options), target)


def without(base: Path, *instants: str) -> Path:
    """The table as if these had never been."""
    for path in base.rglob("*"):
        if path.is_file() and any(instant in path.name for instant in instants):
            path.unlink()
    return base


def restores(base: Path, state: State) -> list[str]:
    return [i.time for i in timeline(base, DATA_TIMELINE) if (i.action, i.state) == ("restore", state)]


def but_restores(base: Path) -> list[str]:
    return [path for path in everything(base) if ".restore" not in path]


@pytest.fixture(params=["inline", pytest.param("native", marks=pytest.mark.wide)])
def base(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Four commits, and a pending compaction; the logs may be those of version 10."""
    base = copy_golden("v9", tmp_path / "table", pending=True)
    if request.param == "native":
        made_native(base)
    return base


def test_nothing_of_what_came_after_is_left(base: Path, tmp_path: Path) -> None:
    """Keeps 4 of services/together/restore/run/restore: files, instants and the plan; the completed restore names
    them. A dry run says it before, and writes nothing; a second restore finds nothing to do."""
    copy = Path(shutil.copytree(base, tmp_path / "expected"))
    expected = without(copy, THIRD, LAST, PENDING)
    before = everything(base)
    shown = preview_restore(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), SECOND)
    assert everything(base) == before
    assert [(each.instant, each.is_completed, bool(each.updated or each.deleted)) for each in shown.undone] == [
        (PENDING, False, False),
        (LAST, True, True),
        (THIRD, True, True),
    ]

    done = go_back(base, SECOND)

    assert done.planned == shown
    assert but_restores(base) == everything(expected)
    assert read_rows(base) == read_rows(expected)
    (completed,) = (base / DATA_TIMELINE).glob("*_*.restore")
    assert set(read_restored(completed.read_bytes(), file=completed.name)) == {PENDING, LAST, THIRD}
    after = everything(base)
    assert go_back(base, SECOND).restore is None
    assert everything(base) == after


def test_a_compaction_that_was_requested_before_stays(base: Path) -> None:
    """Hudi's rule, whether it is completed or not."""
    plan = base / DATA_TIMELINE / f"{PENDING}.compaction.requested"
    plan.rename(base / DATA_TIMELINE / f"{THIRD[:-3]}000.compaction.requested")
    done = go_back(base, THIRD)
    assert done.planned.stays_pending == (f"{THIRD[:-3]}000",)
    assert [each.instant for each in done.planned.undone] == [LAST]


PLANNERS = {"full": FULL, "log": LOG}


def seen_rows(base: Path, services: set[str], scratch: Path) -> list[dict[str, Any]]:
    """What Hudi's readers see: they list files, and do not ask a completed compaction whether its own are there."""
    gone = [time for time in services if not any(time in path for path in everything(base) if path.startswith("p/"))]
    rows = read_rows(without(Path(shutil.copytree(base, scratch)), *gone))
    shutil.rmtree(scratch)
    return rows


def planned(base: Path, restore: str) -> frozenset[str]:
    file = base / DATA_TIMELINE / f"{restore}.restore.requested"
    return read_restore_plan(file.read_bytes(), file=file.name).times


def with_metadata(base: Path) -> Path:
    """A metadata table, as far as it is looked at when it is removed."""
    set_property(base, PARTITION_PROPERTY, "files")
    folder = base / ".hoodie/metadata/files"
    folder.mkdir(parents=True)
    (folder / "files-0000-0_0-0-0_00000000000000000.hfile").write_bytes(b"x")
    return base


def test_the_metadata_table_goes_first(base: Path) -> None:
    """While it names files, none of them is deleted."""
    with_metadata(base)
    storage = FaultyStorage()
    assert go_back(base, SECOND, storage).planned.has_metadata_table
    assert not (base / ".hoodie/metadata").exists()
    assert f"{PARTITION_PROPERTY}=\n" in (base / ".hoodie/hoodie.properties").read_text()
    calls = storage.calls
    requested = next(n for n, call in enumerate(calls) if call.endswith(".restore.requested") and "create" in call)
    deleted = next(n for n, call in enumerate(calls) if call.split()[0] in WRITES and "/p/" in call)
    properties = max(
        n for n, call in enumerate(calls) if call.endswith("hoodie.properties") and call.split()[0] in WRITES
    )
    assert properties < requested < deleted


def test_a_pending_clean_goes_before_it_can_run(base: Path) -> None:
    """The base file was dead as of a later commit; as of this one it is in the newest slice."""
    folder = base / DATA_TIMELINE
    name = next(path.name for path in (base / "p").glob("*.parquet"))
    plan = write_clean_plan(CleanPlan(None, LAST, {"p": (name,)}, policy="KEEP_LATEST_COMMITS"), root=str(base))
    (folder / f"{LATER}.clean.requested").write_bytes(plan)
    assert go_back(base, SECOND).planned.cleans == (LATER,)
    assert not list(folder.glob("*.clean*"))
    assert (base / "p" / name).exists()


def test_a_clean_that_has_begun_to_delete_what_is_needed(base: Path) -> None:
    """Its plan says what it deleted, and nothing is written."""
    folder = base / DATA_TIMELINE
    log = next((base / "p").glob(f"*{SECOND}*"))
    plan = write_clean_plan(CleanPlan(None, LAST, {"p": (log.name,)}, policy="KEEP_LATEST_COMMITS"), root=str(base))
    (folder / f"{LATER}.clean.requested").write_bytes(plan)
    (folder / f"{LATER}.clean.inflight").touch()
    log.unlink()
    refused(base, SECOND, Refused, "not all of its files are there")


def lost_log(base: Path) -> None:
    next((base / "p").glob(f"*{SECOND}*")).unlink()


def later_savepoint(base: Path) -> None:
    (base / DATA_TIMELINE / f"{LAST}.savepoint.inflight").touch()


def pending_rollback(base: Path) -> None:
    (base / DATA_TIMELINE / f"{LATER}.rollback.requested").write_bytes(rollback_plan(LAST))


def pending_indexing(base: Path) -> None:
    (base / DATA_TIMELINE / f"{LATER}.indexing.requested").write_bytes(b"x")


def other_restore(base: Path) -> None:
    plan = encode_restore_plan(RestorePlan(THIRD, (PlannedInstant(LAST, "deltacommit"),)))
    (base / DATA_TIMELINE / f"{LATER}.restore.requested").write_bytes(plan)


def live_writer(base: Path) -> None:
    (base / DATA_TIMELINE / f"{LATER}.deltacommit.requested").touch()
    beat = Path(heartbeat_path(str(base), LATER))
    beat.parent.mkdir(exist_ok=True)
    beat.touch()


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        (lost_log, Refused, "not all of its files are there"),
        (later_savepoint, Refused, "has a savepoint"),
        (pending_rollback, Refused, "rollback .* is pending"),
        (pending_indexing, Refused, "pending-indexing"),
        (other_restore, Refused, f"to {THIRD} is pending"),
        (live_writer, TryLater, "is under way"),
    ],
)
def test_what_is_in_its_way(base: Path, change: Callable[[Path], None], error: type[LakewardError], what: str) -> None:
    """Keeps 1 of services/together/restore/run/restore: each is refused by name, before anything is written."""
    change(base)
    refused(base, SECOND, error, what)


def refused(base: Path, target: str, error: type[LakewardError], what: str) -> None:
    before = everything(base)
    with pytest.raises(error, match=what):
        go_back(base, target)
    assert [path for path in everything(base) if not is_leftover(path)] == [p for p in before if not is_leftover(p)]


def test_native_logs_that_a_clean_deleted_are_missed(tmp_path: Path) -> None:
    """A file group that began as a native log is compacted, a clean that names no instant takes the log, and its commit
    is archived: as of the commit after it nothing of its rows is left, so the table does not go back there."""
    table = NativeTable(tmp_path, by_event_time=True)
    for file_id in ("f-0", "g-0"):
        table.groups[file_id] = Group({})
        table.write({file_id: [Record(file_id, 1, "a")]})
    first, second = sorted(path.name.partition(".")[0] for path in table.timeline.glob("*.requested"))
    full = planner_of(CompactionType.FULL, GroupFilter(file_groups=("f-0",)), {})
    table.compacted(compact(tmp_path, FaultyStorage(), ScriptedProcesses(), full))
    (taken,) = clean(tmp_path, LocalStorage()).cleans
    assert taken.files == 1 and not taken.earliest_retained
    refused(without(tmp_path, first), second, Refused, r"Clean \d+ deleted p/f-0.*\.log\.parquet, which it may need")


def test_a_restore_of_hudi_that_died_is_ended(base: Path, tmp_path: Path) -> None:
    """Under its own instant, whatever it had done: the newest commit is pending again, and a rollback of it with it."""
    expected = without(Path(shutil.copytree(base, tmp_path / "expected")), THIRD, LAST, PENDING)
    folder = base / DATA_TIMELINE
    plan = RestorePlan(
        SECOND,
        (
            PlannedInstant(PENDING, "compaction"),
            PlannedInstant(LAST, "deltacommit"),
            PlannedInstant(THIRD, "deltacommit"),
        ),
    )
    (folder / f"{LATER}.restore.requested").write_bytes(encode_restore_plan(plan))
    (folder / f"{LATER}.restore.inflight").touch()
    (folder / "20261121235959111.rollback.requested").write_bytes(rollback_plan(LAST))
    (folder / "20261121235959111.rollback.inflight").touch()
    (folder / f"{PENDING}.compaction.requested").unlink()
    next(folder.glob(f"{LAST}_*")).unlink()

    done = go_back(base, SECOND)

    assert (done.restore, done.planned.pending_restore) == (LATER, LATER)
    assert but_restores(base) == everything(expected)


def test_a_writer_that_appears_stops_it(base: Path) -> None:
    """It began between the listing and the request, so it may not have seen the restore: nothing is rolled back, and
    the restore is withdrawn."""

    class WritesInBetween(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path.endswith(".restore.requested"):
                (base / DATA_TIMELINE / f"{LATER}.deltacommit.requested").touch()

    before = set(everything(base)) | {f"{DATA_TIMELINE}/{LATER}.deltacommit.requested"}
    with pytest.raises(Conflict, match="appeared while the restore was prepared"):
        go_back(base, SECOND, WritesInBetween())
    assert set(everything(base)) == before


def test_rollbacks_after_the_commit_go(base: Path) -> None:
    """Completed ones, too, go as with Hudi: they are about instants of which nothing is left. One before it
    stays."""
    folder = base / DATA_TIMELINE
    for time in (f"{SECOND[:-3]}000", LATER):
        for name in (f"{time}.rollback.requested", f"{time}.rollback.inflight", f"{time}_{LATER}.rollback"):
            (folder / name).write_bytes(rollback_plan(f"{time[:-3]}001"))
    go_back(base, SECOND)
    assert [path.name for path in folder.glob("*.rollback")] == [f"{SECOND[:-3]}000_{LATER}.rollback"]
    assert not list(folder.glob(f"{LATER}*"))


def test_a_dead_write_goes_with_its_heartbeat(base: Path) -> None:
    """It is pending, so it is later, whenever it began; and nothing is left by which it could wake."""
    time = f"{FIRST[:-3]}999"
    for state in ("requested", "inflight"):
        (base / DATA_TIMELINE / f"{time}.deltacommit.{state}").touch()
    (base / "p" / f".ebf517f7-02cc-4e03-aec7-b7450919b7fd-0_{time}.log.1_0-9-9").touch()
    beat = Path(heartbeat_path(str(base), time))
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    os.utime(beat, (0, 0))
    go_back(base, LAST)
    assert [path for path in everything(base) if time in path and ".restore" not in path] == []


def test_what_a_task_writes_late_goes_too(base: Path) -> None:
    """Keeps 4 of services/together/restore/run/restore: a task of a dead writer ends after its instant was rolled
    back. Its file would count as committed once the timeline begins after it."""
    late = base / "p" / f".ebf517f7-02cc-4e03-aec7-b7450919b7fd-0_{LAST}.log.2_0-9-9"

    class WritesLate(LocalStorage):
        def remove(self, path: str) -> bool:
            done = super().remove(path)
            if THIRD in path:
                late.touch()
            return done

    go_back(base, SECOND, WritesLate())
    assert [path for path in everything(base) if LAST in path and ".restore" not in path] == []
