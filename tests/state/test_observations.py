"""What was seen of a table: known since when, decisions, plans."""

from __future__ import annotations

from dataclasses import replace

from lakeward.state.records import (
    JobRecord,
    ParkedRecord,
    Planning,
)
from lakeward.state.store import Store
from tests.state.state_records import NOW, decision, pause, plan


def test_a_watched_table_remembers_since_when(store: Store) -> None:
    """Keeps 2 of state/observations: watching again keeps the first time; another base path is another table, and
    nothing seen is left."""
    store.observations.watch("orders", "/lake/orders", NOW)
    store.observations.record_decisions("orders", NOW, None, [decision("fg1")])
    assert store.observations.watch("orders", "/lake/orders", NOW + 9).since == NOW
    assert store.observations.tables() == {"orders": "/lake/orders"}
    assert (store.observations.base_path("orders"), store.observations.base_path("other")) == ("/lake/orders", None)
    assert store.observations.decisions("orders")

    assert store.observations.watch("orders", "/lake/orders2", NOW + 10).since == NOW + 10
    assert store.observations.decisions("orders") == ()


def test_it_is_known_since_when_a_table_is_to_go_by_cost(store: Store) -> None:
    """A table that was decided about otherwise before has the first time that it was to; others have always been. The
    time goes with that policy, and with another base path."""

    def since(at: float, *, by_cost: bool = True, table: str = "orders") -> float | None:
        return store.observations.cost_since(table, at, by_cost=by_cost, reasons=["pays-back"])

    for table in ("orders", "new", "old"):
        store.observations.watch(table, f"/lake/{table}", NOW)
    store.observations.record_decisions("orders", NOW, None, [decision("fg1"), decision("fg2")])
    store.observations.record_decisions("old", NOW, None, [decision("fg1"), decision("fg2", reason="pays-back")])
    assert since(NOW, by_cost=False) is None
    assert since(NOW + 1) == since(NOW + 2) == NOW + 1
    assert since(NOW, table="new") == since(NOW, table="old") == 0
    assert since(NOW, table="unknown") is None
    assert since(NOW + 3, by_cost=False) is None
    assert since(NOW + 4) == NOW + 4
    store.observations.watch("orders", "/lake/orders", NOW + 5)
    assert since(NOW + 5) == NOW + 4, "watching again changes nothing"
    store.observations.watch("orders", "/lake/orders2", NOW + 6)
    assert since(NOW + 6) == 0


def test_only_decisions_that_changed_are_written(store: Store) -> None:
    """Keeps 1 of state/observations: an unchanged decision keeps the time since which it reads like this; a group
    that vanished goes."""
    store.observations.record_decisions("orders", NOW, "t1", [decision("fg1"), decision("fg2"), decision("fg3")])
    store.observations.record_decisions("other", NOW, None, [decision("fg1")])
    changed = decision("fg2", "NONE", instead_of="FULL", instant="t0", numbers={"log_bytes": 8})
    store.observations.record_decisions("orders", NOW + 5, None, [decision("fg1"), changed])

    assert store.observations.decisions("orders") == (
        decision("fg1", decided_at=NOW, chosen_at=NOW),
        replace(changed, decided_at=NOW + 5, chosen_at=NOW + 5),
    )
    assert store.observations.decisions("orders", limit=1, offset=1) == (
        replace(changed, decided_at=NOW + 5, chosen_at=NOW + 5),
    )
    assert store.observations.decided("orders") == (
        Planning("orders", NOW + 5, None, 2),
        store.observations.decisions("orders"),
    )
    assert len(store.observations.decisions("other")) == 1
    assert store.observations.decided("unknown") == (None, ())


def test_observed_plans_are_those_of_the_timeline(store: Store) -> None:
    """They have their operations; one that moved on is replaced, one that is gone goes."""
    store.observations.record_plans("orders", [plan("t1"), plan("t2")])
    store.observations.record_plans("other", [plan("t1")])
    assert store.observations.plans("orders") == (plan("t1"), plan("t2"))

    store.observations.record_plans("orders", [plan("t2", "inflight"), plan("t3")])
    assert store.observations.plans("orders") == (plan("t2", "inflight"), plan("t3"))
    assert store.observations.plans("other") == (plan("t1"),)


def test_clearing_keeps_what_no_timeline_says(store: Store) -> None:
    """Controls, parked groups, leases, events and our own jobs stay; what was observed goes."""
    store.observations.watch("orders", "/lake/orders", NOW)
    store.observations.record_decisions("orders", NOW, None, [decision("fg1")])
    store.observations.record_plans("orders", [plan("t1")])
    store.jobs.begin(JobRecord("timeline:orders:t1", "orders", "compaction", NOW, from_timeline=True))
    store.jobs.begin(JobRecord("j1", "orders", "compaction", NOW))
    store.controls.add(pause())
    store.controls.park(ParkedRecord("orders", None, "failed", "often", 5, NOW))
    lease = store.leases.acquire("orders", "h", 60, NOW)

    store.observations.clear(NOW + 1)
    assert (
        store.observations.decisions("orders") == ()
        and store.observations.plans("orders") == ()
        and store.observations.decided("orders") == (None, ())
    )
    assert [job.id for job in store.jobs.latest()] == ["j1"]
    assert store.controls.in_force(NOW) and store.controls.parked(NOW) and store.observations.tables()
    assert lease is not None and store.leases.renew([lease], 60, NOW)
