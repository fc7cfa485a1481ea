"""The failed writes of a table and the services that were left unfinished, as a snapshot, heartbeats, markers and
pending rollbacks show them.

A write has a heartbeat on the table, and one on its metadata table while it writes there; either says that it lives.

A rollback of Lakeward has our mark from before its plan is on the timeline until after it is completed: a heartbeat
with our line, or a folder of an attempt. One without it is another engine's, and without a heartbeat nothing shows
whether that is at work.

Touches: reads heartbeats, plans of rollbacks, and folders of attempts.
Keeps:   a write of which any heartbeat beats, or may, is alive.
"""

from __future__ import annotations

from lakeward.protocol.attempts.attempt_files import ATTEMPT, temp_folder
from lakeward.protocol.attempts.heartbeat import watch
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.creation import read_if_there
from lakeward.protocol.owner import parse_owner
from lakeward.protocol.pending.rollback import (
    PendingRollback,
    RollbackDecision,
    RollbackFacts,
    Step,
    decide,
    newest_first,
)
from lakeward.protocol.pending.stuck import is_begun_service, is_judged
from lakeward.protocol.pending.stuck_services import Judge, heartbeat_places
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import WRITE_ACTIONS

_BEATING = frozenset({*WRITE_ACTIONS, "rollback"})
"""Hudi 1.2 has a heartbeat at a rollback, too, where writers share a lock."""


def judge(table: ServicedTable, snapshot: TableSnapshot, *, asked: str | None = None) -> tuple[RollbackDecision, ...]:
    """What to do with each pending instant, the newest first.

    Args:
        asked: the instant that an operator named.
    """
    places, judge_of = heartbeat_places(table.base_path, snapshot), Judge.of(table)
    written = [instant.time for instant in snapshot.timeline.pending if instant.action in _BEATING]
    facts = RollbackFacts(
        beats={time: judge_of.beat(places, time) for time in written},
        rollbacks={
            instant.time: PendingRollback(snapshot.rollback_targets.get(instant.time), is_own(table, instant.time))
            for instant in snapshot.timeline.pending
            if instant.action == "rollback"
        },
        writers_stopped=table.options.writers_stopped,
    )
    return newest_first([*decide(snapshot.timeline, facts), *judge_of.services(snapshot, asked=asked)])


def judge_quiet(table: ServicedTable, snapshot: TableSnapshot, *, quiet_seconds: float) -> tuple[RollbackDecision, ...]:
    """The same, where there is something to do, and of instants of which nothing has changed on the timeline for so
    long. Reads no heartbeat where there is no such instant."""
    timeline, now = snapshot.timeline, table.clock.now()
    quiet = {
        instant.time
        for instant in timeline.pending
        if instant.action in _BEATING or is_begun_service(instant)
        if now - max(timeline.modified[each.file_name] for each in timeline.instants if each.time == instant.time)
        >= quiet_seconds
    }
    if not quiet:
        return ()
    return tuple(each for each in judge(table, snapshot) if each.instant in quiet and each.step is not Step.LEAVE)


def watch_writers(table: ServicedTable, snapshot: TableSnapshot, *, asked: str | None = None) -> None:
    """Wait until it can be known of each heartbeat whether it beats. Not under the lock."""

    def on_wait(what: str, seconds: float) -> None:
        table.guard()
        table.observer.waiting(what, seconds)

    for place in heartbeat_places(table.base_path, snapshot):
        watch(
            table.storage,
            place,
            _beating(snapshot, asked),
            clock=table.clock,
            processes=table.processes,
            on_wait=on_wait,
        )


def is_own(table: ServicedTable, rollback: str) -> bool:
    """Whether a process of Lakeward began this rollback."""
    storage, base_path = table.storage, table.base_path
    line = read_if_there(storage, heartbeat_path(base_path, rollback))
    if line is not None and parse_owner(line) is not None:
        return True
    return any(ATTEMPT in status.name for status in storage.list(temp_folder(base_path, rollback)) if status.is_folder)


def _beating(snapshot: TableSnapshot, asked: str | None) -> list[str]:
    """The pending instants that may have a heartbeat."""
    return [each.time for each in snapshot.timeline.pending if each.action in _BEATING or is_judged(each, asked)]
