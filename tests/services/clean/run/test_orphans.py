"""Orphan files of a table: found, recorded, set aside a day later, and put back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lakeward.base.errors import UsageError
from lakeward.protocol.attempts.attempt_files import temp_folder
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.run.orphans import OrphanReport, look, restore_orphans, set_orphans_aside
from lakeward.services.clean.run.purge import purge_quarantine
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.quarantine import load_quarantine
from lakeward.table.stray_record import load_recorded
from tests.crash.compacting import check_readable
from tests.faults import FaultyStorage
from tests.memory_objects import MemoryObjects, Objects
from tests.object_lake import BASE
from tests.object_tables import bring, fetch
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import TIMELINE, compacted, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table

DAY = 86400.0


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compacted("v9", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden, tmp_path / "table", copy_function=shutil.copy2))


def stray_instant(base: Path) -> str:
    """An instant after the start of the timeline that is on neither timeline."""
    first = min(path.name.split("_")[0].split(".")[0] for path in (base / TIMELINE).glob("2*"))
    return str(int(first) + 1)


def add_stray(base: Path) -> str:
    """A base file that no instant owns, three days old."""
    path = f"p/b7a5e4f0-0000-4000-8000-000000000000-0_0-0-0_{stray_instant(base)}.parquet"
    (base / path).write_bytes(b"stray")
    then = (base / path).stat().st_mtime - 3 * DAY
    os.utime(base / path, (then, then))
    return path


def table_at(base: Path | str, storage: Storage, after: float = 0.0, **options: object) -> ServicedTable:
    table = serviced_table(str(base), storage, ScriptedProcesses(), **options)
    table.clock.sleep(after)
    return table


def set_aside(base: Path | str, storage: Storage | None = None, after: float = 0.0, **options: object) -> OrphanReport:
    return set_orphans_aside(
        table_at(base, storage or LocalStorage(), after, **options), age_seconds=DAY, keep_seconds=DAY
    )


def test_a_look_writes_nothing(base: Path):
    """It names the file and what proves it. Keeps 1 of services/clean/run/orphans."""
    path = add_stray(base)
    storage = FaultyStorage()
    (decision,) = look(table_at(base, storage), age_seconds=DAY)

    assert decision.file.path == path and decision.proof == "no-instant" and decision.keepers == ("recorded-lately",)
    assert not (base / ".hoodie/.quarantine").exists()
    assert not [call for call in storage.calls if call.split()[0] in ("create", "move", "rename", "delete", "remove")]


def test_two_calls_a_day_apart_set_it_aside(base: Path):
    """The first records it, one in between changes nothing, and the readers see the same; what was set aside can be
    put back, or is purged by its time. Keeps 4 of services/clean/run/orphans."""
    path = add_stray(base)
    before = data_files(base)
    assert (set_aside(base).recorded, set_aside(base, after=DAY / 2).run) == (1, None)
    assert data_files(base) == before
    run = set_aside(base, after=DAY + 60).run
    assert run is not None and before - data_files(base) == {path}
    assert load_recorded(LocalStorage(), str(base)) == {}
    check_readable(base)

    assert len(restore_orphans(table_at(base, LocalStorage()), run).files) == 1
    assert data_files(base) == before and (base / path).read_bytes() == b"stray"
    with pytest.raises(UsageError):
        restore_orphans(table_at(base, LocalStorage()), run)
    set_aside(base)
    assert set_aside(base, after=DAY + 60).run is not None
    assert len(purge_quarantine(table_at(base, LocalStorage(), 3 * DAY), bytes_max=None)) == 1
    assert before - data_files(base) == {path} and load_quarantine(LocalStorage(), str(base)).runs == ()


@pytest.mark.parametrize("sign", ["heartbeat", "markers", "pending"])
def test_a_sign_of_its_writer_keeps_it(base: Path, sign: str):
    """It is asked again under the lock, and what is no candidate any more is forgotten. Keeps 2 and 3 of
    services/clean/run/orphans."""
    path = add_stray(base)
    set_aside(base)
    instant = stray_instant(base)
    if sign == "heartbeat":
        heartbeat = Path(heartbeat_path(str(base), instant))
        heartbeat.parent.mkdir(exist_ok=True)
        heartbeat.write_bytes(b"")
    elif sign == "markers":
        Path(temp_folder(str(base), instant)).mkdir(parents=True)
    else:
        (base / TIMELINE / f"{instant}.deltacommit.requested").write_bytes(b"")
    report = set_aside(base, after=DAY + 60)

    assert report.run is None and (base / path).exists()
    assert load_recorded(LocalStorage(), str(base)) == {}


def test_what_comes_between_the_look_and_the_lock_keeps_it(base: Path):
    """Keeps 2 of services/clean/run/orphans."""
    path = add_stray(base)
    set_aside(base)

    class Storing(LocalStorage):
        def create(self, at: str, data: bytes) -> None:
            if at.endswith("/lock"):
                (base / TIMELINE / f"{stray_instant(base)}.deltacommit.requested").touch()
            super().create(at, data)

    assert set_aside(base, Storing(), after=DAY + 60).run is None
    assert (base / path).exists()


def test_in_an_object_store_it_is_deleted_after_a_third_look(base: Path, tmp_path: Path):
    """It stands in its place until then; if its instant is on the timeline by then, it stays."""
    path = add_stray(base)
    objects, lock = Objects(), StorageLockOptions(wait_seconds=0.0)
    store = MemoryObjects(objects)
    bring(base, store, BASE)
    set_aside(BASE, store, after=DAY, lock=lock)
    assert set_aside(BASE, store, after=2 * DAY + 60, lock=lock).run is not None
    kept = Objects(dict(objects.data), objects.versions)
    assert store.stat(f"{BASE}/{path}") is not None
    purge_quarantine(table_at(BASE, store, 4 * DAY, lock=lock), bytes_max=None)
    assert store.stat(f"{BASE}/{path}") is None

    other = MemoryObjects(kept)
    other.create(f"{BASE}/{TIMELINE}/{stray_instant(base)}.deltacommit.requested", b"")
    purge_quarantine(table_at(BASE, other, 4 * DAY, lock=lock), bytes_max=None)
    assert other.stat(f"{BASE}/{path}") is not None
    fetch(store, BASE, tmp_path / "fetched")
