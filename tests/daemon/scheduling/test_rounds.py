"""Which service of a table comes when: a round of rollback, compaction and clean, and what fails alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from lakeward.config.window import Window
from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.events import FactKind, LeaseEnded, LeaseGained, Run, TableAdded
from lakeward.daemon.scheduling.schedule import Limits, Schedule
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult, ProblemKind, WorkProblem
from lakeward.services.service import ServiceDemand
from lakeward.services.services import ROUND
from tests.daemon.stage import WORK, Stage, jobs, of, one, records

DUE = ServiceDemand(True, "There is something to do.")
ALL = replace(WORK, services={JobKind.ROLLBACK: DUE, JobKind.INDEX: DUE, JobKind.CLEAN: DUE, JobKind.ARCHIVE: DUE})
CLEAN = Demand(0, services={JobKind.CLEAN: DUE})
NIGHT = (Window.parse("daily 22:00-23:00"),)


def ready(**settings: object) -> Stage:
    """With a table that gets all services, and is recovered."""
    stage = Stage()
    stage.recovered("a", **{"services": frozenset(ROUND), **settings})
    return stage


def run(stage: Stage, demand: Demand, result: JobResult = JobResult.COMMITTED) -> JobKind:
    """The job that the demand brings, which is done at once."""
    job = one(Run, stage.planned("a", demand)).job
    stage.end(job, result=result)
    return job.service


def test_a_round_is_rolled_back_compacted_its_indexes_checked_cleaned_and_archived() -> None:
    """In this order; one job at a time, each after a plan of its own."""
    stage = ready()
    left = dict(ALL.services)
    done = []
    demand = ALL
    while demand.operations or demand.services:
        done.append(run(stage, demand))
        left.pop(done[-1], None)
        demand = replace(demand, operations=0 if JobKind.COMPACTION in done else 3, services=left)
    assert done == [JobKind.ROLLBACK, JobKind.COMPACTION, JobKind.INDEX, JobKind.CLEAN, JobKind.ARCHIVE]


ORDER = (
    JobKind.RECOVERY,
    JobKind.ROLLBACK,
    JobKind.PLAN_EXPIRY,
    JobKind.METADATA_CLEAN,
    JobKind.METADATA_COMPACTION,
    JobKind.COMPACTION,
    JobKind.INDEX,
    JobKind.CLEAN,
    JobKind.ARCHIVE,
    JobKind.VERIFICATION,
)


_METADATA = (JobKind.METADATA_CLEAN, JobKind.METADATA_COMPACTION)


def wanting(*kinds: JobKind) -> Demand:
    """A plan that finds work for these; a recovery and a verification are no plan's to find."""
    metadata = _METADATA if set(_METADATA) & set(kinds) else ()
    return Demand(
        3 if JobKind.COMPACTION in kinds else 0,
        expired_plans=("20260101000000000",) if JobKind.PLAN_EXPIRY in kinds else (),
        services={kind: DUE for kind in ROUND if kind in kinds and kind is not JobKind.COMPACTION}
        | {kind: DUE for kind in metadata if kind is not JobKind.METADATA_CLEAN or kind in kinds},
    )


@pytest.mark.parametrize(("first", "second"), list(combinations(ORDER, 2)))
def test_no_two_jobs_of_a_table_run_at_once(first: JobKind, second: JobKind) -> None:
    """Keeps 2 of daemon/scheduling/scheduler, for each pair of jobs that are both due: the one that comes first in the
    order runs alone, whatever is polled and however long it takes, and only then the other."""
    stage = Stage(Limits(jobs_max=10))
    services = frozenset(ROUND) | ({JobKind.VERIFICATION} if second is JobKind.VERIFICATION else frozenset())
    schedule = Schedule(services=services, verification_interval=1e6, job_deadline=1e5)
    stage.say(TableAdded("a", schedule, verified_at=stage.now - 1e6), LeaseGained("a"))
    begun = of(Run, stage.last)
    while not begun or begun[-1].job.service is not first:
        if begun:
            stage.end(begun.pop().job)
        begun += of(Run, stage.planned("a", wanting(first, second)))
    stage.polled("a", changed=True)
    assert of(Run, stage.last) == [] and of(Run, stage.wait(1000.0)) == []
    after = stage.end(begun.pop().job)
    assert of(Run, after) == [], "what the table looks like now is planned first"
    assert one(Run, stage.planned("a", wanting(second))).job.service is second


def test_a_table_that_always_has_something_to_compact_is_cleaned() -> None:
    """What ran last comes last, until there is nothing to do; then it begins again."""
    stage = ready()
    busy = replace(WORK, services={JobKind.CLEAN: DUE})
    assert [run(stage, busy) for _ in range(4)] == [JobKind.COMPACTION, JobKind.CLEAN] * 2
    assert run(stage, WORK) is JobKind.COMPACTION
    stage.planned("a", Demand(0))
    stage.polled("a", changed=True)
    assert run(stage, busy) is JobKind.COMPACTION


