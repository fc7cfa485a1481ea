"""The lock in a real ZooKeeper: who has it, how it is lost, and what its holder learns of that."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import LockHeld, LockLost, LockServiceAway, Refused
from lakeward.protocol.lock import zookeeper_lock
from lakeward.protocol.lock.zookeeper_lock import ZooKeeperLock, implicit_base_path
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions, check_node_path, check_servers
from lakeward.protocol.owner import Processes
from lakeward.storage.local import LocalStorage
from tests.golden_tables import copy_golden

if TYPE_CHECKING:
    from tests.servers import ZooKeeperServer

SHORT = 1.0
"""Seconds of the shortest session that the server allows."""


class Place:
    """The lock of one table, in a place of its own."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self.server = server
        self.path = f"/{uuid.uuid4().hex}"
        self.client = server.client()

    def lock(self, table: str = "/data/orders", on_wait: Any = None, **options: Any) -> ZooKeeperLock:
        given = {"url": self.server.url, "base_path": self.path, "lock_key": "orders", "wait_seconds": 20.0} | options
        return ZooKeeperLock(
            LocalStorage(),
            table,
            Processes().new_owner(),
            ZooKeeperLockOptions(**given),
            clock=SystemClock(),
            on_wait=on_wait or (lambda what, seconds: None),
        )

    @property
    def queue(self) -> list[str]:
        return sorted(self.client.get_children(f"{self.path}/orders"), key=lambda name: name[-10:])

    def make_node(self, data: bytes) -> str:
        """Makes a node in the queue like Hudi."""
        prefix = f"{self.path}/orders/_c_{uuid.uuid4()}-lock-"
        made: str = self.client.create(prefix, data, ephemeral=True, sequence=True, makepath=True)
        return made

    def expire(self, lock: ZooKeeperLock) -> None:
        assert lock._client is not None
        self.server.expire(lock._client.client_id)


class Contender:
    """Wants the lock on a thread of its own, and keeps it until it is asked to let go."""

    def __init__(self, lock: ZooKeeperLock) -> None:
        self.lock = lock
        self.held = threading.Event()
        self._let_go = threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self._thread.start()

    def finish(self) -> None:
        self._let_go.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _hold(self) -> None:
        with self.lock:
            self.held.set()
            self._let_go.wait(30)
            self.lock.fence()


class OtherProcess:
    """Does with the lock what it is asked, in a process of its own."""

    def __init__(self, place: Place) -> None:
        command = [sys.executable, "-m", "tests.protocol.lock.lock_process", place.server.url, place.path, str(SHORT)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, words: str) -> str:
        self.send(words)
        return self.answer()


@contextmanager
def other_process(place: Place) -> Iterator[OtherProcess]:
    other = OtherProcess(place)
    try:
        yield other
    finally:
        other.process.kill()
        other.process.communicate()


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Iterator[Place]:
    place = Place(zookeeper)
    yield place
    place.client.stop()
    place.client.close()


def wait_until(seconds: float, is_so: Any) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# ------------------------------------------------------------------------------------------------------- holding it


@pytest.mark.services
def test_it_is_taken_fenced_and_released(place: Place) -> None:
    """One node while it is held, named as Curator names its own; none afterwards."""
    with place.lock() as lock:
        lock.fence()
        (name,) = place.queue
        lock.fence()
    assert name.startswith("_c_")
    assert name[:-10].endswith("-lock-")
    assert name[-10:].isdigit()
    assert place.queue == []


@pytest.mark.services
def test_releasing_is_harmless(place: Place) -> None:
    """A lock may be released before it was taken, and twice."""
    lock = place.lock()
    lock.release()
    lock.acquire()
    lock.release()
    lock.release()
    with lock:
        lock.fence()
    assert place.queue == []


@pytest.mark.services
def test_those_who_wait_get_it_in_the_order_in_which_they_came(place: Place) -> None:
    """Processes that wait hear meanwhile what they wait for."""
    shown: list[str] = []
    first = place.lock()
    first.acquire()
    second = Contender(place.lock(on_wait=lambda what, seconds: shown.append(what)))
    wait_until(10, lambda: len(place.queue) == 2)
    third = Contender(place.lock())
    wait_until(10, lambda: len(place.queue) == 3)

    assert not second.held.wait(0.7)
    first.fence()  # a write to the node that the second watches, and no reason to believe that it is gone
    assert not second.held.wait(0.3)
    first.release()

    assert second.held.wait(10)
    assert not third.held.is_set()
    second.finish()
    assert third.held.wait(10)
    third.finish()
    assert set(shown) == {f"the table lock {place.path}/orders in ZooKeeper at {place.server.url} is held"}


