"""Plans are carried out whole or not at all. Faults of storage are in tests/crash; here the rest can go wrong."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost, Conflict, LakewardError, LockHeld, Refused, TryLater, VerificationFailed
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.timeline.commit_metadata import read_commit_metadata, write_commit_metadata
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.format.timeline.instant import State, format_instant_time
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK
from lakeward.protocol.owner import Owner
from lakeward.protocol.progress import Phase
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import CompactedPlan
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from lakeward.storage.local import LocalStorage
from tests.crash.compacting import LOG, check_finished, check_readable, everything, instants
from tests.faults import FaultyStorage
from tests.golden_tables import GOLDEN, copy_golden
from tests.metadata_golden import set_property
from tests.services.bench import NOTHING, Bench, Watcher, pending_states


def full(**groups: tuple[str, ...]) -> Planner:
    return planner_of(CompactionType.FULL, GroupFilter(**groups), {})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table"))


@pytest.fixture
def pending_bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden("v9", tmp_path / "table", pending=True))


def test_a_plan_is_scheduled_merged_and_committed(bench: Bench) -> None:
    """The report has the whole story once."""
    report = bench.compactor().compact()
    check_finished(bench.base)
    (plan,) = report.plans
    (operation,) = plan.operations
    assert not plan.recovered
    assert (operation.counts.base_rows, operation.counts.updated, operation.counts.deleted) == (6, 2, 2)
    assert plan.output_bytes == operation.size_bytes
    assert [decision.reason for decision in report.outcome.decisions] == [Reason.HAS_LOGS]
    last = bench.watcher.states[-1]
    assert (last.operations, last.input_bytes) == (last.operations_total, last.input_bytes_total)
    assert last.output_bytes == plan.output_bytes and last.is_within_slices


def test_changes_are_published_with_the_base_file(tmp_path: Path) -> None:
    """The log of changes stands in the partition, the commit and the metadata table name it, nothing is left of it
    elsewhere, and it is nothing to compact; the next plan names it."""
    bench = Bench(copy_golden("v9_metadata", tmp_path / "table"))
    set_property(bench.base, "hoodie.table.cdc.enabled", "true")
    (plan,) = bench.compactor().compact().plans
    (operation,) = plan.operations
    assert operation.change_log is not None
    path = f"{operation.partition_path}/{operation.change_log.file_name}"
    assert (bench.base / path).stat().st_size == operation.change_log.size_bytes
    (commit,) = (bench.base / ".hoodie/timeline").glob(f"{plan.instant}_*.commit")
    metadata = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2)
    (stat,) = metadata.partition_to_write_stats[operation.partition_path]
    assert stat.cdc_stats == {path: operation.change_log.size_bytes}
    assert not any((bench.base / ".hoodie/.temp").rglob("*"))
    found = verify_table(
        bench.storage, str(bench.base), size=SampleSize(None, 100), merge_sample=1, clock=bench.clock, timezone="UTC"
    )
    assert found.problems == ()

    report = bench.compactor().compact()
    assert (report.plans, [decision.reason for decision in report.outcome.decisions]) == ((), [Reason.NO_LOGS])


def test_a_second_run_finds_nothing_to_do(bench: Bench) -> None:
    """The second run writes nothing."""
    bench.compactor().compact()
    before = everything(bench.base)
    report = bench.compactor().compact()
    assert report.plans == ()
    assert [decision.reason for decision in report.outcome.decisions] == [Reason.NO_LOGS]
    assert everything(bench.base) == before


def test_a_foreign_pending_plan_is_finished_first(pending_bench: Bench) -> None:
    """Hudi's plan keeps its instant; nothing is left to plan again."""
    report = pending_bench.compactor().compact()
    assert [(plan.instant, plan.recovered) for plan in report.plans] == [("20261121043710038", True)]
    check_finished(pending_bench.base)


def test_a_dry_run_writes_nothing(bench: Bench) -> None:
    """It says what would be done."""
    before = everything(bench.base)
    outcome = bench.compactor().preview().outcome
    assert [decision.choice for decision in outcome.decisions] == [Choice.FULL]
    assert everything(bench.base) == before


def test_filters_leave_the_rest_alone(bench: Bench) -> None:
    """A group that no filter selects is reported as such."""
    outcome = bench.compactor(full(partitions=("q*",))).preview().outcome
    assert [decision.reason for decision in outcome.decisions] == [Reason.NOT_SELECTED]
    outcome = bench.compactor(full(partitions=("p*",))).preview().outcome
    assert [decision.reason for decision in outcome.decisions] == [Reason.HAS_LOGS]
    outcome = bench.compactor(full(file_groups=("another-0",))).preview().outcome
    assert [decision.reason for decision in outcome.decisions] == [Reason.NOT_SELECTED]


