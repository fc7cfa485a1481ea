"""The services that keep a table in shape, on tables of version 10: rows, deletes and changes of one write are files of
their own, which go and stay together. What rows there are is said by the second reader (`tests/native_log_judge.py`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.format.timeline.rollback_metadata import read_rolled_back
from lakeward.format.timeline.rollback_plan import RollbackPlan, encode_rollback_plan
from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.services.clean.run import orphans
from lakeward.services.clean.run.orphans import look, restore_orphans, set_orphans_aside
from lakeward.services.clean.run.undo import undo_clean
from lakeward.services.rollback.run.roll_back import FoundBy
from lakeward.services.savepoint.run import create_savepoint
from lakeward.services.savepoint.savepoint_plan import pinned_by
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.stray_record import load_recorded
from lakeward.table.table_config import TableConfig, load_table_config
from lakeward.table.timeline.archived import ArchivedTimes, load_archived_times
from lakeward.table.timeline.savepoints import read_savepoints
from tests.clocks import SkippingClock
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden
from tests.metadata_golden import set_property
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.archive.run.archiving import archive, archived_rows
from tests.services.bench import Bench
from tests.services.clean.run.cleaning import TIMELINE, clean, compacted, completed_cleans, data_files
from tests.services.clean.run.test_orphans import DAY, stray_instant, table_at
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.rollback.run.failed_tables import fail_last_write, mark, roll_back
from tests.services.together.restore.run.test_restore import (
    FIRST,
    LAST,
    LATER,
    PENDING,
    SECOND,
    THIRD,
    but_restores,
    go_back,
    without,
)
from tests.version_10 import FILE_ID, add_changes, judged_rows, made_native, set_version

KINDS = ("log", "deletes", "cdc")
SERVICES = {
    TableService.ARCHIVING,
    TableService.CLEANING,
    TableService.RESTORE,
    TableService.ROLLBACK,
    TableService.SAVEPOINT,
    TableService.UNSCHEDULING,
}


def native(instant: str, kind: str, token: str = "7-8-9", version: int = 1) -> str:
    return f"{FILE_ID}_{token}_{instant}_{version}.{kind}.parquet"


def native_files(base: Path) -> set[str]:
    return {path for path in data_files(base) if ".log." in path or ".deletes." in path or ".cdc." in path}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four commits and a pending compaction; the second and the third wrote rows and deletes, the last one deletes."""
    base = copy_golden("v9", tmp_path / "table", pending=True)
    made_native(base)
    return base


