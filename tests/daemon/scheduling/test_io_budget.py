from __future__ import annotations

import os
import random

from lakeward.daemon.scheduling.admission import IoBudget


def test_starts_full_and_fills():
    """An hour's worth may be taken at once, and what was taken comes back over an hour."""
    budget = IoBudget(3600)
    assert budget.fits_at(3600, 100.0) == 100.0

    budget.take(3600, 100.0)

    assert budget.fits_at(600, 100.0) == 700.0
    assert budget.fits_at(600, 700.0) == 700.0


def test_larger_than_the_bucket():
    """What needs more than an hour's worth runs when the bucket is full, and the next one waits for the debt."""
    budget = IoBudget(3600)
    budget.take(100, 0.0)
    assert budget.fits_at(10_000, 0.0) == 100.0

    budget.take(10_000, 100.0)

    assert budget.fits_at(1, 100.0) > 100.0 + 6400 - 2


def test_no_budget_and_none_left():
    """Without a budget everything fits; with one of nothing, nothing but what needs nothing."""
    assert IoBudget(None).fits_at(10**15, 5.0) == 5.0
    assert IoBudget(0).fits_at(10, 5.0) is None
    assert IoBudget(0).fits_at(0, 5.0) == 5.0


def test_change():
    """What was spent stays spent under another budget; a budget where there was none starts full."""
    budget = IoBudget(3600)
    budget.take(3600, 0.0)
    budget.change(7200, 0.0)
    assert budget.fits_at(3600, 0.0) == 0.0
    assert budget.fits_at(7200, 0.0) == 1800.0

    budget.change(None, 0.0)
    budget.take(10**9, 0.0)
    budget.change(100, 0.0)
    assert budget.fits_at(100, 0.0) == 0.0


def test_clock_set_back():
    """A clock that goes back fills nothing, and takes nothing away."""
    budget = IoBudget(3600)
    budget.take(3600, 10_000.0)

    assert budget.fits_at(100, 5000.0) == 5100.0
    assert budget.fits_at(100, 5100.0) == 5100.0


def test_spends_no_more_than_the_budget():
    """Over any time, no more is taken than the bucket, the time's worth and one job. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**32)))
    print(f"LAKEWARD_SEED={seed}")
    chance = random.Random(seed)
    budget, now, taken, largest = IoBudget(1000), 0.0, 0, 0
    for _ in range(500):
        need = chance.choice((1, 100, 900, 5000))
        at = budget.fits_at(need, now)
        assert at is not None
        now = at + chance.choice((0, 0, 100))
        budget.take(need, now)
        taken, largest = taken + need, max(largest, need)
        assert taken <= 1000 + now * 1000 / 3600 + largest + 500
