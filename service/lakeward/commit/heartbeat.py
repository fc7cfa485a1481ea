"""The sign of life of one attempt: `.hoodie/.heartbeat/<instant>`.

Hudi looks at the file's modification time only: older than two missed intervals of 60 s means dead (facts of
HoodieHeartbeatClient, Hudi 1.2). We also write one line into it that names the attempt, so that our own dead
processes need not be waited for, and so that an attempt can see that another one took its place.

Touches: the heartbeat file.
Keeps:   1. a heartbeat is created only where there is none: of two starters one wins;
         2. beating never writes content, so it cannot overwrite a successor's line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakeward.clock import Clock
from lakeward.commit.owner import Owner, Processes, parse_owner
from lakeward.errors import NotFound
from lakeward.storage.storage import Storage, join

EXPIRY_SECONDS = 120.0
"""Hudi's default: `hoodie.client.heartbeat.interval_in_ms` (60 s) times tolerable misses (2)."""

INTERVAL_SECONDS = 20.0
"""How often we beat: often enough that a few late beats do not look like death."""


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
        owner = parse_owner(storage.read(path))
    except NotFound:
        return Sign(Life.ABSENT, None, 0.0)
    if owner is not None and processes.is_provably_dead(owner):
        return Sign(Life.PROVABLY_DEAD, owner, age_seconds)
    return Sign(Life.EXPIRED if age_seconds > EXPIRY_SECONDS else Life.ALIVE, owner, age_seconds)


class Heartbeat:
    """The heartbeat of our attempt at `instant`."""

    def __init__(self, storage: Storage, base_path: str, instant: str, owner: Owner) -> None:
        self._storage = storage
        self._path = heartbeat_path(base_path, instant)
        self._line = owner.to_line()

    def start(self) -> None:
        """Begin beating. Raises `AlreadyExists` when another attempt does."""
        self._storage.make_folder(self._path.rpartition("/")[0])
        self._storage.create(self._path, self._line)

    def beat(self) -> None:
        if self.is_ours():
            self._storage.touch(self._path)

    def is_ours(self) -> bool:
        try:
            return self._storage.read(self._path) == self._line
        except NotFound:
            return False

    def stop(self) -> None:
        if self.is_ours():
            self._storage.delete(self._path)


def remove_heartbeat(storage: Storage, base_path: str, instant: str) -> None:
    """Remove the heartbeat of an attempt that was undone. Under the table lock."""
    storage.delete(heartbeat_path(base_path, instant))
