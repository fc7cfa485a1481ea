"""Rules of the scheduler, one test each. `test_scheduler_by_chance.py` holds its invariants under random events."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from lakeward.config.choices import ForeignServices
from lakeward.config.window import Window
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.events import (
    Cancel,
    CancelRequested,
    FactKind,
    ForeignServiceSeen,
    JobEnded,
    JobSized,
    LeaseEnded,
    LeaseGained,
    LimitsChanged,
    Parked,
    Paused,
    Plan,
    Planned,
    Poll,
    Polled,
    Record,
    Resumed,
    Run,
    ScheduleChanged,
    Stopping,
    TableAdded,
    TableRemoved,
    Tick,
)
from lakeward.daemon.scheduling.pauses import Control, ControlTarget, ControlTargetKind
from lakeward.daemon.scheduling.schedule import Limits, Schedule
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.service import ServiceDemand
from lakeward.services.services import ROUND
from tests.daemon.stage import COMPACTION_ONLY, START, WORK, Stage, jobs, of, one, records

GROUP = ("p=1", "file-1")
FAILED = WorkProblem(ProblemKind.FAILED, "It broke.")


def pause(table: str = "a", *, until: float | None = None) -> Paused:
    return Paused(Control("1", ControlTarget(ControlTargetKind.TABLE, table), "maintenance", "ann", until))


def cancel(table: str = "a", *, until: float | None = None) -> CancelRequested:
    return CancelRequested(Control("2", ControlTarget(ControlTargetKind.TABLE, table), "wrong time", "ann", until))


def foreign(table: str, instant: str, action: str = "compaction") -> ForeignServiceSeen:
    return ForeignServiceSeen(table, instant, action, by="another engine", at=START)


# ---- from a lease to a job


def test_waits_for_lease():
    """Without a lease a table is not scanned, and says who has it."""
    stage = Stage()
    stage.add("a", leased=False)
    stage.say(LeaseEnded("a", "Daemon b-2 holds its lease."))

    assert stage.wait(100) == []
    assert stage.state("a") is TableState.WAITING
    assert stage.view("a").reason == "Daemon b-2 holds its lease."


def test_recovery_comes_first():
    """Keeps 4 of daemon/scheduling/scheduler. The first job after a lease was gained is a recovery, and only after it
    the table is planned."""
    stage = Stage()
    stage.add("a")

    assert jobs(stage.last) == [("a", JobKind.RECOVERY)]
    recovery = one(Run, stage.last).job
    stage.polled("a")
    assert of(Plan, stage.last) == []
    assert stage.state("a") is TableState.RECOVERING

    stage.end(recovery)
    stage.polled("a", changed=False)
    assert one(Plan, stage.last).table == "a"


def test_no_plan_while_recovery_waits():
    """A table whose recovery waits for a slot is polled and not planned."""
    stage = Stage(Limits(jobs_max=1))
    stage.add("a", "b")

    stage.polled("b")

    assert of(Plan, stage.last) == []
    assert stage.view("b").reason == "Its recovery waits because 1 of 1 jobs are running."


def test_first_polls_are_spread():
    """Tables whose leases come together are polled anywhere within the first interval."""
    stage = Stage(Limits(jobs_max=100))
    stage.add(*(f"t{number}" for number in range(100)))

    polls_by_second = [len(of(Poll, stage.wait(1))) for _ in range(10)]

    assert sum(polls_by_second) == 100
    assert max(polls_by_second) <= 25


def test_polls_every_interval():
    """Keeps 1 of daemon/scheduling/scheduler. An unchanged table is polled once an interval and not planned again."""
    stage = Stage()
    stage.recovered("a")
    stage.planned("a", None)

    for _ in range(10):
        before = stage.now
        stage.polled("a", changed=False)
        assert of(Plan, stage.last) == []
        assert stage.now - before == pytest.approx(10, abs=0.001) or before == START


def test_changed_table_is_planned():
    """A poll that says changed brings a plan at once, on what that poll saw."""
    stage = Stage()
    stage.recovered("a")
    stage.planned("a", None)

    stage.polled("a", changed=True)

    assert one(Plan, stage.last).table == "a"
    assert stage.state("a") is TableState.PLANNING


def test_unchanged_table_is_planned_again():
    """Triggers look at the time, so an unchanged table is planned again after `replan`."""
    stage = Stage()
    stage.recovered("a", replan=100.0)
    stage.planned("a", None)
    planned_at = stage.now

    while not of(Plan, stage.last):
        stage.polled("a", changed=False)

    assert planned_at + 100 <= stage.now <= planned_at + 120


@pytest.mark.parametrize("due_by", ["objective", "price"])
def test_planned_when_a_group_falls_due(due_by: str):
    """A table is planned again when its plan says that a file group will be due by the objective, or that a merge will
    pay, and once only."""
    stage = Stage()
    stage.recovered("a", objective=600.0, replan=10_000.0)
    stage.planned("a", Demand(0, oldest_unmerged_at=START, **{f"due_by_{due_by}_at": START + 550}))

    while not of(Plan, stage.last):
        stage.polled("a", changed=False)
    assert START + 550 <= stage.now <= START + 570

    stage.say(Planned("a", one(Plan, stage.last).work_id, Demand(0, oldest_unmerged_at=START)))
    for _ in range(20):
        stage.polled("a", changed=False)
        assert of(Plan, stage.last) == []


def test_planned_when_a_service_falls_due():
    """A table is planned again when its plan says that a service will be due by then, though nothing changes."""
    stage = Stage()
    stage.recovered("a", replan=10_000.0)
    waits = ServiceDemand(False, due_at=stage.now + 60)
    stage.planned("a", Demand(0, services={JobKind.INDEX: waits, JobKind.CLEAN: ServiceDemand(False)}))

    while not of(Plan, stage.last):
        stage.polled("a", changed=False)
    assert waits.due_at <= stage.now <= waits.due_at + 20


def test_demand_runs():
    """A demand with operations becomes a job that says what the plan predicted."""
    stage = Stage()
    stage.recovered("a", memory_bytes=77)

    job = one(Run, stage.planned("a")).job

    assert (job.service, job.operations, job.read_bytes, job.memory_bytes) == (JobKind.COMPACTION, 3, 1000, 77)
    assert stage.state("a") is TableState.RUNNING


def test_demand_without_operations_is_idle():
    """A plan that found nothing leaves the table idle, with that as the reason."""
    stage = Stage()
    stage.recovered("a")

    stage.planned("a", Demand(0))

    assert stage.state("a") is TableState.IDLE
    assert "found nothing to do" in stage.view("a").reason


def test_polls_beside_a_job():
    """While its job runs a table is polled and not planned; when it ends, both at once."""
    stage = Stage()
    stage.recovered("a")
    job = one(Run, stage.planned("a")).job

    stage.polled("a", changed=True)
    assert of(Plan, stage.last) == []

    stage.end(job)
    stage.say(Polled("a", one(Poll, stage.last).work_id, False))
    assert one(Plan, stage.last).table == "a"


def test_scan_across_a_job_is_repeated():
    """A poll that began before a job ended may have seen the table before it, so it is polled again before the plan."""
    stage = Stage()
    stage.recovered("a")
    job = one(Run, stage.planned("a")).job
    old = stage.poll_of("a")
    stage.end(job)

    stage.say(Polled("a", old.work_id, True))

    assert of(Plan, stage.last) == []
    stage.say(Polled("a", one(Poll, stage.last).work_id, False))
    assert one(Plan, stage.last).table == "a"


def test_plan_across_a_job_is_repeated():
    """A plan that was under way while a job began and ended is no demand; the table is polled and planned again."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b")
    first = one(Run, stage.planned("a")).job
    stage.planned("b")
    stage.polled("b")
    old = one(Plan, stage.last)
    second = one(Run, stage.end(first)).job
    stage.end(second)

    answered = stage.say(Planned("b", old.work_id, WORK))

    assert jobs(answered) == []
    assert one(Poll, answered).table == "b"
    assert stage.view("b").demand is None
    stage.polled("b", changed=False)
    assert one(Plan, stage.last).table == "b"


