"""One table under service: what every step needs to take a snapshot of it, to hold its lock, and to be stopped.

Where writers share the lock it is taken in a calm moment: one that asks for it meanwhile waits for its next poll, which
is 5 s later with Hudi's file-system lock.

The *guard* is how the work is stopped from outside: a daemon whose lease ended, an operator who cancels. It is called
at every fence, while waiting, and with every report of progress, and stops by raising an error of Lakeward.

Touches: the table's lock; reads the table.
Keeps:   1. nothing is published past a fence, and a fence is the proof of the lock and the consent of the guard;
         2. rolling back asks no guard: a process that has to stop must still be able to clean up;
         3. the wait for a calm moment is short, and rolling back does not wait for one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Self

from lakeward.base.clock import Clock
from lakeward.base.paths import parent
from lakeward.format.timeline.instant import comparable_time, format_instant_time
from lakeward.protocol.attempts.attempt import Attempt, AttemptPlace, write_place
from lakeward.protocol.attempts.heartbeat import Liveness, read_liveness, watch
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.attempts.orphan_files import sweep
from lakeward.protocol.lock.lock_choice import open_lock
from lakeward.protocol.lock.table_lock import Fence, Guard
from lakeward.protocol.metadata.delta_commit import DeltaCommit
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Owner, Processes
from lakeward.protocol.progress import Observer, Phase, Silent
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.protocol.times.instant_time import Minter
from lakeward.protocol.times.seen_times import read_times
from lakeward.protocol.transition import ServiceAction, WriteAction
from lakeward.protocol.writer_watch import WriterWatch
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.listing_source import ListingSource
from lakeward.table.metadata.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.snapshot import SnapshotCache, TableSnapshot, take_snapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.archived import history_folder
from lakeward.table.timeline.new_time import times_after
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timezone import TimelineZone

CALM_POLL_SECONDS = 0.2
CALM_SECONDS_MAX = 6.0
"""Many writers leave no calm moment. It is somewhat more than the 5 s after which Hudi's own ask for the lock again."""


