"""Two processes compact one table beside writers and faults: whatever happens, no row is lost and peace returns."""

from __future__ import annotations

import pytest

from tests.simulation.compactors import Compactors
from tests.simulation.history import EACH_CHUNK, play_chunk

RUNS = 240


@pytest.mark.slow
@pytest.mark.parametrize("chunk", EACH_CHUNK)
@pytest.mark.turns(34)
def test_two_processes_one_table(chunk: int) -> None:
    """All of `invariants.py` is true at every moment; in the end one process brings the table to rest."""
    play_chunk(chunk, RUNS, Compactors)


def test_a_seed_is_a_run() -> None:
    """The same seed does the same, call for call."""
    assert Compactors(4).play().world.trace == Compactors(4).play().world.trace