def test_expired_plans_before_compaction():
    """Pending plans that are too old are unscheduled before anything is compacted, and tried once per compaction."""
    stage = Stage()
    stage.recovered("a")
    demand = Demand(1, expired_plans=("t1",))

    expiry = one(Run, stage.planned("a", demand)).job
    assert (expiry.service, expiry.expired_plans) == (JobKind.PLAN_EXPIRY, ("t1",))

    stage.end(expiry, result=JobResult.NOTHING)
    assert jobs(stage.planned("a", demand)) == [("a", JobKind.COMPACTION)]


METADATA_DUE = {JobKind.METADATA_CLEAN: ServiceDemand(False), JobKind.METADATA_COMPACTION: ServiceDemand(True)}
METADATA_NOT_DUE = dict.fromkeys(METADATA_DUE, ServiceDemand(False))
OLD_FILES_TOO = dict.fromkeys(METADATA_DUE, ServiceDemand(True))


def test_the_metadata_table_is_serviced_without_other_work():
    """It is serviced where nothing of the table itself is to be compacted, and outside of windows: its writers wait for
    none."""
    stage = Stage()
    stage.recovered("a", windows=(Window.parse("daily 09:00-10:00"),))

    job = one(Run, stage.planned("a", Demand(0, services=METADATA_DUE))).job

    assert (job.service, job.memory_bytes) == (JobKind.METADATA_COMPACTION, Schedule().memory_bytes)
    stage.end(job, result=JobResult.COMMITTED)
    stage.planned("a", Demand(0, services=METADATA_NOT_DUE))
    assert stage.state("a") is TableState.IDLE


def test_the_metadata_table_comes_before_a_compaction():
    """Whose commit would be one more in it."""
    stage = Stage()
    stage.recovered("a")
    demand = replace(WORK, services=METADATA_DUE)
    job = one(Run, stage.planned("a", demand)).job
    assert job.service is JobKind.METADATA_COMPACTION
    stage.end(job, result=JobResult.COMMITTED)
    assert jobs(stage.planned("a", WORK)) == [("a", JobKind.COMPACTION)]


def test_the_metadata_table_is_cleaned_before_it_is_compacted():
    """It is cleaned once a round, by a job of its own that takes no memory permit, whether it found something or not;
    the round is over when a plan says that nothing is due."""
    stage = Stage()
    stage.recovered("a")
    for round_ in range(2):
        clean = one(Run, stage.planned("a", Demand(0, services=OLD_FILES_TOO))).job
        assert (clean.service, clean.memory_bytes) == (JobKind.METADATA_CLEAN, 0), round_
        stage.end(clean, result=JobResult.COMMITTED if round_ else JobResult.NOTHING)
        compaction = one(Run, stage.planned("a", Demand(0, services=OLD_FILES_TOO))).job
        assert compaction.service is JobKind.METADATA_COMPACTION
        stage.end(compaction)
        stage.planned("a", Demand(0, services=METADATA_NOT_DUE))
        assert stage.state("a") is TableState.IDLE
        stage.polled("a", changed=True)


def test_a_clean_that_cannot_be_done_keeps_no_compaction_waiting():
    """Each of the two services of the metadata table is tried again on its own."""
    stage = Stage()
    stage.recovered("a")
    clean = one(Run, stage.planned("a", Demand(0, services=OLD_FILES_TOO))).job
    stage.end(clean, WorkProblem(ProblemKind.TEMPORARY, "A clean is under way."), result=JobResult.NOTHING)
    assert jobs(stage.planned("a", Demand(0, services=OLD_FILES_TOO))) == [("a", JobKind.METADATA_COMPACTION)]


