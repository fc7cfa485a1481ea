"""Make compaction plans true: finish what is pending, then plan anew, publish the choice and carry it out.

    look -> (refuse) -> recover -> finish pending plans, oldest first -> plan, schedule -> carry out
    carry out:  claim  -- lock: nobody alive? undo the dead, heartbeat, inflight
                merge  -- one task per file slice, into the attempt's folder
                commit -- lock: look again, move the files in, publish T_C.commit
                tidy   -- heartbeat and folder go

Every step can be the last one that a process does. What it left is undone or finished by the next run: an attempt
whose heartbeat stopped is undone and its plan carried out again; a commit that exists is the end of its plan.

Touches: the table, through `commit`; Spark, through a dispatcher.
Keeps:   1. nothing is written before every refusal was considered, under the lock, on a fresh look at the table;
         2. a failed attempt leaves the plan and nothing else, and never a `.logcompaction.inflight`;
         3. nothing is undone while a commit of the instant exists or might exist;
         4. a file group that is to be left alone, or has damaged files, is in no plan that is made or carried out.
Source:  Hudi's compaction protocol (BaseHoodieTableServiceClient, Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain

from lakeward.clock import Clock
from lakeward.commit.attempt import remove_temp_folder
from lakeward.commit.heartbeat import INTERVAL_SECONDS
from lakeward.commit.owner import Processes
from lakeward.commit.renewal import Renewal
from lakeward.commit.transition import ServiceAction
from lakeward.errors import AttemptLost, Conflict, LakewardError, LockLost
from lakeward.execute.claim import Claim, claim_plan, end_without_work, give_up
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.execute.merging import ChooseDispatcher, RunOperation, merge
from lakeward.execute.operation_spec import OperationKind, OperationResult
from lakeward.execute.pending_work import PendingWork
from lakeward.execute.progress import Count, Observer, Phase
from lakeward.execute.publication import publish
from lakeward.execute.refusal import refuse
from lakeward.execute.scheduling import CheckedLogs, choose, find_damaged, schedule
from lakeward.execute.serviced_table import Guard, ServicedTable, spell
from lakeward.execute.targets import Dropped
from lakeward.execute.undoing import Recovery, recover
from lakeward.execute.unscheduling import StillScheduled, Unscheduled, unschedule
from lakeward.plan.decision import PlanOutcome, Reason
from lakeward.plan.eligibility import find_refusals
from lakeward.plan.planner import Planner
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import DamagedFile
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

NOTHING_PLANNED = PlanOutcome((), ())


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
    """Of the base files that a full compaction of the same slices would have rewritten, and LOG operations did not."""
    seconds: float
    merged_log_bytes: int = 0
    """Of the logs that no reader merges any more."""

    @property
    def input_bytes(self) -> int:
        return sum(operation.input_bytes for operation in self.operations)

    @property
    def output_bytes(self) -> int:
        return sum(operation.size_bytes for operation in self.operations)

    @property
    def peak_memory_bytes(self) -> int:
        """Of the operation that needed most; 0 where unknown."""
        return max((operation.peak_memory_bytes for operation in self.operations), default=0)


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What `compact` did."""

    plans: tuple[CompactedPlan, ...]
    outcome: PlanOutcome
    """The decisions of the plan made after the pending ones were finished; empty where none was wanted."""
    unscheduled: tuple[Unscheduled, ...] = ()
    """Pending plans of ours that were taken back because they hold a file group to leave alone."""
    left_pending: tuple[StillScheduled, ...] = ()
    """Pending plans that hold one and could not be taken back."""
    damage: tuple[DamagedFile, ...] = ()
    """Files that are not what their commits say; nothing was done to their groups."""


