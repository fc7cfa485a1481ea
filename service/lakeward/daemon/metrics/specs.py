"""Every metric once: its name, its labels, its sentence, and for a gauge what it is read from.

What happens is a counter or a histogram, which `daemon/metrics/metrics.py` counts when it happens. What is, is a
gauge, read from a `ServiceStatus` or one of its tables when a scrape asks. What a service measures, its folder
declares (`services/metric`), and is gathered here. `docs/reference/metrics.md` is generated from all of them, so that a
name cannot exist on one side only.

Touches: nothing.
Keeps:   labels are bounded: values of enumerations, tables, and names that the configuration gives; never a file id,
         path or instant.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import GOOD_ENDS, JobEnd, ServiceStatus, SparkState, TableStatus
from lakeward.protocol.job_kind import JobKind
from lakeward.services.metric import (
    JobChecks,
    JobCounter,
    MemoryGauge,
    MetricKind,
    MetricSpec,
    ProgressCounter,
    Reading,
    ServiceMetric,
    Shown,
    counter,
    gauge,
)
from lakeward.services.services import load_services
from lakeward.services.together.doctor.diagnosis import Grade
from lakeward.table.backlog import BEGUN_ACTIONS


class PollOutcome(StrEnum):
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"


class JobDoing(StrEnum):
    """What a second of a job goes into."""

    WORKING = "working"
    WAITING = "waiting"


UNSEEN = "unseen"
"""The grade of patterns that could not be looked for."""

OPERATION_CHECK = "operation"
"""What was verified: the output of a merge, before anybody could see it. The other checks are those of services."""


class CheckResult(StrEnum):
    PASSED = "passed"
    MISMATCH = "mismatch"


class WatchedStep(StrEnum):
    """What the watchdog waits for."""

    POLL = "poll"
    PLAN = "plan"
    JOB = "job"


_SCAN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_JOB_SECONDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
_PHASE_SECONDS = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_LOCK_SECONDS = (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0)
_STORE_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)
_MEMORY_BYTES = tuple(float(mebibytes * 2**20) for mebibytes in (64, 128, 256, 384, 512, 768, 1024, 2048, 4096))


def _histogram(name: str, buckets: tuple[float, ...], help_: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, MetricKind.HISTOGRAM, help_, labels, buckets)


# ---- what happens

POLLS = counter("lakeward_polls_total", "Polls of a table's timeline.", "table", "result")
POLL_SECONDS = _histogram("lakeward_poll_duration_seconds", _SCAN_SECONDS, "Duration of polls in seconds.", "result")
PLANS = counter("lakeward_plans_total", "Plans made, those that chose nothing included.", "table")
PLAN_SECONDS = _histogram("lakeward_plan_duration_seconds", _SCAN_SECONDS, "Duration of planning in seconds.")
DECISIONS = counter(
    "lakeward_decisions_total",
    "Decisions about file groups, one for each group and plan, by choice (FULL, LOG, NONE) and reason.",
    "table",
    "choice",
    "reason",
)
JOBS = counter(
    "lakeward_jobs_total",
    "Jobs that ended, by service and how they ended.",
    "table",
    "service",
    "end",
    shown=Shown.NOTABLE,
    notable=frozenset(JobEnd) - GOOD_ENDS,
)
JOB_SECONDS = _histogram(
    "lakeward_job_duration_seconds", _JOB_SECONDS, "Seconds from a job's begin to its end.", "service", "end"
)
JOB_SPENT_SECONDS = counter(
    "lakeward_job_seconds_total",
    "Seconds of jobs by what they did: working, or waiting for writers, locks, other attempts or kernels. Those that "
    "run are counted as they go.",
    "service",
    "doing",
)
JOB_CORE_SECONDS = counter(
    "lakeward_job_core_seconds_total",
    "Core-seconds of the operations of compactions: predicted by the planner, and taken (CPU seconds; where these are "
    "not known, seconds of the clock).",
    "table",
    "kind",
)
COMPARED_CORE_SECONDS = counter(
    "lakeward_compared_core_seconds_total",
    "Core-seconds of compactions and of reading logs by the planner's model, of days that were compared with Hudi's "
    "default: as it happened, and as Hudi's default would have compacted.",
    "table",
    "policy",
)
COMPARED_BYTES = counter(
    "lakeward_compared_bytes_total",
    "Bytes that compactions of compared days wrote: counted, and by the model of sizes. Their quotient is the error of "
    "the comparison.",
    "table",
    "kind",
)
PEAK_MEMORY = _histogram(
    "lakeward_operation_peak_memory_bytes",
    _MEMORY_BYTES,
    "Peak memory of the job's largest operation.",
)
PHASE_SECONDS = _histogram(
    "lakeward_phase_duration_seconds",
    _PHASE_SECONDS,
    "Seconds of the parts of a job; they nest, so they do not add up to the job's.",
    "phase",
)
LOCK_WAIT_SECONDS = _histogram(
    "lakeward_lock_wait_seconds", _LOCK_SECONDS, "Seconds waited for a table's lock, whether it was obtained or not."
)
LOCK_HOLD_SECONDS = _histogram("lakeward_lock_hold_seconds", _LOCK_SECONDS, "Seconds that a table's lock was held.")
LOCK_HELD_BESIDE_WRITES = counter(
    "lakeward_lock_held_beside_writes_seconds_total",
    "Seconds that a table's lock was held while a write was under way: the most that writers waited for Lakeward, "
    "and with Hudi's file-system lock up to 5 s more each time one asked.",
    "table",
)
VERIFICATIONS = counter(
    "lakeward_verifications_total",
    "Checks of an operation's output before it was published, of samples of what is in the table, and of rows and "
    "entries of indexes.",
    "table",
    "check",
    "result",
    shown=Shown.NOTABLE,
    notable=frozenset({CheckResult.MISMATCH}),
)
CONFLICTS = counter(
    "lakeward_conflicts_total", "Jobs discarded because the table changed meanwhile.", "table", shown=Shown.NOTABLE
)
WRITER_CONFLICTS = counter(
    "lakeward_writer_conflicts_total",
    "Writes rolled back that shared a file group with a Lakeward compaction that completed while they were under way.",
    "table",
    shown=Shown.NOTABLE,
)
RECOVERIES = counter(
    "lakeward_recoveries_total",
    "Lakeward attempts rolled back after they died or failed, or taken over by another process, and plans unscheduled.",
    "table",
    "kind",
)
ENGINE_PLANS = counter(
    "lakeward_engine_plans_total",
    "Plans whose operations were run to their end, by what they ran on: spark, or local, processes of the daemon's "
    "machine.",
    "table",
    "engine",
)
WATCHDOG = counter(
    "lakeward_watchdog_firings_total",
    "Polls, plans and jobs that did not end before their deadline.",
    "table",
    "step",
    shown=Shown.NOTABLE,
)
LEASE_CHANGES = counter("lakeward_lease_changes_total", "Leases of tables gained and lost.", "change")
STORE_SECONDS = _histogram(
    "lakeward_store_operation_duration_seconds", _STORE_SECONDS, "Seconds of operations on the store.", "operation"
)
STORE_ERRORS = counter(
    "lakeward_store_errors_total", "Operations on the store that failed for good, after their retries.", "operation"
)
SPARK_RESTARTS = counter(
    "lakeward_spark_session_restarts_total", "Spark sessions that had to be replaced because they had died."
)
CONFIG_RELOADS = counter("lakeward_config_reloads_total", "Attempts to reload the configuration.", "result")

_OWN_EVENTS = (
    POLLS,
    POLL_SECONDS,
    PLANS,
    PLAN_SECONDS,
    DECISIONS,
    JOBS,
    JOB_SECONDS,
    JOB_SPENT_SECONDS,
    JOB_CORE_SECONDS,
    COMPARED_CORE_SECONDS,
    COMPARED_BYTES,
    PEAK_MEMORY,
    PHASE_SECONDS,
    LOCK_WAIT_SECONDS,
    LOCK_HOLD_SECONDS,
    LOCK_HELD_BESIDE_WRITES,
    VERIFICATIONS,
    CONFLICTS,
    WRITER_CONFLICTS,
    RECOVERIES,
    ENGINE_PLANS,
    WATCHDOG,
    LEASE_CHANGES,
    STORE_SECONDS,
    STORE_ERRORS,
    SPARK_RESTARTS,
    CONFIG_RELOADS,
)


_DECLARED: tuple[tuple[JobKind, ServiceMetric], ...] = tuple(
    (service.kind, metric) for service in load_services() for metric in service.metrics
)
JOB_COUNTERS: Mapping[JobKind, tuple[JobCounter, ...]] = {
    kind: tuple(metric for metric in service.metrics if isinstance(metric, JobCounter))
    for service in load_services()
    for kind in service.jobs
}
"""What is counted of each kind of job once it has ended."""
JOB_CHECKS: Mapping[JobKind, JobChecks] = {
    kind: metric
    for service in load_services()
    for metric in service.metrics
    if isinstance(metric, JobChecks)
    for kind in service.jobs
}
PROGRESS_COUNTERS = tuple(metric for _, metric in _DECLARED if isinstance(metric, ProgressCounter))
CHECKS = (OPERATION_CHECK, *(checks.check for checks in JOB_CHECKS.values()))
"""Values of the label `check`."""
EVENT_METRICS: tuple[MetricSpec, ...] = tuple(
    dict.fromkeys(
        (*_OWN_EVENTS, *(each.spec for _, each in _DECLARED if isinstance(each, JobCounter | ProgressCounter)))
    )
)


# ---- what is: one table at a time

_PLANNED_ACTIONS = ("compaction", "logcompaction", "clustering")


@dataclass(frozen=True, slots=True)
class TableGauge:
    spec: MetricSpec
    read: Callable[[TableStatus, float], Reading]
    """The reading from a table and the time now."""
    combine: Callable[[Iterable[float]], float] = sum
    """What `other` says of the tables that share it."""


def _backlog(name: str) -> Callable[[TableStatus, float], Reading]:
    def read(table: TableStatus, now: float) -> Reading:
        return None if table.backlog is None else float(getattr(table.backlog, name))

    return read


_NO_STATE = {state.value: 0.0 for state in TableState}


def _state(table: TableStatus, now: float) -> Reading:
    return _NO_STATE | dict.fromkeys((table.state.value, *(hold.state.value for hold in table.outlook.holds)), 1.0)


def _storage(table: TableStatus, now: float) -> Reading:
    return None if table.storage is None else {state: float(size) for state, size in table.storage.bytes.items()}


def _findings(table: TableStatus, now: float) -> Reading:
    """None where nothing was seen yet: 0 would say that all is well."""
    if table.examination is None or table.examination.document is None:
        return None
    document = table.examination.document
    grades = [each["grade"] for each in document["found"]]
    unseen = [each for each in document["unseen"] if not each["by_choice"]]
    return {**{grade.value: float(grades.count(grade)) for grade in Grade}, UNSEEN: float(len(unseen))}


def _examination_age(table: TableStatus, now: float) -> Reading:
    if (found := table.examination) is None:
        return None
    return max(0.0, now - (found.looked_at or table.served.watched_since))


def _oldest_unmerged_age(table: TableStatus, now: float) -> Reading:
    return None if table.age_unknown or table.no_work else (table.oldest_unmerged_age(now) or 0.0)


def _pending_plans(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    actions = [plan.action for plan in table.backlog.pending_plans]
    return {action: float(actions.count(action)) for action in _PLANNED_ACTIONS}


def _oldest_plan_age(table: TableStatus, now: float) -> Reading:
    if table.backlog is None or table.no_work:
        return None
    requested = [plan.requested_at for plan in table.backlog.pending_plans if plan.requested_at is not None]
    return max((max(0.0, now - at) for at in requested), default=0.0)


def _begun_services(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    actions = [service.action for service in table.backlog.begun_services]
    return {action: float(actions.count(action)) for action in BEGUN_ACTIONS}


def _oldest_begun_age(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    ages = dict.fromkeys(BEGUN_ACTIONS, 0.0)
    for service in table.backlog.begun_services:
        ages[service.action] = max(ages[service.action], now - service.begun_at)
    return ages


def _oldest_savepoint_age(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    at = table.backlog.oldest_savepoint_at
    return 0.0 if at is None else max(0.0, now - at)


def _scanned_at(table: TableStatus, now: float) -> Reading:
    return table.served.watched_since if table.outlook.scanned_at is None else table.outlook.scanned_at


def _oldest_clean_age(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    at = table.backlog.oldest_clean_at
    return 0.0 if at is None else max(0.0, now - at)


def _refused(table: TableStatus, now: float) -> Reading:
    if table.outlook.planned_at is None:
        return None
    if table.state is TableState.REFUSED:
        return dict.fromkeys(table.served.settings.services, 1.0)
    return {service: float(service in table.outlook.refused) for service in table.served.settings.services}


def _last_success(table: TableStatus, now: float) -> Reading:
    return {service.value: at for service, at in table.last_success_at.items()}


_OWN_TABLE_GAUGES = (
    TableGauge(
        gauge(
            "lakeward_table_state",
            "1 for the state that the table is in and for all that holds it, 0 for the others.",
            "table",
            "state",
            shown=Shown.NOTABLE,
        ),
        _state,
    ),
    TableGauge(
        gauge("lakeward_table_log_files", "Live log files of the newest file slices: what readers merge.", "table"),
        _backlog("log_files"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_log_bytes",
            "Bytes of the live log files of the newest file slices.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _backlog("log_bytes"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_superseded_log_files",
            "Log files of the newest file slices that a log compaction has superseded: readers open their heads and "
            "merge nothing of them, or in the layout lsm_tree merge them all the same.",
            "table",
        ),
        _backlog("superseded_log_files"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_superseded_log_bytes",
            "Bytes of these superseded log files, which stay on storage until their file slice is cleaned.",
            "table",
        ),
        _backlog("superseded_log_bytes"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_most_log_files",
            "Live log files of the file group that has most of them: what a query of it merges with its base file.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _backlog("most_log_files"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_most_opened_log_files",
            "Log files of the file group of which a query opens most, superseded ones included.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _backlog("most_opened_log_files"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_opened_log_files",
            "Log files whose heads a query of the whole table opens: live and superseded ones.",
            "table",
        ),
        _backlog("opened_log_files"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_anchor_log_files",
            "Superseded log files by which readers find the output of a log compaction, in the layout default.",
            "table",
        ),
        _backlog("anchors"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_retirable_log_bytes",
            "Bytes of the superseded log files that readers do without: cleans take them in the layout lsm_tree, and "
            "in the layout default with clean.retire_merged_logs.",
            "table",
        ),
        _backlog("retirable_log_bytes"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_base_bytes",
            "Bytes of the base files of the newest file slices.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _backlog("base_bytes"),
    ),
    TableGauge(
        gauge("lakeward_table_file_slices", "File slices, older ones that no cleaner has removed included.", "table"),
        _backlog("slices"),
    ),
    TableGauge(gauge("lakeward_table_file_groups", "File groups.", "table"), _backlog("file_groups")),
    TableGauge(
        gauge(
            "lakeward_table_read_amplification_ratio",
            "Bytes that a snapshot query reads, divided by the bytes of the base files.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _backlog("read_amplification"),
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_write_amplification_ratio",
            "Bytes written by writers and services, divided by those written by writers.",
            "table",
        ),
        lambda table, now: table.write_amplification,
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_space_amplification_ratio",
            "Bytes of all files, divided by those of the newest file slices.",
            "table",
        ),
        _backlog("space_amplification"),
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_oldest_unmerged_age_seconds",
            "Age of the oldest record that no base file holds, since its commit; 0 when all are merged, and nothing "
            "where that is not known.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _oldest_unmerged_age,
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_objective_seconds",
            "The longest that a committed record should stay unmerged; nothing in shadow.",
            "table",
            shown=Shown.ALWAYS,
        ),
        lambda table, now: table.objective,
        min,
    ),
    TableGauge(
        gauge(
            "lakeward_table_objective_breached",
            "1 while a record stays unmerged for longer than that.",
            "table",
            shown=Shown.NOTABLE,
        ),
        lambda table, now: None if table.objective is None else float(table.is_breached(now)),
    ),
    TableGauge(
        gauge("lakeward_table_pending_plans", "Plans on the timeline that are still pending.", "table", "action"),
        _pending_plans,
    ),
    TableGauge(
        gauge(
            "lakeward_table_oldest_pending_plan_age_seconds",
            "How long ago the oldest of them was requested; 0 when there is none.",
            "table",
            shown=Shown.NOTABLE,
        ),
        _oldest_plan_age,
        max,
    ),
    TableGauge(
        gauge("lakeward_table_timeline_instants", "Instants on the active timeline.", "table", shown=Shown.ALWAYS),
        _backlog("timeline_length"),
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_oldest_savepoint_age_seconds",
            "How long ago the oldest savepoint was made; 0 when there is none.",
            "table",
            shown=Shown.NOTABLE,
        ),
        _oldest_savepoint_age,
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_pinned_bytes",
            "Bytes of the slices that savepoints pin and no query of the newest rows reads.",
            "table",
        ),
        _backlog("pinned_bytes"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_storage_bytes",
            "Bytes of data files by what holds them, as counted last; docs/services/files.md explains the states.",
            "table",
            "state",
        ),
        _storage,
    ),
    TableGauge(
        gauge(
            "lakeward_table_findings",
            "Patterns that break tables which the newest examination found, by grade, and those that it could not look "
            "for (unseen); docs/operate/doctor.md explains them. There are none before the first examination.",
            "table",
            "grade",
            shown=Shown.NOTABLE,
        ),
        _findings,
    ),
    TableGauge(
        gauge(
            "lakeward_table_examination_age_seconds",
            "How long ago an examination saw the table last, or since when it is watched where none has.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _examination_age,
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_oldest_pending_clean_age_seconds",
            "How long ago the oldest clean that is not completed was requested; 0 when there is none.",
            "table",
        ),
        _oldest_clean_age,
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_begun_services",
            "Services of any engine that were begun and are not completed, Lakeward's own among them.",
            "table",
            "action",
            shown=Shown.NOTABLE,
        ),
        _begun_services,
    ),
    TableGauge(
        gauge(
            "lakeward_table_oldest_begun_service_age_seconds",
            "How long ago the oldest of them last changed on the timeline; 0 when there is none.",
            "table",
            "action",
            shown=Shown.NOTABLE,
        ),
        _oldest_begun_age,
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_last_looked_timestamp_seconds",
            "When the table was polled last; before the first time, when watching it began.",
            "table",
            shown=Shown.ALWAYS,
        ),
        _scanned_at,
        min,
    ),
    TableGauge(
        gauge("lakeward_table_poll_interval_seconds", "How often the table should be polled.", "table"),
        lambda table, now: table.served.settings.interval,
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_look_overdue",
            "1 while a table of this daemon was not polled for two intervals.",
            "table",
            shown=Shown.NOTABLE,
        ),
        lambda table, now: float(table.outlook.scan_overdue),
    ),
    TableGauge(
        gauge(
            "lakeward_table_damaged_files",
            "Files of the newest file slices that are not what their commits say; their file groups are excluded.",
            "table",
            shown=Shown.NOTABLE,
        ),
        _backlog("damaged_files"),
    ),
    TableGauge(
        gauge(
            "lakeward_table_parked_file_groups", "File groups excluded after failures.", "table", shown=Shown.NOTABLE
        ),
        lambda table, now: float(len(table.outlook.parked_groups)),
    ),
    TableGauge(
        gauge("lakeward_table_paused_file_groups", "File groups paused by an operator.", "table"),
        lambda table, now: float(len(table.outlook.paused_groups)),
    ),
    TableGauge(
        gauge("lakeward_table_paused", "1 while an operator has paused the whole table.", "table", shown=Shown.NOTABLE),
        lambda table, now: float(table.state is TableState.PAUSED),
    ),
    TableGauge(
        gauge("lakeward_table_failures", "Jobs that failed since one ended well.", "table", shown=Shown.NOTABLE),
        lambda table, now: float(table.outlook.failures),
        max,
    ),
    TableGauge(
        gauge(
            "lakeward_table_service_refused",
            "1 while a service of the table is refused and its other services go on; nothing before the first plan.",
            "table",
            "service",
            shown=Shown.NOTABLE,
        ),
        _refused,
    ),
    TableGauge(
        gauge(
            "lakeward_table_last_success_timestamp_seconds",
            "When a job of the service last ended well.",
            "table",
            "service",
        ),
        _last_success,
        min,
    ),
)


def _of_service(kind: JobKind, of: MemoryGauge) -> TableGauge:
    def read(table: TableStatus, now: float) -> Reading:
        demand = table.outlook.demand
        found = None if demand is None else demand.services.get(kind)
        return of.read(table.remembered.get(kind), found, now)

    return TableGauge(of.spec, read, of.combine)


TABLE_GAUGES: tuple[TableGauge, ...] = (
    *_OWN_TABLE_GAUGES,
    *(_of_service(kind, metric) for kind, metric in _DECLARED if isinstance(metric, MemoryGauge)),
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
    return {(service.value,): float(services.count(service)) for service in JobKind}


def _spark_states(status: ServiceStatus) -> Mapping[tuple[str, ...], float]:
    return {(state.value,): float(status.spark.state is state) for state in SparkState}


SERVICE_GAUGES = (
    ServiceGauge(gauge("lakeward_build_info", "1; the labels say what runs.", "version", "python"), _build),
    ServiceGauge(
        gauge("lakeward_ready", "1 while the daemon services tables: not while it starts, stops or has no store."),
        lambda status: float(status.is_ready),
    ),
    ServiceGauge(
        gauge("lakeward_last_step_timestamp_seconds", "When the daemon's loop last ran."),
        lambda status: status.at,
    ),
    ServiceGauge(gauge("lakeward_tables", "Tables by state.", "state"), _table_states),
    ServiceGauge(gauge("lakeward_jobs_running", "Jobs under way.", "service"), _running),
    ServiceGauge(
        gauge("lakeward_jobs_limit", "How many jobs may be under way at once."), lambda status: status.jobs_max
    ),
    ServiceGauge(
        gauge("lakeward_memory_reserved_bytes", "Memory permits that running jobs hold."),
        lambda status: status.memory_reserved_bytes,
    ),
    ServiceGauge(
        gauge("lakeward_memory_limit_bytes", "Memory permits that there are."), lambda status: status.memory_bytes
    ),
    ServiceGauge(
        gauge(
            "lakeward_limitations", "Limitations: what the daemon cannot do now; its page lists them with the remedy."
        ),
        lambda status: len(status.limitations),
    ),
    ServiceGauge(
        gauge("lakeward_leases_held", "Tables whose lease this daemon holds."), lambda status: status.lease.held
    ),
    ServiceGauge(
        gauge("lakeward_leader", "1 while this daemon may service tables: its leases can be taken and renewed."),
        lambda status: float(status.lease.leader),
    ),
    ServiceGauge(
        gauge("lakeward_daemons", "Living daemons that share the store, this one included."),
        lambda status: status.lease.daemons,
    ),
    ServiceGauge(
        gauge(
            "lakeward_spark_session",
            "1 for the state that the Spark session is in, 0 for the others; one that ended for being idle has not "
            "started.",
            "state",
        ),
        _spark_states,
    ),
    ServiceGauge(
        gauge("lakeward_config_last_reload_successful", "0 when the newest attempt to reload was refused."),
        lambda status: float(not status.config.problem),
    ),
    ServiceGauge(
        gauge(
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