def test_what_prevents_the_metadata_table_holds_nothing_else_up():
    """The table is compacted meanwhile; the metadata table is tried again, after a pause that grows."""
    stage = Stage()
    stage.recovered("a", retry_first=30.0, retry_max=1000.0)
    left = WorkProblem(ProblemKind.TEMPORARY, "A rollback is under way.")
    busy, quiet = replace(WORK, services=METADATA_DUE), Demand(0, services=METADATA_DUE)

    job = one(Run, stage.planned("a", busy)).job
    assert job.service is JobKind.METADATA_COMPACTION
    stage.end(job, left, result=JobResult.NOTHING)
    compaction = one(Run, stage.planned("a", busy)).job
    assert compaction.service is JobKind.COMPACTION
    stage.end(compaction)
    stage.planned("a", quiet)
    assert stage.state("a") is TableState.IDLE and stage.view("a").failures == 0

    ended, pauses = stage.now, []
    for _ in range(4):
        while not (runs := of(Run, stage.wait(1))):
            assert stage.now < ended + 2000, "it is tried again, though nothing changes"
        assert runs[0].job.service is JobKind.METADATA_COMPACTION
        pauses.append(stage.now - ended)
        stage.end(runs[0].job, left, result=JobResult.NOTHING)
        ended = stage.now
        stage.planned("a", quiet)
    assert pauses[0] <= 60 < pauses[-1], "by the schedule's retry_first"
    assert stage.view("a").failures == 0


def test_verification_gives_way_and_comes():
    """A verification is due every interval, gives way to compaction, and on a busy table comes an interval late."""
    stage = Stage()
    stage.recovered("a", services=frozenset(JobKind), verification_interval=1000.0)
    done, begun_at = [one(Run, stage.planned("a")).job], [stage.now]
    while stage.now < START + 5000:
        stage.wait(90)
        runs = of(Run, stage.end(done[-1])) or of(Run, stage.planned("a"))
        done.append(one(Run, runs).job)
        begun_at.append(stage.now)

    verified_at = [at for job, at in zip(done, begun_at, strict=True) if job.service is JobKind.VERIFICATION]
    assert 2 <= len(verified_at) <= 3
    assert all(1000 <= later - earlier <= 2300 for earlier, later in pairwise(verified_at))


def test_verification_when_idle():
    """An idle table is verified when it is due, counted from the last verification that the store knows."""
    stage = Stage()
    schedule = Schedule(services=frozenset(JobKind), verification_interval=1000.0)
    stage.say(TableAdded("a", schedule, verified_at=START - 900), LeaseGained("a"))
    stage.end(one(Run, stage.last).job)
    stage.planned("a", None)

    assert jobs(stage.wait(START + 99 - stage.now)) == []
    assert jobs(stage.wait(1)) == [("a", JobKind.VERIFICATION)]


# ---- admission


def test_jobs_max():
    """Keeps 2 of daemon/scheduling/scheduler. No more jobs run than allowed; the next one begins when one ends."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b")
    job = one(Run, stage.planned("a")).job

    assert jobs(stage.planned("b")) == []
    assert stage.state("b") is TableState.QUEUED
    assert stage.view("b").reason == "Its compaction waits because 1 of 1 jobs are running."

    assert ("b", JobKind.COMPACTION) in jobs(stage.end(job))


def test_earliest_deadline_first():
    """The table goes first whose oldest unmerged record breaches its objective first."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b", "c")
    job = one(Run, stage.planned("a")).job
    stage.planned("b", Demand(1, benefit=9.0, oldest_unmerged_at=START + 20))
    stage.planned("c", Demand(1, oldest_unmerged_at=START + 10))

    assert jobs(stage.end(job)) == [("c", JobKind.COMPACTION)]


def test_raised_limits_admit_at_once():
    """Limits change at any time, and what they let in begins at once."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b")
    stage.planned("a")
    stage.planned("b")

    assert jobs(stage.say(LimitsChanged(Limits(jobs_max=2)))) == [("b", JobKind.COMPACTION)]


def test_budget_lets_in_by_time():
    """A job that waits for the bytes-per-hour budget begins when it has filled, without another event."""
    stage = Stage(Limits(io_per_hour=3600))
    stage.recovered("a", "b")
    stage.planned("a", Demand(1, read_bytes=3000, write_bytes=600))
    stage.planned("b", Demand(1, read_bytes=1800))
    assert "has left at" in stage.view("b").reason

    assert jobs(stage.wait(1700)) == []
    assert jobs(stage.wait(100)) == [("b", JobKind.COMPACTION)]


def test_window():
    """Data jobs begin inside a window only, a breached objective opens none, and the reason says both."""
    stage = Stage()
    stage.recovered("a", objective=60.0, windows=(Window.parse("daily 09:00-10:00"),))

    assert jobs(stage.planned("a")) == []
    stage.wait(100)
    assert "waits for a window, which opens at 2027-01-15 09:00:00 UTC" in stage.view("a").reason
    assert "windows come first" in stage.view("a").reason
    assert stage.view("a").next_action_at == START + 3600

    begun = stage.wait(3600)
    assert jobs(begun) == [("a", JobKind.COMPACTION)]


def test_window_that_closes():
    """What waits when the window closes waits for the next one."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a")
    stage.recovered("b", windows=(Window.parse("daily 07:00-09:00"),))
    job = one(Run, stage.planned("a")).job
    stage.planned("b")
    stage.wait(3600)

    assert jobs(stage.end(job)) == []
    assert stage.view("b").next_action_at == START + 23 * 3600


def test_plans_take_turns():
    """No more plans are under way than allowed; the others are polled meanwhile and keep their turn."""
    stage = Stage(Limits(jobs_max=9, plans_max=1))
    stage.recovered("a", "b", "c")
    stage.polled("a")
    plan = one(Plan, stage.last)
    stage.polled("b")
    stage.polled("c")
    stage.polled("b", changed=False)
    assert of(Plan, stage.last) == []
    assert "turn to be planned" in stage.view("b").reason

    assert one(Plan, stage.say(Planned("a", plan.work_id, None))).table == "b"


def test_slow_polls_do_not_keep_a_plan_away():
    """A table whose polls take longer than the interval is planned between two of them."""
    stage = Stage()
    stage.recovered("a")
    poll = stage.poll_of("a")
    stage.wait(30, answering=False)

    stage.say(Polled("a", poll.work_id, True))

    assert one(Plan, stage.last).table == "a"


# ---- failures


