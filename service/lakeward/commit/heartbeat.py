"""The sign of life of one attempt: `.hoodie/.heartbeat/<instant>`.

Hudi looks at the file's modification time only: older than two missed intervals of 60 s means dead (facts of
HoodieHeartbeatClient, Hudi 1.2). We also write one line into it that names the attempt, so that our own dead
processes need not be waited for, and so that an attempt can see that another one took its place.

That age is the difference of two wall clocks, so it alone is not enough for us: when a clock was set forward, or the
machine slept, a live attempt looks as old as a dead one until its next beat. Where nothing else proves the death, the
file must also stay as it is for more than an interval of the monotonic clock (`watch`).

In an object store it is also what an attempt lives and dies by, for nothing can be renamed away there. Each step is a
conditional write, so of two who want the next one goes on:

    alive --announce--> publishing        what is completed is named; whoever comes later creates those very files
    alive --take_over--> being undone     whoever was alive can announce nothing any more

Touches: the heartbeat file.
Keeps:   1. a heartbeat is created only where there is none: of two starters one wins;
         2. beating never changes content, so it cannot overwrite a successor's line;
         3. what was announced is never undone;
         4. what is alive and beats is never called expired, whatever clocks are set to;
         5. in a file system who ends a heartbeat ends the one that it means, and leaves a successor's, where a rename
            is one step (`storage/exclusive_rename.py`).
See:     docs/decisions/0012-attempts-in-object-stores.md, docs/decisions/0017-what-clocks-prove.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

import orjson

from lakeward.clock import Clock
from lakeward.commit.owner import Owner, Processes, parse_owner
from lakeward.errors import AlreadyExists, AttemptLost, NotFound, TryLater, VersionChanged
from lakeward.storage.local import TEMPORARY_SUFFIX
from lakeward.storage.storage import RenamingStorage, Storage, VersionedStorage, join, parent

EXPIRY_SECONDS = 120.0
"""Hudi's default: `hoodie.client.heartbeat.interval_in_ms` (60 s) times tolerable misses (2)."""

INTERVAL_SECONDS = 20.0
"""How often we beat: often enough that a few late beats do not look like death."""

WATCH_SECONDS = 30.0
"""One of our intervals and a half."""

WATCH_FOREIGN_SECONDS = 75.0
"""Hudi's interval and a quarter."""

WATCH_SECONDS_MAX = 160.0
"""Twice the longer one: what is still not told by then beats, by a clock that runs behind ours."""

_POLL_SECONDS = 1.0

ENDED = "ended-by-"
"""Part of the name of a heartbeat that is being removed; what a process that dies over it leaves is tidied up."""

_PUBLISHING = "publishing"
_METADATA = "metadata"
_UNDOING = "undoing"
_TRIES = 20
"""Each may meet a beat of the other's, and so many in a row are no beats."""


class Life(StrEnum):
    ABSENT = "absent"
    ALIVE = "alive"
    EXPIRED = "expired"
    PROVABLY_DEAD = "provably dead"


@dataclass(frozen=True, slots=True)
class Sign:
    """What the heartbeat file of an instant says."""

    life: Life
    owner: Owner | None
    age_seconds: float
    unsure_seconds: float = 0.0
    """It counts as alive though it is too old, and for so long it must not change until it counts as expired."""


def heartbeat_path(base_path: str, instant: str) -> str:
    return join(base_path, ".hoodie/.heartbeat", instant)


