"""How much of a long series is run.

In CI each fourth case of a series (`spread`) and 40 examples of a property (`EXAMPLES`). The first case that is taken
follows from the hash of the commit: ten commits in a row leave a case out with a chance of 6 %. Each run prints it, and
LAKEWARD_OFFSET=2 takes the same again. LAKEWARD_NIGHTLY=1 runs every case and 300 examples (`make nightly`),
LAKEWARD_RUNS_MAX=2 at most so many, of the cases of each test, too, and 8 examples (`make check`).

A heavy test that is marked `turns` runs in one commit of four where LAKEWARD_TURNS=1, which `make test` sets; the
quarters take about as long, by the seconds of the marks (`turns(30)`; 10 where none are given). Tests that share a
table which takes long to make run in the same commit: `turns(30, together="twins")` says the seconds of all.

Where a series has no end, as seeds have none, LAKEWARD_RUNS=10000 asks for more than CI has time for.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ASKED = os.environ.get("LAKEWARD_RUNS")
MOST = os.environ.get("LAKEWARD_RUNS_MAX")
TAKE_TURNS = os.environ.get("LAKEWARD_TURNS") == "1"
NIGHTLY = os.environ.get("LAKEWARD_NIGHTLY") == "1"
EXAMPLES = 300 if NIGHTLY else 40 if MOST is None else 8
STEP = 4
TURNS = 4


def _offset() -> int:
    """From the environment, or from the commit: where no Git is, the first."""
    if given := os.environ.get("LAKEWARD_OFFSET"):
        return int(given) % (STEP * TURNS)
    try:
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(head.stdout, 16) % (STEP * TURNS)


OFFSET = _offset()
# The workers of a run take the same cases, also where someone commits meanwhile.
os.environ["LAKEWARD_OFFSET"] = str(OFFSET)


def extent() -> str:
    """How much this process runs, for the header of a run."""
    if ASKED is not None or MOST is not None:
        return f"of each series: LAKEWARD_RUNS={ASKED or ''} LAKEWARD_RUNS_MAX={MOST or ''}"
    if NIGHTLY:
        return f"of each series: all, {EXAMPLES} examples of a property"
    return f"of each series: one case in {STEP}, {EXAMPLES} examples of a property; LAKEWARD_OFFSET={OFFSET} repeats it"


def runs(default: int) -> int:
    """How many seeds to run, or examples to draw, where CI has time for `default`."""
    asked = default if ASKED is None else int(ASKED)
    return asked if MOST is None else min(asked, int(MOST))


def spread(cases: Iterable[T], *, least: int = STEP) -> list[T]:
    """One case in four, beginning with the one of this commit; of a short series more, so that `least` are left, if it
    has as many. Where a number is asked for: the first, the last, and others at equal distances between them."""
    found = list(cases)
    if ASKED is None and MOST is None:
        step = 1 if NIGHTLY else max(1, min(STEP, len(found) // least))
        return found[OFFSET % STEP % step :: step]
    asked = min(runs(len(found)), len(found))
    return [found[number * (len(found) - 1) // max(asked - 1, 1)] for number in range(asked)]


def turn_of(test: str, seconds: float = 10.0, *, together: str = "") -> tuple[str, float]:
    """What the mark `turns` of a test says: whose turn it is, and how long all tests of that turn take."""
    return together or test.partition("[")[0], seconds


def in_turn(tests: Mapping[str, float]) -> set[str]:
    """The heavy tests that run in this commit: one quarter of them, each of which takes about as long.

    Args:
        tests: the seconds that each takes.
    """
    if not TAKE_TURNS or NIGHTLY:
        return set(tests)
    quarters: list[list[str]] = [[] for _ in range(TURNS)]
    taken = [0.0] * TURNS
    for name in sorted(tests, key=lambda name: (-tests[name], name)):
        lightest = taken.index(min(taken))
        quarters[lightest].append(name)
        taken[lightest] += tests[name]
    return set(quarters[OFFSET // STEP % TURNS])