@pytest.mark.parametrize(
    ("error", "exit_code"), [(OSError("gone"), None), (VerificationFailed("bad"), 6), (LakewardError("no"), 1)]
)
def test_a_failed_operation_leaves_the_plan_and_nothing_else(
    bench: Bench, error: Exception, exit_code: int | None
) -> None:
    """Files, markers, heartbeat and .inflight go; .requested stays; the next run carries it out. Keeps 2 of
    services/compaction/run/compactor; Keeps 1 of protocol/life_cycle."""
    before = everything(bench.base)

    def fail_after_writing(spec: OperationSpec, task_attempt: int) -> OperationResult:
        run_operation(bench.storage, spec, task_attempt)
        raise error

    bench.run = fail_after_writing  # type: ignore[assignment]
    with pytest.raises(type(error)) as caught:
        bench.compactor().compact()
    assert exit_code is None or getattr(caught.value, "exit_code", None) == exit_code
    left = set(everything(bench.base)) - set(before)
    assert {path.partition(".hoodie/timeline/")[2].partition(".")[2] for path in left} == {"compaction.requested"}
    check_readable(bench.base)
    bench.run = partial(run_operation, bench.storage)
    assert [plan.recovered for plan in bench.compactor().compact().plans] == [True]
    check_finished(bench.base)


def test_a_wrong_result_leaves_what_is_needed_to_repeat_it(bench: Bench, tmp_path: Path) -> None:
    """The bundle names the operation, its files with their sizes, the error and the versions; it holds no row."""

    def fail(spec: OperationSpec, task_attempt: int) -> OperationResult:
        raise VerificationFailed("The digests differ.", why="1 is not 2.")

    bench.run = fail  # type: ignore[assignment]
    with pytest.raises(VerificationFailed) as error:
        bench.compactor(state_folder=tmp_path / "state").compact()
    (bundle,) = (tmp_path / "state").iterdir()
    assert str(bundle) in error.value.__notes__[0]
    shown = json.loads(bundle.read_text())
    assert shown["error"]["why"] == "1 is not 2."
    assert shown["operation"]["slice"]["file_id"] == "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"
    assert sorted(shown["files"].values()) == [882, 1087, 1098, 2804]
    assert shown["versions"]["packages"]


def test_an_interrupt_rolls_the_attempt_back(bench: Bench) -> None:
    """Ctrl-C while merging leaves the plan only."""

    def interrupt(spec: OperationSpec, task_attempt: int) -> OperationResult:
        raise KeyboardInterrupt

    bench.run = interrupt  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        bench.compactor().compact()
    assert pending_states(bench.base) == {State.REQUESTED}


def test_a_writer_that_should_be_stopped_aborts_the_commit(bench: Bench) -> None:
    """A writer's instant that comes while we merge stops the publication under --writers stopped."""

    def write_meanwhile(spec: OperationSpec, task_attempt: int) -> OperationResult:
        (bench.base / ".hoodie/timeline/20261121043711000.deltacommit.requested").touch()
        return run_operation(bench.storage, spec, task_attempt)

    bench.run = write_meanwhile  # type: ignore[assignment]
    with pytest.raises(Conflict, match="20261121043711000 appeared"):
        bench.compactor().compact()
    assert pending_states(bench.base) == {State.REQUESTED}
    check_readable(bench.base)


def test_a_writer_that_shares_the_lock_does_not(bench: Bench) -> None:
    """Under --lock a commit beside Lakeward's is what the lock is for."""

    def write_meanwhile(spec: OperationSpec, task_attempt: int) -> OperationResult:
        (bench.base / ".hoodie/timeline/20261121043711000.deltacommit.requested").touch()
        return run_operation(bench.storage, spec, task_attempt)

    bench.run = write_meanwhile  # type: ignore[assignment]
    bench.compactor(writers_stopped=False).compact()
    check_finished(bench.base)


def test_a_plan_that_does_not_fit_the_table_is_not_run(pending_bench: Bench) -> None:
    """A slice with one log file more than the plan says: nothing is written, the error names the group."""
    path = pending_bench.base / ".hoodie/timeline/20261121043710038.compaction.requested"
    plan = read_compaction_plan(path.read_bytes(), file=str(path))
    (operation,) = plan.operations
    operation = replace(operation, log_files=operation.log_files[:-1])
    path.write_bytes(write_compaction_plan(replace(plan, operations=(operation,))))
    before = everything(pending_bench.base)
    with pytest.raises(Conflict, match="does not fit file group"):
        pending_bench.compactor().compact()
    assert everything(pending_bench.base) == before


