"""Which lock a table has: what an operator says of its writers, as options, and the lock that follows.

    --writers stopped     a file or object of the table, which keeps our own processes apart
    --lock filesystem     files of the table, Spark's and Flink's
    --lock zookeeper      a queue in ZooKeeper
    --lock storage        an object of the table, replaced on conditions

Options are plain values without secrets: they are compared, printed and sent to other processes.

Touches: nothing before a lock is taken.
Keeps:   a process that writes to a table beside others takes the lock that they take; which one, no file of a
         table says.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLock, FileSystemLockOptions
from lakeward.protocol.lock.storage_lock import StorageLock, StorageLockOptions
from lakeward.protocol.lock.table_lock import OnWait, TableLock, wait_silently
from lakeward.protocol.lock.zookeeper_options import ZooKeeperLockOptions
from lakeward.protocol.owner import Owner, Processes
from lakeward.storage.storage import RenamingStorage, Storage, VersionedStorage

LockOptions = FileSystemLockOptions | ZooKeeperLockOptions | StorageLockOptions

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
        case FileSystemLockOptions() if isinstance(storage, RenamingStorage):
            return FileSystemLock(storage, base_path, owner, options, clock=clock, processes=processes, on_wait=on_wait)
        case FileSystemLockOptions() if not options.shared and isinstance(storage, VersionedStorage):
            among_us = StorageLockOptions(options.wait_seconds)
            return StorageLock(storage, base_path, owner, among_us, clock=clock, processes=processes, on_wait=on_wait)
        case StorageLockOptions() if isinstance(storage, VersionedStorage):
            return StorageLock(storage, base_path, owner, options, clock=clock, processes=processes, on_wait=on_wait)
        case ZooKeeperLockOptions():
            from lakeward.protocol.lock.zookeeper_lock import ZooKeeperLock  # with its client

            return ZooKeeperLock(storage, base_path, owner, options, clock=clock, on_wait=on_wait)
        case FileSystemLockOptions():
            raise Refused(
                f"The table lock of {base_path} cannot be a file of the table.",
                why="Hudi's file-system lock provider refuses object stores, so no writer can share it.",
                remedy="Share the writers' lock with --lock storage or --lock zookeeper (locks.provider).",
            )
        case StorageLockOptions():
            raise Refused(
                f"The table lock of {base_path} cannot be an object of an object store.",
                why="Hudi's storage-based lock provider takes tables at s3, s3a, gs, abfs, abfss, wasb and wasbs only, "
                "so no writer can share it.",
                remedy="Share the writers' lock with --lock filesystem or --lock zookeeper (locks.provider).",
            )


def stopped_writers_options(*, wait_seconds: float, expire_seconds: float | None = None) -> FileSystemLockOptions:
    """Options for a table without other writers: the lock only keeps our own processes apart, and needs no service for
    that."""
    return FileSystemLockOptions((SPARK_LOCK,), wait_seconds, expire_seconds, shared=False)


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
        case StorageLockOptions():
            return {"hoodie.write.lock.provider": f"{_PROVIDERS}StorageBasedLockProvider"}
