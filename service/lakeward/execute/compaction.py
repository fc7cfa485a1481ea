"""Make compaction plans true: finish what is pending, then plan anew, publish the choice and carry it out.

    look -> (refuse) -> finish pending plans, oldest first -> plan, schedule -> carry out
    carry out:  claim  -- lock: nobody alive? undo the dead, heartbeat, inflight
                merge  -- one task per file slice, into the attempt's folder
                commit -- lock: look again, move the files in, publish T_C.commit
                tidy   -- heartbeat and folder go

Every step can be the last one that a process does. What it left is undone or finished by the next run: an attempt
whose heartbeat stopped is undone and its plan carried out again; a commit that exists is the end of its plan.

Touches: the table, through `commit`; Spark, through a dispatcher.
Keeps:   1. nothing is written before every refusal was considered, under the lock, on a fresh look at the table;
         2. a failed attempt leaves the plan and nothing else, and never a `.logcompaction.inflight`;
         3. nothing is undone while a commit of the instant exists or might exist.
Source:  metadata-table-free form of Hudi's compaction protocol (BaseHoodieTableServiceClient, Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from pathlib import Path

from lakeward.clock import Clock
from lakeward.commit.attempt import Attempt, Winner, put_aside, remove_temp_folder, strays
from lakeward.commit.heartbeat import INTERVAL_SECONDS, Heartbeat, Life, look, remove_heartbeat
from lakeward.commit.instant_time import next_time
from lakeward.commit.lock import LockOptions, TableLock
from lakeward.commit.owner import Owner, Processes
from lakeward.commit.renewal import Renewal
from lakeward.commit.tidy import tidy
from lakeward.commit.transition import ServiceAction, TimelineFiles
from lakeward.dispatch.dispatcher import Dispatcher, Failure, Progress
from lakeward.errors import AttemptLost, Conflict, LakewardError, Refused, TryLater, Unsupported, VerificationFailed
from lakeward.execute.compaction_commit import compaction_commit
from lakeward.execute.log_compaction_commit import log_compaction_commit
from lakeward.execute.operation_spec import OperationKind, OperationResult, OperationSpec, finished_operations
from lakeward.execute.progress import Merged, Observer, Silent
from lakeward.execute.refusal import refuse
from lakeward.execute.replay import keep_replay, state_folder
from lakeward.execute.targets import Dropped, Target, Targets, find_targets
from lakeward.format.avro_schema import table_schema
from lakeward.format.commit_metadata import write_commit_metadata
from lakeward.format.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.format.instant import format_instant_time
from lakeward.merge.merge_rules import MergeMode, MergeRules
from lakeward.plan.decision import Form, PlanOutcome, Reason
from lakeward.plan.eligibility import find_refusals
from lakeward.plan.planner import Planner
from lakeward.read.file_slice import SliceInput
from lakeward.read.log_scan import check_ordering, scan_slice_heads
from lakeward.storage.storage import Storage, join
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.table_config import timeline_folder

POLL_SECONDS = 1.0

NEWEST = "9" * 17
"""Later than every instant: look at all blocks."""

RunOperation = Callable[[OperationSpec, int], OperationResult]

PLANNED_BY = "planned_by"
"""In a plan's extra metadata; a log compaction that says so may be unscheduled by us."""


@dataclass(frozen=True, slots=True)
class CheckedLogs:
    """Log files whose block heads were read, and what was found that cannot be merged."""

    seen: frozenset[tuple[str, ...]] = frozenset()
    problems: Mapping[GroupId, Reason] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    writers_stopped: bool
    """The operator says that nobody else writes: an instant of somebody else aborts the commit."""
    lock: LockOptions
    wait_seconds: float = 150.0
    """How long to wait for a living attempt of somebody else at a pending plan."""
    timezone: str | None = None
    codec: str = "zstd"
    verify: bool = True
    memory_bytes: int = 512 * 1024 * 1024
    """Peak memory of one operation."""
    skip_unsupported: bool = False
    """Leave file groups with logs that we cannot merge alone, instead of refusing the table."""
    state_folder: Path = field(default_factory=state_folder)
    """Where the bundle of a failed verification goes; never in the table."""


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

    @property
    def input_bytes(self) -> int:
        return sum(operation.input_bytes for operation in self.operations)

    @property
    def output_bytes(self) -> int:
        return sum(operation.size_bytes for operation in self.operations)


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What `compact` did."""

    plans: tuple[CompactedPlan, ...]
    outcome: PlanOutcome
    """The decisions of the plan made after the pending ones were finished."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A plan that is ours to carry out: our heartbeat beats, our attempt's folder and `.inflight` exist."""

    snapshot: TableSnapshot
    instant: str
    action: ServiceAction
    plan: CompactionPlan
    targets: Targets
    files: TimelineFiles
    heartbeat: Heartbeat
    attempt: Attempt


