"""One scan, one plan, one job at a time, over golden tables and without the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Cancelled, NotFound, Refused, TryLater, VerificationFailed
from lakeward.daemon.scheduling.job_traits import TRAITS
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.served_table import ServedTable, served_table
from lakeward.daemon.status import StorageSample
from lakeward.daemon.work import worker as module
from lakeward.daemon.work.reports import PlanReport
from lakeward.daemon.work.worker import Worker
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult
from lakeward.protocol.progress import Count, Observer, Silent
from lakeward.protocol.transition import ServiceAction
from lakeward.services.compaction import job as compaction_job
from lakeward.services.compaction.plan.decision import Choice, Decision, PlanOutcome, Reason
from lakeward.services.compaction.run.compactor import CompactedPlan, CompactionReport, Compactor
from lakeward.services.verification import job as verification_job
from lakeward.services.verification.sample_verification import SampleReport
from lakeward.table.file_system_view import GroupId
from tests.clocks import SkippingClock
from tests.daemon.serving import Serving
from tests.golden_tables import copy_golden
from tests.services.bench import GROUP
from tests.services.hudi_writes import HudiWrite, roll_back


def proceed() -> None:
    pass


class Bench:
    """A worker and one table."""

    def __init__(
        self, folder: Path, *, golden: str = "v9", pending: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        (folder / "tables").mkdir()
        self.path = copy_golden(golden, folder / "tables/orders", pending=pending)
        self.serving = Serving(folder / "tables", folder / "state", settings=settings)
        self.worker: Worker = self.serving.worker
        self.table: ServedTable = served_table(
            self.serving.settings, "orders", str(self.path), watched_since=self.serving.clock.now()
        )

    def plan(self, excluded: Mapping[GroupId, Reason] | None = None) -> PlanReport:
        self.worker.poll(self.table)
        return self.worker.plan(self.table, excluded or {}, proceed)

    def run(self, service: JobKind, observer: Observer | None = None, **changes: Any) -> JobReport:
        job = replace(Job("j1", "orders", service, {}, 1, 1, 1, 1, deadline=0.0, started_at=0.0), **changes)
        return self.worker.run(job, self.table, guard=proceed, observer=observer or Silent())

    @property
    def group(self) -> GroupId:
        (slice_,) = self.serving.watcher.snapshot("orders").latest_slices
        return slice_.group_id

    def make_the_plan_own(self) -> str:
        (requested,) = (self.path / ".hoodie/timeline").glob("*.compaction.requested")
        plan = read_compaction_plan(requested.read_bytes(), file=requested.name)
        requested.write_bytes(write_compaction_plan(replace(plan, extra_metadata={"planned_by": "lakeward"})))
        return requested.name.partition(".")[0]

    def files(self) -> list[Path]:
        return sorted(self.path.rglob("*"))


def test_every_kind_of_job_is_carried_out_and_ranked() -> None:
    """Keeps of daemon/scheduling/job_traits. But for those that only the store's old rows still name."""
    assert module._SERVICES.keys() == TRAITS.keys() == set(JobKind)


class Counts(Silent):
    def __init__(self) -> None:
        self.found: list[Count] = []

    def counted(self, count: Count, number: int = 1) -> None:
        self.found += [count] * number


def test_a_poll_says_of_others_who_service_the_table(tmp_path: Path) -> None:
    """It reports their newest instant, and whether anything changed since the poll before."""
    bench = Bench(tmp_path, pending=True)
    bench.table = replace(bench.table, serviced_since=0.0)
    first, second = bench.worker.poll(bench.table), bench.worker.poll(bench.table)
    assert (first.changed, second.changed) == (True, False)
    assert second.foreign is not None and second.foreign.action == "compaction"


