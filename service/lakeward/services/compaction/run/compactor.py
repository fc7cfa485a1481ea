"""Make compaction plans true: finish what is pending, then plan again, publish the choice and carry it out.

    snapshot -> (refuse) -> recover -> finish pending plans, oldest first -> plan, schedule -> carry out
    carry out:  claim    -- lock: no attempt alive? roll dead ones back, heartbeat, inflight
                merge    -- one task per file slice, into the attempt's folder
                publish  -- lock: another snapshot, move the files in, T_C.commit
                clear    -- heartbeat and folder go

Every step can be the last one that a process does. What it left is rolled back or forward by the next run: an attempt
whose heartbeat stopped is rolled back and its plan carried out again; a commit that exists is the end of its plan.

Touches: the table, through `commit`; Spark, through a dispatcher.
Keeps:   1. nothing is written before every refusal was considered, on a snapshot that is right under the lock;
         2. a failed attempt leaves the plan and nothing else, and never a `.logcompaction.inflight`;
         3. nothing is rolled back while a commit of the instant exists or might exist;
         4. a file group that is excluded, or has damaged files, is in no plan that is made or carried out;
         5. a plan that another engine may be carrying out is left alone, and the other groups go on.
Source:  Hudi's compaction protocol (BaseHoodieTableServiceClient, Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from lakeward.base.errors import AttemptLost, Conflict, LockLost
from lakeward.engine.task.operation_spec import OperationKind, OperationResult
from lakeward.protocol.life_cycle import run_attempt, settle
from lakeward.protocol.pending.pending_work import PendingWork
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.progress import Count, Engine, Phase
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction.plan.decision import PlanOutcome, Reason
from lakeward.services.compaction.plan.planner import Planner
from lakeward.services.compaction.run.claim import Claim, claim_plan
from lakeward.services.compaction.run.group_selection import choose
from lakeward.services.compaction.run.log_checks import CheckedLogs, find_damaged
from lakeward.services.compaction.run.operations import ChooseDispatcher, RunOperation
from lakeward.services.compaction.run.plan_preview import Preview
from lakeward.services.compaction.run.plan_publication import schedule
from lakeward.services.compaction.run.publication import CompactionService
from lakeward.services.compaction.run.recovery import Recovery, recover
from lakeward.services.compaction.run.targets import Dropped, Target, Targets
from lakeward.services.compaction.run.unschedule import Hindrance, StillScheduled, Unscheduled, unschedule
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.timeline.service_instants import PLANNED_BY, groups_of


@dataclass(frozen=True, slots=True)
class CompactedPlan:
    """One plan that this run brought to an end."""

    instant: str
    action: ServiceAction
    completion_time: str | None
    """None when nothing of the plan could be carried out any more and it was unscheduled."""
    recovered: bool
    """True when the plan was pending before this run."""
    operations: tuple[OperationResult, ...]
    dropped: tuple[Dropped, ...]
    read_bytes_before: int
    """What a snapshot query had to read of the plan's file slices."""
    read_bytes_after: int
    base_bytes_left: int
    """Bytes of the base files that a full compaction of the same slices would have rewritten, and LOG operations did
    not."""
    seconds: float
    merged_log_files: int = 0
    """Logs that readers merged before, and merge no more."""
    merged_log_bytes: int = 0
    engine: Engine | None = None
    """What the operations ran on; None where there was none to run."""
    targets: tuple[Target, ...] = ()
    """What each of the operations worked on, in their order."""

    @property
    def input_bytes(self) -> int:
        return sum(operation.input_bytes for operation in self.operations)

    @property
    def output_bytes(self) -> int:
        return sum(operation.output_bytes for operation in self.operations)

    @property
    def bloom_error_rates(self) -> list[float]:
        """How often the bloom filters of new base files err that have more keys than there was room for."""
        return [each.bloom_error_rate for each in self.operations if each.bloom_error_rate is not None]

    @property
    def peak_memory_bytes(self) -> int:
        """Peak of the operation that needed most; 0 where unknown."""
        return max((operation.peak_memory_bytes for operation in self.operations), default=0)


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What `compact` did."""

    plans: tuple[CompactedPlan, ...]
    outcome: PlanOutcome
    """The decisions of the plan made after the pending ones were finished."""
    unscheduled: tuple[Unscheduled, ...] = ()
    """Pending plans of Lakeward that were unscheduled because they hold an excluded file group."""
    left_pending: tuple[StillScheduled, ...] = ()
    """Pending plans that hold one and could not be unscheduled, or that another engine may be carrying out."""
    damage: tuple[DamagedFile, ...] = ()
    """Files that are not what their commits say; nothing was done to their groups."""
    whole: frozenset[GroupId] = frozenset()
    """File groups whose LOG has to start at the oldest log, for the deletes that were found."""
    without_log: frozenset[GroupId] = frozenset()
    """File groups of the layout `lsm_tree` of which no LOG is made, for what was found in their logs."""


class Compactor:
    """Compacts one table."""

    def __init__(
        self,
        table: ServicedTable,
        *,
        planner: Planner,
        choose_dispatcher: ChooseDispatcher,
        run_operation: RunOperation,
        excluded: Mapping[GroupId, Reason] | None = None,
        planned_by: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            planner: pure; chooses what is done.
            choose_dispatcher: from a plan's input bytes to where it runs.
            run_operation: called where the operation runs; has its own access to the storage.
            excluded: file groups that nothing is done to, and why (`PARKED`, `PAUSED`).
            planned_by: more to write into our plans' extra metadata.
        """
        self._table = table
        self._planner = planner
        self._choose_dispatcher = choose_dispatcher
        self._run_operation = run_operation
        self._excluded = dict(excluded or {})
        self._planned_by = dict(planned_by or {})

    def preview(self) -> Preview:
        """The decisions `compact` would take now, and the snapshot they are of. Writes nothing. Raises `Refused`."""
        return self._choose(CheckedLogs(excluded=self._excluded))

    def recover(self) -> Recovery:
        """Remove leftovers of Lakeward and roll back attempts of processes of Lakeward that died; begin nothing."""
        with self._counted():
            return self._recover()

    def compact(self) -> CompactionReport:
        """Finish all pending plans, then plan again and carry that out.

        Raises:
            Refused: the table is not one that this release may change; nothing was written.
            LockHeld, TryLater: another process is at work.
            VerificationFailed: an operation's output was wrong; nothing was published.
            Whatever the guard raises: nothing was published after it did.
        """
        with self._counted():
            ready, maybe_at_work = self._without_what_may_be_at_work(self._recover())
            pending, unscheduled, left_pending = self._without(self._excluded.keys(), ready)
            damaged = self._find_damaged(pending)
            pending, unscheduled_too, left_too = self._without(damaged.keys(), pending)
            checked = CheckedLogs(excluded=self._excluded).with_damage(chain.from_iterable(damaged.values()))
            done = [self._carry_out(work, recovered=True) for work in pending]
            preview = self._choose(checked)
            if preview.outcome.operations:
                scheduled, preview = schedule(
                    self._table, self._planner, preview, self._choose_dispatcher, self._planned_by
                )
                done += [self._carry_out(work, recovered=False) for work in scheduled]
        return CompactionReport(
            tuple(plan for plan in done if plan is not None),
            preview.outcome,
            (*unscheduled, *unscheduled_too),
            (*maybe_at_work, *left_pending, *left_too),
            preview.checked.damage,
            preview.checked.whole,
            preview.checked.without_log,
        )

    def unschedule(self, instant: str, *, foreign: bool = False) -> Unscheduled | StillScheduled:
        """Remove the pending plan of `instant`, with what a dead attempt at it left, so that its groups are free.

        Args:
            foreign: also when another engine planned it, which must not be about to carry it out.

        Raises:
            AttemptLost: it was completed just now.
        """
        with self._counted():
            return unschedule(self._table, instant, foreign=foreign)

    def _choose(self, checked: CheckedLogs) -> Preview:
        return choose(self._table, self._planner, self._table.snapshot(), checked)

    def _recover(self) -> Recovery:
        self._table.snapshot()  # a refused table is not even locked
        self._table.watch_own()
        with self._table.locked() as fence:
            return recover(self._table, self._table.snapshot(only=()), fence=fence)

    def _without_what_may_be_at_work(self, recovery: Recovery) -> tuple[list[PendingWork], list[StillScheduled]]:
        """The plans to carry out, and those that another engine may be carrying out without a heartbeat."""
        ready, left = [], []
        judge = Judge.of(self._table)
        snapshot = self._table.snapshot(only=()) if any(plan.is_inflight for plan in recovery.pending) else None
        for plan in recovery.pending:
            instant = plan.work.instant
            why = None if snapshot is None else judge.why_maybe_at_work(snapshot, instant, plan.liveness)
            if why is None:
                ready.append(plan.work)
                continue
            self._table.observer.step(f"{label(plan.work.action)} {instant} is left alone: {why}")
            left.append(StillScheduled(instant, why, Hindrance.AT_WORK))
        return ready, left

    def _find_damaged(self, pending: list[PendingWork]) -> dict[GroupId, list[DamagedFile]]:
        """The damaged file groups of pending plans."""
        if not pending:
            return {}
        snapshot = self._table.snapshot(only={group_id for work in pending for group_id in work.groups})
        found: dict[GroupId, list[DamagedFile]] = {}
        for work in pending:
            found |= find_damaged(self._table, snapshot, work)
        return found

    def _without(
        self, excluded: Set[GroupId], pending: list[PendingWork]
    ) -> tuple[list[PendingWork], list[Unscheduled], list[StillScheduled]]:
        """The plans to carry out. One that holds an excluded file group is unscheduled, or else waits."""
        wanted, unscheduled, left = [], [], []
        for work in pending:
            if excluded.isdisjoint(work.groups):
                wanted.append(work)
                continue
            ended = self._unschedule(work.instant)
            unscheduled += [ended] if isinstance(ended, Unscheduled) else []
            left += [ended] if isinstance(ended, StillScheduled) else []
        return wanted, unscheduled, left

    def _unschedule(self, instant: str) -> Unscheduled | StillScheduled:
        if not self._table.snapshot(only=()).config.version.has_logs_of_one_write:
            why = "on this table version writers may have named logs by it, so it is never removed"
            self._table.observer.step(f"compaction {instant} stays pending: {why}")
            return StillScheduled(instant, why, Hindrance.NAMED_BY)
        return unschedule(self._table, instant, foreign=False)

    def _carry_out(self, work: PendingWork, *, recovered: bool) -> CompactedPlan | None:
        """Claim, merge, commit. None when another process finished the plan meanwhile."""
        table = self._table
        started = table.clock.monotonic()
        with table.measured(Phase.CLAIM):
            claim = claim_plan(table, work)
        if claim is None:
            return None
        service = CompactionService(table, claim, self._choose_dispatcher, self._run_operation)
        completion_time = None
        if claim.targets.of or claim.action is not ServiceAction.LOG_COMPACTION:
            completion_time = run_attempt(table, service)
        if completion_time is None:
            return self._ended_without_work(claim, service.kept, recovered, started)
        if damage := service.accepted_damage():
            table.observer.step(f"{claim.name} went on without what is damaged: {damage}")
        kept = service.kept
        chosen = {target.group_id for target in kept.of}
        # The statistics have gone where they belong; a report does not need them.
        results = [r.without_statistics() for r in service.results if (r.partition_path, r.file_id) in chosen]
        return CompactedPlan(
            instant=claim.instant,
            action=claim.action,
            completion_time=completion_time,
            recovered=recovered,
            operations=tuple(results),
            dropped=kept.dropped,
            read_bytes_before=sum(target.read_bytes for target in kept.of),
            read_bytes_after=sum(target.kept_bytes for target in kept.of) + sum(r.output_bytes for r in results),
            base_bytes_left=sum(t.slice.base_bytes for t in kept.of if t.kind is OperationKind.LOG),
            seconds=table.clock.monotonic() - started,
            merged_log_files=sum(len(target.merged) for target in kept.of),
            merged_log_bytes=sum(log.size for target in kept.of for log in target.merged),
            engine=service.engine,
            targets=kept.of,
        )

    def _ended_without_work(self, claim: Claim, kept: Targets, recovered: bool, started: float) -> CompactedPlan:
        """Nothing of a log compaction can be carried out any more: roll back, and unschedule a plan of Lakeward."""
        table = self._table
        with table.locked(to_roll_back=True) as fence:
            claim.attempt.check_held()
            if not settle(table, claim.attempt, groups_of(claim.plan), check_intent=lambda: None, fence=fence):
                claim.attempt.files.check_uncompleted()
            if PLANNED_BY in claim.plan.extra_metadata:
                claim.attempt.unschedule()
        table.observer.step(f"{claim.name} has nothing left to do")
        seconds = table.clock.monotonic() - started
        return CompactedPlan(claim.instant, claim.action, None, recovered, (), kept.dropped, 0, 0, 0, seconds)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except Conflict:
            self._table.observer.counted(Count.CONFLICT)
            raise
        except (AttemptLost, LockLost):
            self._table.observer.counted(Count.LOST_ATTEMPT)
            raise
