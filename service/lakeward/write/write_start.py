"""A write begins: dead ones of Lakeward are over, and its instant stands on the timeline, requested.

    no lock  writes of Lakeward whose process died are rolled back, or rolled forward where they had stated their intent
    lock     the timeline is read -> heartbeat, folder -> `.requested`; what was complete and what was pending is
             remembered for the check of conflicts

Touches: the heartbeat, the attempt's folder and `.requested` of a new instant, under the table lock.
Keeps:   1. what a dead write of Lakeward left is gone, or complete, before another one begins;
         2. what other engines left stays, for their own writers and for `lakeward rollback`;
         3. the first instant of a table is in the zone that writers on this machine are in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lakeward.base.clock import Clock
from lakeward.base.errors import TryLater
from lakeward.format.timeline.replace_metadata import requested_write
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.rollback.run.roll_back import find_decisions, has_leftovers, may_be_ended, roll_back_writes
from lakeward.services.rollback.run.takeover import tidy
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timezone import TimelineZone, ZoneSource
from lakeward.write.conflicts import SeenAtStart
from lakeward.write.request import WriteOperation, WriteRequest


class GivesWay(Protocol):
    """How a service that writes gives way to writers, for which a write itself does not wait."""

    def await_writers(self) -> None:
        """Return once none is at work. Not under the lock. Raises `TryLater` where that was waited for long enough."""

    def is_clear(self) -> bool:
        """Whether none is at work under the lock."""


@dataclass(frozen=True, slots=True)
class BegunWrite:
    """An instant of this process: its heartbeat beats, its attempt's folder and `.requested` exist."""

    request: WriteRequest
    attempt: Attempt
    snapshot: TableSnapshot
    """The table as it was, without its files."""
    seen: SeenAtStart
    zone: TimelineZone
    """The zone that its times are written in."""
    ended: tuple[str, ...] = ()
    """Dead writes of Lakeward that were ended before it began, by a rollback or by their completion."""

    @property
    def instant(self) -> str:
        return self.attempt.instant


def begin_write(table: ServicedTable, request: WriteRequest) -> BegunWrite:
    """Raises `Refused`, `LockHeld` and `TryLater`; then nothing was written."""
    begun = _begin(table, request, lambda: True)
    assert begun is not None, "nothing holds it back"
    return begun


def begin_in_pause(table: ServicedTable, request: WriteRequest, yielding: GivesWay) -> BegunWrite:
    """The same once no write is at work, as that is seen under the lock: one that is would not know the instant, and
    what it writes would make the work useless."""
    limit = table.options.yielding.seconds
    until = table.clock.monotonic() + limit
    while True:
        yielding.await_writers()
        if (begun := _begin(table, request, yielding.is_clear)) is not None:
            return begun
        if table.clock.monotonic() >= until:
            raise TryLater(
                f"No pause of the writers of {table.base_path} lasted until the lock was taken.",
                why=f"For {limit:.0f} s another write had begun by then, each time (--yield-to-writers).",
                remedy="Run the command again; nothing was written.",
            )


def _begin(table: ServicedTable, request: WriteRequest, may_begin: Callable[[], bool]) -> BegunWrite | None:
    ended = end_dead_writes(table)
    with table.locked() as fence:
        if not may_begin():
            return None
        snapshot = timeline_snapshot(table)
        tidy(table, snapshot)
        seen = SeenAtStart.of(snapshot.timeline)
        fence()
        zone = _zone(snapshot, table.clock)
        (instant,) = table.minter(snapshot, zone=zone).mint()
        action = request.operation.action(is_merge_on_read=snapshot.config.is_merge_on_read)
        attempt = table.write_attempt(snapshot, instant, action)
        fence()
        attempt.claim()
        attempt.announce(_plan(request.operation))
    return BegunWrite(request, attempt, snapshot, seen, zone, ended)


def end_dead_writes(table: ServicedTable) -> tuple[str, ...]:
    """Roll back what processes of Lakeward left that died. Returns their instants."""
    if not has_leftovers(table):
        return ()
    dead = [each.instant for each in find_decisions(table) if may_be_ended(table, each)]
    roll_back_writes(table, dead)
    return tuple(dead)


def timeline_snapshot(table: ServicedTable) -> TableSnapshot:
    """The table without its files."""
    return table.snapshot(only=(), service=TableService.WRITING)


def _zone(snapshot: TableSnapshot, clock: Clock) -> TimelineZone:
    """A table without instants shows no zone: its first one is in that of this machine, as a Hudi writer here has it.
    In UTC it could lie hours ahead of what Hudi writes next."""
    if snapshot.zone.zone is not None:
        return snapshot.zone
    here = datetime.fromtimestamp(clock.now()).astimezone().tzinfo
    return TimelineZone(ZoneSource.INFERRED, here, "the table has no instant, and this machine is in that zone")


def _plan(operation: WriteOperation) -> bytes:
    if not operation.replaces:
        return b""
    return requested_write(operation.operation_type if operation is WriteOperation.DELETE_PARTITION else None)
