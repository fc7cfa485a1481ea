"""All watched tables, each by a view of its own: what a poll costs is one listing, what a commit costs is that commit.

    poll(table) --first time, or another base path--> everything is listed once
        | after that                                  one listing of the timeline; more only when it changed
        v
    snapshot, backlog, service_instants               as of the last poll

Touches: storage, reading only.
Keeps:   1. a table is polled by one thread at a time, two tables by two: each has a lock of its own;
         2. an error of one table is raised to the caller that asked for that table, and changes nothing about another;
         3. a table that does not change costs little memory: its view is packed, and what was read for a plan is
            dropped at the first poll that finds nothing new.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakeward.base.clock import Clock
from lakeward.base.errors import TryLater
from lakeward.format.timeline.instant import Instant
from lakeward.storage.storage import Storage
from lakeward.table.backlog import Backlog
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import ServiceInstant
from lakeward.table.timeline.writer_conflicts import WriterConflict
from lakeward.table.watching.incremental_view import REBUILD_SECONDS, IncrementalView

HUNG_SECONDS = 5.0
"""How long a scan waits for another one at the same table. One that hangs in its storage must not take the threads of
all others with it."""


@dataclass(frozen=True, slots=True)
class PollResult:
    changed: bool
    seconds: float
    instants: tuple[Instant, ...] = ()
    """New ones and those that got further."""
    rebuilt: bool = False
    partitions_listed: int = 0
    writer_bytes: int = 0
    """Written by writers since the last poll, as far as their commits were read one by one."""


@dataclass(slots=True)
class _Watched:
    location: str
    timezone: str | None
    listing: ListingSource
    view: IncrementalView
    lock: threading.Lock = field(default_factory=threading.Lock)


class Watcher:
    def __init__(
        self,
        open_storage: Callable[[str], tuple[Storage, str]],
        clock: Clock,
        *,
        rebuild_seconds: float = REBUILD_SECONDS,
    ) -> None:
        self._open_storage = open_storage
        self._clock = clock
        self._rebuild_seconds = rebuild_seconds
        self._tables: dict[str, _Watched] = {}
        self._lock = threading.Lock()

    def poll(
        self,
        table: str,
        location: str,
        *,
        timezone: str | None = None,
        listing: ListingSource = ListingSource.STORAGE,
    ) -> PollResult:
        """Polls the table of that name. Raises `NotATable`, `UsageError`, and what the storage raises."""
        watched = self._watch(table, location, timezone, listing)
        with _scanning(watched, table):
            started = self._clock.monotonic()
            change = watched.view.refresh()
            if not change.changed:
                watched.view.rest()
            return PollResult(
                changed=change.changed,
                seconds=self._clock.monotonic() - started,
                instants=change.instants,
                rebuilt=change.rebuilt,
                partitions_listed=change.partitions_listed,
                writer_bytes=change.writer_bytes,
            )

    def is_watched(self, table: str) -> bool:
        """False where the next poll has to scan everything."""
        return table in self._tables

    def snapshot(self, table: str) -> TableSnapshot:
        """The snapshot at the last poll."""
        watched = self._polled(table)
        with _scanning(watched, table):
            return watched.view.snapshot()

    def backlog(self, table: str) -> Backlog | None:
        """The backlog at the last poll; None for a table that was never polled."""
        watched = self._tables.get(table)
        if watched is None:
            return None
        with _scanning(watched, table):
            return watched.view.backlog

    def service_instants(self, table: str) -> tuple[ServiceInstant, ...]:
        """Service instants at the last poll."""
        watched = self._polled(table)
        with _scanning(watched, table):
            return watched.view.service_instants()

    def writer_conflicts(self, table: str, rollbacks: Iterable[Instant]) -> tuple[WriterConflict, ...]:
        """Conflicts that these rollbacks show, at the last poll."""
        watched = self._polled(table)
        with _scanning(watched, table):
            return watched.view.writer_conflicts(rollbacks)

    def doubt(self, table: str) -> None:
        """Makes the next poll scan everything: a job found damage that the last one did not show."""
        if (watched := self._tables.get(table)) is not None:
            with _scanning(watched, table):
                watched.view.doubt()

    def forget(self, table: str) -> None:
        """Drop what is known of a table; a thread that polls it just now finishes."""
        with self._lock:
            self._tables.pop(table, None)

    def _watch(self, table: str, location: str, timezone: str | None, listing: ListingSource) -> _Watched:
        with self._lock:
            watched = self._tables.get(table)
            given = (location, timezone, listing)
            if watched is None or (watched.location, watched.timezone, watched.listing) != given:
                storage, base_path = self._open_storage(location)
                view = IncrementalView(
                    storage,
                    base_path,
                    timezone=timezone,
                    clock=self._clock,
                    rebuild_seconds=self._rebuild_seconds,
                    listing=listing,
                )
                watched = self._tables[table] = _Watched(*given, view)
            return watched

    def _polled(self, table: str) -> _Watched:
        watched = self._tables.get(table)
        if watched is None:
            raise TryLater(
                f"Table {table} was not polled yet.",
                why="It was just added, or belonged to another daemon meanwhile.",
                remedy="Nothing has to be done: the next poll scans it.",
            )
        return watched


@contextmanager
def _scanning(watched: _Watched, table: str) -> Iterator[None]:
    if not watched.lock.acquire(timeout=HUNG_SECONDS):
        raise TryLater(
            f"Another thread is polling {table} already.",
            why=f"Its storage has not answered an earlier poll for more than {HUNG_SECONDS:.0f} s.",
            remedy="Nothing has to be done if it answers again; otherwise see what is wrong with the storage.",
        )
    try:
        yield
    finally:
        watched.lock.release()
