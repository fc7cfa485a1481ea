"""Writes docs/reference/metrics.md: every metric that the daemon has, and its names for the figures that people know.

    python -m deploy.metrics_page [--check]

The first table comes from the rows of `lakeward/daemon/metrics/specs.py`, and of services (`services/*/metrics.py`).
The second is written here: operators who come from Hudi's or Amoro's metrics find Lakeward's by the names that they
know. `--check` compares, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lakeward.daemon.metrics.specs import EVENT_METRICS, METRICS, SERVICE_GAUGES, TABLE_GAUGES
from lakeward.daemon.metrics.table_labels import TABLES_MAX, WHOLE_TABLES_MAX
from lakeward.services.metric import MetricKind, MetricSpec, Shown

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"


@dataclass(frozen=True, slots=True)
class Counterpart:
    replaced: tuple[str, ...]
    metrics: tuple[str, ...]
    note: str = ""


HUDI = (
    Counterpart(("compaction.duration", "logcompaction.duration"), ("lakeward_job_duration_seconds",)),
    Counterpart(("commitTime",), ("lakeward_table_last_success_timestamp_seconds",)),
    Counterpart(
        ("compaction.requested.counter", "compaction.completed.counter"),
        ("lakeward_plans_total", "lakeward_jobs_total"),
    ),
    Counterpart(("totalLogFilesCompacted",), ("lakeward_job_merged_log_files_total",)),
    Counterpart(("totalLogFilesSize",), ("lakeward_job_merged_log_bytes_total",)),
    Counterpart(("totalCompactedRecordsUpdated",), ("lakeward_job_rows_total",), 'kind="updated"'),
    Counterpart(
        ("totalRecordsWritten", "totalInsertRecordsWritten", "totalUpdateRecordsWritten", "totalRecordsDeleted"),
        ("lakeward_job_rows_total",),
        'kind="written", "inserted", "updated", "deleted"',
    ),
    Counterpart(("totalBytesWritten",), ("lakeward_job_written_bytes_total",)),
    Counterpart(("totalFilesInsert", "totalFilesUpdate"), ("lakeward_operations_total",), "each writes one file"),
    Counterpart(
        ("totalScanTime", "totalCreateTime", "totalUpsertTime"),
        ("lakeward_phase_duration_seconds",),
        'phase="merge" holds all three: reading, merging and writing overlap',
    ),
    Counterpart(
        ("pendingCompactionInstantCount", "pendingClusteringInstantCount"),
        ("lakeward_table_pending_plans",),
        "by action",
    ),
    Counterpart(
        ("earliestInflightCompactionInstant",),
        ("lakeward_table_oldest_pending_plan_age_seconds",),
        "an age, not an instant's digits",
    ),
    Counterpart(
        ("latestCompletedCompactionInstant",),
        ("lakeward_table_last_success_timestamp_seconds",),
        'service="compaction"; of this service\'s own jobs',
    ),
    Counterpart(
        ("commitLatencyInMs", "commitFreshnessInMs"),
        ("lakeward_table_oldest_unmerged_age_seconds",),
        "how far behind merging is, where Hudi's say how far behind writing is",
    ),
    Counterpart(
        ("lock.acquire.attempts", "lock.acquire.success", "lock.request.latency"), ("lakeward_lock_wait_seconds",)
    ),
    Counterpart(("lock.acquire.failure",), ("lakeward_jobs_total",), 'end="temporary"'),
    Counterpart(("lock.acquire.duration",), ("lakeward_lock_hold_seconds",)),
    Counterpart(("conflict_resolution.failure.counter",), ("lakeward_conflicts_total",)),
    Counterpart(("rollback.duration", "rollback.numFilesDeleted"), ("lakeward_recoveries_total",)),
    Counterpart(("finalize.duration",), ("lakeward_phase_duration_seconds",), 'phase="commit"'),
)

AMORO = (
    Counterpart(
        ("table_optimizing_status_in_idle", "…_pending", "…_planning", "…_executing", "…_committing"),
        ("lakeward_table_state",),
        "one series for each state",
    ),
    Counterpart(
        ("table_optimizing_status_idle_duration_mills", "… and its siblings"),
        ("lakeward_table_state",),
        "how long it has been 1 is Prometheus' to say",
    ),
    Counterpart(
        ("table_optimizing_process_total_count", "table_optimizing_process_failed_count"),
        ("lakeward_jobs_total",),
        "by how they ended",
    ),
    Counterpart(
        ("table_optimizing_minor_total_count", "table_optimizing_major_total_count"),
        ("lakeward_operations_total",),
        'type="LOG" is what minor is there',
    ),
    Counterpart(("table_optimizing_full_total_count",), ("lakeward_operations_total",), 'type="FULL"'),
    Counterpart(
        ("table_optimizing_since_last_optimization_mills", "… minor, major, full"),
        ("lakeward_table_last_success_timestamp_seconds",),
        "a time; its age is `time() -` it",
    ),
    Counterpart(("table_optimizing_lag_duration_mills",), ("lakeward_table_oldest_unmerged_age_seconds",)),
    Counterpart(
        ("optimizer_group_pending_tables", "optimizer_group_executing_tables", "… planing, idle, committing"),
        ("lakeward_tables",),
        "by state",
    ),
    Counterpart(
        ("optimizer_group_pending_tasks", "optimizer_group_executing_tasks"), ("lakeward_jobs_running",), "by service"
    ),
    Counterpart(
        ("optimizer_group_optimizer_instances",), ("lakeward_daemons",), "who carries work out is Spark's to say"
    ),
    Counterpart(("optimizer_group_threads",), ("lakeward_jobs_limit",)),
    Counterpart(
        ("optimizer_group_memory_bytes_allocated",), ("lakeward_memory_reserved_bytes", "lakeward_memory_limit_bytes")
    ),
    Counterpart(
        ("table_summary_total_files", "table_summary_data_files", "table_summary_equality_delete_files"),
        ("lakeward_table_file_slices", "lakeward_table_log_files"),
        "a slice has at most one base file; deletes live in logs",
    ),
    Counterpart(
        ("table_summary_total_files_size", "table_summary_data_files_size", "table_summary_equality_delete_files_size"),
        ("lakeward_table_base_bytes", "lakeward_table_log_bytes"),
    ),
    Counterpart(("table_summary_snapshots",), ("lakeward_table_timeline_instants",)),
    Counterpart(
        ("ams_jvm_cpu_time", "ams_jvm_memory_heap_used", "ams_jvm_threads_count", "ams_jvm_garbage_collector_count"),
        (),
        "`process_*` and `python_gc_*` of the Prometheus client",
    ),
)


def page() -> str:
    return f"""\
