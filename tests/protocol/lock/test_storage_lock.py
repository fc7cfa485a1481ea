"""The lock that is an object: who has it is what the store says, until the time in it, and a loser learns of that.

The clock is the tests' own; the store is a real server.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from lakeward.base.errors import BrokenFile, LockHeld, LockLost, LockServiceAway, NotFound, Refused
from lakeward.protocol.lock import storage_lock
from lakeward.protocol.lock.lock_choice import open_lock
from lakeward.protocol.lock.storage_lock import (
    CLOCK_BUFFER_SECONDS,
    FENCE_SECONDS_MIN,
    RENEW_SECONDS,
    VALIDITY_SECONDS,
    LockFile,
    StorageLock,
    StorageLockOptions,
    parse_lock_file,
)
from lakeward.protocol.owner import Owner
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from lakeward.storage.storage import Version
from tests.clocks import SettableClock
from tests.processes import ScriptedProcesses

if TYPE_CHECKING:
    from tests.servers import DroppingS3, S3Server

NOW = 1_795_233_779.0
STRANGER = "0d3adf46-8bb1-4b0f-9a43-fb0b1c4d7a11"


class Place:
    """The lock of one table, and a clock that stands still."""

    def __init__(self, bucket: str) -> None:
        self.base = f"{bucket}/orders"
        self.path = f"{self.base}/.hoodie/.locks/table_lock.json"
        self.clock = SettableClock(NOW)
        self.processes = ScriptedProcesses()
        self.storage = ObjectStore(parse_object_url(bucket), sleep=lambda seconds: None)

    def lock(self, on_wait: Any = None, storage: Any = None, **options: Any) -> StorageLock:
        return StorageLock(
            storage or self.storage,
            self.base,
            self.processes.new_owner(),
            StorageLockOptions(**({"wait_seconds": 0.0} | options)),
            clock=self.clock,
            processes=self.processes,
            on_wait=on_wait or (lambda what, seconds: None),
        )

    def taken(self, **options: Any) -> StorageLock:
        lock = self.lock(**options)
        lock.acquire()
        return lock

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.storage.read(self.path))
        return found

    def write(self, *, expired: bool = False, seconds: float = VALIDITY_SECONDS, owner: str = STRANGER) -> None:
        """Writes the lock file like Hudi."""
        try:
            version: Version | None = self.storage.read_version(self.path)[1]
        except NotFound:
            version = None
        valid_until = int((self.clock.now() + seconds) * 1000)
        data = {"expired": expired, "validUntil": valid_until, "owner": owner}
        self.storage.replace(self.path, orjson.dumps(data), expected=version)


@pytest.fixture
def place(bucket: str) -> Place:
    return Place(bucket)


@pytest.fixture
def dropping(s3_server: S3Server, place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[DroppingS3]:
    from tests.servers import DroppingS3

    proxy = DroppingS3(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    place.storage = ObjectStore(parse_object_url(place.base), sleep=lambda seconds: None)
    place.taken().release()
    yield proxy
    proxy.close()


# ------------------------------------------------------------------------------------------------------- holding it


@pytest.mark.services
def test_it_is_taken_fenced_and_released(place: Place) -> None:
    """The object says what Hudi's says, for five minutes; afterwards it is there, and expired."""
    with place.lock() as lock:
        lock.fence()
        held = place.read()
        assert (held["expired"], held["validUntil"]) == (False, int((NOW + VALIDITY_SECONDS) * 1000))
    assert place.read() | {"expired": False} == held
    assert place.read()["expired"] is True
    with place.lock() as lock:
        lock.fence()
        assert place.read()["owner"] != held["owner"]


@pytest.mark.services
def test_releasing_is_harmless(place: Place) -> None:
    """A release before the lock was taken and a second one do nothing, and neither frees what another process holds.
    Keeps 2 of protocol/lock/table_lock."""
    lock = place.lock()
    lock.release()
    lock.acquire()
    lock.release()
    lock.release()
    place.write()
    lock.release()
    assert place.read()["owner"] == STRANGER and not place.read()["expired"]
    with pytest.raises(LockLost):
        lock.fence()


@pytest.mark.services
def test_who_waits_gets_it_and_is_shown_meanwhile(place: Place) -> None:
    """The waiting process takes the lock at once when its holder releases it."""
    holder = place.taken()
    shown: list[str] = []

    def on_wait(what: str, seconds: float) -> None:
        shown.append(what)
        if len(shown) == 3:
            holder.release()

    place.taken(on_wait=on_wait, wait_seconds=60.0).fence()
    assert shown == [f"the table lock {place.path} is held"] * 3


