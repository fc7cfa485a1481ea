"""The store as a whole: its identity, its schema, what it trims."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from lakeward.base.errors import LakewardError
from lakeward.base.quantities import DAY_SECONDS
from lakeward.state.records import (
    AttemptRecord,
    CostRecord,
    EventRecord,
    JobRecord,
    Retention,
    StorageRecord,
)
from lakeward.state.store import Store, open_store
from tests.clocks import SettableClock
from tests.state.state_records import NOW, pause


def test_the_store_knows_who_it_is(store: Store, open_again: Callable[[], Store]) -> None:
    """Its id is made with the database, and the same for everybody who opens it."""
    assert len(store.store_id()) == 32
    assert open_again().store_id() == store.store_id()


def test_trim_keeps_what_counts(store: Store, url: str, clock: SettableClock) -> None:
    """Keeps 1 of state/store: old events, jobs and controls go, by age and by number; what runs or is in force
    stays."""
    for n in range(6):
        store.events.record(EventRecord(NOW + n, "k", str(n)))
        store.jobs.begin(JobRecord(f"j{n}", "orders", "compaction", NOW + n))
        store.jobs.record_attempt(AttemptRecord(f"a{n}", f"j{n}", NOW + n))
        store.jobs.record_cost(CostRecord(f"j{n}", "orders", "compaction", "2027-01", NOW + n, "committed", 1.0))
        if n:
            store.jobs.end(f"j{n}", "done", None, at=NOW + n)
    store.controls.add(pause(until=NOW + 1))
    kept = store.controls.add(pause("other"))

    small = Retention(event_rows=3, job_rows=2, event_days=1, job_days=1, control_days=1, cost_days=5, cost_rows=4)
    trimming = open_store(url, clock=clock, retention=small)
    trimming.trim(NOW + 6)
    assert [each.text for each in store.events.latest()] == ["5", "4", "3"]
    assert [each.id for each in store.jobs.latest()] == ["j5", "j4", "j0"]
    assert [each.job_id for each in store.jobs.costs_since("orders", 0)] == ["j2", "j3", "j4", "j5"]

    trimmed = trimming.trim(NOW + 3 * DAY_SECONDS)
    assert trimmed.rows["events"] == 3
    assert trimmed.rows["applied_writes"] > 20
    assert [each.id for each in store.jobs.latest()] == ["j0"]
    assert store.jobs.attempts("j0") and not store.jobs.attempts("j5")
    assert store.jobs.costs("orders", ["j5"]), "sums of months outlive jobs"
    assert trimming.trim(NOW + 6 * DAY_SECONDS).rows["job_costs"] == 4
    assert [each.id for each in store.controls.in_force(NOW)] == [kept]
    trimming.close()


def test_a_store_in_memory_needs_no_migration(clock: SettableClock) -> None:
    """It ends with its process, and several threads may use it."""
    store = open_store("sqlite://", clock=clock)
    thread = threading.Thread(target=lambda: store.events.record(EventRecord(NOW, "k", "text")))
    thread.start()
    thread.join()
    assert len(store.events.latest()) == 1
    store.close()


def test_an_open_store_needs_its_schema(empty_url: str, clock: SettableClock) -> None:
    """The error says how to get it where there is none."""
    with pytest.raises(LakewardError, match="lakeward state migrate"):
        open_store(empty_url, clock=clock)


def test_samples_of_storage_grow_thinner_with_age(store: Store) -> None:
    """Every ten minutes for a day, then once an hour, then once a day, the newest of each; tables do not thin each
    other; at last they go. A sample of the same ten minutes is replaced."""
    days = NOW // DAY_SECONDS * DAY_SECONDS
    old = 20 * DAY_SECONDS - 10_800

    def record(table: str, at: float, live: int = 1) -> None:
        store.observations.record_storage(table, StorageRecord(at, {"live": live}))

    for ago in (0, 600, 1200, 100_000, 100_600, old, old + 7200, 500 * DAY_SECONDS):
        record("orders", days - ago)
    record("orders", days - 1199, 2)
    record("trips", days - 100_601)

    store.trim(days + 1)

    kept = store.observations.storage("orders")
    assert [days - each.at for each in kept] == [old, 100_000, 1199, 600, 0]
    assert [each.bytes["live"] for each in kept] == [1, 1, 2, 1, 1]
    assert [days - each.at for each in store.observations.storage("trips")] == [100_601]
    store.observations.watch("trips", "/elsewhere", NOW)
    store.observations.watch("trips", "/moved", NOW)
    assert store.observations.storage("trips") == ()
