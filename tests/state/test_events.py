"""The log of events."""

from __future__ import annotations

from lakeward.state.records import (
    EventRecord,
)
from lakeward.state.store import Store
from tests.state.state_records import NOW


def test_events_come_newest_first(store: Store) -> None:
    """Events come page by page, of one table or of all; ids grow and are never used twice."""
    ids = [store.events.record(EventRecord(NOW + n, "parked", f"event {n}", table=f"t{n % 2}")) for n in range(4)]
    assert ids == sorted(ids)
    assert [each.text for each in store.events.latest(limit=2)] == ["event 3", "event 2"]
    assert [each.text for each in store.events.latest(limit=2, before_id=ids[2])] == ["event 1", "event 0"]
    assert [each.text for each in store.events.latest("t1")] == ["event 3", "event 1"]
