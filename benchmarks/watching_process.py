"""The watching half of `benchmarks.watching`: started by it, with a line for each thing to do.

<- [base paths]        poll all, plan all
-> ready
<- base path           a commit was made there: poll, plan
-> planned             ... and so on, until the input ends
-> {figures}
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import psutil

PROCESS = psutil.Process()
MB = 1_000_000
INTERVAL_SECONDS = 10.0


def main() -> int:
    from lakeward.base.clock import SystemClock
    from lakeward.daemon.work.watcher import Watcher
    from lakeward.format.timeline.instant import format_instant_time
    from lakeward.services.compaction.plan.hybrid_options import HybridOptions
    from lakeward.services.compaction.plan.planner import HybridCompactionPlanGenerator
    from lakeward.services.compaction.plan.trigger import Trigger
    from lakeward.storage.storage_of_url import open_storage

    watcher = Watcher(open_storage, SystemClock())
    planner = HybridCompactionPlanGenerator(
        HybridOptions(table_trigger=Trigger(), group_trigger=Trigger(delta_commits=1))
    )

    def plan(table: str) -> None:
        snapshot = watcher.snapshot(table)
        planner.generate(snapshot, at=format_instant_time(int(time.time() * 1000), UTC))

    tables: list[str] = json.loads(sys.stdin.readline())
    started = time.perf_counter()
    for table in tables:
        watcher.poll(table, table)
        plan(table)
        watcher.backlog(table)
    first_seconds = time.perf_counter() - started
    for table in tables:
        watcher.poll(table, table)
    gc.collect()
    resident = rss_mb()
    print("ready", flush=True)

    refreshes: list[float] = []
    refreshes_cpu: list[float] = []
    plans: list[float] = []
    plans_cpu: list[float] = []
    for line in sys.stdin:
        table = line.rstrip("\n")
        started, cpu = time.perf_counter(), time.process_time()
        polled = watcher.poll(table, table)
        refreshes.append(time.perf_counter() - started)
        refreshes_cpu.append(time.process_time() - cpu)
        assert polled.changed and not polled.rebuilt and not polled.partitions_listed
        plan(table)
        plans.append(time.perf_counter() - started)
        plans_cpu.append(time.process_time() - cpu)
        print("planned", flush=True)
    figures: dict[str, Any] = {
        "watcher_rss_mb": round(resident, 1),
        "watcher_rss_mb_after_commits": round(rss_mb(), 1),
        "first_look_and_plan_seconds": round(first_seconds, 2),
        "commits": len(refreshes),
        "refresh_ms": spread([seconds * 1000 for seconds in refreshes]),
        "refresh_cpu_ms": spread([seconds * 1000 for seconds in refreshes_cpu]),
        "commit_to_plan_seconds": spread(plans),
        "commit_to_plan_cpu_seconds": spread(plans_cpu),
    }
    print(json.dumps(figures))
    return 0


def spread(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"p50": values[0], "p99": values[0], "max": values[0]}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 4), "p99": round(cuts[98], 4), "max": round(max(values), 4)}


def rss_mb() -> float:
    return float(PROCESS.memory_info().rss) / MB


if __name__ == "__main__":
    sys.exit(main())
