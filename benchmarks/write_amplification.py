"""What the hybrid planner writes against Hudi's defaults, on five workloads, by replaying plans over sizes.

    python -m benchmarks.write_amplification [--seed N] [--check]

No file is written but docs/reference/write-amplification.md; `--check` compares it instead. All sides see the same
writes and are asked after every fifth delta commit, when the trigger of both fires (NUM_COMMITS, 5). Hudi's default
answer is a full compaction of every file group that has logs; the others are the planner of a daemon without
settings, on snapshots of the sizes, one of them without the objective, which by default is a day.

How sizes change is a model, the same for all sides and for `lakeward simulate`:
`services/compaction/simulation/replay.py`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from lakeward.config.settings import Settings
from lakeward.format.timeline.instant import format_instant_time, parse_instant_time
from lakeward.services.compaction.job import TableCompaction
from lakeward.services.compaction.plan.decision import Choice
from lakeward.services.compaction.simulation.replay import SizedGroups, SizedMerge, SizeModel
from tests.synthetic_table import minute, snapshot_of

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "write-amplification.md"

KIB, MIB, GIB = 1024, 1024**2, 1024**3

COMMITS = 300
EVERY = 5
"""Delta commits between two plans, on all sides (hoodie.compact.inline.max.delta.commits)."""

MINUTES = 20
"""Between two delta commits; so all of them take four days and a bit."""

BY_COST = Settings.model_validate({"defaults": {"planner": {"planner.policy": "cost", "planner.reads": "10/day"}}})
WITHOUT_OBJECTIVE = Settings.model_validate({"defaults": {"objective": "none"}})


@dataclass(frozen=True, slots=True)
class Write:
    """What one delta commit puts into one file group."""

    group: int
    update_bytes: int
    insert_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    says: str
    base_bytes: tuple[int, ...]
    """Base bytes of the groups that are there at the start; 0 for one that has no base yet."""
    hot_bytes: int
    """Rows of a group that updates hit."""
    writes: Callable[[random.Random, int], list[Write]]
    """What the n-th delta commit writes."""


def uniform(chance: random.Random, commit: int) -> list[Write]:
    return [Write(group, chance.randint(MIB // 2, 3 * MIB // 2)) for group in range(64)]


def skewed(chance: random.Random, commit: int) -> list[Write]:
    total = sum(1 / (rank + 1) ** 1.2 for rank in range(64))
    sizes = [round(64 * MIB / (rank + 1) ** 1.2 / total) for rank in range(64)]
    # A group with little to be updated is not in every commit.
    return [
        Write(group, max(size, 128 * KIB)) for group, size in enumerate(sizes) if chance.random() < size / (128 * KIB)
    ]


def bursty(chance: random.Random, commit: int) -> list[Write]:
    if commit % 50 >= 45:
        return [Write(group, chance.randint(8 * MIB, 24 * MIB)) for group in range(64)]
    return [Write(group, chance.randint(64 * KIB, 512 * KIB)) for group in chance.sample(range(64), 4)]


def append_mostly(chance: random.Random, commit: int) -> list[Write]:
    # Every 25 commits a new day begins with four new groups; some updates come late to older days.
    newest = 40 + commit // 25 * 4
    inserts = [Write(newest + index, 0, chance.randint(24 * MIB, 40 * MIB)) for index in range(4)]
    return inserts + [Write(group, chance.randint(32 * KIB, 256 * KIB)) for group in chance.sample(range(newest), 3)]


def cold(chance: random.Random, commit: int) -> list[Write]:
    return [Write(group, chance.randint(64 * KIB, 256 * KIB)) for group in chance.sample(range(500), 10)]


WORKLOADS = (
    Workload(
        "uniform",
        "64 groups of 512 MiB, each gets 1 MiB of updates in every commit",
        (512 * MIB,) * 64,
        128 * MIB,
        uniform,
    ),
    Workload(
        "skewed",
        "64 groups of 512 MiB, 64 MiB of updates in a commit, spread by a Zipf law (1.2)",
        (512 * MIB,) * 64,
        128 * MIB,
        skewed,
    ),
    Workload(
        "bursty",
        "64 groups of 512 MiB, a few small updates, and in 5 of 50 commits 16 MiB for each group",
        (512 * MIB,) * 64,
        128 * MIB,
        bursty,
    ),
    Workload(
        "append-mostly",
        "128 MiB of inserts into the four newest groups, new ones every 25 commits, and late updates",
        (256 * MIB,) * 40 + (0,) * 4 * 12,
        64 * MIB,
        append_mostly,
    ),
    Workload(
        "cold", "500 groups of 512 MiB, 10 of them get up to 256 KiB in a commit", (512 * MIB,) * 500, 64 * MIB, cold
    ),
)


@dataclass(slots=True)
class Side:
    """One table under one way to plan."""

    workload: Workload
    groups: SizedGroups
    written: int = 0
    merges: list[SizedMerge] = field(default_factory=list)
    live_seen: list[int] = field(default_factory=list)
    """Live logs over all groups, after each commit and what followed it."""
    amplification_seen: list[float] = field(default_factory=list)
    live_max: int = 0

    @property
    def rewritten(self) -> int:
        return sum(merge.written_bytes for merge in self.merges)

    def count(self, choice: Choice) -> int:
        return sum(merge.choice is choice for merge in self.merges)

    def scan(self) -> None:
        sums = self.groups.sums
        self.live_seen.append(sums.logs)
        self.live_max = max(self.live_max, *(len(group.live) for group in self.groups.groups.values()))
        base = sums.base_bytes
        self.amplification_seen.append((base + sums.log_bytes) / max(1, base))


Plan = Callable[[Side, int], None]


def plan_as_hudi_does(side: Side, at: int) -> None:
    for number, group in side.groups.groups.items():
        if group.live:
            side.merges.append(side.groups.full(number, began=at))


def by_daemon(settings: Settings) -> Plan:
    planner = TableCompaction().rules(settings.table("t", "/t"))

    def plan(side: Side, at: int) -> None:
        outcome = planner(side.groups.snapshot(), format_instant_time(at, UTC), {})
        side.merges += side.groups.carry_out(outcome, at)

    return plan


def replay(workload: Workload, plan: Plan, seed: int) -> Side:
    chance = random.Random(seed)
    ids = [("p", f"{number:04}-0") for number in range(len(workload.base_bytes))]
    config = snapshot_of([], []).config
    side = Side(workload, SizedGroups(ids, config, SizeModel(hot_bytes=workload.hot_bytes)))
    for number, size in enumerate(workload.base_bytes):
        if size:
            side.groups.write_base(number, at=moment(0), size=size)
    for commit in range(COMMITS):
        minutes = 10 + MINUTES * commit
        at = moment(minutes)
        for write in workload.writes(chance, commit):
            side.groups.write_log(
                write.group, began=at, at=at, update_bytes=write.update_bytes, insert_bytes=write.insert_bytes
            )
            side.written += write.update_bytes + write.insert_bytes
        side.groups.committed(at)
        if commit % EVERY == EVERY - 1:
            plan(side, moment(minutes + 1))
        side.scan()
    return side


def moment(number: int) -> int:
    """A minute of the first day of 2026 and the following, in milliseconds since the epoch."""
    return parse_instant_time(minute(number), UTC)


def page(seed: int) -> str:
    return "\n".join([HEAD.format(commits=COMMITS, every=EVERY, minutes=MINUTES, seed=seed), *_table(seed), TAIL])


def _table(seed: int) -> Iterator[str]:
    columns = (
        "workload",
        "by writers",
        "",
        "by services",
        "times",
        "FULL",
        "LOG",
        "bytes over base",
        "live logs of a group",
    )
    yield f"| {' | '.join(columns)} |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|"
    for workload in WORKLOADS:
        sides = {
            "Hudi's default": replay(workload, plan_as_hudi_does, seed),
            "Lakeward's default": replay(workload, by_daemon(Settings()), seed),
            "no objective": replay(workload, by_daemon(WITHOUT_OBJECTIVE), seed),
            "by cost, 10 reads a day": replay(workload, by_daemon(BY_COST), seed),
        }
        for name, side in sides.items():
            first = name == "Hudi's default"
            mean_live = sum(side.live_seen) / len(side.live_seen) / len(side.workload.base_bytes)
            over_base = sum(side.amplification_seen) / len(side.amplification_seen) - 1
            yield " | ".join(
                [
                    f"| {workload.name if first else ''}",
                    f"{side.written / GIB:.1f} GiB" if first else "",
                    name,
                    f"{side.rewritten / GIB:.1f} GiB",
                    f"{1 + side.rewritten / side.written:.1f}",
                    f"{side.count(Choice.FULL):,}",
                    f"{side.count(Choice.LOG):,}",
                    f"{over_base:.1%}",
                    f"{mean_live:.1f}, at most {side.live_max} |",
                ]
            )


HEAD = """# What the daemon writes without settings, against Hudi's defaults