def look(storage: Storage, base_path: str, instant: str, *, clock: Clock, processes: Processes) -> Sign:
    """Is somebody carrying out the plan of `instant`?"""
    path = heartbeat_path(base_path, instant)
    status = storage.stat(path)
    if status is None:
        return Sign(Life.ABSENT, None, 0.0)
    age_seconds = clock.now() - status.modified
    try:
        line = storage.read(path)
    except NotFound:
        return Sign(Life.ABSENT, None, 0.0)
    owner = parse_owner(line)
    if owner is not None and processes.is_provably_dead(owner):
        return Sign(Life.PROVABLY_DEAD, owner, age_seconds)
    still = processes.stillness.seconds(path, (status.modified, line), monotonic=clock.monotonic())
    if age_seconds <= EXPIRY_SECONDS:
        return Sign(Life.ALIVE, owner, age_seconds)
    unsure = (WATCH_FOREIGN_SECONDS if owner is None else WATCH_SECONDS) - still
    return Sign(Life.EXPIRED if unsure <= 0 else Life.ALIVE, owner, age_seconds, max(0.0, unsure))


def watch(
    storage: Storage,
    base_path: str,
    instants: Iterable[str],
    *,
    clock: Clock,
    processes: Processes,
    on_wait: Callable[[str, float], None],
) -> None:
    """Look at these heartbeats until `look` can tell of each whether it is alive. At once, unless one is too old and
    nothing else proves its death. Nobody should wait for a lock meanwhile."""
    started = clock.monotonic()
    unsure = set(instants)
    while True:
        signs = {each: look(storage, base_path, each, clock=clock, processes=processes) for each in sorted(unsure)}
        unsure = {each for each, sign in signs.items() if sign.unsure_seconds > 0}
        waited = clock.monotonic() - started
        if not unsure or waited >= WATCH_SECONDS_MAX:
            return
        instant = min(unsure)
        on_wait(f"the heartbeat of {instant} is too old; unless it beats now, it counts as dead", waited)
        clock.sleep(min(_POLL_SECONDS, signs[instant].unsure_seconds))


@dataclass(frozen=True, slots=True)
class Announced:
    """An attempt has begun to publish."""

    attempt: int
    completed: str
    """Name of the completed file."""
    metadata: str | None = None
    """Name of the metadata table's completed file, which comes before; None where there is no metadata table."""


class Heartbeat:
    """The heartbeat of our attempt at `instant`."""

    def __init__(self, storage: Storage, base_path: str, instant: str, owner: Owner) -> None:
        self._storage = storage
        self._path = heartbeat_path(base_path, instant)
        self._owner = owner
        self._line = owner.to_line()
        self._announced: bytes | None = None
        """Our line since we began to publish."""

    def start(self) -> None:
        """Begin beating. Raises `AlreadyExists` when another attempt does."""
        self._storage.make_folder(self._path.rpartition("/")[0])
        self._storage.create(self._path, self._line)

    def beat(self) -> None:
        if isinstance(self._storage, RenamingStorage):
            if self.is_ours():
                self._storage.touch(self._path)
            return
        try:
            line, version = _versioned(self._storage).read_version(self._path)
            if self._is_ours(line):
                _versioned(self._storage).replace(self._path, line, expected=version)
        except (NotFound, VersionChanged):
            return  # we announce just now, or another took our place

    def is_ours(self) -> bool:
        try:
            return self._is_ours(self._storage.read(self._path))
        except NotFound:
            return False

    def announce(self, completed: str, *, metadata: str | None = None) -> None:
        """Say in an object store that the files of these names will be created. Raises `AttemptLost`."""
        storage = _versioned(self._storage)
        named = {_PUBLISHING: completed} | ({} if metadata is None else {_METADATA: metadata})
        self._announced = _line_with(self._owner, named)
        for _ in range(_TRIES):
            try:
                line, version = storage.read_version(self._path)
                if line == self._announced:
                    return
                if line != self._line:
                    break
                storage.replace(self._path, self._announced, expected=version)
                return
            except NotFound:
                break
            except VersionChanged:
                continue  # our own beat, as a rule
        raise AttemptLost(
            f"{self._path} is no longer ours.",
            why="Another process took this attempt over.",
            remedy="Run the command again: it finishes what is left, if anything is.",
        )

    def stop(self) -> None:
        _end(self._storage, self._path, self._owner, by=self._owner.attempt)

    def _is_ours(self, line: bytes) -> bool:
        return line == self._line or line == self._announced


