"""Golden tables are archived, beside other archivers and writers."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeward.base.errors import Cancelled, LockLost, Refused
from lakeward.format.timeline.clean_metadata import CleanMetadata, write_clean_metadata
from lakeward.format.timeline.clean_plan import CleanPlan, write_clean_plan
from lakeward.format.timeline.history import HistoryFile, manifest_name
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run import archiver as archiving
from lakeward.storage.local import LocalStorage
from tests.called_storage import CalledStorage
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import read_rows
from tests.runs import runs
from tests.services.archive.run.archiving import (
    SOON,
    all_instants,
    archive,
    archived_rows,
    archiver,
    completed,
    folder_of,
    history_of,
)

FIRST, SECOND = "20261121043703223", "20261121043706178"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


def test_the_oldest_instants_go(table: Path) -> None:
    """Their rows are in the archive, their files are gone, and the table reads as before, by its completion times."""
    before = all_instants(table)
    report = archive(table)
    assert [instant.time for instant in report.archived] == [FIRST, SECOND]
    assert (report.left, report.plan.leftovers) == ("", 0)
    assert [row[0] for row in archived_rows(table)] == [FIRST, SECOND]
    timeline = table / ".hoodie" / "timeline"
    assert not [path for path in timeline.iterdir() if path.name.startswith((FIRST, SECOND))]
    assert all_instants(table) == before
    assert read_rows(table) == expected_rows("v9")
    assert (Path(folder_of(table)) / "_version_").read_bytes() == b"1"
    assert archive(table).archived == ()


def test_a_clean_that_was_completed_twice_is_archived_once(table: Path) -> None:
    """With the row of its first completed file; the other one goes first, so that a process that dies in between
    leaves what the archive knows."""
    folder = table / ".hoodie/timeline"
    time, first, later = (str(int(FIRST) + number) for number in (1, 2, 3))
    names = [f"{time}.clean.requested", f"{time}.clean.inflight", f"{time}_{first}.clean", f"{time}_{later}.clean"]
    (folder / names[0]).write_bytes(write_clean_plan(CleanPlan(None, "", {}), root=str(table)))
    (folder / names[1]).write_bytes(b"")
    newest = max(each.time for each in completed(table))
    content = write_clean_metadata(CleanMetadata(2, {}, time, 1, newest, newest))
    for name in names[2:]:
        (folder / name).write_bytes(content)
    storage = FaultyStorage()
    archive(table, storage=storage)
    deleted = [call.rpartition("/")[2] for call in storage.calls if call.startswith("delete") and ".clean" in call]
    assert deleted == [names[3], names[0], names[1], names[2]]
    assert [row for row in archived_rows(table) if "clean" in row] == [(time, "clean", first)]


def test_levels_are_merged_and_old_manifests_go(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches make two files of level 0, which become one of level 1; garbage that it covers goes with them. Keeps
    3 of services/archive/run/history."""
    monkeypatch.setattr(archiving, "BATCH_INSTANTS", 1)
    folder = Path(folder_of(table))
    folder.mkdir()
    garbage = [HistoryFile(FIRST, FIRST, 0), HistoryFile(FIRST, "20990101000000000", 0)]
    for file in garbage:
        (folder / file.name).write_bytes(b"of a process that died")
    report = archive(table)
    assert report.merged_files == 2
    assert [row[0] for row in archived_rows(table)] == [FIRST, SECOND]
    (file,) = history_of(table).sizes
    # The name of what a dead process left was not taken.
    assert file == HistoryFile(FIRST, SECOND, 1)
    # Manifest 2, which stays for readers, names both files of level 0. What covers no published range stays, too.
    first, second = (each for each in folder.glob("*_0.parquet") if each.name != garbage[1].name)
    names = {"_version_", manifest_name(2), manifest_name(3), garbage[1].name, file.name, first.name, second.name}
    assert {path.name for path in folder.iterdir()} == names
    assert read_rows(table) == expected_rows("v9")


