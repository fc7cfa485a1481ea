"""What goes into the store comes out of it, once, whoever asks and however often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from lakeward.errors import LakewardError
from lakeward.state.records import (
    AttemptRecord,
    ControlKind,
    ControlRecord,
    DaemonRecord,
    DecisionRecord,
    EventRecord,
    JobRecord,
    ObservedOperation,
    ObservedPlan,
    ParkedRecord,
    Planning,
    Retention,
    TargetKind,
)
from lakeward.state.store import DAY_SECONDS, TEXT_LENGTH_MAX, Store, open_store
from tests.clocks import SettableClock

NOW = 1_800_000_000.0


def pause(target: str = "orders", **changes: object) -> ControlRecord:
    control = ControlRecord(ControlKind.PAUSE, TargetKind.TABLE, target, "maintenance", "ada", NOW)
    return replace(control, **changes)  # type: ignore[arg-type]


def decision(file_id: str, choice: str = "FULL", **changes: object) -> DecisionRecord:
    record = DecisionRecord("day=1", file_id, choice, "log-ratio", {"log_bytes": 7, "ratio": 0.5})
    return replace(record, **changes)  # type: ignore[arg-type]


def plan(instant: str, state: str = "requested") -> ObservedPlan:
    operations = tuple(ObservedOperation("day=1", f"fg{n}", "FULL", "001", 3, 5_000_000_000, 7) for n in range(2))
    return ObservedPlan(instant, "compaction", state, operations, NOW, "lakeward", "lakeward", "store")


def test_the_store_knows_who_it_is(store: Store, open_again: Callable[[], Store]) -> None:
    """Its id is made with the database, and the same for everybody who opens it."""
    assert len(store.store_id()) == 32
    assert open_again().store_id() == store.store_id()


def test_a_watched_table_remembers_since_when(store: Store) -> None:
    """Watching again keeps the first time; another base path is another table, and nothing seen is left."""
    store.watch("orders", "/lake/orders", NOW)
    store.record_decisions("orders", NOW, None, [decision("fg1")])
    assert store.watch("orders", "/lake/orders", NOW + 9).first_watched_at == NOW
    assert [(table.first_watched_at, table.seen_at) for table in store.tables()] == [(NOW, NOW + 9)]
    assert store.decisions("orders")

    assert store.watch("orders", "/lake/orders2", NOW + 10).first_watched_at == NOW + 10
    assert store.decisions("orders") == ()

    store.forget("orders")
    assert store.tables() == ()


def test_only_decisions_that_changed_are_written(store: Store) -> None:
    """An unchanged decision keeps the time since which it reads like this; a group that vanished goes."""
    store.record_decisions("orders", NOW, "t1", [decision("fg1"), decision("fg2"), decision("fg3")])
    store.record_decisions("other", NOW, None, [decision("fg1")])
    changed = decision("fg2", "NONE", instead_of="FULL", instant="t0", numbers={"log_bytes": 8})
    store.record_decisions("orders", NOW + 5, None, [decision("fg1"), changed])

    assert store.decisions("orders") == (decision("fg1", decided_at=NOW), replace(changed, decided_at=NOW + 5))
    assert store.decisions("orders", limit=1, offset=1) == (replace(changed, decided_at=NOW + 5),)
    assert store.planning("orders") == Planning("orders", NOW + 5, None, 2)
    assert len(store.decisions("other")) == 1
    assert store.planning("nobody") is None


def test_observed_plans_are_those_of_the_timeline(store: Store) -> None:
    """With their operations; one that moved on is replaced, one that is gone goes."""
    store.record_observed_plans("orders", [plan("t1"), plan("t2")])
    store.record_observed_plans("other", [plan("t1")])
    assert store.observed_plans("orders") == (plan("t1"), plan("t2"))

    store.record_observed_plans("orders", [plan("t2", "inflight"), plan("t3")])
    assert store.observed_plans("orders") == (plan("t2", "inflight"), plan("t3"))
    assert store.observed_plans("other") == (plan("t1"),)


def test_the_life_of_a_job(store: Store) -> None:
    """Begun once, ended once: what comes later changes nothing."""
    job = JobRecord("j1", "orders", "compaction", NOW, holder="h", token=1 << 41, operations=2, read_bytes=1 << 40)
    store.begin_job(job)
    store.begin_job(replace(job, service="again"))
    store.begin_job(JobRecord("j2", "other", "compaction", NOW + 1))
    attempt = AttemptRecord("a1", "j1", NOW + 1, holder="h")
    store.begin_attempt(attempt)
    assert store.running_jobs("h") == (job,)

    store.end_attempt("a1", "failed", "disk", at=NOW + 2)
    store.end_job("j1", "failed", "disk", at=NOW + 2, instant="t9", figures={"rows": 3})
    store.end_job("j1", "done", None, at=NOW + 3)

    ended = replace(job, ended_at=NOW + 2, result="failed", error="disk", instant="t9", figures={"rows": 3})
    assert store.job("j1") == ended
    assert store.jobs("orders") == (ended,)
    assert [each.id for each in store.jobs()] == ["j2", "j1"]
    assert [each.id for each in store.running_jobs()] == ["j2"]
    assert store.attempts("j1") == (replace(attempt, ended_at=NOW + 2, result="failed", error="disk"),)


def test_controls_survive_a_restart_and_expire(store: Store, open_again: Callable[[], Store]) -> None:
    """They hold until their time, and for whoever opens the store next."""
    first = store.add_control(pause(until=NOW + 60))
    second = store.add_control(pause("orders", target_kind=TargetKind.FILE_GROUP, file_group=("", "fg1")))
    assert first < second
    assert [control.id for control in open_again().controls(NOW)] == [first, second]
    assert [control.file_group for control in store.controls(NOW + 61)] == [("", "fg1")]


def test_a_pause_replaces_the_one_before(store: Store) -> None:
    """Of the same target; a file group's is not its table's."""
    store.add_control(pause(reason="first"))
    store.add_control(pause(target_kind=TargetKind.FILE_GROUP, file_group=("p", "fg1"), reason="group"))
    store.add_control(pause(reason="second"))
    store.add_control(pause("orders", target_kind=TargetKind.GROUP, reason="a group of tables with that name"))
    assert {control.reason for control in store.controls(NOW)} == {
        "group",
        "second",
        "a group of tables with that name",
    }


def test_a_resume_ends_the_pause_and_takes_back_what_is_parked(store: Store) -> None:
    """It stays in force itself, because it is also the operator's word about what was seen before it."""
    store.add_control(pause())
    store.add_control(pause("other"))
    for group in (None, ("p", "fg1")):
        store.park(ParkedRecord("orders", group, "failed", "too often", 5, NOW))
    store.park(ParkedRecord("other", ("p", "fg1"), "failed", "too often", 5, NOW))
    store.park(ParkedRecord("other", ("p", "fg2"), "failed", "too often", 5, NOW))

    store.add_control(pause(kind=ControlKind.RESUME))
    again = store.add_control(pause(kind=ControlKind.RESUME, at=NOW + 1))
    store.add_control(
        pause("other", kind=ControlKind.RESUME, target_kind=TargetKind.FILE_GROUP, file_group=("p", "fg1"))
    )

    in_force = store.controls(NOW + 1)
    assert [(each.kind, each.target) for each in in_force] == [
        (ControlKind.PAUSE, "other"),
        (ControlKind.RESUME, "orders"),
        (ControlKind.RESUME, "other"),
    ]
    assert in_force[1].id == again
    # A file group stays parked when its table is resumed, as in the scheduler: it has a reason of its own.
    assert [(each.table, each.file_group) for each in store.parked(NOW)] == [
        ("orders", ("p", "fg1")),
        ("other", ("p", "fg2")),
    ]


