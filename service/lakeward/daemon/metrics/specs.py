"""Every metric once: its name, its labels, its sentence, and for a gauge what it is read from.

What happens is a counter or a histogram, which `daemon/metrics/metrics.py` counts when it happens. What is, is a
gauge, read from a `ServiceStatus` or one of its tables when a scrape asks. `docs/reference/metrics.md` is generated
from these rows, so that a name cannot exist on one side only. To add a metric is to add a row, and for a counter the
line that counts.

Touches: nothing.
Keeps:   labels are bounded: values of enumerations, tables, and names that the configuration gives; never a file id,
         path or instant.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import ServiceStatus, SparkState, TableStatus
from lakeward.index.build_state import BuildProgress
from lakeward.index.record.index_growth import IndexLoad
from lakeward.protocol.job_kind import RETIRED, JobKind
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.indexing.index_memory import IndexMemory, IndexStatus, TeeStatus
from lakeward.table.backlog import BEGUN_ACTIONS


class MetricKind(StrEnum):
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class PollOutcome(StrEnum):
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    FAILED = "failed"


class VerificationKind(StrEnum):
    """What was verified."""

    OPERATION = "operation"
    """The output of a merge, before anybody could see it."""
    SAMPLE = "sample"
    """A file group that was merged again by the verification service."""
    INDEX = "index"
    """A row that was looked up in an index, or an entry of one that was looked for among the rows."""


class JobDoing(StrEnum):
    """What a second of a job goes into."""

    WORKING = "working"
    WAITING = "waiting"


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
    """The name in a scrape: a counter's ends with `_total`."""
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_SCAN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_JOB_SECONDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
_PHASE_SECONDS = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_LOCK_SECONDS = (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0)
_STORE_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 30.0)
_MEMORY_BYTES = tuple(float(mebibytes * 2**20) for mebibytes in (64, 128, 256, 384, 512, 768, 1024, 2048, 4096))


def _counter(name: str, help_: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, MetricKind.COUNTER, help_, labels)


def _histogram(name: str, buckets: tuple[float, ...], help_: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, MetricKind.HISTOGRAM, help_, labels, buckets)


def _gauge(name: str, help_: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, MetricKind.GAUGE, help_, labels)


# ---- what happens

