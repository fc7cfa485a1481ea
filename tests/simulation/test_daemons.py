"""Two daemons with one store, several tables, faults in storage and store: nothing is lost, and peace returns."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.pause_of_writers import PauseOfWriters
from lakeward.services.services import ROUND
from lakeward.services.ttl.plan import ttl_plan
from tests.simulation.daemons import Daemons
from tests.simulation.history import EACH_CHUNK, play_chunk
from tests.simulation.world import Violation

RUNS = 40
RUNS_OF_ALL_SERVICES = 8
RUNS_UNTIL = 24
"""A run of a seed is another one with each change of the code, so no seed is known to show something: the first of so
many in a row must."""
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
    """The same where writers leave it to the daemons to roll failed writes back, to clean and to archive, and where
    these cluster small file groups and delete what expired of one partition."""
    play_chunk(chunk, RUNS_OF_ALL_SERVICES, partial(Daemons, all_services=True))


@pytest.mark.slow
@pytest.mark.turns(18)
def test_each_service_has_something_to_do() -> None:
    """Or the test above proves nothing."""
    done, wanted = Counter[JobKind](), set(ROUND) - NOTHING_TO_DO
    for seed in range(RUNS_UNTIL):
        done += Daemons(seed, all_services=True).play().done
        if wanted <= done.keys():
            return
    raise AssertionError(done)


@pytest.mark.slow
@pytest.mark.wide
def test_a_clustering_beside_a_write_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clustering that waits for no writer makes a write fail, or loses its rows, in one run at least."""
    monkeypatch.setattr(PauseOfWriters, "await_writers", lambda pause: None)
    monkeypatch.setattr(PauseOfWriters, "is_clear", lambda pause: True)
    assert goes_wrong("fails for")


@pytest.mark.slow
@pytest.mark.wide
def test_a_deletion_of_what_is_too_young_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go too early where ages are taken for more than they are, in one run at least."""
    reason = ttl_plan._reason
    monkeypatch.setattr(ttl_plan, "_reason", lambda since, held, options, now: reason(since, held, options, now + 45.0))
    assert goes_wrong("too young")


def goes_wrong(how: str) -> bool:
    """Whether one of the runs ends with this."""
    for seed in range(RUNS_UNTIL):
        try:
            Daemons(seed, all_services=True).play()
        except Violation as violation:
            if how in str(violation):
                return True
    return False


@pytest.mark.slow
def test_a_seed_is_a_run() -> None:
    """The same seed does the same, call for call."""
    assert Daemons(3).play().world.trace == Daemons(3).play().world.trace
    of_all = (Daemons(1, all_services=True) for _ in range(2))
    first, second = (each.play().world.trace for each in of_all)
    assert first == second
