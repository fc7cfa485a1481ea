"""Choose what to roll back: what is pending on a timeline in, a decision with its reason for each instant out.

    a pending write     rolled back where its writer is dead; one whose heartbeat beats never is
    a pending rollback  ended where it is Lakeward's, or where the operator says that no writer is at work: it may be
                        another engine's that is just deleting, and has no heartbeat. One whose plan cannot be read no
                        engine can end, Hudi neither: on the same word it goes, and its write is a failed one as before
    anything else       `protocol/pending/stuck.py`

The writer of a write is dead when its heartbeat is too old and stayed as it was for longer than an interval (decision
0017). Where there is none at all, it depends on who says that writers leave one: those that share a lock do, from
before their `.requested` until after their commit, because sharing asks LAZY of them; with EAGER or NEVER they do not,
and only the operator's word that none is at work counts.

The newest comes first, as with Hudi. What an instant wrote is known by its name: from table version 8 on
every base file and log file carries the instant of its write.

Touches: nothing.
Keeps:   1. a write whose heartbeat beats is never rolled back, nor one that is completed;
         2. where a rollback of a write is pending, that one is ended and no second one is made;
         3. a file is chosen only if its name carries the instant.
Source:  BaseHoodieTableServiceClient.getInstantsToRollback and rollbackFailedWrites (Hudi 1.2).
See:     docs/decisions/0032-what-is-rolled-back.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakeward.base.quantities import format_time
from lakeward.format.timeline.instant import Instant, comparable_time
from lakeward.format.timeline.rollback_plan import RollbackPlan, written_file
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline


class Beat(StrEnum):
    """What the heartbeats of an instant say, the table's and its metadata table's together."""

    ALIVE = "alive"
    """One beats, or may."""
    DEAD = "dead"
    """There is one, and its process is gone, or it stopped."""
    ABSENT = "absent"


class Step(StrEnum):
    ROLL_BACK = "roll-back"
    END_ROLLBACK = "end-rollback"
    """A rollback that is pending already is carried out to its end."""
    DROP = "drop"
    """A rollback that no engine can end goes; what it was to roll back is pending as before."""
    RELEASE = "release"
    """What an attempt left goes, and its plan stays for the next one."""
    UNSCHEDULE = "unschedule"
    """The plan goes, too."""
    ABORT = "abort"
    """What an indexing was building goes, with its plan: `lakeward metadata abort-indexing`."""
    LEAVE = "leave"


_WHAT = {
    Step.RELEASE: "releases it, and the next compaction carries its plan out",
    Step.UNSCHEDULE: "unschedules it",
    Step.ROLL_BACK: "rolls it back",
    Step.DROP: "takes it away",
}


class RollbackReason(StrEnum):
    DEAD_WRITER = "dead-writer"
    NO_HEARTBEAT = "no-heartbeat"
    WRITERS_STOPPED = "writers-stopped"
    INTERRUPTED = "interrupted"
    LIVE_WRITER = "live-writer"
    ROLLBACK_PENDING = "rollback-pending"
    FOREIGN_ROLLBACK = "foreign-rollback"
    UNREADABLE_ROLLBACK = "unreadable-rollback"
    UNREADABLE_AND_STOPPED = "unreadable-and-stopped"
    SILENT = "silent"
    MAYBE_AT_WORK = "maybe-at-work"
    MAYBE_BEGUN = "maybe-begun"
    WAITING = "waiting"
    PENDING_SERVICE = "pending-service"


WHY: Mapping[RollbackReason, str] = {
    RollbackReason.DEAD_WRITER: "its writer died: the heartbeat stopped",
    RollbackReason.NO_HEARTBEAT: "its writer ended: writers that share the lock leave a heartbeat, and there is none",
    RollbackReason.WRITERS_STOPPED: "no writer is at work, as the operator says, and no heartbeat says otherwise",
    RollbackReason.INTERRUPTED: "it was interrupted",
    RollbackReason.LIVE_WRITER: "its process is at work: its heartbeat beats, or is too young to say that it stopped",
    RollbackReason.ROLLBACK_PENDING: "a rollback of it is pending already",
    RollbackReason.FOREIGN_ROLLBACK: "another engine began it, and may be deleting just now; its next write or clean "
    "ends it, or this command with --writers stopped",
    RollbackReason.UNREADABLE_ROLLBACK: "its plan cannot be read; where that stays so, no engine can end it, and this "
    "command with --writers stopped takes it away",
    RollbackReason.UNREADABLE_AND_STOPPED: "its plan cannot be read, so no engine can end it, and no writer is at "
    "work, as the operator says",
    RollbackReason.SILENT: "it has no heartbeat, and nothing of it has changed for rollback.silent_after",
    RollbackReason.MAYBE_AT_WORK: "another engine began it, without a heartbeat, and may be at work just now; it "
    "counts as dead with --writers stopped, or once nothing of it has changed for rollback.silent_after",
    RollbackReason.MAYBE_BEGUN: "another engine planned it, and may be about to begin it; its plan goes with --writers "
    "stopped, or once nothing of it has changed for rollback.silent_after",
    RollbackReason.WAITING: "it was planned and not begun",
    RollbackReason.PENDING_SERVICE: "it is no write",
}


@dataclass(frozen=True, slots=True)
class PendingRollback:
    """What is known of a rollback that is on the timeline and not completed."""

    target: str | None
    """The instant that it rolls back; None where its plan cannot be read."""
    is_own: bool


@dataclass(frozen=True, slots=True)
class RollbackFacts:
    """What the timeline does not say."""

    beats: Mapping[str, Beat] = field(default_factory=dict)
    """What the heartbeats of each pending write say, and of each pending rollback."""
    rollbacks: Mapping[str, PendingRollback] = field(default_factory=dict)
    """What is known of each, by the rollback's instant."""
    writers_stopped: bool = False
    """The operator says that no other process writes."""


