"""What the daemon shows of itself, put together from views, backlogs, jobs and the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from lakeward.config.file import load_settings
from lakeward.config.settings import Settings
from lakeward.daemon.scheduling.table_state import Hold, ParkedGroup, TableState
from lakeward.daemon.served_table import ServedTable, served_table
from lakeward.daemon.status_report import limitations, table_detail
from lakeward.services.compaction.plan.decision import Reason
from lakeward.state.records import (
    AttemptRecord,
    ControlKind,
    ControlRecord,
    CostRecord,
    DecisionRecord,
    EventRecord,
    JobRecord,
    ObservedPlan,
    ParkedRecord,
    TargetKind,
)
from lakeward.state.store import Store, open_store
from lakeward.table.backlog import GroupBacklog
from lakeward.table.file_group import FrozenGroup
from tests.clocks import SettableClock
from tests.daemon import synthetic_status as synthetic
from tests.synthetic_table import completed, file_group, minute, snapshot_of

NOW = synthetic.NOW
GROUP = ("p", "fg1")


@pytest.fixture
def store() -> Store:
    return open_store("sqlite://", clock=SettableClock(NOW))


def load(**settings: str) -> Settings:
    return load_settings(None, {}, {name.replace("__", "."): value for name, value in settings.items()})


def served(settings: Settings) -> ServedTable:
    return served_table(settings, "orders", "/data/orders", watched_since=NOW - 100)


def test_what_cannot_be_done_is_said_with_its_remedy() -> None:
    """The worst first, each with what to do; nothing where nothing is wrong."""
    silent = served(load())

    def found(**changes: object) -> list[str]:
        usual = {
            "store_problem": None,
            "spark_problem": None,
            "discovery_problems": (),
            "tables": (),
            "configured": True,
        }
        return [each.what for each in limitations(**(usual | changes))]  # type: ignore[arg-type]

    assert found() == []
    texts = found(
        store_problem="The disk is gone.",
        spark_problem="It died.",
        discovery_problems=("/lake: not there",),
        tables=(silent,),
        configured=False,
    )
    assert [text.split()[0] for text in texts] == ["The", "Spark", "1", "/lake:", "No"]
    assert "The disk is gone." in texts[0] and "It died." in texts[1]
    assert found(tables=(silent, silent))[0].startswith("2 tables are")


def test_a_detail_is_what_the_store_and_the_last_scan_know(store: Store) -> None:
    """Decisions and holds stand beside their file groups; jobs, events and plans are the table's own. What went wrong
    stands before what was said."""
    group = file_group("p", "fg1", base=(minute(1), 100), logs=[(minute(2), 10), (minute(3), 20)])
    snapshot = snapshot_of([group], [])
    store.observations.record_decisions(
        "orders", NOW - 60, None, [DecisionRecord(*GROUP, "NONE", "parked"), DecisionRecord("p", "gone", "NONE", "new")]
    )
    store.observations.record_plans(
        "orders", [ObservedPlan("20270115", "compaction", "requested", requested_at=NOW - 30)]
    )
    store.controls.park(ParkedRecord("orders", GROUP, "parked", "rows differ", 0, NOW - 10, NOW + 10))
    store.controls.park(ParkedRecord("others", GROUP, "parked", "another one", 0, NOW - 10, NOW + 10))
    store.controls.add(
        ControlRecord(ControlKind.PAUSE, TargetKind.GROUP, "default", "inventory", "anna", NOW - 1, until=NOW + 60)
    )
    store.events.record(EventRecord(NOW, "stuck", "The poll hung.", "orders"))
    store.jobs.begin(JobRecord("j1", "orders", "compaction", NOW - 9))
    store.jobs.end("j1", "committed", None, at=NOW - 5, instant="20270114", figures={"read_bytes": 3, "unknown": 1})
    cost = CostRecord(
        *("j1", "orders", "compaction", "2027-01", NOW - 5, "committed", 4.0),
        task_seconds=1.0,
        saved_seconds_a_day=86400.0,
        detail={"written": {"20270114": 1}},
    )
    store.jobs.record_cost(cost)
    again = {"detail": {"rewritten": {"20270114": 1}}}
    store.jobs.record_cost(CostRecord("n1", "orders", "compaction", "2027-01", NOW - 4.5, "committed", 1.0, **again))
    store.jobs.record_cost(CostRecord("n2", "orders", "compaction", "2027-01", NOW + 1, "committed", 1.0))
    store.jobs.begin(JobRecord("ghost", "orders", "compaction", NOW - 8))
    store.jobs.begin(JobRecord("newer", "orders", "levitation", NOW - 7, ended_at=NOW - 6, result="committed"))

    held = (
        Hold(TableState.BACKING_OFF, "Tried again: the disk does not answer.", NOW + 20),
        Hold(TableState.PAUSED, "Paused: inventory", NOW + 60),
        Hold(TableState.SHADOW, "Nothing is said about its writers."),
    )
    parked = (ParkedGroup(GROUP, "rows differ", NOW + 10),)
    status = synthetic.table(
        "orders", running=(synthetic.running_job(),), last_job=None, outlook={"holds": held, "parked_groups": parked}
    )
    detail = table_detail(status, snapshot, store, at=NOW)

    (shown,) = detail.groups
    assert (shown.partition_path, shown.file_id, shown.backlog) == (*GROUP, GroupBacklog(100, 2, 30, 0, 0))
    assert shown.decision is not None and shown.decision.reason is Reason.PARKED
    assert shown.hold is not None and shown.hold.reason == "rows differ"
    assert [(hold.kind, hold.reason, hold.by) for hold in detail.holds] == [
        ("parked", "rows differ", ""),
        ("backing-off", "Tried again: the disk does not answer.", ""),
        ("paused", "inventory", "anna"),
        ("shadow", "Nothing is said about its writers.", ""),
    ]
    assert [job.id for job in detail.table.running] == ["j2"]
    assert [job.id for job in detail.ended] == ["newer", "j1"], "also of a service that only a newer release knows"
    assert detail.ended[1].figures["read_bytes"] == 3
    assert list(detail.cards) == ["j1"] and detail.cards["j1"].rewritten_at == NOW - 4.5
    assert [(month.service, month.jobs) for month in detail.months] == [("compaction", 3)]
    assert detail.plans == (), "the snapshot has none, whatever the store remembers"
    unscanned = table_detail(status, None, store, at=NOW)
    assert [(plan.instant, plan.planned_by) for plan in unscanned.plans] == [("20270115", "another engine")]
    assert [event.text for event in detail.events] == ["The poll hung."]
    assert detail.planned_at == NOW - 60


def test_a_detail_is_of_the_moment_of_its_status(store: Store) -> None:
    """Between the status and the reads that follow it the job ends, a writer commits, a plan is made and an operator
    pauses the table. Nothing on the page contradicts anything else on it."""
    last = synthetic.job(id="j1", began_at=NOW - 90, ended_at=NOW - 80)
    status = synthetic.table("orders", TableState.RUNNING, running=(synthetic.running_job(),), last_job=last)
    later = NOW + 1
    store.jobs.begin(JobRecord("j2", "orders", "compaction", NOW - 24))
    store.jobs.end("j2", "committed", None, at=later, instant="20270115", figures={})
    store.jobs.begin(JobRecord("j3", "orders", "verification", later))
    store.jobs.end("j3", "committed", None, at=later + 1, instant=None, figures={})
    store.events.record(EventRecord(later, "stuck", "The poll hung.", "orders"))
    store.controls.add(ControlRecord(ControlKind.PAUSE, TargetKind.TABLE, "orders", "inventory", "anna", later))
    store.controls.park(ParkedRecord("orders", GROUP, "parked", "rows differ", 0, later, later + 10))
    store.observations.record_decisions(
        "orders", later, None, [DecisionRecord(*GROUP, "FULL", "log-ratio", {"log_files": 1, "log_bytes": 10})]
    )
    store.observations.record_plans("orders", [ObservedPlan("20270115", "compaction", "requested")])
    logs = [(minute(2), 10), (minute(3), 20)]
    snapshot = snapshot_of([file_group("p", "fg1", base=(minute(1), 100), logs=logs)], [])

    detail = table_detail(status, snapshot, store, at=NOW)

    assert [job.id for job in detail.table.running] == ["j2"] and [job.id for job in detail.ended] == ["j1"]
    assert detail.events == () and detail.holds == () and detail.plans == ()
    (shown,) = detail.groups
    assert shown.hold is None
    assert shown.decision is None, "it was taken on one log, and there are two"
    backlog = detail.table.backlog
    assert backlog is not None
    assert (backlog.base_bytes, backlog.log_files, backlog.log_bytes) == (100, 2, 30)
    assert detail.planned_at == NOW


@pytest.mark.parametrize(
    ("at", "shown"),
    [("2027-01-31", ["2027-01", "2026-12", "2026-11"]), ("2027-03-01", ["2027-03", "2027-02", "2027-01"])],
)
def test_a_page_has_the_costs_of_three_months(store: Store, at: str, shown: list[str]) -> None:
    """Whole months, also over the turn of a year; what ended before is not read."""
    for month in ("2026-10", "2026-11", "2026-12", "2027-01", "2027-02", "2027-03"):
        for day in ("01", "28"):
            ended_at = datetime.fromisoformat(f"{month}-{day}T00:00:00+00:00").timestamp()
            cost = CostRecord(f"{month}-{day}", "orders", "clean", month, ended_at, "committed", 1.0, 0.0)
            if f"{month}-{day}" <= at:
                store.jobs.record_cost(cost)
    now = datetime.fromisoformat(f"{at}T00:00:00+00:00").timestamp()

    months = table_detail(synthetic.table(), None, store, at=now).months

    assert [each.month for each in months] == shown
    assert [each.jobs for each in months][1:] == [2, 2]


def test_a_hold_that_the_store_has_not_got_is_shown(store: Store) -> None:
    """It was resumed in the store, or could not be written there, and the daemon still holds the table."""
    holds = (Hold(TableState.PARKED, "Parked: x", NOW + 9), Hold(TableState.PAUSED, "Paused: y", NOW + 60))
    outlook = {"holds": holds, "parked_groups": (ParkedGroup(GROUP, "z", NOW + 10),), "paused_groups": (("p", "fg2"),)}
    detail = table_detail(synthetic.table("orders", TableState.PARKED, outlook=outlook), None, store, at=NOW)

    assert [(hold.kind, hold.file_group, hold.reason, hold.since) for hold in detail.holds] == [
        ("parked", None, "Parked: x", 0.0),
        ("parked", GROUP, "z", 0.0),
        ("paused", None, "Paused: y", 0.0),
        ("paused", ("p", "fg2"), "Paused by an operator.", 0.0),
    ]


def test_the_holds_of_a_table_that_another_daemon_services(store: Store) -> None:
    """This one knows them from the store alone."""
    store.controls.park(ParkedRecord("orders", None, "parked", "five failures", 5, NOW - 10, NOW + 10))
    store.controls.add(ControlRecord(ControlKind.PAUSE, TargetKind.TABLE, "orders", "inventory", "anna", NOW - 1))
    waiting = synthetic.table(
        "orders", TableState.WAITING, outlook={"holds": (Hold(TableState.WAITING, "Not leased."),)}
    )

    found = table_detail(waiting, None, store, at=NOW).holds

    assert [(hold.kind, hold.reason) for hold in found] == [("parked", "five failures"), ("paused", "inventory")]


def test_a_detail_before_the_first_scan(store: Store) -> None:
    """There is a page, with what the configuration says."""
    detail = table_detail(synthetic.table("orders"), None, store, at=NOW)
    assert detail.groups == () and detail.planned_at is None
    assert [fact.label for fact in detail.facts] == [
        "Base path",
        "Group",
        "Metadata table",
        "Rollback",
        "Clean",
        "Clustering",
        "Archive",
        "Services",
    ]
    assert detail.facts[2].value.startswith("delta commits since its compaction 20260101000000000: 3; compacted from 6")


def test_a_decision_of_a_newer_release_is_left_out(store: Store) -> None:
    """It shares the store and may have reasons that we do not know."""
    snapshot = snapshot_of([file_group("p", "fg1", base=(minute(1), 100), logs=[])], [])
    store.observations.record_decisions("orders", NOW, None, [DecisionRecord(*GROUP, "NONE", "levitates")])
    (shown,) = table_detail(synthetic.table("orders"), snapshot, store, at=NOW).groups
    assert shown.decision is None


def test_groups_that_are_left_out_are_shown(store: Store) -> None:
    """Frozen groups and those in a partition whose name cannot be printed are shown, each with its reason, before any
    plan."""
    frozen = (
        FrozenGroup("p", "fg1", minute(1), "its newest file is unknown"),
        FrozenGroup("\\xff", "fg2", minute(2), "no UTF-8", is_nameable=False),
    )
    shown = table_detail(synthetic.table("orders"), snapshot_of([], [], frozen=frozen), store, at=NOW).groups
    reasons = {(group.partition_path, group.file_id): group.decision and group.decision.reason for group in shown}
    assert reasons == {("p", "fg1"): Reason.FROZEN, ("\\xff", "fg2"): Reason.NAMELESS}


def test_a_pause_of_another_table_holds_nothing_here(store: Store) -> None:
    """A resume holds nothing either, which stays in the store as the operator's word."""
    pause = ControlRecord(ControlKind.PAUSE, TargetKind.TABLE, "others", "inventory", "anna", NOW)
    store.controls.add(pause)
    store.controls.add(replace(pause, kind=ControlKind.RESUME, target="orders"))
    assert table_detail(synthetic.table("orders"), None, store, at=NOW).holds == ()


