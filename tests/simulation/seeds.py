"""Which seeds a test runs: LAKEWARD_SEED=7 one of them, LAKEWARD_RUNS=10000 as many, else what CI has time for."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.runs import runs

CHUNKS = 8
IN_CI = 4
EACH_CHUNK = [pytest.param(chunk, marks=() if chunk < IN_CI else pytest.mark.wide) for chunk in range(CHUNKS)]
"""A test runs every eighth seed, so that test workers share them. Half of them are left to `make interop`."""


def run_chunk(chunk: int, default: int, run_seed: Callable[[int], object]) -> None:
    if (seed := os.environ.get("LAKEWARD_SEED")) is not None:
        seeds = [int(seed)] if int(seed) % CHUNKS == chunk else []
    else:
        seeds = list(range(chunk, runs(default), CHUNKS))
    for each in seeds:
        run_seed(each)
