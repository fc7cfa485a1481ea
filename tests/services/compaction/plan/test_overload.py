"""A table with twice as much worth merging as one plan may hold, look after look."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from tests.runs import runs
from tests.synthetic_table import completed, file_group, minute, snapshot_of

MIB = 1024 * 1024
GROUPS = 30
LOOK_MINUTES = 4
"""A write, a plan, and what the plan leaves."""
SETTINGS = {"planner.policy": "cost", "planner.reads": "200/day"}


@dataclass(slots=True)
class Group:
    base: tuple[str, int]
    logs: list[tuple[str, int]] = field(default_factory=list)
    waits_since: int | None = None


class World:
    def __init__(self, chance: random.Random, budget: int | None) -> None:
        self._chance = chance
        self._groups = {
            f"fg{number:02}": Group((minute(0), int(8 * MIB * 2 ** chance.uniform(0, 5)))) for number in range(GROUPS)
        }
        self._writes = {name: 2 ** chance.uniform(-4, -1) for name in self._groups}
        given = SETTINGS if budget is None else {**SETTINGS, "planner.budget": str(budget)}
        self._planner = planner_of(CompactionType.HYBRID, GroupFilter(), given)
        self.io_bytes = 0
        self.longest = 0.0
        """The most that a group waited, in times of what its merge took to pay back."""
        self.waits = 0

    def look(self, number: int) -> None:
        at = LOOK_MINUTES * number
        for name, group in self._groups.items():
            if self._chance.random() < self._writes[name]:
                group.logs.append((minute(at), int(MIB * 2 ** self._chance.uniform(-3, 2))))
        held = {instant for group in self._groups.values() for instant, _ in group.logs}
        snapshot = snapshot_of(
            [file_group("p", name, base=group.base, logs=group.logs) for name, group in self._groups.items()],
            [instant for time in held for instant in completed(time, "deltacommit")],
        )
        outcome = self._planner(snapshot, minute(at + 1), {})
        for decision in outcome.decisions:
            group = self._groups[decision.file_id]
            if decision.reason is Reason.OVER_BUDGET:
                self.waits += 1
                group.waits_since = number if group.waits_since is None else group.waits_since
                waited = 60 * LOOK_MINUTES * (number - group.waits_since)
                self.longest = max(self.longest, waited / decision.numbers["pays_back_seconds"])
            else:
                group.waits_since = None
        for operation in outcome.operations:
            group = self._groups[operation.file_id]
            taken = set(operation.log_files)
            run = [log for log in group.logs if any(f"_{log[0]}." in name for name in taken)]
            size = sum(of for _, of in run)
            self.io_bytes += operation.read_bytes + size
            if operation.operation_type == Choice.FULL:
                self.io_bytes += group.base[1]
                group.base = (minute(at + 2), group.base[1])
                group.logs = [log for log in group.logs if log not in run]
            else:
                group.logs = [log for log in group.logs if log not in run] + [(minute(at + 2), size)]


def test_no_group_waits_for_long() -> None:
    """A plan that may hold half of what would pay takes those groups first that readers have paid most for, in times of
    their price: none waits for ever, however cheap the merges of others are."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    looks = runs(200)
    free = World(random.Random(seed), None)
    for number in range(1, 101):
        free.look(number)
    world = World(random.Random(seed), free.io_bytes // 200)
    for number in range(1, looks + 1):
        world.look(number)
    print(f"{world.waits:,} waits, the longest {world.longest:.1f} times its pay-back")
    assert world.waits > looks, f"seed {seed}"
    assert world.longest < 20, f"seed {seed}"