def test_a_plan_is_a_demand_and_writes_nothing(tmp_path: Path) -> None:
    """What it would read, write and need at its peak: as many operations at once as its dispatcher runs."""
    bench = Bench(tmp_path)
    before = bench.files()
    answer = bench.plan()
    assert answer.demand.operations == 1 and answer.demand.read_bytes > 0 and answer.demand.write_bytes > 0
    assert answer.demand.memory_bytes == bench.table.settings.memory
    assert answer.demand.oldest_unmerged_at is not None and answer.demand.expired_plans == ()
    assert bench.files() == before
    assert bench.worker.caches.of("orders").zone is UTC


def test_a_group_that_is_excluded_is_no_demand(tmp_path: Path) -> None:
    """The scheduler said so, and the reason stands in the decision."""
    bench = Bench(tmp_path)
    bench.plan()
    answer = bench.plan({bench.group: Reason.PARKED})
    assert answer.demand.operations == 0
    assert [decision.reason for decision in answer.outcome.decisions] == [Reason.PARKED]


def test_a_plan_is_stopped_where_it_asks(tmp_path: Path) -> None:
    """One that missed its deadline does not compute on."""
    bench = Bench(tmp_path)
    bench.worker.poll(bench.table)

    def stop() -> None:
        raise Cancelled("It is late.")

    with pytest.raises(Cancelled):
        bench.worker.plan(bench.table, {}, stop)


def test_pending_plans_are_work(tmp_path: Path) -> None:
    """Plans of other services are work too. Such a plan that holds an excluded group is not: we may neither run it
    nor roll it back, and a job that is begun for it would be begun again and again."""
    bench = Bench(tmp_path, pending=True)
    assert bench.plan().demand.operations == 1
    assert bench.plan({bench.group: Reason.PAUSED}).demand.operations == 0
    bench.make_the_plan_own()
    bench.worker.forget("orders")
    assert bench.plan({("", "other"): Reason.PAUSED}).demand.operations == 1


def test_a_plan_of_lakeward_that_is_too_old_is_unscheduled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and the job for it frees its file groups."""
    monkeypatch.setattr("lakeward.daemon.work.table_planner.PLAN_EXPIRY_SECONDS", 60.0)
    bench = Bench(tmp_path, pending=True)
    assert bench.plan().demand.expired_plans == (), "it is another service's"
    bench.worker.forget("orders")
    instant = bench.make_the_plan_own()

    assert bench.plan().demand.expired_plans == (instant,)
    report = bench.run(JobKind.PLAN_EXPIRY, expired_plans=(instant,))

    assert (report.result, report.instants) == (JobResult.COMMITTED, (instant,))
    assert not list((bench.path / ".hoodie/timeline").glob("*.compaction.requested"))
    assert bench.run(JobKind.PLAN_EXPIRY, expired_plans=(instant,)).result is JobResult.NOTHING


@pytest.mark.parametrize(("after", "due"), [('"off"', False), ('"auto"', False), ("1", True), ("1000", False)])
def test_a_plan_demands_for_the_metadata_tables_services(tmp_path: Path, after: str, due: bool) -> None:
    """The services are due when the settings want them and enough commits came: here one, of the two that `auto` waits
    for. The job does them, in figures; then they are not due. A compaction leaves them alone."""
    bench = Bench(tmp_path, golden="v9_metadata", settings={"defaults.metadata_compact_after": after})
    timeline = bench.path / ".hoodie/metadata/.hoodie/timeline"
    before = {path.name for path in timeline.glob("*_*.commit")}
    demand = bench.plan().demand.services.get(JobKind.METADATA_COMPACTION)
    assert bool(demand and demand.is_due) is due
    assert (demand is None) is (after == '"off"')

    counts = Counts()
    report = bench.run(JobKind.METADATA_COMPACTION, counts)

    assert (report.result is JobResult.COMMITTED) is due
    assert counts.found == [Count.METADATA_COMPACTION] * due
    new = {path.name for path in timeline.glob("*_*.commit")} - before
    assert [name.partition("_")[0] for name in new] == list(report.instants) and len(new) == due
    assert bool(report.figures.read_bytes and report.figures.written_bytes) is due
    assert bench.run(JobKind.METADATA_COMPACTION).result is JobResult.NOTHING
    assert bench.run(JobKind.COMPACTION, counts).result is JobResult.COMMITTED
    assert counts.found == [Count.METADATA_COMPACTION] * due + [Count.RAN_IN_PROCESS]


def test_what_prevents_the_metadata_tables_services_is_no_failure(tmp_path: Path) -> None:
    """A plan for it is Hudi's to finish: the job says so and has done nothing."""
    bench = Bench(tmp_path, golden="v9_metadata", settings={"defaults.metadata_compact_after": "1"})
    timeline = bench.path / ".hoodie/metadata/.hoodie/timeline"
    (requested, *_) = timeline.glob("*.compaction.requested")
    (timeline / "20261121143000000.compaction.requested").write_bytes(requested.read_bytes())
    counts = Counts()

    report = bench.run(JobKind.METADATA_COMPACTION, counts)

    assert (report.result, counts.found) == (JobResult.NOTHING, [Count.METADATA_LEFT])
    assert "pending-metadata-compaction" in report.problems[0].text


