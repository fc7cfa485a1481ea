"""What Prometheus is told: every name once, with its labels and its sentence, and what feeds it.

Two kinds of source. What happens is counted when it happens, by the methods of `Metrics`, which the worker calls.
What is, is read from a `ServiceStatus` when somebody scrapes. Both kinds are declared in the tables of this module,
and `docs/metrics.md` is generated from those, so that a name cannot exist on one side only.

    worker --(plan made, job ended, phase ...)--> counters and histograms --.
    loop   --ServiceStatus------------------------> gauges, at scrape time --+--> registry --> /metrics

Touches: the registry that it is given, and no other: two apps in one process do not see each other's figures. And one
         switch of the library, for the whole process: no `_created` series, which double what is scraped.
Keeps:   1. labels are bounded: names of enumerations, and of tables up to a cap; never a file id, path or instant;
         2. a table beyond the cap is counted under `other`, so that sums over tables stay right;
         3. the series of a table that is not watched any more go away;
         4. counters that alerts watch exist at 0 from the first scrape that knows their table (a counter that is
            born with 1 never rose, says Prometheus).
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lakeward.daemon.events import Service, TableState
from lakeward.daemon.status import (
    JobEnd,
    JobStatus,
    ServiceStatus,
    SparkState,
    TableStatus,
)
from lakeward.execute.progress import METADATA_COUNTS, RECOVERY_COUNTS, Count, Phase
from lakeward.plan.decision import PlanOutcome

TABLES_MAX = 200
"""Tables with a label of their own."""

OTHER = "other"
"""The label of all tables beyond the cap."""


class Kind(StrEnum):
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class PollResult(StrEnum):
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"


class Check(StrEnum):
    """What was verified."""

    OPERATION = "operation"
    """The output of a merge, before anybody could see it."""
    SAMPLE = "sample"
    """A file group that was merged again by the verification service."""


class CheckResult(StrEnum):
    PASSED = "passed"
    MISMATCH = "mismatch"


class WatchedStep(StrEnum):
    """What the watchdog waits for."""

    POLL = "poll"
    PLAN = "plan"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One documented name."""

    name: str
    """As it is scraped: a counter's ends with `_total`."""
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_LOOK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_JOB_SECONDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
_PHASE_SECONDS = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_LOCK_SECONDS = (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0)
_STORE_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)
_MEMORY_BYTES = tuple(float(mebibytes * 2**20) for mebibytes in (64, 128, 256, 384, 512, 768, 1024, 2048, 4096))


def _counter(name: str, help_: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, Kind.COUNTER, help_, labels)


def _histogram(name: str, buckets: tuple[float, ...], help_: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, Kind.HISTOGRAM, help_, labels, buckets)


def _gauge(name: str, help_: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, Kind.GAUGE, help_, labels)


# ---- what happens

