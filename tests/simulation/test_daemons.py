"""Two daemons with one store, several tables, faults in storage and store: nothing is lost, and peace returns."""

from __future__ import annotations

import pytest

from tests.simulation.daemons import run_seed
from tests.simulation.seeds import EACH_CHUNK, run_chunk

RUNS = 48


@pytest.mark.parametrize("chunk", EACH_CHUNK)
def test_two_daemons_several_tables(chunk: int) -> None:
    """All of `invariants.py` is true at every moment, and a lease has one safe holder; in the end no work is left,
    every table is polled, and the store says what the timelines say."""
    run_chunk(chunk, RUNS, run_seed)


def test_a_seed_is_a_run() -> None:
    """The same seed does the same, call for call."""
    assert run_seed(3).world.trace == run_seed(3).world.trace