def test_temporary_problem_backs_off_for_ever():
    """A temporary problem is tried again after a growing while, and never counts for the circuit breaker."""
    stage = Stage()
    stage.recovered("a", retry_first=10.0, retry_max=100.0)
    job = one(Run, stage.planned("a")).job
    waits = []
    for _ in range(12):
        stage.end(job, WorkProblem(ProblemKind.TEMPORARY, "The lock is held."))
        waits.append(stage.held_until("a") - stage.now)
        job = one(Run, stage.wait(waits[-1] + 0.001)).job

    assert 5 <= waits[0] <= 10
    assert all(50 <= wait <= 100 for wait in waits[4:])
    assert len(set(waits[4:])) > 1, "jitter"
    assert stage.view("a").failures == 0


def test_scans_go_on_while_backing_off():
    """A table that backs off is polled and planned, so that its page stays true."""
    stage = Stage()
    stage.recovered("a")
    stage.end(one(Run, stage.planned("a")).job, FAILED)

    stage.planned("a")

    assert stage.state("a") is TableState.BACKING_OFF
    assert stage.view("a").demand == WORK


def test_circuit_breaker():
    """After `failures_max` failures in a row a table is parked; then it gets one try, and a failure parks it again."""
    stage = Stage()
    stage.recovered("a", failures_max=3, retry_first=1.0, retry_max=1.0, parked_for=5000.0)
    job = one(Run, stage.planned("a")).job
    for _ in range(2):
        stage.end(job, FAILED)
        job = one(Run, stage.wait(1)).job
    parked = stage.end(job, FAILED)
    assert FactKind.PARKED in records(parked)
    assert one(Record, parked).until == stage.now + 5000
    assert stage.state("a") is TableState.PARKED
    assert "3 failures in a row; the last: It broke." in stage.view("a").reason

    tried = stage.wait(5000)
    assert jobs(tried) == [("a", JobKind.COMPACTION)]
    assert FactKind.UNPARKED in records(tried)

    stage.end(one(Run, tried).job, FAILED)
    assert stage.state("a") is TableState.PARKED


def test_success_resets_the_breaker():
    """Failures count in a row only."""
    stage = Stage()
    stage.recovered("a", failures_max=2, retry_first=1.0, retry_max=1.0)
    for problems in ((FAILED,), (), (FAILED,), ()):
        stage.planned("a")
        if not jobs(stage.last):
            stage.wait(1)
        stage.end(one(Run, stage.last).job, *problems)
        assert stage.state("a") is not TableState.PARKED


def test_parked_group_is_excluded():
    """Keeps 3 of daemon/scheduling/scheduler. A problem that names a file group counts for it: it is parked, jobs leave
    it alone, and the table goes on."""
    stage = Stage()
    stage.recovered("a", failures_max=2, retry_first=1.0, retry_max=1.0, parked_for=1000.0)
    problem = WorkProblem(ProblemKind.FAILED, "Its base file is torn.", GROUP)
    job = one(Run, stage.planned("a")).job
    for _ in range(2):
        assert job.excluded == {}
        ended = stage.end(job, problem)
        planned = stage.planned("a")
        job = one(Run, planned + stage.wait(1)).job

    assert records(ended) == [FactKind.PARKED]
    assert one(Record, ended).file_group == GROUP
    assert job.excluded == {GROUP: Reason.PARKED}
    assert stage.view("a").failures == 0
    assert stage.view("a").parked_groups[0].reason == "2 failures in a row; the last: Its base file is torn."

    over = stage.wait(1000)
    assert FactKind.UNPARKED in records(over)
    assert stage.view("a").parked_groups == ()


def test_group_failures_count_in_a_row():
    """A job that went well forgets what its file groups did before."""
    stage = Stage()
    stage.recovered("a", failures_max=2, retry_first=1.0, retry_max=1.0)
    job = one(Run, stage.planned("a")).job
    for problems in (
        (WorkProblem(ProblemKind.FAILED, "Torn.", GROUP),),
        (),
        (WorkProblem(ProblemKind.FAILED, "Torn.", GROUP),),
    ):
        stage.end(job, *problems)
        job = one(Run, of(Run, stage.planned("a")) or of(Run, stage.wait(1))).job
        assert stage.view("a").parked_groups == ()


def test_failed_verification_parks_at_once():
    """A group whose verification failed is parked by the first failure; without a group, the table is."""
    stage = Stage()
    stage.recovered("a", "b")

    stage.end(one(Run, stage.planned("a")).job, WorkProblem(ProblemKind.VERIFICATION, "Rows differ.", GROUP))
    stage.end(one(Run, stage.planned("b")).job, WorkProblem(ProblemKind.VERIFICATION, "Rows differ."))

    assert stage.view("a").parked_groups[0].file_group == GROUP
    assert stage.state("a") is not TableState.PARKED
    assert stage.state("b") is TableState.PARKED


def test_a_group_that_cannot_be_merged_is_parked_at_once():
    """What this release does not merge it does not merge next time either: the table goes on without the group."""
    stage = Stage()
    stage.recovered("a", retry_first=10.0)

    stage.end(one(Run, stage.planned("a")).job, WorkProblem(ProblemKind.REFUSED, "A log cannot be merged.", GROUP))

    assert stage.view("a").parked_groups[0].file_group == GROUP
    assert stage.state("a") is TableState.BACKING_OFF
    stage.planned("a")
    assert one(Run, stage.wait(20)).job.excluded == {GROUP: Reason.PARKED}


def test_group_left_out_of_a_commit_is_counted():
    """A job that committed the rest still counts against the groups that it had to leave out."""
    stage = Stage()
    stage.recovered("a", failures_max=1)
    problem = WorkProblem(ProblemKind.FAILED, "Torn.", GROUP)

    stage.end(one(Run, stage.planned("a")).job, problem, result=JobResult.COMMITTED)

    assert stage.view("a").parked_groups[0].file_group == GROUP
    assert one(Run, stage.planned("a")).job.excluded == {GROUP: Reason.PARKED}