def test_what_another_archiver_left_in_between_is_finished(table: Path) -> None:
    """It died after it had published: the instants are not written again, due or not. Keeps 4 of
    services/archive/run/archiver."""
    whole = Path(shutil.copytree(table, table.with_name("whole")))
    archive(whole)
    shutil.copytree(folder_of(whole), folder_of(table))
    (table / ".hoodie" / "timeline" / f"{FIRST}.commit.requested").unlink()
    (table / ".hoodie" / "timeline" / f"{FIRST}.inflight").unlink()
    never_due = ArchiveOptions(commits_cleaned=1, delta_commits=1)
    report = archive(table, options=never_due)
    assert report.plan.leftovers == len(report.archived) == 2
    assert history_of(table) == history_of(whole)
    assert sorted(each.time for each in completed(table)) == sorted(each.time for each in completed(whole))
    assert read_rows(table) == expected_rows("v9")


class _Meanwhile(CalledStorage):
    """Lets something happen once, before a call whose name and path begin and end so."""

    def __init__(self, name: str, end: str, act: Callable[[], None]) -> None:
        super().__init__(LocalStorage())
        self._name, self._end, self._act, self._did = name, end, act, False

    def _call(self, name: str, path: str, act, tear=None):  # type: ignore[no-untyped-def]
        if not self._did and name == self._name and path.endswith(self._end):
            self._did = True
            self._act()
        return act()

    def _tear_create(self, path: str, data: bytes) -> None:
        raise AssertionError

    def _tear_output(self, path: str, file: object) -> None:
        raise AssertionError


def test_a_savepoint_that_comes_meanwhile_holds(table: Path) -> None:
    """It is seen under the lock, and nothing goes. Keeps 2 of services/archive/run/archiver."""

    def savepoint() -> None:
        (table / ".hoodie" / "timeline" / f"{FIRST}.savepoint.inflight").touch()

    before = all_instants(table)
    report = archive(table, _Meanwhile("create", "/lock", savepoint))
    assert FIRST in report.left and report.archived == ()
    assert all_instants(table) == before and archived_rows(table) == []


def test_another_archiver_meanwhile(table: Path) -> None:
    """What it published is seen under the lock, and Lakeward's is dropped."""
    report = archive(table, _Meanwhile("create", "/lock", lambda: _by_another(table)))
    assert (report.left, report.archived) == ("another archiver was at work", ())
    assert [row[0] for row in archived_rows(table)] == [FIRST, SECOND]
    assert read_rows(table) == expected_rows("v9")


def _by_another(table: Path) -> None:
    archive(table)


def test_a_lock_that_is_lost_between_the_version_and_the_deletions(table: Path) -> None:
    """Nothing leaves the timeline once the fence says no; readers find the highest manifest. Keeps 1 of
    services/archive/run/history. Keeps 1 of services/archive/run/archiver."""

    def lose() -> None:
        shutil.rmtree(table / ".hoodie" / "lock", ignore_errors=True)
        (table / ".hoodie" / "lock").unlink(missing_ok=True)

    before = completed(table)
    with pytest.raises(LockLost):
        archive(
            table,
            _Meanwhile("delete", "/_version_", lose),
            lock=FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0),
        )
    assert completed(table) == before
    assert history_of(table).version == 1
    assert len(archive(table).archived) == 2
    assert [row[0] for row in archived_rows(table)] == [FIRST, SECOND]


def test_a_manifest_above_the_version_is_passed_over(table: Path) -> None:
    """A process that died left it; its number is not used again before a higher one is published. Keeps 1 of
    services/archive/run/history."""
    folder = Path(folder_of(table))
    folder.mkdir()
    (folder / "manifest_1").write_bytes(b'{"files": []}')
    (folder / "_version_").write_bytes(b"1")
    (folder / "manifest_2").write_bytes(b'{"fil')
    archive(table)
    assert history_of(table).version == 3
    assert sorted(path.name for path in folder.glob("manifest_*")) == ["manifest_1", "manifest_3"]