def set_operation_type(bench: Bench, operation_type: str) -> None:
    path = bench.base / ".hoodie/timeline/20261121043710038.compaction.requested"
    plan = read_compaction_plan(path.read_bytes(), file=str(path))
    operations = tuple(replace(operation, operation_type=operation_type) for operation in plan.operations)
    path.write_bytes(write_compaction_plan(replace(plan, version=3, operations=operations)))


def test_an_operation_of_unknown_type_is_not_run(pending_bench: Bench) -> None:
    """It is not taken for one of those that we know."""
    set_operation_type(pending_bench, "SIDEWAYS")
    with pytest.raises(Refused, match="plan-operation-type"):
        pending_bench.compactor().compact()


def test_a_log_operation_of_a_hybrid_plan_leaves_the_base(pending_bench: Bench) -> None:
    """It is completed as a commit, its output is one log, and the base file stays the slice's."""
    set_operation_type(pending_bench, "LOG")
    report = pending_bench.compactor(planner=NOTHING).compact()
    (plan,) = report.plans
    assert plan.operations[0].file_name.startswith(".ebf517f7")
    states = [i for i in instants(pending_bench.base) if i.time == plan.instant]
    assert [i.action for i in states if i.state is State.COMPLETED] == ["commit"]
    check_readable(pending_bench.base)
    assert len(list((pending_bench.base / "p").glob("*.parquet"))) == 1
    pending_bench.compactor().compact()
    check_readable(pending_bench.base)


def place_heartbeat(bench: Bench, owner: Owner | None, *, age_seconds: float) -> None:
    path = Path(heartbeat_path(str(bench.base), "20261121043710038"))
    path.parent.mkdir(parents=True)
    path.write_bytes(owner.to_line() if owner else b"")
    then = time.time() - age_seconds
    os.utime(path, (then, then))


def test_a_living_attempt_is_waited_for(pending_bench: Bench) -> None:
    """We wait up to --wait, with a line of progress, and then exit with 75; nothing of the other attempt is touched.
    Keeps 1 of services/compaction/run/claim."""
    place_heartbeat(pending_bench, None, age_seconds=10)
    before = everything(pending_bench.base)
    with pytest.raises(TryLater) as error:
        pending_bench.compactor(wait_seconds=30.0).compact()
    assert error.value.exit_code == 75
    assert 29 <= pending_bench.clock.slept <= 32
    assert pending_bench.watcher.waits
    assert everything(pending_bench.base) == before


def test_a_heartbeat_that_stops_while_we_wait_is_taken_over(pending_bench: Bench) -> None:
    """Two minutes without a beat and the attempt counts as dead."""
    place_heartbeat(pending_bench, None, age_seconds=10)
    pending_bench.compactor(wait_seconds=150.0).compact()
    assert 100 <= pending_bench.clock.slept <= 112  # the rest passed for real
    check_finished(pending_bench.base)


def test_a_dead_process_of_lakeward_is_taken_over_at_once(pending_bench: Bench) -> None:
    """Its heartbeat is fresh, its process is gone."""
    owner = pending_bench.processes.new_owner()
    place_heartbeat(pending_bench, owner, age_seconds=0)
    pending_bench.processes.kill_all()
    pending_bench.compactor().compact()
    assert pending_bench.clock.slept < 1
    check_finished(pending_bench.base)


def test_a_held_lock_stops_us_before_anything_is_written(bench: Bench) -> None:
    """Exit 5, and the table is as it was."""
    (bench.base / SPARK_LOCK).touch()
    before = everything(bench.base)
    with pytest.raises(LockHeld):
        bench.compactor().compact()
    assert everything(bench.base) == before