@pytest.mark.services
def test_who_holds_it_too_long_is_named(place: Place) -> None:
    """Hudi's owner by its name, Lakeward's by process and host."""
    place.write()
    with pytest.raises(LockHeld, match=STRANGER) as error:
        place.taken(wait_seconds=2.0)
    assert error.value.exit_code == 5
    place.write(expired=True)
    place.taken()
    with pytest.raises(LockHeld, match=r"Lakeward's process \d+ on "):
        place.taken()


@pytest.mark.services
def test_who_waits_can_be_stopped(place: Place) -> None:
    """An error out of `on_wait` ends the waiting; the holder stays."""

    def stop(what: str, seconds: float) -> None:
        raise ZeroDivisionError

    holder = place.taken()
    with pytest.raises(ZeroDivisionError), place.lock(on_wait=stop, wait_seconds=9.0):
        pass
    holder.fence()


@pytest.mark.services
def test_two_processes_exclude_each_other(place: Place, tmp_path: Path) -> None:
    """Each takes it ten times; a process that found the other's file would have died of it."""
    command = [sys.executable, "-m", "tests.protocol.lock.storage_lock_process", place.base, str(tmp_path / "alone")]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert [worker.communicate(timeout=60)[0] for worker in workers] == ["worked\n"] * 2
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


# ---------------------------------------------------------------------------------------------------- time and death


@pytest.mark.services
@pytest.mark.parametrize(("after", "taken"), [(0.0, False), (CLOCK_BUFFER_SECONDS, False), (0.501, True)])
def test_a_lock_whose_time_is_over_is_anybodys(place: Place, after: float, taken: bool) -> None:
    """Half a second later than it says, for clocks differ; as Hudi judges it."""
    place.write(seconds=100.0)
    place.clock.time += 100.0 + after
    if taken:
        place.taken().fence()
    else:
        with pytest.raises(LockHeld):
            place.taken()


@pytest.mark.services
@pytest.mark.parametrize("step", [1.0, -1.0, 600.0, -600.0])
def test_a_step_of_the_clock_takes_no_lock_that_is_renewed(place: Place, step: float) -> None:
    """A waiting process sees that the holder renews it, however long its time is over. Nor does a process that wakes up
    take it. Keeps 4 of protocol/lock/storage_lock."""
    renewed: list[float] = []

    def renew(what: str = "", seconds: float = 0.0) -> None:
        if not renewed or place.clock.monotonic() - renewed[-1] >= RENEW_SECONDS:
            renewed.append(place.clock.monotonic())
            holder.renew()

    holder = place.taken()
    renew()
    place.clock.step(step)
    with pytest.raises(LockHeld):
        place.lock(on_wait=renew, wait_seconds=100.0).acquire()
    holder.fence()
    assert len(renewed) > 3


@pytest.mark.services
def test_a_holder_whose_clock_is_set_back_does_not_overrate_its_time(place: Place) -> None:
    """What others think over in a moment is renewed before something is published."""
    lock = place.taken()
    place.clock.time += VALIDITY_SECONDS - FENCE_SECONDS_MIN + 1
    place.clock.step(-600.0)
    version = place.storage.read_version(place.path)[1]
    lock.fence()
    assert not place.storage.read_version(place.path)[1].is_same(version)


@pytest.mark.services
def test_a_process_that_watched_it_while_it_was_held_does_not_wait_again(place: Place) -> None:
    """The process has seen for long enough that the dead holder renews nothing."""
    place.write(seconds=100.0)
    with pytest.raises(LockHeld):
        place.taken()
    place.clock.time += 101.0
    started = place.clock.monotonic()
    place.taken().fence()
    assert place.clock.monotonic() == started


@pytest.mark.services
def test_renewing_gives_it_its_whole_time_again(place: Place) -> None:
    """It counts each time from then on; a lock that was never taken has none."""
    lock = place.lock()
    lock.renew()
    with pytest.raises(NotFound):
        place.read()
    lock.acquire()
    for _ in range(3):
        place.clock.time += VALIDITY_SECONDS - 1
        lock.renew()
        assert place.read()["validUntil"] == int((place.clock.time + VALIDITY_SECONDS) * 1000)
    lock.fence()