Made by `make write-amplification`, which replays plans over sizes without data (`benchmarks/write_amplification.py`,
seed {seed}); for each line {commits} delta commits, one every {minutes} minutes, so somewhat more than four days.
Hudi's default compacts every file group that has logs at every {every}th delta commit. *Lakeward's default* is what you
get from a daemon that knows `roots` and `writers` and nothing else: the same trigger, then FULL, LOG or nothing for
each group, and an objective of a day, which rewrites each group whose oldest record has been in logs for nearly that
long.
*No objective* is the same with `objective = "none"`: the difference of the two lines is what the objective costs.
*By cost* merges what pays back, for a table of which each partition is scanned ten times a day
([0170](../decisions/0170-whether-a-merge-pays.md)).

The first columns are bytes written. "Times" is what reaches storage for each byte that writers wrote, themselves
included. "Bytes over base" is what a reader of the whole table reads beside the bases, on average after a commit; "live
logs" are those whose content readers merge.
"""

TAIL = """
The price of the smaller writes is in the last two columns: readers merge more logs until a rewrite pays or a day is
over. A LOG leaves what an earlier one wrote where it is until what came after is as much, so that the bytes of LOGs do
not grow with the square of the commits. That holds by commit time; by event time where no delete without an ordering
value is among the logs; and not in the hybrid form, nor with such deletes: there each LOG starts at the oldest log
([decision 0006](../decisions/0006-hybrid-thresholds.md)). Two more
things cost that no column shows: readers open the head of each log that a LOG merged, and its bytes stay on storage,
both until the file group's next FULL is cleaned up.

The workloads:

{workloads}

The model's assumptions are at the head of the script. They are the same for both sides and favour neither knowingly;
what they leave out is how long work takes. Sizes of hot rows decide how much a LOG shrinks its run: with few hot rows
it shrinks much.
""".format(workloads="\n".join(f"- *{workload.name}*: {workload.says};" for workload in WORKLOADS).rstrip(";") + ".")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page is not what would be written")
    arguments = parser.parse_args()
    text = page(arguments.seed)
    if arguments.check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
