"""A service that replaces file groups waits for a pause of the writers in their partitions.

A write that is pending while groups are replaced may have looked at the table before: it would fail, or its rows would
be where no reader looks. So none may be at work: neither one whose heartbeat beats, nor one that is pending and seems
dead, until it is rolled back. One that says nothing of the partitions it touches may touch any.

Touches: reads the table's timeline and the profiles of pending writes, where the operator does not say that writers are
         stopped.
Keeps:   1. a pending write that may touch one of the partitions is at work, alive or dead;
         2. the wait is bounded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakeward.base.errors import TryLater
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
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
        if each.time == own or each.action not in WRITE_ACTIONS:
            continue
        profile = snapshot.write_profiles.get(each.time)
        if profile is None or not profile.partitions.isdisjoint(partitions):
            yield each


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

    def is_clear(self) -> bool:
        return self._table.options.writers_stopped or next(self._at_work(), None) is None

    def _at_work(self) -> Iterator[Instant]:
        snapshot = self._table.snapshot(only=(), service=TableService.WRITING)
        return writes_at_work(snapshot, self._partitions, own=self.own)
