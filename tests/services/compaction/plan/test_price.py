"""What merges take on a table, as its jobs show."""

from __future__ import annotations

import pytest

from lakeward.services.compaction.plan.price import DAY, OFF_JOBS, PRICE_MAX, Price, PricedJob, price_of

HOUR = 3600.0


def jobs(*ratios: float, every: float = HOUR, price: float = 1.0) -> list[PricedJob]:
    """Jobs that took so many times what was predicted, one after another."""
    return [PricedJob(number * every, 2.0, 2.0 * ratio, price) for number, ratio in enumerate(ratios)]


def test_the_price_follows_slowly() -> None:
    """Keeps 1 of services/compaction/plan/price: a few jobs do not move it all the way, nor does one that was far off;
    many do, and only the newest count. It is bounded, whatever jobs took."""
    assert price_of([]) == Price(1.0)
    assert price_of(jobs(2.0, 2.0)).factor == 1.0
    assert price_of(jobs(*[2.0] * 5)).factor == pytest.approx(2**0.5)
    assert price_of(jobs(*[2.0] * 6)).factor == 2.0
    assert price_of(jobs(*[2.0] * 20, 1000.0)).factor == 2.0
    assert price_of(jobs(*[2.0] * 50, *[0.5] * 50)).factor == 0.5
    assert price_of(jobs(*[1e6] * 50)).factor == PRICE_MAX
    assert price_of(jobs(*[1e-6] * 50)).factor == 1 / PRICE_MAX


def test_what_jobs_took_is_held_against_the_model_and_not_against_a_price() -> None:
    """A price that holds stays: jobs that take what was predicted by it do not move it back."""
    assert price_of(jobs(*[1.0] * 20, price=2.5)).factor == 2.5


def test_what_says_nothing_is_left_out() -> None:
    """A job whose operations took no time that could be measured, or of which nothing was predicted."""
    nothing = [PricedJob(0.0, 0.0, 5.0), PricedJob(1.0, 5.0, 0.0)]
    assert price_of(nothing * 20) == Price(1.0)


@pytest.mark.parametrize("ratio", [3.0, 9.0, 1 / 3, 0.1])
def test_a_table_is_off_once_all_jobs_of_a_day_were(ratio: float) -> None:
    """Keeps 2 of services/compaction/plan/price: not before, not for one job that was, and no longer than until one
    is predicted well."""
    day = jobs(*[ratio] * 25)
    assert price_of(day).is_off and not price_of(day[:24]).is_off
    assert day[-1].ended_at - day[0].ended_at == DAY
    assert not price_of([*day, PricedJob(2 * DAY, 2.0, 2.5)]).is_off
    broken = [*day[:20], PricedJob(19.5 * HOUR, 2.0, 2.0), *day[20:]]
    assert not price_of(broken).is_off
    assert not price_of(jobs(*[2.9] * 25)).is_off
    assert not price_of(jobs(ratio, ratio, every=2 * DAY)).is_off and OFF_JOBS == 3
