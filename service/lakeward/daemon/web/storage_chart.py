"""The chart of a table's storage over time: samples in, the areas of a stacked chart out, as coordinates of SVG.

Time runs from the first sample to the last, and bytes from nothing to the most that there ever was. Between two samples
the line is straight.

Touches: nothing.
Keeps:   1. the areas lie one on the other, without gaps and in the order of the states;
         2. what no sample has any bytes of is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.daemon.status import StorageSample

WIDTH, HEIGHT = 1000, 160
POINTS_MAX = 500
"""Samples that are drawn; of more, some are left out in equal steps, never the first and the last."""


@dataclass(frozen=True, slots=True)
class Area:
    state: str
    path: str
    """The `d` of an SVG path."""


@dataclass(frozen=True, slots=True)
class StorageChart:
    areas: tuple[Area, ...]
    now: tuple[tuple[str, int], ...]
    """The states that any sample has, with their bytes in the newest one."""
    first_at: float
    last_at: float
    most: int
    """Bytes at the top."""
    width: int = WIDTH
    height: int = HEIGHT


def storage_chart(samples: Sequence[StorageSample], states: Sequence[str]) -> StorageChart | None:
    """None without a sample; without areas where one alone is no line.

    Args:
        samples: oldest first.
        states: all that there are, the lowest first.
    """
    if not samples:
        return None
    newest = samples[-1]
    drawn = _thinned(samples)
    most = max(sample.total for sample in drawn)
    present = [state for state in states if any(sample.bytes.get(state) for sample in drawn)]
    span = newest.at - drawn[0].at
    areas: list[Area] = []
    if span > 0 and most > 0:
        xs = [round(WIDTH * (sample.at - drawn[0].at) / span, 1) for sample in drawn]
        below = [0] * len(drawn)
        for state in present:
            above = [low + sample.bytes.get(state, 0) for low, sample in zip(below, drawn, strict=True)]
            areas.append(Area(state, _path(xs, above, below, most)))
            below = above
    now = tuple((state, newest.bytes.get(state, 0)) for state in present)
    return StorageChart(tuple(areas), now, drawn[0].at, newest.at, most)


def _thinned(samples: Sequence[StorageSample]) -> list[StorageSample]:
    if len(samples) <= POINTS_MAX:
        return list(samples)
    last = len(samples) - 1
    return [samples[number * last // (POINTS_MAX - 1)] for number in range(POINTS_MAX)]


def _path(xs: Sequence[float], above: Sequence[int], below: Sequence[int], most: int) -> str:
    def points(values: Sequence[int]) -> list[str]:
        return [f"{x:g} {round(HEIGHT * (1 - value / most), 1):g}" for x, value in zip(xs, values, strict=True)]

    return f"M{' L'.join([*points(above), *reversed(points(below))])}Z"
