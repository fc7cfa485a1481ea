"""The table lock as one object of the table, `.hoodie/.locks/table_lock.json`: Hudi's storage-based lock provider.

    {"expired":false,"validUntil":1795233779625,"owner":"…"}      who holds it, and until when (epoch milliseconds)

Every change is a conditional write, so the store itself says who came first. No process waits for a holder that died:
its lock ends by the clock. The object stays for ever; the holder that releases it says that it is expired.

    free | expired --write if it is what we read--> held --renew each 30 s--> held --write expired--> free
                                                    held --(nothing renewed for 5 minutes)--> free

The holder's wall clock sets that time, and another one decides that it is over. When one of them is set, or the
machine sleeps, a live holder's time is over until it renews; so where nothing else says that it is gone, the object
must also stay as it is for longer than an interval of renewal, while we look on. For the same reason a holder counts
its time on the monotonic clock, too, and uses what is less.

Lakeward's object holds more than Hudi asks for, which Hudi skips: which process of Lakeward holds it, so that one that
died keeps none of us waiting. The owner is another one with each holding, so a write whose reply was lost is known by
it.

The fence reads the object again. It also renews, where little of its time is left: what is published right after the
fence must have arrived before another process can think that the lock is free.

Hudi's audit of its storage-based lock: who held a table's lock, and when, where an operator turned that on.

    .hoodie/.locks/audit_enabled.json                          {"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": true}
    .hoodie/.locks/audit/<start, epoch ms>_<owner>.jsonl       one line each for START, every RENEW, and END

Touches: the lock object; where the operator turned Hudi's audit on, one file for each holding beside it.
Keeps:   1. the lock is held only until the time in the object, by our clock, less what clocks may differ by, and no
            longer than it was taken for on a clock that is never set;
         2. nothing is written over an object that is not the one we read;
         3. no lock is kept where the store does not refuse what it must; that is tried before the first one counts;
         4. no step of a clock alone takes a lock from a holder that renews it;
         5. an audit that cannot be written disturbs no lock.
See:     docs/decisions/0017-what-clocks-prove.md
Source:  StorageBasedLockProvider, S3StorageLockClient and StorageLockProviderAuditService, Hudi 1.2.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import asdict, dataclass
from enum import StrEnum

import orjson

from lakeward.base.clock import Clock
from lakeward.base.errors import (
    AlreadyExists,
    BrokenFile,
    LakewardError,
    LockHeld,
    LockLost,
    LockServiceAway,
    NotFound,
    Refused,
    VersionChanged,
)
from lakeward.base.paths import join
from lakeward.protocol.lock.table_lock import OnWait, TableLock, wait_silently
from lakeward.protocol.owner import Owner, Processes, parse_owner
from lakeward.storage.storage import Version, VersionedStorage

LOCKS_FOLDER = ".hoodie/.locks"
LOCK_FILE = "table_lock.json"

VALIDITY_SECONDS = 300.0
"""Hudi's default (hoodie.write.lock.storage.validity.timeout.secs). Holders need not agree on it."""
RENEW_SECONDS = 30.0
"""Hudi's default (hoodie.write.lock.storage.renew.interval.secs)."""
WATCH_SECONDS = 45.0
"""For so long a lock whose time is over must not change: Hudi's interval of renewal, which is Lakeward's too, and a
half."""
CLOCK_BUFFER_SECONDS = 0.5
"""What two clocks may differ by; a constant of Hudi's."""
FENCE_SECONDS_MIN = 150.0
"""With less than this left the fence renews: a write that is tried again until it is given up fits into it."""

POLL_SECONDS = 0.5
RELEASE_PAUSES_SECONDS = (1.0, 2.0, 4.0)

_NO_VERSION = Version("0" * 32, "1")
"""The version of no object there is."""
_proved: set[str] = set()
"""Stores that are known to refuse what they must."""


_SWITCH = "audit_enabled.json"
_ENABLED = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"