@pytest.mark.services
def test_the_fence_leaves_time_to_publish(place: Place) -> None:
    """The fence renews a lock with little time left; where there is much it writes nothing."""
    lock = place.taken()
    place.clock.time += VALIDITY_SECONDS - FENCE_SECONDS_MIN - 1
    lock.fence()
    assert place.read()["validUntil"] == int((NOW + VALIDITY_SECONDS) * 1000)
    place.clock.time += 2
    lock.fence()
    assert place.read()["validUntil"] == int((place.clock.time + VALIDITY_SECONDS) * 1000)


@pytest.mark.services
def test_a_holder_that_overslept_learns_of_it(place: Place) -> None:
    """t0 it holds the lock and is stopped; t1 its time is over and another takes it; t2 it wakes, may not publish, and
    takes nothing from the other. Keeps 1 of protocol/lock/storage_lock."""
    sleeper = place.taken()
    place.clock.time += VALIDITY_SECONDS + 1
    other = place.taken()
    with pytest.raises(LockLost) as error:
        sleeper.fence()
    assert "Nothing was published" in error.value.remedy
    with pytest.raises(LockLost):
        sleeper.renew()
    sleeper.release()
    other.fence()


@pytest.mark.services
def test_a_holder_that_overslept_unnoticed_goes_on(place: Place) -> None:
    """No other process took the lock, and the conditional write that renews it proves that."""
    lock = place.taken()
    place.clock.time += VALIDITY_SECONDS + 1
    lock.fence()
    with pytest.raises(LockHeld):
        place.taken()


@pytest.mark.services
def test_what_was_written_in_our_name_is_not_own(place: Place) -> None:
    """The owner alone proves nothing: the version must be the one that we wrote. Keeps 2 of
    protocol/lock/storage_lock."""
    lock = place.taken()
    place.write(owner=place.read()["owner"], seconds=500.0)
    with pytest.raises(LockLost, match="in our name"):
        lock.fence()


@pytest.mark.services
def test_a_lock_that_was_removed_is_lost(place: Place) -> None:
    """An operator removed it by hand, as a rule. Keeps 1 of protocol/lock/table_lock."""
    lock = place.taken()
    place.storage.delete(place.path)
    with pytest.raises(LockLost):
        lock.fence()
    lock.release()
    with pytest.raises(NotFound):
        place.read()


@pytest.mark.services
def test_a_dead_process_of_lakeward_keeps_none_waiting(place: Place) -> None:
    """The dead process is found when the lock is wanted, and also when no process wants it."""
    place.taken()
    place.processes.kill_all()
    taken = place.taken()
    place.processes.kill_all()
    place.lock().free_dead()
    assert place.read()["expired"] is True
    with pytest.raises(LockLost):
        taken.fence()


@pytest.mark.services
def test_the_living_are_not_freed(place: Place) -> None:
    """Our own word keeps our living process from being freed; a foreign holder is never freed."""
    place.lock().free_dead()
    own = place.taken()
    place.lock().free_dead()
    own.fence()
    own.release()
    place.write()
    place.lock().free_dead()
    assert not place.read()["expired"]


# ---------------------------------------------------------------------------------------------- a store that fails


@pytest.mark.services
@pytest.mark.parametrize("act", [StorageLock.acquire, StorageLock.renew, StorageLock.release])
def test_a_lost_reply_changes_nothing(place: Place, dropping: DroppingS3, act: Callable[[StorageLock], None]) -> None:
    """The write is found to have arrived."""
    lock = place.lock()
    if act is not StorageLock.acquire:
        lock.acquire()
    dropping.drop_after("PUT /")
    act(lock)
    assert dropping.dropped == 1
    if act is StorageLock.release:
        assert place.read()["expired"] is True
    else:
        lock.fence()


class Unanswered(ObjectStore):
    """Carries writes out, or not, and never says so."""

    def __init__(self, bucket: str) -> None:
        super().__init__(parse_object_url(bucket), sleep=lambda seconds: None)
        self.arrive = True
        self.silent = 0

    def replace(self, path: str, data: bytes, *, expected: Version | None) -> Version:
        if self.silent and path.endswith("table_lock.json"):
            self.silent -= 1
            if self.arrive:
                super().replace(path, data, expected=expected)
            raise OSError("no answer")
        return super().replace(path, data, expected=expected)


@pytest.fixture
def unanswered(place: Place) -> Unanswered:
    return Unanswered(place.base.rpartition("/")[0])


