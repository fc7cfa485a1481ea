"""Choose what happens to each table service that was begun and not completed, or planned and not begun: the pending
instants of a timeline that are no writes, with what is known of their processes, in; a decision with its reason out.

    compaction          released: what its dead attempt left goes, its plan stays, and the next compaction carries it
                        out, Hudi's or Lakeward's. For writers have opened file slices by the plan
    log compaction      unscheduled: its plan goes too, since another one is made of the logs as they are then
    clustering          rolled back as a write is, with its plan: it has replaced nothing, and holds its file groups
    clean               left to the next clean, which ends it: what it deleted stays so
    indexing            aborted: what it was building goes, with its plan. No Hudi goes on with one that is begun; one
                        that is not, too, when it waits for as long
    restore             left to the command that ends it
    a plan not begun    left: to carry it out loses nothing. A clustering that an operator names is rolled back

Which engine began it is not asked; a plan of Lakeward may be in another engine's hands. Its process counts as

    alive      a heartbeat beats, whatever else is said
    dead       a heartbeat stopped (decision 0017); or there is none, and the operator says that no writer is at work;
               or there is none, and nothing of it has changed for `silent_after`: neither its files on the timeline nor
               its markers, of which an engine makes one for each file that it writes; nor, of an indexing, what it is
               building
    may live   there is none, and none of that holds

Without a heartbeat nothing else shows a death: Hudi 1.2 has one for compactions where writers share a lock, 1.0 and
1.1 have none, and no release has one for log compactions, nor by its defaults for clusterings.

Touches: nothing.
Keeps:   1. nothing is done to what may live, nor to a plan that is not begun and that no operator named;
         2. what is not known of an instant counts as a sign of life;
         3. nothing is done to what a pending rollback is about.
Source:  BaseHoodieTableServiceClient (compact, logCompact, cluster, isClusteringInstantEligibleForRollback) and
         HoodieTable.rollbackInflight* (Hudi 1.2).
See:     docs/decisions/0039-stuck-services.md
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakeward.format.timeline.instant import Instant, State
from lakeward.protocol.pending.rollback import WHY, Beat, RollbackDecision, RollbackReason, Step, newest_first
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline

_STEPS: Mapping[str, Step] = {
    "compaction": Step.RELEASE,
    "logcompaction": Step.UNSCHEDULE,
    "clustering": Step.ROLL_BACK,
    "indexing": Step.ABORT,
}

_COMPACTS = "`lakeward compact` carries it out; `lakeward unschedule` removes it"
_WAITING: Mapping[str, str] = {
    "compaction": _COMPACTS,
    "logcompaction": _COMPACTS,
    "clustering": "the engine that planned it carries it out; `lakeward rollback TABLE INSTANT` removes its plan",
}
_ENDED_BY: Mapping[str, str] = {
    "clean": "the next clean ends it, `lakeward clean` or the daemon's: one of Lakeward's as soon as its process is "
    "dead, another engine's once nothing of it has changed for an hour, or at once with --writers stopped; so does a "
    "Hudi writer that cleans. What it deletes was dead when it was planned",
    "restore": "`lakeward restore` to the same commit ends it",
}


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What is known of the process of one pending service."""

    beat: Beat = Beat.ALIVE
    last_sign: float | None = None
    """When something of it changed last, in seconds since the epoch; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a service without a heartbeat counts as dead."""

    now: float
    """Seconds since the epoch."""
    silent_after: float | None
    """Seconds; None: never."""
    writers_stopped: bool = False
    """The operator says that no other process writes."""


def is_begun_service(instant: Instant) -> bool:
    """Whether its process matters: one that does not live leaves something to do. A plan to index counts as begun, for
    it keeps every service that writes from the table."""
    return instant.action in _STEPS and (instant.state is State.INFLIGHT or instant.action == "indexing")


def is_judged(instant: Instant, asked: str | None) -> bool:
    """Whether its process matters, or whether one may come: of a clustering that an operator named."""
    return is_begun_service(instant) or (instant.action == "clustering" and instant.time == asked)


def decide_services(
    timeline: Timeline,
    facts: Mapping[str, ServiceFacts],
    deadline: Deadline,
    *,
    rolled_back: Collection[str],
    asked: str | None = None,
) -> tuple[RollbackDecision, ...]:
    """One decision for each pending instant that is neither a write nor a rollback, the newest first.

    Args:
        facts: by instant, of those that are judged.
        rolled_back: what pending rollbacks are about.
        asked: the instant that an operator named.
    """
    return newest_first(
        decide_service(instant, facts.get(instant.time, ServiceFacts()), deadline, rolled_back, asked)
        for instant in timeline.pending
        if instant.action not in {*WRITE_ACTIONS, "rollback"}
    )


def decide_service(
    instant: Instant,
    facts: ServiceFacts,
    deadline: Deadline,
    rolled_back: Collection[str],
    asked: str | None = None,
) -> RollbackDecision:
    """What happens to one of them."""
    if not is_judged(instant, asked):
        hint = _WAITING.get(instant.action)
        reason = RollbackReason.PENDING_SERVICE if hint is None else RollbackReason.WAITING
        hint = hint or _ENDED_BY.get(instant.action, "the engine that began it goes on with it")
        return RollbackDecision(instant.time, instant.action, Step.LEAVE, reason, f"{WHY[reason]}: {hint}")
    until = None
    if facts.last_sign is not None and deadline.silent_after is not None:
        until = facts.last_sign + deadline.silent_after
    if facts.beat is Beat.ALIVE:
        return _decision(instant, Step.LEAVE, RollbackReason.LIVE_WRITER)
    if instant.time in rolled_back:
        return _decision(instant, Step.LEAVE, RollbackReason.ROLLBACK_PENDING)
    step = _STEPS[instant.action]
    if facts.beat is Beat.DEAD:
        return _decision(instant, step, RollbackReason.DEAD_WRITER)
    if deadline.writers_stopped:
        return _decision(instant, step, RollbackReason.WRITERS_STOPPED)
    if until is not None and deadline.now >= until:
        return _decision(instant, step, RollbackReason.SILENT)
    maybe = RollbackReason.MAYBE_AT_WORK if is_begun_service(instant) else RollbackReason.MAYBE_BEGUN
    return _decision(instant, Step.LEAVE, maybe, until)


def _decision(instant: Instant, step: Step, reason: RollbackReason, until: float | None = None) -> RollbackDecision:
    return RollbackDecision(instant.time, instant.action, step, reason, WHY[reason], until=until)
