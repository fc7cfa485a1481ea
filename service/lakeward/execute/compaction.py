"""Make compaction plans true: finish what is pending, then schedule one plan and carry it out.

    look -> (refuse) -> finish pending plans, oldest first -> schedule -> carry out
    carry out:  claim  -- lock: nobody alive? undo the dead, heartbeat, inflight
                merge  -- one task per file slice, into the attempt's folder
                commit -- lock: look again, move the files in, publish T_C.commit
                tidy   -- heartbeat and folder go

Every step can be the last one that a process does. What it left is undone or finished by the next run: an attempt
whose heartbeat stopped is undone and its plan carried out again; a commit that exists is the end of its plan.

Touches: the table, through `commit`; Spark, through a dispatcher.
Keeps:   1. nothing is written before every refusal was considered, under the lock, on a fresh look at the table;
         2. a failed attempt leaves the plan and nothing else;
         3. nothing is undone while a commit of the instant exists or might exist.
Source:  metadata-table-free form of Hudi's compaction protocol (BaseHoodieTableServiceClient, Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from lakeward.errors import AttemptLost, Conflict, LakewardError, Refused, TryLater, VerificationFailed
from lakeward.execute.compaction_commit import compaction_commit
from lakeward.execute.operation import OperationResult, OperationSpec, finished_operations
from lakeward.execute.progress import Merged, Observer, Silent
from lakeward.execute.refusal import refuse
from lakeward.execute.replay import keep_replay, state_folder
from lakeward.format.commit_metadata import write_commit_metadata
from lakeward.format.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.merge.merge_rules import MergeMode, MergeRules
from lakeward.plan.decision import PlanOutcome
from lakeward.plan.eligibility import find_refusals
from lakeward.plan.full_compaction import plan_full_compaction
from lakeward.plan.selection import GroupFilter
from lakeward.read.file_slice import SliceInput
from lakeward.read.log_scan import scan_slice_heads
from lakeward.storage.storage import Storage, join
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.table_config import timeline_folder

POLL_SECONDS = 1.0

NEWEST = "9" * 17
"""Later than every instant: look at all blocks."""

RunOperation = Callable[[OperationSpec, int], OperationResult]


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    writers_stopped: bool
    """The operator says that nobody else writes: an instant of somebody else aborts the commit."""
    lock: LockOptions
    groups: GroupFilter = field(default_factory=GroupFilter)
    wait_seconds: float = 150.0
    """How long to wait for a living attempt of somebody else at a pending plan."""
    timezone: str | None = None
    codec: str = "zstd"
    verify: bool = True
    memory_bytes: int = 512 * 1024 * 1024
    """Peak memory of one operation."""
    state_folder: Path = field(default_factory=state_folder)
    """Where the bundle of a failed verification goes; never in the table."""


@dataclass(frozen=True, slots=True)
class CompactedPlan:
    """One plan that this run carried out."""

    instant: str
    completion_time: str
    recovered: bool
    """True when the plan was pending before this run."""
    operations: tuple[OperationResult, ...]
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
    plan: CompactionPlan
    slices: tuple[FileSlice, ...]
    """One for each operation of the plan, in its order."""
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
        choose_dispatcher: Callable[[int], Dispatcher],
        run_operation: RunOperation,
        clock: Clock,
        processes: Processes,
        observer: Observer | None = None,
    ) -> None:
        """
        Args:
            choose_dispatcher: from a plan's input bytes to where it runs.
            run_operation: called where the operation runs; has its own access to the storage.
        """
        self._storage = storage
        self._base_path = base_path
        self._options = options
        self._choose_dispatcher = choose_dispatcher
        self._run_operation = run_operation
        self._clock = clock
        self._processes = processes
        self._owner: Owner = processes.new_owner()
        self._observer: Observer = observer or Silent()

    def preview(self) -> PlanOutcome:
        """The decisions `compact` would take now. Writes nothing. Raises `Refused`."""
        return plan_full_compaction(self._look(), self._options.groups)

    def compact(self) -> CompactionReport:
        """Finish all pending compactions, then plan anew and carry that out.

        Raises:
            Refused: the table is not one that this release may change; nothing was written.
            LockHeld, TryLater: somebody else is at work.
            VerificationFailed: an operation's output was wrong; nothing was published.
        """
        snapshot = self._look()
        with self._lock():
            tidy(self._storage, self._base_path, timeline_folder(self._base_path, snapshot.config), clock=self._clock)
        pending = [instant.time for instant in snapshot.timeline.pending if instant.action == "compaction"]
        done = [self._carry_out(instant, recovered=True) for instant in pending]
        outcome = plan_full_compaction(self._look(), self._options.groups)
        if outcome.operations:
            instant, outcome = self._schedule(outcome)
            if instant is not None:
                done.append(self._carry_out(instant, recovered=False))
        return CompactionReport(tuple(plan for plan in done if plan is not None), outcome)

    # ---------------------------------------------------------------------------------------------- schedule

    def _schedule(self, preview: PlanOutcome) -> tuple[str | None, PlanOutcome]:
        """Write a plan down. Returns its instant, None when under the lock nothing was left to do."""
        self._choose_dispatcher(preview.input_bytes).probe()
        self._check_space(preview)
        # Reading block heads takes a while on a large table, so it is done before the lock is taken, and again
        # under it only for log files that came since.
        checked = self._check_logs(preview, already=frozenset())
        with self._lock() as lock:
            snapshot = self._look()
            outcome = plan_full_compaction(snapshot, self._options.groups)
            self._check_logs(outcome, already=checked)
            if (plan := outcome.full_plan) is None:
                return None, outcome
            instant = next_time(floor=snapshot.timeline.latest_time, zone=_zone(snapshot), clock=self._clock)
            lock.fence()
            self._files(snapshot, instant).request(write_compaction_plan(plan))
        self._observer.step(f"compaction {instant} scheduled: {len(outcome.operations)} operations")
        return instant, outcome

    def _check_logs(self, outcome: PlanOutcome, *, already: frozenset[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
        """Refuse log blocks that we cannot merge before anything is written. Returns the slices' logs looked at."""
        slices = {
            tuple(join(operation.partition_path, name) for name in operation.log_files)
            for operation in outcome.operations
        }
        for logs in sorted(slices - already):
            scan_slice_heads(self._storage, self._base_path, logs, instant=NEWEST)
        return already | slices

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

    def _carry_out(self, instant: str, *, recovered: bool) -> CompactedPlan | None:
        """Claim, merge, commit. None when somebody else finished the plan meanwhile."""
        started = self._clock.monotonic()
        claim = self._claim(instant)
        if claim is None:
            return None
        try:
            with Renewal(claim.heartbeat.beat, interval_seconds=INTERVAL_SECONDS):
                results = self._merge(claim)
                self._observer.step(f"compaction {instant} merged, committing")
                completion_time = self._commit(claim, results)
        except BaseException as error:
            self._give_up(claim, error)
            raise
        remove_temp_folder(self._storage, self._base_path, instant)
        claim.heartbeat.stop()
        self._observer.step(f"compaction {instant} committed at {completion_time}")
        seconds = self._clock.monotonic() - started
        return CompactedPlan(instant, completion_time, recovered, tuple(results), seconds)

    def _claim(self, instant: str) -> Claim | None:
        """Become the one attempt at the plan of `instant`, waiting for a living one to end."""
        started = self._clock.monotonic()
        while True:
            with self._lock() as lock:
                snapshot = self._look()
                files = self._files(snapshot, instant)
                if files.find_completed() is not None:
                    return None
                sign = look(self._storage, self._base_path, instant, clock=self._clock, processes=self._processes)
                if sign.life is not Life.ALIVE:
                    plan = _pending_plan(snapshot, instant)
                    slices = _planned_slices(snapshot, instant, plan)
                    lock.fence()
                    if files.is_inflight() or sign.life is not Life.ABSENT:
                        self._observer.step(f"compaction {instant}: undoing an attempt that died")
                        self._undo(files, instant, plan)
                        remove_heartbeat(self._storage, self._base_path, instant)
                    claim = Claim(
                        snapshot=snapshot,
                        instant=instant,
                        plan=plan,
                        slices=slices,
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
                    f"Somebody else is carrying out compaction {instant}.",
                    why=f"Its heartbeat is {sign.age_seconds:.0f} s old{whose}.",
                    remedy="Run the command again when it has finished, or raise --wait.",
                )
            self._observer.waiting(f"another attempt at compaction {instant} is alive", waited)
            self._clock.sleep(POLL_SECONDS)

    def _merge(self, claim: Claim) -> list[OperationResult]:
        """Run every operation; raise the first failure."""
        specs = self._specs(claim)
        total_bytes = sum(_input_bytes(slice_) for slice_ in claim.slices)
        dispatcher = self._choose_dispatcher(total_bytes)
        dispatcher.probe()
        self._observer.step(f"compaction {claim.instant}: merging {len(specs)} file slices on {dispatcher.name}")

        def report(progress: Progress) -> None:
            written = self._storage.list(claim.attempt.folder)
            rows = finished_operations(written)
            self._observer.merged(
                Merged(
                    operations=max(progress.finished, len(rows)),
                    operations_total=len(specs),
                    input_bytes=sum(_input_bytes(claim.slices[index]) for index in rows),
                    input_bytes_total=total_bytes,
                    output_bytes=sum(status.size for status in written),
                    rows=sum(rows.values()),
                )
            )

        outcomes = dispatcher.run(
            self._run_operation, specs, description=f"compaction {claim.instant}", on_progress=report
        )
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
                slice=SliceInput(
                    base_path=self._base_path,
                    partition_path=slice_.partition_path,
                    file_id=slice_.file_id,
                    base_file=join(slice_.partition_path, slice_.base_file.name) if slice_.base_file else None,
                    log_files=tuple(join(slice_.partition_path, log.name.text) for log in slice_.log_files),
                    instant=claim.instant,
                    schema=snapshot.schema,
                    rules=rules,
                    memory_bytes=options.memory_bytes,
                ),
                attempt=self._owner.attempt,
                attempt_folder=claim.attempt.folder,
                input_bytes=_input_bytes(slice_),
                codec=options.codec,
                verify=options.verify,
            )
            for index, slice_ in enumerate(claim.slices)
        ]

    def _commit(self, claim: Claim, results: list[OperationResult]) -> str:
        """Make the results visible. Returns the completion time."""
        winners = [
            Winner(result.partition_path, result.file_name, slice_.base_file is not None)
            for result, slice_ in zip(results, claim.slices, strict=True)
        ]
        claim.attempt.write_markers(winners)
        with self._lock() as lock:
            snapshot = self._look()
            self._check_still_right(claim, snapshot)
            metadata = compaction_commit(claim.instant, claim.plan, claim.slices, results, snapshot.schema or "")
            staged = claim.attempt.stage_commit(write_commit_metadata(metadata))
            completion_time = next_time(floor=snapshot.timeline.latest_time, zone=_zone(snapshot), clock=self._clock)
            lock.fence()
            claim.attempt.move_in(winners)
            keep = frozenset(winner.file_name for winner in winners)
            for stray in strays(self._storage, self._base_path, claim.instant, _groups(claim.plan), keep=keep):
                self._storage.delete(stray.path)
            lock.fence()
            claim.files.complete(staged, completion_time)
        return completion_time

    def _check_still_right(self, claim: Claim, snapshot: TableSnapshot) -> None:
        """The attempt is ours, the plan is as it was, and its slices hold what we merged."""
        completed = claim.files.find_completed()
        if completed is not None or not claim.heartbeat.is_ours() or not claim.files.is_inflight():
            raise AttemptLost(
                f"Our attempt at compaction {claim.instant} was taken over.",
                why=f"{completed} exists." if completed else "Its heartbeat or its .inflight file is no longer ours.",
                remedy="Run the command again: it finishes what is left, if anything is.",
            )
        if _planned_slices(snapshot, claim.instant, _pending_plan(snapshot, claim.instant)) != claim.slices:
            raise Conflict(
                f"The file slices of compaction {claim.instant} changed while they were merged.",
                why="A log file was added to or taken from a slice that the plan had closed.",
                remedy="Run `lakeward inspect` and see which writer did it; nothing was published.",
            )
        if self._options.writers_stopped:
            ours = {claim.instant}
            new = {(i.time, i.action) for i in snapshot.timeline.instants if i.time not in ours} - {
                (i.time, i.action) for i in claim.snapshot.timeline.instants
            }
            if new:
                time, action = min(new)
                raise Conflict(
                    f"{action} {time} appeared while compaction {claim.instant} ran.",
                    why="You said --writers stopped, and somebody writes.",
                    remedy="Stop the writer, or share its lock with --lock filesystem; nothing was published.",
                )

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
        snapshot = take_snapshot(
            self._storage, self._base_path, timezone=self._options.timezone, clock=self._clock
        )
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

    def _files(self, snapshot: TableSnapshot, instant: str) -> TimelineFiles:
        return TimelineFiles(self._storage, timeline_folder(self._base_path, snapshot.config), instant, ServiceAction.COMPACTION)