POLLS = _counter("lakeward_polls_total", "Looks at a table's timeline.", "table", "result")
POLL_SECONDS = _histogram("lakeward_poll_duration_seconds", _LOOK_SECONDS, "Seconds that a poll took.", "result")
PLANS = _counter("lakeward_plans_total", "Plans made, those that chose nothing included.", "table")
PLAN_SECONDS = _histogram("lakeward_plan_duration_seconds", _LOOK_SECONDS, "Seconds that a plan took.")
DECISIONS = _counter(
    "lakeward_decisions_total",
    "Decisions about file groups, one for each group and plan, by choice (FULL, LOG, NONE) and reason.",
    "table",
    "choice",
    "reason",
)
JOBS = _counter("lakeward_jobs_total", "Jobs that ended, by service and how they ended.", "table", "service", "end")
JOB_SECONDS = _histogram(
    "lakeward_job_duration_seconds", _JOB_SECONDS, "Seconds from a job's begin to its end.", "service", "end"
)
OPERATIONS = _counter(
    "lakeward_operations_total", "Operations (one file slice each) that jobs published, by type.", "table", "type"
)
READ_BYTES = _counter("lakeward_job_read_bytes_total", "Bytes of the files that jobs merged.", "table", "service")
WRITTEN_BYTES = _counter(
    "lakeward_job_written_bytes_total", "Bytes of the files that jobs published.", "table", "service"
)
MERGED_LOG_FILES = _counter("lakeward_job_merged_log_files_total", "Log files that jobs merged away.", "table")
MERGED_LOG_BYTES = _counter("lakeward_job_merged_log_bytes_total", "Bytes of the logs that jobs merged away.", "table")
ROWS = _counter(
    "lakeward_job_rows_total",
    "Rows that jobs wrote, and of them or of the base those that the logs inserted, updated or deleted.",
    "table",
    "kind",
)
PEAK_MEMORY = _histogram(
    "lakeward_operation_peak_memory_bytes",
    _MEMORY_BYTES,
    "Peak memory of the operation of a job that needed most.",
)
PHASE_SECONDS = _histogram(
    "lakeward_phase_duration_seconds",
    _PHASE_SECONDS,
    "Seconds of the parts of a job; they nest, so they do not add up to the job's.",
    "phase",
)
LOCK_WAIT_SECONDS = _histogram(
    "lakeward_lock_wait_seconds", _LOCK_SECONDS, "Seconds waited for a table's lock, gotten or not."
)
LOCK_HOLD_SECONDS = _histogram("lakeward_lock_hold_seconds", _LOCK_SECONDS, "Seconds that a table's lock was held.")
VERIFICATIONS = _counter(
    "lakeward_verifications_total",
    "Checks of an operation's output before it was published, and of samples of what is in the table.",
    "table",
    "check",
    "result",
)
CONFLICTS = _counter("lakeward_conflicts_total", "Work that a change of the table made unpublishable.", "table")
RECOVERIES = _counter(
    "lakeward_recoveries_total",
    "Attempts taken back after they died or failed, attempts of ours that somebody else took over, and plans "
    "unscheduled.",
    "table",
    "kind",
)
METADATA_SERVICES = _counter(
    "lakeward_metadata_services_total",
    "Cleans and compactions of tables' metadata tables, and how often something stood against them.",
    "table",
    "kind",
)
WATCHDOG = _counter(
    "lakeward_watchdog_firings_total", "Polls, plans and jobs that did not end before their deadline.", "table", "step"
)
LEASE_CHANGES = _counter("lakeward_lease_changes_total", "Leases of tables gained and lost.", "change")
STORE_SECONDS = _histogram(
    "lakeward_store_operation_duration_seconds", _STORE_SECONDS, "Seconds of operations on the store.", "operation"
)
STORE_ERRORS = _counter(
    "lakeward_store_errors_total", "Operations on the store that failed for good, after their retries.", "operation"
)
SPARK_RESTARTS = _counter(
    "lakeward_spark_session_restarts_total", "Spark sessions that had to be replaced because they had died."
)
CONFIG_RELOADS = _counter("lakeward_config_reloads_total", "Attempts to reload the configuration.", "result")

EVENT_METRICS = (
    POLLS,
    POLL_SECONDS,
    PLANS,
    PLAN_SECONDS,
    DECISIONS,
    JOBS,
    JOB_SECONDS,
    OPERATIONS,
    READ_BYTES,
    WRITTEN_BYTES,
    MERGED_LOG_FILES,
    MERGED_LOG_BYTES,
    ROWS,
    PEAK_MEMORY,
    PHASE_SECONDS,
    LOCK_WAIT_SECONDS,
    LOCK_HOLD_SECONDS,
    VERIFICATIONS,
    CONFLICTS,
    RECOVERIES,
    METADATA_SERVICES,
    WATCHDOG,
    LEASE_CHANGES,
    STORE_SECONDS,
    STORE_ERRORS,
    SPARK_RESTARTS,
    CONFIG_RELOADS,
)


# ---- what is: one table at a time

_PLANNED_ACTIONS = ("compaction", "logcompaction", "clustering")