class Compactor:
    """Compacts one table. One process, one attempt number."""

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        options: CompactionOptions,
        *,
        planner: Planner,
        choose_dispatcher: Callable[[int], Dispatcher],
        run_operation: RunOperation,
        clock: Clock,
        processes: Processes,
        observer: Observer | None = None,
    ) -> None:
        """
        Args:
            planner: pure; chooses what is done.
            choose_dispatcher: from a plan's input bytes to where it runs.
            run_operation: called where the operation runs; has its own access to the storage.
        """
        self._storage = storage
        self._base_path = base_path
        self._options = options
        self._planner = planner
        self._choose_dispatcher = choose_dispatcher
        self._run_operation = run_operation
        self._clock = clock
        self._processes = processes
        self._owner: Owner = processes.new_owner()
        self._observer: Observer = observer or Silent()

    def preview(self) -> PlanOutcome:
        """The decisions `compact` would take now. Writes nothing. Raises `Refused`."""
        outcome, _ = self._plan(self._look(), at=None, checked=CheckedLogs())
        return outcome

    def compact(self) -> CompactionReport:
        """Finish all pending plans, then plan anew and carry that out.

        Raises:
            Refused: the table is not one that this release may change; nothing was written.
            LockHeld, TryLater: somebody else is at work.
            VerificationFailed: an operation's output was wrong; nothing was published.
        """
        snapshot = self._look()
        with self._lock():
            tidy(self._storage, self._base_path, timeline_folder(self._base_path, snapshot.config), clock=self._clock)
            self._undo_dead_log_compactions()
        pending = _pending_plans(snapshot)
        for instant, action in pending:
            self._check_pending(snapshot, instant, action)
        done = [self._carry_out(instant, action, recovered=True) for instant, action in pending]
        outcome, checked = self._plan(self._look(), at=None, checked=CheckedLogs())
        if outcome.operations:
            scheduled, outcome = self._schedule(outcome, checked)
            done += [self._carry_out(instant, action, recovered=False) for instant, action in scheduled]
        return CompactionReport(tuple(plan for plan in done if plan is not None), outcome)

    # ---------------------------------------------------------------------------------------------- schedule

    def _plan(
        self, snapshot: TableSnapshot, *, at: str | None, checked: CheckedLogs
    ) -> tuple[PlanOutcome, CheckedLogs]:
        """Plan, look into the logs that the plan wants to merge, and plan again without those that we cannot."""
        at = at or format_instant_time(int(self._clock.now() * 1000), _zone(snapshot))
        while True:
            outcome = self._planner(snapshot, at, checked.problems)
            fresh = {
                tuple(join(operation.partition_path, name) for name in operation.log_files): operation
                for operation in outcome.operations
            }
            unseen = sorted(fresh.keys() - checked.seen)
            if not unseen:
                return outcome, checked
            problems = dict(checked.problems)
            for logs in unseen:
                try:
                    self._check_logs(snapshot, logs)
                except Unsupported as error:
                    if not self._options.skip_unsupported:
                        raise
                    self._observer.step(f"left alone: {error.what}")
                    problems[fresh[logs].partition_path, fresh[logs].file_id] = Reason.UNSUPPORTED_LOGS
            checked = CheckedLogs(checked.seen | frozenset(unseen), problems)

    def _check_logs(self, snapshot: TableSnapshot, logs: Sequence[str]) -> None:
        """Read the block heads of a slice's logs. Raises `Unsupported` where we cannot merge them."""
        scan = scan_slice_heads(self._storage, self._base_path, logs, instant=NEWEST)
        assert snapshot.schema is not None, "eligibility refuses a table without a schema"
        check_ordering(scan, merge_rules(snapshot), table_schema(snapshot.schema))

    def _check_pending(self, snapshot: TableSnapshot, instant: str, action: ServiceAction) -> None:
        """The same for a plan that was pending before this run, before anything of it is begun."""
        for target in find_targets(snapshot, instant, _pending_plan(snapshot, instant), action).of:
            self._check_logs(snapshot, [log.path for log in target.logs])

    def _schedule(
        self, preview: PlanOutcome, checked: CheckedLogs
    ) -> tuple[list[tuple[str, ServiceAction]], PlanOutcome]:
        """Write the choice down, as one plan or two. Returns their instants in the order in which to carry them out."""
        self._choose_dispatcher(preview.input_bytes).probe()
        self._check_space(preview)
        scheduled: list[tuple[str, ServiceAction]] = []
        # Log heads were read before the lock is taken; under it only those of log files that came since.
        with self._lock() as lock:
            snapshot = self._look()
            instant = next_time(floor=snapshot.timeline.latest_time, zone=_zone(snapshot), clock=self._clock)
            outcome, _ = self._plan(snapshot, at=instant, checked=checked)
            for action, plan in _plans_of(outcome):
                if scheduled:
                    instant = next_time(floor=instant, zone=_zone(snapshot), clock=self._clock)
                lock.fence()
                ours = replace(plan, extra_metadata={**plan.extra_metadata, PLANNED_BY: "lakeward"})
                self._files(snapshot, instant, action).request(write_compaction_plan(ours))
                scheduled.append((instant, action))
                self._observer.step(f"{_spell(action)} {instant} scheduled, file slices: {len(plan.operations)}")
        return scheduled, outcome

    def _check_space(self, outcome: PlanOutcome) -> None:
        needed = outcome.input_bytes  # a merged slice is rarely larger than its parts
        free = self._storage.free_bytes(self._base_path)
        if free is not None and free < needed:
            raise Refused(
                f"{self._base_path} has {free} bytes free, and the compaction may write {needed}.",
                why="A full disk in the middle of a compaction would stop the table's writers too.",
                remedy="Free space, or compact a part of the table with --partition or --file-group.",
            )

    # --------------------------------------------------------------------------------------------- carry out

    def _carry_out(self, instant: str, action: ServiceAction, *, recovered: bool) -> CompactedPlan | None:
        """Claim, merge, commit. None when somebody else finished the plan meanwhile."""
        started = self._clock.monotonic()
        claim = self._claim(instant, action)
        if claim is None:
            return None
        if not claim.targets.of and action is ServiceAction.LOG_COMPACTION:
            return self._end_without_work(claim, recovered, started)
        try:
            with Renewal(claim.heartbeat.beat, interval_seconds=INTERVAL_SECONDS):
                results = self._merge(claim)
                self._observer.step(f"{_spell(action)} {instant} merged, committing")
                completion_time, kept = self._commit(claim, results)
        except BaseException as error:
            self._give_up(claim, error)
            raise
        if completion_time is None:
            return self._end_without_work(replace(claim, targets=kept), recovered, started)
        remove_temp_folder(self._storage, self._base_path, instant)
        claim.heartbeat.stop()
        self._observer.step(f"{_spell(action)} {instant} committed at {completion_time}")
        chosen = {target.group_id for target in kept.of}
        results = [result for result in results if (result.partition_path, result.file_id) in chosen]
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
            seconds=self._clock.monotonic() - started,
        )

    def _claim(self, instant: str, action: ServiceAction) -> Claim | None:
        """Become the one attempt at the plan of `instant`, waiting for a living one to end."""
        started = self._clock.monotonic()
        while True:
            with self._lock() as lock:
                snapshot = self._look()
                files = self._files(snapshot, instant, action)
                if files.find_completed() is not None:
                    return None
                sign = look(self._storage, self._base_path, instant, clock=self._clock, processes=self._processes)
                if sign.life is not Life.ALIVE:
                    plan = _pending_plan(snapshot, instant)
                    targets = find_targets(snapshot, instant, plan, action)
                    lock.fence()
                    if files.is_inflight() or sign.life is not Life.ABSENT:
                        self._observer.step(f"{_spell(action)} {instant}: undoing an attempt that died")
                        self._undo(files, instant, plan)
                        remove_heartbeat(self._storage, self._base_path, instant)
                    claim = Claim(
                        snapshot=snapshot,
                        instant=instant,
                        action=action,
                        plan=plan,
                        targets=targets,
                        files=files,
                        heartbeat=Heartbeat(self._storage, self._base_path, instant, self._owner),
                        attempt=Attempt(self._storage, self._base_path, instant, self._owner.attempt),
                    )
                    claim.heartbeat.start()
                    claim.attempt.start()
                    claim.files.begin()
                    return claim
            waited = self._clock.monotonic() - started
            if waited >= self._options.wait_seconds:
                whose = f" and comes from process {sign.owner.pid} on {sign.owner.host}" if sign.owner else ""
                raise TryLater(
                    f"Somebody else is carrying out {_spell(action)} {instant}.",
                    why=f"Its heartbeat is {sign.age_seconds:.0f} s old{whose}.",
                    remedy="Run the command again when it has finished, or raise --wait.",
                )
            self._observer.waiting(f"another attempt at {_spell(action)} {instant} is alive", waited)
            self._clock.sleep(POLL_SECONDS)

    def _merge(self, claim: Claim) -> list[OperationResult]:
        """Run every operation; raise the first failure."""
        specs = self._specs(claim)
        total_bytes = sum(spec.input_bytes for spec in specs)
        dispatcher = self._choose_dispatcher(total_bytes)
        dispatcher.probe()
        name = f"{_spell(claim.action)} {claim.instant}"
        self._observer.step(f"{name}: merging on {dispatcher.name}, file slices: {len(specs)}")

        def report(progress: Progress) -> None:
            written = self._storage.list(claim.attempt.folder)
            rows = finished_operations(written)
            self._observer.merged(
                Merged(
                    operations=max(progress.finished, len(rows)),
                    operations_total=len(specs),
                    input_bytes=sum(specs[index].input_bytes for index in rows),
                    input_bytes_total=total_bytes,
                    output_bytes=sum(status.size for status in written),
                    rows=sum(rows.values()),
                )
            )

        outcomes = dispatcher.run(self._run_operation, specs, description=name, on_progress=report)
        results = []
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                if isinstance(outcome.error, VerificationFailed):
                    bundle = keep_replay(self._options.state_folder, self._storage, specs[outcome.index], outcome.error)
                    outcome.error.add_note(f"What is needed to repeat the operation is in {bundle}.")
                raise outcome.error
            results.append(outcome.result)
        return results

    def _specs(self, claim: Claim) -> list[OperationSpec]:
        snapshot, options = claim.snapshot, self._options
        assert snapshot.schema is not None, "eligibility refuses a table without a schema"
        rules = merge_rules(snapshot)
        return [
            OperationSpec(
                index=index,
                kind=target.kind,
                slice=SliceInput(
                    base_path=self._base_path,
                    partition_path=target.slice.partition_path,
                    file_id=target.slice.file_id,
                    base_file=_base_path_of(target),
                    log_files=tuple(join(target.slice.partition_path, log.name.text) for log in target.logs),
                    instant=claim.instant,
                    schema=snapshot.schema,
                    rules=rules,
                    memory_bytes=options.memory_bytes,
                ),
                attempt=self._owner.attempt,
                attempt_folder=claim.attempt.folder,
                input_bytes=target.input_bytes,
                codec=options.codec,
                verify=options.verify,
            )
            for index, target in enumerate(claim.targets.of)
        ]

    def _commit(self, claim: Claim, results: list[OperationResult]) -> tuple[str | None, Targets]:
        """Make the results visible. Returns the completion time, and the targets whose results are.

        LOG operations that other work has overtaken are dropped; when that is all of a log compaction, nothing is
        published and the completion time is None.
        """
        by_group = {(result.partition_path, result.file_id): result for result in results}
        claim.attempt.write_markers(_winner(target, by_group[target.group_id]) for target in claim.targets.of)
        with self._lock() as lock:
            snapshot = self._look()
            self._check_ours(claim)
            targets = self._check_still_right(claim, snapshot)
            if not targets.of and claim.action is ServiceAction.LOG_COMPACTION:
                return None, targets
            kept = [by_group[target.group_id] for target in targets.of]
            winners = [_winner(target, result) for target, result in zip(targets.of, kept, strict=True)]
            slices = [target.slice for target in targets.of]
            commit = log_compaction_commit if claim.action is ServiceAction.LOG_COMPACTION else compaction_commit
            staged = claim.attempt.stage_commit(write_commit_metadata(commit(slices, kept, snapshot.schema or "")))
            completion_time = next_time(floor=snapshot.timeline.latest_time, zone=_zone(snapshot), clock=self._clock)
            lock.fence()
            claim.attempt.move_in(winners)
            names = frozenset(winner.file_name for winner in winners)
            for stray in strays(self._storage, self._base_path, claim.instant, _groups(claim.plan), keep=names):
                self._storage.delete(stray.path)
            lock.fence()
            claim.files.complete(staged, completion_time)
        return completion_time, targets

    def _check_ours(self, claim: Claim) -> None:
        completed = claim.files.find_completed()
        if completed is not None or not claim.heartbeat.is_ours() or not claim.files.is_inflight():
            raise AttemptLost(
                f"Our attempt at {_spell(claim.action)} {claim.instant} was taken over.",
                why=f"{completed} exists." if completed else "Its heartbeat or its .inflight file is no longer ours.",
                remedy="Run the command again: it finishes what is left, if anything is.",
            )

    def _check_still_right(self, claim: Claim, snapshot: TableSnapshot) -> Targets:
        """The plan is as it was, and its slices hold what we merged. Returns what is still right of the targets."""
        plan = _pending_plan(snapshot, claim.instant)
        now = find_targets(snapshot, claim.instant, plan, claim.action)
        merged = {target.group_id: target for target in claim.targets.of}
        still = tuple(target for target in now.of if target.group_id in merged)
        for target in still:
            before = merged[target.group_id]
            if (target.kind, target.logs, target.slice.base_file) != (before.kind, before.logs, before.slice.base_file):
                raise Conflict(
                    f"The file slices of {_spell(claim.action)} {claim.instant} changed while they were merged.",
                    why="A log file was added to or taken from a slice that the plan had closed.",
                    remedy="Run `lakeward inspect` and see which writer did it; nothing was published.",
                )
        if self._options.writers_stopped:
            known = {(instant.time, instant.action) for instant in claim.snapshot.timeline.instants}
            new = {
                (instant.time, instant.action)
                for instant in snapshot.timeline.instants
                if instant.time != claim.instant and (instant.time, instant.action) not in known
            }
            if new:
                time, action = min(new)
                raise Conflict(
                    f"{action} {time} appeared while {_spell(claim.action)} {claim.instant} ran.",
                    why="You said --writers stopped, and somebody writes.",
                    remedy="Stop the writer, or share its lock with --lock filesystem; nothing was published.",
                )
        dropped = {(each.partition_path, each.file_id): each for each in (*claim.targets.dropped, *now.dropped)}
        return Targets(still, tuple(dropped.values()))

    # ------------------------------------------------------------------------------------------------- undo

    def _undo(self, files: TimelineFiles, instant: str, plan: CompactionPlan) -> None:
        """Take an attempt back: its folder, then its files, then `.inflight`. The plan stays. Under the lock."""
        put_aside(self._storage, self._base_path, instant, by=self._owner.attempt)
        # Nobody can publish any more, so from here on the answer to this question stays true.
        if (completed := files.find_completed()) is not None:
            raise AttemptLost(
                f"{completed} exists.",
                why="Another process published just before its attempt was taken over.",
                remedy="Nothing is wrong; run the command again.",
            )
        for stray in strays(self._storage, self._base_path, instant, _groups(plan)):
            self._storage.delete(stray.path)
        remove_temp_folder(self._storage, self._base_path, instant)
        files.undo()

    def _undo_dead_log_compactions(self) -> None:
        """First of all: a left-over `.logcompaction.inflight` of ours can stop Hudi's writers. Under the lock."""
        snapshot = self._look()
        for instant in snapshot.timeline.pending:
            plan = snapshot.plans.get(instant.time)
            if instant.action != ServiceAction.LOG_COMPACTION.pending or plan is None:
                continue
            if PLANNED_BY not in plan.extra_metadata:
                continue
            files = self._files(snapshot, instant.time, ServiceAction.LOG_COMPACTION)
            sign = look(self._storage, self._base_path, instant.time, clock=self._clock, processes=self._processes)
            if files.is_inflight() and sign.life is not Life.ALIVE:
                self._undo(files, instant.time, plan)
                remove_heartbeat(self._storage, self._base_path, instant.time)

    def _end_without_work(self, claim: Claim, recovered: bool, started: float) -> CompactedPlan:
        """Nothing of a log compaction can be carried out any more: undo the attempt, and unschedule a plan of ours."""
        with self._lock():
            self._check_ours(claim)
            self._undo(claim.files, claim.instant, claim.plan)
            if PLANNED_BY in claim.plan.extra_metadata:
                claim.files.unschedule()
            claim.heartbeat.stop()
        self._observer.step(f"{_spell(claim.action)} {claim.instant} has nothing left to do")
        seconds = self._clock.monotonic() - started
        return CompactedPlan(claim.instant, claim.action, None, recovered, (), claim.targets.dropped, 0, 0, 0, seconds)

    def _give_up(self, claim: Claim, error: BaseException) -> None:
        """After a failure, undo our attempt: unless it is not ours any more, or its commit exists."""
        try:
            with self._lock():
                if claim.heartbeat.is_ours():
                    if claim.files.find_completed() is None:
                        self._undo(claim.files, claim.instant, claim.plan)
                    claim.heartbeat.stop()
        except (LakewardError, OSError) as second:
            error.add_note(f"What the attempt left could not be removed ({second}); the next run removes it.")

    # ------------------------------------------------------------------------------------------------ small

    def _look(self) -> TableSnapshot:
        """A fresh snapshot of a table that we may change. Raises `Refused`."""
        snapshot = take_snapshot(self._storage, self._base_path, timezone=self._options.timezone, clock=self._clock)
        refuse(self._base_path, find_refusals(snapshot))
        return snapshot

    def _lock(self) -> TableLock:
        return TableLock(
            self._storage,
            self._base_path,
            self._owner,
            self._options.lock,
            clock=self._clock,
            processes=self._processes,
            on_wait=lambda path, seconds: self._observer.waiting(f"the table lock {path} is held", seconds),
        )

    def _files(self, snapshot: TableSnapshot, instant: str, action: ServiceAction) -> TimelineFiles:
        return TimelineFiles(self._storage, timeline_folder(self._base_path, snapshot.config), instant, action)


