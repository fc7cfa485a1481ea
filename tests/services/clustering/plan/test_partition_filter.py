"""Which partitions are looked at, as text."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.services.clustering.plan.partition_filter import PartitionFilter

DAYS = [f"2026-01-{day:02}" for day in range(1, 31)]


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ({}, DAYS),
        ({"recent": 2}, DAYS[-2:]),
        ({"recent": 2, "skipped": 1}, DAYS[-3:-1]),
        ({"recent": 50, "skipped": 29}, DAYS[:1]),
        ({"begin": DAYS[3], "end": DAYS[5]}, DAYS[3:6]),
        ({"begin": DAYS[28]}, DAYS[28:]),
        ({"named": {DAYS[7], "elsewhere"}}, [DAYS[7]]),
        ({"pattern": "2026-01-1."}, DAYS[9:19]),
        ({"pattern": "01"}, []),
        ({"hour": 4}, [DAYS[4], DAYS[28]]),
        ({"hour": 23}, [DAYS[23]]),
    ],
)
def test_partitions(said: dict[str, Any], chosen: list[str]) -> None:
    assert sorted(PartitionFilter(**said).choose(DAYS)) == chosen


def test_a_day_of_hours_comes_to_all_of_them_once() -> None:
    found = [path for hour in range(24) for path in PartitionFilter(hour=hour).choose(DAYS)]
    assert sorted(found) == DAYS
