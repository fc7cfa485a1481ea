"""The chart of a table's storage."""

from __future__ import annotations

import re

from lakeward.daemon.status import StorageSample
from lakeward.daemon.web.storage_chart import HEIGHT, POINTS_MAX, WIDTH, storage_chart

STATES = ("live", "dead", "orphan")


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_areas_lie_on_one_another() -> None:
    """Keeps 1 and 2 of daemon/web/storage_chart: the lower edge of each area is the upper edge of the one below."""
    chart = storage_chart(
        [
            StorageSample(0.0, {"dead": 50, "live": 50, "orphan": 0, "of-a-newer-release": 7}),
            StorageSample(30.0, {"live": 100, "dead": 100}),
            StorageSample(60.0, {"live": 100}),
        ],
        STATES,
    )
    assert chart is not None
    assert [area.state for area in chart.areas] == ["live", "dead"]
    live, dead = (points(area.path) for area in chart.areas)
    assert live[:3] == [(0, 120), (WIDTH / 2, 80), (WIDTH, 80)]
    assert live[3:] == [(WIDTH, HEIGHT), (WIDTH / 2, HEIGHT), (0, HEIGHT)]
    assert dead[:3] == [(0, 80), (WIDTH / 2, 0), (WIDTH, 80)]
    assert dead[3:] == list(reversed(live[:3]))
    assert (chart.most, chart.now) == (200, (("live", 100), ("dead", 0)))


def test_few_and_many_samples() -> None:
    """None is no chart, one is no line, and of many some are drawn, the first and the last among them."""
    assert storage_chart([], STATES) is None
    alone = storage_chart([StorageSample(5.0, {"live": 3})], STATES)
    assert alone is not None and alone.areas == () and alone.now == (("live", 3),)
    empty = storage_chart([StorageSample(5.0, {}), StorageSample(9.0, {})], STATES)
    assert empty is not None and empty.areas == ()
    many = storage_chart([StorageSample(float(n), {"live": n + 1}) for n in range(5000)], STATES)
    assert many is not None
    drawn = points(many.areas[0].path)
    assert len(drawn) == 2 * POINTS_MAX
    assert drawn[0][0] == 0 and drawn[POINTS_MAX - 1] == (WIDTH, 0)
