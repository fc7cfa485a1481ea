"""Two daemons with one store, several tables, faults in storage and store: nothing is lost, and peace returns."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from lakeward.protocol.job_kind import JobKind
from tests.simulation.daemons import SERVICES, Daemons
from tests.simulation.history import EACH_CHUNK, play_chunk

RUNS = 40
RUNS_OF_ALL_SERVICES = 8
BUSY = (0, 21)
"""Seeds by which every service has something to do between them, and processes die over it."""
NOTHING_TO_DO = {JobKind.INDEX}
"""The tables of this world have no index."""


@pytest.mark.parametrize("chunk", EACH_CHUNK)
@pytest.mark.slow
@pytest.mark.turns(29)
def test_two_daemons_several_tables(chunk: int) -> None:
    """All of `invariants.py` is true at every moment, and a lease has one safe holder; in the end no work is left,
    every table is polled, and the store says what the timelines say."""
    play_chunk(chunk, RUNS, Daemons)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", EACH_CHUNK)
@pytest.mark.slow
def test_all_services(chunk: int) -> None:
    """The same where writers leave it to the daemons to roll failed writes back, to clean and to archive."""
    play_chunk(chunk, RUNS_OF_ALL_SERVICES, partial(Daemons, all_services=True))


@pytest.mark.slow
def test_each_service_has_something_to_do() -> None:
    """Or the test above proves nothing."""
    done = sum((Counter(Daemons(seed, all_services=True).play().done) for seed in BUSY), Counter[JobKind]())
    assert all(done[service] for service in SERVICES if service not in NOTHING_TO_DO), done


@pytest.mark.slow
def test_a_seed_is_a_run() -> None:
    """The same seed does the same, call for call."""
    assert Daemons(3).play().world.trace == Daemons(3).play().world.trace
