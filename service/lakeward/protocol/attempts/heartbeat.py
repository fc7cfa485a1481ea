"""The heartbeat of one attempt, `.hoodie/.heartbeat/<instant>`, and whether it says that the attempt is alive.

Hudi looks at the file's modification time only: older than two missed intervals of 60 s means dead (facts of
HoodieHeartbeatClient, Hudi 1.2). We also write one line into it that names the attempt
(`protocol/attempts/heartbeat_line.py`), so that our own dead processes need not be waited for, and so that an attempt
can see that another one took its place.

That age is the difference of two wall clocks, so it alone is not enough for us: when a clock was set forward, or the
machine slept, a live attempt looks as old as a dead one until its next beat. Where nothing else proves the death, the
file must also stay as it is for more than an interval of the monotonic clock (`watch`).

Touches: the heartbeat file, through `protocol/attempts/fencing.py`.
Keeps:   1. a heartbeat is started only where there is none, or one that has ended: of two starters one wins;
         2. beating never changes content, so it cannot overwrite a successor's line;
         3. what is alive and beats is never called expired, whatever clocks are set to.
See:     docs/decisions/0017-what-clocks-prove.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.clock import Clock
from lakeward.base.errors import NotFound
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.attempts.heartbeat_line import CommitIntent, heartbeat_path, is_ended, parse_intent
from lakeward.protocol.creation import read_if_there
from lakeward.protocol.owner import Owner, Processes, parse_owner
from lakeward.storage.storage import Storage

EXPIRY_SECONDS = 120.0
"""Hudi's default: `hoodie.client.heartbeat.interval_in_ms` (60 s) times tolerable misses (2)."""

INTERVAL_SECONDS = 20.0
"""How often we beat: often enough that a few late beats do not look like death."""

WATCH_SECONDS = 30.0
"""One of our intervals and a half."""

WATCH_FOREIGN_SECONDS = 75.0
"""Hudi's interval and a quarter."""

WATCH_SECONDS_MAX = 160.0
"""Twice the longer one: what is still undecided by then beats, by a clock that is behind this one."""

_POLL_SECONDS = 1.0


class Life(StrEnum):
    ABSENT = "absent"
    ALIVE = "alive"
    EXPIRED = "expired"
    PROVABLY_DEAD = "provably dead"


@dataclass(frozen=True, slots=True)
class Liveness:
    """What the heartbeat file of an instant says."""

    life: Life
    owner: Owner | None
    age_seconds: float
    unsure_seconds: float = 0.0
    """It counts as alive though it is too old, and for so long it must not change until it counts as expired."""


def read_liveness(storage: Storage, base_path: str, instant: str, *, clock: Clock, processes: Processes) -> Liveness:
    """Whether an attempt at `instant` is alive."""
    path = heartbeat_path(base_path, instant)
    status = storage.stat(path)
    if status is None:
        return Liveness(Life.ABSENT, None, 0.0)
    age_seconds = clock.now() - status.modified
    try:
        line = storage.read(path)
    except NotFound:
        return Liveness(Life.ABSENT, None, 0.0)
    if is_ended(line):
        return Liveness(Life.ABSENT, None, 0.0)
    owner = parse_owner(line)
    if owner is not None and processes.is_provably_dead(owner):
        return Liveness(Life.PROVABLY_DEAD, owner, age_seconds)
    still = processes.stillness.seconds(path, (status.modified, line), monotonic=clock.monotonic())
    if age_seconds <= EXPIRY_SECONDS:
        return Liveness(Life.ALIVE, owner, age_seconds)
    unsure = (WATCH_FOREIGN_SECONDS if owner is None else WATCH_SECONDS) - still
    return Liveness(Life.EXPIRED if unsure <= 0 else Life.ALIVE, owner, age_seconds, max(0.0, unsure))


def watch(
    storage: Storage,
    base_path: str,
    instants: Iterable[str],
    *,
    clock: Clock,
    processes: Processes,
    on_wait: Callable[[str, float], None],
) -> None:
    """Poll these heartbeats until `read_liveness` knows of each whether its attempt is alive. Returns at once,
    unless one is too old and nothing else proves its death. No lock should be held meanwhile."""
    started = clock.monotonic()
    unsure = set(instants)
    while True:
        found = {
            each: read_liveness(storage, base_path, each, clock=clock, processes=processes) for each in sorted(unsure)
        }
        unsure = {each for each, liveness in found.items() if liveness.unsure_seconds > 0}
        waited = clock.monotonic() - started
        if not unsure or waited >= WATCH_SECONDS_MAX:
            return
        instant = min(unsure)
        on_wait(f"the heartbeat of {instant} is too old; unless it beats now, it counts as dead", waited)
        clock.sleep(min(_POLL_SECONDS, found[instant].unsure_seconds))


def find_intent(storage: Storage, base_path: str, instant: str) -> CommitIntent | None:
    """What the attempt that has the heartbeat said that it will create."""
    return parse_intent(read_if_there(storage, heartbeat_path(base_path, instant)) or b"")


class Heartbeat:
    """The heartbeat of our attempt at `instant`."""

    def __init__(self, storage: Storage, base_path: str, instant: str, owner: Owner) -> None:
        self._storage = storage
        self._fencing = fencing_of(storage)
        self._path = heartbeat_path(base_path, instant)
        self._owner = owner
        self._lines = {owner.to_line()}
        """Our lines, with the one that states our intent, since it does."""

    def start(self) -> None:
        """Begin beating. Raises `AlreadyExists` when another attempt does."""
        self._fencing.start_heartbeat(self._path, self._owner)

    def beat(self) -> None:
        self._fencing.beat(self._path, self._lines)

    def is_own(self) -> bool:
        return read_if_there(self._storage, self._path) in self._lines

    def state_intent(self, completed: str, *, metadata: str | None = None) -> None:
        """Say that the files of these names will be created, where others would finish it. Raises `AttemptLost`."""
        line = self._fencing.state_intent(self._path, self._owner, completed, metadata)
        if line is not None:
            self._lines = self._lines | {line}

    def end(self, *judged: Owner | None) -> None:
        """Our attempt is over, or one of these that were judged dead and rolled back (None: another engine's). Another
        one may follow."""
        self._fencing.end_heartbeat(self._path, (self._owner, *judged), by=self._owner)

    def remove(self, *judged: Owner | None) -> None:
        """The same, where no process begins at the instant any more."""
        self._fencing.remove_heartbeat(self._path, (self._owner, *judged), by=self._owner)