def test_a_file_of_the_metadata_table_that_does_not_hold_what_was_written_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows may be at stake: what verification finds is never passed over."""
    bench = Bench(tmp_path, golden="v9_metadata", settings={"defaults.metadata_compact_after": "1"})
    monkeypatch.setattr("lakeward.format.metadata.base_file.read_digest", lambda *arguments: b"another")
    with pytest.raises(VerificationFailed):
        bench.run(JobKind.METADATA_COMPACTION)


def test_old_files_of_the_metadata_table_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier compactions replaced goes in a job of its own, which compacts nothing; nor does the other clean."""
    monkeypatch.setattr("lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS", 1)
    monkeypatch.setattr("lakeward.services.metadata.plan.due_before_writers.RETAINED_COMMITS", 1)
    bench = Bench(tmp_path, golden="v9_metadata", settings={"defaults.metadata_compact_after": "1"})
    services = bench.plan().demand.services
    assert services[JobKind.METADATA_CLEAN].is_due and services[JobKind.METADATA_COMPACTION].is_due
    timeline, counts = bench.path / ".hoodie/metadata/.hoodie/timeline", Counts()
    compactions = list(timeline.glob("*_*.commit"))
    clean = bench.run(JobKind.METADATA_CLEAN, counts)
    assert (clean.result, len(clean.instants), counts.found) == (JobResult.COMMITTED, 1, [Count.METADATA_CLEAN])
    assert len(list(timeline.glob("*.clean"))) == 1 and list(timeline.glob("*_*.commit")) == compactions
    assert bench.run(JobKind.METADATA_CLEAN).result is JobResult.NOTHING
    assert len(bench.run(JobKind.METADATA_COMPACTION, counts).instants) == 1
    assert counts.found == [Count.METADATA_CLEAN, Count.METADATA_COMPACTION]


@pytest.mark.parametrize("torn", ["an unknown action", "a broken file"])
def test_a_metadata_table_that_cannot_be_scanned_at_keeps_no_plan_from_being_made(tmp_path: Path, torn: str) -> None:
    """Keeps of services/metadata/job. It is not serviced either; what needs it says why."""
    bench = Bench(tmp_path, golden="v9_metadata")
    folder = bench.path / ".hoodie/metadata/.hoodie"
    if torn == "an unknown action":
        (folder / "timeline/20261121143000000.strange.requested").touch()
    else:
        (folder / "hoodie.properties").write_text("")
    assert JobKind.METADATA_COMPACTION not in bench.plan().demand.services


def test_a_compaction_says_what_it_did(tmp_path: Path) -> None:
    """Its report has figures; the second one has nothing to do."""
    bench = Bench(tmp_path)
    bench.plan()
    log_bytes = sum(path.stat().st_size for path in bench.path.rglob("*.log.*") if not path.name.endswith(".crc"))

    report = bench.run(JobKind.COMPACTION)

    assert report.result is JobResult.COMMITTED and len(report.instants) == 1
    assert report.figures.operations == 1 and report.figures.written_bytes > 0
    assert report.figures.log_bytes == log_bytes > 0
    assert bench.run(JobKind.COMPACTION).result is JobResult.NOTHING


