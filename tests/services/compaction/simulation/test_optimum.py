"""The best that could have been done, against every way to merge a few logs, and against planners."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.cost import full_cost, log_cost
from lakeward.services.compaction.plan.pay_back import BASE_OF_LOG, distinct_bytes, read_seconds
from lakeward.services.compaction.simulation import optimum
from lakeward.services.compaction.simulation.optimum import WRITES_MAX, best_possible, least_costs
from lakeward.services.compaction.simulation.replay import SizeModel, replay
from lakeward.services.compaction.simulation.trace import CommitAuthor, TracedCommit
from tests.services.compaction.simulation.sized_history import MIB, at, base, log, traced, writes
from tests.services.compaction.simulation.test_replay_shortcuts import PLANNERS, SEED, drawn

Log = tuple[int, int, int]
"""Updates, inserts, and how many writes it is of."""


def cheapest(base_bytes: int, logs: tuple[Log, ...], todo: Sequence[tuple[Log, float]], dead: int = 0) -> float:
    """Each way to merge, tried: the slow twin."""
    if not todo:
        return 0.0
    (written, reads), left = todo[0], todo[1:]
    logs = (*logs, written)

    def bytes_of(one: Log) -> float:
        merged = round(distinct_bytes(one[0], BASE / BASE_OF_LOG)) if one[2] > 1 else one[0]
        return merged + one[1]

    def then(base_bytes: int, logs: tuple[Log, ...], dead: int) -> float:
        paid = reads * read_seconds(sum(map(bytes_of, logs)), len(logs) + dead)
        return paid + cheapest(base_bytes, logs, left, dead)

    log_bytes = round(sum(map(bytes_of, logs)))
    grown = base_bytes + round(sum(one[1] for one in logs) * BASE_OF_LOG)
    found = [then(base_bytes, logs, dead)]
    cost = full_cost(base_bytes=base_bytes, log_bytes=log_bytes, logs=len(logs))
    found.append(cost.core_seconds + then(grown, (), 0))
    for cut in range(len(logs) - 1):
        run = logs[cut:]
        one = (sum(log[0] for log in run), sum(log[1] for log in run), sum(log[2] for log in run))
        cost = log_cost(run_bytes=round(sum(map(bytes_of, run))), logs=len(run))
        # Readers open the logs of writes; that an output of outputs has outputs among its sources is left out.
        more = sum(log[2] for log in run) - sum(log[2] for log in run if log[2] > 1)
        found.append(cost.core_seconds + then(base_bytes, (*logs[:cut], one), dead + more))
    return min(found)


BASE = 40 * MIB


@pytest.mark.parametrize("number", range(4))
def test_every_way_to_merge(number: int) -> None:
    """It is the least of all of them."""
    chance = random.Random(f"{SEED} {number}")
    hours = [0.5, *(chance.choice((0.5, 2, 9)) for _ in range(5))]
    moments = [sum(hours[: place + 1]) for place in range(len(hours))]
    sizes = [chance.randrange(MIB, 20 * MIB) for _ in moments]
    trace = traced(*(writes(hour, log(size, 0, 0.25)) for hour, size in zip(moments, sizes, strict=True)), hours=40)
    trace = replace(trace, commits=(writes(-1, base(BASE)), *trace.commits[1:]))
    after = np.diff([*moments, 40.0]) * 10
    inserts = [round(size * 0.25) for size in sizes]
    todo = [((size - new, new, 1), reads) for size, new, reads in zip(sizes, inserts, after.tolist(), strict=True)]
    found = best_possible(trace, model=SizeModel(), reads_per_day=240.0)
    assert found.core_seconds == pytest.approx(cheapest(BASE, (), todo), rel=1e-4), f"seed {SEED}"
    assert found.groups_in_windows == 0


@pytest.mark.parametrize("reads", [1.0, 960.0])
def test_no_planner_is_better(reads: float) -> None:
    """Keeps 1 of services/compaction/simulation/optimum: on random histories, with clusterings and bases of writers."""
    for number in range(4):
        trace = drawn(random.Random(f"{SEED} {number}"))
        least = best_possible(trace, model=SizeModel(), reads_per_day=reads).core_seconds
        for name, planner in PLANNERS.items():
            found = replay(trace, planner=planner, model=SizeModel(), reads_per_day=reads)
            assert found.core_seconds >= least * (1 - 1e-6), f"{name}, seed {SEED}, history {number}"


def test_windows_are_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of services/compaction/simulation/optimum: a long history is divided, and what comes out is less."""
    trace = traced(*(writes(hour, log(MIB), log(MIB, 1)) for hour in range(1, 61)), hours=70)
    exact = best_possible(trace, model=SizeModel(), reads_per_day=DAY_SECONDS / 60)
    assert exact.groups_in_windows == 0 and len(trace.replayed) < WRITES_MAX
    monkeypatch.setattr(optimum, "_AT_ONCE", 0)
    windows = best_possible(trace, model=SizeModel(), reads_per_day=DAY_SECONDS / 60, writes_max=20)
    assert windows.groups_in_windows == 2
    assert 0.5 * exact.core_seconds < windows.core_seconds <= exact.core_seconds


def test_a_group_ends_with_its_clustering() -> None:
    """Readers pay for its logs until then, and not for what no reader meets."""
    cluster = TracedCommit(at(2), at(2), CommitAuthor.CLUSTERING, (), (0,))
    trace = traced(writes(1, log(MIB)), cluster, hours=1000)
    found = best_possible(trace, model=SizeModel(), reads_per_day=24.0)
    assert found.core_seconds == pytest.approx(read_seconds(MIB, 1))
    assert best_possible(traced(hours=9), model=SizeModel(), reads_per_day=24.0).core_seconds == 0.0


def test_several_histories_at_once() -> None:
    """Each has the cost that it has alone."""
    chance = np.random.default_rng(1)
    sizes, reading, reads = chance.random((3, 6, 6)), chance.random((3, 6, 6)), chance.random((3, 5)) * 9
    together = least_costs(sizes, reading, reads, job=0.5, write=1.5)
    alone = [
        least_costs(sizes[k : k + 1], reading[k : k + 1], reads[k : k + 1], job=0.5, write=1.5)[0] for k in range(3)
    ]
    assert together.tolist() == alone