def test_too_little_space_stops_us_before_anything_is_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk in the middle would stop the writers too."""
    monkeypatch.setattr(bench.storage, "free_bytes", lambda path: 100)
    with pytest.raises(Refused, match="100 bytes free"):
        bench.compactor().compact()
    assert pending_states(bench.base) == set()


def test_what_the_dead_attempt_of_another_engine_left_is_removed(pending_bench: Bench) -> None:
    """Its .inflight, its markers, and the base file that it had already written into the partition."""
    base = pending_bench.base
    (base / ".hoodie/timeline/20261121043710038.compaction.inflight").touch()
    orphan = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0_0-55-66_20261121043710038.parquet"
    (base / "p" / orphan).write_bytes(b"half a file")
    other = "99999999-02cc-4e03-aec7-b7450919b7fd-0_0-55-66_20261121043710038.parquet"
    (base / "p" / other).write_bytes(b"of a group that is not in the plan")
    marker = base / ".hoodie/.temp/20261121043710038/p" / f"{orphan}.marker.MERGE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    pending_bench.compactor().compact()
    assert not (base / "p" / orphan).exists()
    assert (base / "p" / other).exists()
    assert not marker.exists()


def compact_logs_while(bench: Bench, meanwhile: Callable[[], None]) -> CompactedPlan:
    """A log compaction during which something else happens to the table, under a shared lock."""

    def run(spec: OperationSpec, task_attempt: int) -> OperationResult:
        result = run_operation(bench.storage, spec, task_attempt)
        meanwhile()
        return result

    bench.run = run  # type: ignore[assignment]
    (plan,) = bench.compactor(planner=LOG, writers_stopped=False).compact().plans
    return plan


def check_log_compaction_is_gone(bench: Bench, plan: CompactedPlan, why: str) -> None:
    """Nothing was published, its plan was unscheduled, its file is nowhere, and the reason is reported."""
    assert plan.completion_time is None
    assert [why in dropped.why for dropped in plan.dropped] == [True], plan.dropped
    assert [path for path in everything(bench.base) if "logcompaction" in path or plan.instant in path] == []
    check_readable(bench.base)


def test_a_log_whose_group_was_planned_by_another_service_meanwhile_is_dropped(bench: Bench) -> None:
    """A compaction of the group is scheduled while the logs are merged: the result is thrown away, with the reason.
    Keeps 2 of services/compaction/run/targets."""
    plan = GOLDEN / "v9/table/.hoodie/timeline/20261121043710038.compaction.requested"
    target = bench.base / ".hoodie/timeline" / plan.name
    done = compact_logs_while(bench, lambda: target.write_bytes(plan.read_bytes()))
    check_log_compaction_is_gone(bench, done, "compaction 20261121043710038 was scheduled")


def test_a_log_between_whose_sources_a_write_completed_is_dropped(bench: Bench) -> None:
    """In the order of commit times that write would come before the output, although it is newer than some of its
    sources. Keeps 1 of services/compaction/run/publication; Keeps 1 of services/compaction/run/targets."""

    def write_between() -> None:
        new, old = "20261121043708500", "20261121043708181"
        for path in sorted((bench.base / ".hoodie/timeline").glob(f"{old}*")):
            name = path.name.replace(old, new)
            if name.endswith(".deltacommit"):
                name = f"{new}_{format_instant_time(int(bench.clock.now() * 1000), UTC)}.deltacommit"
            (path.parent / name).write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
        (log,) = (bench.base / "p").glob(f".*_{old}.log.*")
        (log.parent / log.name.replace(old, new)).write_bytes(log.read_bytes().replace(old.encode(), new.encode()))

    done = compact_logs_while(bench, write_between)
    assert done.completion_time is None
    assert ["no neighbours" in dropped.why for dropped in done.dropped] == [True], done.dropped
    assert [path for path in everything(bench.base) if "logcompaction" in path or done.instant in path] == []


def test_a_log_beside_a_later_write_is_kept(bench: Bench) -> None:
    """A write newer than all sources lies behind the output wherever it completes."""

    def write_later() -> None:
        (bench.base / ".hoodie/timeline/20261121053708500.deltacommit.requested").touch()

    done = compact_logs_while(bench, write_later)
    assert done.completion_time is not None
    assert done.dropped == ()
    check_readable(bench.base)


def test_an_attempt_that_was_taken_over_while_it_merged_touches_nothing(bench: Bench) -> None:
    """Another heartbeat is where Lakeward's was: nothing is published, nothing of the other attempt is rolled back."""
    hudis = bench.processes.new_owner().to_line()

    def be_taken_over(spec: OperationSpec, task_attempt: int) -> OperationResult:
        Path(heartbeat_path(str(bench.base), spec.slice.instant)).write_bytes(hudis)
        return run_operation(bench.storage, spec, task_attempt)

    bench.run = be_taken_over  # type: ignore[assignment]
    with pytest.raises(AttemptLost):
        bench.compactor().compact()
    assert pending_states(bench.base) == {State.REQUESTED, State.INFLIGHT}
    assert [path.read_bytes() for path in (bench.base / ".hoodie/.heartbeat").iterdir()] == [hudis]
    check_readable(bench.base)