def test_a_table_about_whose_writers_nothing_was_said_is_not_written(tmp_path: Path) -> None:
    """It is not written even when a job is begun for it after all."""
    bench = Bench(tmp_path)
    settings = bench.table.settings
    locks = bench.table.locks.model_copy(update={"writers": None})
    bench.table = replace(bench.table, settings=settings.model_copy(update={"locks": locks}))
    before = bench.files()
    for service in set(JobKind) - {JobKind.INDEX, JobKind.VERIFICATION}:
        with pytest.raises(Refused, match="other writers"):
            bench.run(service)
    assert bench.files() == before


def plan_of(*, completed: bool, recovered: bool) -> CompactedPlan:
    return CompactedPlan(
        "20260101", ServiceAction.LOG_COMPACTION, "20260102" if completed else None, recovered, (), (), 0, 0, 0, 1.0
    )


@pytest.mark.parametrize(
    ("plan", "result"),
    [
        (plan_of(completed=True, recovered=False), JobResult.COMMITTED),
        (plan_of(completed=False, recovered=True), JobResult.COMMITTED),
        (plan_of(completed=False, recovered=False), JobResult.NOTHING),
    ],
)
def test_only_progress_is_a_result(plan: CompactedPlan, result: JobResult) -> None:
    """A plan that the job made itself and that achieved nothing would be demanded again at once, as fast as the machine
    can; as NOTHING it makes the table back off."""
    assert compaction_job._compacted(CompactionReport((plan,), PlanOutcome((), ()))).result is result


def test_a_job_that_is_committed_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it learned about logs is lost when the table cannot be scanned just now, or was removed; not its end."""
    bench = Bench(tmp_path)
    bench.plan()
    partition, file_id = bench.group
    left = Decision(partition, file_id, Choice.NONE, Reason.UNSUPPORTED_LOGS)
    report = CompactionReport((plan_of(completed=True, recovered=False),), PlanOutcome((left,), ()))
    monkeypatch.setattr(Compactor, "compact", lambda self: report)

    assert bench.run(JobKind.COMPACTION).result is JobResult.COMMITTED
    (decision,) = bench.plan().outcome.decisions
    assert decision.reason is Reason.UNSUPPORTED_LOGS, "the next plan does not ask for these logs again"
    bench.worker.forget("orders")

    assert bench.run(JobKind.COMPACTION).result is JobResult.COMMITTED


def test_a_sample_is_taken_of_what_was_compacted_lately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps of services/verification/job. Groups are sampled until one has checked them; one that failed has not."""
    bench = Bench(tmp_path)
    bench.plan()
    (instant,) = bench.run(JobKind.COMPACTION).instants
    asked: list[list[str]] = []

    def fail(*given: Any, lately: list[str], **named: Any) -> SampleReport:
        asked.append(list(lately))
        raise TryLater("not now")

    with monkeypatch.context() as failing:
        failing.setattr(verification_job, "verify_sample", fail)
        for _ in range(2):
            with pytest.raises(TryLater):
                bench.run(JobKind.VERIFICATION)
    assert asked == [[instant], [instant]]

    report = bench.run(JobKind.VERIFICATION)

    assert report.result is JobResult.COMMITTED and report.problems == ()
    assert report.figures.groups_verified == 1 and report.figures.groups_mismatched == 0
    assert bench.worker.caches.of("orders").unsampled.instants == ()


def test_a_table_that_is_forgotten_leaves_nothing(tmp_path: Path) -> None:
    """Its view goes, and so does what was learned."""
    bench = Bench(tmp_path)
    bench.plan()
    bench.worker.forget("orders")
    assert bench.serving.backlog("orders") is None and bench.worker.snapshot("orders") is None
    assert bench.worker.caches.find("orders") is None


