"""How long `lakeward simulate` takes to replay a fortnight: 4,032 commits, each into 64 file groups.

    python -m benchmarks.replay_speed [--commits N] [--groups N] [--seed N]

A commit in five minutes puts a log of 0.1 to 2 MiB on each group's base of 100 MiB, so that no group is ever as it was
at the last look: the longest a replay takes. Prints seconds of this process's CPU by policy, and the merges.
"""

from __future__ import annotations

import argparse
import random
import time

from benchmarks.measure import keep_report, machine
from lakeward.base.quantities import DAY_SECONDS
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.simulation.replay import SizeModel, replay
from lakeward.services.compaction.simulation.trace import CommitAuthor, Trace, TracedCommit, TracedFile

MIB = 1024 * 1024
BEGINS = 1_767_225_600_000
EACH = 5 * 60_000
READS = 20
PROPERTIES = {
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
PLANNERS = {
    "hudi": planner_of(CompactionType.FULL, GroupFilter(), {}, trigger=Trigger()),
    "rfc-103": planner_of(CompactionType.HYBRID, GroupFilter(), {}, objective=DAY_SECONDS, trigger=Trigger()),
    "cost": planner_of(
        CompactionType.HYBRID,
        GroupFilter(),
        {"planner.policy": "cost", "planner.reads": f"{READS}/day"},
        trigger=Trigger(),
    ),
}


def fortnight(commits: int, groups: int, seed: int) -> Trace:
    chance = random.Random(seed)

    def commit(number: int) -> TracedCommit:
        at = BEGINS + number * EACH
        files = (TracedFile(group, chance.randrange(MIB // 10, 2 * MIB), False, 0.2) for group in range(groups))
        return TracedCommit(at - 1000, at, CommitAuthor.WRITER, tuple(files))

    bases = tuple(TracedFile(group, 100 * MIB, True) for group in range(groups))
    before = TracedCommit(BEGINS - 1000, BEGINS, CommitAuthor.WRITER, bases)
    names = tuple((f"p{group % 8}", f"f{group}-0") for group in range(groups))
    every = (before, *(commit(number) for number in range(1, commits + 1)))
    return Trace(names, every, BEGINS, BEGINS + (commits + 1) * EACH, PROPERTIES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=4032)
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    before = machine()
    trace = fortnight(arguments.commits, arguments.groups, arguments.seed)
    figures = {}
    for name, planner in PLANNERS.items():
        started = time.process_time()
        found = replay(trace, planner=planner, model=SizeModel(), reads_per_day=READS)
        seconds = round(time.process_time() - started, 2)
        figures[name] = {"cpu_seconds": seconds, "full": found.fulls, "log": found.logs, "jobs": found.jobs}
        print(f"{name}: {seconds} CPU s, {found.fulls:,} FULL, {found.logs:,} LOG", flush=True)
    print(keep_report("replay-speed", before, {**vars(arguments), "policies": figures}))


if __name__ == "__main__":
    main()
