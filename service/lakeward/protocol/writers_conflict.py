"""When work beside writers may be published without one of them failing for it: publish, wait, leave out, drop.

A writer in optimistic concurrency mode that commits, and meets what was published meanwhile in a file group of its own,
fails; a table service asks no one and wins. So the service has to yield. When a write W commits, it compares itself
with instants that were requested after *last*: of all that was complete when W began, the one with the greatest
requested time. On tables of version 9 a FULL is none of them; a LOG at T_L harms no W whose *last* is greater.

    LOG in a gap       no write is live: each that comes finds the LOG complete
    LOG, overtaken     a commit C with a requested time after T_L is complete, and each live write began after that: for
                       all of them, and all that come, last > T_L
    FULL               any time; but a live write that was merely `.requested` when the plan was made may remember it as
                       pending, and finds it complete, so that one ends first

    as stated        LOG                                  FULL
    default          in a gap, or overtaken               once those that were merely requested have ended
    prefer-writer    in a gap                             once each write that began before its plan has ended
    1.0              in a gap, or overtaken               any time, planned where no write was live

Only writes that may touch a partition of the plan count. One that holds work back for longer than the limit is a *long
write*: the partitions that it may touch are left out, and a FULL is not published.

Touches: nothing.
Keeps:   1. no live write fails for what is published, by the rules that were stated;
         2. an overtaken plan stays overtaken, whatever begins and completes after that;
         3. the wait for one write is bounded, and so is that for all of them;
         4. a long write holds up only the partitions that it may touch.
Source:  SimpleConcurrentFileWritesConflictResolutionStrategy, PreferWriterConflictResolutionStrategy, TransactionUtils
         (Hudi 1.0.2, 1.1.1 and 1.2.0).
See:     docs/decisions/0027-writers-are-waited-for.md
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.table.table_version import TableVersion

WAITS_MAX = 3
"""So many times the limit is the longest wait in all: for a write that was there, for the one that overtakes, and for
those that began before that one was complete."""

SETTLED_SECONDS = 1.0
"""So long after a commit its writer has begun the next write, if it writes without a pause."""

REST_SECONDS = 5.0
"""A writer whose pauses are as long, as a rule, rests between its writes."""

EXPECTED_SECONDS = 10.0
"""So long after a commit the next write of one that does not rest is expected. It may be asleep until its next poll
of the lock, and then nothing shows it."""

LOG_PLANS_MAX = 4
"""Each is a commit of its own, which takes the lock."""

LOG_PLAN_PARTITIONS = 8
"""A plan of so few partitions is not split."""


class WritersConflict(StrEnum):
    """The rules by which the writers find conflicts."""

    DEFAULT = "default"
    PREFER_WRITER = "prefer-writer"
    RELEASE_1_0 = "1.0"


@dataclass(frozen=True, slots=True)
class YieldOptions:
    """What an operator says of yielding to writers."""

    seconds: float = 60.0
    """How long to wait for one write."""
    configured: WritersConflict | None = None
    """None: as the table's version has it."""

    def rules_for(self, version: TableVersion) -> WritersConflict:
        if self.configured is not None:
            return self.configured
        return WritersConflict.DEFAULT if version.has_later_conflict_rules else WritersConflict.RELEASE_1_0


@dataclass(frozen=True, slots=True)
class LiveWrite:
    """A pending write with a heartbeat that has not expired."""

    instant: str
    partitions: frozenset[str] | None = None
    """The partitions that it says it touches; None where it says nothing, and may touch any."""
    inflight_at: float | None = None
    """When its `.inflight` was made, by the storage's clock; None while it is merely requested."""
    inflight_seconds: float = 0.0
    """For how long it has been inflight."""

    def may_touch(self, partitions: Collection[str]) -> bool:
        return self.partitions is None or not self.partitions.isdisjoint(partitions)