def test_a_poll_says_of_writes_that_we_may_have_failed(tmp_path: Path) -> None:
    """Once, and not of what happened before the table was watched."""
    bench = Bench(tmp_path, settings={"defaults.type": "log"})
    clock = SkippingClock()
    old, write = (HudiWrite(bench.path, clock, ago=ago, heartbeat=False) for ago in (9.0, 5.0))
    bench.plan()
    assert bench.run(JobKind.COMPACTION).result is JobResult.COMMITTED
    clock.slept += 5.0
    roll_back(bench.path, clock, old.instant, files=[(*GROUP, "")])
    bench.worker.forget("orders")
    assert bench.worker.poll(bench.table).writer_conflicts == ()

    clock.slept += 5.0
    roll_back(bench.path, clock, write.instant, files=[(*GROUP, "")])
    (found,) = bench.worker.poll(bench.table).writer_conflicts
    assert found.write == write.instant
    assert bench.worker.poll(bench.table).writer_conflicts == ()


def counted(bench: Bench) -> StorageSample | None:
    """The count that the daemon begins after a poll or a plan, where it begins one."""
    return bench.worker.count(bench.table) if bench.worker.is_count_due("orders") else None


def test_no_poll_and_no_plan_waits_for_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count plans a clean of the whole table; it is begun after them, and one that fails only after the next plan."""
    bench, counts = Bench(tmp_path), count(1)

    def fails(*given: object, **named: object) -> None:
        next(counts)
        raise NotFound("A file went while it was counted.")

    monkeypatch.setattr("lakeward.services.clean.job.find_retention", fails)
    monkeypatch.setattr("lakeward.services.clean.job.CleanChoice", None)
    bench.plan()
    bench.worker.poll(bench.table)
    assert next(counts) == 1, "a plan or a poll counted"
    assert bench.worker.is_count_due("orders") and counted(bench) is None
    bench.serving.clock.sleep(3600)
    bench.worker.poll(bench.table)
    assert not bench.worker.is_count_due("orders"), "a poll that finds no change counts nothing"
    bench.plan()
    assert bench.worker.is_count_due("orders")


def test_what_holds_the_storage_is_counted_now_and_then(tmp_path: Path) -> None:
    """Keeps 4 of daemon/work/worker: with the first plan, then no sooner than a minute later; a change that came
    too early is counted by a poll once it is time, and without a change nothing is."""
    bench = Bench(tmp_path)
    bench.plan()
    first = counted(bench)
    assert first is not None and first.bytes["live"] > 0 and first.total == first.bytes["live"]
    assert bench.worker.caches.of("orders").storage == first

    HudiWrite(bench.path, bench.serving.clock).inflight().complete()
    bench.plan()
    assert counted(bench) is None, "it was counted just now"
    bench.worker.poll(bench.table)
    assert counted(bench) is None
    bench.serving.clock.sleep(3600)
    bench.worker.poll(bench.table)
    second = counted(bench)
    assert second is not None and second.at > first.at + 3000
    bench.serving.clock.sleep(3600)
    bench.worker.poll(bench.table)
    assert counted(bench) is None


def consumers_of(bench: Bench) -> Any:
    return bench.worker.caches.of("orders").memory(JobKind.CLEAN).consumers


def test_a_count_says_how_far_consumers_are_behind(tmp_path: Path) -> None:
    """It names each consumer of the configuration; a watermark that cannot be read is reported as not known."""
    read = tmp_path / "read"
    bench = Bench(tmp_path, settings={"defaults.clean.consumers": f'{{daily = "file:{read}"}}'})
    bench.plan()
    assert consumers_of(bench) is None and counted(bench) is not None
    assert [(each.consumer, each.seconds_behind) for each in consumers_of(bench)] == [("daily", None)]

    timeline = bench.serving.watcher.snapshot("orders").timeline
    read.write_text(timeline.completed_writes[-1].time)
    HudiWrite(bench.path, bench.serving.clock).inflight().complete()
    bench.serving.clock.sleep(3600)
    bench.plan()
    assert counted(bench) is not None
    (hold,) = consumers_of(bench)
    assert hold.seconds_behind is not None and hold.seconds_behind > 0
