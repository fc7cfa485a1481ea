"""How much of a long series is run: all of it, or with LAKEWARD_RUNS_MAX=8 at most so many (`make check` sets it).

Where a series has no end, as seeds have none, LAKEWARD_RUNS=10000 asks for more than CI has time for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

ASKED = os.environ.get("LAKEWARD_RUNS")
MOST = os.environ.get("LAKEWARD_RUNS_MAX")


def runs(default: int) -> int:
    """How many seeds to run, or examples to draw, where CI has time for `default`."""
    asked = default if ASKED is None else int(ASKED)
    return asked if MOST is None else min(asked, int(MOST))


def spread(cases: Iterable[T]) -> list[T]:
    """All cases, or as many as may be: the first, the last, and others at equal distances between them."""
    found = list(cases)
    asked = min(runs(len(found)), len(found))
    return [found[number * (len(found) - 1) // max(asked - 1, 1)] for number in range(asked)]