@pytest.mark.parametrize("kind", [ProblemKind.CANCELLED, ProblemKind.LOST])
def test_lost_work_is_no_failure(kind):
    """What was cancelled or lost counts for nothing and waits a first back-off only."""
    stage = Stage()
    stage.recovered("a", failures_max=1)

    for _ in range(3):
        stage.end(one(Run, stage.planned("a") + stage.wait(30)).job, WorkProblem(kind, "It was lost."))
        assert stage.state("a") is TableState.BACKING_OFF
        assert stage.view("a").failures == 0


def test_jobs_that_find_nothing_back_off():
    """Plan and job disagree about whether there is work: the second time brings a back-off."""
    stage = Stage()
    stage.recovered("a")
    stage.end(one(Run, stage.planned("a")).job, result=JobResult.NOTHING)
    stage.end(one(Run, stage.planned("a")).job, result=JobResult.NOTHING)

    assert jobs(stage.planned("a")) == []
    assert stage.state("a") is TableState.BACKING_OFF


def test_refused_plan():
    """A refused table is polled, planned for again after `retry_max`, at once when it changed, and recorded once."""
    stage = Stage()
    stage.recovered("a", retry_max=1000.0)
    stage.polled("a")
    refused = stage.fail_scan(one(Plan, stage.last), ProblemKind.REFUSED, "Table version 6.")
    assert records(refused) == [FactKind.REFUSED]
    assert stage.view("a").reason == "Refused: Table version 6."

    for _ in range(20):
        stage.polled("a", changed=False)
        assert of(Plan, stage.last) == []
    stage.polled("a", changed=True)
    again = stage.fail_scan(one(Plan, stage.last), ProblemKind.REFUSED, "Table version 6.")
    assert records(again) == []

    refused_at = stage.now
    while not of(Plan, stage.last):
        stage.polled("a", changed=False)
    assert refused_at + 1000 <= stage.now <= refused_at + 1020
    stage.say(Planned("a", one(Plan, stage.last).work_id, None))
    assert stage.state("a") is TableState.IDLE


def test_refused_job():
    """A job that was refused waits `retry_max`, and less when the timeline changed."""
    stage = Stage()
    stage.recovered("a", retry_first=40.0, retry_max=1000.0)
    stage.end(one(Run, stage.planned("a")).job, WorkProblem(ProblemKind.REFUSED, "A log cannot be merged."))
    refused_at = stage.now
    stage.polled("a", changed=False)
    stage.say(Planned("a", one(Plan, stage.last).work_id, WORK))
    assert stage.state("a") is TableState.REFUSED
    assert stage.held_until("a") == refused_at + 1000

    stage.planned("a")
    assert stage.held_until("a") <= refused_at + 40
    assert jobs(stage.wait(40)) == [("a", JobKind.COMPACTION)]


def test_a_job_that_is_refused_holds_its_own_service():
    """The others go on, it is recorded once, and shown until a job of it runs again; soon after the timeline
    changed it gets one. A recovery that is refused holds the table."""
    stage = Stage()
    stage.recovered("a", retry_first=200.0, retry_max=1000.0, services=frozenset(ROUND))
    refused, clean = WorkProblem(ProblemKind.REFUSED, "The disk is full."), ServiceDemand(is_due=True, why="Files.")
    both = replace(WORK, services={JobKind.CLEAN: clean})
    assert records(stage.end(one(Run, stage.planned("a", both)).job, refused)) == [FactKind.REFUSED]
    for _ in range(2):
        (cleaned,) = of(Run, stage.planned("a", both))
        assert cleaned.job.service is JobKind.CLEAN
        stage.end(cleaned.job)
    assert jobs(stage.planned("a", WORK)) == [] and stage.state("a") is TableState.IDLE
    assert stage.view("a").refused == {JobKind.COMPACTION: "The disk is full."}
    assert stage.view("a").reason.endswith("found nothing else to do. Refused, compaction: The disk is full.")

    assert jobs(stage.wait(220)) == [("a", JobKind.COMPACTION)]
    stage.end(one(Run, stage.last).job)
    assert stage.view("a").refused == {}

    stage.add("b", services=frozenset(ROUND))
    stage.end(one(Run, stage.last).job, refused)
    assert stage.state("b") is TableState.REFUSED and stage.view("b").refused == {}


def test_an_expiry_that_is_refused_keeps_no_compaction_waiting():
    """The expiry does not begin again with each plan."""
    stage = Stage()
    stage.recovered("a")
    old = replace(WORK, expired_plans=("20260101000000000",))
    (expiry,) = of(Run, stage.planned("a", old))
    assert expiry.job.service is JobKind.PLAN_EXPIRY
    stage.end(expiry.job, WorkProblem(ProblemKind.REFUSED, "It is another engine's."))
    assert jobs(stage.planned("a", old)) == [("a", JobKind.COMPACTION)]


def test_failed_polls_go_on_for_ever():
    """Keeps 1 of daemon/scheduling/scheduler. A poll that fails is repeated with back-off and the table stays; one that
    succeeds ends the trouble."""
    stage = Stage()
    stage.recovered("a", retry_first=10.0, retry_max=100.0)
    for _ in range(20):
        stage.fail_scan(stage.poll_of("a", within=101), ProblemKind.FAILED, "Permission denied.")
        assert stage.state("a") is TableState.BACKING_OFF
    assert stage.view("a").scan_overdue

    stage.polled("a")
    stage.say(Planned("a", one(Plan, stage.last).work_id, None))
    assert stage.state("a") is TableState.IDLE
    assert not stage.view("a").scan_overdue


# ---- deadlines


def test_stuck_poll():
    """Keeps 5 of daemon/scheduling/scheduler. A poll without a result is cancelled and recorded at its deadline; its
    late result changes nothing."""
    stage = Stage()
    stage.recovered("a")
    poll = stage.poll_of("a")

    stuck = stage.wait(60, answering=False)
    assert one(Cancel, stuck).work_id == poll.work_id
    assert records(stuck) == [FactKind.STUCK]
    assert stage.state("a") is TableState.BACKING_OFF

    view = stage.view("a")
    assert stage.say(Polled("a", poll.work_id, True)) == []
    assert stage.view("a") == view
    assert stage.poll_of("a").work_id != poll.work_id