# Metrics

Made by `make metrics-page` from what the daemon and each service declare. Scraped at `/metrics`, as Prometheus text or
as OpenMetrics.

Every name starts with `lakeward_` and is in base units. No label ever holds a file id, a path within a table or an
instant. Beside these there are the `process_*` and `python_gc_*` figures of the Prometheus client.

## How many series a table has

`table` is a table's name. What happens at a table without a counter of its own is counted under `other`, so that sums
over tables stay right.

| series | of which tables |
|---|---|
| always | each, up to {TABLES_MAX:,} of a daemon |
| if not 0 | each as well, while there is something to say: what alerts watch |
| in full | those that `metrics.tables` names, {WHOLE_TABLES_MAX} at most |

By default `metrics.tables` is `few`: no table has all series, and a healthy one has fifteen at most. With `all`, or
globs like `["*/orders", "payments"]`, these have all of them, and what alerts watch exists there at 0 from the first
scrape on. A counter that is shown only if it is not 0 is born with its first event, which `increase()` does not see;
the alerts add `x unless x offset 1h` for that.

## The service

{_table(gauge.spec for gauge in SERVICE_GAUGES)}

## Each table

Read at each scrape, from what the daemon's loop saw last. Sizes and counts are missing until a table was polled
once, and `lakeward_table_write_amplification_ratio` until something was written while the daemon watched.

{_table(gauge.spec for gauge in TABLE_GAUGES)}

## What happened

{_table(EVENT_METRICS)}

## Names from elsewhere

What an operator knows from Hudi's own metrics (there under a prefix and the action's name):

{_counterparts("Hudi", HUDI)}

And from Amoro's:

{_counterparts("Amoro", AMORO)}
"""


def _table(specs: Iterable[MetricSpec]) -> str:
    rows = ["| name | type | labels | series | what it says |", "|---|---|---|---|---|"]
    for spec in specs:
        labels = ", ".join(f"`{label}`" for label in spec.labels)
        rows.append(f"| `{spec.name}` | {spec.kind.value}{_unit(spec)} | {labels} | {_shown(spec)} | {spec.help} |")
    return "\n".join(rows)


def _shown(spec: MetricSpec) -> str:
    if spec.labels[:1] != ("table",):
        return ""
    if not spec.notable:
        return spec.shown.value
    return f"{Shown.NOTABLE.value}: {', '.join(f'`{value}`' for value in sorted(spec.notable))}"


def _unit(spec: MetricSpec) -> str:
    if spec.kind is not MetricKind.HISTOGRAM:
        return ""
    return f", {spec.buckets[0]:g} to {spec.buckets[-1]:g}"


def _counterparts(whose: str, counterparts: Iterable[Counterpart]) -> str:
    rows = [f"| {whose} | Lakeward | note |", "|---|---|---|"]
    for each in counterparts:
        replaced, metrics = (", ".join(f"`{name}`" for name in names) for names in (each.replaced, each.metrics))
        rows.append(f"| {replaced} | {metrics} | {each.note} |")
    return "\n".join(rows)


def unknown_counterparts() -> set[str]:
    """Names that the second table promises and no code emits."""
    promised = {name for each in (*HUDI, *AMORO) for name in each.metrics}
    return promised - {spec.name for spec in METRICS}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") != page():
        print(f"{PAGE.name} is not what the code says: run make metrics-page", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
