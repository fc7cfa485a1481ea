"""Waiting for the writers that would fail for what a claimed plan publishes, and what happens to it after too long.

Touches: reads the table's timeline and heartbeats; waits, never under the table lock.
Keeps:   1. whether to publish is decided on what the timeline shows under the lock;
         2. a wait is bounded, can be stopped by the guard, and is shown;
         3. of a plan of FULL all is published or nothing, and then it stays to be carried out.
See:     docs/decisions/0027-writers-are-waited-for.md
"""

from __future__ import annotations

from lakeward.base.errors import TryLater
from lakeward.format.timeline.instant import State, parse_instant_time
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import ServiceAction
from lakeward.protocol.writers_conflict import LiveWrite, MergedWork, Verdict, Writes, decide
from lakeward.services.compaction.run.claim import Claim
from lakeward.services.compaction.run.targets import Dropped, Targets
from lakeward.table.timeline.timeline import Timeline

POLL_SECONDS = 0.5
_PARTITIONS_SHOWN = 3


class Yielding:
    """For one claimed plan."""

    def __init__(self, table: ServicedTable, claim: Claim) -> None:
        self._table = table
        self._claim = claim
        self._options = table.options.yielding
        self.rules = self._options.rules_for(claim.snapshot.config.version)
        self._is_log = claim.action is ServiceAction.LOG_COMPACTION
        timeline = claim.snapshot.timeline
        self._requested_at = next(
            timeline.modified[each.file_name]
            for each in timeline.instants
            if each.time == claim.instant and each.state is State.REQUESTED
        )
        self._since: float | None = None

    def await_writers(self, targets: Targets) -> None:
        """Until what was merged may be published, or it was waited for long enough."""
        table = self._table
        if table.options.writers_stopped:
            return
        while (verdict := self._verdict(table.writers.scan(), targets)).wait_for:
            write = verdict.wait_for[0]
            table.pause(self._shown(write), table.writers.waited[write.instant], seconds=POLL_SECONDS)

    def let_through(self, targets: Targets, timeline: Timeline) -> Targets | None:
        """What of it may be published now; None where a write is to be waited for. Under the lock, with the timeline as
        it is. Raises `TryLater`."""
        if self._table.options.writers_stopped:
            return targets
        verdict = self._verdict(self._table.writers.scan(timeline), targets)
        if verdict.wait_for:
            return None
        if verdict.dropped_for is not None and not self._is_log:
            raise TryLater(
                f"{self._claim.name} is held back by write {verdict.dropped_for}.",
                why="The write began before it was planned and may fail if it is published now, and "
                f"{self._options.seconds:.0f} s were waited (--yield-to-writers).",
                remedy="Nothing has to be done: the plan stays, and is carried out once the write has ended.",
            )
        left, dropped = [], []
        for target in targets.of:
            partition, file_id = target.group_id
            write = verdict.dropped_for or verdict.left_out.get(partition)
            if write is None:
                left.append(target)
            else:
                why = f"write {write} is at work in the partition and was waited for"
                dropped.append(Dropped(partition, file_id, why))
        return Targets(tuple(left), (*targets.dropped, *dropped))

    def _verdict(self, writes: Writes, targets: Targets) -> Verdict:
        now = self._table.clock.monotonic()
        verdict = decide(
            MergedWork(
                self._claim.instant,
                is_log=self._is_log,
                partitions=frozenset(target.slice.partition_path for target in targets.of),
                requested_at=self._requested_at,
            ),
            writes,
            rules=self.rules,
            options=self._options,
            waited=self._table.writers.waited,
            waited_in_all=0.0 if self._since is None else now - self._since,
        )
        self._table.writers.held_up_by(verdict.wait_for)
        if verdict.wait_for and self._since is None:
            self._since = now
        return verdict

    def _shown(self, write: LiveWrite) -> str:
        zone, since = self._claim.snapshot.zone.zone, ""
        if zone is not None:
            since = f" of {self._table.clock.now() - parse_instant_time(write.instant, zone) / 1000:.0f} s"
        places = sorted(write.partitions or ())
        where = f"in partitions {', '.join(places[:_PARTITIONS_SHOWN])}" if any(places) else "in any partition"
        more = f" and {len(places) - _PARTITIONS_SHOWN} more" if len(places) > _PARTITIONS_SHOWN else ""
        return f"write {write.instant}{since} {where}{more}, at most {self._options.seconds:.0f} s"