POLLS = _counter("lakeward_polls_total", "Polls of a table's timeline.", "table", "result")
POLL_SECONDS = _histogram("lakeward_poll_duration_seconds", _SCAN_SECONDS, "Duration of polls in seconds.", "result")
PLANS = _counter("lakeward_plans_total", "Plans made, those that chose nothing included.", "table")
PLAN_SECONDS = _histogram("lakeward_plan_duration_seconds", _SCAN_SECONDS, "Duration of planning in seconds.")
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
JOB_SPENT_SECONDS = _counter(
    "lakeward_job_seconds_total",
    "Seconds of jobs by what they did: working, or waiting for writers, locks, other attempts or kernels. Those that "
    "run are counted as they go.",
    "service",
    "doing",
)
OPERATIONS = _counter(
    "lakeward_operations_total", "Operations (one file slice each) that jobs published, by type.", "table", "type"
)
MERGES = _counter(
    "lakeward_merges_total",
    "Operations that jobs published, by how their file groups were merged: order (the base file is sorted), hashes (it "
    "is not), sorting (the logs did not fit memory), either of these after a base "
    "file's order turned out wrong, ranks or out-of-ranks (layout lsm_tree).",
    "table",
    "by",
)
COPIED_ROW_GROUPS = _counter(
    "lakeward_copied_row_groups_total",
    "Row groups of base files that no log touched, and that jobs carried over as bytes.",
    "table",
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
DELETED_FILES = _counter(
    "lakeward_deleted_files_total",
    "Files that jobs deleted: old file slices by a clean, what failed writes left by a rollback.",
    "table",
    "service",
)
DELETED_BYTES = _counter("lakeward_deleted_bytes_total", "Bytes of the old file slices that cleans deleted.", "table")
QUARANTINE_CAPPED = _counter(
    "lakeward_quarantine_capped_total",
    "Runs that were deleted from the quarantine before their time, since it held more than clean.quarantine_max.",
    "table",
)
ROLLED_BACK_WRITES = _counter(
    "lakeward_rolled_back_writes_total", "Writes of dead writers that were rolled back.", "table"
)
ARCHIVED_INSTANTS = _counter(
    "lakeward_archived_instants_total", "Instants that left the active timeline for the archive.", "table"
)
INDEXED_COMMITS = _counter(
    "lakeward_indexed_commits_total",
    "Commits of the table that the daemon took into indexes of Lakeward's; once for each index.",
    "table",
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
LOCK_HELD_BESIDE_WRITES = _counter(
    "lakeward_lock_held_beside_writes_seconds_total",
    "Seconds that a table's lock was held while a write was under way: the most that writers waited for Lakeward, "
    "and with Hudi's file-system lock up to 5 s more each time one asked.",
    "table",
)
VERIFICATIONS = _counter(
    "lakeward_verifications_total",
    "Checks of an operation's output before it was published, of samples of what is in the table, and of rows and "
    "entries of indexes.",
    "table",
    "check",
    "result",
)
CONFLICTS = _counter("lakeward_conflicts_total", "Jobs discarded because the table changed meanwhile.", "table")
WRITER_CONFLICTS = _counter(
    "lakeward_writer_conflicts_total",
    "Writes rolled back that shared a file group with a Lakeward compaction that completed while they were under way.",
    "table",
)
RECOVERIES = _counter(
    "lakeward_recoveries_total",
    "Lakeward attempts rolled back after they died or failed, or taken over by another process, and plans unscheduled.",
    "table",
    "kind",
)
METADATA_SERVICES = _counter(
    "lakeward_metadata_services_total",
    "Cleans and compactions of tables' metadata tables, and how often something prevented them.",
    "table",
    "kind",
)
ENGINE_PLANS = _counter(
    "lakeward_engine_plans_total",
    "Plans whose operations were run to their end, by what they ran on: spark, or local, processes of the daemon's "
    "machine.",
    "table",
    "engine",
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
    JOB_SPENT_SECONDS,
    OPERATIONS,
    MERGES,
    COPIED_ROW_GROUPS,
    READ_BYTES,
    WRITTEN_BYTES,
    MERGED_LOG_FILES,
    MERGED_LOG_BYTES,
    ROWS,
    DELETED_FILES,
    DELETED_BYTES,
    QUARANTINE_CAPPED,
    ROLLED_BACK_WRITES,
    ARCHIVED_INSTANTS,
    INDEXED_COMMITS,
    PEAK_MEMORY,
    PHASE_SECONDS,
    LOCK_WAIT_SECONDS,
    LOCK_HOLD_SECONDS,
    LOCK_HELD_BESIDE_WRITES,
    VERIFICATIONS,
    CONFLICTS,
    WRITER_CONFLICTS,
    RECOVERIES,
    METADATA_SERVICES,
    ENGINE_PLANS,
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
    """The reading from a table and the time now."""
    combine: Callable[[Iterable[float]], float] = sum
    """What `other` says of the tables that share it."""


def _backlog(name: str) -> Callable[[TableStatus, float], Reading]:
    def read(table: TableStatus, now: float) -> Reading:
        return None if table.backlog is None else float(getattr(table.backlog, name))

    return read


def _state(table: TableStatus, now: float) -> Reading:
    states = {table.state, *(hold.state for hold in table.view.holds)}
    return {state.value: float(state in states) for state in TableState}


def _storage(table: TableStatus, now: float) -> Reading:
    if table.storage is None:
        return None
    return {state.value: float(table.storage.bytes.get(state.value, 0)) for state in FileState}


def _consumers(table: TableStatus, now: float) -> Reading:
    if table.storage is None:
        return None
    return {
        hold.consumer: math.inf if hold.seconds_behind is None else hold.seconds_behind
        for hold in table.storage.consumers
    }


def _indexes(table: TableStatus) -> IndexMemory:
    found: IndexMemory = table.remembered.get(JobKind.INDEX) or IndexMemory()
    return found


def _of_indexes(figure: str) -> Callable[[TableStatus, float], Reading]:
    """A figure of each index of the table; nothing of one that was not checked yet."""

    def read(table: TableStatus, now: float) -> Reading:
        found = {
            index.name: getattr(index, figure) for index in _indexes(table).indexes if index.checked_at is not None
        }
        return {name: float(value) for name, value in found.items()} or None

    return read


def _behind(figure: Callable[[IndexStatus, float], float | None]) -> Callable[[TableStatus, float], Reading]:
    """A figure of each index of the table that is brought up to date; nothing of one of Hudi's."""

    def read(table: TableStatus, now: float) -> Reading:
        found = {index.name: figure(index, now) for index in _indexes(table).indexes}
        return {name: value for name, value in found.items() if value is not None} or None

    return read


def _coverage(table: TableStatus, now: float) -> Reading:
    found = {index.name: index.coverage for index in _indexes(table).indexes if index.coverage is not None}
    return {name: each.bases / each.of_bases if each.of_bases else 1.0 for name, each in found.items()} or None


def _on_trial(figure: Callable[[TeeStatus], int]) -> Callable[[TableStatus, float], Reading]:
    """A figure of the index that is on trial."""

    def read(table: TableStatus, now: float) -> Reading:
        tee = _indexes(table).tee
        return None if tee is None or tee.tee.shadow is None else {tee.shadow_name: float(figure(tee))}

    return read


def _builds(figure: Callable[[BuildProgress], float]) -> Callable[[TableStatus, float], Reading]:
    """A figure of each build of an index that is under way, or was stopped."""

    def read(table: TableStatus, now: float) -> Reading:
        return {kind.value: float(figure(build)) for kind, build in _indexes(table).builds.items()} or None

    return read


def _load(figure: Callable[[IndexLoad], float]) -> Callable[[TableStatus, float], Reading]:
    """A figure of each index of the table that has buckets of Lakeward."""

    def read(table: TableStatus, now: float) -> Reading:
        return {index.name: figure(index.load) for index in _indexes(table).indexes if index.load is not None} or None

    return read


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
    return table.watched_since if table.view.scanned_at is None else table.view.scanned_at


def _metadata_delta_commits(table: TableStatus, now: float) -> Reading:
    memory = table.remembered.get(JobKind.METADATA_COMPACTION)
    if JobKind.METADATA_COMPACTION not in table.demands or memory is None or memory.trigger is None:
        return None
    return float(memory.trigger.delta_commits)


def _of_service(service: JobKind, figure: str) -> Callable[[TableStatus, float], Reading]:
    """A figure of what a service has to do; nothing where the table does not get it, or was not planned yet."""

    def read(table: TableStatus, now: float) -> Reading:
        demand = table.view.demand
        found = None if demand is None else demand.services.get(service)
        return None if found is None else float(getattr(found, figure))

    return read


def _oldest_clean_age(table: TableStatus, now: float) -> Reading:
    if table.backlog is None:
        return None
    at = table.backlog.oldest_clean_at
    return 0.0 if at is None else max(0.0, now - at)


def _refused(table: TableStatus, now: float) -> Reading:
    if table.view.planned_at is None:
        return None
    if table.state is TableState.REFUSED:
        return dict.fromkeys((service.value for service in table.services), 1.0)
    return {service.value: float(service in table.view.refused) for service in table.services}


def _last_success(table: TableStatus, now: float) -> Reading:
    return {service.value: at for service, at in table.last_success_at.items()}


TABLE_GAUGES = (
    TableGauge(
        _gauge(
            "lakeward_table_state",
            "1 for the state that the table is in and for all that holds it, 0 for the others.",
            "table",
            "state",
        ),
        _state,
    ),
    TableGauge(
        _gauge("lakeward_table_log_files", "Live log files of the newest file slices: what readers merge.", "table"),
        _backlog("log_files"),
    ),
    TableGauge(
        _gauge("lakeward_table_log_bytes", "Bytes of the live log files of the newest file slices.", "table"),
        _backlog("log_bytes"),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_superseded_log_files",
            "Log files of the newest file slices that a log compaction has superseded: readers open their heads and "
            "merge nothing of them.",
            "table",
        ),
        _backlog("superseded_log_files"),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_superseded_log_bytes",
            "Bytes of these superseded log files, which stay on storage until their file slice is cleaned.",
            "table",
        ),
        _backlog("superseded_log_bytes"),
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
            "Bytes that a snapshot query reads, divided by the bytes of the base files.",
            "table",
        ),
        _backlog("read_amplification"),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_write_amplification_ratio",
            "Bytes written by writers and services, divided by those written by writers.",
            "table",
        ),
        lambda table, now: table.write_amplification,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_space_amplification_ratio",
            "Bytes of all files, divided by those of the newest file slices.",
            "table",
        ),
        _backlog("space_amplification"),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_oldest_unmerged_age_seconds",
            "Age of the oldest record that no base file holds, since its commit; 0 when all are merged, and nothing "
            "where that is not known.",
            "table",
        ),
        _oldest_unmerged_age,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_objective_seconds",
            "The longest that a committed record should stay unmerged; nothing in shadow.",
            "table",
        ),
        lambda table, now: table.objective,
        min,
    ),
    TableGauge(
        _gauge("lakeward_table_objective_breached", "1 while a record stays unmerged for longer than that.", "table"),
        lambda table, now: None if table.objective is None else float(table.is_breached(now)),
    ),
    TableGauge(
        _gauge("lakeward_table_pending_plans", "Plans on the timeline that are still pending.", "table", "action"),
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
            "lakeward_table_oldest_savepoint_age_seconds",
            "How long ago the oldest savepoint was made; 0 when there is none.",
            "table",
        ),
        _oldest_savepoint_age,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_pinned_bytes",
            "Bytes of the slices that savepoints pin and no query of the newest rows reads.",
            "table",
        ),
        _backlog("pinned_bytes"),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_storage_bytes",
            "Bytes of data files by what holds them, as counted last; docs/services/files.md explains the states.",
            "table",
            "state",
        ),
        _storage,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_consumer_behind_seconds",
            "From what a consumer of `clean.consumers` has read to the newest commit, as counted last; +Inf where that "
            "is not known. Cleaning keeps what it has not read.",
            "table",
            "consumer",
        ),
        _consumers,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_wrong_keys",
            "Rows and entries that differed in the last check of the index; nothing before the first check.",
            "table",
            "index",
        ),
        _of_indexes("wrong"),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_out_of_use",
            "1 while Lakeward does not use the index, because it was found to be wrong.",
            "table",
            "index",
        ),
        lambda table, now: {index.name: float(bool(index.out_of_use)) for index in _indexes(table).indexes} or None,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_checked_timestamp_seconds",
            "When the index was last compared with a sample of the table's rows; nothing before the first check.",
            "table",
            "index",
        ),
        _of_indexes("checked_at"),
        min,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_behind_commits",
            "Commits, rollbacks and restores that an index of Lakeward's, below the table or in the store's database, "
            "does not have, as of the last plan; of the cache of filters (`bloom`) those of whose files it lacks any.",
            "table",
            "index",
        ),
        _behind(lambda index, now: None if index.behind is None else float(index.behind.commits)),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_behind_bytes",
            "What they wrote, which each lookup reads; beyond 256 MiB lookups are refused. Of `bloom` the files that "
            "it lacks, of which lookups read the footers.",
            "table",
            "index",
        ),
        _behind(lambda index, now: None if index.behind is None else float(index.behind.bytes)),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_behind_seconds",
            "Since the first of them completed; 0 where the index has all.",
            "table",
            "index",
        ),
        _behind(IndexStatus.seconds_behind),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_unreadable",
            "1 while it is unknown what an index of Lakeward's lacks, because its manifest or a commit of the table "
            "cannot be read; lookups in it fail. With `bloom` they read footers.",
            "table",
            "index",
        ),
        lambda table, now: (
            {each.name: float(bool(each.problem)) for each in _indexes(table).indexes if each.type.is_kept} or None
        ),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_coverage_ratio",
            "Base files of the table that the cache of filters (`bloom`) has, by all of them. Below 1 while it is not "
            "behind, some could not be read.",
            "table",
            "index",
        ),
        _coverage,
        min,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_shadow_compared_keys",
            "Keys of commits for which an index on trial was compared with the one that writes use, since the two "
            "were chosen; nothing for a table without one.",
            "table",
            "index",
        ),
        _on_trial(lambda tee: tee.tee.keys),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_shadow_wrong_keys",
            "Locations among these in which it was wrong.",
            "table",
            "index",
        ),
        _on_trial(lambda tee: tee.tee.keys_wrong),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_shadow_clean_commits",
            "Commits in a row, up to the last one compared, in which it was right for every key.",
            "table",
            "index",
        ),
        _on_trial(lambda tee: tee.tee.clean),
        min,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_shadow_behind_commits",
            "Commits that are still to be compared, as of the last plan.",
            "table",
            "index",
        ),
        _on_trial(lambda tee: tee.behind.commits),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_build_file_groups",
            "File groups whose keys a build of an index of Lakeward's reads, as of the last plan; nothing where none "
            "is under way, and none was stopped.",
            "table",
            "index",
        ),
        _builds(lambda build: build.of),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_build_read_file_groups",
            "File groups among these that are read.",
            "table",
            "index",
        ),
        _builds(lambda build: build.read),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_build_progress_timestamp_seconds",
            "When a build read a file group last; one whose process died stays where it is.",
            "table",
            "index",
        ),
        _builds(lambda build: build.newest_at),
        min,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_load_ratio",
            "Entries of a record index of Lakeward's by what the buckets have room for that entries go to; 1 is full. "
            "Full buckets grow when it is brought up to date.",
            "table",
            "index",
        ),
        _load(lambda load: load.mean),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_index_fullest_bucket_ratio",
            "The same for the fullest bucket; far above the ratio of all, keys are spread badly.",
            "table",
            "index",
        ),
        _load(lambda load: load.fullest),
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_overdue_clean_bytes",
            "Bytes of old file slices that could have gone for five commits; 0 where writers clean themselves.",
            "table",
        ),
        _of_service(JobKind.CLEAN, "bytes"),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_quarantined_bytes",
            "Bytes that cleans took away and that can still be brought back.",
            "table",
        ),
        _of_service(JobKind.CLEAN, "quarantined_bytes"),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_oldest_pending_clean_age_seconds",
            "How long ago the oldest clean that is not completed was requested; 0 when there is none.",
            "table",
        ),
        _oldest_clean_age,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_begun_services",
            "Services of any engine that were begun and are not completed, Lakeward's own among them.",
            "table",
            "action",
        ),
        _begun_services,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_oldest_begun_service_age_seconds",
            "How long ago the oldest of them last changed on the timeline; 0 when there is none.",
            "table",
            "action",
        ),
        _oldest_begun_age,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_failed_writes",
            "Pending writes whose writers are dead, and services that were left unfinished, that have rested for "
            "ten minutes.",
            "table",
        ),
        _of_service(JobKind.ROLLBACK, "instants"),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_overdue_archive_instants",
            "Instants that could be archived, on a timeline that is longer than it may be by five commits.",
            "table",
        ),
        _of_service(JobKind.ARCHIVE, "instants"),
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
            "When the table was polled last; before the first time, when watching it began.",
            "table",
        ),
        _scanned_at,
        min,
    ),
    TableGauge(
        _gauge("lakeward_table_poll_interval_seconds", "How often the table should be polled.", "table"),
        lambda table, now: table.interval_seconds,
        max,
    ),
    TableGauge(
        _gauge(
            "lakeward_table_look_overdue",
            "1 while a table of this daemon was not polled for two intervals.",
            "table",
        ),
        lambda table, now: float(table.view.scan_overdue),
    ),
    TableGauge(
        _gauge(
            "lakeward_table_damaged_files",
            "Files of the newest file slices that are not what their commits say; their file groups are excluded.",
            "table",
        ),
        _backlog("damaged_files"),
    ),
    TableGauge(
        _gauge("lakeward_table_parked_file_groups", "File groups excluded after failures.", "table"),
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
            "lakeward_table_service_refused",
            "1 while a service of the table is refused and its other services go on; nothing before the first plan.",
            "table",
            "service",
        ),
        _refused,
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
    return {(service.value,): float(services.count(service)) for service in JobKind if service not in RETIRED}


def _spark_states(status: ServiceStatus) -> Mapping[tuple[str, ...], float]:
    return {(state.value,): float(status.spark.state is state) for state in SparkState}


SERVICE_GAUGES = (
    ServiceGauge(_gauge("lakeward_build_info", "1; the labels say what runs.", "version", "python"), _build),
    ServiceGauge(
        _gauge("lakeward_ready", "1 while the daemon services tables: not while it starts, stops or has no store."),
        lambda status: float(status.is_ready),
    ),
    ServiceGauge(
        _gauge("lakeward_last_step_timestamp_seconds", "When the daemon's loop last ran."),
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
        _gauge(
            "lakeward_limitations", "Limitations: what the daemon cannot do now; its page lists them with the remedy."
        ),
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
        _gauge(
            "lakeward_spark_session",
            "1 for the state that the Spark session is in, 0 for the others; one that ended for being idle has not "
            "started.",
            "state",
        ),
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
