"""A damaged file is moved away, and what can be read of it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import StoreBroken
from lakeward.daemon.history.rebuild import salvage
from lakeward.state.migration import migrate
from lakeward.state.records import ParkedRecord
from lakeward.state.store import open_store
from tests.clocks import SettableClock
from tests.state.state_records import NOW, decision, pause


def damaged_store(path: Path, clock: SettableClock) -> str:
    """A store with controls, whose decisions are torn."""
    url = f"sqlite:///{path}"
    migrate(url)
    store = open_store(url, clock=clock)
    store.observations.watch("orders", "/lake/orders", NOW)
    store.controls.add(pause(until=clock.now() + 60))
    store.controls.add(pause("other", until=clock.now() - 1))
    store.controls.park(ParkedRecord("orders", ("p", "fg1"), "failed", "five times", 5, NOW))
    size = path.stat().st_size
    store.observations.record_decisions("orders", NOW, None, [decision(f"fg{n}") for n in range(900)])
    store.close()
    data = bytearray(path.read_bytes())
    assert len(data) > size + 16384
    data[size + 8192 : size + 12288] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(StoreBroken):
        open_store(url, clock=clock)
    return url


def test_what_can_be_read_is_kept(tmp_path: Path, clock: SettableClock) -> None:
    """Keeps 3 of daemon/history/rebuild: identity, tables, controls in force and parked groups; the file itself stays,
    under another name."""
    path = tmp_path / "lakeward.db"
    url = damaged_store(path, clock)
    (tmp_path / "lakeward.db-journal").write_bytes(b"")
    salvaged = salvage(url, now=clock.now())
    assert not path.exists() and salvaged.kept_as.exists()
    assert not (tmp_path / "lakeward.db-journal").exists(), "a journal left behind would be played into the new file"
    assert salvaged.store_id is not None
    assert [control.target for control in salvaged.controls] == ["orders"]
    assert [parked.file_group for parked in salvaged.parked] == [("p", "fg1")]
    assert [table["base_path"] for table in salvaged.tables] == ["/lake/orders"]
    assert salvaged.unreadable == ()


def test_of_garbage_nothing_is_read(tmp_path: Path, clock: SettableClock) -> None:
    """It says so, instead of failing."""
    path = tmp_path / "lakeward.db"
    path.write_bytes(b"no database at all" * 100)
    salvaged = salvage(f"sqlite:///{path}", now=clock.now())
    assert salvaged.store_id is None and salvaged.controls == () and salvaged.parked == ()
    assert set(salvaged.unreadable) == {"store_identity", "controls", "parked_groups", "watched_tables"}
    assert salvaged.kept_as.read_bytes() == b"no database at all" * 100
