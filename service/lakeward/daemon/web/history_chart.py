"""Numbers over time, as coordinates of SVG: a line with what lies under it, and bars of days.

Values run from nothing to the most that there is, so that two charts below each other are read alike.

Touches: nothing.
Keeps:   a value of nothing is at the bottom, and the most at the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 90


@dataclass(frozen=True, slots=True)
class Curve:
    line: str
    """The `d` of an SVG path; empty for one value alone."""
    area: str
    first_at: float
    last_at: float
    most: float
    last: float
    width: int = WIDTH
    height: int = HEIGHT


def curve(values: Sequence[tuple[float, float]], *, width: int = WIDTH, height: int = HEIGHT) -> Curve | None:
    """None without a value.

    Args:
        values: times and values, oldest first.
    """
    if not values:
        return None
    (first_at, _), (last_at, last) = values[0], values[-1]
    most, span = max(value for _, value in values), last_at - first_at
    if span <= 0:
        return Curve("", "", first_at, last_at, most, last, width, height)
    points = [
        f"{round(width * (at - first_at) / span, 1):g} {round(height * (1 - (value / most if most else 0)), 1):g}"
        for at, value in values
    ]
    line = f"M{' L'.join(points)}"
    return Curve(line, f"{line} L{width} {height} L0 {height}Z", first_at, last_at, most, last, width, height)


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float
    y: float
    height: float
    day: str
    value: float


def bars(days: Sequence[tuple[str, float]], *, width: int = WIDTH, height: int = HEIGHT) -> tuple[Bar, ...]:
    """A bar for each day, with a gap after it; a day with anything at all is to be seen."""
    most = max((value for _, value in days), default=0.0)
    step = width / max(1, len(days))
    found = []
    for number, (day, value) in enumerate(days):
        tall = max(1.0 if value else 0.0, height * value / most) if most else 0.0
        size = (round(step * number, 1), round(step * 0.8, 1), round(height - tall, 1), round(tall, 1))
        found.append(Bar(*size, day, value))
    return tuple(found)