@pytest.mark.services
@pytest.mark.parametrize("arrive", [True, False])
def test_a_write_whose_outcome_is_unknown(place: Place, unanswered: Unanswered, arrive: bool) -> None:
    """The next look shows it: taking, renewing and releasing go on from what is there."""
    unanswered.arrive = arrive
    lock = place.lock(storage=unanswered, wait_seconds=5.0)
    unanswered.silent = 2
    lock.acquire()
    unanswered.silent = 1
    with pytest.raises(OSError):
        lock.renew()
    lock.fence()
    lock.renew()
    unanswered.silent = 3
    lock.release()
    assert place.read()["expired"] is True


@pytest.mark.services
def test_a_release_that_never_arrives(place: Place, unanswered: Unanswered) -> None:
    """It is no error: the lock ends by the clock, and the next attempt of this process need not wait for that."""
    lock = place.taken(storage=unanswered)
    unanswered.silent, unanswered.arrive = 4, False
    lock.release()
    assert not place.read()["expired"]
    place.taken().fence()


@pytest.mark.services
def test_a_store_that_is_away(place: Place, unanswered: Unanswered) -> None:
    """It is waited for, and then named."""
    unanswered.silent, unanswered.arrive = 99, False
    with pytest.raises(LockServiceAway, match=r"no answer, for 2 s") as error:
        place.taken(storage=unanswered, wait_seconds=2.0)
    assert error.value.exit_code == 75


class Careless(ObjectStore):
    """Takes no notice of conditions."""

    def replace(self, path: str, data: bytes, *, expected: Version | None) -> Version:
        self.delete(path)
        return super().replace(path, data, expected=None)


@pytest.mark.services
def test_a_store_without_conditional_writes_keeps_no_lock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found out before anybody relies on it, and the lock is left free. Keeps 3 of protocol/lock/storage_lock."""
    monkeypatch.setattr(storage_lock, "_proved", set())
    careless = Careless(parse_object_url(place.base))
    with pytest.raises(Refused, match="conditional writes"), place.lock(storage=careless):
        pass
    assert place.read()["expired"] is True


# ---------------------------------------------------------------------------------------------------- what it says


@pytest.mark.services
def test_the_audit_is_kept_where_it_is_on(place: Place) -> None:
    """Each holding leaves one file: when it began, was renewed and ended. An audit that fails disturbs no holder. Keeps
    5 of protocol/lock/storage_lock."""
    folder = f"{place.base}/.hoodie/.locks"
    place.taken().release()
    assert place.storage.list(f"{folder}/audit") == []
    place.storage.create(f"{folder}/audit_enabled.json", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED":true}')
    lock = place.taken()
    owner = place.read()["owner"]
    place.clock.time += 30
    lock.renew()
    lock.release()
    (found,) = place.storage.list(f"{folder}/audit")
    assert found.name == f"{int(NOW * 1000)}_{owner}.jsonl"
    records = [orjson.loads(line) for line in place.storage.read(found.path).splitlines()]
    assert [(record["state"], record["timestamp"], record["lockHeld"]) for record in records] == [
        ("START", int(NOW * 1000), True),
        ("RENEW", int((NOW + 30) * 1000), True),
        ("END", int((NOW + 30) * 1000), False),
    ]
    assert all(record["lockExpiration"] == record["timestamp"] + 300_000 for record in records)
    assert {record["ownerId"] for record in records} == {owner}


def test_what_it_says_is_read_back() -> None:
    """What the lock says is read back with the process, which Hudi skips, and without it."""
    process = Owner(1, "host", "boot", "ns", 7, 3.5, 9, "time")
    for given in (LockFile(False, 1795233779625, STRANGER, process), LockFile(True, 0, STRANGER)):
        assert parse_lock_file(given.to_json(), path="x") == given


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"validUntil":1,"owner":"a"}',
        b'{"expired":false,"owner":"a"}',
        b'{"expired":false,"validUntil":1}',
        b'{"expired":null,"validUntil":1,"owner":"a"}',
        b'{"expired":false,"validUntil":"1","owner":"a"}',
        b'{"expired":false,"validUntil":true,"owner":"a"}',
    ],
)
def test_what_is_no_lock(data: bytes) -> None:
    """It is refused, with its path: nothing is concluded from it."""
    with pytest.raises(BrokenFile, match=r"x/table_lock\.json"):
        parse_lock_file(data, path="x/table_lock.json")


@pytest.mark.services
def test_it_is_opened_by_its_options(place: Place) -> None:
    """Its options open this lock like any other."""
    owner = place.processes.new_owner()
    options = StorageLockOptions()
    with open_lock(place.storage, place.base, owner, options, clock=place.clock, processes=place.processes) as lock:
        lock.fence()
    assert place.read()["expired"] is True
