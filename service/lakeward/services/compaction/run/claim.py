"""Become the one attempt at a plan: prove that no other is alive, roll dead ones back, start the heartbeat, begin.

Touches: the heartbeat, the attempt's folder and `.inflight` of the instant, under the table lock.
Keeps:   1. a plan has one attempt at a time; what a dead one left is gone before the next one starts;
         2. an attempt without a heartbeat is taken over only where `protocol/pending/stuck.py` calls it dead.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import Conflict, TryLater
from lakeward.format.timeline.compaction_plan import CompactionPlan
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.attempts.heartbeat import Life
from lakeward.protocol.pending.pending_work import PendingWork, pending_plan
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.run.recovery import roll_back_dead
from lakeward.services.compaction.run.targets import Targets, find_targets
from lakeward.table.index_definitions import IndexedColumns, load_indexed_columns
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.service_instants import groups_of

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A plan that this process carries out: its heartbeat beats, its attempt's folder and `.inflight` exist."""

    snapshot: TableSnapshot
    instant: str
    action: ServiceAction
    plan: CompactionPlan
    targets: Targets
    attempt: Attempt
    indexed: IndexedColumns | None
    """The columns that the metadata table wants statistics of, of the new files."""

    @property
    def name(self) -> str:
        return f"{label(self.action)} {self.instant}"


def claim_plan(table: ServicedTable, work: PendingWork) -> Claim | None:
    """Wait for a living attempt to end, and take its place. None when it carried the plan out."""
    instant, action = work.instant, work.action
    started = table.clock.monotonic()
    table.watch([instant])
    while True:
        with table.locked() as fence:
            snapshot = table.snapshot(only=frozenset(work.groups))
            attempt = table.attempt(snapshot, instant, action)
            if attempt.files.find_completed() is not None:
                return None
            liveness = table.liveness(instant)
            if liveness.life is not Life.ALIVE:
                plan = pending_plan(snapshot, instant)
                if frozenset(groups_of(plan)) != frozenset(work.groups):
                    raise _changed(work)
                targets = find_targets(snapshot, instant, plan, action)
                indexed = None
                if has_metadata_table(snapshot.config) and snapshot.schema is not None:
                    indexed = load_indexed_columns(table.storage, table.base_path, snapshot.config, snapshot.schema)
                if (why := Judge.of(table).why_maybe_at_work(snapshot, instant, liveness)) is not None:
                    raise TryLater(
                        f"Another process may be carrying out {label(action)} {instant}.",
                        why=f"{why[:1].upper()}{why[1:]}.",
                        remedy="Let that engine end it, or stop the writers and pass --writers stopped.",
                    )
                fence()
                if attempt.files.is_inflight() or liveness.life is not Life.ABSENT:
                    roll_back_dead(table, attempt, PendingWork(instant, action, plan), liveness, fence=fence)
                attempt.claim()
                return Claim(
                    snapshot=snapshot,
                    instant=instant,
                    action=action,
                    plan=plan,
                    targets=targets,
                    attempt=attempt,
                    indexed=indexed,
                )
        waited = table.clock.monotonic() - started
        if waited >= table.options.wait_seconds:
            owner = liveness.owner
            whose = f" and comes from process {owner.pid} on {owner.host}" if owner else ""
            raise TryLater(
                f"Another process is carrying out {label(action)} {instant}.",
                why=f"Its heartbeat is {liveness.age_seconds:.0f} s old{whose}.",
                remedy="Run the command again when it has finished, or raise --wait.",
            )
        table.pause(f"another attempt at {label(action)} {instant} is alive", waited, seconds=POLL_SECONDS)
        table.watch([instant])


def _changed(work: PendingWork) -> Conflict:
    return Conflict(
        f"The plan of {label(work.action)} {work.instant} is another one than a moment ago.",
        why="Its .requested file was rewritten, for example by Hudi's command line.",
        remedy="Run the command again.",
    )
