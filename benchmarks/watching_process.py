"""The watching half of `benchmarks.watching`: started by it, told by lines what to do.

<- [base paths]        look at all, plan all, then watch them for the given seconds
-> ready
<- base path           a commit was made there: look, plan
-> planned             ... and so on, until the input ends
-> {figures}
"""

from __future__ import annotations

import gc
import importlib
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
    floor = {"interpreter": rss_mb()}
    from lakeward.clock import SystemClock
    from lakeward.daemon.watcher import Watcher
    from lakeward.format.instant import format_instant_time
    from lakeward.plan.hybrid_compaction import HybridCompactionPlanGenerator, HybridOptions
    from lakeward.plan.trigger import Trigger
    from lakeward.storage.opening import open_storage

    floor["watcher_and_planner"] = rss_mb()
    for name in DAEMON_LIBRARIES:
        importlib.import_module(name)
    floor["with_the_daemons_libraries"] = rss_mb()

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
    idle = watch(watcher, tables, float(sys.argv[1]))
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
        "idle_cpu_percent": round(idle, 2),
        "rss_mb": round(resident, 1),
        "rss_mb_after_commits": round(rss_mb(), 1),
        "import_floor_mb": {name: round(value, 1) for name, value in floor.items()},
        "imported_work_libraries": [name for name in WORK_LIBRARIES if name in sys.modules],
        "first_look_and_plan_seconds": round(first_seconds, 2),
        "commits": len(refreshes),
        "refresh_ms": spread([seconds * 1000 for seconds in refreshes]),
        "refresh_cpu_ms": spread([seconds * 1000 for seconds in refreshes_cpu]),
        "commit_to_plan_seconds": spread(plans),
        "commit_to_plan_cpu_seconds": spread(plans_cpu),
    }
    print(json.dumps(figures))
    return 0


def watch(watcher: Any, tables: Sequence[str], seconds: float) -> float:
    """Look at each table once in an interval, evenly spread. Returns percent of a core."""
    pause = INTERVAL_SECONDS / len(tables)
    began, cpu = time.monotonic(), time.process_time()
    looks = 0
    while (now := time.monotonic()) < began + seconds:
        watcher.poll(tables[looks % len(tables)], tables[looks % len(tables)])
        looks += 1
        time.sleep(max(0.0, began + looks * pause - now))
    return 100 * (time.process_time() - cpu) / (time.monotonic() - began)


def spread(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"p50": values[0], "p99": values[0], "max": values[0]}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 4), "p99": round(cuts[98], 4), "max": round(max(values), 4)}


def rss_mb() -> float:
    return float(PROCESS.memory_info().rss) / MB


# What a daemon has in memory beside the watcher, and what only work needs.
DAEMON_LIBRARIES = (
    "alembic",
    "apscheduler.schedulers.background",
    "jinja2",
    "prometheus_client",
    "pydantic",
    "sqlalchemy",
    "starlette.applications",
    "structlog",
    "uvicorn",
)
WORK_LIBRARIES = ("numba", "numpy", "pandas", "pyarrow", "pyspark")


if __name__ == "__main__":
    sys.exit(main())