@pytest.mark.services
@pytest.mark.parametrize("wait_seconds", [0.0, 0.6])
def test_who_holds_it_too_long_is_named(place: Place, wait_seconds: float) -> None:
    """The error names the holder after the time to wait, and nothing of Lakeward stays in the queue."""
    holder = place.make_node(b"application_id=app-7")
    with pytest.raises(LockHeld) as error, place.lock(wait_seconds=wait_seconds):
        pass
    assert error.value.exit_code == 5
    assert f"{place.path}/orders" in error.value.what
    assert place.server.url in error.value.what
    assert "application_id=app-7" in error.value.why
    assert place.queue == [holder.rpartition("/")[2]]


@pytest.mark.services
def test_a_busy_server_is_no_absent_one(place: Place) -> None:
    """A process that waits for no lock gets a free one also from a server that answers late."""
    with ExitStack() as silence:
        silence.enter_context(place.server.silenced())
        with place.lock(wait_seconds=0.0, on_wait=lambda what, seconds: silence.close()) as lock:
            lock.fence()


@pytest.mark.services
def test_a_process_of_lakeward_says_who_it_is(place: Place) -> None:
    """The node holds its process number and its host, for an operator who wants to know why a table waits."""
    with place.lock(), pytest.raises(LockHeld, match=r"Lakeward's process \d+ on "), place.lock(wait_seconds=0.0):
        pass


@pytest.mark.services
def test_who_waits_can_be_stopped(place: Place) -> None:
    """An error out of `on_wait` ends the waiting; the process leaves the queue."""

    def stop(what: str, seconds: float) -> None:
        raise ZeroDivisionError

    with place.lock():
        with pytest.raises(ZeroDivisionError), place.lock(on_wait=stop):
            pass
        assert len(place.queue) == 1


# -------------------------------------------------------------------------------------------------------- losing it


@pytest.mark.services
def test_a_session_that_ended_has_lost_the_lock(place: Place) -> None:
    """The fence raises, and what the loser then releases is not its successor's."""
    loser = place.lock()
    loser.acquire()
    place.expire(loser)
    with place.lock() as successor:
        with pytest.raises(LockLost) as error:
            loser.fence()
        loser.release()
        successor.fence()
    assert error.value.exit_code == 75
    assert "Nothing was published" in error.value.remedy


@pytest.mark.services
def test_a_node_that_was_removed_by_hand_is_a_lost_lock(place: Place) -> None:
    """The lock is lost although our session lives."""
    with place.lock() as lock:
        (name,) = place.queue
        place.client.delete(f"{place.path}/orders/{name}")
        with pytest.raises(LockLost, match="NoNodeError"):
            lock.fence()


@pytest.mark.services
def test_what_the_server_does_not_confirm_is_not_own(place: Place) -> None:
    """While it is silent the fence raises, in less time than the session has. The same session goes on afterwards.
    Keeps 1 of protocol/lock/zookeeper_lock."""
    with place.lock(session_seconds=6.0) as lock:
        with place.server.silenced():
            started = time.monotonic()
            with pytest.raises(LockLost, match="cannot be proved"):
                lock.fence()
            assert time.monotonic() - started < 6.0
        wait_until(10, lambda: _is_own(lock))


def _is_own(lock: ZooKeeperLock) -> bool:
    try:
        lock.fence()
    except LockLost:
        return False
    return True


@pytest.mark.services
def test_without_a_session_there_is_no_lock(place: Place) -> None:
    """A fence after the release, or before the lock was taken, is no proof."""
    with pytest.raises(LockLost):
        place.lock().fence()


@pytest.mark.services
def test_who_loses_its_session_while_it_waits_queues_up_again(place: Place) -> None:
    """No process is at fault; the one that lost its session comes last now."""
    first = place.lock()
    first.acquire()
    second = Contender(place.lock())
    wait_until(10, lambda: len(place.queue) == 2)
    (_, before) = place.queue
    place.expire(second.lock)
    wait_until(10, lambda: len(place.queue) == 2 and place.queue[1] != before)
    first.release()
    assert second.held.wait(10)
    second.finish()


@pytest.mark.services
def test_two_processes_exclude_each_other(place: Place, tmp_path: Path) -> None:
    """Each takes it ten times; a process that found the other's file would have died of it."""
    with other_process(place) as one, other_process(place) as two:
        for process in (one, two):
            process.send(f"work {tmp_path / 'alone'}")
        assert [one.answer(), two.answer()] == ["worked", "worked"]


@pytest.mark.services
def test_the_lock_of_a_dead_process_is_free_after_its_session(place: Place) -> None:
    """No process has to remove anything, and none gets it before."""
    with other_process(place) as other:
        assert other.ask("acquire") == "held"
        other.process.kill()
        other.process.wait()
        died = time.monotonic()
        with place.lock() as lock:
            assert time.monotonic() - died > SHORT / 2
            lock.fence()


