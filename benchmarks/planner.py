"""How long the hybrid planner takes over 100,000 file groups, and how much memory.

    python -m benchmarks.planner [--groups N] [--seed N] [--policy cost]

The table exists only as sizes. A few groups are hot, most are cold, some have pending work; every tenth had a log
compaction. Bounds: 5 seconds for the plan, 500 MiB for the whole process, table included. Prints JSON; exits 1 when a
bound is broken.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from typing import Any

from benchmarks.measure import machine
from lakeward.format.timeline.compaction_plan import write_compaction_plan
from lakeward.services.compaction.plan.explain import explain
from lakeward.services.compaction.plan.hybrid_options import HybridOptions
from lakeward.services.compaction.plan.planner import HybridCompactionPlanGenerator
from lakeward.services.compaction.plan.read_rates import RateRule, ReadRates
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline_reader import LogCompaction, WriteProfile
from tests.synthetic_table import completed, file_group, log_compacted, minute, pending, snapshot_of

MIB = 1024 * 1024
SECONDS_MAX = 5.0
RSS_MIB_MAX = 500.0

DELTAS = range(100, 600)
LOG_COMPACTION = 400
PENDING_WRITE = 550
AT = 700
READS = 200.0
"""How often a day each partition is read, for the policy cost."""


def synthetic_table(groups: int, seed: int) -> TableSnapshot:
    chance = random.Random(seed)
    minutes = [minute(number) for number in range(AT)]  # one string for each instant, as a listing shares them
    written = [number for number in DELTAS if number not in (LOG_COMPACTION, PENDING_WRITE)]
    instants = [instant for number in written for instant in completed(minutes[number], "deltacommit")]
    instants += log_compacted(minutes[LOG_COMPACTION])
    instants += pending(minutes[PENDING_WRITE], "deltacommit")
    found = []
    compactions = {}
    busy = {}
    for index in range(groups):
        partition, file_id = f"day={index % 100:03}", f"{index:08x}-0"
        logs = {0: 0, 1: chance.randint(1, 3), 2: chance.randint(3, 7)}[chance.choices((0, 1, 2), (45, 40, 15))[0]]
        times = sorted(chance.sample(written, logs))
        sizes = [chance.randrange(10_000, 8 * MIB) for _ in times]
        is_merged = index % 10 == 0 and logs > 2 and times[1] < LOG_COMPACTION
        files = [(minutes[number], size) for number, size in zip(times, sizes, strict=True)]
        if is_merged:
            sources = frozenset(f".{file_id}_{minutes[number]}.log.1_0-0-0" for number in times[:2])
            compactions[partition, file_id] = (LogCompaction(minutes[LOG_COMPACTION], sources),)
            files.append((minutes[LOG_COMPACTION], sum(sizes[:2])))
        base = (minutes[50], chance.choice((8, 64, 128, 512)) * MIB)
        found.append(file_group(partition, file_id, base=base, logs=files))
        if index % 50 == 0:
            busy[partition, file_id] = minutes[600]
    touched = frozenset((group.partition_path, group.file_id) for group in found[::20])
    return snapshot_of(
        found,
        instants,
        pending_compactions=busy,
        log_compactions=compactions,
        write_profiles={minutes[PENDING_WRITE]: WriteProfile(touched, frozenset())},
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", choices=("rfc-103", "cost"), default="rfc-103")
    arguments = parser.parse_args()

    snapshot = synthetic_table(arguments.groups, arguments.seed)
    reads = ReadRates((RateRule(READS),)) if arguments.policy == "cost" else None
    options = HybridOptions(table_trigger=Trigger(), group_trigger=Trigger(delta_commits=1), reads=reads)
    started, cpu = time.perf_counter(), time.process_time()
    outcome = HybridCompactionPlanGenerator(options).generate(snapshot, at=minute(AT))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    started = time.perf_counter()
    plan_bytes = sum(len(write_compaction_plan(p)) for p in (outcome.full_plan, outcome.log_plan) if p is not None)
    write_seconds = time.perf_counter() - started
    started = time.perf_counter()
    for decision in outcome.decisions:
        explain(decision)
    explain_seconds = time.perf_counter() - started

    reasons: dict[str, int] = {}
    for decision in outcome.decisions:
        reasons[f"{decision.choice} {decision.reason}"] = reasons.get(f"{decision.choice} {decision.reason}", 0) + 1
    within = seconds <= SECONDS_MAX and rss_mib <= RSS_MIB_MAX
    report: dict[str, Any] = {
        "benchmark": "planner",
        "policy": arguments.policy,
        "file_groups": arguments.groups,
        "log_files": sum(len(slice_.log_files) for slice_ in snapshot.latest_slices),
        "seed": arguments.seed,
        "plan_seconds": round(seconds, 3),
        "plan_cpu_seconds": round(cpu, 3),
        "plan_seconds_max": SECONDS_MAX,
        "peak_rss_mib": round(rss_mib, 1),
        "peak_rss_mib_max": RSS_MIB_MAX,
        "write_plan_seconds": round(write_seconds, 3),
        "plan_bytes": plan_bytes,
        "explain_seconds": round(explain_seconds, 3),
        "operations": len(outcome.operations),
        "decisions": dict(sorted(reasons.items())),
        "within_bounds": within,
        "machine": machine(),
    }
    json.dump(report, sys.stdout, indent=2)
    print()
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
