"""A store that was lost knows again what the timelines say."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lakeward.base.clock import SystemClock
from lakeward.cli.main import run
from lakeward.daemon.history.rebuild import RebuildReport, rebuild_store
from lakeward.state.migration import migrate
from lakeward.state.records import DecisionRecord, JobRecord
from lakeward.state.store import open_store
from lakeward.storage.storage_of_url import open_storage
from tests.golden_tables import copy_golden

rebuild = partial(rebuild_store, open_storage=open_storage, clock=SystemClock())


def test_pending_plans_and_finished_jobs_come_back(tmp_path: Path) -> None:
    """A plan comes back while it is pending; a job once it is done, known as one of which nothing more is
    remembered."""
    orders = copy_golden("v9", tmp_path / "orders", pending=True)
    url = f"sqlite:///{tmp_path}/lakeward.db"
    assert _counts(rebuild(url, {"orders": str(orders)})) == [("orders", 1, 0)]
    store = open_store(url, clock=SystemClock())
    (plan,) = store.observations.plans("orders")
    assert (plan.action, plan.state, plan.planned_by) == ("compaction", "requested", None)
    (operation,) = plan.operations
    assert (operation.partition_path, operation.kind, operation.log_files) == ("p", "FULL", 3)
    assert plan.requested_at is not None and plan.requested_at > 1e9

    own = copy_golden("v9", tmp_path / "own")
    for table in (orders, own):
        assert run(["compact", str(table), "--engine", "local", "--writers", "stopped"]) == 0
    report = rebuild(url, {"own": str(own)})
    # The plan that was pending in the first table is Hudi's own; and that table is one that the store knew.
    assert _counts(report) == [("orders", 0, 0), ("own", 0, 1)]
    (job,) = store.jobs.latest("own")
    assert job.from_timeline and job.result == "committed" and job.ended_at is not None
    assert job.ended_at >= job.began_at
    store.close()


def test_a_rebuild_is_the_same_twice(tmp_path: Path) -> None:
    """What was remembered of earlier is emptied, our own jobs stay."""
    orders = copy_golden("v9", tmp_path / "orders", pending=True)
    url = f"sqlite:///{tmp_path}/lakeward.db"
    migrate(url)
    store = open_store(url, clock=SystemClock())
    store.observations.watch("orders", str(orders), 5.0)
    store.jobs.begin(JobRecord("j1", "orders", "compaction", 5.0))
    store.observations.record_decisions("orders", 5.0, None, [DecisionRecord("p", "gone", "FULL", "log-ratio")])
    first = rebuild(url, {})
    seen = (store.observations.plans("orders"), store.jobs.latest())
    assert rebuild(url, {}) == first
    assert (store.observations.plans("orders"), store.jobs.latest()) == seen
    assert store.observations.watch("orders", str(orders), 9.0).since == 5.0
    assert store.observations.decisions("orders") == ()
    assert [job.id for job in store.jobs.latest()] == ["j1"]
    store.close()


def test_one_bad_table_does_not_end_it(tmp_path: Path) -> None:
    """It is reported, with why; the others are rebuilt."""
    orders = copy_golden("v9", tmp_path / "orders", pending=True)
    report = rebuild(f"sqlite:///{tmp_path}/lakeward.db", {"a": str(tmp_path / "missing"), "b": str(orders)})
    assert [table.name for table in report.problems] == ["a"]
    assert _counts(report) == [("a", 0, 0), ("b", 1, 0)]


def _counts(report: RebuildReport) -> list[tuple[str, int, int]]:
    return [(table.name, table.plans, table.jobs) for table in report.tables]
