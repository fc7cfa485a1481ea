"""Abort an indexing that was begun and whose process is gone, so that the table can be serviced again.

    under the lock: judge again -> nothing completed -> what it was building leaves the properties, and then its place
                    -> .inflight -> .requested

No Hudi goes on with an indexing that is begun, and until it is gone every service that writes refuses the table. A
partition that is built stays: the process died between saying so in the properties and completing its instant, or a
writer built it afterwards. The index definitions stay as well; the next Hudi writer whose options ask for the index
builds it. What the indexing has pending on the metadata table's timeline is rolled back by that writer.

Touches: under the table lock `hoodie.properties`, partitions of `.hoodie/metadata`, and the instant's files.
Keeps:   1. nothing is done to an indexing that may be at work, by `protocol/pending/stuck.py`, as seen under the lock;
         2. no partition goes that the properties call built;
         3. stopped anywhere in between, the plan is still there, and the same command does the rest.
See:     docs/decisions/0039-stuck-services.md
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import Refused, TryLater, UsageError
from lakeward.base.paths import join
from lakeward.format.timeline.indexing_plan import read_indexed_partitions
from lakeward.protocol.lock.lock_choice import LockOptions, open_lock
from lakeward.protocol.lock.table_lock import Fence, OnWait, wait_silently
from lakeward.protocol.owner import Owner
from lakeward.protocol.pending.rollback import RollbackDecision, RollbackReason, Step
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.transition import ServiceAction, TimelineFiles
from lakeward.services.metadata.run.removal import Removal, find_unbuilt, remove_unbuilt
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.table_config import timeline_folder


@dataclass(frozen=True, slots=True)
class AbortedIndexing:
    """An indexing that is gone, or would be."""

    decision: RollbackDecision
    removals: tuple[Removal, ...]
    """What it was building."""
    kept: tuple[str, ...]
    """Partitions of its plan that stay, or of which there is nothing."""


def preview_aborting(judge: Judge, instant: str | None, *, timezone: str | None) -> AbortedIndexing | None:
    """What `abort_indexing` would do now, or why it would not: raises as that does. Writes nothing."""
    snapshot = _snapshot(judge, timezone)
    decision = _decision(judge, snapshot, instant)
    if decision is None:
        return None
    partitions = _partitions(judge, snapshot, decision)
    found = find_unbuilt(judge.storage, judge.base_path, partitions, clock=judge.clock, processes=judge.processes)
    return _aborted(decision, found, partitions)


def abort_indexing(
    judge: Judge,
    instant: str | None,
    *,
    timezone: str | None,
    lock: LockOptions,
    on_wait: OnWait = wait_silently,
) -> AbortedIndexing | None:
    """None where no indexing is pending. Without an instant the oldest.

    Raises:
        Refused, TryLater: it may be at work, or a writer is at work on what would go.
        UsageError: the instant is no pending indexing.
        AttemptLost: it is completed.
    """
    owner = judge.processes.new_owner()
    locked = open_lock(
        judge.storage,
        judge.base_path,
        owner,
        lock,
        clock=judge.clock,
        processes=judge.processes,
        on_wait=on_wait,
    )
    if _decision(judge, _snapshot(judge, timezone), instant) is None:
        return None
    with locked:
        snapshot = _snapshot(judge, timezone)
        decision = _decision(judge, snapshot, instant)
        return None if decision is None else _abort(judge, snapshot, decision, owner, locked.fence)


def _abort(
    judge: Judge, snapshot: TableSnapshot, decision: RollbackDecision, owner: Owner, fence: Fence
) -> AbortedIndexing:
    storage, base_path = judge.storage, judge.base_path
    files = TimelineFiles(
        storage, timeline_folder(base_path, snapshot.config), decision.instant, ServiceAction.INDEXING
    )
    files.check_uncompleted()
    partitions = _partitions(judge, snapshot, decision)
    removals = remove_unbuilt(
        storage,
        base_path,
        partitions,
        clock=judge.clock,
        processes=judge.processes,
        attempt=owner.attempt,
        fence=fence,
    )
    fence()
    files.roll_back()
    files.unschedule()
    return _aborted(decision, removals, partitions)


def _snapshot(judge: Judge, timezone: str | None) -> TableSnapshot:
    return take_snapshot(judge.storage, judge.base_path, timezone=timezone, clock=judge.clock, only=())


def _decision(judge: Judge, snapshot: TableSnapshot, instant: str | None) -> RollbackDecision | None:
    """What is to be aborted. Raises why it is not."""
    found = [each for each in judge.services(snapshot) if each.action == "indexing"]
    named = [each for each in found if instant in (None, each.instant)]
    if not named:
        if instant is None:
            return None
        raise UsageError(
            f"{instant} is no pending indexing.",
            why=f"Pending are {', '.join(each.instant for each in found) or 'none'}.",
            remedy="`lakeward inspect` shows the timeline.",
        )
    oldest = named[-1]
    if oldest.step is Step.ABORT:
        return oldest
    kind = TryLater if oldest.reason is RollbackReason.LIVE_WRITER else Refused
    raise kind(
        f"Indexing {oldest.instant} is left.",
        why=f"{oldest.why[:1].upper()}{oldest.why[1:]}.",
        remedy="Wait until it ends; or stop it and all writers, and pass --writers stopped.",
    )


def _partitions(judge: Judge, snapshot: TableSnapshot, decision: RollbackDecision) -> tuple[str, ...]:
    requested = join(timeline_folder(judge.base_path, snapshot.config), f"{decision.instant}.indexing.requested")
    return read_indexed_partitions(judge.storage.read(requested), file=requested)


def _aborted(decision: RollbackDecision, removals: tuple[Removal, ...], partitions: tuple[str, ...]) -> AbortedIndexing:
    gone = {removal.partition for removal in removals}
    return AbortedIndexing(decision, removals, tuple(name for name in partitions if name not in gone))
