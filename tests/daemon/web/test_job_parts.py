from __future__ import annotations

from itertools import pairwise

import pytest

from lakeward.daemon.web.job_parts import OTHER, PHASE_WORDS, parts_of
from lakeward.protocol.progress import WAITING_PHASES, Phase


def test_every_phase_has_words():
    """A phase that is added has to be said on the page; those in which a job waits are among them."""
    assert PHASE_WORDS.keys() == set(Phase)
    assert set(Phase) >= WAITING_PHASES
    assert len({word for word, _ in PHASE_WORDS.values()}) == len(PHASE_WORDS)


@pytest.mark.parametrize(
    "phases", [{}, {"merge": 4.0}, {"commit": 1.0, "lock_wait": 2.0, "merge": 3.0, "new_one": 1.0}]
)
def test_the_parts_are_all_of_the_job(phases: dict[str, float]):
    """Their seconds are those of the job, in the order in which they happen, and each begins where the last one
    ended. What no phase has is a part of its own, and a phase that only another release knows stands under its name."""
    parts = parts_of(10.0, phases)

    assert sum(part.seconds for part in parts) == pytest.approx(10.0)
    assert sum(part.share for part in parts) == pytest.approx(1.0)
    for before, after in pairwise(parts):
        assert after.left == pytest.approx(before.left + before.share)
    assert parts[-1].name == OTHER
    order = [name for name in (*Phase, "new_one", OTHER) if name in {*phases, OTHER}]
    assert [part.name for part in parts] == order
    assert [part.name for part in parts if part.is_waiting] == [name for name in order if name == Phase.LOCK_WAIT]


def test_a_job_whose_phases_last_longer_than_it():
    """Clocks differ by a little; no part is negative, and all shares are one together."""
    parts = parts_of(1.0, {"merge": 1.5, "commit": 0.001})

    assert [(part.name, part.share) for part in parts] == [("merge", pytest.approx(1.0, abs=0.01))]