def test_stuck_plan_frees_its_turn():
    """A plan without a result gives its turn to the next table."""
    stage = Stage(Limits(jobs_max=9, plans_max=1))
    stage.recovered("a", "b", plan_deadline=50.0)
    stage.polled("a")
    stuck = one(Plan, stage.last)
    stage.polled("b")
    assert of(Plan, stage.last) == []

    over = stage.wait(60, answering=False)
    assert stuck.work_id in [cancelled.work_id for cancelled in of(Cancel, over)]
    stage.planned("b")
    assert stage.view("b").planned_at == stage.now


def test_stuck_job_keeps_its_place():
    """A job without a result is cancelled and recorded once, and keeps slot and table until it ends."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b", job_deadline=100.0, retry_first=1000.0)
    job = one(Run, stage.planned("a")).job
    stage.planned("b")

    over = stage.wait(500)
    assert one(Cancel, over).work_id == job.id
    assert records(over) == [FactKind.STUCK]
    assert jobs(over) == []
    assert stage.view("a").running[0].stuck
    assert "keeps its place until it answers" in stage.view("a").reason

    answered = stage.end(job, WorkProblem(ProblemKind.CANCELLED, "Cancelled."))
    assert jobs(answered) == [("b", JobKind.COMPACTION)]
    assert stage.view("a").failures == 1, "to be stuck is a failure, even when an operator cancelled"


@pytest.mark.parametrize(
    ("read_bytes", "stuck_after"),
    [(10 * 1000**2, 1802), (20 * 1000**3, 1801 + 2385), (2 * 1000**4, 1801 + 238419)],
    ids=["10 MB", "20 GB", "2 TB"],
)
def test_a_deadline_follows_what_a_job_reads(read_bytes, stuck_after):
    """Half an hour, and a second for each 8 MiB: 10 MB are called stuck long before 2 TB may be."""
    stage = Stage()
    stage.recovered("a")
    job = one(Run, stage.planned("a", replace(WORK, read_bytes=read_bytes))).job
    assert job.deadline == stage.view("a").running[0].deadline == stage.now + 1800 + read_bytes / (8 * 1024**2)

    assert not stage.view("a").running[0].stuck
    stage.wait(stuck_after - 3)
    assert not stage.view("a").running[0].stuck
    stage.wait(3)
    assert stage.view("a").running[0].stuck


def test_a_job_of_unknown_size_has_longer_until_it_says_what_it_reads():
    """A recovery carries out what others planned. What it finds lengthens its deadline, and shortens it never; a job
    that was stopped is given no more time."""
    stage = Stage()
    stage.add("a")
    running = stage.view("a").running[0]
    assert running.service is JobKind.RECOVERY and running.deadline == stage.now + 4 * 1800

    stage.say(JobSized(running.id, 1))
    assert stage.view("a").running[0].deadline == running.deadline
    stage.say(JobSized(running.id, 80 * 1024**3))
    assert stage.view("a").running[0].deadline == running.started_at + 1800 + 10 * 1024
    assert records(stage.wait(1800 + 10 * 1024 - 1)) == []
    assert records(stage.wait(1)) == [FactKind.STUCK]

    stage.say(JobSized(running.id, 2 * 1000**4))
    assert stage.view("a").running[0].stuck and stage.view("a").running[0].deadline < stage.now + 1


def test_results_are_heard_before_deadlines():
    """Keeps 8 of daemon/scheduling/scheduler. A process that was stopped past the deadlines hears all results of a
    table before a Tick judges any of them."""
    stage = Stage()
    stage.recovered("a")
    job = one(Run, stage.planned("a")).job
    poll = stage.poll_of("a")
    stage.now += 3 * 3600

    answered = stage.say(JobEnded(job.id, JobReport(JobResult.COMMITTED)), Polled("a", poll.work_id, True), Tick())

    assert records(answered) == []
    assert of(Cancel, answered) == []
    assert stage.view("a").scanned_at == stage.now
    assert stage.state("a") is not TableState.BACKING_OFF


def test_clock_set_back():
    """A clock that is set back by hours stops nothing."""
    stage = Stage()
    stage.recovered("a")
    stage.planned("a", None)
    stage.now -= 7200

    stage.wait(0)
    stage.polled("a", changed=False)

    assert stage.now <= START - 7200 + 100


# ---- an operator's word


def test_pause_and_resume():
    """A paused table is scanned and not run, until it is resumed."""
    stage = Stage()
    stage.recovered("a")
    stage.say(pause())

    assert jobs(stage.planned("a")) == []
    assert stage.state("a") is TableState.PAUSED
    assert stage.view("a").reason == "Paused by ann until it is resumed: maintenance"

    assert jobs(stage.say(Resumed(ControlTarget(ControlTargetKind.TABLE, "a")))) == [("a", JobKind.COMPACTION)]


def test_pause_expires():
    """A pause ends by itself at its time, and that is recorded."""
    stage = Stage()
    stage.recovered("a")
    stage.say(pause(until=stage.now + 50))
    stage.planned("a")

    over = stage.wait(50)

    assert jobs(over) == [("a", JobKind.COMPACTION)]
    assert FactKind.PAUSE_ENDED in records(over)


def test_pause_lets_a_job_finish():
    """A pause does not stop a running job, and says so; a cancel does."""
    stage = Stage()
    stage.recovered("a")
    job = one(Run, stage.planned("a")).job

    assert of(Cancel, stage.say(pause())) == []
    assert "It is let finish" in stage.view("a").reason

    assert one(Cancel, stage.say(cancel())).work_id == job.id
    stage.end(job, WorkProblem(ProblemKind.CANCELLED, "Cancelled."))
    assert stage.state("a") is TableState.PAUSED


def test_a_cancelled_job_does_not_begin_again_at_once():
    """A job that was cancelled is not begun again at once, and with `until` not before it."""
    stage = Stage()
    stage.recovered("a", "b", retry_first=30.0)
    first, second = (one(Run, stage.planned(name)).job for name in ("a", "b"))
    stage.say(cancel("a"), cancel("b", until=stage.now + 500))
    stage.end(first, WorkProblem(ProblemKind.CANCELLED, "Cancelled."))
    stage.end(second, WorkProblem(ProblemKind.CANCELLED, "Cancelled."))
    assert jobs(stage.planned("a") + stage.planned("b")) == []

    assert jobs(stage.wait(30)) == [("a", JobKind.COMPACTION)]
    assert jobs(stage.wait(440)) == []
    assert jobs(stage.wait(60)) == [("b", JobKind.COMPACTION)]


def test_cancel_of_a_queued_table():
    """To cancel a table that waits in the queue puts it off."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b")
    job = one(Run, stage.planned("a")).job
    stage.planned("b")

    stage.say(cancel("b"))

    assert jobs(stage.end(job)) == []
    assert stage.state("b") is TableState.BACKING_OFF


