"""From what is said of a table's writers to the lock that is taken, and what the writers must set for it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.protocol.lock.file_system_lock import FLINK_LOCK, SPARK_LOCK, FileSystemLock, FileSystemLockOptions
from lakeward.protocol.lock.lock_choice import LockOptions, open_lock, provider_options, stopped_writers_options
from lakeward.protocol.lock.storage_lock import StorageLock, StorageLockOptions
from lakeward.protocol.lock.zookeeper_lock import ZooKeeperLock
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage_of_url import open_storage
from tests.clocks import SkippingClock
from tests.processes import ScriptedProcesses

PROVIDERS = "org.apache.hudi.client.transaction.lock"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (FileSystemLockOptions(), FileSystemLock),
        (stopped_writers_options(wait_seconds=1.0), FileSystemLock),
        (ZooKeeperLockOptions("zk:2181", "/locks", "orders"), ZooKeeperLock),
    ],
)
def test_options_say_which_lock(tmp_path: Path, options: LockOptions, kind: type) -> None:
    """Opening a lock takes nothing and sends no request. Keeps of protocol/lock/lock_choice."""
    processes = ScriptedProcesses()
    owner = processes.new_owner()
    lock = open_lock(LocalStorage(), str(tmp_path), owner, options, clock=SkippingClock(), processes=processes)
    assert type(lock) is kind
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (StorageLockOptions(), StorageLock),
        (stopped_writers_options(wait_seconds=1.0), StorageLock),
        (ZooKeeperLockOptions("zk:2181", "/locks", "orders"), ZooKeeperLock),
    ],
)
def test_in_an_object_store(options: LockOptions, kind: type) -> None:
    """An object keeps our own processes apart too."""
    processes = ScriptedProcesses()
    storage, base_path = open_storage("s3://lake/orders")
    lock = open_lock(storage, base_path, processes.new_owner(), options, clock=SkippingClock(), processes=processes)
    assert type(lock) is kind


@pytest.mark.parametrize(
    ("location", "options", "instead"),
    [
        ("/data/orders", StorageLockOptions(), "--lock filesystem"),
        ("s3://lake/orders", FileSystemLockOptions(), "--lock storage"),
    ],
)
def test_a_lock_that_no_writer_could_take(location: str, options: LockOptions, instead: str) -> None:
    """Is refused as Hudi refuses it, with one that both could."""
    processes = ScriptedProcesses()
    storage, base_path = open_storage(location)
    with pytest.raises(Refused) as error:
        open_lock(storage, base_path, processes.new_owner(), options, clock=SkippingClock(), processes=processes)
    assert instead in error.value.remedy


def test_with_stopped_writers_a_file_keeps_our_own_apart() -> None:
    """It is Spark's; Flink's is for Flink's writers."""
    assert stopped_writers_options(wait_seconds=5.0).paths == (SPARK_LOCK,)
    assert FileSystemLockOptions().paths == (SPARK_LOCK, FLINK_LOCK)


def test_options_travel() -> None:
    """Options reach another process as they are."""
    options = ZooKeeperLockOptions("zk:2181", "/locks", "orders", session_seconds=5.0)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "own"),
    [
        (FileSystemLockOptions(), {"provider": f"{PROVIDERS}.FileSystemBasedLockProvider"}),
        (StorageLockOptions(), {"provider": f"{PROVIDERS}.StorageBasedLockProvider"}),
        (
            ZooKeeperLockOptions("zk:2181"),
            {"provider": f"{PROVIDERS}.ZookeeperBasedImplicitBasePathLockProvider", "zookeeper.url": "zk:2181"},
        ),
        (
            ZooKeeperLockOptions("zk:2181", "/locks", "orders"),
            {
                "provider": f"{PROVIDERS}.ZookeeperBasedLockProvider",
                "zookeeper.url": "zk:2181",
                "zookeeper.base_path": "/locks",
                "zookeeper.lock_key": "orders",
            },
        ),
    ],
)
def test_what_the_writers_must_set(options: LockOptions, own: dict[str, str]) -> None:
    """Their provider, and its keys as far as we know them."""
    assert provider_options(options) == {f"hoodie.write.lock.{key}": value for key, value in own.items()}