Reading = float | Mapping[str, float] | None
"""A value, or one for each value of the second label; None where there is nothing to say."""


@dataclass(frozen=True, slots=True)
class TableGauge:
    spec: MetricSpec
    read: Callable[[TableStatus, float], Reading]
    """From a table and the time now."""
    combine: Callable[[Iterable[float]], float] = sum
    """What `other` says of the tables that share it."""


def _backlog(name: str) -> Callable[[TableStatus, float], Reading]:
    def read(table: TableStatus, now: float) -> Reading:
        return None if table.backlog is None else float(getattr(table.backlog, name))

    return read


def _state(table: TableStatus, now: float) -> Reading:
    return {state.value: float(table.state is state) for state in TableState}


def _oldest_unmerged_age(table: TableStatus, now: float) -> Reading:
    return None if table.backlog is None else (table.oldest_unmerged_age(now) or 0.0)


def _pending_plans(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    actions = [plan.action for plan in table.backlog.pending_plans]
    return {action: float(actions.count(action)) for action in _PLANNED_ACTIONS}


def _oldest_plan_age(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    requested = [plan.requested_at for plan in table.backlog.pending_plans if plan.requested_at is not None]
    return max((max(0.0, now - at) for at in requested), default=0.0)


def _looked_at(table: TableStatus, now: float) -> Reading:
    return table.watched_since if table.view.looked_at is None else table.view.looked_at


def _metadata_delta_commits(table: TableStatus, now: float) -> Reading:
    wish = table.view.wish
    return None if wish is None or wish.metadata is None else float(wish.metadata.delta_commits)


def _last_success(table: TableStatus, now: float) -> Reading:
    return {service.value: at for service, at in table.last_success_at.items()}


TABLE_GAUGES = (
    TableGauge(
        _gauge("lakeward_table_state", "1 for the state that the table is in, 0 for the others.", "table", "state"),
        _state,
    ),
    TableGauge(
        _gauge("lakeward_table_log_files", "Log files of the newest file slices.", "table"), _backlog("log_files")
    ),
    TableGauge(
        _gauge("lakeward_table_log_bytes", "Bytes of the log files of the newest file slices.", "table"),
        _backlog("log_bytes"),
    ),
    TableGauge(
        _gauge("lakeward_table_base_bytes", "Bytes of the base files of the newest file slices.", "table"),
        _backlog("base_bytes"),
    ),
    TableGauge(
        _gauge("lakeward_table_file_slices", "File slices, older ones that no cleaner has removed included.", "table"),
        _backlog("slices"),
    ),
    TableGauge(_gauge("lakeward_table_file_groups", "File groups.", "table"), _backlog("file_groups")),
    TableGauge(
        _gauge(
            "lakeward_table_read_amplification_ratio",
            "Bytes that a snapshot query reads, over those of the base files alone.",
            "table",
        ),
        _backlog("read_amplification"),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_write_amplification_ratio",
            "Bytes written by writers and by services, over those written by writers.",
            "table",
        ),
        lambda table, now: table.write_amplification,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_space_amplification_ratio",
            "Bytes of all files, over those of the newest file slices.",
            "table",
        ),
        _backlog("space_amplification"),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_oldest_unmerged_age_seconds",
            "How long ago the oldest record that no base file holds was committed; 0 when all are merged.",
            "table",
        ),
        _oldest_unmerged_age,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_objective_seconds", "The longest that a committed record should stay unmerged.", "table"
        ),
        lambda table, now: table.objective_seconds,
        min,
    ),
    TableGauge(
        _gauge("lakeward_table_objective_breached", "1 while a record stays unmerged for longer than that.", "table"),
        lambda table, now: float(table.is_breached(now)),
    ),
    TableGauge(
        _gauge("lakeward_table_pending_plans", "Plans on the timeline that are not carried out.", "table", "action"),
        _pending_plans,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_oldest_pending_plan_age_seconds",
            "How long ago the oldest of them was requested; 0 when there is none.",
            "table",
        ),
        _oldest_plan_age,
        max,
    ),
    TableGauge(
        _gauge("lakeward_table_timeline_instants", "Instants on the active timeline.", "table"),
        _backlog("timeline_length"),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_metadata_delta_commits",
            "Delta commits of the metadata table since its last compaction; nothing where it is left to its writers.",
            "table",
        ),
        _metadata_delta_commits,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_last_looked_timestamp_seconds",
            "When the table was looked at last; before the first time, when watching it began.",
            "table",
        ),
        _looked_at,
        min,
    ),
    TableGauge(
        _gauge("lakeward_table_poll_interval_seconds", "How often the table should be looked at.", "table"),
        lambda table, now: table.interval_seconds,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_look_overdue",
            "1 while the table, ours to look at, was not looked at for two intervals.",
            "table",
        ),
        lambda table, now: float(table.view.look_overdue),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_damaged_files",
            "Files of the newest file slices that are not what their commits say; their file groups are left alone.",
            "table",
        ),
        _backlog("damaged_files"),
    ),
    TableGauge(
        _gauge("lakeward_table_parked_file_groups", "File groups left alone after failures.", "table"),
        lambda table, now: float(len(table.view.parked_groups)),
    ),
    TableGauge(
        _gauge("lakeward_table_paused_file_groups", "File groups paused by an operator.", "table"),
        lambda table, now: float(len(table.view.paused_groups)),
    ),
    TableGauge(
        _gauge("lakeward_table_paused", "1 while an operator has paused the whole table.", "table"),
        lambda table, now: float(table.state is TableState.PAUSED),
    ),
    TableGauge(
        _gauge("lakeward_table_failures", "Jobs that failed since one ended well.", "table"),
        lambda table, now: float(table.view.failures),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_last_success_timestamp_seconds",
            "When a job of the service last ended well.",
            "table",
            "service",
        ),
        _last_success,
        min,
    ),
)