def test_cleaning_waits_for_no_window() -> None:
    """Also where a compaction does that comes before it."""
    stage = ready(windows=NIGHT)
    assert jobs(stage.planned("a", replace(WORK, services={JobKind.CLEAN: DUE}))) == [("a", JobKind.CLEAN)]


def test_what_fails_in_a_clean_holds_no_compaction_back() -> None:
    """It is tried again alone, after a pause that grows, and never parks the table; its words are recorded once."""
    stage = ready(failures_max=2, retry_first=30.0, retry_max=1000.0)
    broken = WorkProblem(ProblemKind.FAILED, "It broke.")
    ended, pauses, shown = stage.now, [], 0
    runs = of(Run, stage.planned("a", CLEAN))
    for _ in range(4):
        while not runs:
            runs = of(Run, stage.wait(1))
            assert stage.now < ended + 2000, "it is tried again, though nothing changes"
        assert runs[0].job.service is JobKind.CLEAN
        pauses.append(stage.now - ended)
        shown += records(stage.end(runs[0].job, broken)).count(FactKind.SERVICE_FAILED)
        ended, runs = stage.now, []
        compaction = one(Run, stage.planned("a", replace(WORK, services=CLEAN.services))).job
        assert compaction.service is JobKind.COMPACTION
        stage.end(compaction)
        stage.planned("a", CLEAN)
        assert stage.state("a") is TableState.IDLE and stage.view("a").failures == 0
    assert pauses[1] <= 60 < pauses[-1]
    assert shown == 1


def test_a_clean_that_found_nothing_is_not_asked_for_at_once() -> None:
    """The plan saw something and the job did not: another process did it, or the two disagree."""
    stage = ready()
    assert run(stage, CLEAN, JobResult.NOTHING) is JobKind.CLEAN
    assert not of(Run, stage.planned("a", CLEAN))
    assert of(Run, stage.wait(60)), "it is asked again"


def test_a_wrong_result_of_a_clean_parks_the_table() -> None:
    """Rows are at stake, whatever the job was."""
    stage = ready()
    job = one(Run, stage.planned("a", CLEAN)).job
    stage.end(job, WorkProblem(ProblemKind.VERIFICATION, "Rows are wrong."))
    assert stage.state("a") is TableState.PARKED


def test_a_table_without_work_for_compaction_is_cleaned() -> None:
    """Copy-on-write: nothing to compact, and something to clean."""
    stage = ready()
    assert run(stage, replace(CLEAN, no_work="copy-on-write")) is JobKind.CLEAN
    stage.planned("a", Demand(0, no_work="copy-on-write"))
    assert stage.view("a").reason == "There is nothing to compact: copy-on-write."


def test_what_is_refused_is_not_begun_and_the_others_go_on() -> None:
    """It is recorded once, and shown also while a job's end has left no plan; a verification that is long overdue does
    not begin either. The lease takes it away."""
    stage = ready(services=frozenset({*ROUND, JobKind.VERIFICATION}), verification_interval=100.0)
    refused = {JobKind.COMPACTION: "Rows have changes.", JobKind.VERIFICATION: "Rows have changes."}
    shown = records(stage.planned("a", replace(CLEAN, refused=refused, operations=3)))
    assert shown.count(FactKind.REFUSED) == 2
    stage.end(one(Run, stage.last).job)
    assert stage.view("a").refused == refused and stage.view("a").demand is None
    assert jobs(stage.planned("a", Demand(0, refused=refused))) == [] and records(stage.last) == []
    assert jobs(stage.wait(1000)) == []
    assert stage.view("a").reason.endswith("Refused, compaction and verification: Rows have changes.")
    stage.say(LeaseEnded("a", "Another daemon has it."))
    assert stage.view("a").refused == {}


def test_a_service_that_the_table_does_not_get_is_not_begun() -> None:
    """Whatever a plan says: the configuration may have changed since."""
    stage = ready(services=frozenset({JobKind.COMPACTION}))
    assert not of(Run, stage.planned("a", CLEAN))


def test_a_quiet_table_in_shadow_shows_what_it_would_do() -> None:
    """It is quiet where there is nothing to do for anybody, and in shadow where there would be."""
    stage = ready(shadow="Nothing is said about its writers.")
    stage.polled("a", changed=True)
    stage.planned("a", Demand(0, no_work="copy-on-write"))
    stage.end(stage.view("a").running[0], result=JobResult.NOTHING)
    stage.planned("a", Demand(0, no_work="copy-on-write"))
    assert stage.state("a") is TableState.IDLE
    stage.polled("a", changed=True)
    stage.planned("a", replace(CLEAN, no_work="copy-on-write"))
    assert stage.state("a") is TableState.SHADOW
    assert not of(Run, stage.wait(3600))
