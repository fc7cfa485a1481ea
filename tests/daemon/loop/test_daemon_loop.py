"""The daemon's loop with its real parts, over golden tables; time passes as the test says."""

from __future__ import annotations

import os
import shutil
import socket
import time
from dataclasses import replace
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lakeward.base.errors import Cancelled, StoreUnavailable, TryLater
from lakeward.base.quantities import format_time
from lakeward.config.settings import Writers
from lakeward.daemon import served_table
from lakeward.daemon.metrics.specs import TABLE_GAUGES
from lakeward.daemon.runner import Lane
from lakeward.daemon.scheduling.events import FactKind, Record, Run
from lakeward.daemon.scheduling.schedule import Schedule
from lakeward.daemon.scheduling.scheduled_job import Job
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.served_table import ServedTable
from lakeward.daemon.web.table_list import concerns
from lakeward.daemon.work.reports import PlanReport, PollReport
from lakeward.daemon.work.table_planner import TablePlanner
from lakeward.daemon.work.watcher import Watcher
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.engine.dispatch.spark_memory import SparkMemory
from lakeward.engine.task.operation_spec import OperationResult
from lakeward.format.timeline.compaction_plan import CompactionPlan, read_compaction_plan, write_compaction_plan
from lakeward.format.timeline.instant import format_instant_time
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobReport, JobResult, ProblemKind, WorkProblem
from lakeward.protocol.progress import Merged
from lakeward.state.records import ControlKind, ControlRecord, CostRecord, JobRecord, TargetKind
from lakeward.state.store import open_store
from lakeward.storage.storage_of_url import open_storage
from tests.clocks import SkippingClock
from tests.daemon.serving import InProcess, Serving
from tests.golden_tables import copy_golden, expected_rows
from tests.our_reader import read_rows
from tests.services.clean.run.cleaning import completed_cleans
from tests.services.clean.test_job import AT_ONCE
from tests.write.writing import new_table, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    return folder


def completed(table: Path) -> list[str]:
    return sorted(path.name for path in (table / ".hoodie/timeline").glob("*_*.commit"))


def test_a_table_is_found_compacted_and_excluded(root: Path, tmp_path: Path) -> None:
    """A daemon that is pointed at a folder compacts what is in it, once."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    serving = Serving(root, tmp_path / "state")

    serving.run(30)

    assert len(completed(table)) == len(before) + 1
    view = serving.view(str(table))
    assert (view.state, view.failures) == (TableState.IDLE, 0)
    assert serving.sample("lakeward_jobs_total", table="orders", service="compaction", end="committed") == 1
    assert [job.result for job in serving.store.jobs.latest(str(table))] == ["committed", "nothing"]
    assert [decision.reason for decision in serving.store.observations.decisions(str(table))] == ["no-logs"]


def test_pending_work_of_others_is_finished(root: Path, tmp_path: Path) -> None:
    """A plan that another service scheduled and never ran is carried out first."""
    table = copy_golden("v9", root / "orders", pending=True)
    serving = Serving(root, tmp_path / "state")

    serving.run(20)

    instants = {path.name.split("_")[0].split(".")[0] for path in (table / ".hoodie/timeline").glob("*.requested")}
    done = {name.split("_")[0] for name in completed(table)}
    assert {
        instant for instant in instants if (table / f".hoodie/timeline/{instant}.compaction.requested").exists()
    } <= done


def test_one_bad_table_affects_itself_only(root: Path, tmp_path: Path) -> None:
    """A table that cannot be read backs off and stays on the page; its neighbours are serviced."""
    good = copy_golden("v9", root / "good")
    before = completed(good)
    (root / "bad/.hoodie").mkdir(parents=True)
    (root / "bad/.hoodie/hoodie.properties").write_text("no properties")
    serving = Serving(root, tmp_path / "state")

    serving.run(120)

    assert len(completed(good)) == len(before) + 1
    bad = serving.view(str(root / "bad"))
    assert bad.state in (TableState.BACKING_OFF, TableState.RECOVERING, TableState.PARKED)
    assert "hoodie.properties" in bad.reason


def test_a_table_that_comes_later_is_found(root: Path, tmp_path: Path) -> None:
    """Discovery goes on while the daemon runs, and a table that is taken away leaves the page."""
    serving = Serving(root, tmp_path / "state")
    serving.run(5)
    table = copy_golden("v9", root / "late")
    serving.run(70)
    assert serving.view(str(table)).state is TableState.IDLE

    shutil.rmtree(table)
    copy_golden("v9", root / "other")
    serving.run(200)

    assert str(table) not in serving.service.outlooks


def test_a_pause_holds_across_a_restart_until_it_is_resumed(root: Path, tmp_path: Path) -> None:
    """What an operator said is in the store: another process hears it too, before it writes anything."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    store = open_store("sqlite://", clock=SkippingClock())
    pause = ControlRecord(ControlKind.PAUSE, TargetKind.TABLE, str(table), "inventory", "anna", at=0.0)
    store.controls.add(pause)

    first = Serving(root, tmp_path / "state", store=store)
    first.run(30)
    assert first.view(str(table)).state is TableState.PAUSED
    assert "inventory" in first.view(str(table)).reason
    first.service.begin_stop()
    first.settle()
    first.service.leave()
    second = Serving(root, tmp_path / "state", store=store, name="two")
    second.run(30)
    assert completed(table) == before

    resume = ControlRecord(ControlKind.RESUME, TargetKind.TABLE, str(table), "done", "anna", at=second.clock.now())
    store.controls.add(resume)
    second.run(30)

    assert len(completed(table)) == len(before) + 1


