"""What a service of Lakeward does beside writers: waits for those that would fail for it, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeward.base.errors import Cancelled, TryLater
from lakeward.format.timeline.compaction_plan import CompactionOperation, CompactionPlan
from lakeward.format.timeline.instant import State
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.progress import Phase
from lakeward.protocol.serviced_table import CALM_SECONDS_MAX
from lakeward.protocol.writers_conflict import (
    EXPECTED_SECONDS,
    LOG_PLAN_PARTITIONS,
    LOG_PLANS_MAX,
    SETTLED_SECONDS,
    WritersConflict,
    YieldOptions,
)
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.compaction.run.compactor import CompactionReport
from lakeward.services.compaction.run.plan_publication import UNSEEN_SECONDS, log_plans
from tests.clocks import SkippingClock
from tests.crash.compacting import FULL, LOG, check_log_compacted, check_readable, instants
from tests.golden_tables import copy_golden
from tests.services.bench import Bench, Watcher
from tests.services.hudi_writes import HudiWrite

Act = Callable[[], object]


class Story(SkippingClock):
    """A clock on which things happen: each after so many seconds of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._acts: list[tuple[float, Act]] = []

    def after(self, seconds: float, act: Act) -> None:
        self._acts.append((seconds, act))
        self._acts.sort(key=lambda each: each[0])

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        while self._acts and self.slept >= self._acts[0][0]:
            self._acts.pop(0)[1]()


class Beside(Bench):
    """A golden table with writers that share its lock."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.clock: Story = Story()
        self._began = self.clock.monotonic()

    @property
    def passed(self) -> float:
        """Seconds, those that passed for real among them: on a busy machine less is left to sleep."""
        return self.clock.monotonic() - self._began

    def write(self, **how: object) -> HudiWrite:
        return HudiWrite(self.base, self.clock, **how)  # type: ignore[arg-type]

    def compact(self, kind: object = LOG, **yielding: object) -> CompactionReport:
        options = YieldOptions(**yielding)  # type: ignore[arg-type]
        return self.compactor(kind, writers_stopped=False, yielding=options).compact()  # type: ignore[arg-type]

    @property
    def waits(self) -> list[str]:
        """What was said while a write was waited for."""
        return [text for text in self.watcher.waits if text.startswith("write ")]

    def pending(self) -> list[str]:
        timeline = instants(self.base)
        done = {each.time for each in timeline if each.state is State.COMPLETED}
        return [each.action for each in timeline if "compaction" in each.action and each.time not in done]


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(copy_golden("v9", tmp_path / "table"))


def test_a_log_is_published_once_overtaken(beside: Beside) -> None:
    """Planned during W1 it is published neither during that nor during W2, but in the middle of W3."""
    first, writes = beside.write(ago=4.0).inflight("p"), []

    def next_write(before: HudiWrite) -> HudiWrite:
        before.complete()
        beside.clock.slept += 0.2  # no two times are the same
        writes.append(beside.write().inflight("p"))
        return writes[-1]

    beside.clock.after(5.0, lambda: next_write(first))
    beside.clock.after(12.0, lambda: next_write(writes[-1]))
    (plan,) = beside.compact().plans

    assert plan.completion_time is not None and len(writes) == 2
    assert writes[-1].instant < plan.completion_time and writes[-1].heartbeat.exists()
    waited_for = {text.split()[1] for text in beside.waits}
    assert waited_for == {first.instant, writes[0].instant}
    check_readable(beside.base)


def test_in_a_gap_nothing_is_waited_for(beside: Beside) -> None:
    """The look and the publication are under one lock."""
    beside.compact()

    assert beside.watcher.waits == []
    check_log_compacted(beside.base)


def test_a_dead_write_holds_nothing_back(beside: Beside) -> None:
    """One that failed has no heartbeat, and one that was killed lets it expire. Keeps 1 of protocol/writer_watch."""
    beside.write(ago=30.0, heartbeat=False).inflight("p")
    beside.compact()

    assert beside.watcher.waits == []
    check_log_compacted(beside.base)


def test_a_write_elsewhere_holds_nothing_back(beside: Beside) -> None:
    """Its inflight file names the partitions that it touches."""
    beside.write(ago=30.0).inflight("q")
    beside.compact()

    assert beside.waits == []


def test_a_write_that_comes_before_the_lock_is_seen(beside: Beside) -> None:
    """A gap that ended between the look and the lock is none. Keeps 5 of services/compaction/run/publication; Keeps 4
    of services/compaction/run/publication."""
    came: list[HudiWrite] = []

    class Meddler(Watcher):
        def phase(self, phase: Phase, seconds: float) -> None:
            super().phase(phase, seconds)
            if phase is Phase.YIELD and not came:
                came.append(beside.write().inflight("p"))
                beside.clock.after(beside.clock.slept + 3.0, came[0].complete)

    beside.watcher = Meddler()
    (plan,) = beside.compact().plans

    assert plan.completion_time is not None and not came[0].heartbeat.exists()
    assert beside.watcher.phases.count(Phase.YIELD) == 2


def test_a_long_write_is_not_waited_for_for_ever(beside: Beside) -> None:
    """Here it leaves nothing to publish; the plan is taken back, and the report says which write it was."""
    write = beside.write(ago=4.0).inflight("p")
    (plan,) = beside.compact(seconds=20.0).plans

    assert plan.completion_time is None and write.instant in plan.dropped[0].why
    assert beside.passed >= 20.0 and beside.clock.slept < 30.0
    assert beside.pending() == []


def test_a_long_write_counts_from_when_it_holds_up(beside: Beside) -> None:
    """One that began long before, and held nothing up until now, is waited for."""
    beside.write(ago=600.0).inflight("q")
    late = beside.write(ago=500.0).inflight("p")
    beside.clock.after(15.0, late.complete)
    (plan,) = beside.compact(seconds=20.0).plans

    assert plan.completion_time is not None and beside.passed >= 15.0


def test_the_wait_is_stopped_and_shown(beside: Beside) -> None:
    """The guard ends it, and only the plan is left. Keeps 6 of services/compaction/run/publication."""
    write = beside.write(ago=4.0).inflight("p")

    def guard() -> None:
        if beside.clock.slept > 3.0:
            raise Cancelled("enough")

    beside.guard = guard
    with pytest.raises(Cancelled):
        beside.compact()

    assert beside.pending() == ["logcompaction"]
    shown = [text for text in beside.waits if text.startswith(f"write {write.instant} of ")]
    assert "in partitions p" in shown[-1] and "at most 60 s" in shown[-1]


def test_a_full_does_not_wait_for_a_write_under_way(beside: Beside) -> None:
    """On version 9 it is no candidate of Hudi's check."""
    write = beside.write(ago=4.0).inflight("p")
    beside.compact(FULL)

    assert write.heartbeat.exists() and beside.waits == []
    check_readable(beside.base)