# ---- what is: the service


@dataclass(frozen=True, slots=True)
class ServiceGauge:
    spec: MetricSpec
    read: Callable[[ServiceStatus], float | Mapping[tuple[str, ...], float]]
    """A value, or one for each set of label values."""


def _build(status: ServiceStatus) -> Mapping[tuple[str, ...], float]:
    return {(status.version, platform.python_version()): 1.0}


def _table_states(status: ServiceStatus) -> Mapping[tuple[str, ...], float]:
    states = [table.state for table in status.tables]
    return {(state.value,): float(states.count(state)) for state in TableState}


def _running(status: ServiceStatus) -> Mapping[tuple[str, ...], float]:
    services = [job.service for job in status.running]
    return {(service.value,): float(services.count(service)) for service in Service}


def _spark_states(status: ServiceStatus) -> Mapping[tuple[str, ...], float]:
    return {(state.value,): float(status.spark.state is state) for state in SparkState}


SERVICE_GAUGES = (
    ServiceGauge(_gauge("lakeward_build_info", "1; the labels say what runs.", "version", "python"), _build),
    ServiceGauge(
        _gauge("lakeward_ready", "1 while the daemon services tables: not while it starts, stops or has no store."),
        lambda status: float(status.is_ready),
    ),
    ServiceGauge(
        _gauge("lakeward_last_step_timestamp_seconds", "When the daemon's loop last came round."),
        lambda status: status.at,
    ),
    ServiceGauge(_gauge("lakeward_tables", "Tables by state.", "state"), _table_states),
    ServiceGauge(_gauge("lakeward_jobs_running", "Jobs under way.", "service"), _running),
    ServiceGauge(
        _gauge("lakeward_jobs_limit", "How many jobs may be under way at once."), lambda status: status.jobs_max
    ),
    ServiceGauge(
        _gauge("lakeward_memory_reserved_bytes", "Memory permits that running jobs hold."),
        lambda status: status.memory_reserved_bytes,
    ),
    ServiceGauge(
        _gauge("lakeward_memory_limit_bytes", "Memory permits that there are."), lambda status: status.memory_bytes
    ),
    ServiceGauge(
        _gauge("lakeward_limitations", "Things that the daemon cannot do now; its page says which and the remedy."),
        lambda status: len(status.limitations),
    ),
    ServiceGauge(
        _gauge("lakeward_leases_held", "Tables whose lease this daemon holds."), lambda status: status.lease.held
    ),
    ServiceGauge(
        _gauge("lakeward_leader", "1 while this daemon may service tables: its leases can be taken and renewed."),
        lambda status: float(status.lease.leader),
    ),
    ServiceGauge(
        _gauge("lakeward_daemons", "Living daemons that share the store, this one included."),
        lambda status: status.lease.daemons,
    ),
    ServiceGauge(
        _gauge("lakeward_spark_session", "1 for the state that the Spark session is in, 0 for the others.", "state"),
        _spark_states,
    ),
    ServiceGauge(
        _gauge("lakeward_config_last_reload_successful", "0 when the newest attempt to reload was refused."),
        lambda status: float(not status.config.problem),
    ),
    ServiceGauge(
        _gauge(
            "lakeward_config_last_reload_success_timestamp_seconds",
            "When the settings that are in force were read.",
        ),
        lambda status: status.config.loaded_at,
    ),
)

