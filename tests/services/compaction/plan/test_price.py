"""What merges take on a table, as its jobs show."""

from __future__ import annotations

import pytest

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.cost import operation_seconds
from lakeward.services.compaction.plan.price import OFF_JOBS, PRICE_MAX, PastMerge, Price, fit, price_of

HOUR = 3600.0
MIB = 1024 * 1024


def jobs(*ratios: float, every: float = HOUR, price: float = 1.0) -> list[PastMerge]:
    """Jobs that took so many times what was predicted, one after another."""
    return [PastMerge(number * every, 2.0, 2.0 * ratio, price) for number, ratio in enumerate(ratios)]


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
    assert price_of([], at_first=2.5).factor == 2.5 and price_of(jobs(*[1.0] * 6), at_first=2.5).factor == 1.0


def test_what_jobs_took_is_held_against_the_model_and_not_against_a_price() -> None:
    """A price that holds stays: jobs that take what was predicted by it do not move it back."""
    assert price_of(jobs(*[1.0] * 20, price=2.5)).factor == 2.5


def test_what_says_nothing_is_left_out() -> None:
    """A job whose operations took no time that could be measured, or of which nothing was predicted."""
    nothing = [PastMerge(0.0, 0.0, 5.0), PastMerge(1.0, 5.0, 0.0)]
    assert price_of(nothing * 20) == Price(1.0)


@pytest.mark.parametrize("ratio", [3.0, 9.0, 1 / 3, 0.1])
def test_a_table_is_off_once_all_jobs_of_a_day_were(ratio: float) -> None:
    """Keeps 2 of services/compaction/plan/price: not before, not for one job that was, and no longer than until one
    is predicted well."""
    day = jobs(*[ratio] * 25)
    assert price_of(day).is_off and not price_of(day[:24]).is_off
    assert day[-1].ended_at - day[0].ended_at == DAY_SECONDS
    assert not price_of([*day, PastMerge(2 * DAY_SECONDS, 2.0, 2.5)]).is_off
    broken = [*day[:20], PastMerge(19.5 * HOUR, 2.0, 2.0), *day[20:]]
    assert not price_of(broken).is_off
    assert not price_of(jobs(*[2.9] * 25)).is_off
    assert not price_of(jobs(ratio, ratio, every=2 * DAY_SECONDS)).is_off and OFF_JOBS == 3


def test_what_merges_of_known_sizes_took_is_a_line() -> None:
    """A fixed part, and seconds of each byte; never less than nothing, where a measurement says that. The price is what
    they took over what the model says."""
    sizes = [10 * MIB, 20 * MIB, 80 * MIB]
    fitted = fit([(size, 0.5 + size / (7 * MIB)) for size in sizes])
    assert (fitted.fixed_seconds, fitted.seconds_per_byte * 7 * MIB) == (pytest.approx(0.5), pytest.approx(1))
    assert fit([(size, 3 * operation_seconds(size)) for size in sizes]).price == pytest.approx(3)
    for strange in ([(10 * MIB, 5.0), (20 * MIB, 4.0)], [(10 * MIB, 0.1), (20 * MIB, 4.0)], [(MIB, 1.0), (MIB, 1.0)]):
        found = fit(strange)
        assert found.fixed_seconds == 0 and found.seconds_per_byte > 0
