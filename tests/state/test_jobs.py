"""Jobs and their attempts."""

from __future__ import annotations

from dataclasses import replace

from lakeward.state.records import (
    AttemptRecord,
    CleanerProgress,
    CostRecord,
    JobRecord,
    MonthlyCost,
)
from lakeward.state.store import Store
from tests.state.state_records import NOW


def test_the_life_of_a_job(store: Store) -> None:
    """Keeps of state/jobs: begun once, ended once: what comes later changes nothing."""
    job = JobRecord("j1", "orders", "compaction", NOW, holder="h", token=1 << 41, operations=2, read_bytes=1 << 40)
    store.jobs.begin(job)
    store.jobs.begin(replace(job, service="again"))
    store.jobs.begin(JobRecord("j2", "other", "compaction", NOW + 1))
    attempt = AttemptRecord("a1", "j1", NOW + 1, holder="h", ended_at=NOW + 2, result="failed", error="disk")
    store.jobs.record_attempt(attempt)
    store.jobs.record_attempt(replace(attempt, result="done"))
    assert store.jobs.running("h") == (job,)

    store.jobs.end("j1", "failed", "disk", at=NOW + 2, instant="t9", figures={"rows": 3})
    store.jobs.end("j1", "done", None, at=NOW + 3)

    ended = replace(job, ended_at=NOW + 2, result="failed", error="disk", instant="t9", figures={"rows": 3})
    assert store.jobs.find("j1") == ended
    assert store.jobs.latest("orders") == (ended,)
    assert [each.id for each in store.jobs.latest()] == ["j2", "j1"]
    assert [each.id for each in store.jobs.running()] == ["j2"]
    assert store.jobs.attempts("j1") == (attempt,)


def test_how_far_a_clean_is(store: Store) -> None:
    """The newest word counts, of each clean of the job; it goes when the job is forgotten."""
    store.jobs.begin(JobRecord("j1", "orders", "clean", NOW))
    first = CleanerProgress("j1", "001", 500, 1200, NOW)
    store.jobs.record_progress(first)
    store.jobs.record_progress(replace(first, files=1200, at=NOW + 1))
    store.jobs.record_progress(replace(first, instant="002", files=0))
    assert store.jobs.progress("j1") == (replace(first, files=1200, at=NOW + 1), replace(first, instant="002", files=0))
    assert store.jobs.progress("j2") == ()
    store.jobs.end("j1", "committed", None, at=NOW)
    store.trim(NOW + 100 * 86400.0)
    store.trim(NOW + 100 * 86400.0)
    assert store.jobs.progress("j1") == ()


def test_what_jobs_took_is_added_up_by_month(store: Store) -> None:
    """Sums are by table and service; a cost that comes twice counts once. Where CPU seconds are not known seconds of
    the clock are taken, and are said to be. What a service has no model of is not 0."""
    cost = CostRecord("j1", "orders", "compaction", "2027-01", NOW, "committed", 60.0, 5.0, 1 << 40, 7, 4.0, 6.0, 9.0)
    costs = (
        cost,
        replace(cost, job_id="j2", ended_at=NOW + 1, cpu_seconds=None),
        replace(cost, job_id="j3", ended_at=NOW + 2, month="2027-02", result="failed", predicted_seconds=None),
        replace(cost, job_id="j4", table="other"),
        CostRecord("j5", "orders", "clean", "2027-01", NOW + 3, "nothing", 1.0, detail={"phases": {"look": 0.5}}),
    )
    for each in (*costs, replace(cost, seconds=1e9)):
        store.jobs.record_cost(each)

    assert store.jobs.costs("orders", ["j5", "j1", "j4"]) == {"j1": cost, "j5": costs[4]}
    assert store.jobs.costs_since("orders", NOW) == (costs[1], costs[2], costs[4])
    assert store.jobs.costs_since("orders", NOW, limit=1) == (costs[1],)
    assert store.jobs.predicted_costs("orders", 9) == costs[:2], "oldest first, and those alone"
    assert store.jobs.predicted_costs("orders", 1) == (costs[1],)
    assert store.jobs.monthly_costs("orders") == (
        MonthlyCost("orders", "compaction", "2027-02", 1, 1, 60.0, 5.0, 1 << 40, 7, None, 6.0, None),
        MonthlyCost("orders", "clean", "2027-01", 1, 0, 1.0, 0.0, 0, 0, None, None, None),
        MonthlyCost("orders", "compaction", "2027-01", 2, 0, 120.0, 10.0, 2 << 40, 14, 8.0, 15.0, 9.0),
    )
    assert [each.table for each in store.jobs.monthly_costs()] == ["orders", "orders", "orders", "other"]
