"""`hoodie.properties` is changed so that readers find the old or the new content at every moment."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, LockLost, NotATable
from lakeward.format.java_properties import parse_properties
from lakeward.protocol.table_properties import recover_properties, update_properties
from lakeward.storage.local import LocalStorage
from lakeward.table.table_config import load_table_config
from tests.clocks import SkippingClock
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.golden_tables import copy_golden

KEY = "hoodie.table.metadata.partitions"
CHANGES = {KEY: "", "hoodie.new": "ü = :"}


def hold() -> None:
    """The lock is this process's."""


def lose() -> None:
    raise LockLost


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_golden("v9_metadata", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return copy_of(golden, tmp_path / "table")


def copy_of(golden: Path, base: Path) -> Path:
    """What an update touches of it."""
    (base / ".hoodie").mkdir(parents=True)
    shutil.copy(golden / ".hoodie" / "hoodie.properties", base / ".hoodie")
    return base


def read(base: Path) -> dict[str, str]:
    """The properties that every reader finds."""
    loaded = load_table_config(LocalStorage(), str(base), clock=SkippingClock())
    assert loaded.checksum_ok
    return dict(loaded.config.properties)


def update(base: Path, storage: LocalStorage | FaultyStorage | None = None) -> bool:
    return update_properties(storage or LocalStorage(), str(base), CHANGES, fence=hold)


def names(base: Path) -> set[str]:
    return {path.name for path in (base / ".hoodie").iterdir() if path.is_file()}


def test_other_keys_keep_their_values(base: Path):
    """The checksum among them, where name and database are the same; and no backup is left. Keeps 2 of
    protocol/table_properties."""
    before = read(base)

    assert update(base)
    assert read(base) == {**before, **CHANGES}
    assert names(base) == {"hoodie.properties"}


def test_nothing_is_written_where_nothing_changes(base: Path):
    """The same content is not written again either."""
    update(base)
    written = (base / ".hoodie" / "hoodie.properties").stat().st_ino

    assert not update(base)
    assert (base / ".hoodie" / "hoodie.properties").stat().st_ino == written


@pytest.mark.parametrize("kind", FaultKind)
def test_stopped_at_every_call_it_is_read_and_finished(golden: Path, tmp_path: Path, kind: FaultKind):
    """Readers see the old or the new values; who comes next needs no help, and ends with the new ones. Keeps 1 of
    protocol/table_properties."""
    trial = FaultyStorage()
    before = read(copy_of(golden, tmp_path / "trial"))
    update(tmp_path / "trial", trial)  # type: ignore[arg-type]
    assert len(trial.calls) > 6
    for call in range(len(trial.calls)):
        base = copy_of(golden, tmp_path / f"table{call}")
        with suppress(OSError, Killed):  # the reply that is lost may be that there is no backup
            update(base, FaultyStorage(Fault(kind, call)))
        assert read(base) in (before, {**before, **CHANGES})
        update(base)
        assert read(base) == {**before, **CHANGES}
        assert {name for name in names(base) if "lakeward-tmp" not in name} == {"hoodie.properties"}


def test_keys_of_a_later_version_go_with_it(base: Path):
    """What an older version does not have is not what a torn file lacks: a process that finds the backup keeps the new
    file. Without an older version it is."""
    later = {"hoodie.table.version": "10", "hoodie.meta.fields.mode": "ALL", "hoodie.table.storage.layout": "default"}
    before = read(base)
    update_properties(LocalStorage(), str(base), later, fence=hold)
    path = base / ".hoodie" / "hoodie.properties"
    saved = path.read_bytes()
    back = {"hoodie.table.version": "9", "hoodie.meta.fields.mode": None, "hoodie.table.storage.layout": None}
    assert update_properties(LocalStorage(), str(base), back, fence=hold)
    assert not update_properties(LocalStorage(), str(base), back, fence=hold)
    assert read(base) == before

    (base / ".hoodie" / "hoodie.properties.backup").write_bytes(saved)
    assert recover_properties(LocalStorage(), str(base), fence=hold)
    assert (read(base), names(base)) == (before, {"hoodie.properties"})

    (base / ".hoodie" / "hoodie.properties.backup").write_bytes(saved)
    path.write_bytes(saved.replace(b"hoodie.meta.fields.mode=ALL\n", b""))
    assert recover_properties(LocalStorage(), str(base), fence=hold)
    assert path.read_bytes() == saved


def test_nothing_is_deleted_once_the_lock_is_lost(base: Path):
    """What another process is about to write must not be hit. Keeps 3 of protocol/table_properties."""
    before = read(base)
    with pytest.raises(LockLost):
        update_properties(LocalStorage(), str(base), CHANGES, fence=lose)
    assert names(base) == {"hoodie.properties"}
    assert read(base) == before


@pytest.mark.parametrize("cut", [0, 0.5, 0.9])
def test_what_a_hudi_writer_left_torn_is_restored(base: Path, cut: float):
    """Its files grow; the line with the checksum may be there when the end is not."""
    path = base / ".hoodie" / "hoodie.properties"
    whole = path.read_bytes()
    (base / ".hoodie" / "hoodie.properties.backup").write_bytes(whole)
    torn = whole[: int(len(whole) * cut)]
    path.write_bytes(torn[: torn.rfind(b"\n") + 1])  # the hard case: cut between two lines

    assert recover_properties(LocalStorage(), str(base), fence=hold)
    assert path.read_bytes() == whole
    assert names(base) == {"hoodie.properties"}


def test_a_torn_backup_is_deleted(base: Path):
    """The update died before anything of the properties was deleted."""
    path = base / ".hoodie" / "hoodie.properties"
    whole = path.read_bytes()
    (base / ".hoodie" / "hoodie.properties.backup").write_bytes(whole[:300])

    assert recover_properties(LocalStorage(), str(base), fence=hold)
    assert path.read_bytes() == whole
    assert not recover_properties(LocalStorage(), str(base), fence=hold)


def test_what_cannot_be_relied_on_is_not_touched(base: Path):
    """Nothing is written where no file is whole, nor where there is none."""
    path = base / ".hoodie" / "hoodie.properties"
    edited = path.read_bytes().replace(b"hoodie.table.name=golden", b"hoodie.table.name=other")
    path.write_bytes(edited)
    with pytest.raises(BrokenFile):
        update(base)
    (base / ".hoodie" / "hoodie.properties.backup").write_bytes(edited)
    with pytest.raises(BrokenFile):
        recover_properties(LocalStorage(), str(base), fence=hold)
    assert path.read_bytes() == edited
    assert parse_properties(edited)["hoodie.table.name"] == "other"
    for file in (base / ".hoodie").glob("hoodie.properties*"):
        file.unlink()
    with pytest.raises(NotATable):
        update(base)