METRICS: tuple[MetricSpec, ...] = (
    *(gauge.spec for gauge in SERVICE_GAUGES),
    *(gauge.spec for gauge in TABLE_GAUGES),
    *EVENT_METRICS,
)


class Metrics:
    """The figures of one app. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry, *, tables_max: int = TABLES_MAX) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        self._gauges = _StatusCollector(self)
        # First of all: a scrape prepares the series of new tables before it comes to the counters.
        registry.register(self._gauges)
        self._made: dict[str, Counter | Histogram] = {spec.name: _make(spec, registry) for spec in EVENT_METRICS}
        self._labels = _TableLabels(tables_max)
        for change in ("gained", "lost"):
            self._counter(LEASE_CHANGES, change)
        for result in ("applied", "refused"):
            self._counter(CONFIG_RELOADS, result)
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)

    def show(self, status: Callable[[], ServiceStatus]) -> None:
        """From now on a scrape reads its gauges from what `status` gives; until now it finds none."""
        self._gauges.status = status

    # ---- called by the worker and the app

    def polled(self, table: str, result: PollResult, seconds: float) -> None:
        self._counter(POLLS, self._label(table), result).inc()
        self._histogram(POLL_SECONDS, result).observe(seconds)

    def planned(self, table: str, outcome: PlanOutcome, seconds: float) -> None:
        label = self._label(table)
        self._counter(PLANS, label).inc()
        self._histogram(PLAN_SECONDS).observe(seconds)
        numbers: dict[tuple[str, str], int] = {}
        for decision in outcome.decisions:
            key = (decision.choice.value, decision.reason.value)
            numbers[key] = numbers.get(key, 0) + 1
        for (choice, reason), number in numbers.items():
            self._counter(DECISIONS, label, choice, reason).inc(number)

    def job_ended(self, job: JobStatus) -> None:
        """A job that has ended, with its figures."""
        assert job.ended_at is not None and job.end is not None, "only an ended job has figures"
        label, service, figures = self._label(job.table), job.service.value, job.figures
        self._counter(JOBS, label, service, job.end).inc()
        self._histogram(JOB_SECONDS, service, job.end).observe(max(0.0, job.ended_at - job.began_at))
        self._counter(OPERATIONS, label, "FULL").inc(figures.full_operations)
        self._counter(OPERATIONS, label, "LOG").inc(figures.log_operations)
        self._counter(READ_BYTES, label, service).inc(figures.read_bytes)
        self._counter(WRITTEN_BYTES, label, service).inc(figures.written_bytes)
        self._counter(MERGED_LOG_FILES, label).inc(figures.log_files)
        self._counter(MERGED_LOG_BYTES, label).inc(figures.log_bytes)
        self._counter(ROWS, label, "written").inc(figures.rows_written)
        self._counter(ROWS, label, "inserted").inc(figures.rows_inserted)
        self._counter(ROWS, label, "updated").inc(figures.rows_updated)
        self._counter(ROWS, label, "deleted").inc(figures.rows_deleted)
        if job.service is not Service.VERIFICATION:
            wrong = int(job.end is JobEnd.VERIFICATION)
            self.verified(job.table, Check.OPERATION, passed=figures.operations_verified, mismatched=wrong)
        if figures.peak_memory_bytes:
            self._histogram(PEAK_MEMORY).observe(figures.peak_memory_bytes)

    def phase(self, phase: Phase, seconds: float) -> None:
        """A part of a job ended; an `Observer`'s `phase` calls this."""
        match phase:
            case Phase.LOCK_WAIT:
                self._histogram(LOCK_WAIT_SECONDS).observe(seconds)
            case Phase.LOCK_HOLD:
                self._histogram(LOCK_HOLD_SECONDS).observe(seconds)
            case _:
                self._histogram(PHASE_SECONDS, phase).observe(seconds)

    def counted(self, table: str, count: Count, number: int = 1) -> None:
        """An `Observer`'s `counted` calls this."""
        label = self._label(table)
        if count in METADATA_COUNTS:
            self._counter(METADATA_SERVICES, label, count.removeprefix("metadata_")).inc(number)
        elif count in RECOVERY_COUNTS:
            self._counter(RECOVERIES, label, count).inc(number)
        else:
            self._counter(CONFLICTS, label).inc(number)

    def verified(self, table: str, check: Check, *, passed: int = 0, mismatched: int = 0) -> None:
        """File groups of a sample, or operations; `job_ended` tells of a job's operations itself."""
        label = self._label(table)
        self._counter(VERIFICATIONS, label, check, CheckResult.PASSED).inc(passed)
        self._counter(VERIFICATIONS, label, check, CheckResult.MISMATCH).inc(mismatched)

    def watchdog_fired(self, table: str, step: WatchedStep) -> None:
        self._counter(WATCHDOG, self._label(table), step).inc()

    def lease_gained(self) -> None:
        self._counter(LEASE_CHANGES, "gained").inc()

    def lease_lost(self) -> None:
        self._counter(LEASE_CHANGES, "lost").inc()

    def store_operation(self, operation: str, seconds: float, *, failed: bool = False) -> None:
        """`operation` is the name of a method of the store, so there are as many as the code has."""
        self._histogram(STORE_SECONDS, operation).observe(seconds)
        self._counter(STORE_ERRORS, operation).inc(int(failed))

    def spark_restarted(self) -> None:
        self._counter(SPARK_RESTARTS).inc()

    def config_reloaded(self, *, applied: bool) -> None:
        self._counter(CONFIG_RELOADS, "applied" if applied else "refused").inc()

    # ---- series

    def keep(self, tables: Iterable[str]) -> None:
        """These are the watched tables: prepare the series that alerts watch, drop those of tables that are gone."""
        added, gone = self._labels.keep(tables)
        for label in gone:
            for spec in EVENT_METRICS:
                if spec.labels[:1] == ("table",):
                    self._made[spec.name].remove_by_labels({"table": label})
        for label in added:
            for service in (Service.COMPACTION, Service.VERIFICATION):
                for end in JobEnd:
                    self._counter(JOBS, label, service, end)
            for check in Check:
                for result in CheckResult:
                    self._counter(VERIFICATIONS, label, check, result)
            for step in WatchedStep:
                self._counter(WATCHDOG, label, step)
            for poll in PollResult:
                self._counter(POLLS, label, poll)
            for count in sorted(RECOVERY_COUNTS):
                self._counter(RECOVERIES, label, count)
            for count in sorted(METADATA_COUNTS):
                self._counter(METADATA_SERVICES, label, count.removeprefix("metadata_"))
            self._counter(CONFLICTS, label)

    def label_of(self, table: str) -> str:
        """The table's name, or `other` beyond the cap."""
        return self._label(table)

    def _label(self, table: str) -> str:
        return self._labels.of(table)

    def _counter(self, spec: MetricSpec, *labels: str) -> Counter:
        counter = self._made[spec.name]
        assert isinstance(counter, Counter)
        return counter.labels(*labels) if labels else counter

    def _histogram(self, spec: MetricSpec, *labels: str) -> Histogram:
        histogram = self._made[spec.name]
        assert isinstance(histogram, Histogram)
        return histogram.labels(*labels) if labels else histogram