@dataclass(frozen=True, slots=True)
class RollbackDecision:
    instant: str
    """The pending instant, which is a rollback's own where one is ended."""
    action: str
    step: Step
    reason: RollbackReason
    why: str
    target: str | None = None
    """What a rollback that is ended rolls back."""
    until: float | None = None
    """When it counts as dead, in seconds since the epoch, if nothing of it changes until then."""

    @property
    def sentence(self) -> str:
        """Which command does what to it, and why."""
        if self.step is Step.ABORT:
            return f"`lakeward metadata abort-indexing` ends it: {self.why}."
        until = "" if self.until is None else f", which is at {format_time(self.until)}"
        return f"`lakeward rollback` {_WHAT.get(self.step, 'leaves it')}: {self.why}{until}."


def decide(timeline: Timeline, facts: RollbackFacts) -> tuple[RollbackDecision, ...]:
    """One decision for each pending write and each pending rollback, the newest first."""
    return newest_first(
        _decide(instant, facts) for instant in timeline.pending if instant.action in {*WRITE_ACTIONS, "rollback"}
    )


def newest_first(decisions: Iterable[RollbackDecision]) -> tuple[RollbackDecision, ...]:
    return tuple(sorted(decisions, key=lambda each: comparable_time(each.instant), reverse=True))


def _decide(instant: Instant, facts: RollbackFacts) -> RollbackDecision:
    if instant.action == "rollback":
        return _decide_rollback(instant, facts)
    beat = facts.beats.get(instant.time, Beat.ALIVE)
    if beat is Beat.ALIVE:
        return _decision(instant, Step.LEAVE, RollbackReason.LIVE_WRITER)
    if any(rollback.target == instant.time for rollback in facts.rollbacks.values()):
        return _decision(instant, Step.LEAVE, RollbackReason.ROLLBACK_PENDING)
    if beat is Beat.DEAD:
        return _decision(instant, Step.ROLL_BACK, RollbackReason.DEAD_WRITER)
    if facts.writers_stopped:
        return _decision(instant, Step.ROLL_BACK, RollbackReason.WRITERS_STOPPED)
    return _decision(instant, Step.ROLL_BACK, RollbackReason.NO_HEARTBEAT)


def _decide_rollback(instant: Instant, facts: RollbackFacts) -> RollbackDecision:
    rollback = facts.rollbacks.get(instant.time)
    if rollback is None or rollback.target is None:
        if rollback is not None and facts.writers_stopped and facts.beats.get(instant.time) is not Beat.ALIVE:
            return _decision(instant, Step.DROP, RollbackReason.UNREADABLE_AND_STOPPED)
        return _decision(instant, Step.LEAVE, RollbackReason.UNREADABLE_ROLLBACK)
    is_alive = not rollback.is_own and facts.beats.get(instant.time) is Beat.ALIVE
    if is_alive or facts.beats.get(rollback.target) is Beat.ALIVE:
        return _decision(instant, Step.LEAVE, RollbackReason.LIVE_WRITER, rollback.target)
    if rollback.is_own or facts.writers_stopped:
        return _decision(instant, Step.END_ROLLBACK, RollbackReason.INTERRUPTED, rollback.target)
    return _decision(instant, Step.LEAVE, RollbackReason.FOREIGN_ROLLBACK, rollback.target)


def _decision(instant: Instant, step: Step, reason: RollbackReason, target: str | None = None) -> RollbackDecision:
    return RollbackDecision(instant.time, instant.action, step, reason, WHY[reason], target)


def plan_rollback(instant: str, action: str, names: Mapping[str, Iterable[str]], *, native: bool) -> RollbackPlan:
    """The plan to delete what `instant` wrote.

    Args:
        names: those of the files in each partition that it may have written to, by partition path.
        native: the table's version has native logs.
    """
    written = {
        path: tuple(sorted(name for name in of if written_file(name, instant, native=native)))
        for path, of in names.items()
    }
    return RollbackPlan(instant, action, {path: of for path, of in sorted(written.items()) if of})