def test_pause_of_a_group_of_tables():
    """A pause of a group holds all its tables, also one that is added later, and no other."""
    stage = Stage(Limits(jobs_max=9))
    stage.recovered("a", group="etl")
    stage.recovered("b", group="bi")
    stage.say(Paused(Control("1", ControlTarget(ControlTargetKind.GROUP, "etl"), "migration")))
    stage.add("c", group="etl")

    assert jobs(stage.planned("a")) == []
    assert jobs(stage.planned("b")) == [("b", JobKind.COMPACTION)]
    assert stage.state("a") is stage.state("c") is TableState.PAUSED

    assert jobs(stage.say(Resumed(ControlTarget(ControlTargetKind.GROUP, "etl")))) == [
        ("c", JobKind.RECOVERY),
        ("a", JobKind.COMPACTION),
    ]


def test_paused_file_group_is_excluded():
    """Jobs and plans exclude a paused file group until it is resumed."""
    stage = Stage()
    stage.recovered("a")
    target = ControlTarget(ControlTargetKind.FILE_GROUP, "a", GROUP)
    stage.say(Paused(Control("1", target, "under investigation")))

    stage.polled("a")
    plan = one(Plan, stage.last)
    assert plan.excluded == {GROUP: Reason.PAUSED}
    job = one(Run, stage.say(Planned("a", plan.work_id, WORK))).job
    assert job.excluded == {GROUP: Reason.PAUSED}
    assert stage.view("a").paused_groups == (GROUP,)

    stage.say(Resumed(target))
    stage.end(job)
    assert one(Run, stage.planned("a")).job.excluded == {}


def test_resume_unparks():
    """To resume a parked table, or a parked group, is to say that it is dealt with."""
    stage = Stage()
    stage.recovered("a")
    stage.say(Parked("a", "broken", stage.now + 999), Parked("a", "torn", stage.now + 999, GROUP))
    assert jobs(stage.planned("a")) == []
    assert stage.view("a").reason.endswith("broken")

    stage.say(Resumed(ControlTarget(ControlTargetKind.TABLE, "a")))
    assert records(stage.last) == [FactKind.UNPARKED]
    assert one(Run, stage.last).job.excluded == {GROUP: Reason.PARKED}

    stage.say(Resumed(ControlTarget(ControlTargetKind.FILE_GROUP, "a", GROUP)))
    assert one(Record, stage.last).file_group == GROUP
    assert stage.view("a").parked_groups == ()


# ---- shadow mode


def test_foreign_service_brings_shadow():
    """A table that a foreign service compacts is planned and not run; the newest sign is in the reason."""
    stage = Stage()
    stage.recovered("a")

    stage.say(foreign("a", "20270115080000000"))
    assert records(stage.last) == [FactKind.SHADOW]
    assert records(stage.say(foreign("a", "20270115090000000", "logcompaction"))) == []

    assert jobs(stage.planned("a")) == []
    assert stage.state("a") is TableState.SHADOW
    assert "logcompaction 20270115090000000" in stage.view("a").reason
    assert stage.view("a").demand == WORK


def test_resume_ends_shadow_and_remembers():
    """After a resume, signs that were known start no shadow mode again, and a newer one does."""
    stage = Stage()
    stage.recovered("a")
    stage.say(foreign("a", "20270115080000000"))
    stage.planned("a")

    assert jobs(stage.say(Resumed(ControlTarget(ControlTargetKind.TABLE, "a")))) == [("a", JobKind.COMPACTION)]
    assert stage.say(foreign("a", "20270115080000000")) == []
    stage.say(foreign("a", "20270115100000000"))
    assert records(stage.last) == [FactKind.SHADOW]


def test_resume_before_the_table_is_known():
    """A resume that is heard again after a restart counts although the foreign instant is found later."""
    stage = Stage()
    stage.say(Resumed(ControlTarget(ControlTargetKind.TABLE, "a"), foreign_seen_until="20270115080000000"))
    stage.recovered("a")

    assert stage.say(foreign("a", "20270115080000000")) == []


def test_shared_table_runs():
    """A foreign service holds no table back whose configuration says share."""
    stage = Stage()
    stage.recovered("a", foreign_services=ForeignServices.SHARE)
    stage.say(foreign("a", "20270115080000000"))

    assert jobs(stage.planned("a")) == [("a", JobKind.COMPACTION)]


def test_configured_shadow():
    """A table about whose writers nothing is said is planned, with that as the reason; not even recovery runs."""
    stage = Stage()
    stage.add("a", shadow="Nothing says who else writes; set locks.writers.")

    assert jobs(stage.planned("a")) == []
    assert stage.state("a") is TableState.SHADOW
    assert stage.view("a").reason == "Nothing says who else writes; set locks.writers."

    changed = stage.say(ScheduleChanged("a", Schedule(services=COMPACTION_ONLY)))
    assert jobs(changed) == [("a", JobKind.RECOVERY)]


