"""Reads that engines report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.base.errors import NotFound, UsageError
from lakeward.base.quantities import format_iso_time
from lakeward.daemon.web.pushed_reads import PARTITIONS_MAX, PushedReads
from lakeward.services.compaction.plan.learned_reads import READ_AGE_SECONDS_MAX
from tests.clocks import SettableClock

NOW = 1_800_000_000.0
GOOD: dict[str, Any] = {"requester": "bi", "application": "dashboard-7", "table": "orders"}


class Recorded:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.pushed = PushedReads(
            base_path_of={"orders": "/lake/orders"}.get,
            not_readers=lambda name, base_path: (f"etl-{name}-*", "Hoodie*") if base_path == "/lake/orders" else (),
            record=self.record,
            clock=SettableClock(NOW),
        )

    def record(self, table: str, partitions: tuple[str, ...], *, requester: str, application: str, at: float) -> int:
        self.calls.append((table, partitions, requester, application, at))
        return len(partitions)

    def take(self, **changed: Any) -> int:
        return self.pushed.take(json.dumps({**GOOD, **changed}).encode())


def test_a_report_is_counted() -> None:
    recorded = Recorded()
    assert recorded.take() == 1
    assert recorded.take(partitions=["b", "a", "b"], time=format_iso_time(NOW - 60)) == 2
    assert recorded.calls == [
        ("orders", ("*",), "bi", "dashboard-7", NOW),
        ("orders", ("a", "b"), "bi", "dashboard-7", NOW - 60),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"application": "lakeward"},
        {"application": "Lakeward compaction"},
        {"requester": "lakeward-daemon"},
        {"application": "etl-orders-7"},
        {"requester": "ETL-orders-x"},
        {"application": "hoodieStreamer"},
    ],
)
def test_what_no_reader_asked_for_does_not_count(changed: dict[str, str]) -> None:
    """Keeps 2 of daemon/web/pushed_reads: Lakeward's own reads, and those of names that an operator gives."""
    recorded = Recorded()
    assert recorded.take(**changed) == 0
    assert recorded.calls == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"application": ""}, "application must be"),
        ({"application": None}, "would look like those of readers"),
        ({"requester": 7}, "requester must be"),
        ({"requester": "x" * 201}, "requester must be"),
        ({"table": ""}, "table must be"),
        ({"partitions": "day=1"}, "partitions must be a list"),
        ({"partitions": []}, "partitions must be a list"),
        ({"partitions": [1]}, "partitions must be a list"),
        ({"partitions": ["x"] * (PARTITIONS_MAX + 1)}, "partitions has 1001 paths"),
        ({"time": 7}, "time must be an ISO 8601 time"),
        ({"time": "today"}, "time must be an ISO 8601 time"),
        ({"time": "2026-11-21T06:00:00"}, "with its zone"),
        ({"time": format_iso_time(NOW - READ_AGE_SECONDS_MAX - 1)}, "within the last day"),
        ({"time": format_iso_time(NOW + 3600)}, "within the last day"),
        ({"files": 7}, "'files', which is no key"),
    ],
)
def test_a_report_that_is_wrong_is_refused(changed: dict[str, Any], said: str) -> None:
    """Keeps 1 of daemon/web/pushed_reads: with what is wrong, and an example."""
    recorded = Recorded()
    with pytest.raises(UsageError) as refused:
        recorded.take(**changed)
    assert said in f"{refused.value.what} {refused.value.why}"
    assert refused.value.remedy and recorded.calls == []


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"7", b"{", b'{"table": NaN'])
def test_what_is_no_report_is_refused(body: bytes) -> None:
    with pytest.raises(UsageError, match="no JSON"):
        Recorded().pushed.take(body)


def test_a_table_that_is_not_watched_is_named() -> None:
    with pytest.raises(NotFound, match="'trips'"):
        Recorded().take(table="trips")
