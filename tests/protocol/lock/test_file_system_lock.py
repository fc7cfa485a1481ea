"""The file-system lock, as Hudi's provider and our own processes see it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from lakeward.base.errors import LockHeld, LockLost
from lakeward.protocol.lock.file_system_lock import (
    FLINK_LOCK,
    RELEASE_TRIES,
    RENEW_SECONDS,
    SPARK_LOCK,
    WATCH_SECONDS,
    FileSystemLock,
    FileSystemLockOptions,
)
from tests.clocks import SettableClock, SkippingClock
from tests.faults import FaultyStorage
from tests.processes import ScriptedProcesses


class Table:
    """A base path with two processes that want its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = SkippingClock()
        self.processes = ScriptedProcesses()
        self.storage = FaultyStorage()

    def lock(self, **options: object) -> FileSystemLock:
        return FileSystemLock(
            self.storage,
            str(self.path),
            self.processes.new_owner(),
            FileSystemLockOptions(**options),  # type: ignore[arg-type]
            clock=self.clock,
            processes=self.processes,
        )

    def place_foreign(self, name: str = SPARK_LOCK, *, age_seconds: float = 0.0) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (time.time() - age_seconds,) * 2)
        return path


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_both_paths_are_taken_and_released_in_reverse(table: Table) -> None:
    """Spark's path is taken first, Flink's second, and they are released the other way round."""
    with table.lock():
        assert (table.path / SPARK_LOCK).exists()
        assert (table.path / FLINK_LOCK).exists()
    assert not (table.path / SPARK_LOCK).exists()
    assert not (table.path / FLINK_LOCK).exists()
    effects = [call.rpartition("/.hoodie/") for call in table.storage.calls if call.startswith(("create", "delete"))]
    assert [(before.split()[0], name) for before, _, name in effects] == [
        ("create", "lock"),
        ("create", ".aux/lock"),
        ("delete", ".aux/lock"),
        ("delete", "lock"),
    ]


def test_the_lock_file_names_its_process(table: Table) -> None:
    """The line holds Hudi's own fields and Lakeward's."""
    with table.lock():
        fields = json.loads((table.path / SPARK_LOCK).read_text())
    assert {"lockCreateTime", "lockThreadName", "lockStacksInfo", "attempt", "pid"} <= fields.keys()


def test_a_foreign_lock_never_expires(table: Table) -> None:
    """It may be of any age: without the writers' expiry we wait, then say who holds it, and leave it. Keeps 1 of
    protocol/lock/file_system_lock."""
    foreign = table.place_foreign(age_seconds=30 * 86400)
    with pytest.raises(LockHeld) as error, table.lock(wait_seconds=60):
        pass
    assert table.clock.slept >= 59  # the rest passed for real
    assert error.value.exit_code == 5
    assert str(foreign) in error.value.what
    assert foreign.exists()


def test_a_lock_half_taken_is_released(table: Table) -> None:
    """When the second path is held, the first is released."""
    table.place_foreign(FLINK_LOCK)
    with pytest.raises(LockHeld), table.lock(wait_seconds=1):
        pass
    assert not (table.path / SPARK_LOCK).exists()
    assert (table.path / FLINK_LOCK).exists()


def test_an_expired_foreign_lock_is_taken_over(table: Table) -> None:
    """With --lock-expire, a lock older than that is free once we have looked on for a while, however short we wait for
    locks; a younger one is not."""
    table.place_foreign(age_seconds=50)
    with pytest.raises(LockHeld), table.lock(wait_seconds=1, expire_seconds=60.0):
        pass
    table.place_foreign(age_seconds=70)
    slept = table.clock.slept
    with table.lock(wait_seconds=1, expire_seconds=60.0) as lock:
        lock.fence()
    assert WATCH_SECONDS - 2 < table.clock.slept - slept < WATCH_SECONDS + 1
    assert not (table.path / SPARK_LOCK).exists()
    assert not list((table.path / ".hoodie").glob("lock*"))


@pytest.mark.parametrize("step", [1.0, -1.0, 600.0, -600.0])
def test_a_step_of_the_clock_ends_no_lock_that_is_renewed(table: Table, step: float) -> None:
    """A process that waits for the lock sees that it is renewed, however old it looks; nor does a machine that wakes up
    end one. Keeps 4 of protocol/lock/file_system_lock."""
    clock = SettableClock(time.time())
    table.clock = clock  # type: ignore[assignment]
    path = table.path / SPARK_LOCK

    def renew() -> None:
        holder.renew()
        os.utime(path, (clock.now(),) * 2)

    def on_wait(what: str, seconds: float) -> None:
        if clock.monotonic() - renewed[-1] >= RENEW_SECONDS:
            renew()
            renewed.append(clock.monotonic())

    with table.lock(paths=(SPARK_LOCK,)) as holder:
        renew()
        renewed = [clock.monotonic()]
        clock.step(step)
        waiting = table.lock(paths=(SPARK_LOCK,), wait_seconds=100.0, expire_seconds=60.0)
        waiting._on_wait = on_wait
        with pytest.raises(LockHeld):
            waiting.acquire()
        holder.fence()
        assert len(renewed) > 3


