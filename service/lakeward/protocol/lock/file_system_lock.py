"""The table lock as files of the table: Hudi's file-system lock provider, spoken by its rules.

Spark's default path is `.hoodie/lock`, Flink's `.hoodie/.aux/lock`. We take the first, then the second, and
release them in reverse. A lock is a file created where there is none. Hudi's own files are empty; Lakeward's hold one
line that names the process, so that a lock of a process of Lakeward that died is freed at once.

    free --create--> held --release--> free      held --(release fails and fails again)--> held and provably dead
    foreign --(we wait)--> foreign      foreign --(expired by --lock-expire, or provably dead)--> free

The age of a lock is the difference of two wall clocks. So one that expires by it must also stay as it is while we look
on, for longer than our interval of renewal and than a live writer needs for most of what it does under the lock: after
a step of the clock it is renewed, or released, by then.

A release that fails is tried again for a while, for every writer of the table waits; a process that lives on would
otherwise hold the lock until it ends.

Touches: the lock files.
Keeps:   1. a foreign lock never expires unless the operator gave the writers' expiry;
         2. a lock is taken over by renaming it away, and put back if it turns out to be another than the one judged;
         3. only a file that holds our line is released;
         4. no step of a clock alone makes a lock expire that a process of Lakeward renews.
See:     docs/decisions/0002-locks-of-one-machine.md, docs/decisions/0017-what-clocks-prove.md
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from lakeward.base.clock import Clock
from lakeward.base.errors import AlreadyExists, LakewardError, LockHeld, LockLost, NotFound
from lakeward.base.paths import join, parent
from lakeward.protocol.lock.table_lock import OnWait, TableLock, wait_silently
from lakeward.protocol.owner import Owner, Processes, parse_owner
from lakeward.storage.storage import RenamingStorage

SPARK_LOCK = ".hoodie/lock"
FLINK_LOCK = ".hoodie/.aux/lock"

RELEASED = "released-by-"
"""Part of the name of a lock file that is being taken from a dead holder."""

POLL_SECONDS = 0.5
RENEW_SECONDS = 15.0
WATCH_SECONDS = 30.0
"""For so long a lock that is old enough to expire must not change; two of our renewals."""

RELEASE_TRIES = 6
RELEASE_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class FileSystemLockOptions:
    """Which files are the lock, and how long they are waited for."""

    paths: tuple[str, ...] = (SPARK_LOCK, FLINK_LOCK)
    """Lock files below the base path, in the order in which they are taken."""
    wait_seconds: float = 60.0
    expire_seconds: float | None = None
    """Age at which the writers' configuration lets a lock expire; None = never, Hudi's default."""
    shared: bool = True
    """False: with no processes but our own, so that in an object store another lock does as well."""


class FileSystemLock(TableLock):
    renewal_seconds = RENEW_SECONDS

    def __init__(
        self,
        storage: RenamingStorage,
        base_path: str,
        owner: Owner,
        options: FileSystemLockOptions,
        *,
        clock: Clock,
        processes: Processes,
        on_wait: OnWait = wait_silently,
    ) -> None:
        self._storage = storage
        self._paths = tuple(join(base_path, path) for path in options.paths)
        self._owner = owner
        self._line = _line(owner)
        self._options = options
        self._clock = clock
        self._processes = processes
        self._on_wait = on_wait

    def acquire(self) -> None:
        deadline = self._clock.monotonic() + self._options.wait_seconds
        for path in self._paths:
            self._take(path, deadline)

    def renew(self) -> None:
        for path in self._paths:
            if self._is_own(path):
                self._storage.touch(path)

    def release(self) -> None:
        # All of them: one whose creation raised may be there all the same.
        failures: list[Exception] = []
        for path in reversed(self._paths):
            failures += self._release_one(path)
        if failures:
            self._processes.give_up(self._owner)  # the next attempt of this process frees it
            raise failures[0]

    def free_dead(self) -> None:
        for path in self._paths:
            if self._storage.stat(path) is not None:
                self._free_if_dead(path)

    def fence(self) -> None:
        for path in self._paths:
            if not self._is_own(path):
                raise LockLost(
                    f"The table lock {path} was taken from us.",
                    why="It was held for longer than another process lets a lock live, or was removed by hand.",
                    remedy="Nothing was published. Run the command again; raise the lock expiry if this repeats.",
                )

    def _take(self, path: str, deadline: float) -> None:
        self._storage.make_folder(parent(path))
        waited_since = self._clock.monotonic()
        while True:
            try:
                self._storage.create(path, self._line)
                return
            except AlreadyExists:
                if self._is_own(path):
                    return  # created, and the reply was lost
            unsure_seconds = self._free_if_dead(path)
            if unsure_seconds is None:
                continue
            now = self._clock.monotonic()
            if now >= deadline and (not unsure_seconds or now >= deadline + WATCH_SECONDS):
                raise LockHeld(
                    f"The table lock {path} is held by another process.",
                    why=f"It was still there after {now - waited_since:.0f} s, and a lock of another process "
                    "never expires by itself.",
                    remedy="Wait for the writer that holds it. If you know that its process is gone, delete the file, "
                    "or say with --lock-expire after how many minutes your writers let a lock expire.",
                )
            what = "is old enough to expire, unless it is renewed or released now" if unsure_seconds else "is held"
            self._on_wait(f"the table lock {path} {what}", now - waited_since)
            self._clock.sleep(POLL_SECONDS)

    def _free_if_dead(self, path: str) -> float | None:
        """Remove the lock file if its holder is provably gone, or it is expired. None when it is worth trying again at
        once; else for how long it has to be looked at until it counts as expired, zero if it does not."""
        status = self._storage.stat(path)
        if status is None:
            return None
        try:
            judged = self._storage.read(path)
        except NotFound:
            return None
        owner = parse_owner(judged)
        if owner is None or not self._processes.is_provably_dead(owner):
            monotonic, state = self._clock.monotonic(), (status.modified, judged)
            still = self._processes.stillness.seconds(path, state, monotonic=monotonic)
            expiry = self._options.expire_seconds
            if expiry is None or self._clock.now() - status.modified <= expiry:
                return 0.0
            if still < WATCH_SECONDS:
                return WATCH_SECONDS - still
        aside = f"{path}.{RELEASED}{self._owner.attempt}"
        try:
            self._storage.rename(path, aside)
        except NotFound:
            return None
        if self._storage.read(aside) != judged:
            # t0 we judge lock A dead; t1 another process frees A and makes B; t2 we rename B away. Put B back.
            self._storage.rename(aside, path)
            return 0.0
        self._storage.delete(aside)
        return None

    def _is_own(self, path: str) -> bool:
        try:
            return self._storage.read(path) == self._line
        except NotFound:
            return False

    def _release_one(self, path: str) -> list[Exception]:
        """What went wrong in the end; nothing when the lock is free."""
        tries = 0
        while True:
            try:
                if self._is_own(path):
                    self._storage.delete(path)
                return []
            except (LakewardError, OSError) as failure:
                tries += 1
                if tries == RELEASE_TRIES:
                    return [failure]
            self._clock.sleep(RELEASE_PAUSE_SECONDS)


def _line(owner: Owner) -> bytes:
    # Hudi's own fields first: its log messages about a held lock print them.
    fields = {"lockCreateTime": "", "lockThreadName": f"lakeward-{owner.pid}", "lockStacksInfo": ""}
    return orjson.dumps(fields | orjson.loads(owner.to_line())) + b"\n"