def _make(spec: MetricSpec, registry: CollectorRegistry) -> Counter | Histogram:
    if spec.kind is Kind.COUNTER:
        return Counter(spec.name, spec.help, spec.labels, registry=registry)
    return Histogram(spec.name, spec.help, spec.labels, registry=registry, buckets=spec.buckets)


def _printable(table: str) -> str:
    """A file system's names are bytes; one that is no text must not take the whole scrape with it."""
    return table.encode(errors="backslashreplace").decode()


class _TableLabels:
    """The first tables that come get labels of their own and keep them until they are not watched any more."""

    def __init__(self, tables_max: int) -> None:
        self._max = tables_max
        self._own: set[str] = set()
        self._prepared: set[str] = set()
        self._lock = threading.Lock()

    def of(self, table: str) -> str:
        with self._lock:
            if table not in self._own and len(self._own) < self._max:
                self._own.add(table)
            return _printable(table) if table in self._own else OTHER

    def keep(self, tables: Iterable[str]) -> tuple[list[str], list[str]]:
        """Returns the labels that this was not asked about before, and those that are gone."""
        watched = list(tables)
        with self._lock:
            gone = sorted(self._own - set(watched))
            self._own.difference_update(gone)
            gone = [_printable(table) for table in gone]
            self._prepared.difference_update(gone)
        labels = {self.of(table) for table in watched}
        with self._lock:
            added = sorted(labels - self._prepared)
            self._prepared |= labels
        return added, gone


