"""One table under service: what every step needs to look at it, to hold its lock, and to be stopped.

The *guard* is how somebody else stops the work: a daemon whose lease ended, an operator who cancels. It is called at
every fence, while waiting, and with every report of progress, and stops by raising an error of ours.

Touches: the table's lock; reads the table.
Keeps:   1. nothing is published past a fence, and a fence is the proof of the lock and the word of the guard;
         2. undoing asks no guard: who was told to stop must still be able to clean up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Self

from lakeward.clock import Clock
from lakeward.commit.heartbeat import Sign, heartbeat_path, look, watch
from lakeward.commit.lock import open_lock
from lakeward.commit.owner import Owner, Processes
from lakeward.commit.tidy import tidy
from lakeward.commit.transition import ServiceAction, TimelineFiles
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.execute.progress import Observer, Phase, Silent
from lakeward.execute.refusal import refuse
from lakeward.plan.eligibility import find_refusals
from lakeward.storage.storage import Storage, parent
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing import ListingSource
from lakeward.table.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.snapshot import LookMemory, TableSnapshot, take_snapshot
from lakeward.table.table_config import timeline_folder

Guard = Callable[[], None]
"""Returns, or raises an error of ours (`Cancelled`, `LeaseLost`) that stops the work."""

Fence = Callable[[], None]
"""Returns while the table lock is proved to be ours, and raises otherwise."""


@dataclass(frozen=True, slots=True)
class ServicedTable:
    storage: Storage
    base_path: str
    options: CompactionOptions
    clock: Clock
    processes: Processes
    owner: Owner
    """Whose heartbeats and locks are ours."""
    observer: Observer
    guard: Guard
    memory: LookMemory

    @classmethod
    def for_one_attempt(
        cls,
        storage: Storage,
        base_path: str,
        options: CompactionOptions,
        *,
        clock: Clock,
        processes: Processes,
        observer: Observer | None,
        guard: Guard,
    ) -> Self:
        """With an attempt number and a memory of its own."""
        return cls(
            storage=storage,
            base_path=base_path,
            options=options,
            clock=clock,
            processes=processes,
            owner=processes.new_owner(),
            observer=observer or Silent(),
            guard=guard,
            memory=LookMemory(),
        )

    def look(self, *, only: Collection[GroupId] | None = None) -> TableSnapshot:
        """A fresh snapshot of a table that we may change. Raises `Refused`.

        Args:
            only: the file groups that matter; while the lock is held nothing else should be waited for. They are
                listed in the storage, whatever else the table is listed by.
        """
        with self.measured(Phase.LOOK):
            snapshot = take_snapshot(
                self.storage,
                self.base_path,
                timezone=self.options.timezone,
                clock=self.clock,
                only=only,
                memory=self.memory,
                listing=self.options.listing if only is None else ListingSource.STORAGE,
                accept_damaged_logs=self.options.accept_damaged_logs,
            )
        refuse(self.base_path, find_refusals(snapshot))
        return snapshot

    @contextmanager
    def locked(self, *, to_undo: bool = False) -> Iterator[Fence]:
        """Hold the table lock. Gives the fence: called just before something is published, it raises or all is well.

        Args:
            to_undo: do not let the guard stop what is done under this lock.
        """
        guard = _nobody if to_undo else self.guard

        def on_wait(what: str, seconds: float) -> None:
            guard()
            self.observer.waiting(what, seconds)

        lock = open_lock(
            self.storage,
            self.base_path,
            self.owner,
            self.options.lock,
            clock=self.clock,
            processes=self.processes,
            on_wait=on_wait,
        )

        def fence() -> None:
            guard()
            lock.fence()

        with ExitStack() as resources:
            with self.measured(Phase.LOCK_WAIT):
                resources.enter_context(lock)
            with self.measured(Phase.LOCK_HOLD):
                yield fence

    @contextmanager
    def measured(self, phase: Phase) -> Iterator[None]:
        started = self.clock.monotonic()
        try:
            yield
        finally:
            self.observer.phase(phase, self.clock.monotonic() - started)

    def sign_of_life(self, instant: str) -> Sign:
        """Is somebody carrying out the plan of `instant`?"""
        return look(self.storage, self.base_path, instant, clock=self.clock, processes=self.processes)

    def watch(self, instants: Iterable[str]) -> None:
        """Wait until `sign_of_life` can tell of each of them. Not under the lock."""

        def on_wait(what: str, seconds: float) -> None:
            self.guard()
            self.observer.waiting(what, seconds)

        watch(self.storage, self.base_path, instants, clock=self.clock, processes=self.processes, on_wait=on_wait)

    def watch_ours(self) -> None:
        """The same for every attempt of ours, before those that died are undone."""
        beating = (status.name for status in self.storage.list(parent(heartbeat_path(self.base_path, "0"))))
        self.watch([name for name in beating if name.isdigit() and self.sign_of_life(name).owner is not None])

    def tidy(self, snapshot: TableSnapshot) -> None:
        """Remove what completed instants of ours, and files that were never finished, left. Under the lock."""
        # The two timelines are laid out alike.
        metadata_timeline = timeline_folder(metadata_base_path(self.base_path), snapshot.config)
        tidy(
            self.storage,
            self.base_path,
            timeline_folder(self.base_path, snapshot.config),
            metadata_timeline_folder=metadata_timeline if has_metadata_table(snapshot.config) else None,
            clock=self.clock,
        )

    def timeline_files(self, snapshot: TableSnapshot, instant: str, action: ServiceAction) -> TimelineFiles:
        return TimelineFiles(self.storage, timeline_folder(self.base_path, snapshot.config), instant, action)


def _nobody() -> None:
    """A guard that lets everything pass."""


def zone_of(snapshot: TableSnapshot) -> tzinfo:
    """In which instants are spelled. A table without any commit shows none, and no plan is made of it: UTC will do."""
    assert snapshot.zone.zone or not snapshot.timeline.completed, "eligibility refuses a table whose zone is unknown"
    return snapshot.zone.zone or UTC


def spell(action: ServiceAction) -> str:
    return "log compaction" if action is ServiceAction.LOG_COMPACTION else "compaction"
