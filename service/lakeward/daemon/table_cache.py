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
    indexes, their checks     a plan; a check         the next
    the index on trial        a plan; a comparison    the next
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

from lakeward.daemon.status import IndexStatus, StorageSample, TeeStatus
from lakeward.index.build_state import BuildProgress
from lakeward.index.index_type import IndexType
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
        self._indexes: tuple[IndexStatus, ...] = ()
        self._index_builds: Mapping[IndexType, BuildProgress] = {}
        self._index_rounds: Mapping[IndexType, int] = {}
        self._tee: TeeStatus | None = None
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
    def indexes(self) -> tuple[IndexStatus, ...]:
        """The indexes as of the last plan, with what was found of them."""
        return self._indexes

    def keep_indexes(self, indexes: tuple[IndexStatus, ...]) -> None:
        with self._lock:
            self._indexes = indexes

    @property
    def index_builds(self) -> Mapping[IndexType, BuildProgress]:
        """How far builds of indexes were at the last plan."""
        return self._index_builds

    def keep_index_builds(self, builds: Mapping[IndexType, BuildProgress]) -> None:
        with self._lock:
            self._index_builds = builds

    def index_round(self, type_: IndexType) -> int | None:
        """The round of checks in which the index was checked last, or was first seen."""
        return self._index_rounds.get(type_)

    def keep_index_round(self, type_: IndexType, number: int) -> None:
        with self._lock:
            self._index_rounds = {**self._index_rounds, type_: number}

    @property
    def tee(self) -> TeeStatus | None:
        """The index on trial as of the last plan or comparison; None where there is none."""
        return self._tee

    def keep_tee(self, tee: TeeStatus | None) -> None:
        with self._lock:
            self._tee = tee

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