def test_a_cancel_waits_for_a_daemon(store: Store) -> None:
    """It is in force until somebody has done it; the first outcome counts."""
    asked = store.add_control(pause(kind=ControlKind.CANCEL))
    assert [control.kind for control in store.controls(NOW)] == [ControlKind.CANCEL]
    store.end_control(asked, "cancelled job j1", at=NOW + 1)
    store.end_control(asked, "too late", at=NOW + 2)
    assert store.controls(NOW) == ()


def test_what_is_parked_comes_back_by_itself(store: Store) -> None:
    """At its time; parking again replaces what stood there."""
    parked = ParkedRecord("orders", ("", "fg1"), "failed", "five times", 5, NOW, NOW + 60)
    store.park(replace(parked, reason="four times"))
    store.park(parked)
    store.park(replace(parked, file_group=None))
    assert store.parked(NOW) == (replace(parked, file_group=None), parked)
    assert store.parked(NOW + 61) == ()

    store.unpark("orders")
    assert store.parked(NOW) == (parked,)
    store.park(replace(parked, file_group=None))
    store.unpark("orders", ("", "fg1"))
    assert store.parked(NOW) == (replace(parked, file_group=None),)


def test_events_come_newest_first(store: Store) -> None:
    """By page, of one table or of all; ids grow and are never used twice."""
    ids = [store.record_event(EventRecord(NOW + n, "parked", f"event {n}", table=f"t{n % 2}")) for n in range(4)]
    assert ids == sorted(ids)
    assert [each.text for each in store.events(limit=2)] == ["event 3", "event 2"]
    assert [each.text for each in store.events(limit=2, before_id=ids[2])] == ["event 1", "event 0"]
    assert [each.text for each in store.events("t1")] == ["event 3", "event 1"]


def test_strange_text_is_stored(store: Store) -> None:
    """Names come from file systems and errors from anywhere: NUL and half a surrogate pair do not break a write."""
    odd = "a\x00b\udc80ü"
    store.record_event(EventRecord(NOW, "failed", odd, table=odd, file_group=(odd, "fg"), fields={odd: float("nan")}))
    store.record_decisions("orders", NOW, None, [decision("fg1", partition_path=odd)])
    store.record_decisions("orders", NOW + 1, None, [decision("fg1", partition_path=odd)])
    (event,) = store.events()
    assert event.text == "a\\x00b\\udc80ü"
    assert store.decisions("orders")[0].decided_at == NOW
    store.end_job("none", "failed", "x" * 100_000, at=NOW)
    store.record_event(EventRecord(NOW, "failed", "y" * 100_000))
    assert len(store.events()[0].text) == TEXT_LENGTH_MAX