@pytest.mark.services
def test_a_process_that_slept_through_its_session_learns_of_it(place: Place) -> None:
    """t0 it holds the lock and is stopped; t1 its session ends and we take the lock; t2 it goes on, and may not
    publish."""
    with other_process(place) as sleeper:
        assert sleeper.ask("acquire") == "held"
        assert sleeper.ask("fence") == "own"
        sleeper.process.send_signal(SIGSTOP)
        with place.lock() as lock:
            sleeper.process.send_signal(SIGCONT)
            assert sleeper.ask("fence") == "lost"
            assert sleeper.ask("release") == "released"
            lock.fence()


# --------------------------------------------------------------------------------------------------- where it lies


@pytest.mark.services
def test_without_a_key_it_is_called_as_the_table(place: Place, tmp_path: Path) -> None:
    """Hudi's writers call it so (hoodie.table.name)."""
    table = copy_golden("v9", tmp_path / "table")
    properties = (table / ".hoodie/hoodie.properties").read_text().splitlines()
    (name,) = [line.partition("=")[2] for line in properties if line.startswith("hoodie.table.name=")]
    with place.lock(table=str(table), lock_key=None):
        assert place.client.get_children(place.path) == [name]


@pytest.mark.services
def test_a_derived_place_is_the_writers_to_make(place: Place) -> None:
    """A missing node may not be where the writers' lock is: refused, and not made. A node that is there is the lock.
    Keeps 2 of protocol/lock/zookeeper_lock."""
    table = f"/data/{uuid.uuid4().hex}"
    derived = implicit_base_path(table)
    with pytest.raises(Refused) as error, place.lock(table=table, base_path=None, lock_key=None):
        pass
    assert f"{derived}/lock_key" in error.value.what
    assert place.client.exists(derived) is None
    place.client.ensure_path(f"{derived}/lock_key")
    with place.lock(table=table, base_path=None, lock_key=None):
        assert len(place.client.get_children(f"{derived}/lock_key")) == 1


@pytest.mark.parametrize(
    ("base_path", "derived"),
    [
        ("s3://my-bucket/my_lake/my_table", "/tmp/C0E15D0CE1AD11CC"),
        ("s3a://my-bucket/my_lake/my_table", "/tmp/C0E15D0CE1AD11CC"),
        ("S3A://my-bucket/my_lake/my_table", "/tmp/C0E15D0CE1AD11CC"),
    ],
)
def test_the_derived_place(base_path: str, derived: str) -> None:
    """Hudi's own tests pin this value; tables under s3a and s3 are the same."""
    assert implicit_base_path(base_path) == derived


@pytest.mark.services
def test_below_a_path_in_the_url(place: Place) -> None:
    """Hudi's client takes the same text."""
    place.client.ensure_path(f"{place.path}/below")
    with place.lock(url=f"{place.server.url}{place.path}/below", base_path="/locks") as lock:
        lock.fence()
        assert len(place.client.get_children(f"{place.path}/below/locks/orders")) == 1


def test_servers_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names them with their ports and says what to do; the process waits for a while, and can be stopped
    meanwhile."""
    monkeypatch.setattr(zookeeper_lock, "CONNECT_SECONDS", 0.6)
    shown: list[str] = []
    lock = ZooKeeperLock(
        LocalStorage(),
        str(tmp_path),
        Processes().new_owner(),
        ZooKeeperLockOptions("127.0.0.1:1,127.0.0.1:2", "/locks", "orders"),
        clock=SystemClock(),
        on_wait=lambda what, seconds: shown.append(what),
    )
    with pytest.raises(LockServiceAway) as error, lock:
        pass
    assert error.value.exit_code == 75
    assert "127.0.0.1:1,127.0.0.1:2" in error.value.what
    assert "--lock-zookeeper" in error.value.remedy
    assert set(shown) == {"ZooKeeper at 127.0.0.1:1,127.0.0.1:2 does not answer"}


@pytest.mark.parametrize("url", ["zk1", "zk1:2181", "zk1:2181,zk2:2182", "[::1]:2181", "10.0.0.1:2181/lake/prod"])
def test_what_is_a_list_of_servers(url: str) -> None:
    """Each server has a port, or ZooKeeper's own; a path stands after all of them."""
    check_servers(url)


@pytest.mark.parametrize(
    "url", ["", ",", "zk1,", ":2181", "zk1:99999", "http://zk1:2181", "zk1 zk2", "zk1:2181/a/", "h:1x"]
)
def test_what_is_none(url: str) -> None:
    """Reported before anything is tried."""
    with pytest.raises(ValueError, match="written like"):
        check_servers(url)


@pytest.mark.parametrize("path", ["", "/", "locks", "/locks/", "//locks", "/a/../b", "/a/./b"])
def test_what_is_no_path(path: str) -> None:
    """Neither ZooKeeper nor Hudi would take it."""
    with pytest.raises(ValueError, match="written like"):
        check_node_path(path)
