"""The failed writes of a table, as a snapshot, its heartbeats and its pending rollbacks show them.

A write has a heartbeat on the table, and one on its metadata table while it writes there; either says that it lives.

A rollback of ours has our mark from before its plan is on the timeline until after it is completed: a heartbeat with
our line, or a folder of an attempt. One without it is another engine's, and without a heartbeat nothing tells whether
that is at work.

Touches: reads heartbeats, plans of rollbacks, and folders of attempts.
Keeps:   a write of which any heartbeat beats, or may, is alive.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.commit.attempt_files import ATTEMPT, temp_folder
from lakeward.commit.creation import read_if_there
from lakeward.commit.heartbeat import Life, read_liveness, watch
from lakeward.commit.heartbeat_line import heartbeat_path
from lakeward.commit.owner import parse_owner
from lakeward.execute.serviced_table import ServicedTable
from lakeward.plan.rollback import Beat, PendingRollback, RollbackDecision, RollbackFacts, Step, decide
from lakeward.table.metadata.metadata_table import has_metadata_table, metadata_base_path
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import WRITE_ACTIONS

_BEATING = frozenset({*WRITE_ACTIONS, "clustering", "rollback"})
"""Hudi 1.2 has a heartbeat at a rollback, too, where writers share a lock."""


def judge(table: ServicedTable, snapshot: TableSnapshot) -> tuple[RollbackDecision, ...]:
    """What to do with each pending instant, the newest first."""
    places = heartbeat_places(table, snapshot)
    facts = RollbackFacts(
        beats={time: _beat(table, places, time) for time in _beating(snapshot)},
        rollbacks={
            instant.time: PendingRollback(snapshot.rollback_targets.get(instant.time), is_ours(table, instant.time))
            for instant in snapshot.timeline.pending
            if instant.action == "rollback"
        },
        writers_stopped=table.options.writers_stopped,
    )
    return decide(snapshot.timeline, facts)


def judge_quiet(table: ServicedTable, snapshot: TableSnapshot, *, quiet_seconds: float) -> tuple[RollbackDecision, ...]:
    """The same, where there is something to do, and of instants of which nothing has changed on the timeline for so
    long. Reads no heartbeat where there is no such instant."""
    timeline, now = snapshot.timeline, table.clock.now()
    quiet = {
        instant.time
        for instant in timeline.pending
        if instant.action in _BEATING
        if now - max(timeline.modified[each.file_name] for each in timeline.instants if each.time == instant.time)
        >= quiet_seconds
    }
    if not quiet:
        return ()
    return tuple(each for each in judge(table, snapshot) if each.instant in quiet and each.step is not Step.LEAVE)


def watch_writers(table: ServicedTable, snapshot: TableSnapshot) -> None:
    """Wait until it can be told of each heartbeat whether it beats. Not under the lock."""

    def on_wait(what: str, seconds: float) -> None:
        table.guard()
        table.observer.waiting(what, seconds)

    for place in heartbeat_places(table, snapshot):
        watch(
            table.storage,
            place,
            _beating(snapshot),
            clock=table.clock,
            processes=table.processes,
            on_wait=on_wait,
        )


def heartbeat_places(table: ServicedTable, snapshot: TableSnapshot) -> tuple[str, ...]:
    """The base paths below which writes of the table have heartbeats."""
    metadata = (metadata_base_path(table.base_path),) if has_metadata_table(snapshot.config) else ()
    return (table.base_path, *metadata)


def is_ours(table: ServicedTable, rollback: str) -> bool:
    """Whether a process of Lakeward began this rollback."""
    storage, base_path = table.storage, table.base_path
    line = read_if_there(storage, heartbeat_path(base_path, rollback))
    if line is not None and parse_owner(line) is not None:
        return True
    return any(ATTEMPT in status.name for status in storage.list(temp_folder(base_path, rollback)) if status.is_folder)


def _beating(snapshot: TableSnapshot) -> list[str]:
    """The pending instants that may have a heartbeat."""
    return [instant.time for instant in snapshot.timeline.pending if instant.action in _BEATING]


def _beat(table: ServicedTable, places: Iterable[str], instant: str) -> Beat:
    lives = {
        read_liveness(table.storage, place, instant, clock=table.clock, processes=table.processes).life
        for place in places
    }
    if Life.ALIVE in lives:
        return Beat.ALIVE
    return Beat.ABSENT if lives == {Life.ABSENT} else Beat.DEAD