def test_daemons_that_live(store: Store, clock: SettableClock) -> None:
    """Those that beat lately, and have not left."""
    daemon = DaemonRecord("host:1", "lakeward", "0.1", NOW, "127.0.0.1:8490")
    store.beat(daemon, clock.now())
    store.beat(replace(daemon, holder="host:2"), clock.now())
    assert [(each.holder, each.version, each.address) for each in store.daemons(clock.now())] == [
        ("host:1", "0.1", "127.0.0.1:8490"),
        ("host:2", "0.1", "127.0.0.1:8490"),
    ]
    store.leave("host:2")
    assert [each.holder for each in store.daemons(clock.now())] == ["host:1"]
    assert store.daemons(clock.now(), within=-1) == ()


def test_trim_keeps_what_counts(store: Store, url: str, clock: SettableClock) -> None:
    """Old events, jobs and controls go, by age and by number; what runs or is in force stays."""
    for n in range(6):
        store.record_event(EventRecord(NOW + n, "k", str(n)))
        store.begin_job(JobRecord(f"j{n}", "orders", "compaction", NOW + n))
        store.begin_attempt(AttemptRecord(f"a{n}", f"j{n}", NOW + n))
        if n:
            store.end_job(f"j{n}", "done", None, at=NOW + n)
    store.add_control(pause(until=NOW + 1))
    kept = store.add_control(pause("other"))

    small = Retention(event_rows=3, job_rows=2, event_days=1, job_days=1, control_days=1)
    trimming = open_store(url, clock=clock, retention=small)
    trimming.trim(NOW + 6)
    assert [each.text for each in store.events()] == ["5", "4", "3"]
    assert [each.id for each in store.jobs()] == ["j5", "j4", "j0"]

    trimmed = trimming.trim(NOW + 3 * DAY_SECONDS)
    assert trimmed.rows["events"] == 3
    assert trimmed.rows["applied_writes"] > 20
    assert [each.id for each in store.jobs()] == ["j0"]
    assert store.attempts("j0") and not store.attempts("j5")
    assert [each.id for each in store.controls(NOW)] == [kept]
    trimming.close()


def test_clearing_keeps_what_no_timeline_tells(store: Store) -> None:
    """Controls, parked groups, leases, events and our own jobs stay; what was observed goes."""
    store.watch("orders", "/lake/orders", NOW)
    store.record_decisions("orders", NOW, None, [decision("fg1")])
    store.record_observed_plans("orders", [plan("t1")])
    store.begin_job(JobRecord("timeline:orders:t1", "orders", "compaction", NOW, from_timeline=True))
    store.begin_job(JobRecord("j1", "orders", "compaction", NOW))
    store.add_control(pause())
    store.park(ParkedRecord("orders", None, "failed", "often", 5, NOW))
    lease = store.acquire_lease("orders", "h", 60, NOW)

    store.clear_observations()
    assert store.decisions("orders") == () and store.observed_plans("orders") == () and store.planning("orders") is None
    assert [job.id for job in store.jobs()] == ["j1"]
    assert store.controls(NOW) and store.parked(NOW) and store.tables()
    assert lease is not None and store.renew_leases([lease], 60, NOW)


def test_many_threads_write_at_once(store: Store, open_again: Callable[[], Store]) -> None:
    """Every write arrives once, from the threads of two processes' worth of stores."""
    other = open_again()
    errors: list[LakewardError] = []

    def write(to: Store, number: int) -> None:
        try:
            for n in range(8):
                to.record_event(EventRecord(NOW, "k", f"{number}.{n}"))
                to.record_decisions(f"t{number}", NOW + n, None, [decision("fg1", numbers={"n": n})])
        except LakewardError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(each, n)) for n, each in enumerate((store, other) * 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(event.text for event in store.events(limit=1000)) == sorted(
        f"{number}.{n}" for number in range(6) for n in range(8)
    )


def test_operations_are_reported(url: str, clock: SettableClock) -> None:
    """For metrics: name, seconds and outcome of each."""
    seen: list[tuple[str, str]] = []
    store = open_store(url, clock=clock, on_operation=lambda name, seconds, outcome: seen.append((name, outcome)))
    store.controls(NOW)
    store.forget("x")
    store.close()
    assert seen == [("controls", "ok"), ("forget", "ok")]


def test_a_store_in_memory_needs_no_migration(clock: SettableClock) -> None:
    """It ends with its process, and several threads may use it."""
    store = open_store("sqlite://", clock=clock)
    thread = threading.Thread(target=lambda: store.record_event(EventRecord(NOW, "k", "text")))
    thread.start()
    thread.join()
    assert len(store.events()) == 1
    store.close()


def test_an_open_store_needs_its_schema(empty_url: str, clock: SettableClock) -> None:
    """Without it, the error says how to get it."""
    with pytest.raises(LakewardError, match="lakeward state migrate"):
        open_store(empty_url, clock=clock)
