from __future__ import annotations

import threading

from lakeward.base.errors import StoreUnavailable
from lakeward.daemon.fleet_month import FRESH_SECONDS, FleetMonth
from lakeward.state.records import MonthlyCost
from tests.clocks import SettableClock
from tests.daemon.synthetic_status import NOW


def cost(table: str, jobs: int) -> MonthlyCost:
    return MonthlyCost(table, "compaction", "2027-01", jobs, 0, 10.0, 0.0, 1, 2, None, 3.0, None)


def settle() -> None:
    for thread in threading.enumerate():
        if thread.name == "lakeward-month":
            thread.join(20)


def test_the_month_is_summed_now_and_then_and_no_reader_waits():
    """From the first of the month on; while the sum is made, and where the store is away, readers have the last one."""
    clock, asked = SettableClock(NOW), list[float]()
    answers: list[object] = [[cost("a", 2), cost("b", 3)], StoreUnavailable("away"), []]
    may_answer = threading.Event()

    def costs_since(since: float) -> list[MonthlyCost]:
        asked.append(since)
        assert may_answer.wait(20)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, list)
        return answer

    month = FleetMonth(costs_since, clock)
    assert month.read() is None and month.read() is None
    may_answer.set()
    settle()
    total = month.read()
    assert asked == [1_798_761_600.0], "2027-01-01, once"
    assert total is not None and (total.jobs, total.core_seconds, total.month) == (5, 6.0, "2027-01")
    for kept in (total, None):
        clock.sleep(FRESH_SECONDS)
        month.read()
        settle()
        assert month.read() == kept
