from __future__ import annotations

from itertools import pairwise

from lakeward.daemon.backlog_history import SAMPLES_MAX, STEP_SECONDS, BacklogHistory
from tests.daemon.synthetic_status import backlog


def test_samples_come_a_step_apart():
    """What was given out before does not change, and what is seen too soon is not taken."""
    empty = BacklogHistory()
    one = empty.seen(1000.0, backlog(log_bytes=7, read_amplification=1.5, oldest_unmerged_at=400.0))

    assert len(empty) == 0 and len(one) == 1
    assert one.seen(1000.0 + STEP_SECONDS - 1, backlog()) is one
    two = one.seen(1000.0 + STEP_SECONDS, backlog(oldest_unmerged_at=None))
    assert (len(one), len(two)) == (1, 2)
    first, second = two
    assert (first.at, first.log_bytes, first.read_amplification, first.oldest_age) == (1000.0, 7.0, 1.5, 600.0)
    assert second.oldest_age == 0.0


def test_any_time_is_covered_by_as_many_samples():
    """A year of minutes: the first sample stays, they are evenly apart, and the last one is not long ago."""
    history, now = BacklogHistory(), 0.0
    for _ in range(20_000):
        history = history.seen(now, backlog())
        now += STEP_SECONDS
        assert len(history) <= SAMPLES_MAX

    samples = list(history)
    assert samples[0].at == 0.0 and len(samples) > SAMPLES_MAX / 2
    assert {after.at - before.at for before, after in pairwise(samples)} == {history.step}
    assert now - samples[-1].at <= history.step + STEP_SECONDS
