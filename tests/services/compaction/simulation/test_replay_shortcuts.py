"""A replay leaves groups out about which the planner's answer is known. What comes out is the same as without that."""

from __future__ import annotations

import os
import random
from dataclasses import asdict, replace
from typing import Any

import pytest

from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.simulation import replay as replay_module
from lakeward.services.compaction.simulation.replay import ReplayedFigures, SizedGroups, SizeModel, replay
from lakeward.services.compaction.simulation.trace import CommitAuthor, Trace, TracedCommit, TracedFile
from tests.services.compaction.simulation.sized_history import MIB, at, traced

SEED = int(os.environ.get("LAKEWARD_SEED", "20261201"))
EVERYTHING = GroupFilter()
LSM = {"hoodie.table.version": "10", "hoodie.table.storage.layout": "LSM_TREE"}


def planner(
    kind: CompactionType = CompactionType.HYBRID,
    objective: float | None = None,
    sources_retire: bool = False,
    trigger: Trigger | None = None,
    **settings: str,
) -> Planner:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return planner_of(
        kind,
        EVERYTHING,
        given,
        objective=objective,
        trigger=trigger or Trigger(),
        sources_retire=sources_retire,
    )


PLANNERS = {
    "hudi": planner(CompactionType.FULL),
    "rfc-103": planner(objective=DAY_SECONDS),
    "no objective, little budget": planner(planner__budget="30MB"),
    "LOG alone": planner(CompactionType.LOG, planner__small_base_size="1MB"),
    "by cost": planner(planner__policy="cost", planner__reads="40/day", objective=2 * DAY_SECONDS),
    "by cost, much read, sources retire": planner(
        planner__policy="cost", planner__reads="40/hour", sources_retire=True
    ),
    "each group when its time has come": planner(
        planner__group_trigger__strategy="NUM_OR_TIME", planner__group_trigger__elapsed="7h"
    ),
    "time or commits": planner(hoodie__compact__inline__trigger__strategy="NUM_OR_TIME"),
}


def drawn(chance: random.Random) -> Trace:
    """Some 90 commits on six groups: hot and cold ones, clusterings, bases that writers wrote, moments that are equal,
    and pauses of days."""
    hours, commits = 0.0, []
    for _ in range(chance.randrange(60, 120)):
        hours += chance.choice((0, 0.01, 0.1, 1, 1, 3, chance.choice((1, 30))))
        files = tuple(
            TracedFile(group, chance.randrange(10_000, chance.choice((1, 8)) * MIB), False, chance.random() / 2)
            for group in range(6)
            if chance.random() < 1 / (1 + group)
        )
        if chance.random() < 0.02:
            cluster = (TracedFile(5, 30 * MIB, True),)
            commits.append(TracedCommit(at(hours), at(hours), CommitAuthor.CLUSTERING, cluster, (4,)))
        if chance.random() < 0.05:
            files += (TracedFile(chance.randrange(6), chance.randrange(50 * MIB), True),)
        commits.append(TracedCommit(at(hours) - 1000, at(hours), CommitAuthor.WRITER, files))
    trace = traced(*commits, hours=hours + chance.choice((1, 60)), bases=chance.choice((2, 60, 300)) * MIB)
    properties = dict(trace.properties) | chance.choice(({}, {"hoodie.table.version": "8"}, LSM))
    return replace(trace, groups=tuple(("p", f"f-{number}") for number in range(6)), properties=properties)


def without_shortcuts(patch: pytest.MonkeyPatch) -> None:
    """Every look asks the planner about all groups that have logs, with nothing but a snapshot of them."""
    patch.setattr(replay_module, "_takes_all", lambda options: False)
    patch.setattr(replay_module, "_may_pay", lambda *arguments: True)
    patch.setattr(SizedGroups, "settle", lambda groups, outcome: None)
    patch.setattr(SizedGroups, "profiles", lambda groups, snapshot: {})


@pytest.mark.parametrize("name", PLANNERS)
def test_shortcuts_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 4 of services/compaction/simulation/replay: on random histories, in both layouts of logs."""
    merges = 0
    for number in range(6):
        trace = drawn(random.Random(f"{SEED} {number}"))
        found = replayed(trace, PLANNERS[name])
        with monkeypatch.context() as patch:
            without_shortcuts(patch)
            plain = replayed(trace, PLANNERS[name])
        assert rounded(found) == rounded(plain), f"seed {SEED}, history {number}"
        merges += found.fulls + found.logs
    assert merges > 10, "the histories give the planner something to do"


def rounded(figures: ReplayedFigures) -> dict[str, Any]:
    """Core-seconds and means are added up in another order."""
    spans = [{name: round(value, 3) for name, value in asdict(span).items()} for span in figures.spans]
    seconds = {name: round(value, 6) for name, value in asdict(figures).items() if isinstance(value, float)}
    return asdict(figures) | seconds | {"spans": spans}


def replayed(trace: Trace, planner: Planner) -> ReplayedFigures:
    return replay(trace, planner=planner, model=SizeModel(), reads_per_day=24.0)