@pytest.fixture(scope="module")
def compacted_golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base file over a slice with native logs of each kind."""
    base = compacted("v9", tmp_path_factory.mktemp("golden") / "table")
    made_native(base)
    (commit,) = (base / TIMELINE).glob(f"{SECOND}_*.deltacommit")
    add_changes(base, commit, native(SECOND, "cdc"))
    return base


@pytest.fixture
def compacted_table(compacted_golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compacted_golden, tmp_path / "table", copy_function=shutil.copy2))


def test_the_services_are_open(table: Path) -> None:
    """On a table of version 10 nothing prevents those that know native logs; on one of version 9 with the same
    files they are damage."""
    assert stopped(table) == {}
    set_property(table, "hoodie.table.metadata.partitions", "files")
    assert stopped(table) == {}
    set_version(table, 9)
    found = stopped(table)
    assert found.keys() == SERVICES
    assert {id_ for ids in found.values() for id_ in ids} == {"native-log-name", "broken-pending-plan"}


def stopped(base: Path) -> dict[TableService, set[str]]:
    snapshot = scan(base)
    found = {service: {refusal.id for refusal in find_refusals(snapshot, service)} for service in SERVICES}
    return {service: ids for service, ids in found.items() if ids}


def test_a_clean_takes_native_logs_with_their_slice(compacted_table: Path) -> None:
    """Rows, deletes and changes of the old slice go, and nothing else; the completed clean names each. What a clean
    kept comes back when it is undone."""
    base = compacted_table
    rows, before = judged_rows(base), data_files(base)
    old = native_files(base)
    assert {path.split(".")[-2] for path in old} == set(KINDS)
    (cleaned,) = clean(base, LocalStorage(), keep_seconds=DAY).cleans

    gone = before - data_files(base)
    assert gone == {path for path in before if path in old or FIRST in path}
    assert cleaned.files == len(gone)
    (metadata,) = completed_cleans(base).values()
    assert {f"p/{name}" for name in metadata.partitions["p"].deleted} == gone
    assert judged_rows(base) == rows and not scan(base).frozen

    undo_clean(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), cleaned.instant)
    assert data_files(base) == before and judged_rows(base) == rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_of_one_native_log_keeps_its_slice(compacted_table: Path, kind: str) -> None:
    """Whichever of the files it names."""
    base = compacted_table
    name = next(path for path in native_files(base) if f".{kind}." in path).rpartition("/")[2]
    content = write_savepoint_metadata(SavepointMetadata("me", "", {"p": (name,)}))
    (base / TIMELINE / f"{SECOND}.savepoint.inflight").touch()
    (base / TIMELINE / f"{SECOND}_{LATER}.savepoint").write_bytes(content)
    before = data_files(base)
    assert clean(base, LocalStorage()).cleans == ()
    assert data_files(base) == before


def test_a_pending_plan_keeps_what_it_reads(table: Path) -> None:
    """It names each file of rows and of deletes."""
    before = data_files(table)
    assert clean(table, LocalStorage()).cleans == ()
    assert data_files(table) == before


@pytest.mark.parametrize("found_by", [FoundBy.LISTING, FoundBy.MARKERS])
def test_a_rollback_takes_every_file_of_the_write(tmp_path: Path, found_by: FoundBy) -> None:
    """Rows, deletes, changes, and what a task wrote that was run again; nothing of the commits before. Its plan and its
    end name each."""
    base = copy_golden("v9", tmp_path / "table")
    made_native(base)
    expected = without(Path(shutil.copytree(base, tmp_path / "expected")), LAST)
    assert fail_last_write(base) == LAST
    new_group = f"00000000-0000-4000-8000-000000000000-0_0-1-2_{LAST}_1.log.parquet"
    more = [*(native(LAST, kind) for kind in KINDS), native(LAST, "log", "7-8-10", 2), new_group]
    for name in more:
        (base / "p" / name).write_bytes(b"x")
    other = native(LATER, "log")  # of a write that nothing says anything of
    (base / "p" / other).write_bytes(b"x")
    if found_by is FoundBy.MARKERS:
        mark(base, LAST, in_lists=True)

    (done,) = roll_back(base, LocalStorage()).rolled_back

    assert done.planned.found_by is found_by
    assert set(more) < set(done.planned.plan.files["p"])
    assert native_files(base) == native_files(expected) | {f"p/{other}"}
    assert judged_rows(base) == judged_rows(expected)
    (completed,) = (base / TIMELINE).glob("*_*.rollback")
    assert read_rolled_back(completed.read_bytes(), file=completed.name) == (LAST,)
    assert all(name.encode() in completed.read_bytes() for name in more)


def test_the_rollback_of_another_process_is_ended(tmp_path: Path) -> None:
    """A plan on the timeline names native logs, and they use it."""
    base = copy_golden("v9", tmp_path / "table")
    made_native(base)
    fail_last_write(base)
    names = tuple(native(LAST, kind) for kind in KINDS)
    before = data_files(base)
    for name in names:
        (base / "p" / name).write_bytes(b"x")
    plan = RollbackPlan(LAST, "deltacommit", {"p": names})
    requested = encode_rollback_plan(plan, base_path=str(base))
    (base / TIMELINE / f"{LATER}.rollback.requested").write_bytes(requested)
    (done,) = roll_back(base, LocalStorage()).rolled_back
    assert done.planned.found_by is FoundBy.PLAN
    assert data_files(base) == before


def test_a_dead_attempt_leaves_no_native_log(table: Path) -> None:
    """What a compaction or a log compaction left in the file group of its plan goes before the plan is unscheduled."""
    before = data_files(table)
    for kind in KINDS:
        (table / "p" / native(PENDING, kind)).write_bytes(b"x")
    (table / TIMELINE / f"{PENDING}.compaction.inflight").touch()
    Bench(table).compactor().unschedule(PENDING, foreign=True)
    assert data_files(table) == before
    assert not list((table / TIMELINE).glob(f"{PENDING}*"))


def test_a_restore_takes_what_came_after(table: Path, tmp_path: Path) -> None:
    """A savepoint names every native log of its commit, and what they take; a completed write is undone, with all of
    its files, and the rows are those of then."""
    expected = without(Path(shutil.copytree(table, tmp_path / "expected")), THIRD, LAST, PENDING)
    serviced = serviced_table(str(table), LocalStorage(), ScriptedProcesses())
    create_savepoint(serviced, SECOND, user="me", comment="")
    snapshot = scan(table)
    config = load_table_config(LocalStorage(), str(table), clock=SkippingClock()).config
    (savepoint,) = read_savepoints(LocalStorage(), str(table), config, snapshot.timeline)
    assert savepoint.files["p"] >= {path.removeprefix("p/") for path in native_files(expected)}
    (pinned,) = pinned_by([savepoint], snapshot)
    assert (pinned.gone, pinned.files) == (0, len(savepoint.files["p"]))
    assert pinned.bytes == sum((table / "p" / name).stat().st_size for name in savepoint.files["p"])

    done = go_back(table, SECOND)

    assert {name for each in done.planned.undone for name in each.files.get("p", ())} == {
        path.removeprefix("p/") for path in native_files(table) ^ savepoint_files(savepoint.files["p"])
    }
    assert native_files(table) == native_files(expected)
    assert judged_rows(table) == judged_rows(expected)
    assert [path for path in but_restores(table) if ".savepoint" not in path] == everything(expected)


def savepoint_files(names: frozenset[str]) -> set[str]:
    return {f"p/{name}" for name in names if name.count("_") == 3}


@pytest.mark.parametrize("kind", ["log", "deletes"])
def test_without_one_native_log_the_table_does_not_go_back(table: Path, kind: str) -> None:
    """Keeps 2 of services/together/restore/restore_choice: also where a clean, which says nothing of what can be read,
    took it."""
    next((table / "p").glob(f"*{SECOND}*.{kind}.parquet")).unlink()
    before = everything(table)
    with pytest.raises(Refused, match="not all of its files are there"):
        go_back(table, SECOND)
    assert everything(table) == before


def test_an_archive_waits_for_a_native_log_that_nothing_explains(tmp_path: Path) -> None:
    """Once the timeline begins after its instant readers would take it for one of a commit."""
    base = copy_golden("v9", tmp_path / "table")
    made_native(base)
    held = Path(shutil.copytree(base, tmp_path / "held"))
    (held / "p" / native(str(int(FIRST) + 1), "deletes")).write_bytes(b"x")
    rows = judged_rows(base)
    assert archive(held).archived == ()
    assert archive(base).archived and [row[0] for row in archived_rows(base)] == [FIRST, SECOND]
    assert judged_rows(base) == rows and not scan(base).uncommitted_files


@pytest.mark.parametrize("kind", KINDS)
def test_a_native_orphan_is_found_and_set_aside(table: Path, kind: str) -> None:
    """A day after it was found first, and it can be put back. On a table of version 9 it is no data file."""
    path = f"p/{native(stray_instant(table), kind)}"
    (table / path).write_bytes(b"stray")
    then = (table / path).stat().st_mtime - 3 * DAY
    os.utime(table / path, (then, then))
    (decision,) = look(table_at(table, LocalStorage()), age_seconds=DAY)
    assert (decision.file.path, decision.proof) == (path, "no-instant")
    before = data_files(table)
    set_orphans_aside(table_at(table, LocalStorage()), age_seconds=DAY, keep_seconds=DAY)
    assert set(load_recorded(LocalStorage(), str(table))) == {path}
    run = set_orphans_aside(table_at(table, LocalStorage(), DAY + 60), age_seconds=DAY, keep_seconds=DAY).run
    assert run is not None and before - data_files(table) == {path}
    assert len(restore_orphans(table_at(table, LocalStorage()), run).files) == 1
    assert data_files(table) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_native_log_of_an_archived_instant_is_no_orphan(
    table: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history is asked for the instants of native names, too."""
    path = f"p/{native(stray_instant(table), kind)}"
    (table / path).write_bytes(b"of a commit")

    def archived(storage: Storage, base_path: str, config: TableConfig, instants: Collection[str]) -> ArchivedTimes:
        found = load_archived_times(storage, base_path, config, instants)
        return replace(found, completion_times={each: each for each in instants})

    monkeypatch.setattr(orphans, "load_archived_times", archived)
    (decision,) = look(table_at(table, LocalStorage(), 3 * DAY), age_seconds=DAY)
    assert (decision.file.path, decision.proof) == (path, None) and "archived" in decision.keepers
