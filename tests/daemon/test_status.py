from __future__ import annotations

import re
from pathlib import Path

import pytest

import lakeward
from lakeward.daemon.scheduling.table_state import Hold, TableState
from lakeward.daemon.status import GOOD_ENDS, JobEnd, JobProgress, end_of
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.protocol.progress import DeletedSoFar, Merged
from tests.daemon.synthetic_status import NOW, backlog, table


@pytest.mark.parametrize("kind", ProblemKind)
def test_the_end_of_a_failed_job_is_its_first_problem(kind: ProblemKind):
    """Every kind of problem has an end of its own name."""
    problems = (WorkProblem(kind, "x"), WorkProblem(ProblemKind.FAILED, "y"))

    assert end_of(JobReport(JobResult.FAILED, problems=problems)).value == kind.value


def test_groups_left_out_do_not_make_a_committed_job_a_failed_one():
    """A job that committed ended well, whatever it had to leave out."""
    report = JobReport(JobResult.COMMITTED, problems=(WorkProblem(ProblemKind.VERIFICATION, "x"),))

    assert end_of(report) is JobEnd.COMMITTED
    assert {end_of(report), end_of(JobReport(JobResult.NOTHING))} == GOOD_ENDS


def test_a_failed_job_without_a_problem_failed():
    """Nothing about a failure may be needed to count it."""
    assert end_of(JobReport(JobResult.FAILED)) is JobEnd.FAILED


@pytest.mark.parametrize(
    ("progress", "ratio"),
    [
        (JobProgress("starting"), None),
        (JobProgress("merging", Merged(1, 4, 90, 100, 0)), 0.9),
        (JobProgress("merging", Merged(4, 4, 120, 100, 0)), 1.0),
        (JobProgress("cleaning", deleted=DeletedSoFar("001", 1, 4)), 0.25),
    ],
)
def test_progress_is_shown_in_bytes_where_they_are_known(progress: JobProgress, ratio: float | None):
    """The ratio is never more than all of it, and there is none where the whole is unknown."""
    assert progress.ratio == ratio


def test_an_objective_is_missed_only_by_a_record_that_waits_for_longer():
    """A record that waits exactly as long as the objective allows misses nothing; a clock that went back makes no
    negative age."""
    at_the_limit = table(backlog=backlog(oldest_unmerged_at=NOW - 3600))

    assert not at_the_limit.is_breached(NOW)
    assert at_the_limit.is_breached(NOW + 1)
    assert at_the_limit.oldest_unmerged_age(NOW - 9000) == 0.0
    assert table(backlog=None).oldest_unmerged_age(NOW) is None
    assert not table(backlog=backlog(oldest_unmerged_at=None)).is_breached(NOW)
    assert at_the_limit.breach_seconds(NOW + 7) == 7


def test_without_an_objective_none_is_missed():
    """However long a record waits."""
    waits = table(backlog=backlog(oldest_unmerged_at=NOW - 10 * 86400), objective=None)
    assert not waits.is_breached(NOW) and waits.breach_seconds(NOW) == 0


@pytest.mark.parametrize(
    "holds",
    [
        (Hold(TableState.SHADOW, "Nothing is said about its writers."),),
        (Hold(TableState.BACKING_OFF, "No disk.", NOW), Hold(TableState.SHADOW, "Nothing is said.")),
    ],
)
def test_a_table_in_shadow_breaches_no_objective(holds: tuple[Hold, ...]):
    """Nothing is promised where nothing may be written, also while something else holds the table before."""
    old = table(
        "orders", holds[0].state, outlook={"holds": holds}, backlog=backlog(oldest_unmerged_at=NOW - 10 * 86400)
    )

    assert old.objective is None and old.served.settings.objective_kept == 3600
    assert not old.is_breached(NOW) and old.breach_seconds(NOW) == 0
    assert old.oldest_unmerged_age(NOW) == 10 * 86400


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"log_files": 0, "superseded_log_files": 0}, ""),
        ({"damaged_files": 1}, "not known: files are damaged"),
        ({"log_files": 0}, "not known"),
    ],
)
def test_everything_is_merged_only_where_that_is_known(changes: dict[str, int], why: str):
    """Without an age there is a reason, or there are no logs."""
    found = backlog(oldest_unmerged_at=None if changes else NOW - 60, **changes)

    assert table(backlog=found).age_unknown == why
    refused = table("t", TableState.REFUSED, backlog=found)
    assert bool(refused.age_unknown) == (found.oldest_unmerged_at is None)
    merging_refused = table("t", outlook={"refused": {JobKind.COMPACTION: "x"}}, backlog=found)
    assert bool(merging_refused.age_unknown) == (found.oldest_unmerged_at is None)
    unreadable = table("t", outlook={"unreadable": "The disk is gone."}, backlog=None)
    assert unreadable.age_unknown == "cannot be read"
    assert table(backlog=None).age_unknown == "not read yet"


def test_a_table_is_one_of_five_types_and_a_job_one_of_three():
    """What each of them answers, docs/decisions/0117 says; the others are no table, or one of another kind."""
    house = Path(lakeward.__file__).parent
    classes = {
        name for file in house.rglob("*.py") for name in re.findall(r"^class (\w+)", file.read_text(), re.MULTILINE)
    }
    is_one = re.compile(r"[A-Z]?\w*(?:Table|Job)(?:Detail|Outcome|Record|Report|Row|Status|Value|View)?")
    of_another_kind = {
        *("GivenTable", "GivenZonedTable"),  # options of commands
        *("MetadataTable", "NewMetadataTable", "NewTable"),  # Hudi's metadata table, and what is not there yet
        *("LinkInTable", "NotATable", "CodeTable"),  # errors; codes of entries
        "_Job",  # of a process
        "Table",  # of Python's callers
    }
    assert {name for name in classes if is_one.fullmatch(name)} - of_another_kind == {
        *("ConfiguredTable", "ServedTable", "ServicedTable", "TableStatus", "TrackedTable"),
        *("Job", "JobRecord", "JobReport"),
    }
