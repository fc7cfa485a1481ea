"""Days beside Hudi's default: what a month is the sum of."""

from __future__ import annotations

from random import Random

import pytest

from lakeward.services.compaction.simulation.comparison import Carried, compare_day, hudi_default
from lakeward.services.compaction.simulation.replay import SizeModel, measure_fit, replay
from lakeward.services.compaction.simulation.trace import Trace, TracedCommit
from tests.services.compaction.simulation.sized_history import (
    BEGINS,
    HISTORY,
    HOUR,
    MIB,
    base,
    compacts,
    log,
    traced,
    writes,
)

DAY = 24 * HOUR
READS = 24.0


def history(seed: int, *, days: int, between_hours: float) -> Trace:
    """Writes at random hours, and FULLs of one group or of both."""
    random, hour, commits = Random(seed), 0.0, list[TracedCommit]()
    while hour < days * 24 - 3:
        hour += random.uniform(0.1, 2 * between_hours)
        commits.append(writes(hour, log(random.randrange(1, MIB), random.randrange(2), random.random())))
        if random.random() < 0.2:
            commits.append(compacts(hour + 0.05, base(random.randrange(90 * MIB, 110 * MIB))))
    return traced(*(each for each in commits if each.at <= BEGINS + days * DAY), hours=days * 24)


@pytest.mark.parametrize(("seed", "between_hours"), [(1, 0.7), (2, 9.0), (3, 40.0)])
def test_days_add_up_to_one_replay_of_them(seed: int, between_hours: float) -> None:
    """Keeps 1 of services/compaction/simulation/comparison: with several commits a day, with some, and with less than
    one, so that Hudi's default merges once in days."""
    whole = history(seed, days=12, between_hours=between_hours)
    carried, days = Carried(BEGINS), []
    for day in range(12):
        begins, ends = BEGINS + day * DAY, BEGINS + (day + 1) * DAY
        found = compare_day(whole.between(carried.merged_at, ends), carried, begins=begins, reads_per_day=READS)
        carried = found.carried
        days.append(found)

    flat = SizeModel()
    happened = replay(whole, planner=None, model=flat, reads_per_day=READS)
    assert sum(day.happened.written_bytes for day in days) == happened.compaction_bytes
    assert sum(day.happened.job_seconds for day in days) == pytest.approx(happened.job_seconds)
    assert sum(day.happened.reader_seconds or 0 for day in days) == pytest.approx(happened.reader_seconds)
    fit = measure_fit(whole)
    assert sum(day.real_bytes for day in days) == fit.real_bytes == happened.compaction_bytes
    assert (carried.inserted, carried.updated, carried.grown) == (
        *(fit.model.inserted, fit.model.updated, fit.model.grown),
    )
    hudi = replay(whole, planner=hudi_default(), model=fit.model, reads_per_day=READS, begins_merged=True)
    assert sum(day.hudi.reader_seconds or 0 for day in days) == pytest.approx(hudi.reader_seconds, rel=0.05)
    assert sum(day.hudi.job_seconds for day in days) == pytest.approx(hudi.job_seconds, rel=0.05)
    assert sum(day.hudi.written_bytes for day in days) == pytest.approx(hudi.compaction_bytes, rel=0.05)


def test_one_day_by_hand() -> None:
    """Fifteen writes: Hudi's default merges after each fifth, of which the first counts from the day's beginning; what
    happened is one FULL."""
    found = compare_day(HISTORY, Carried(BEGINS), begins=BEGINS, reads_per_day=None)
    assert found.happened.written_bytes == 100 * MIB == found.real_bytes
    assert found.hudi.written_bytes == 300 * MIB
    assert found.hudi.reader_seconds is None is found.happened.reader_seconds
    assert found.carried.merged_at == HISTORY.commits[-1].at + 1, "the fifteenth write"


def test_a_day_goes_on_where_the_day_before_ended() -> None:
    """Keeps 2 of services/compaction/simulation/comparison: one write a day is merged on the fifth day, not never."""
    whole = traced(*(writes(12 + 24 * day, log(MIB)) for day in range(11)), hours=11 * 24)
    carried, written = Carried(BEGINS), []
    for day in range(11):
        begins = BEGINS + day * DAY
        found = compare_day(whole.between(carried.merged_at, begins + DAY), carried, begins=begins, reads_per_day=1.0)
        carried = found.carried
        written.append(found.hudi.written_bytes // MIB)
    assert written == [0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0]