def test_version_6_is_compacted_where_its_writers_are_stopped(root: Path, tmp_path: Path) -> None:
    """The configuration says so; its other services stay with Hudi, and that is reported."""
    table = copy_golden("v6", root / "old")
    serving = Serving(root, tmp_path / "state")
    locks = serving.settings.locks.model_copy(update={"writers": Writers.STOPPED})
    serving.service.apply(serving.settings.model_copy(update={"locks": locks}))
    serving.run(60)
    (plan,) = table.glob(".hoodie/*.compaction.requested")
    assert plan.with_name(plan.name.partition(".")[0] + ".commit").exists()
    assert read_rows(table) == expected_rows("v6")
    assert serving.view(str(table)).state is TableState.IDLE


@pytest.mark.parametrize("said", ["share", None])
def test_a_table_of_a_kind_that_leaves_no_work_is_quiet(root: Path, tmp_path: Path, said: str | None) -> None:
    """Keeps 3 of daemon/work/worker and 2 of config/permitted_services: COPY_ON_WRITE tables, and versions that are
    left to Hudi, are idle, without a failure or an alert; refused where the configuration names their services."""
    copied, old = copy_golden("v9", root / "copied"), copy_golden("v6", root / "old")
    properties = copied / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE"))
    serving = Serving(root, tmp_path / "state", settings={"defaults.foreign_services": "shadow"})
    if said is None:
        locks = serving.settings.locks.model_copy(update={"writers": None})
        serving.service.apply(serving.settings.model_copy(update={"locks": locks}))
    serving.run(90)
    for table, why in (
        (copied, "copy-on-write"),
        (old, "table version 6, which is compacted with its writers stopped only"),
    ):
        view = serving.view(str(table))
        assert (view.state, view.holds, view.failures) == (TableState.IDLE, (), 0)
        assert view.reason == f"There is nothing to compact: {why}."
    assert serving.service.troubled_tables == ()
    assert all(concerns(table, serving.clock.now() + 1e6) == () for table in serving.status().tables)
    assert {event.kind for event in serving.store.events.latest()} <= {"job"}

    named = Serving(root, tmp_path / "state2", settings={"defaults.services": '["compaction"]'})
    named.run(30)
    assert {view.state for view in named.service.outlooks.values()} == {TableState.REFUSED}


def test_each_service_is_refused_by_itself(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of daemon/work/table_planner and 1 of config/permitted_services: an unknown kind of change data capture
    stops compaction, which is reported with its reason, in an event, by a gauge, on the page; the table is cleaned all
    the same. What stops all stops the table."""
    monkeypatch.setattr("lakeward.services.clean.job.AFTER_COMMITS", 1)
    table = copy_golden("v9", root / "orders")
    first = Serving(root, tmp_path / "state", settings={"defaults.services": '["compaction"]'})
    first.run(30)
    stop(first)
    before, properties = completed(table), table / ".hoodie/hoodie.properties"
    with properties.open("a") as file:
        file.write("hoodie.table.cdc.enabled=true\nhoodie.table.cdc.supplemental.logging.mode=ALL\n")

    serving = Serving(root, tmp_path / "state2", settings=AT_ONCE)
    serving.run(60)

    assert completed(table) == before and completed_cleans(table)
    view = serving.view(str(table))
    assert (view.state, view.holds, view.failures) == (TableState.IDLE, (), 0)
    assert list(view.refused) == [JobKind.COMPACTION]
    assert "hoodie.table.cdc.enabled" in view.refused[JobKind.COMPACTION]
    assert "found nothing to do. Refused, compaction: hoodie.table.cdc.enabled" in view.reason
    assert serving.service.troubled_tables == (str(table),)
    (shown,) = serving.status().tables
    assert concerns(shown, serving.clock.now()) == ("refused: compaction",)
    assert [event.kind for event in serving.store.events.latest()].count("refused") == 1
    (gauge,) = (each for each in TABLE_GAUGES if each.spec.name == "lakeward_table_service_refused")
    reading = gauge.read(shown, serving.clock.now())
    assert reading == {kind: float(kind == "compaction") for kind in shown.served.settings.services}

    with properties.open("a") as file:
        file.write("hoodie.table.format=ICEBERG\n")
    serving = Serving(root, tmp_path / "state3", settings=AT_ONCE)
    serving.run(30)
    assert serving.view(str(table)).state is TableState.REFUSED


def test_a_table_is_shown_by_its_last_folder_while_that_is_free(root: Path, tmp_path: Path) -> None:
    """On pages and in metrics; the label stays when another table of that name comes, which uses its base path."""
    first = copy_golden("v9", root / "a/orders")
    serving = Serving(root, tmp_path / "state")
    serving.run(30)
    second = copy_golden("v9", root / "b/orders")
    serving.run(90)

    assert {table.name: table.title for table in serving.status().tables} == {
        str(first): "orders",
        str(second): str(second),
    }
    for label in ("orders", str(second)):
        assert serving.sample("lakeward_jobs_total", table=label, service="compaction", end="committed") == 1
    for name, base_path in (("orders", first), (str(first), first), (str(second), second)):
        found = serving.status().table(name)
        assert found is not None and found.served.base_path == str(base_path)


def begin_foreign_compaction(table: Path, at: float) -> str:
    """Another engine requests a compaction; it is empty, and what counts is that it is there."""
    instant = format_instant_time(int(at * 1000), UTC)
    requested = table / ".hoodie/timeline" / f"{instant}.compaction.requested"
    requested.write_bytes(write_compaction_plan(CompactionPlan(())))
    os.utime(requested, (at, at))
    return instant


def test_history_is_no_rival(root: Path, tmp_path: Path) -> None:
    """A table that Hudi compacted before we first saw it is serviced at once, its pending plan included, after a
    restart, too."""
    table = copy_golden("v9", root / "orders", pending=True)
    before, store = completed(table), open_store("sqlite://", clock=SkippingClock())
    settings = {"defaults.foreign_services": "shadow"}
    first = Serving(root, tmp_path / "state", store=store, settings=settings)
    first.run(30)
    assert len(completed(table)) > len(before)
    assert first.view(str(table)).state is TableState.IDLE
    stop(first)

    second = Serving(root, tmp_path / "state", store=store, name="two", settings=settings)
    second.run(30)
    assert second.view(str(table)).state is TableState.IDLE


def test_what_began_before_a_word_was_said_about_writers_is_history(root: Path, tmp_path: Path) -> None:
    """While a table was only watched, others serviced it, as they should; what begins after the word is a rival."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state", settings={"defaults.foreign_services": "shadow"})
    said = serving.settings
    serving.service.apply(said.model_copy(update={"locks": said.locks.model_copy(update={"writers": None})}))
    serving.run(30)
    begin_foreign_compaction(table, serving.clock.now() - 5)
    serving.run(30)
    assert "locks.writers" in serving.view(str(table)).reason
    assert serving.store.observations.watch(str(table), str(table), serving.clock.now()).serviced_since is None

    serving.service.apply(said)
    serving.run(30)
    assert serving.view(str(table)).state is TableState.IDLE
    watched = serving.store.observations.watch(str(table), str(table), serving.clock.now())
    assert watched.serviced_since is not None and watched.serviced_since > watched.since

    begin_foreign_compaction(table, serving.clock.now() - 5)
    serving.run(30)
    assert serving.view(str(table)).state is TableState.SHADOW