def test_a_full_waits_for_a_write_that_began_as_it_was_planned(beside: Beside) -> None:
    """A write that was merely requested may remember the plan as pending."""
    write = beside.write(ago=1.0)
    beside.clock.after(30.0, lambda: write.inflight("p"))
    beside.clock.after(40.0, write.complete)
    (plan,) = beside.compact(FULL).plans

    assert plan.completion_time is not None and beside.passed >= 40.0


def test_a_plan_of_full_stays(beside: Beside) -> None:
    """It is published whole, later. Keeps 7 of services/compaction/run/publication."""
    write = beside.write(ago=1.0)
    with pytest.raises(TryLater, match=write.instant):
        beside.compact(FULL, seconds=10.0)
    assert beside.pending() == ["compaction"]

    write.inflight("p").complete()
    assert [plan.recovered for plan in beside.compact(FULL).plans] == [True]


def test_prefer_writer_waits_for_a_gap(beside: Beside) -> None:
    """Being overtaken is of no use to its writers, and no marker is there before the lock is held."""
    write = beside.write(ago=4.0).inflight("p")
    listed: list[bool] = []
    list_markers = Attempt.list_markers

    def listing(attempt: Attempt, *arguments: object) -> None:
        listed.append((beside.base / SPARK_LOCK).exists())
        list_markers(attempt, *arguments)  # type: ignore[arg-type]

    beside.clock.after(10.0, write.complete)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Attempt, "list_markers", listing)
        (plan,) = beside.compact(configured=WritersConflict.PREFER_WRITER).plans
    assert plan.completion_time is not None and listed == [True]
    assert beside.passed >= 10.0


def test_the_lock_is_not_taken_right_after_a_commit(beside: Beside) -> None:
    """Its writer asks for it then to begin its next write, and would be late by a whole poll."""
    beside.write(ago=4.0).inflight("p").complete()
    beside.compact()

    assert "a writer is about to take the table lock" in beside.watcher.waits
    assert beside.passed >= CALM_SECONDS_MAX and beside.clock.slept < EXPECTED_SECONDS + 1.0, (
        "writes of the table came one upon the other"
    )


def test_a_lock_that_a_writer_gave_back_is_left_to_its_next_write(beside: Beside) -> None:
    """It was held to commit, and is asked for again at once."""
    write, lock = beside.write(ago=4.0).inflight("p"), beside.base / SPARK_LOCK
    lock.touch()

    def commit() -> None:
        write.complete()
        lock.unlink()

    beside.clock.after(2.0, commit)
    options = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=60.0)
    beside.compactor(writers_stopped=False, lock=options).recover()

    assert beside.passed >= 2.0 + SETTLED_SECONDS and beside.clock.slept < CALM_SECONDS_MAX + 1.0


