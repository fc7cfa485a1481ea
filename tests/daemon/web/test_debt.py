from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.status import TableStatus
from lakeward.daemon.web.debt import debt_of
from lakeward.services.compaction.plan.cost import operation_seconds
from tests.daemon.synthetic_status import COST, MIB, table


def owing(operations: int, read_bytes: int) -> TableStatus:
    return table("t", outlook={"demand": Demand(operations, read_bytes)})


def test_debt_is_what_the_planner_predicts_in_time_of_this_machine():
    """On all cores, at the price that the table's jobs showed; none where there is nothing to do, or no plan."""
    shown = owing(1, 3500 * MIB)
    debt = debt_of(shown, cores=2)
    assert debt is not None and debt.seconds == pytest.approx(operation_seconds(3500 * MIB) / 2)

    dear = tuple(replace(COST, predicted_seconds=10.0, cpu_seconds=40.0) for _ in range(30))
    dearer = debt_of(replace(shown, served=replace(shown.served, costs=dear)), cores=2)
    assert dearer is not None and dearer.seconds == pytest.approx(4 * debt.seconds)

    assert debt_of(owing(0, 0), cores=2) is None
    assert debt_of(table("t", outlook={"demand": None}), cores=2) is None


def test_bands_differ_by_word_and_shape():
    """The more there is to do, the later the band."""
    signs = [debt_of(owing(1, size * 1024 * MIB), cores=1) for size in (1, 10, 100, 500, 5000)]

    assert len({debt.sign.word for debt in signs if debt}) == len({debt.sign.shape for debt in signs if debt}) == 5