def test_a_table_that_others_service_is_only_planned(root: Path, tmp_path: Path) -> None:
    """A compaction that another engine requests while we service the table puts it into shadow mode until an operator
    resumes it; the page says which and when."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    serving = Serving(root, tmp_path / "state", settings={"defaults.foreign_services": "shadow"})
    at = serving.clock.now() + 1
    instant = begin_foreign_compaction(table, at)
    serving.run(30)
    assert serving.view(str(table)).state is TableState.SHADOW
    reported = (
        f"Another service works on the table: another engine requested compaction {instant} at {format_time(at)}. "
    )
    assert serving.view(str(table)).reason.startswith(reported)
    assert completed(table) == before
    assert serving.store.observations.decisions(str(table)), "it is planned all the same"

    resume = ControlRecord(
        ControlKind.RESUME, TargetKind.TABLE, str(table), "we took over", "anna", at=serving.clock.now()
    )
    serving.store.controls.add(resume)
    serving.run(30)

    assert len(completed(table)) > len(before)


def test_nothing_is_written_where_nothing_was_said_about_writers(root: Path, tmp_path: Path) -> None:
    """Without a word about other writers a table is planned and not changed, and the page says why."""
    table = copy_golden("v9", root / "orders")
    before = sorted(path for path in table.rglob("*"))
    serving = Serving(root, tmp_path / "state")
    serving.settings = serving.settings.model_copy(
        update={"locks": serving.settings.locks.model_copy(update={"writers": None})}
    )
    serving.service.apply(serving.settings)
    serving.run(60)

    assert sorted(path for path in table.rglob("*")) == before
    assert serving.view(str(table)).state is TableState.SHADOW
    assert "locks.writers" in serving.view(str(table)).reason


def test_two_daemons_share_the_tables(root: Path, tmp_path: Path) -> None:
    """Each table is serviced by exactly one of them, and no table by none."""
    tables = [copy_golden("v9", root / f"t{number}") for number in range(4)]
    before = {table: completed(table) for table in tables}
    store = open_store("sqlite://", clock=SkippingClock())
    daemons = [Serving(root, tmp_path / "state", store=store, name=name) for name in ("one", "two")]
    for _ in range(60):
        for daemon in daemons:
            daemon.run(1)
            daemon.service.keep_leases()

    assert all(len(completed(table)) == len(before[table]) + 1 for table in tables)
    held = [set(daemon.service.held_tables) for daemon in daemons]
    assert held[0] | held[1] == {str(table) for table in tables}
    assert not held[0] & held[1]
    for daemon in daemons:
        seen = {str(table) for table in tables if daemon.backlog(str(table)) is not None}
        assert seen == daemon.service.held_tables, "what another one services is not for it to show"


def test_a_store_that_fails_stops_nothing_but_remembering(root: Path, tmp_path: Path) -> None:
    """While the store is away, work goes on until the leases end by time; nothing crashes, and the page says so."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    serving.run(20)
    serving.store.close()
    serving.store._database.engine.dispose()

    def broken(*args: object, **kwargs: object) -> None:
        raise OSError("the disk is gone")

    serving.store._access.read = broken  # type: ignore[method-assign,assignment]
    serving.store._access.write = broken  # type: ignore[method-assign,assignment]
    serving.run(90)

    assert serving.view(str(table)).state is TableState.WAITING
    assert serving.service.held_tables == frozenset()