class AuditState(StrEnum):
    START = "START"
    RENEW = "RENEW"
    END = "END"


class LockAudit:
    """Audit of one holding of the lock."""

    def __init__(self, storage: VersionedStorage, path: str, owner: str, started_ms: int) -> None:
        self._storage = storage
        self._path = path
        self._owner = owner
        self._started_ms = started_ms
        self._lines = b""
        self._version: Version | None = None

    def record(self, state: AuditState, *, now_ms: int, validity_ms: int) -> None:
        self._lines += orjson.dumps(
            {
                "ownerId": self._owner,
                "transactionStartTime": self._started_ms,
                "timestamp": now_ms,
                "state": state.value,
                "lockExpiration": now_ms + validity_ms,
                "lockHeld": state is not AuditState.END,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        try:
            self._version = self._storage.replace(self._path, self._lines, expected=self._version)
        except (LakewardError, OSError):
            return  # the next record brings these lines along


def open_audit(storage: VersionedStorage, locks_folder: str, owner: str, *, started_ms: int) -> LockAudit | None:
    """None unless the table's audit is on."""
    try:
        switch = orjson.loads(storage.read(join(locks_folder, _SWITCH)))
    except (LakewardError, OSError, ValueError):
        return None
    if not isinstance(switch, dict) or switch.get(_ENABLED) is not True:
        return None
    return LockAudit(storage, join(locks_folder, "audit", f"{started_ms}_{owner}.jsonl"), owner, started_ms)


@dataclass(frozen=True, slots=True)
class StorageLockOptions:
    wait_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class LockFile:
    """What the object says."""

    expired: bool
    valid_until_ms: int
    owner: str
    process: Owner | None = None
    """The process of the holder, where it is one of Lakeward's."""

    def to_json(self) -> bytes:
        fields = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return orjson.dumps(fields | (asdict(self.process) if self.process is not None else {}))

    def is_held(self, now: float) -> bool:
        """True where Hudi judges so, too."""
        return not self.expired and now * 1000 <= self.valid_until_ms + CLOCK_BUFFER_SECONDS * 1000


def parse_lock_file(data: bytes, *, path: str) -> LockFile:
    """Raises `BrokenFile`: on what cannot be read no lock is built."""
    try:
        fields = orjson.loads(data)
        expired, valid_until, owner = fields["expired"], fields["validUntil"], fields["owner"]
        if not isinstance(expired, bool) or not isinstance(owner, str) or type(valid_until) is not int:
            raise TypeError("expired is true or false, validUntil a number, owner a text")
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenFile(
            f"{path} is not the table lock of Hudi's storage-based lock provider.",
            why=f"{type(error).__name__}: {error}.",
            remedy="See who wrote it. With all writers stopped it may be deleted.",
        ) from error
    return LockFile(expired, valid_until, owner, parse_owner(data))


class StorageLock(TableLock):
    renewal_seconds = RENEW_SECONDS

    def __init__(
        self,
        storage: VersionedStorage,
        base_path: str,
        owner: Owner,
        options: StorageLockOptions,
        *,
        clock: Clock,
        processes: Processes,
        on_wait: OnWait = wait_silently,
    ) -> None:
        self._storage = storage
        self._folder = join(base_path, LOCKS_FOLDER)
        self._path = join(self._folder, LOCK_FILE)
        self._process = owner
        self._options = options
        self._clock = clock
        self._processes = processes
        self._on_wait = on_wait
        self._guard = threading.Lock()
        """The thread that renews and the one that fences look at one version at a time."""
        self._held: LockFile | None = None
        self._asked_at = 0.0
        """The time on the monotonic clock, just before `_held` was written."""
        self._version: Version | None = None
        """The version of `_held`; None: a write of Lakeward was not answered, and the next read says which one it
        is.
        """
        self._audit: LockAudit | None = None

    def acquire(self) -> None:
        started = self._clock.monotonic()
        while True:
            holder: LockFile | OSError | None
            try:
                holder = self._try()
                what = f"the table lock {self._path} is held"
            except OSError as error:
                holder, what = error, f"the table lock {self._path} cannot be read or written"
            if holder is None:
                break
            waited = self._clock.monotonic() - started
            is_over = isinstance(holder, LockFile) and not holder.is_held(self._clock.now())
            if is_over:
                what = f"the time of the table lock {self._path} is over, unless its holder renews it now"
            timeout = self._options.wait_seconds + (WATCH_SECONDS if is_over else 0.0)
            if waited >= timeout or isinstance(holder, PermissionError):
                raise self._not_taken(holder, waited)
            self._on_wait(what, waited)
            self._clock.sleep(POLL_SECONDS)
        self._prove_store()
        assert self._held is not None
        self._audit = open_audit(self._storage, self._folder, self._held.owner, started_ms=self._now_ms())
        self._record(AuditState.START)

    def renew(self) -> None:
        with self._guard:
            self._renew()

    def fence(self) -> None:
        with self._guard:
            try:
                self._poll()
                if self._seconds_left() < FENCE_SECONDS_MIN:
                    self._renew()
            except (OSError, NotFound, BrokenFile) as error:
                raise self._lost(f"{error}") from error
            if self._seconds_left() < CLOCK_BUFFER_SECONDS:
                raise self._lost("Its time ran out, and it could not be renewed.")

    def release(self) -> None:
        with self._guard:
            if self._held is None:
                return
            failure = self._expire()
            self._held = self._version = None
        if failure is not None:
            # It ends by the clock; the next attempt of this process need not wait for that.
            self._processes.give_up(self._process)
            return
        self._record(AuditState.END)
        self._audit = None

    def free_dead(self) -> None:
        try:
            found, version = self._read()
            if found.is_held(self._clock.now()) and self._is_dead(found):
                freed = LockFile(True, found.valid_until_ms, found.owner, found.process)
                self._storage.replace(self._path, freed.to_json(), expected=version)
        except (NotFound, VersionChanged):
            return

    def _try(self) -> LockFile | None:
        """Take the lock, or return what keeps us from it."""
        try:
            found, version = self._read()
        except NotFound:
            found, version = None, None
        if found is not None and self._held is not None and found.owner == self._held.owner and not found.expired:
            self._held, self._version = found, version
            return None  # an earlier try of Lakeward arrived, without an answer
        if found is not None and not found.expired and not self._is_dead(found) and not self._is_over(found, version):
            return found
        asked_at = self._clock.monotonic()
        held = LockFile(False, self._now_ms() + int(VALIDITY_SECONDS * 1000), str(uuid.uuid4()), self._process)
        with self._guard:
            # Set before it is written: `release` takes back also what was written without an answer.
            self._held, self._version, self._asked_at = held, None, asked_at
            try:
                self._version = self._storage.replace(self._path, held.to_json(), expected=version)
            except (AlreadyExists, VersionChanged):
                self._held = None
                return found or held  # another process was faster; which one the next read says
        return None

    def _poll(self) -> None:
        """The object is as we wrote it. Raises `LockLost` otherwise, or what the storage raises."""
        if self._held is None:
            raise self._lost("It was released, or never taken.")
        found, version = self._read()
        if found.owner != self._held.owner or found.expired:
            raise self._lost(f"{_shown(found)} {'released' if found.expired else 'holds'} it.")
        if self._version is None:
            self._held, self._version = found, version
        elif not version.is_same(self._version):
            raise self._lost("Another process wrote to it in our name.")

    def _renew(self) -> None:
        if self._held is None:
            return
        if self._version is None:
            self._poll()
        assert self._version is not None
        renewed = LockFile(False, self._now_ms() + int(VALIDITY_SECONDS * 1000), self._held.owner, self._process)
        before, self._version = self._version, None
        asked_at = self._clock.monotonic()
        try:
            self._version = self._storage.replace(self._path, renewed.to_json(), expected=before)
        except VersionChanged as error:
            self._version = before
            raise self._lost("Another process took it when its time was over.") from error
        self._held, self._asked_at = renewed, asked_at
        self._record(AuditState.RENEW)

    def _expire(self) -> Exception | None:
        """What went wrong in the end; nothing when the lock is not held any more."""
        failure: Exception | None = None
        for pause in (*RELEASE_PAUSES_SECONDS, None):
            try:
                assert self._held is not None
                self._poll()
                assert self._version is not None
                freed = LockFile(True, self._held.valid_until_ms, self._held.owner, self._process)
                self._storage.replace(self._path, freed.to_json(), expected=self._version)
                return None
            except (LockLost, VersionChanged, NotFound):
                return None  # what we held is gone, and what is there is another's
            except (LakewardError, OSError) as error:
                failure = error
                self._version = None
            if pause is not None:
                self._clock.sleep(pause)
        return failure

    def _prove_store(self) -> None:
        """A store that takes no notice of conditions would let everybody have the lock."""
        store = self._path.partition("://")[2].partition("/")[0]
        if store in _proved:
            return
        with self._guard:
            assert self._held is not None
            data = self._held.to_json()
            for expected in (None, _NO_VERSION):
                try:
                    self._storage.replace(self._path, data, expected=expected)
                except (AlreadyExists, VersionChanged):
                    continue
                self._version = None
                raise Refused(
                    f"The object store at {store} cannot keep a table lock.",
                    why="It wrote over an object on a condition that was not met, where it must refuse that.",
                    remedy="Use a store with conditional writes (If-None-Match and If-Match on PUT), or another lock.",
                )
        _proved.add(store)

    def _read(self) -> tuple[LockFile, Version]:
        data, version = self._storage.read_version(self._path)
        return parse_lock_file(data, path=self._path), version

    def _is_over(self, found: LockFile, version: Version | None) -> bool:
        """Its time is over, and no holder renewed it while we watched."""
        still = self._processes.stillness.seconds(self._path, version, monotonic=self._clock.monotonic())
        return still >= WATCH_SECONDS and not found.is_held(self._clock.now())

    def _is_dead(self, found: LockFile) -> bool:
        return found.process is not None and self._processes.is_provably_dead(found.process)

    def _seconds_left(self) -> float:
        assert self._held is not None
        by_wall_clock = self._held.valid_until_ms / 1000 - self._clock.now()
        return min(by_wall_clock, self._asked_at + VALIDITY_SECONDS - self._clock.monotonic())

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    def _record(self, state: AuditState) -> None:
        if self._audit is not None:
            self._audit.record(state, now_ms=self._now_ms(), validity_ms=int(VALIDITY_SECONDS * 1000))

    def _not_taken(self, holder: LockFile | OSError, waited: float) -> LakewardError:
        if isinstance(holder, OSError):
            return LockServiceAway(
                f"The table lock {self._path} cannot be read or written.",
                why=f"{holder.strerror or holder}, for {waited:.0f} s.",
                remedy="See that the store answers, and that we may read and write there. Nothing was published.",
            )
        left = max(0.0, holder.valid_until_ms / 1000 - self._clock.now())
        return LockHeld(
            f"The table lock {self._path} is held by another process.",
            why=f"After {waited:.0f} s it was held by {_shown(holder)}, for {left:.0f} s more unless it is renewed.",
            remedy="Wait for the writer that holds it, or wait longer (--lock-wait). A holder that died "
            "loses it when its time is over.",
        )

    def _lost(self, why: str) -> LockLost:
        return LockLost(
            f"It cannot be proved that this process still holds the table lock {self._path}.",
            why=why,
            remedy="Nothing was published. Run the command again; if this repeats, look at the way to the store, and "
            "at the clocks of all that share the table.",
        )


def _shown(found: LockFile) -> str:
    if found.process is not None:
        return found.process.shown
    return f"the owner {found.owner[:100]}"