def test_a_lock_that_was_held_when_the_wait_was_over_is_left_to_the_next_write_too(beside: Beside) -> None:
    """A long commit outlasts the wait for a calm moment, and its writer asks for the lock again at once."""
    write, lock = beside.write(ago=1.0), beside.base / SPARK_LOCK
    lock.touch()

    def commit() -> None:
        write.inflight("p").complete()
        lock.unlink()

    beside.clock.after(CALM_SECONDS_MAX + 2.0, commit)
    options = FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=60.0)
    beside.compactor(writers_stopped=False, lock=options).recover()

    assert beside.passed >= 2 * CALM_SECONDS_MAX + 1.9 and beside.clock.slept < 2 * CALM_SECONDS_MAX + 4.0


def test_pauses_of_writers_are_known(beside: Beside) -> None:
    """A writer that does not rest is expected back, though nothing shows it while it sleeps between two polls."""
    for ago in (30.0, 24.0, 18.0, 12.0, 6.0):
        beside.clock.slept -= ago
        beside.write(ago=4.0).inflight("p").complete()
        beside.clock.slept += ago
    usual_pause = beside.compactor(writers_stopped=False)._table.writers.scan().usual_pause
    assert usual_pause is not None and 1.9 < usual_pause < 2.5


def test_the_wait_for_a_calm_moment_is_short(beside: Beside) -> None:
    """Keeps 3 of protocol/serviced_table: a write that begins and begins does not keep us from the lock."""
    beside.write(ago=1.0)
    beside.compactor(writers_stopped=False).recover()

    assert beside.passed >= CALM_SECONDS_MAX and beside.clock.slept < CALM_SECONDS_MAX + 1.0


def test_what_we_commit_is_no_writers_commit(beside: Beside) -> None:
    """After our own commits no writer begins its next write. Keeps 2 of protocol/writer_watch."""
    beside.compact()
    beside.compact(FULL)

    assert beside.watcher.waits == []


def test_the_lock_held_beside_a_write_is_measured(beside: Beside) -> None:
    """So that an operator sees for how long writers may have waited for us."""
    beside.compact()
    assert Phase.BESIDE_WRITES not in beside.watcher.phases
    beside.write(ago=4.0).inflight("p")
    beside.compact(FULL)
    assert Phase.BESIDE_WRITES in beside.watcher.phases


def test_stopped_writers_are_not_searched_for(beside: Beside) -> None:
    """The operator's word is enough; what appears all the same ends the work."""
    beside.write(ago=4.0).inflight("p")
    beside.compactor(LOG, writers_stopped=True).compact()

    assert beside.watcher.waits == []


# ----------------------------------------------------------------------------------- by the rules of Hudi 1.0


def test_with_writers_of_1_0_a_full_is_planned_in_a_gap(tmp_path: Path) -> None:
    """Version 8 may have them. Where a write may be at work nothing is planned; the lock was held for a while before
    that was looked at, for a write that cannot be seen yet. Keeps 5 of services/compaction/run/plan_publication."""
    beside = Beside(copy_golden("v8", tmp_path / "table"))
    write = beside.write(ago=4.0).inflight("p0")
    report = beside.compact(FULL, seconds=10.0)

    planned = {operation.partition_path for plan in report.plans for operation in plan.operations}
    left = {each.partition_path for each in report.outcome.decisions if each.reason is Reason.WRITE_AT_WORK}
    assert (planned, left) == ({"p1"}, {"p0"})
    assert beside.passed >= 10.0 + UNSEEN_SECONDS

    assert beside.compact(FULL, configured=WritersConflict.DEFAULT).plans, "the operator knows that there are none"
    assert write.heartbeat.exists()


def test_with_writers_of_1_0_a_gap_is_waited_for(tmp_path: Path) -> None:
    """A write that ends in time does not keep its partition from being planned."""
    beside = Beside(copy_golden("v8", tmp_path / "table"))
    beside.clock.after(5.0, beside.write(ago=4.0).inflight("p0", "p1").complete)

    assert beside.compact(FULL).plans


# ---------------------------------------------------------------------------------------- plans of few partitions


def test_log_plans_have_few_partitions() -> None:
    """One long write holds up the plan with its partition, which comes last. Keeps 3 of
    services/compaction/run/plan_publication."""
    partitions = [f"p{number:03}" for number in range(100)]
    operations = tuple(_operation(each, f"g{number}") for each in partitions for number in range(2))
    plan = CompactionPlan(operations, strategy="S")
    plans = log_plans(plan, frozenset({"p000"}))

    assert len(plans) == LOG_PLANS_MAX and {each.strategy for each in plans} == {"S"}
    assert sorted((o.partition_path, o.file_id) for each in plans for o in each.operations) == sorted(
        (o.partition_path, o.file_id) for o in operations
    )
    assert [any(o.partition_path == "p000" for o in each.operations) for each in plans] == [False] * 3 + [True]
    assert log_plans(plan, None) == [plan], "without writers nothing is gained by it"
    few = CompactionPlan(operations[: 2 * LOG_PLAN_PARTITIONS])
    assert log_plans(few, frozenset({"p000"})) == [few]


def _operation(partition: str, file_id: str) -> CompactionOperation:
    return CompactionOperation(
        base_instant="1", base_file=None, log_files=(), metrics={}, partition_path=partition, file_id=file_id
    )
