"""How far the planner's model of what a merge takes is off on a table, as its jobs show.

    price = the median of what jobs took over what the model said of them, `AT_FIRST` times 1 counted among them, or
            the price that an operator says

What a byte takes depends on the rows far more than on the machine, so each table has a price of its own. It follows
slowly: a few jobs do not move it far, and one that was far off does not move it at all.

Where jobs go on taking `OFF` times what was predicted at the price of their time, or less than that part of it, for a
day, the model does not hold of the table, and what pays is not asked there. A job that is predicted well ends that.

Touches: nothing.
Keeps:   1. the price is between 1 / `PRICE_MAX` and `PRICE_MAX`, and that of the beginning until jobs show another;
         2. a table is off only where all jobs of its last day or more are, and they are `OFF_JOBS` or more.
See:     docs/decisions/0173-prices-follow-jobs.md
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.cost import operation_seconds

JOBS_MAX = 50
"""Jobs that are looked at, the newest."""
AT_FIRST = 5
PRICE_MAX = 20.0
OFF = 3.0
OFF_JOBS = 3


@dataclass(frozen=True, slots=True)
class PastMerge:
    """A job that ended, and what was predicted of it."""

    ended_at: float
    predicted_seconds: float
    """At the price of its time."""
    actual_seconds: float
    price: float = 1.0

    @property
    def ratio(self) -> float:
        """What it took over what was predicted."""
        return self.actual_seconds / self.predicted_seconds

    @property
    def is_off(self) -> bool:
        return not 1 / OFF < self.ratio < OFF


@dataclass(frozen=True, slots=True)
class Price:
    factor: float = 1.0
    """What a merge takes over what the model says of it."""
    is_off: bool = False
    """The model does not hold of the table."""


def price_of(jobs: Sequence[PastMerge], *, at_first: float = 1.0) -> Price:
    """The price that jobs show, oldest first.

    Args:
        at_first: the price where there are none.
    """
    newest = [job for job in jobs if job.predicted_seconds > 0 and job.actual_seconds > 0][-JOBS_MAX:]
    ratios = sorted([*(job.ratio * job.price for job in newest), *[at_first] * AT_FIRST])
    middle = len(ratios) // 2
    median = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] * ratios[middle]) ** 0.5
    return Price(min(PRICE_MAX, max(1 / PRICE_MAX, median)), _is_off(newest))


def _is_off(jobs: Sequence[PastMerge]) -> bool:
    off: list[PastMerge] = []
    for job in reversed(jobs):
        if not job.is_off:
            break
        off.append(job)
    return len(off) >= OFF_JOBS and off[0].ended_at - off[-1].ended_at >= DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Fitted:
    """What merges of known sizes took."""

    fixed_seconds: float
    """Seconds of each, whatever it reads."""
    seconds_per_byte: float
    """Seconds of each byte that is read."""
    price: float
    """What they took over what the model says of them, the median."""


def fit(merges: Sequence[tuple[int, float]]) -> Fitted:
    """The line through bytes that were read and seconds that this took: by least squares, and never below zero."""
    count, read = len(merges), sum(size for size, _ in merges)
    took = sum(seconds for _, seconds in merges)
    squares = sum(size * size for size, _ in merges) - read * read / count
    slope = (sum(size * seconds for size, seconds in merges) - read * took / count) / squares if squares else 0.0
    fixed = (took - slope * read) / count
    if slope <= 0 or fixed < 0:
        slope, fixed = took / read, 0.0
    return Fitted(fixed, slope, statistics.median(seconds / operation_seconds(size) for size, seconds in merges))
