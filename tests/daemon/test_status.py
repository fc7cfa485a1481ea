from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.daemon.scheduling.events import JobOutcome, JobResult, ProblemKind, WorkProblem
from lakeward.daemon.status import JobEnd, JobProgress, end_of
from tests.daemon.synthetic_status import NOW, backlog, table


@pytest.mark.parametrize("kind", ProblemKind)
def test_the_end_of_a_failed_job_is_its_first_problem(kind: ProblemKind):
    """Every kind of problem has an end of its own name."""
    problems = (WorkProblem(kind, "x"), WorkProblem(ProblemKind.FAILED, "y"))

    assert end_of(JobOutcome(JobResult.FAILED, problems)).value == kind.value


def test_groups_left_out_do_not_make_a_committed_job_a_failed_one():
    """A job that committed ended well, whatever it had to leave out."""
    outcome = JobOutcome(JobResult.COMMITTED, (WorkProblem(ProblemKind.VERIFICATION, "x"),))

    assert end_of(outcome) is JobEnd.COMMITTED
    assert end_of(outcome).is_good
    assert end_of(JobOutcome(JobResult.NOTHING)).is_good


def test_a_failed_job_without_a_problem_failed():
    """Nothing about a failure may be needed to count it."""
    assert end_of(JobOutcome(JobResult.FAILED)) is JobEnd.FAILED


@pytest.mark.parametrize(
    ("progress", "ratio"),
    [
        (JobProgress("waiting"), None),
        (JobProgress("merging", 1, 4), 0.25),
        (JobProgress("merging", 1, 4, 90, 100), 0.9),
        (JobProgress("merging", 4, 4, 120, 100), 1.0),
    ],
)
def test_progress_is_told_in_bytes_where_they_are_known(progress: JobProgress, ratio: float | None):
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
    waits = replace(table(backlog=backlog(oldest_unmerged_at=NOW - 10 * 86400)), objective_seconds=None)
    assert not waits.is_breached(NOW) and waits.breach_seconds(NOW) == 0