def test_a_plan_that_was_written_again_is_not_carried_out(pending_bench: Bench) -> None:
    """It changes between the scan that found it and the claim: only the partitions of the plan that was found are
    listed."""
    path = pending_bench.base / ".hoodie/timeline/20261121043710038.compaction.requested"
    plan = read_compaction_plan(path.read_bytes(), file=path.name)
    (operation,) = plan.operations
    claims = 0

    def rewrite() -> None:
        nonlocal claims
        claims += 1
        other = replace(operation, partition_path="q")
        path.write_bytes(write_compaction_plan(replace(plan, operations=(operation, other))))

    class Rewriting(Watcher):
        def phase(self, phase: Phase, seconds: float) -> None:
            # The second scan without the lock is the one of the slices of pending plans.
            super().phase(phase, seconds)
            if self.phases[-2:] == [Phase.LOCK_HOLD, Phase.SCAN]:
                rewrite()

    pending_bench.watcher = Rewriting()
    with pytest.raises(Conflict, match="another one than a moment ago"):
        pending_bench.compactor().compact()
    assert claims == 1
    assert pending_states(pending_bench.base) == {State.REQUESTED}


def test_under_the_lock_only_the_plan_is_scanned(bench: Bench) -> None:
    """A table has two partitions, in one of which is work: the other is not listed under the lock, and no base file
    that was known before is opened there."""
    shutil.copytree(bench.base / "p", bench.base / "q")
    storage = FaultyStorage()
    bench.storage = storage  # type: ignore[assignment]
    bench.compactor(full(partitions=("p",))).compact()
    lock = f"{bench.base}/{SPARK_LOCK}"
    held, holds = False, list[list[str]]()
    for call in storage.calls:
        if call == f"create {lock}":
            held, holds = True, [*holds, []]
        elif call == f"delete {lock}":
            held = False
        elif held:
            holds[-1].append(call)
    assert len(holds) == 4, "recover, schedule, claim, commit"
    assert not any(f"list {bench.base}/q" in calls for calls in holds)
    assert [call for calls in holds for call in calls if call.startswith("open_input")] == []


def test_a_commit_stays_one_when_its_leftovers_cannot_be_removed(bench: Bench) -> None:
    """What fails behind the commit fails nothing: the plan is reported as done, and the next run tidies up. Keeps 3
    of services/compaction/run/compactor; Keeps 2 of protocol/life_cycle."""

    class Untidy(LocalStorage):
        def delete_folder(self, path: str) -> bool:
            raise OSError("the storage is away")

    bench.storage = Untidy()
    (plan,) = bench.compactor().compact().plans
    assert plan.completion_time is not None
    check_readable(bench.base)
    bench.storage = LocalStorage()
    bench.compactor().compact()
    check_finished(bench.base)


def test_a_process_that_is_overtaken_while_it_begins_has_lost_its_attempt(pending_bench: Bench) -> None:
    """Stopped between the proof of its lock and `.inflight`, which another process has made meanwhile."""

    class Overtaken(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            if path.endswith(".inflight"):
                super().create(path, b"")
            super().create(path, data)

    pending_bench.storage = Overtaken()
    with pytest.raises(AttemptLost, match="cannot begin"):
        pending_bench.compactor().compact()
    assert not any((pending_bench.base / ".hoodie/.heartbeat").iterdir())


def test_what_came_while_the_commit_was_prepared_is_in_it(bench: Bench) -> None:
    """A writer completes between the last scan without the lock and the lock: the commit carries its schema."""
    newest = max(bench.base.glob(".hoodie/timeline/*.deltacommit"))
    metadata = read_commit_metadata(newest.read_bytes(), file=newest.name, layout=2)
    schema = json.loads(metadata.schema or "")
    schema["fields"].append({"name": "late", "type": ["null", "string"], "default": None})

    def write() -> None:
        time, done = (format_instant_time(int((bench.clock.now() + more) * 1000), UTC) for more in (0, 0.1))
        evolved = replace(
            metadata,
            partition_to_write_stats={},
            extra_metadata={**metadata.extra_metadata, "schema": json.dumps(schema)},
        )
        (newest.parent / f"{time}.deltacommit.requested").touch()
        (newest.parent / f"{time}_{done}.deltacommit").write_bytes(write_commit_metadata(evolved))

    class LastMoment(LocalStorage):
        locks = 0

        def create(self, path: str, data: bytes) -> None:
            if path.endswith(SPARK_LOCK):
                self.locks += 1
                if self.locks == 4:  # recovery, schedule, claim, commit
                    write()
            super().create(path, data)

    bench.storage = LastMoment()
    (plan,) = bench.compactor(writers_stopped=False).compact().plans
    (commit,) = bench.base.glob(f".hoodie/timeline/{plan.instant}_*.commit")
    assert '"late"' in (read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2).schema or "")