class _StatusCollector(Collector):
    """Gauges, read when somebody scrapes."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.status: Callable[[], ServiceStatus] | None = None

    def describe(self) -> Iterator[Metric]:
        """Names without values: registering must not need a status, which may not exist yet."""
        for spec in (*(g.spec for g in SERVICE_GAUGES), *(g.spec for g in TABLE_GAUGES)):
            yield GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)

    def collect(self) -> Iterator[Metric]:
        if self.status is None:
            return
        status = self.status()
        for gauge in SERVICE_GAUGES:
            yield _service_family(gauge, status)
        by_label: dict[str, list[TableStatus]] = {}
        for table in status.tables:
            by_label.setdefault(self._metrics.label_of(table.name), []).append(table)
        for table_gauge in TABLE_GAUGES:
            yield _table_family(table_gauge, by_label, status.at)


def _service_family(gauge: ServiceGauge, status: ServiceStatus) -> GaugeMetricFamily:
    family = GaugeMetricFamily(gauge.spec.name, gauge.spec.help, labels=gauge.spec.labels)
    reading = gauge.read(status)
    values = reading if isinstance(reading, Mapping) else {(): float(reading)}
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _table_family(gauge: TableGauge, by_label: Mapping[str, Sequence[TableStatus]], now: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(gauge.spec.name, gauge.spec.help, labels=gauge.spec.labels)
    for label, tables in by_label.items():
        values: dict[tuple[str, ...], list[float]] = {}
        for table in tables:
            reading = gauge.read(table, now)
            if reading is None:
                continue
            if isinstance(reading, Mapping):
                for second, value in reading.items():
                    values.setdefault((label, second), []).append(value)
            else:
                values.setdefault((label,), []).append(reading)
        for labels, found in values.items():
            family.add_metric(labels, gauge.combine(found))
    return family
