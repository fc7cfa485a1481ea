"""A service that replaces file groups waits for a pause of the writers in their partitions.

A write that is pending while groups are replaced may have looked at the table before: it would fail, or its rows would
be where no reader looks. So none may be at work: neither one whose heartbeat beats, nor one that is pending and seems
dead, until it is rolled back. One that says nothing of the partitions it touches may touch any.

A write without a heartbeat is of a writer that cleans up failed writes eagerly, or never. An eager one rolls back what
is pending when it begins, whatever lives, and deletes files without the lock:

    t0 W begins, and plans the rollback of our attempt; t1 we publish it; t2 W deletes its files: the rows are lost.

It takes the lock for that plan, but does not look at the timeline again once it has it. So one that begins while we
hold the lock to publish rolls back what we then have published.

So beside such a writer nothing is begun, and nothing is published while a rollback of the attempt is pending. Between
two of its writes it shows in a file system: a writer with heartbeats removes its own after its commit, which changes
the folder of heartbeats, and one without leaves that folder as it was.

Touches: reads the table's timeline, the profiles of pending writes, whether they have heartbeats, and when the folder
         of heartbeats changed, where the operator does not say that writers are stopped.
Keeps:   1. a pending write that may touch one of the partitions is at work, alive or dead;
         2. the wait is bounded;
         3. a pending write that has no heartbeat is refused by name;
         4. a pending rollback of the service's own attempt, or of what cannot be read, is at work;
         5. in a file system the newest completed write is refused by name where it left no heartbeat.
See:     docs/decisions/0148-writers-without-a-heartbeat.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakeward.base.errors import Refused, TryLater
from lakeward.base.paths import parent
from lakeward.format.timeline.instant import Instant, parse_instant_time
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.storage.storage import RenamingStorage, Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import SERVICES_OF_ONE
from lakeward.table.timeline.timeline import WRITE_ACTIONS

_POLL_SECONDS = 0.5
_CLOCKS_SECONDS = 60.0
"""The clocks of a writer and of its storage differ by less."""


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


def left_no_heartbeat(storage: Storage, snapshot: TableSnapshot) -> Instant | None:
    """The newest completed write, where its writer had no heartbeat: nothing changed in their folder after its commit.

    None where that cannot be seen: in an object store, where something else had a heartbeat since, and in a copy of a
    table, whose files have the times of the copy.
    """
    timeline, zone = snapshot.timeline, snapshot.zone.zone
    services = {each.time for each in timeline.instants if each.action in SERVICES_OF_ONE}
    writes = [each for each in timeline.completed_writes if each.completion_time and each.time not in services]
    newest = max(writes, key=lambda each: timeline.modified[each.file_name], default=None)
    if newest is None or zone is None or not isinstance(storage, RenamingStorage):
        return None
    committed = timeline.modified[newest.file_name]
    assert newest.completion_time is not None, "the others were left out"
    if abs(committed - parse_instant_time(newest.completion_time, zone) / 1000) > _CLOCKS_SECONDS:
        return None
    # In this order: t0 the write commits; t1 we find its heartbeat; t2 that goes, and the folder changes.
    if has_heartbeat(storage, snapshot.base_path, newest):
        return None
    folder = storage.stat(parent(heartbeat_path(snapshot.base_path, newest.time)))
    return newest if folder is None or 0 < folder.modified < committed else None


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
        if self.own is None:
            self._check_left_heartbeat()
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
        raise _without_heartbeat(
            f"{write.action} {write.time} has no heartbeat",
            "Where the write's process is gone: lakeward rollback TABLE --writers stopped.",
        )

    def _check_left_heartbeat(self) -> None:
        """Raises `Refused`."""
        table = self._table
        snapshot = table.snapshot(only=(), service=TableService.WRITING)
        if (write := left_no_heartbeat(table.storage, snapshot)) is not None:
            raise _without_heartbeat(
                f"{write.action} {write.time} left no heartbeat", "The next write with a heartbeat lifts this."
            )

    def is_clear(self) -> bool:
        return self._table.options.writers_stopped or next(self._at_work(), None) is None

    def _at_work(self) -> Iterator[Instant]:
        snapshot = self._table.snapshot(only=(), service=TableService.WRITING)
        return writes_at_work(snapshot, self._partitions, own=self.own)


def _without_heartbeat(what: str, then: str) -> Refused:
    return Refused(
        f"{what}: its writer cleans up failed writes eagerly, or never.",
        why="An eager writer rolls back what is pending when it begins, also what is at work or is published just "
        "then. Rows could be lost with the new file groups.",
        remedy="Give each writer a lock and hoodie.clean.failed.writes.policy=LAZY, or stop the writers and say so "
        f"(--writers stopped). {then}",
    )
