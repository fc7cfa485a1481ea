"""A service that replaces file groups waits for a pause of the writers in their partitions.

A write that is pending while groups are replaced may have looked at the table before: it would fail, or its rows would
be where no reader looks. So none may be at work: neither one whose heartbeat beats, nor one that is pending and seems
dead, until it is rolled back. One that says nothing of the partitions it touches may touch any.

A write without a heartbeat is of a writer that cleans up failed writes eagerly, or never. An eager one rolls back what
is pending when it begins, whatever lives, and deletes files without the lock:

    t0 W begins, and plans the rollback of our attempt; t1 we publish it; t2 W deletes its files: the rows are lost.

So beside such a writer nothing is begun, and nothing is published while a rollback of the attempt is pending.

Touches: reads the table's timeline, the profiles of pending writes, and whether they have heartbeats, where the
         operator does not say that writers are stopped.
Keeps:   1. a pending write that may touch one of the partitions is at work, alive or dead;
         2. the wait is bounded;
         3. a pending write that has no heartbeat is refused by name;
         4. a pending rollback of the service's own attempt, or of what cannot be read, is at work.
See:     docs/decisions/0148-writers-without-a-heartbeat.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakeward.base.errors import Refused, TryLater
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import WRITE_ACTIONS

_POLL_SECONDS = 0.5


def writes_at_work(
    snapshot: TableSnapshot, partitions: Collection[str], *, own: str | None = None
) -> Iterator[Instant]:
    """Pending writes, dead ones too, that may touch one of the partitions.

    Args:
        own: the instant of the service's own attempt.
    """
    for each in snapshot.timeline.pending:
        if each.action == "rollback" and own is not None:
            if snapshot.rollback_targets.get(each.time, own) == own:
                yield each
            continue
        if each.time == own or each.action not in WRITE_ACTIONS:
            continue
        profile = snapshot.write_profiles.get(each.time)
        if profile is None or not profile.partitions.isdisjoint(partitions):
            yield each


def has_heartbeat(storage: Storage, base_path: str, write: Instant) -> bool:
    """Whether its writer keeps one, alive or dead."""
    return storage.stat(heartbeat_path(base_path, write.time)) is not None


class PauseOfWriters:
    """Waits for the writes that are pending in some partitions (`write/write_run.GivesWay`)."""

    def __init__(self, table: ServicedTable, partitions: Collection[str]) -> None:
        self._table = table
        self._partitions = partitions
        self.own: str | None = None
        """The instant of the attempt, once it has one."""

    def await_writers(self) -> None:
        if self._table.options.writers_stopped:
            return
        started, limit = self._table.clock.monotonic(), self._table.options.yielding.seconds
        while (write := next(self._at_work(), None)) is not None:
            self._check_has_heartbeat(write)
            waited = self._table.clock.monotonic() - started
            if waited >= limit:
                raise TryLater(
                    f"{write.action} {write.time} is at work on the table, or was left by a process that died.",
                    why="A write that is pending while file groups are replaced may put its rows into them; "
                    f"{limit:.0f} s were waited (--yield-to-writers).",
                    remedy="Run the command again in a pause of the writers; where the process is gone, roll its write "
                    "back first (lakeward rollback). Nothing was published.",
                )
            self._table.pause(f"{write.action} {write.time} is at work", waited, seconds=_POLL_SECONDS)

    def _check_has_heartbeat(self, write: Instant) -> None:
        """Raises `Refused`."""
        table = self._table
        if write.action == "rollback" or has_heartbeat(table.storage, table.base_path, write):
            return
        # t0 we list the timeline; t1 the write is completed; t2 its heartbeat goes; t3 we look for it.
        if all(each.time != write.time for each in self._at_work()):
            return
        raise Refused(
            f"{write.action} {write.time} has no heartbeat: its writer cleans up failed writes eagerly, or never.",
            why="An eager writer rolls back what is pending when it begins, also what is at work, without the lock. "
            "Rows could be lost with the new file groups.",
            remedy="Give each writer a lock and hoodie.clean.failed.writes.policy=LAZY, or stop the writers and say so "
            "(--writers stopped). Where the write's process is gone: lakeward rollback TABLE --writers stopped.",
        )

    def is_clear(self) -> bool:
        return self._table.options.writers_stopped or next(self._at_work(), None) is None

    def _at_work(self) -> Iterator[Instant]:
        snapshot = self._table.snapshot(only=(), service=TableService.WRITING)
        return writes_at_work(snapshot, self._partitions, own=self.own)
