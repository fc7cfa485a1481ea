"""Which lock a table has: what an operator says of its writers, as options, and the lock that they come to.

    --writers stopped     a file of the table, which keeps our own processes apart
    --lock filesystem     files of the table, Spark's and Flink's
    --lock zookeeper      a queue in ZooKeeper

Options are plain values without secrets: they are compared, printed and sent to other processes.

Touches: nothing before a lock is taken.
Keeps:   whoever writes to a table beside others takes the lock that they take; which one, no file of a table says.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.clock import Clock
from lakeward.commit.file_system_lock import SPARK_LOCK, FileSystemLock, FileSystemLockOptions
from lakeward.commit.owner import Owner, Processes
from lakeward.commit.table_lock import OnWait, TableLock, wait_silently
from lakeward.commit.zookeeper_lock import ZooKeeperLock, ZooKeeperLockOptions
from lakeward.storage.storage import Storage

LockOptions = FileSystemLockOptions | ZooKeeperLockOptions

SHARING_OPTIONS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
"""What every writer must set that shares a table, whatever keeps the lock."""

_PROVIDERS = "org.apache.hudi.client.transaction.lock."
_ZOOKEEPER = "hoodie.write.lock.zookeeper."


def open_lock(
    storage: Storage,
    base_path: str,
    owner: Owner,
    options: LockOptions,
    *,
    clock: Clock,
    processes: Processes,
    on_wait: OnWait = wait_silently,
) -> TableLock:
    match options:
        case FileSystemLockOptions():
            return FileSystemLock(storage, base_path, owner, options, clock=clock, processes=processes, on_wait=on_wait)
        case ZooKeeperLockOptions():
            return ZooKeeperLock(storage, base_path, owner, options, clock=clock, on_wait=on_wait)


def stopped_writers_options(*, wait_seconds: float, expire_seconds: float | None = None) -> FileSystemLockOptions:
    """Nobody else writes: the lock only keeps our own processes apart, and needs no service for that."""
    return FileSystemLockOptions((SPARK_LOCK,), wait_seconds, expire_seconds)


def provider_options(options: LockOptions) -> Mapping[str, str]:
    """What every writer of the table must set to take this lock."""
    match options:
        case FileSystemLockOptions():
            return {"hoodie.write.lock.provider": f"{_PROVIDERS}FileSystemBasedLockProvider"}
        case ZooKeeperLockOptions():
            implicit = options.base_path is None
            name = "ZookeeperBasedImplicitBasePathLockProvider" if implicit else "ZookeeperBasedLockProvider"
            place = {"url": options.url, "base_path": options.base_path, "lock_key": options.lock_key}
            given = {f"{_ZOOKEEPER}{key}": value for key, value in place.items() if value is not None}
            return {"hoodie.write.lock.provider": f"{_PROVIDERS}{name}", **given}