class Compactor:
    """Compacts one table. One process, one attempt number."""

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        options: CompactionOptions,
        *,
        planner: Planner,
        choose_dispatcher: ChooseDispatcher,
        run_operation: RunOperation,
        clock: Clock,
        processes: Processes,
        observer: Observer | None = None,
        guard: Guard = lambda: None,
        left_alone: Mapping[GroupId, Reason] | None = None,
        planned_by: Mapping[str, str] | None = None,
        look: Callable[[], TableSnapshot] | None = None,
    ) -> None:
        """
        Args:
            planner: pure; chooses what is done.
            choose_dispatcher: from a plan's input bytes to where it runs.
            run_operation: called where the operation runs; has its own access to the storage.
            guard: called before anything is published and while work goes on; stops it by raising an error of ours.
            left_alone: file groups that nothing is done to, and why (`PARKED`, `PAUSED`).
            planned_by: more to write into our plans' extra metadata.
            look: a snapshot of the table as it is now, for choices that are made again under the lock; a daemon has
                one at hand. Under the lock the table is always read afresh.
        """
        self._table = ServicedTable.for_one_attempt(
            storage, base_path, options, clock=clock, processes=processes, observer=observer, guard=guard
        )
        self._planner = planner
        self._choose_dispatcher = choose_dispatcher
        self._run_operation = run_operation
        self._left_alone = dict(left_alone or {})
        self._planned_by = dict(planned_by or {})
        self._given_look = look

    def preview(self) -> PlanOutcome:
        """The decisions `compact` would take now. Writes nothing. Raises `Refused`."""
        outcome, _ = choose(self._table, self._planner, self._look(), CheckedLogs(left_alone=self._left_alone))
        return outcome

    def recover(self) -> Recovery:
        """Remove leftovers of ours and undo attempts of processes of ours that died; begin nothing."""
        with self._counted():
            return self._recover()

    def compact(self, *, plan_anew: bool = True) -> CompactionReport:
        """Finish all pending plans, then plan anew and carry that out, unless `plan_anew` says no.

        Raises:
            Refused: the table is not one that this release may change; nothing was written.
            LockHeld, TryLater: somebody else is at work.
            VerificationFailed: an operation's output was wrong; nothing was published.
            Whatever the guard raises: nothing was published after it did.
        """
        with self._counted():
            recovery = self._recover()
            pending, unscheduled, left_pending = self._without(
                self._left_alone.keys(), [plan.work for plan in recovery.pending]
            )
            damaged = self._find_damaged(pending)
            pending, unscheduled_too, left_too = self._without(damaged.keys(), pending)
            checked = CheckedLogs(left_alone=self._left_alone).with_damage(chain.from_iterable(damaged.values()))
            done = [self._carry_out(work, recovered=True) for work in pending]
            outcome = NOTHING_PLANNED
            if plan_anew:
                outcome, checked = choose(self._table, self._planner, self._look(), checked)
                if outcome.operations:
                    scheduled, outcome, checked = schedule(
                        self._table, self._planner, outcome, checked, self._choose_dispatcher, self._planned_by
                    )
                    done += [self._carry_out(work, recovered=False) for work in scheduled]
        return CompactionReport(
            tuple(plan for plan in done if plan is not None),
            outcome,
            (*unscheduled, *unscheduled_too),
            (*left_pending, *left_too),
            checked.damage,
        )

    def unschedule(self, instant: str, *, foreign: bool = False) -> Unscheduled | StillScheduled:
        """Take the pending plan of `instant` back, with what a dead attempt at it left, so that its groups are free.

        Args:
            foreign: also when another engine planned it, which must not be about to carry it out.

        Raises:
            AttemptLost: it was completed just now.
        """
        with self._counted():
            return unschedule(self._table, instant, foreign=foreign)

    def _recover(self) -> Recovery:
        self._look()  # a refused table is not even locked
        self._table.watch_ours()
        with self._table.locked() as fence:
            return recover(self._table, self._table.look(only=()), fence=fence)

    def _find_damaged(self, pending: list[PendingWork]) -> dict[GroupId, list[DamagedFile]]:
        """The damaged file groups of pending plans."""
        if not pending:
            return {}
        snapshot = self._table.look(only={group_id for work in pending for group_id in work.groups})
        found: dict[GroupId, list[DamagedFile]] = {}
        for work in pending:
            found |= find_damaged(self._table, snapshot, work)
        return found

    def _without(
        self, left_alone: Set[GroupId], pending: list[PendingWork]
    ) -> tuple[list[PendingWork], list[Unscheduled], list[StillScheduled]]:
        """The plans to carry out. One that holds a file group to leave alone is taken back, or else waits."""
        wanted, unscheduled, left = [], [], []
        for work in pending:
            if left_alone.isdisjoint(work.groups):
                wanted.append(work)
                continue
            ended = unschedule(self._table, work.instant, foreign=False)
            unscheduled += [ended] if isinstance(ended, Unscheduled) else []
            left += [ended] if isinstance(ended, StillScheduled) else []
        return wanted, unscheduled, left

    def _carry_out(self, work: PendingWork, *, recovered: bool) -> CompactedPlan | None:
        """Claim, merge, commit. None when somebody else finished the plan meanwhile."""
        table, instant, action = self._table, work.instant, work.action
        started = table.clock.monotonic()
        with table.measured(Phase.CLAIM):
            claim = claim_plan(table, work)
        if claim is None:
            return None
        if not claim.targets.of and action is ServiceAction.LOG_COMPACTION:
            return self._ended_without_work(claim, recovered, started)
        try:
            with Renewal(claim.heartbeat.beat, interval_seconds=INTERVAL_SECONDS):
                with table.measured(Phase.MERGE):
                    results = merge(table, claim, self._choose_dispatcher, self._run_operation)
                table.observer.step(f"{spell(action)} {instant} merged, committing")
                completion_time, kept = publish(table, claim, results)
        except BaseException as error:
            give_up(table, claim, error)
            raise
        if completion_time is None:
            return self._ended_without_work(replace(claim, targets=kept), recovered, started)
        table.observer.step(f"{spell(action)} {instant} committed at {completion_time}")
        self._clear(claim)
        chosen = {target.group_id for target in kept.of}
        # The statistics have gone where they belong; whoever keeps a report does not need them.
        results = [replace(r, column_stats=()) for r in results if (r.partition_path, r.file_id) in chosen]
        return CompactedPlan(
            instant=instant,
            action=action,
            completion_time=completion_time,
            recovered=recovered,
            operations=tuple(results),
            dropped=kept.dropped,
            read_bytes_before=sum(target.slice.base_bytes + target.slice.log_bytes for target in kept.of),
            read_bytes_after=sum(target.kept_bytes for target in kept.of) + sum(r.size_bytes for r in results),
            base_bytes_left=sum(t.slice.base_bytes for t in kept.of if t.kind is OperationKind.LOG),
            seconds=table.clock.monotonic() - started,
            merged_log_bytes=sum(log.size for target in kept.of for log in target.logs),
        )

    def _clear(self, claim: Claim) -> None:
        """The commit exists, so nothing that happens here makes the plan fail; the next run removes what stays."""
        table = self._table
        try:
            remove_temp_folder(table.storage, table.base_path, claim.instant)
            claim.heartbeat.stop()
        except (LakewardError, OSError) as error:
            table.observer.step(f"{spell(claim.action)} {claim.instant} left something behind: {error}")

    def _ended_without_work(self, claim: Claim, recovered: bool, started: float) -> CompactedPlan:
        end_without_work(self._table, claim)
        seconds = self._table.clock.monotonic() - started
        return CompactedPlan(claim.instant, claim.action, None, recovered, (), claim.targets.dropped, 0, 0, 0, seconds)

    def _look(self) -> TableSnapshot:
        """For what is looked at again under the lock."""
        if self._given_look is None:
            return self._table.look()
        with self._table.measured(Phase.LOOK):
            snapshot = self._given_look()
        self._table.memory.learn(snapshot)
        refuse(self._table.base_path, find_refusals(snapshot))
        return snapshot

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