@dataclass(frozen=True, slots=True)
class Writes:
    """What a scan of the timeline and of the heartbeats shows of writes."""

    live: tuple[LiveWrite, ...] = ()
    completed: Mapping[str, str] = field(default_factory=dict)
    """Completion times of completed writes, this one among them, by requested time."""
    newest_commit: str | None = None
    """The greatest completion time of a writer's."""
    newest_commit_age: float | None = None
    """Seconds since then."""
    usual_seconds: float | None = None
    """For how long writers' writes are inflight, as a rule."""
    usual_pause: float | None = None
    """For how long after a commit the next write begins, as a rule; None where nothing shows it."""

    @property
    def partitions(self) -> frozenset[str]:
        """The partitions that live writes say they touch."""
        return frozenset(partition for write in self.live for partition in write.partitions or ())

    def touching(self, partitions: Collection[str]) -> tuple[LiveWrite, ...]:
        return tuple(write for write in self.live if write.may_touch(partitions))

    @property
    def is_calm(self) -> bool:
        """Whether the lock can be taken so that probably no writer asks for it meanwhile.

        A writer takes it to begin, shortly after its last commit, and to commit. So: no write is between its
        `.requested` and its `.inflight`, none is about to end, and the newest commit was followed by another write or
        by a pause.
        """
        if any(write.inflight_at is None or self._is_about_to_end(write) for write in self.live):
            return False
        is_restless = self.usual_pause is not None and self.usual_pause < REST_SECONDS
        settled = EXPECTED_SECONDS if is_restless else SETTLED_SECONDS
        if self.newest_commit is None or self.newest_commit_age is None or self.newest_commit_age >= settled:
            return True
        return any(is_before(self.newest_commit, write.instant) for write in self.live)

    def _is_about_to_end(self, write: LiveWrite) -> bool:
        """Whether it is, by what is usual; nothing is known of a write that takes much longer."""
        usual = self.usual_seconds
        return usual is not None and usual / 2 < write.inflight_seconds < usual * 2


@dataclass(frozen=True, slots=True)
class MergedWork:
    """A plan whose work is done."""

    instant: str
    is_log: bool
    """Whether it is a log compaction; a hybrid plan is none."""
    partitions: frozenset[str]
    requested_at: float = 0.0
    """When its `.requested` was made, by the storage's clock."""


@dataclass(frozen=True, slots=True)
class Verdict:
    wait_for: tuple[LiveWrite, ...] = ()
    """Writes to wait for, and then scan again."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Partitions that are not published, and the long write for which each is left out."""
    dropped_for: str | None = None
    """The long write for which nothing is published."""

    @property
    def may_publish(self) -> bool:
        return not self.wait_for and self.dropped_for is None


def decide(
    work: MergedWork,
    writes: Writes,
    *,
    rules: WritersConflict,
    options: YieldOptions,
    waited: Mapping[str, float],
    waited_in_all: float,
) -> Verdict:
    """
    Args:
        waited: for how long each write has held work back, in seconds.
        waited_in_all: for how long this work has been held back.
    """
    holding = _holding_back(work, writes, rules)
    is_over = waited_in_all >= WAITS_MAX * options.seconds
    long = [write for write in holding if is_over or waited.get(write.instant, 0.0) >= options.seconds]
    waited_for = [write for write in holding if write not in long]
    if not long:
        return Verdict(tuple(waited_for))
    if not work.is_log:
        return Verdict(dropped_for=long[0].instant)  # a plan of FULL is published whole
    left_out = {
        partition: write.instant
        for write in reversed(long)
        for partition in sorted(work.partitions)
        if write.may_touch((partition,))
    }
    rest = work.partitions - left_out.keys()
    if not rest:
        return Verdict(dropped_for=long[0].instant)
    return Verdict(tuple(write for write in waited_for if write.may_touch(rest)), left_out)


def _holding_back(work: MergedWork, writes: Writes, rules: WritersConflict) -> list[LiveWrite]:
    touching = writes.touching(work.partitions)
    if work.is_log:
        overtaken_at = None if rules is WritersConflict.PREFER_WRITER else _overtaken_at(work, writes)
        return [write for write in touching if overtaken_at is None or not is_before(overtaken_at, write.instant)]
    match rules:
        case WritersConflict.RELEASE_1_0:
            return []
        case WritersConflict.PREFER_WRITER:
            return [write for write in touching if is_before(write.instant, work.instant)]
        case WritersConflict.DEFAULT:
            # t0 W is requested; t1 we plan; t2 W loads the timeline, and remembers our plan as pending; t3 we publish;
            # t4 W commits, finds that what it remembers is complete and younger than itself, and fails.
            return [
                write
                for write in touching
                if is_before(write.instant, work.instant)
                and (write.inflight_at is None or write.inflight_at >= work.requested_at)
            ]


def _overtaken_at(work: MergedWork, writes: Writes) -> str | None:
    """When the first commit was complete that was requested after the plan."""
    times = (end for begin, end in writes.completed.items() if is_before(work.instant, begin))
    return min(times, key=comparable_time, default=None)


def few_partitions_each(partitions: Set[str], busy: Set[str]) -> list[frozenset[str]]:
    """The partitions of plans to be published one after the other: a long write holds up the plan that has one of its
    own, so those in which writes are at work come last."""
    ordered = sorted(partitions, key=lambda partition: (partition in busy, partition))
    size = max(LOG_PLAN_PARTITIONS, ceil(len(ordered) / LOG_PLANS_MAX))
    return [frozenset(ordered[start : start + size]) for start in range(0, len(ordered), size)]