def test_a_live_writers_lock_outlives_a_step_of_the_clock(table: Table) -> None:
    """Hudi renews none; it releases it soon, and that is waited for."""
    path = table.place_foreign(age_seconds=5)
    table.clock.slept += 600.0
    lock = table.lock(wait_seconds=60, expire_seconds=60.0)
    shown: list[str] = []

    def on_wait(what: str, seconds: float) -> None:
        shown.append(what)
        if seconds > 10 and path.exists():
            assert path.read_bytes() == b""
            path.unlink()

    lock._on_wait = on_wait
    with lock:
        assert "old enough to expire" in shown[0]
        assert table.clock.slept < 600 + 15


def test_a_dead_process_of_lakeward_holds_nothing(table: Table) -> None:
    """The lock of a process that is provably dead is taken over at once; that of a living one is waited for."""
    table.lock(wait_seconds=1).__enter__()
    with pytest.raises(LockHeld), table.lock(wait_seconds=1):
        pass
    table.processes.kill_all()
    slept = table.clock.slept
    with table.lock(wait_seconds=1):
        assert table.clock.slept == slept


def test_a_stolen_lock_is_noticed_and_not_released(table: Table) -> None:
    """A holder whose lock was taken from it may not publish, and leaves its successor's lock alone. Keeps 3 of
    protocol/lock/file_system_lock."""
    with table.lock() as lock:
        lock.fence()
        (table.path / SPARK_LOCK).unlink()
        table.place_foreign()
        with pytest.raises(LockLost):
            lock.fence()
    assert (table.path / SPARK_LOCK).exists()


def test_a_lost_reply_does_not_lock_us_out(tmp_path: Path) -> None:
    """A create that was carried out and answered 'exists' is recognised by our own line."""
    table = Table(tmp_path)
    lock = table.lock(wait_seconds=0)
    with lock:
        pass
    path = tmp_path / SPARK_LOCK
    path.write_bytes(lock._line)
    with lock:
        lock.fence()


class Refusing(FaultyStorage):
    """Fails so many deletions of lock files."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def delete(self, path: str) -> bool:
        if self.times > 0:
            self.times -= 1
            raise OSError("the storage is away")
        return super().delete(path)


def test_a_release_that_fails_is_tried_again(table: Table) -> None:
    """Every writer of the table waits for it, and a daemon does not end to set it free."""
    table.storage = Refusing(times=RELEASE_TRIES - 1)
    with table.lock():
        pass
    assert list(table.path.rglob("lock")) == []


def test_what_cannot_be_released_is_free_for_the_next_attempt_of_the_process(table: Table) -> None:
    """A process that lives on would hold it for ever otherwise; and one path that fails does not keep the other."""
    table.storage = Refusing(times=RELEASE_TRIES)
    with pytest.raises(OSError, match="away"), table.lock():
        pass
    assert [path.name for path in (table.path / ".hoodie").iterdir() if path.is_file()] == []
    assert (table.path / FLINK_LOCK).exists()
    with table.lock(wait_seconds=0) as lock:
        lock.fence()
    assert list(table.path.rglob("lock")) == []


def test_a_lock_whose_creation_lost_its_reply_is_given_back(table: Table) -> None:
    """The creation raised, and the file is there: no other process would ever remove it."""

    class Forgetful(FaultyStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path.endswith(FLINK_LOCK):
                raise OSError("the reply was lost")

    table.storage = Forgetful()
    with pytest.raises(OSError, match="reply"), table.lock():
        pass
    assert list(table.path.rglob("lock")) == []


def test_the_dead_are_freed_without_taking_the_lock(table: Table) -> None:
    """A process that may judge the holder and has no work here frees it; a living holder keeps it."""
    table.lock(wait_seconds=1).__enter__()
    other = table.lock()
    other.free_dead()
    assert (table.path / SPARK_LOCK).exists()
    table.processes.kill_all()
    other.free_dead()
    assert list(table.path.rglob("lock*")) == []


def test_a_lock_that_changed_hands_while_it_was_judged_is_put_back(table: Table) -> None:
    """t0 we judge A dead; t1 another process frees A and makes B; t2 we rename B away, see it, and put it back. Keeps 2
    of protocol/lock/file_system_lock."""
    path = table.path / SPARK_LOCK

    class Overtaken(FaultyStorage):
        def rename(self, source: str, target: str) -> None:
            if source == str(path):
                path.unlink()
                path.write_bytes(b"B")
            super().rename(source, target)

    table.storage = Overtaken()
    table.place_foreign(age_seconds=70)
    with pytest.raises(LockHeld), table.lock(wait_seconds=1, expire_seconds=60.0):
        pass
    assert path.read_bytes() == b"B"
