"""What policies of compaction cost against the best possible, on recorded tables and on a day of skewed ingestion.

    python -m benchmarks.policy_on_traces [--seed N]

    orders, devices    recorded by `lakeward record` (`benchmarks/recorded_traces.py`), each file as if it was `SCALE`
                       times as large
    zipf               a day, a commit in five minutes, into 60 of 500 file groups on average, by Zipf's law

Each is replayed by `services/compaction/simulation/replay.py`, whose planner is Lakeward's own: asked after each
commit, each 15 minutes where age decides, and when something has begun to pay, with its budget for a plan and its caps.
How often a group is read is given per write into it: 0.01 (cold), 1 and 20 (hot), and policies by cost know it. *In
windows*: the planner is asked
between 22 and 6 o'clock only, which the best possible is not bound to.

AutoComp (SIGMOD 2025) is its idea, not its code: candidates are ranked by weighted benefit less cost, 0.7 of the files
that a merge makes fewer and 0.3 of its core-seconds, each over the range of all candidates; from the top as many as a
quarter of the core-seconds holds that all would take, the first in any case.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import cast

from benchmarks.measure import keep_report, machine
from benchmarks.replay_speed import MIB, PROPERTIES
from lakeward.base.quantities import DAY_SECONDS
from lakeward.format.timeline.compaction_plan import CompactionOperation
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.cost import full_cost
from lakeward.services.compaction.plan.decision import Form, PlanOutcome, full_operation
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.pay_back import ERASE_WITHIN
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.slice_profile import SliceProfile
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.simulation.optimum import best_possible
from lakeward.services.compaction.simulation.replay import SizeModel, replay
from lakeward.services.compaction.simulation.trace import CommitAuthor, Trace, TracedCommit, TracedFile, parse_trace
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

TRACES = Path(__file__).parent / "traces"
SCALE = 200
READS = {"cold, 0.01 reads a write": 0.01, "1 read a write": 1.0, "hot, 20 reads a write": 20.0}
DELTA_COMMITS = "hoodie.compact.inline.max.delta.commits"
MINUTES = 5
WRITES_MAX = 288
"""Writes into a group of any of the traces."""
GROUPS = 500
TOUCHED = 60
QUARTER = 0.25
BEGINS = 1_790_812_800_000


def recorded(name: str) -> Trace:
    file = TRACES / f"{name}.json"
    trace = parse_trace(file.read_bytes(), file=str(file))
    commits = tuple(
        replace(commit, files=tuple(replace(file, size=file.size * SCALE) for file in commit.files))
        for commit in trace.commits
    )
    return replace(trace, commits=commits, ends=commits[-1].at + 3600 * 1000)


def zipf_day(seed: int) -> Trace:
    chance = random.Random(seed)
    weights = [1 / (1 + number) for number in range(GROUPS)]
    bases = tuple(TracedFile(group, chance.randrange(64, 512) * MIB, True) for group in range(GROUPS))
    commits = [TracedCommit(BEGINS - 1000, BEGINS, CommitAuthor.WRITER, bases)]
    for number in range(1, 24 * 60 // MINUTES + 1):
        at = BEGINS + number * MINUTES * 60_000
        groups = sorted(set(chance.choices(range(GROUPS), weights, k=2 * TOUCHED)))
        files = (TracedFile(group, round(chance.lognormvariate(0, 1) * MIB), False, 0.2) for group in groups)
        commits.append(TracedCommit(at - 20_000, at, CommitAuthor.WRITER, tuple(files)))
    names = tuple((f"p{group % 16}", f"f{group}-0") for group in range(GROUPS))
    return Trace(names, tuple(commits), BEGINS, commits[-1].at + 60_000, PROPERTIES)


class AutoComp:
    """Top-k within a budget, at each look."""

    options = HybridOptions(table_trigger=Trigger())

    def __call__(
        self,
        snapshot: TableSnapshot,
        at: str,
        excluded: Mapping[GroupId, object],
        *,
        profiles: Mapping[GroupId, SliceProfile],
    ) -> PlanOutcome:
        costs = {
            group: full_cost(base_bytes=one.base_bytes, log_bytes=one.log_bytes, logs=len(one.live))
            for group, one in profiles.items()
        }
        fewer = {group: len(one.live) + len(one.logs.superseded) for group, one in profiles.items()}
        seconds = {group: cost.core_seconds for group, cost in costs.items()}

        def share(values: Mapping[GroupId, float], group: GroupId) -> float:
            low, high = min(values.values()), max(values.values())
            return (values[group] - low) / (high - low) if high > low else 0.0

        ranked = sorted(profiles, key=lambda group: 0.3 * share(seconds, group) - 0.7 * share(fewer, group))
        left = QUARTER * sum(seconds.values())
        operations: list[CompactionOperation] = []
        for group in ranked:
            if operations and seconds[group] > left:
                break
            left -= seconds[group]
            operations.append(full_operation(profiles[group].slice, profiles[group].log_files, costs[group]))
        return PlanOutcome((), tuple(operations), Form.SPLIT)


@dataclass(frozen=True, slots=True)
class InWindows:
    """A planner that is asked at night."""

    planner: Planner

    @property
    def options(self) -> HybridOptions:
        return self.planner.options

    def __call__(
        self,
        snapshot: TableSnapshot,
        at: str,
        excluded: Mapping[GroupId, object],
        *,
        profiles: Mapping[GroupId, SliceProfile],
    ) -> PlanOutcome:
        hour = parse_instant_time(at, UTC) // 3_600_000 % 24
        if 6 <= hour < 22:
            return PlanOutcome((), (), Form.SPLIT)
        return self.planner(snapshot, at, {}, profiles=profiles)


def by_cost(reads_per_day: float, **given: str) -> Planner:
    """The planner of a daemon whose policy is `cost`.

    Args:
        given: settings of an operator's beside it.
    """
    settings = {"planner.policy": "cost", "planner.reads": f"{reads_per_day!r}/day"} | given
    return planner_of(CompactionType.HYBRID, GroupFilter(), settings, objective=ERASE_WITHIN, trigger=Trigger())


def policies(reads_per_day: float) -> dict[str, Planner]:
    rules = planner_of(CompactionType.HYBRID, GroupFilter(), {}, trigger=Trigger())
    return {
        "Hudi's default": planner_of(CompactionType.FULL, GroupFilter(), {}, trigger=Trigger()),
        "RFC-103": rules,
        "RFC-103, objective of a day": planner_of(
            CompactionType.HYBRID, GroupFilter(), {}, objective=DAY_SECONDS, trigger=Trigger()
        ),
        "AutoComp, top-k": cast("Planner", AutoComp()),
        "by cost": by_cost(reads_per_day),
        "by cost, after 5 delta commits": by_cost(reads_per_day, **{DELTA_COMMITS: "5"}),
        "by cost, four times too high": by_cost(4 * reads_per_day),
        "by cost, four times too low": by_cost(reads_per_day / 4),
        "by cost, in windows": cast("Planner", InWindows(by_cost(reads_per_day))),
    }


def ratios(trace: Trace, reads: float) -> dict[str, float]:
    """What each policy costs over the best possible."""
    days = (trace.ends - trace.begins) / 1000 / DAY_SECONDS
    written = [file.group for commit in trace.replayed for file in commit.files if not file.is_base]
    reads_per_day = reads * len(written) / len(set(written)) / days
    best = best_possible(trace, model=SizeModel(), reads_per_day=reads_per_day, writes_max=WRITES_MAX)
    assert not best.groups_in_windows, "it is not less than was possible"
    least = best.core_seconds
    found = {}
    for name, planner in policies(reads_per_day).items():
        figures = replay(trace, planner=planner, model=SizeModel(), reads_per_day=reads_per_day)
        assert figures.core_seconds >= least * (1 - 1e-6), f"{name} is better than the best possible"
        found[name] = round(figures.core_seconds / least, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    before = machine()
    figures: dict[str, dict[str, float]] = {}
    for name, trace in (
        ("orders", recorded("orders")),
        ("devices", recorded("devices")),
        ("zipf", zipf_day(arguments.seed)),
    ):
        for said, reads in READS.items():
            column = f"{name}: {said}"
            figures[column] = ratios(trace, reads)
            print(column, figures[column], flush=True)
    print(f"\n| cost over best possible | {' | '.join(figures)} |\n|---|{'---:|' * len(figures)}")
    for policy in policies(1.0):
        print(f"| {policy} | {' | '.join(f'{of[policy]:.2f}' for of in figures.values())} |")
    print(keep_report("policy-on-traces", before, {"seed": arguments.seed, "scale": SCALE, "ratios": figures}))


if __name__ == "__main__":
    main()