def find_announced(storage: Storage, base_path: str, instant: str) -> Announced | None:
    """What whoever has the heartbeat said that it will create."""
    try:
        return _announced_in(storage.read(heartbeat_path(base_path, instant)))
    except NotFound:
        return None


def take_over(storage: VersionedStorage, base_path: str, instant: str, *, by: Owner) -> bool:
    """Make the heartbeat ours to undo the attempt with. False where something was announced, which stays."""
    path = heartbeat_path(base_path, instant)
    undoing = _line_with(by, {_UNDOING: True})
    for _ in range(_TRIES):
        try:
            line, version = storage.read_version(path)
            if _announced_in(line) is not None:
                return False
            storage.replace(path, undoing, expected=version)
            return True
        except NotFound:
            return True  # without a heartbeat nothing can be announced
        except VersionChanged:
            continue
    raise TryLater(
        f"{path} changes again and again.",
        why="Whoever it belongs to is alive.",
        remedy="Run the command again when it has finished.",
    )


def check_alive(storage: Storage, base_path: str, instant: str, attempt: int) -> None:
    """Raise `AttemptLost` unless that attempt is alive and not publishing yet: for its tasks."""
    path = heartbeat_path(base_path, instant)
    try:
        line = storage.read(path)
    except NotFound:
        line = b""
    owner = parse_owner(line)
    if owner is None or owner.attempt != attempt or orjson.loads(line).keys() & {_PUBLISHING, _UNDOING}:
        raise AttemptLost(
            f"{path} does not say that attempt {attempt} is alive.",
            why="It was undone, or another process took it over, or it published without this task.",
            remedy="Nothing is to be done: whoever started the task knows.",
        )


def remove_heartbeat(storage: Storage, base_path: str, instant: str) -> None:
    """Remove the heartbeat of an instant, whosever it is: where nobody begins at it any more. Under the table lock."""
    storage.delete(heartbeat_path(base_path, instant))


def remove_dead(storage: Storage, base_path: str, instant: str, judged: Sign, *, by: Owner) -> None:
    """Remove the heartbeat of an attempt that was undone, if it is the one that was judged, or in an object store our
    own since we took it over. Under the table lock."""
    _end(storage, heartbeat_path(base_path, instant), judged.owner, by, by=by.attempt)


def _end(storage: Storage, path: str, *owners: Owner | None, by: int) -> None:
    """Delete the heartbeat if it is one of those owners'; None: another engine's."""
    try:
        if parse_owner(storage.read(path)) not in owners:
            return
        if not isinstance(storage, RenamingStorage):
            storage.delete(path)
            return
        # t0 we see that it is still ours and are stopped; t1 another process takes our attempt over, and its heartbeat
        # beats; t2 we wake up. So it is put aside, and deleted only if it is the one that was meant.
        aside = f"{parent(path)}/.{path.rpartition('/')[2]}.{ENDED}{by}{TEMPORARY_SUFFIX}"
        storage.rename(path, aside)
        if parse_owner(storage.read(aside)) not in owners:
            try:
                storage.rename(aside, path)
                return
            except AlreadyExists:
                pass  # its place was taken, and whose it was will see that
        storage.delete(aside)
    except NotFound:
        return


def _line_with(owner: Owner, more: Mapping[str, object]) -> bytes:
    return orjson.dumps(asdict(owner) | dict(more)) + b"\n"


def _announced_in(line: bytes) -> Announced | None:
    if (owner := parse_owner(line)) is None:
        return None
    fields = orjson.loads(line)
    completed, metadata = fields.get(_PUBLISHING), fields.get(_METADATA)
    if not isinstance(completed, str) or not isinstance(metadata, str | None):
        return None
    return Announced(owner.attempt, completed, metadata)


def _versioned(storage: Storage) -> VersionedStorage:
    assert isinstance(storage, VersionedStorage), "a storage renames, or it replaces on conditions"
    return storage