def test_the_timeline_says_whose_instants_are(store: Store) -> None:
    """An instant is Lakeward's where a job or an attempt of one made it; all stand in the order of their times, and a
    name that is no time is left out."""
    times = [minute(number) for number in range(1, 5)]
    store.jobs.begin(JobRecord("j1", "orders", "compaction", NOW - 9))
    store.jobs.end("j1", "committed", None, at=NOW, instant=times[1])
    store.jobs.record_attempt(AttemptRecord("j1-0", "j1", NOW - 9, times[2]))
    store.jobs.begin(JobRecord("j2", "other", "compaction", NOW - 9, instant=times[0]))
    written = [instant for each in ("00000000000001", *times) for instant in completed(each, "deltacommit")]
    snapshot = snapshot_of([], written)
    known = frozenset((times[1], times[2]))
    assert store.jobs.instants("orders", 0.0) == known

    marks = table_detail(synthetic.table("orders"), snapshot, store, at=NOW).timeline

    assert [mark.time for mark in marks] == sorted(mark.time for mark in marks)
    assert {mark.time for mark in marks} == set(times)
    assert {mark.time for mark in marks if mark.is_own} == known
    assert all(mark.state == "completed" for mark in marks)
    assert table_detail(synthetic.table("orders"), None, store, at=NOW).timeline == ()


def test_days_are_sums_of_the_jobs_that_ended_on_them(store: Store) -> None:
    """In UTC, for thirty days; what ended after the status is left out."""
    day = NOW // 86_400 * 86_400
    for number, (at, written) in enumerate(
        ((day + 1, 5), (day + 2, 7), (day - 1, 11), (day - 40 * 86_400, 13), (NOW + 1, 17))
    ):
        cost = CostRecord(f"c{number}", "orders", "compaction", "2027-01", at, "committed", 1.0, written_bytes=written)
        store.jobs.record_cost(replace(cost, cpu_seconds=2.0, saved_seconds_a_day=3.0))

    days = table_detail(synthetic.table("orders"), None, store, at=NOW).days

    assert [(each.at, each.jobs, each.written_bytes) for each in days] == [(day - 86_400, 1, 11), (day, 2, 12)]
    assert (days[1].core_seconds, days[1].saved_seconds_a_day) == (4.0, 6.0)