def test_what_does_not_read_back_is_no_archive(table: Path) -> None:
    """No instant goes for it. Keeps 2 of services/archive/run/history."""

    def spoil() -> None:
        for path in Path(folder_of(table)).glob("*.parquet"):
            path.write_bytes(path.read_bytes()[:-1] + b"x")

    before = completed(table)
    with pytest.raises(Exception, match="does not read back"):
        archive(table, _Meanwhile("read", "_0.parquet", spoil))
    assert completed(table) == before and archived_rows(table) == []


def test_an_instant_without_its_plan_stays(table: Path) -> None:
    """What the archive would lack is not guessed."""
    for name in (f"{SECOND}.deltacommit.requested", f"{SECOND}.deltacommit.inflight"):
        (table / ".hoodie" / "timeline" / name).unlink()
    report = archive(table)
    assert [instant.time for instant in report.archived] == [FIRST]
    assert report.plan.blocked_by is not None and report.plan.blocked_by.reason == "incomplete"


def test_markers_of_archived_instants_go(table: Path) -> None:
    """Hudi's archiver removes them, too; those of others stay."""
    temp = table / ".hoodie" / ".temp"
    for instant in (FIRST, "20261121043708181"):
        (temp / instant).mkdir(parents=True)
        (temp / instant / "MARKERS0").touch()
    archive(table)
    assert [path.name for path in temp.iterdir()] == ["20261121043708181"]


def test_version_6_is_refused_by_name(tmp_path: Path) -> None:
    """Its archive has another layout."""
    table = copy_golden("v6", tmp_path / "table")
    with pytest.raises(Refused, match=r"hoodie\.table\.version"):
        archive(table)


def test_an_operator_who_cancels(table: Path) -> None:
    """The guard is asked before anything is written."""

    def cancel() -> None:
        raise Cancelled("enough")

    run = archiver(table, FaultyStorage(), options=SOON)
    object.__setattr__(run._table, "guard", cancel)
    before = completed(table)
    with pytest.raises(Cancelled):
        run.archive()
    assert completed(table) == before and archived_rows(table) == []


def add_commits(table: Path, first: int, number: int) -> None:
    """Delta commits that wrote nothing, a minute apart from one another."""
    timeline = table / ".hoodie" / "timeline"
    content = next(timeline.glob("*.deltacommit")).read_bytes()
    began = datetime(2026, 11, 22, tzinfo=UTC)
    for minute in range(first, first + number):
        at, done = (f"{began + timedelta(minutes=minute, seconds=s):%Y%m%d%H%M%S}000" for s in (0, 9))
        for name in (f"{at}.deltacommit.requested", f"{at}.deltacommit.inflight", f"{at}_{done}.deltacommit"):
            path = timeline / name
            path.write_bytes(content if "_" in name else b"")
            seconds = (began + timedelta(minutes=minute, seconds=9)).timestamp()
            os.utime(path, (seconds, seconds))


def test_the_timeline_and_its_archive_stay_bounded(table: Path) -> None:
    """Whatever number of commits comes: as many instants, manifests and files of a level as there may be."""
    options = ArchiveOptions(5, 8, 2, 2, level_files=3)
    rounds, each = runs(30), 10
    for first in range(0, rounds * each, each):
        add_commits(table, first, each)
        archive(table, options=options)
        assert len(completed(table)) <= 8
    history = history_of(table)
    levels = Counter(file.level for file in history.sizes)
    assert max(levels.values()) < 3 and 3 ** max(levels) <= rounds
    assert len(history.manifests) <= 3 + len(levels) + 1
    assert len(history.present) <= 4 * len(history.sizes) + 4
    rows = archived_rows(table)
    assert len(rows) + len(completed(table)) == rounds * each + 4
    assert len(set(rows)) == len(rows)
    assert read_rows(table) == expected_rows("v9")
