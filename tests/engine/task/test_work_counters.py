"""How far tasks of this machine are, by a file that they write and their driver reads."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import pytest

from lakeward.engine.task.work_counters import WRITE_SECONDS, CounterPlace, Counters, WorkCounters, WorkMeter
from lakeward.storage.first_reads import CHUNK_BYTES
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.clocks import SettableClock

SIZE = 100 * CHUNK_BYTES


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "source").write_bytes(bytes(SIZE))
    return str(tmp_path / "source")


def meter(place: CounterPlace | None, clock: SettableClock, *, read_bytes_max: int = SIZE) -> WorkMeter:
    return WorkMeter(place, read_bytes_max=read_bytes_max, monotonic=clock.monotonic)


def read(storage: Storage, path: str, size: int) -> None:
    with storage.open_input(path) as file:
        assert len(file.read(size)) == size


def test_each_task_has_a_place_and_the_driver_sees_their_sum(source: str) -> None:
    """Read, written and read back; at the end all of its input, which it may not have had to read."""
    clock = SettableClock()
    with WorkCounters(3, on_this_machine=True) as counters:
        assert counters.are_kept and counters.total() == Counters()
        first, last = meter(counters.place(0), clock), meter(counters.place(2), clock)
        read(first.reading(LocalStorage()), source, 10 * CHUNK_BYTES)
        read(last.reading(LocalStorage()), source, CHUNK_BYTES)
        assert counters.total() == Counters(11 * CHUNK_BYTES)
        clock.sleep(1.0)
        first.writing(io.BytesIO()).write(bytes(2 * CHUNK_BYTES + 5))
        clock.sleep(1.0)
        read(first.checking(LocalStorage()), source, 2 * CHUNK_BYTES)
        assert counters.total() == Counters(11 * CHUNK_BYTES, 2 * CHUNK_BYTES + 5, 2 * CHUNK_BYTES)
        first.finish()
        assert counters.total() == Counters(SIZE + CHUNK_BYTES, 2 * CHUNK_BYTES + 5, 2 * CHUNK_BYTES)


def test_a_task_writes_its_place_now_and_then(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of engine/task/work_counters, however often it reads; the cost of a report is not paid for each
    reading."""
    writes = []
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *given: writes.append(pwrite(*given)))
    clock = SettableClock()
    with WorkCounters(1, on_this_machine=True) as counters:
        watched = meter(counters.place(0), clock)
        with watched.reading(LocalStorage()).open_input(source) as file:
            for _ in range(100):
                assert file.read(CHUNK_BYTES)
                clock.sleep(WRITE_SECONDS / 10)
        assert 9 <= len(writes) <= 11


def test_the_numbers_never_go_down(source: str) -> None:
    """Keeps 1 of engine/task/work_counters: a second attempt begins with nothing, a place half written counts for
    nothing."""
    clock = SettableClock()
    with WorkCounters(1, on_this_machine=True) as counters:
        place = counters.place(0)
        read(meter(place, clock).reading(LocalStorage()), source, 10 * CHUNK_BYTES)
        assert counters.total() == Counters(10 * CHUNK_BYTES)
        read(meter(place, clock).reading(LocalStorage()), source, CHUNK_BYTES)
        assert counters.total() == Counters(10 * CHUNK_BYTES)
        assert place is not None
        with open(place.path, "r+b") as file:
            file.write(b"\xff" * 12)
        assert counters.total() == Counters(10 * CHUNK_BYTES)


def test_no_more_is_read_than_there_is_to_read(source: str) -> None:
    """Logs that are not merged are looked at, too."""
    clock = SettableClock()
    with WorkCounters(1, on_this_machine=True) as counters:
        read(meter(counters.place(0), clock, read_bytes_max=7).reading(LocalStorage()), source, SIZE)
        assert counters.total() == Counters(7)


def test_without_the_file_the_work_goes_on(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of engine/task/work_counters: there is no room for it, no driver looks any more, or the tasks are
    elsewhere."""
    clock = SettableClock()
    with WorkCounters(1, on_this_machine=True) as counters:
        late = counters.place(0)
    assert late is not None and not Path(late.path).exists()
    read(meter(late, clock).reading(LocalStorage()), source, SIZE)
    assert not Path(late.path).exists()
    with WorkCounters(1, on_this_machine=False) as elsewhere:
        assert (elsewhere.are_kept, elsewhere.place(0), elsewhere.total()) == (False, None, Counters())
    monkeypatch.setattr(tempfile, "mkstemp", _no_room)
    with WorkCounters(1, on_this_machine=True) as none:
        assert (none.are_kept, none.place(0), none.total()) == (False, None, Counters())


def _no_room(**given: object) -> None:
    raise OSError(28, "No space left on device")


def test_who_is_not_watched_goes_straight(source: str) -> None:
    """Nothing stands between the task and its files."""
    unwatched = meter(None, SettableClock())
    storage, sink = LocalStorage(), io.BytesIO()
    assert unwatched.reading(storage) is storage and unwatched.checking(storage) is storage
    assert unwatched.writing(sink) is sink
    unwatched.finish()
