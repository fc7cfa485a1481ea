"""Days beside Hudi's default in the store, and the view of their sums, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.base.quantities import DAY_SECONDS
from lakeward.state.records import ComparedDay, Retention
from lakeward.state.store import Store, open_store
from tests.clocks import SkippingClock
from tests.state.test_views import ask

FIRST = 20_818
"""2026-12-31."""
A_DAY = ComparedDay(
    *("orders", FIRST, 5.0),
    written_bytes=5_000_000_000,
    hudi_written_bytes=50_000_000_000,
    job_seconds=4.0,
    hudi_job_seconds=40.0,
    reader_seconds=1.0,
    hudi_reader_seconds=0.5,
    storage_bytes=100.0,
    hudi_storage_bytes=200.0,
    real_bytes=1000,
    modelled_bytes=1100,
    carried={"merged_at": 7, "inserted": 1, "updated": 2, "grown": 3},
)


def test_months_are_sums_of_days(store: Store) -> None:
    """Keeps of state/compared_days: a day that is compared again replaces itself. Months are those of UTC, and a day of
    which nothing is known is counted apart. Nothing is said to be saved where the replay is off by more than 15%."""
    days = store.compared_days
    for number in range(3):
        days.record(replace(A_DAY, day=FIRST + number))
    days.record(replace(A_DAY, day=FIRST + 2, modelled_bytes=1120))
    days.record(ComparedDay("orders", FIRST + 3, 6.0, problem="It broke."))
    days.record(replace(A_DAY, table="others", modelled_bytes=2000))
    january, december, other = days.months()
    assert [(each.table, each.month, each.days, each.unknown_days) for each in (january, december, other)] == [
        *(("orders", "2027-01", 2, 1), ("orders", "2026-12", 1, 0), ("others", "2026-12", 1, 0)),
    ]
    assert (january.written_bytes, january.hudi_written_bytes) == (10_000_000_000, 100_000_000_000)
    assert (january.core_seconds, january.hudi_core_seconds, january.saved_seconds) == (10.0, 81.0, 71.0)
    assert (january.storage_bytes, january.hudi_storage_bytes) == (100.0, 200.0)
    assert january.replay.factor == 1.11 and january.replay.is_close
    assert other.replay.factor == 2.0 and other.saved_seconds is None
    assert days.months("others") == (other,) and days.months("orders", since=(FIRST + 1) * DAY_SECONDS) == (january,)
    assert days.newest(["orders", "others", "none"]) == {
        "orders": ComparedDay("orders", FIRST + 3, 6.0, problem="It broke."),
        "others": replace(A_DAY, table="others", modelled_bytes=2000),
    }


def test_readers_of_whom_a_day_says_nothing(store: Store) -> None:
    """Only jobs are compared where partitions have several read rates on a day of the month."""
    store.compared_days.record(A_DAY)
    store.compared_days.record(replace(A_DAY, day=FIRST - 1, reader_seconds=None, hudi_reader_seconds=None))
    (month,) = store.compared_days.months()
    assert (month.reader_seconds, month.core_seconds, month.saved_seconds) == (None, 8.0, 72.0)


def test_the_view_has_the_same_sums(url: str, store: Store) -> None:
    """One definition: what `lakeward costs` shows, and integers stay integers."""
    for number in range(3):
        store.compared_days.record(replace(A_DAY, day=FIRST + number))
    store.compared_days.record(ComparedDay("orders", FIRST + 3, 6.0, problem="It broke."))
    store.compared_days.record(replace(A_DAY, table="x", reader_seconds=None, hudi_reader_seconds=None))
    found = ask(url, "SELECT * FROM lakeward_beside_hudi ORDER BY month DESC, table_name")
    assert [tuple(row.values()) for row in found] == [
        (
            *(each.month, each.table, each.days, each.unknown_days, each.written_bytes, each.hudi_written_bytes),
            *(each.job_seconds, each.hudi_job_seconds, each.reader_seconds, each.hudi_reader_seconds),
            *(each.storage_bytes, each.hudi_storage_bytes, each.counted_bytes, each.modelled_bytes),
        )
        for each in store.compared_days.months()
    ]
    assert all(isinstance(row["written_bytes"], int) for row in found)


@pytest.mark.parametrize("days_later", [399, 401])
def test_days_go_with_the_costs_of_jobs(url: str, store: Store, days_later: int) -> None:
    """Days are kept as long as these, and go with a table that moved."""
    store.compared_days.record(A_DAY)
    now = (FIRST + days_later) * DAY_SECONDS
    trimming = open_store(url, clock=SkippingClock(), retention=Retention())
    assert trimming.trim(now).rows.get("compared_days", 0) == (1 if days_later > 400 else 0)
    trimming.close()
    store.observations.watch("orders", "/a", 1.0)
    store.observations.watch("orders", "/b", 2.0)
    assert store.compared_days.months() == ()