@dataclass(frozen=True, slots=True)
class ServicedTable:
    storage: Storage
    base_path: str
    options: CompactionOptions
    clock: Clock
    processes: Processes
    owner: Owner
    """The process that heartbeats and locks are written for: this one."""
    observer: Observer
    guard: Guard
    cache: SnapshotCache
    writers: WriterWatch

    @classmethod
    def for_one_attempt(
        cls,
        storage: Storage,
        base_path: str,
        options: CompactionOptions,
        *,
        clock: Clock,
        processes: Processes,
        observer: Observer | None = None,
        guard: Guard | None = None,
    ) -> Self:
        """A table with an attempt number and a cache of its own."""
        return cls(
            storage=storage,
            base_path=base_path,
            options=options,
            clock=clock,
            processes=processes,
            owner=processes.new_owner(),
            observer=observer or Silent(),
            guard=guard or _let_pass,
            cache=SnapshotCache(),
            writers=WriterWatch(storage, base_path, clock=clock, processes=processes),
        )

    def snapshot(
        self,
        *,
        only: Collection[GroupId] | None = None,
        partitions: Collection[str] | None = None,
        service: TableService = TableService.COMPACTION,
        listing: ListingSource | None = None,
    ) -> TableSnapshot:
        """A fresh snapshot of a table that we may change. Raises `Refused`.

        Args:
            only: the file groups that matter; while the lock is held nothing else should be waited for. They are
                listed in the storage, whatever else the table is listed by.
            partitions: the partitions that matter, where `only` names no groups.
            service: what the snapshot is for, and may be refused.
            listing: where the files of the whole table are listed, whatever the options say.
        """
        with self.measured(Phase.SCAN):
            snapshot = take_snapshot(
                self.storage,
                self.base_path,
                timezone=self.options.timezone,
                clock=self.clock,
                only=only,
                partitions=partitions,
                cache=self.cache,
                listing=(listing or self.options.listing) if only is None else ListingSource.STORAGE,
                accept_damaged_logs=self.options.accept_damaged_logs,
            )
        beside_writers = not self.options.writers_stopped
        refuse(self.base_path, find_refusals(snapshot, service, beside_writers=beside_writers))
        return snapshot

    @contextmanager
    def locked(self, *, to_roll_back: bool = False) -> Iterator[Fence]:
        """Hold the table lock. Gives the fence: called just before something is published, it raises or all is well.

        Args:
            to_roll_back: the guard does not stop what is done under this lock.
        """
        guard = _let_pass if to_roll_back else self.guard
        seeks_calm = not to_roll_back and not self.options.writers_stopped
        calm_until = self.clock.monotonic() + CALM_SECONDS_MAX
        was_held = was_given_back = False

        def on_wait(what: str, seconds: float) -> None:
            nonlocal was_held
            was_held = True
            guard()
            self.observer.waiting(what, seconds)

        def fence() -> None:
            guard()
            lock.fence()

        with ExitStack() as resources:
            while True:
                is_beside_writes = seeks_calm and self._await_calm(calm_until)
                was_held = False
                lock = open_lock(
                    self.storage,
                    self.base_path,
                    self.owner,
                    self.options.lock,
                    clock=self.clock,
                    processes=self.processes,
                    on_wait=on_wait,
                )
                with self.measured(Phase.LOCK_WAIT):
                    resources.enter_context(lock)
                # A writer that has just given it back, after its commit, asks for it again to begin its next write. So
                # it is left to it also where the wait is over: once, and then the wait begins again.
                if not (was_held and seeks_calm) or lock.queues:
                    break
                if self.clock.monotonic() >= calm_until:
                    if was_given_back:
                        break
                    was_given_back, calm_until = True, self.clock.monotonic() + CALM_SECONDS_MAX
                resources.close()
            resources.enter_context(self.measured(Phase.LOCK_HOLD))
            if is_beside_writes:
                resources.enter_context(self.measured(Phase.BESIDE_WRITES))
            yield fence

    def _await_calm(self, until: float) -> bool:
        """Wait for a moment in which probably no writer asks for the lock. Returns whether a write is live."""
        started = self.clock.monotonic()
        while True:
            writes = self.writers.scan()
            now = self.clock.monotonic()
            if writes.is_calm or now >= until:
                return bool(writes.live)
            self.pause("a writer is about to take the table lock", now - started, seconds=CALM_POLL_SECONDS)

    def pause(self, what: str, waited: float, *, seconds: float) -> None:
        """One step of waiting for a writer or for another attempt: it can be stopped, and is shown."""
        self.guard()
        self.observer.waiting(what, waited)
        self.clock.sleep(seconds)

    @contextmanager
    def measured(self, phase: Phase) -> Iterator[None]:
        started = self.clock.monotonic()
        try:
            yield
        finally:
            self.observer.phase(phase, self.clock.monotonic() - started)

    def liveness(self, instant: str) -> Liveness:
        """Whether an attempt at `instant` is alive."""
        return read_liveness(self.storage, self.base_path, instant, clock=self.clock, processes=self.processes)

    def watch(self, instants: Iterable[str]) -> None:
        """Wait until `liveness` can decide for each of them. Not under the lock."""

        def on_wait(what: str, seconds: float) -> None:
            self.guard()
            self.observer.waiting(what, seconds)

        watch(self.storage, self.base_path, instants, clock=self.clock, processes=self.processes, on_wait=on_wait)

    def watch_own(self) -> None:
        """The same for every attempt of Lakeward, before those that died are rolled back."""
        beating = (status.name for status in self.storage.list(parent(heartbeat_path(self.base_path, "0"))))
        self.watch([name for name in beating if name.isdigit() and self.liveness(name).owner is not None])

    def sweep(self, snapshot: TableSnapshot) -> None:
        """Remove what completed instants of Lakeward, and files that were never finished, left. Under the lock."""
        config = snapshot.config
        metadata = metadata_base_path(self.base_path) if has_metadata_table(config) else None
        # The two timelines are laid out alike.
        sweep(
            self.storage,
            self.base_path,
            timeline_folder(self.base_path, config),
            metadata_timeline_folder=None if metadata is None else timeline_folder(metadata, config),
            history_folders=[history_folder(path, config) for path in (self.base_path, metadata) if path is not None],
            clock=self.clock,
        )

    def minter(
        self, snapshot: TableSnapshot, *, timeline: Timeline | None = None, zone: TimelineZone | None = None
    ) -> Minter:
        """Makes new times of the table, once. Under the lock.

        Args:
            snapshot: taken under the lock, but for its timeline where that is given.
            timeline: as it is under the lock.
            zone: that of a table that shows none yet.
        """
        zone = zone or snapshot.zone
        seen = read_times(
            self.storage,
            self.base_path,
            config=snapshot.config,
            timeline=timeline or snapshot.timeline,
            zone=zone,
            clock=self.clock,
        )
        return Minter(self.storage, self.base_path, seen, zone=zone, clock=self.clock)

    def attempt(self, snapshot: TableSnapshot, instant: str, action: ServiceAction) -> Attempt:
        """This process's attempt at a plan of the table, and what there may be of others at it."""
        config = snapshot.config
        timeline, native = timeline_folder(self.base_path, config), config.version.has_native_logs
        metadata = DeltaCommit(self.storage, self.base_path, instant, self.clock)
        place = AttemptPlace(
            self.storage,
            self.base_path,
            self.base_path,
            timeline,
            keeps_plans=True,
            layout=config.layout,
            native=native,
        )
        return Attempt(place, instant, action, self.owner, participants=(metadata,))

    def write_attempt(self, snapshot: TableSnapshot, instant: str, action: WriteAction) -> Attempt:
        """This process's attempt at a write of rows, and what there may be of others at it."""
        config = snapshot.config
        timeline, native = timeline_folder(self.base_path, config), config.version.has_native_logs
        metadata = DeltaCommit(self.storage, self.base_path, instant, self.clock)
        place = write_place(self.storage, self.base_path, timeline, native=native)
        return Attempt(place, instant, action, self.owner, participants=(metadata,))


def _let_pass() -> None:
    """A guard that stops nothing."""


def planned_at(snapshot: TableSnapshot, now: float) -> str:
    """The time for which a plan is chosen, which is behind all that the snapshot has completed, as the plan's instant
    will be: a log that completed by a clock ahead of this one is in the slice that the plan takes, so it is named.

    Where the zone of the instants is not known, ages of what they wrote are off by as much as it is from UTC.
    """
    at = format_instant_time(int(now * 1000), snapshot.zone.zone or UTC)
    newest = snapshot.timeline.latest_time
    if newest is None or at > comparable_time(newest):
        return at
    return times_after(newest, 1)[0]


def label(action: ServiceAction) -> str:
    return "log compaction" if action is ServiceAction.LOG_COMPACTION else action.pending
