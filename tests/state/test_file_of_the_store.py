"""The SQLite file under a running daemon: deleted, moved away, replaced by a copy, by another store, by anything."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeward.base.errors import LakewardError, StoreBroken, StoreUnavailable, StoreVersion
from lakeward.state import engine
from lakeward.state.migration import migrate
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock
from tests.state.state_records import pause


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the store judge at once: no process is about to put another file there."""
    monkeypatch.setattr(engine, "MISSING_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "lakeward.db"


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(1_800_000_000.0)


@pytest.fixture
def store(path: Path, clock: SettableClock) -> Iterator[Store]:
    migrate(f"sqlite:///{path}")
    store = open_store(f"sqlite:///{path}", clock=clock, timeout=0.5)
    store.controls.add(pause("orders"))
    yield store
    store.close()


def paused(store: Store) -> list[str]:
    return [control.target for control in store.controls.in_force(0.0)]


def others(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir() if not entry.name.startswith("lakeward.db"))


@pytest.mark.parametrize("how", ["deleted", "moved", "folder deleted"])
def test_a_file_that_is_gone_is_written_again(
    store: Store, path: Path, tmp_path: Path, clock: SettableClock, how: str
) -> None:
    """It has everything that the old one held: pauses, leases, identity. What is written afterwards is in the new
    one."""
    who = store.store_id()
    lease = store.leases.acquire("orders", "me", 60, clock.now())
    assert lease is not None
    if how == "deleted":
        path.unlink()
    elif how == "moved":
        path.rename(tmp_path / "aside")
    else:
        shutil.rmtree(path.parent)

    store.controls.add(pause("lines"))

    assert sorted(paused(store)) == ["lines", "orders"]
    assert store.store_id() == who
    assert [each.holder for each in store.leases.held(clock.now())] == ["me"]
    assert [each.token for each in store.leases.renew([lease], 60, clock.now())] == [lease.token]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert others(path) == []
    again = open_store(f"sqlite:///{path}", clock=clock)
    assert sorted(paused(again)) == ["lines", "orders"]
    again.close()


def test_a_copy_in_its_place_is_what_counts(store: Store, path: Path, tmp_path: Path) -> None:
    """A backup that was moved there, while the daemon runs: read and written from the next call on."""
    shutil.copy(path, tmp_path / "backup")
    store.controls.add(pause("lines"))
    os.replace(tmp_path / "backup", path)

    assert paused(store) == ["orders"]
    store.controls.add(pause("stock"))
    assert sorted(paused(store)) == ["orders", "stock"]


@pytest.mark.parametrize(
    ("content", "error"), [(b"", StoreVersion), (b"no database at all" * 500, StoreBroken), (None, StoreVersion)]
)
def test_what_is_no_store_of_lakeward_is_not_touched(
    store: Store, path: Path, tmp_path: Path, clock: SettableClock, content: bytes | None, error: type[LakewardError]
) -> None:
    """Keeps 6 of state/engine: an empty file, anything, or another store in its place: an error at every call,
    until the file is back."""
    os.rename(path, tmp_path / "own")
    if content is None:
        migrate(f"sqlite:///{path}")
    else:
        path.write_bytes(content)
    before = path.read_bytes()

    for _ in range(2):
        with pytest.raises(error):
            store.controls.add(pause("lines"))
        with pytest.raises(error):
            store.controls.in_force(0.0)
    assert path.read_bytes() == before

    os.replace(tmp_path / "own", path)
    assert paused(store) == ["orders"]
    store.controls.add(pause("lines"))
    assert sorted(paused(store)) == ["lines", "orders"]


def test_another_process_may_be_about_to_put_a_file_there(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For some seconds a file that is gone is an error and nothing more: it is not made, so no copy meets the
    store's."""
    monkeypatch.setattr(engine, "MISSING_SECONDS", 60.0)
    path.rename(tmp_path / "aside")
    with pytest.raises(StoreUnavailable, match="its file is gone"):
        store.controls.in_force(0.0)
    assert not path.exists()

    shutil.copy(tmp_path / "aside", path)
    assert paused(store) == ["orders"]


def test_two_daemons_write_it_again_once(store: Store, path: Path, clock: SettableClock) -> None:
    """Several daemons of one machine share the file: the first one writes it, and all go on with it."""
    stores = [store, *(open_store(f"sqlite:///{path}", clock=clock) for _ in range(3))]
    for each in stores:
        assert paused(each) == ["orders"]
    path.unlink()
    names = [f"table {number}" for number in range(len(stores))]
    writers = [
        threading.Thread(target=each.controls.add, args=(pause(name),))
        for each, name in zip(stores, names, strict=True)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    for each in stores:
        assert sorted(paused(each)) == sorted(["orders", *names])
    for each in stores[1:]:
        each.close()
    assert others(path) == []


def test_a_file_that_cannot_be_written_again_is_an_error(store: Store, path: Path, tmp_path: Path) -> None:
    """A store whose folder is a file now, for one, cannot be; when that is over, all goes on."""
    path.parent.rename(tmp_path / "away")
    path.parent.write_text("no folder")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        store.controls.in_force(0.0)
    path.parent.unlink()
    assert paused(store) == ["orders"]