def test_a_plan_that_cannot_be_unscheduled_is_carried_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of Lakeward is too old, and a process is still at work on it: when none is any more, it is not
    forgotten.
    """
    table = copy_golden("v9", root / "orders", pending=True)
    (requested,) = (table / ".hoodie/timeline").glob("*.compaction.requested")
    plan = read_compaction_plan(requested.read_bytes(), file=requested.name)
    requested.write_bytes(write_compaction_plan(replace(plan, extra_metadata={"planned_by": "lakeward"})))
    heartbeat = table / ".hoodie/.heartbeat" / requested.name.partition(".")[0]
    heartbeat.parent.mkdir(exist_ok=True)
    heartbeat.touch()
    before = completed(table)
    monkeypatch.setattr("lakeward.daemon.work.table_planner.PLAN_EXPIRY_SECONDS", 60.0)
    monkeypatch.setattr(served_table, "Schedule", partial(Schedule, retry_max=60.0))
    serving = Serving(root, tmp_path / "state")

    serving.run(30)
    assert completed(table) == before
    serving.run(240)

    assert len(completed(table)) == len(before) + 1
    assert not serving.view(str(table)).running


def events_of(serving: Serving, table: Path) -> list[str]:
    return [event.kind for event in serving.store.events.latest(str(table))]


def stop(serving: Serving) -> None:
    serving.service.begin_stop()
    serving.settle()
    serving.service.leave()


@pytest.mark.parametrize("step", ["poll", "plan", "run"])
def test_what_was_not_foreseen_is_a_failure_of_its_table(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A bug that one table brings to light is in the log with its traceback, and that table is tried again later; the
    others are serviced as if nothing were."""
    good, bad = copy_golden("v9", root / "good"), copy_golden("v9", root / "bad")
    before = completed(good)
    serving = Serving(root, tmp_path / "state")
    real = getattr(serving.worker, step)

    def fail_on_bad(*given: Any, **named: Any) -> Any:
        if any(getattr(each, "name", None) == str(bad) for each in given):
            raise ZeroDivisionError("a case without a test")
        return real(*given, **named)

    with monkeypatch.context() as broken, capture_logs() as logs:
        broken.setattr(serving.worker, step, fail_on_bad)
        serving.run(30)

    assert len(completed(good)) == len(before) + 1
    assert completed(bad) == before
    view = serving.view(str(bad))
    assert view.state is TableState.BACKING_OFF and "a case without a test" in view.reason
    bug = next(entry for entry in logs if entry["event"] == "a bug in Lakeward")
    assert isinstance(bug["exc_info"], ZeroDivisionError) and bug["exc_info"].__traceback__ is not None
    serving.run(300)
    assert len(completed(bad)) == len(before) + 1


def test_a_job_that_finds_more_to_read_has_longer(root: Path, tmp_path: Path) -> None:
    """A recovery learns what it has to merge when it begins to; the page shows the deadline of the scheduler."""
    copy_golden("v9", root / "orders", pending=True)
    serving = Serving(root, tmp_path / "state")
    serving.runner.hang(Lane.JOB)
    serving.run(1)
    (recovery,) = serving.status().tables[0].running
    assert recovery.deadline == pytest.approx(recovery.started_at + 4 * 1800, abs=1.0)

    serving.service.jobs.watches()[0].merged(Merged(0, 1, 0, 80 * 1024**3, 0, 0))
    serving.settle()

    (recovery,) = serving.status().tables[0].running
    assert recovery.deadline == pytest.approx(recovery.started_at + 1800 + 10 * 1024, abs=1.0)


