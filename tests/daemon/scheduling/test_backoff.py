from __future__ import annotations

from random import Random

from lakeward.daemon.scheduling.retry import delay


def test_doubles_up_to_the_most():
    """Every failure doubles the step, up to the most; a delay lies between half of and the whole step."""
    chance = Random(1)

    for failures, step in ((1, 30), (2, 60), (3, 120), (6, 960), (7, 1800), (8, 1800), (10_000, 1800)):
        delays = [delay(chance, first=30, most=1800, failures=failures) for _ in range(200)]
        assert step / 2 <= min(delays) < max(delays) <= step
        assert max(delays) - min(delays) > step / 3


def test_first_above_the_most():
    """The most is the most, also of the first delay."""
    assert delay(Random(1), first=100, most=10, failures=1) <= 10