def _pending_plan(snapshot: TableSnapshot, instant: str) -> CompactionPlan:
    plan = snapshot.plans.get(instant)
    if plan is None:
        raise Conflict(
            f"The plan of compaction {instant} is gone.",
            why="Its .requested file was there and cannot be found or read any more.",
            remedy="Run the command again; it plans anew.",
        )
    return plan


def merge_rules(snapshot: TableSnapshot) -> MergeRules:
    config = snapshot.config
    return MergeRules(
        mode=MergeMode(config.merge_mode),
        ordering_field=config.ordering_fields[0] if config.ordering_fields else None,
    )


def _zone(snapshot: TableSnapshot) -> tzinfo:
    assert snapshot.zone.zone is not None, "eligibility refuses a table whose zone is unknown"
    return snapshot.zone.zone


def _groups(plan: CompactionPlan) -> list[tuple[str, str]]:
    return [(operation.partition_path, operation.file_id) for operation in plan.operations]


def _pending_plans(snapshot: TableSnapshot) -> list[tuple[str, ServiceAction]]:
    """Oldest first."""
    actions = {action.pending: action for action in ServiceAction}
    return [(i.time, actions[i.action]) for i in snapshot.timeline.pending if i.action in actions]


def _plans_of(outcome: PlanOutcome) -> list[tuple[ServiceAction, CompactionPlan]]:
    """The plans to publish. In the split form log compactions come first: they are short."""
    if outcome.form is Form.HYBRID:
        plans = [(ServiceAction.COMPACTION, outcome.hybrid_plan)]
    else:
        plans = [(ServiceAction.LOG_COMPACTION, outcome.log_plan), (ServiceAction.COMPACTION, outcome.full_plan)]
    return [(action, plan) for action, plan in plans if plan is not None]


def _winner(target: Target, result: OperationResult) -> Winner:
    replaces_base_file = target.kind is OperationKind.FULL and target.slice.base_file is not None
    return Winner(target.slice.partition_path, result.file_name, replaces_base_file)


def _base_path_of(target: Target) -> str | None:
    if target.kind is OperationKind.LOG or target.slice.base_file is None:
        return None
    return join(target.slice.partition_path, target.slice.base_file.name)


def _spell(action: ServiceAction) -> str:
    return "log compaction" if action is ServiceAction.LOG_COMPACTION else "compaction"