def test_a_job_that_waits_for_executors_can_be_cancelled(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has planned anything: a cluster without a free machine holds no table."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    serving = Serving(root, tmp_path / "state")

    class WithoutExecutors(InProcessDispatcher):
        def probe(self, guard=lambda: None) -> None:
            serving.service.jobs.watches()[0].stop("It had not answered by its deadline.")
            guard()
            raise AssertionError("the guard was not asked")

    monkeypatch.setattr(InProcess, "choose", lambda self, *_, **__: WithoutExecutors())
    serving.run(10)

    (job,) = [job for job in serving.store.jobs.latest(str(table)) if job.service == "compaction"]
    assert (job.result, "by its deadline" in (job.error or "")) == ("cancelled", True)
    assert completed(table) == before


@pytest.mark.slow
def test_a_master_that_is_away_is_no_fault_of_the_table(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often jobs fail for it, the table is tried again, and is not parked; the page says why, and that there is
    no Spark. Once it answers, the work is done."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    monkeypatch.setattr("lakeward.engine.dispatch.spark.ensure_java", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
    spark = SparkDispatcher(master, memory=SparkMemory(1, 1, 1))
    monkeypatch.setattr(served_table, "Schedule", partial(Schedule, retry_max=60.0))
    serving = Serving(root, tmp_path / "state")
    with monkeypatch.context() as away:
        away.setattr(InProcess, "choose", lambda self, *_, **__: spark)
        serving.run(900)

    why = f"No Spark master answers at {master}. {master.removeprefix('spark://')}: Connection refused."
    failed = [job for job in serving.store.jobs.latest(str(table)) if job.result == "temporary"]
    assert len(failed) > Schedule().failures_max
    view = serving.view(str(table))
    assert view.failures == 0 and why in view.reason
    assert serving.status().limitations[0].what.startswith(f"Spark is not available. {why}")
    assert completed(table) == before
    assert not list((table / ".hoodie/timeline").glob("*.compaction.requested")), "no plan waits for it"

    serving.run(90)
    assert len(completed(table)) == len(before) + 1
    assert not serving.status().limitations


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["planned", "job_ended"])
def test_a_result_that_we_fail_to_take_in_ends_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """The loop goes on, and so does the table, whatever happens to what was to be remembered."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    serving = Serving(root, tmp_path / "state")

    def fail(*given: Any) -> None:
        raise KeyError("a case without a test")

    monkeypatch.setattr(serving.service._recorder, answer, fail)
    serving.service.post(lambda: fail())
    serving.run(300)

    assert len(completed(table)) == len(before) + 1
    assert not serving.service.jobs.watches()
    assert serving.view(str(table)).scanned_at == pytest.approx(serving.clock.now(), abs=20)


@pytest.mark.parametrize("kind", [TargetKind.JOB, TargetKind.TABLE, TargetKind.GROUP])
def test_a_cancellation_reaches_the_running_job(root: Path, tmp_path: Path, kind: TargetKind) -> None:
    """It ends at its next fence, nothing of it is published, the store's demand is ended, and later it is done
    again.
    """
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    serving = Serving(root, tmp_path / "state")
    real = serving.run_operation

    def cancel_meanwhile(*given: Any) -> OperationResult:
        (watch,) = serving.service.jobs.watches()
        target = {TargetKind.JOB: watch.job.id, TargetKind.TABLE: str(table), TargetKind.GROUP: "default"}[kind]
        demand = ControlRecord(ControlKind.CANCEL, kind, target, "too early", "anna", serving.clock.now())
        serving.store.controls.add(demand)
        serving.run_operation = real
        serving.service.read_controls()
        for _ in range(20):  # other work of the store may wait before it
            serving.service.step()
        return real(*given)

    serving.run_operation = cancel_meanwhile
    serving.run(20)

    assert completed(table) == before
    cancelled = next(job for job in serving.store.jobs.latest(str(table)) if job.result == "cancelled")
    assert "too early" in (cancelled.error or "")
    serving.run(60)
    assert serving.store.controls.in_force(serving.clock.now()) == ()
    assert len(completed(table)) == len(before) + 1


@pytest.mark.parametrize("kind", [TargetKind.JOB, TargetKind.TABLE, TargetKind.GROUP])
def test_a_cancellation_of_nothing_is_ended_too(root: Path, tmp_path: Path, kind: TargetKind) -> None:
    """When every daemon had the time to read it, it does not stay in the store for ever."""
    serving = Serving(root, tmp_path / "state")
    serving.store.controls.add(ControlRecord(ControlKind.CANCEL, kind, "unknown", "typo", "anna", serving.clock.now()))
    serving.run(5)
    assert serving.store.controls.in_force(serving.clock.now()), "another daemon may be the one"

    serving.run(60)

    assert serving.store.controls.in_force(serving.clock.now()) == ()


def test_a_lease_that_is_lost_in_the_middle_of_a_job(root: Path, tmp_path: Path) -> None:
    """A daemon that slept through a lease publishes nothing; the job ends as lost, and the next one does it."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    serving = Serving(root, tmp_path / "state")
    real = serving.run_operation

    def sleep_meanwhile(*given: Any) -> OperationResult:
        serving.clock.sleep(50)
        serving.run_operation = real
        return real(*given)

    serving.run_operation = sleep_meanwhile
    serving.run(5)

    assert completed(table) == before
    assert serving.backlog(str(table)) is None, "what it saw grows old"
    assert "lost" in [job.result for job in serving.store.jobs.latest(str(table))]
    serving.run(200)
    assert len(completed(table)) == len(before) + 1


def test_what_is_parked_survives_a_restart(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file group that failed verification is excluded by the next daemon too, from its first plan on; that the
    table itself is free again changes nothing about it."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    store = open_store("sqlite://", clock=SkippingClock())
    first = Serving(root, tmp_path / "state", store=store)
    group = group_of(first, table)
    wrong = WorkProblem(ProblemKind.VERIFICATION, "rows differ", group)
    monkeypatch.setattr(first.worker, "run", lambda *given, **named: JobReport(JobResult.COMMITTED, problems=(wrong,)))
    first.run(10)
    assert [record.file_group for record in store.controls.parked(first.clock.now())] == [group]
    first.service._record(Record(FactKind.UNPARKED, str(table), "Its time is over."), first.clock.now())
    stop(first)

    second = Serving(root, tmp_path / "state", store=store, name="two")
    second.run(60)

    assert completed(table) == before
    assert [parked.file_group for parked in second.view(str(table)).parked_groups] == [group]


def group_of(serving: Serving, table: Path) -> tuple[str, str]:
    """The only file group of a table."""
    watcher = Watcher(open_storage, serving.clock)
    watcher.poll("t", str(table), timezone="UTC")
    (slice_,) = watcher.snapshot("t").latest_slices
    return slice_.group_id


def test_a_resume_is_remembered_after_a_restart(root: Path, tmp_path: Path) -> None:
    """What an operator had seen of others when the table was resumed starts no shadow mode again."""
    table = copy_golden("v9", root / "orders")
    store = open_store("sqlite://", clock=SkippingClock())
    settings = {"defaults.foreign_services": "shadow"}
    first = Serving(root, tmp_path / "state", store=store, settings=settings)
    begin_foreign_compaction(table, first.clock.now() + 1)
    first.run(10)
    assert first.view(str(table)).state is TableState.SHADOW
    store.controls.add(
        ControlRecord(ControlKind.RESUME, TargetKind.TABLE, str(table), "we took over", "anna", first.clock.now())
    )
    stop(first)

    second = Serving(root, tmp_path / "state", store=store, name="two", settings=settings)
    second.run(60)

    assert second.view(str(table)).state is TableState.IDLE


def test_a_reload_changes_limits_and_windows(root: Path, tmp_path: Path) -> None:
    """All of it is in force at the next step, also for what waits in the queue."""
    table = copy_golden("v9", root / "orders")
    before = completed(table)
    now = time.gmtime(SkippingClock().now() + 6 * 3600)
    closed = f'["Mon-Sun {now.tm_hour:02}:00-{(now.tm_hour + 1) % 24:02}:00 UTC"]'
    serving = Serving(root, tmp_path / "state", settings={"defaults.windows": closed, "service.jobs_max": "1"})
    serving.run(30)
    assert completed(table) == before

    serving.service.apply(Serving.load(root, tmp_path / "state", {"service.jobs_max": "7"}))
    serving.run(5)

    assert len(completed(table)) == len(before) + 1
    assert serving.status().jobs_max == 7


def test_a_poll_that_hangs_is_declared_stuck(root: Path, tmp_path: Path) -> None:
    """It is recorded and counted at its deadline; when it answers after all, that changes nothing but its thread."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    serving.run(30)
    scanned_at = serving.view(str(table)).scanned_at
    serving.runner.hang(Lane.SCAN)

    serving.run(80)

    assert "stuck" in events_of(serving, table)
    assert serving.sample("lakeward_watchdog_firings_total", table="orders", step="poll")
    assert serving.view(str(table)).scanned_at == scanned_at
    serving.runner.come_back(Lane.SCAN)
    serving.settle()
    assert serving.view(str(table)).scanned_at == scanned_at, "the late answer does not count"
    serving.run(120)
    assert serving.view(str(table)).state is TableState.IDLE
    assert (serving.view(str(table)).scanned_at or 0.0) > (scanned_at or 0.0)


def test_a_result_of_a_table_that_was_removed_meanwhile(root: Path, tmp_path: Path) -> None:
    """The scheduler wants to go on with a table that is gone already: nothing begins, nothing of it is kept."""
    table = copy_golden("v9", tmp_path / "elsewhere/orders")
    copy_golden("v9", root / "other")
    serving = Serving(root, tmp_path / "state", named=table)
    serving.run(30)
    assert serving.view("orders").state is TableState.IDLE
    (table / ".hoodie/timeline/20990101000000000.deltacommit.requested").touch()
    serving.clock.sleep(11)
    serving.service.step()
    assert serving.runner.waiting, "the poll is under way"

    with capture_logs() as logs:
        serving.service.apply(Serving.load(root, tmp_path / "state", {}))
        serving.settle()

    assert "orders" not in serving.service.outlooks
    assert "a bug in Lakeward" not in [entry["event"] for entry in logs]
    assert serving.backlog("orders") is None
    with pytest.raises(TryLater):
        serving.watcher.snapshot("orders")
    serving.service.apply(Serving.load(root, tmp_path / "state", {}, named=table))
    serving.run(30)
    assert serving.view("orders").state is TableState.IDLE, "it is added again, while its old lease was still held"


def test_a_table_that_gets_a_name_is_one_table(root: Path, tmp_path: Path) -> None:
    """What was found and is now named goes under its old name at once; nothing is serviced under two names."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    serving.run(30)

    serving.service.apply(Serving.load(root, tmp_path / "state", {}, named=table))
    serving.run(30)

    assert list(serving.service.outlooks) == ["orders"]
    assert serving.view("orders").state is TableState.IDLE


def test_what_was_begun_may_end_while_the_daemon_stops(root: Path, tmp_path: Path) -> None:
    """Leases of tables at work are renewed until the end; the others are given back at once."""
    busy, idle = copy_golden("v9", root / "busy"), copy_golden("v9", root / "idle")
    serving = Serving(root, tmp_path / "state")
    serving.run(30)
    serving.runner.hang(Lane.JOB)
    (busy / ".hoodie/timeline/20990101000000000.deltacommit.requested").touch()
    job = Job("j1", str(busy), JobKind.RECOVERY, {}, 0, 0, 0, 0, serving.clock.now() + 7200, serving.clock.now())
    serving.service._carry_out(Run(job), serving.clock.now())

    serving.service.begin_stop()
    serving.run(100)

    assert serving.service.held_tables == {str(busy)}
    serving.runner.come_back(Lane.JOB)
    serving.settle()
    assert serving.service.is_idle
    assert next(job for job in serving.store.jobs.latest(str(busy)) if job.id == "j1").result == "nothing"
    assert str(idle) not in serving.service.held_tables


@pytest.mark.slow
def test_why_a_table_cannot_be_read_is_said_once(root: Path, tmp_path: Path) -> None:
    """Not with every poll, and in one line; again where it becomes another reason."""
    table = copy_golden("v9", root / "orders")
    properties = table / ".hoodie/hoodie.properties"
    before = properties.read_text()
    serving = Serving(root, tmp_path / "state")
    serving.run(30)

    def said(seconds: float) -> list[str]:
        with capture_logs() as logs:
            serving.run(seconds)
        return [
            str(entry.get("error") or entry.get("text"))
            for entry in logs
            if entry["log_level"] == "warning" and entry["event"] != "stuck"
        ]

    properties.write_text("broken")
    (table / ".hoodie/hoodie.properties.backup").unlink(missing_ok=True)
    (first,) = said(2000)
    assert "cannot be read" in first
    properties.write_text(before)
    assert said(2000) == []
    properties.write_text("broken")
    assert said(2000) == [first], "it was well meanwhile"
    properties.write_text("hoodie.table.name=orders")
    (second,) = said(2000)
    assert second != first


def test_a_job_that_only_waits_is_stopped_at_once_with_the_daemon(root: Path, tmp_path: Path) -> None:
    """Also one that begins to wait later; what works, and what has merged and waits to publish, has the grace time."""
    names = ["waits", "works", "waits_later", "merged"]
    tables = {name: str(copy_golden("v9", root / name)) for name in names}
    serving = Serving(root, tmp_path / "state")
    serving.run(30)
    serving.runner.hang(Lane.JOB)
    for name, table in tables.items():
        job = Job(name, table, JobKind.RECOVERY, {}, 0, 0, 0, 0, serving.clock.now() + 7200, serving.clock.now())
        serving.service._carry_out(Run(job), serving.clock.now())
    watches = {watch.job.id: watch for watch in serving.service.jobs.watches()}
    watches["waits"].waiting("another attempt is alive", 2.0)
    watches["merged"].merged(Merged(1, 1, 10, 10, 5))
    watches["merged"].waiting("a writer", 2.0)

    def stopped() -> set[str]:
        found = set()
        for name, watch in watches.items():
            try:
                watch.guard()
            except Cancelled as error:
                assert error.why == "The daemon stops, and the job only waited."
                found.add(name)
        return found

    serving.service.step()
    assert stopped() == set()
    serving.service.begin_stop()
    serving.service.step()
    assert stopped() == {"waits"}
    watches["waits_later"].waiting("the table lock is held", 0.0)
    serving.service.step()
    assert stopped() == {"waits", "waits_later"}


def away(*given: object, **named: object) -> None:
    raise StoreUnavailable("The store does not answer.")


def test_a_store_that_is_away_does_not_keep_the_daemon(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is idle when nothing runs, and leaves without an error."""
    copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    serving.run(2)
    monkeypatch.setattr(serving.store._access, "write", away)
    serving.run(20)

    serving.service.begin_stop()
    serving.settle()

    assert serving.service.is_idle
    serving.service.leave()


def test_what_the_store_missed_is_shown_when_it_is_back(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears everything in the order in which it happened: the job that ran meanwhile, and what was decided last."""
    serving = Serving(root, tmp_path / "state")
    serving.run(5)
    table = copy_golden("v9", root / "orders")
    write = serving.store._access.write

    def write_leases_only(name: str, *given: Any, **named: Any) -> Any:
        if name in ("begin_job", "end_job", "begin_attempt", "record_decisions"):
            away()
        return write(name, *given, **named)

    with monkeypatch.context() as broken:
        broken.setattr(serving.store._access, "write", write_leases_only)
        serving.run(70)
        assert serving.view(str(table)).state is TableState.IDLE
        assert not serving.store.jobs.latest(str(table))
        assert "does not answer" in serving.status().limitations[0].what

    serving.run(5)

    assert sorted(job.result or "" for job in serving.store.jobs.latest(str(table))) == ["committed", "nothing"]
    assert [decision.reason for decision in serving.store.observations.decisions(str(table))] == ["no-logs"]
    assert not serving.status().limitations


def test_jobs_of_a_daemon_that_died_are_ended(root: Path, tmp_path: Path) -> None:
    """The daemon that gets the lease says that they are lost; of tables that no daemon services any more, the trimming
    does."""
    table = copy_golden("v9", root / "orders")
    store = open_store("sqlite://", clock=SkippingClock())
    for name, where in (("j1", str(table)), ("j2", "gone")):
        store.jobs.begin(JobRecord(name, where, "compaction", 0.0, holder="dead"))
    serving = Serving(root, tmp_path / "state", store=store)

    serving.run(10)
    assert [job.id for job in store.jobs.running()] == ["j2"]
    serving.service.trim()
    serving.settle()

    assert store.jobs.running() == ()
    assert [store.jobs.find(name).result for name in ("j1", "j2")] == ["lost", "lost"]  # type: ignore[union-attr]


def test_the_last_job_is_known_after_a_restart(root: Path, tmp_path: Path) -> None:
    """A page does not say that nothing was ever done because the process is new."""
    table = copy_golden("v9", root / "orders")
    store = open_store("sqlite://", clock=SkippingClock())
    Serving(root, tmp_path / "state", store=store).run(30)

    second = Serving(root, tmp_path / "state", store=store, name="two")
    second.run(5)

    assert second.view(str(table)).state is TableState.WAITING
    status = second.status().table(str(table))
    assert status is not None and status.last_job is not None and status.last_job.result == "committed"
    assert JobKind.COMPACTION in status.last_success_at


def test_what_jobs_took_is_known_after_a_restart(root: Path, tmp_path: Path) -> None:
    """Plans are made with it. The store has it as well, with why the job was done and its seconds by phase."""
    table = str(copy_golden("v9", root / "orders"))
    store = open_store("sqlite://", clock=SkippingClock())
    first = Serving(root, tmp_path / "state", store=store)
    first.run(30)
    job = next(job for job in store.jobs.latest(table) if job.service == "compaction" and job.instant is not None)
    cost = store.jobs.costs(table, [job.id])[job.id]
    assert cost.predicted_seconds and cost.actual_seconds and cost.cpu_seconds is None, "it ran in this process"
    assert sum(cost.detail["reasons"].values()) == cost.detail["written"][job.instant] == 1
    assert {"merge", "commit", "claim"} <= cost.detail["phases"].keys()
    assert cost.detail["before"]["logs_opened"] > cost.detail["after"]["logs_opened"]
    assert costs_of(first, table) == (cost,)
    second = Serving(root, tmp_path / "state", store=store, name="two")
    second.run(5)
    assert costs_of(second, table) == (cost,)


def test_cost_is_in_shadow_first(root: Path, tmp_path: Path) -> None:
    """On a table that was serviced by the other policy: for a week, across restarts, and from the beginning again where
    the policy was changed back; then it acts. Of a table that is new it acts at once."""
    table = str(copy_golden("v9", root / "orders"))
    serving = Serving(root, tmp_path / "state")
    serving.run(30)
    by_cost = {"defaults.planner": '{ "planner.policy" = "cost", "planner.reads" = "9/day" }'}
    changed = serving.load(root, tmp_path / "state", by_cost)
    copy_golden("v9", root / "new")

    def until(of: Serving, name: str) -> float | None:
        status = of.status().table(name)
        assert status is not None
        return status.served.shadow_until

    serving.service.apply(changed)
    serving.run(70)
    began = serving.clock.now()
    found = until(serving, table)
    assert found is not None and began - 200 < found - 7 * 86400 <= began
    assert until(serving, str(root / "new")) is None
    second = Serving(root, tmp_path / "state", store=serving.store, name="two", settings=by_cost)
    second.run(5)
    assert until(second, table) == found
    serving.service.apply(serving.settings)
    serving.run(5)
    assert until(serving, table) is None
    serving.service.apply(changed)
    serving.run(5)
    again = until(serving, table)
    assert again is not None and again > found
    serving.clock.sleep(7 * 86400)
    serving.service.learn_reads()
    assert until(serving, table) is None


def test_by_cost_a_table_is_planned_after_each_commit(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no settings beside the policy a hot table is merged after its first delta commit, and after the next; not by
    the rules of RFC-103, nor while cost is in shadow, which wait for five. A calm table is looked at as often."""
    looks: list[str] = []
    plan = TablePlanner.plan

    def counted(self: TablePlanner, table: ServedTable, *given: Any) -> PlanReport:
        looks.append(table.name)
        return plan(self, table, *given)

    monkeypatch.setattr(TablePlanner, "plan", counted)
    rules = {"defaults.planner": ""}
    by_cost = {"defaults.planner": '{ "planner.policy" = "cost", "planner.reads" = "100/minute" }'}

    def one_more_log(table: Path, serving: Serving) -> None:
        write(table, [("a", 1, "p", "x")], clock=serving.clock)

    def merges(table: Path, serving: Serving) -> int:
        serving.run(90, step=5)
        return len(list((table / ".hoodie/timeline").glob("*_*.commit")))

    looks_of: dict[str, int] = {}
    for name, said in (("rules", rules), ("cost", by_cost)):
        folder = root / name
        folder.mkdir()
        table = new_table(folder / "t", has_metadata_table=False)
        serving = Serving(folder, tmp_path / name, settings=said)
        write(table, [("a", 0, "p", "x"), ("b", 0, "p", "x")], clock=serving.clock)
        one_more_log(table, serving)
        serving.clock.sleep(3600)
        found = [merges(table, serving)]
        one_more_log(table, serving)
        serving.clock.sleep(3600)
        found.append(merges(table, serving))
        assert found == ([1, 2] if said is by_cost else [0, 0])
        looks.clear()
        serving.run(3600, step=30)
        looks_of[name] = len(looks)
        if said is rules:
            serving.service.apply(serving.load(folder, tmp_path / name, by_cost))
            serving.clock.sleep(3600)
            assert merges(table, serving) == 0, "cost is in shadow"
    assert looks_of["cost"] == looks_of["rules"] > 0


def test_what_readers_read_is_known_to_plans(root: Path, tmp_path: Path) -> None:
    """From the store when the table is added, and again when the hour is over."""
    table = str(copy_golden("v9", root / "orders"))
    clock = SkippingClock()
    store = open_store("sqlite://", clock=clock)

    def read(days_ago: int, path: str = "p") -> None:
        at = clock.now() - days_ago * 86400
        store.reads.record(table, [path], requester="bi", application="a", at=at)

    for days_ago in range(4):
        read(days_ago)
    serving = Serving(root, tmp_path / "state", store=store)
    serving.run(5)
    found = serving.status().table(table)
    assert found is not None and found.served.learned is not None
    assert (found.served.learned.reads, found.served.learned.days) == (2, 2)
    read(1, "q")
    serving.service.learn_reads()
    serving.run(5)
    found = serving.status().table(table)
    assert found is not None and found.served.learned is not None and found.served.learned.reads == 3


def costs_of(serving: Serving, table: str) -> tuple[CostRecord, ...]:
    """What the daemon knows of what the table's jobs took."""
    status = serving.status().table(table)
    assert status is not None
    return status.served.costs


def test_write_amplification_is_shown_once_writers_wrote(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the bytes of writers and of the daemon over those of writers, since this daemon watches."""
    table = copy_golden("v9", root / "orders")
    serving = Serving(root, tmp_path / "state")
    serving.run(30)
    status = serving.status().table(str(table))
    assert status is not None and status.last_job is not None and status.write_amplification is None
    own = status.last_job.figures["written_bytes"]
    assert own > 0

    monkeypatch.setattr(serving.worker, "poll", lambda table: PollReport(False, None, 0.0, writer_bytes=own))
    serving.run(10)

    status = serving.status().table(str(table))
    assert status is not None and status.write_amplification == 2.0


def test_a_table_that_comes_back_while_its_old_job_ends(root: Path, tmp_path: Path) -> None:
    """Removed and added again by two reloads, it still has the lease of its first life, and is serviced again."""
    table = copy_golden("v9", tmp_path / "elsewhere/orders")
    copy_golden("v9", root / "other")
    serving = Serving(root, tmp_path / "state", named=table)
    serving.run(30)
    serving.runner.hang(Lane.JOB)
    job = Job("j1", "orders", JobKind.RECOVERY, {}, 0, 0, 0, 0, serving.clock.now() + 7200, serving.clock.now())
    serving.service._carry_out(Run(job), serving.clock.now())
    serving.service.apply(Serving.load(root, tmp_path / "state", {}))
    serving.run(5)
    assert "orders" not in serving.service.outlooks and "orders" in serving.service.held_tables

    serving.service.apply(Serving.load(root, tmp_path / "state", {}, named=table))
    serving.run(5)
    serving.runner.come_back(Lane.JOB)
    serving.run(30)

    assert serving.view("orders").state is TableState.IDLE
