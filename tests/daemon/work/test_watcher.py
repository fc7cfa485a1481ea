"""Many tables, one view each, and what one of them does to the others: nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError, NotATable, TryLater
from lakeward.daemon.work.watcher import Watcher
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus, Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.watching.incremental_view import DAMAGED_SECONDS
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.table.table_history import TableHistory


@pytest.fixture
def histories(tmp_path: Path) -> list[TableHistory]:
    made = [TableHistory(tmp_path / f"t{seed}", seed) for seed in (1, 2)]
    for history in made:
        history.write()
    return made


def test_a_commit_shows_in_the_next_poll_of_its_table(histories: list[TableHistory]) -> None:
    """Its snapshot and backlog show it, too; the other table is unchanged."""
    watcher = Watcher(open_storage, SkippingClock())
    for name, history in zip("ab", histories, strict=True):
        assert watcher.poll(name, str(history.base)).rebuilt
    histories[0].write()

    polled = watcher.poll("a", str(histories[0].base))

    assert (polled.changed, polled.rebuilt, len(polled.instants)) == (True, False, 1)
    assert not watcher.poll("b", str(histories[1].base)).changed
    assert watcher.snapshot("a").timeline.completed[-1] == polled.instants[0]
    backlog = watcher.backlog("a")
    assert backlog is not None and backlog.timeline_length == 2
    assert watcher.service_instants("a") == ()


def test_damage_that_a_job_found_shows_in_the_next_poll(tmp_path: Path) -> None:
    """The timeline says nothing of it; the backlog counts it, and no longer when the file is back."""
    base = copy_golden("v9", tmp_path / "t")
    clock = SkippingClock()
    watcher = Watcher(open_storage, clock)
    watcher.poll("a", str(base))
    assert watcher.backlog("a").damaged_files == 0  # type: ignore[union-attr]
    log = max((base / "p").glob(".*.log.*"))
    content = log.read_bytes()
    log.unlink()
    watcher.doubt("a")
    assert watcher.poll("a", str(base)).changed
    assert watcher.backlog("a").damaged_files == 1  # type: ignore[union-attr]
    log.write_bytes(content)
    clock.slept += DAMAGED_SECONDS
    assert watcher.poll("a", str(base)).changed
    assert watcher.backlog("a").damaged_files == 0  # type: ignore[union-attr]


def test_one_bad_path_affects_itself_only(histories: list[TableHistory], tmp_path: Path) -> None:
    """No table, no storage for such a path, a table that went away: an error of that table, every time."""
    watcher = Watcher(open_storage, SkippingClock())
    for _ in range(2):
        with pytest.raises(NotATable):
            watcher.poll("empty", str(tmp_path))
        with pytest.raises(LakewardError):
            watcher.poll("elsewhere", "hdfs://name/table")
        watcher.poll("a", str(histories[0].base))
    assert watcher.snapshot("a").file_groups


def test_a_table_that_is_not_watched(histories: list[TableHistory]) -> None:
    """Nothing is known of it before its first poll and after it was forgotten."""
    watcher = Watcher(open_storage, SkippingClock())
    assert watcher.backlog("a") is None
    with pytest.raises(TryLater):
        watcher.snapshot("a")
    watcher.poll("a", str(histories[0].base))
    watcher.forget("a")
    watcher.forget("a")
    with pytest.raises(TryLater):
        watcher.service_instants("a")


def test_a_name_that_means_another_table_now(histories: list[TableHistory]) -> None:
    """After a reload of the configuration the old view is not asked any more; nor with another time zone."""
    watcher = Watcher(open_storage, SkippingClock())
    watcher.poll("a", str(histories[0].base))
    assert watcher.poll("a", str(histories[1].base)).rebuilt
    assert watcher.snapshot("a").base_path == str(histories[1].base)
    assert watcher.poll("a", str(histories[1].base), timezone="UTC").rebuilt


class Gate(LocalStorage):
    """Lets a listing begin and holds it there."""

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Event()
        self.go_on = threading.Event()

    def list(self, folder: str) -> list[FileStatus]:
        self.began.set()
        assert self.go_on.wait(10)
        return super().list(folder)


def test_a_slow_table_holds_up_no_other(histories: list[TableHistory]) -> None:
    """While one table is scanned, another is; the same one waits for its own lock."""
    slow = Gate()

    def open_one(location: str) -> tuple[Storage, str]:
        storage, path = open_storage(location)
        return (slow if location == str(histories[0].base) else storage), path

    watcher = Watcher(open_one, SkippingClock())
    thread = threading.Thread(target=watcher.poll, args=("slow", str(histories[0].base)))
    thread.start()
    assert slow.began.wait(10)

    assert watcher.poll("b", str(histories[1].base)).changed
    watcher.forget("b")

    slow.go_on.set()
    thread.join(10)
    assert watcher.snapshot("slow").file_groups


def test_watching_imports_no_library_of_work() -> None:
    """Arrow, Numba and Spark are a hundred megabytes that a daemon at rest does not need."""
    code = (
        "import sys, lakeward.daemon.work.watcher, lakeward.services.compaction.plan.planner\n"
        "print([name for name in ('numba', 'numpy', 'pandas', 'pyarrow', 'pyspark') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