def _pending_plan(snapshot: TableSnapshot, instant: str) -> CompactionPlan:
    plan = snapshot.plans.get(instant)
    if plan is None:
        raise Conflict(
            f"The plan of compaction {instant} is gone.",
            why="Its .requested file was there and cannot be found or read any more.",
            remedy="Run the command again; it plans anew.",
        )
    return plan


def _planned_slices(snapshot: TableSnapshot, instant: str, plan: CompactionPlan) -> tuple[FileSlice, ...]:
    """The file slice of each operation, which must be on storage exactly as the plan lists it."""
    slices = {
        (slice_.partition_path, slice_.file_id, slice_.base_instant): slice_
        for group in snapshot.file_groups
        for slice_ in group.slices
    }
    found = []
    for operation in plan.operations:
        slice_ = slices.get((operation.partition_path, operation.file_id, operation.base_instant or ""))
        base_file = slice_.base_file.name if slice_ is not None and slice_.base_file is not None else None
        logs = {log.name.text for log in slice_.log_files} if slice_ is not None else set()
        if slice_ is None or base_file != operation.base_file or logs != set(operation.log_files):
            raise Conflict(
                f"Compaction {instant} does not fit file group {operation.file_id} "
                f"in partition '{operation.partition_path}'.",
                why=f"It plans {operation.base_file} with {sorted(operation.log_files)}, "
                f"the table has {base_file} with {sorted(logs)}.",
                remedy="Let the engine that scheduled the plan carry it out or roll it back; nothing was written.",
            )
        found.append(slice_)
    return tuple(found)


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


def _input_bytes(slice_: FileSlice) -> int:
    return slice_.base_bytes + slice_.log_bytes
