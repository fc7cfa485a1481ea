"""What the worker knows of a table from one call to the next: one object per table, and all of them in one place.

    TableCaches.of(table)     the table's cache, made at the first call after the daemon began to watch the table
    TableCaches.forget        the table left, or another daemon has its lease: the cache goes, whole

A call takes the cache once, at its beginning. A poll that hung while its table was forgotten therefore fills an object
that no later call sees.

    field                     set by                  until
    backlog, zone             every plan              the next plan
    newest foreign service    a poll, on change       the next poll that finds a change
    compacted instants        a compaction            a verification took its sample of them
    what services remember    a service               as each says (`services/service`)
    what holds the storage    a plan or poll          the next count

Touches: nothing. Any thread may call; each cache has a lock, which is held for no more than an assignment.
Keeps:   1. what a call of before `forget` finds out is seen by no call that begins after it;
         2. two threads lose nothing of each other's;
         3. a cache is bounded: UNSAMPLED_MAX instants.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from lakeward.daemon.status import StorageSample
from lakeward.protocol.job_kind import JobKind
from lakeward.services.service import Unsampled
from lakeward.services.services import load_services
from lakeward.table.backlog import Backlog
from lakeward.table.timeline.service_instants import ServiceInstant


class TableCache:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backlog: Backlog | None = None
        self._zone: tzinfo | None = None
        self._foreign: ServiceInstant | None = None
        self._foreign_is_known = False
        self.unsampled = Unsampled()
        self.memories: Mapping[JobKind, Any] = {service.kind: service.new_memory() for service in load_services()}
        self._storage: StorageSample | None = None
        self._storage_due_at = 0.0
        self._storage_is_behind = False

    # ---- polls and plans

    @property
    def backlog(self) -> Backlog | None:
        """The backlog as of the last plan; None before the first."""
        return self._backlog

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the table's instants; None before the first plan, and where it is not known."""
        return self._zone

    def keep_plan_facts(self, backlog: Backlog | None, zone: tzinfo | None) -> None:
        with self._lock:
            self._backlog, self._zone = backlog, zone

    @property
    def foreign_is_known(self) -> bool:
        """True once a poll has asked for foreign services, whatever the result was."""
        return self._foreign_is_known

    @property
    def newest_foreign(self) -> ServiceInstant | None:
        return self._foreign

    def keep_newest_foreign(self, instant: ServiceInstant | None) -> None:
        with self._lock:
            self._foreign, self._foreign_is_known = instant, True

    def memory(self, kind: JobKind) -> Any:
        """What the service of that kind remembers of the table; it is the service's to change."""
        return self.memories[kind]

    @property
    def storage(self) -> StorageSample | None:
        """The newest count of what holds the storage; None before the first."""
        return self._storage

    @property
    def storage_due_at(self) -> float:
        """When it may be counted again, by the monotonic clock."""
        return self._storage_due_at

    @property
    def storage_is_behind(self) -> bool:
        """The table changed since it was counted."""
        return self._storage_is_behind

    def keep_storage(self, sample: StorageSample, *, due_at: float) -> None:
        with self._lock:
            self._storage, self._storage_due_at = sample, due_at

    def put_storage_behind(self) -> None:
        with self._lock:
            self._storage_is_behind = True

    def begin_storage_count(self) -> None:
        """What changes from here on is not in the count; one that fails is tried again after the next plan."""
        with self._lock:
            self._storage_is_behind = False


class TableCaches:
    """The caches of all tables that this daemon watches. One for each worker."""

    def __init__(self) -> None:
        self._caches: dict[str, TableCache] = {}
        self._lock = threading.Lock()

    def of(self, table: str) -> TableCache:
        """The table's cache, which is made where there is none."""
        with self._lock:
            return self._caches.setdefault(table, TableCache())

    def find(self, table: str) -> TableCache | None:
        """The table's cache, if a call has made one."""
        with self._lock:
            return self._caches.get(table)

    def forget(self, table: str) -> None:
        with self._lock:
            self._caches.pop(table, None)