def test_what_went_wrong_hides_behind_no_other_hold():
    """A table that cannot be read says so first, and then what else holds it; the event comes once for a row of
    failures, and again after a success."""
    stage = Stage()
    stage.add("a", shadow="Nothing says who else writes.")
    stage.say(pause())

    assert records(stage.fail_scan(stage.poll_of("a"), ProblemKind.TEMPORARY, "No disk.")) == [FactKind.SCAN_FAILED]
    view = stage.view("a")
    assert [hold.state for hold in view.holds] == [TableState.BACKING_OFF, TableState.PAUSED, TableState.SHADOW]
    assert view.state is TableState.BACKING_OFF and view.holds[1].until is None
    for shown in ("No disk.", "maintenance", "Nothing says who else writes."):
        assert shown in view.reason

    assert records(stage.fail_scan(stage.poll_of("a", within=1000.0), ProblemKind.TEMPORARY, "No disk.")) == []
    stage.planned("a", None)
    assert stage.state("a") is TableState.PAUSED
    assert records(stage.fail_scan(stage.poll_of("a"), ProblemKind.TEMPORARY, "No disk.")) == [FactKind.SCAN_FAILED]


def test_what_cannot_be_read_is_distinguished_from_what_is_refused():
    """A poll or a plan that failed has not read the table, for whatever reason; a plan that is refused has. What comes
    next is a poll, and not the job that the table would need."""
    stage = Stage()
    stage.add("a", "b")
    for name, kind in (("a", ProblemKind.TEMPORARY), ("b", ProblemKind.REFUSED)):
        stage.fail_scan(stage.poll_of(name), kind, "No such folder.")
        for running in stage.view(name).running:
            stage.end(running, WorkProblem(kind, "No such folder."))
        assert stage.view(name).unreadable == "No such folder."
        assert stage.view(name).next_action == "poll"
    stage.recovered("d")
    stage.say(Polled("d", stage.poll_of("d").work_id, True))
    stage.fail_scan(one(Plan, stage.last), ProblemKind.REFUSED, "Table version 6.")
    assert stage.state("d") is TableState.REFUSED and stage.view("d").unreadable == ""

    stage.say(ScheduleChanged("a", Schedule(services=COMPACTION_ONLY, enabled=False)))
    assert stage.view("a").unreadable == "", "it is not polled any more"


def test_a_refused_recovery_is_tried_again_and_not_promised():
    """The next try may be refused as well."""
    stage = Stage()
    stage.add("a")
    (run,) = [each for each in stage.last if isinstance(each, Run)] or [one(Run, stage.wait(60))]
    stage.end(run.job, WorkProblem(ProblemKind.REFUSED, "Its timeline is damaged."))

    view = stage.view("a")
    assert view.state is TableState.REFUSED
    assert (view.next_action, view.next_action_at) == ("next try", view.holds[0].until)


# ---- leases, removal, configuration, the end


def test_lost_lease():
    """A daemon that loses the lease asks the job to stop, waits, and recovers first when it is back."""
    stage = Stage()
    stage.recovered("a")
    job = one(Run, stage.planned("a")).job

    lost = stage.say(LeaseEnded("a", "The lease ran out."))
    assert one(Cancel, lost).work_id == job.id
    assert stage.state("a") is TableState.WAITING
    assert stage.wait(1000) == []

    assert jobs(stage.say(LeaseGained("a"))) == [], "the old job may still be at work"
    stage.end(job, WorkProblem(ProblemKind.LOST, "The lease is lost."))
    assert jobs(stage.wait(30)) == [("a", JobKind.RECOVERY)]


def test_recovery_of_an_older_lease_does_not_count():
    """A recovery that was asked to stop because the lease was lost is repeated, even if it got through."""
    stage = Stage()
    stage.add("a")
    recovery = one(Run, stage.last).job
    stage.say(LeaseEnded("a", "The lease ran out."), LeaseGained("a"))

    assert jobs(stage.end(recovery)) == [("a", JobKind.RECOVERY)]


def test_removed_table():
    """A removed table is gone, its work asked to stop; its job keeps its slot until it answers."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b")
    job = one(Run, stage.planned("a")).job
    stage.planned("b")

    removed = stage.say(TableRemoved("a", "It is not under a root any more."))
    assert job.id in [cancelled.work_id for cancelled in of(Cancel, removed)]
    assert "a" not in stage.scheduler.outlooks()
    assert jobs(stage.wait(5)) == []

    assert jobs(stage.end(job, WorkProblem(ProblemKind.CANCELLED, "Cancelled."))) == [("b", JobKind.COMPACTION)]


def test_table_added_again_waits_for_its_old_job():
    """A table that comes back while its job has not answered begins no second one."""
    stage = Stage()
    stage.recovered("a")
    job = one(Run, stage.planned("a")).job
    stage.say(TableRemoved("a", "gone"))

    stage.add("a")
    assert jobs(stage.last) == []

    assert jobs(stage.end(job, WorkProblem(ProblemKind.CANCELLED, "Cancelled.")) + stage.wait(30)) == [
        ("a", JobKind.RECOVERY)
    ]


def test_disabled_table():
    """A disabled table is neither polled nor serviced; enabled again, both."""
    stage = Stage()
    stage.recovered("a")
    stage.planned("a", None)
    stage.say(ScheduleChanged("a", Schedule(enabled=False)))
    assert stage.state("a") is TableState.DISABLED
    assert stage.wait(1000) == []

    stage.say(ScheduleChanged("a", Schedule()))
    assert not stage.view("a").scan_overdue
    assert of(Poll, stage.last) != []


def test_stopping():
    """Keeps 6 of daemon/scheduling/scheduler. After Stopping nothing new begins, running jobs go on, and they may be
    cancelled."""
    stage = Stage(Limits(jobs_max=1))
    stage.recovered("a", "b")
    job = one(Run, stage.planned("a")).job
    stage.planned("b")

    assert stage.say(Stopping()) == []
    out = stage.wait(100)
    assert of(Run, out) == of(Poll, out) == of(Plan, out) == []
    assert one(Cancel, stage.say(cancel("a"))).work_id == job.id
    assert of(Run, stage.end(job)) == []
    assert "stopping" in stage.view("b").reason


def test_unknown_results_change_nothing():
    """Answers for what is not under way are ignored."""
    stage = Stage()
    stage.recovered("a")
    before = stage.view("a")

    assert stage.say(Polled("a", "x", True), Planned("a", "x", WORK), Polled("z", "x", True)) == []
    assert stage.say(JobEnded("x", JobReport(JobResult.COMMITTED)), LeaseGained("z"), LeaseEnded("z", "")) == []
    assert stage.view("a") == before
