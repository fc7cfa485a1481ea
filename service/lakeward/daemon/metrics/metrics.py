"""What feeds the metrics of `daemon/metrics/specs.py`, and which series there are.

What happens is counted when it happens, by the methods of `Metrics`. What is, is read from a `ServiceStatus` at each
scrape.

    worker --(plan made, job ended, phase ...)--> counters and histograms --.
    loop   --ServiceStatus------------------------> gauges, at scrape time --+--> registry --> /metrics

Touches: the registry that it is given, and no other: two apps in one process do not see each other's figures. And one
         switch of the library, for the whole process: no `_created` series, which double what is scraped.
Keeps:   1. tables have labels of their own up to a cap, and all series if they are chosen, the others few
            (`daemon/metrics/table_labels.py`);
         2. what happens at a table without a counter of its own is counted under `other`, and so are the gauges of
            tables beyond the cap, so that sums over these stay right;
         3. the series of a table that is not watched any more go away;
         4. counters that alerts watch exist at 0 from the first scrape that knows their table (a counter that is
            born with 1 never rose, says Prometheus).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
from prometheus_client.samples import Sample

from lakeward.daemon.metrics.specs import (
    CHECKS,
    COMPARED_BYTES,
    COMPARED_CORE_SECONDS,
    CONFIG_RELOADS,
    CONFLICTS,
    DECISIONS,
    ENGINE_PLANS,
    EVENT_METRICS,
    JOB_CHECKS,
    JOB_CORE_SECONDS,
    JOB_COUNTERS,
    JOB_SECONDS,
    JOB_SPENT_SECONDS,
    JOBS,
    LEASE_CHANGES,
    LOCK_HELD_BESIDE_WRITES,
    LOCK_HOLD_SECONDS,
    LOCK_WAIT_SECONDS,
    OPERATION_CHECK,
    PEAK_MEMORY,
    PHASE_SECONDS,
    PLAN_SECONDS,
    PLANS,
    POLL_SECONDS,
    POLLS,
    PROGRESS_COUNTERS,
    RECOVERIES,
    SERVICE_GAUGES,
    SPARK_RESTARTS,
    STORE_ERRORS,
    STORE_SECONDS,
    TABLE_GAUGES,
    VERIFICATIONS,
    WATCHDOG,
    WRITER_CONFLICTS,
    CheckResult,
    JobDoing,
    PollOutcome,
    ServiceGauge,
    TableGauge,
    WatchedStep,
)
from lakeward.daemon.metrics.table_labels import OTHER, TableLabels
from lakeward.daemon.status import JobEnd, ServiceStatus, TableStatus
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobCost, JobFigures
from lakeward.protocol.progress import ENGINE_COUNTS, RECOVERY_COUNTS, Count, Engine, Phase
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.services.metric import JobCounter, MetricKind, MetricSpec, Reading, Shown
from lakeward.services.services import NAMED, load_services
from lakeward.state.records import ComparedDay, JobRecord


class Metrics:
    """The figures of one app. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry, labels: TableLabels | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        self._labels = labels or TableLabels()
        self._gauges = _StatusCollector(self._labels)
        # First of all: a scrape prepares the series of new tables before it reads the counters.
        registry.register(self._gauges)
        self._made: dict[str, Counter | Histogram] = {spec.name: _make(spec, registry) for spec in EVENT_METRICS}
        for change in ("gained", "lost"):
            self._counter(LEASE_CHANGES, change)
        for result in ("applied", "refused"):
            self._counter(CONFIG_RELOADS, result)
        for service in JobKind:
            for doing in JobDoing:
                self._counter(JOB_SPENT_SECONDS, service, doing)
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)

    def show(self, status: Callable[[], ServiceStatus]) -> None:
        """From now on a scrape reads its gauges from what `status` gives; until now it finds none."""
        self._gauges.status = status

    def choose(self, is_whole: Callable[[str, str], bool]) -> None:
        """From now on tables have all series if this says so of their name and their short name, the others few."""
        self._labels.choose(is_whole)
        self.keep(self._labels.names)

    # ---- called by the worker and the app

    def polled(self, table: str, result: PollOutcome, seconds: float) -> None:
        self._of_table(POLLS, table, result).inc()
        self._histogram(POLL_SECONDS, result).observe(seconds)

    def planned(self, table: str, outcome: PlanOutcome, seconds: float) -> None:
        self._of_table(PLANS, table).inc()
        self._histogram(PLAN_SECONDS).observe(seconds)
        numbers: dict[tuple[str, str], int] = {}
        for decision in outcome.decisions:
            key = (decision.choice.value, decision.reason.value)
            numbers[key] = numbers.get(key, 0) + 1
        for (choice, reason), number in numbers.items():
            self._of_table(DECISIONS, table, choice, reason).inc(number)

    def job_ended(self, job: JobRecord, figures: JobFigures) -> None:
        """A job that has ended, with its figures."""
        assert job.ended_at is not None and job.result is not None, "only an ended job has figures"
        service = JobKind(job.service)
        self._of_table(JOBS, job.table, service, job.result).inc()
        self._histogram(JOB_SECONDS, service, job.result).observe(max(0.0, job.ended_at - job.began_at))
        for counter in JOB_COUNTERS[service]:
            for labels, number in _counted(counter, service, figures):
                self._of_table(counter.spec, job.table, *labels).inc(number)
        if (checks := JOB_CHECKS.get(service)) is not None:
            passed, mismatched = checks.read(figures)
            self._verified(job.table, checks.check, passed=passed, mismatched=mismatched)
        else:
            wrong = int(job.result == JobEnd.VERIFICATION)
            self._verified(job.table, OPERATION_CHECK, passed=figures.operations_verified, mismatched=wrong)
        if figures.peak_memory_bytes:
            self._histogram(PEAK_MEMORY).observe(figures.peak_memory_bytes)

    def job_predicted(self, table: str, cost: JobCost) -> None:
        """What a job that has ended took, beside what was predicted."""
        self._of_table(JOB_CORE_SECONDS, table, "predicted").inc(cost.predicted_seconds)
        self._of_table(JOB_CORE_SECONDS, table, "taken").inc(cost.actual_seconds)

    def compared(self, day: ComparedDay) -> None:
        """A day of a table beside Hudi's default."""
        self._of_table(COMPARED_CORE_SECONDS, day.table, "happened").inc(day.core_seconds)
        self._of_table(COMPARED_CORE_SECONDS, day.table, "hudi").inc(day.hudi_core_seconds)
        self._of_table(COMPARED_BYTES, day.table, "counted").inc(day.real_bytes)
        self._of_table(COMPARED_BYTES, day.table, "modelled").inc(day.modelled_bytes)

    def job_spent(self, service: JobKind, doing: JobDoing, seconds: float) -> None:
        """So many seconds of a job, which may still run."""
        self._counter(JOB_SPENT_SECONDS, service, doing).inc(max(0.0, seconds))

    def phase(self, table: str, phase: Phase, seconds: float) -> None:
        """A part of a job ended; an `Observer`'s `phase` calls this."""
        match phase:
            case Phase.LOCK_WAIT:
                self._histogram(LOCK_WAIT_SECONDS).observe(seconds)
            case Phase.LOCK_HOLD:
                self._histogram(LOCK_HOLD_SECONDS).observe(seconds)
            case Phase.BESIDE_WRITES:
                self._of_table(LOCK_HELD_BESIDE_WRITES, table).inc(seconds)
            case _:
                self._histogram(PHASE_SECONDS, phase).observe(seconds)

    def writers_failed(self, table: str, number: int) -> None:
        """So many writes were rolled back that a service of Lakeward may have failed."""
        if number:
            self._of_table(WRITER_CONFLICTS, table).inc(number)

    def counted(self, table: str, count: Count, number: int = 1) -> None:
        """An `Observer`'s `counted` calls this."""
        for counter in PROGRESS_COUNTERS:
            if count in counter.labels:
                self._of_table(counter.spec, table, counter.labels[count]).inc(number)
                return
        if count in ENGINE_COUNTS.values():
            self._of_table(ENGINE_PLANS, table, count.removeprefix("ran_")).inc(number)
        elif count in RECOVERY_COUNTS:
            self._of_table(RECOVERIES, table, count).inc(number)
        else:
            self._of_table(CONFLICTS, table).inc(number)

    def _verified(self, table: str, check: str, *, passed: int, mismatched: int) -> None:
        self._of_table(VERIFICATIONS, table, check, CheckResult.PASSED).inc(passed)
        if mismatched:
            self._of_table(VERIFICATIONS, table, check, CheckResult.MISMATCH).inc(mismatched)

    def watchdog_fired(self, table: str, step: WatchedStep) -> None:
        self._of_table(WATCHDOG, table, step).inc()

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

    def keep(self, tables: Mapping[str, str]) -> None:
        """These are the watched tables, each with its label: prepare the series that alerts watch, drop those of tables
        that are gone."""
        changes = self._labels.keep(tables)
        for label in changes.gone:
            for spec in EVENT_METRICS:
                if spec.labels[:1] == ("table",):
                    self._made[spec.name].remove_by_labels({"table": label})
        for label in changes.added:
            for service in NAMED:
                for end in JobEnd:
                    self._counter(JOBS, label, service, end)
            for check in CHECKS:
                for result in CheckResult:
                    self._counter(VERIFICATIONS, label, check, result)
            for step in WatchedStep:
                self._counter(WATCHDOG, label, step)
            for poll in PollOutcome:
                self._counter(POLLS, label, poll)
            for count in sorted(RECOVERY_COUNTS):
                self._counter(RECOVERIES, label, count)
            for engine in (Engine.LOCAL, Engine.SPARK):
                self._counter(ENGINE_PLANS, label, engine)
            for counter in PROGRESS_COUNTERS:
                for kind in counter.labels.values():
                    self._counter(counter.spec, label, kind)
            for each in load_services():
                for job_counter in JOB_COUNTERS[each.kind]:
                    for labels, _ in _counted(job_counter, each.kind, JobFigures()):
                        self._counter(job_counter.spec, label, *labels)
            for spec in (CONFLICTS, WRITER_CONFLICTS, LOCK_HELD_BESIDE_WRITES):
                self._counter(spec, label)

    def _of_table(self, spec: MetricSpec, table: str, *labels: str) -> Counter:
        """The counter of a table; of one with few series that of `other`, but for what an alert watches."""
        is_notable = spec.shown is Shown.NOTABLE and (not spec.notable or labels[-1] in spec.notable)
        return self._counter(spec, self._labels.of(table) if is_notable else self._labels.of_whole(table), *labels)

    def _counter(self, spec: MetricSpec, *labels: str) -> Counter:
        counter = self._made[spec.name]
        assert isinstance(counter, Counter)
        return counter.labels(*labels) if labels else counter

    def _histogram(self, spec: MetricSpec, *labels: str) -> Histogram:
        histogram = self._made[spec.name]
        assert isinstance(histogram, Histogram)
        return histogram.labels(*labels) if labels else histogram


def _counted(counter: JobCounter, kind: JobKind, figures: JobFigures) -> Iterator[tuple[tuple[str, ...], float]]:
    """What a job counted, with the labels beside the table's."""
    found = counter.read(figures)
    if isinstance(found, Mapping):
        yield from (((label,), number) for label, number in found.items())
    else:
        yield (kind.value,) if "service" in counter.spec.labels else (), found


def _make(spec: MetricSpec, registry: CollectorRegistry) -> Counter | Histogram:
    if spec.kind is MetricKind.COUNTER:
        return Counter(spec.name, spec.help, spec.labels, registry=registry)
    return Histogram(spec.name, spec.help, spec.labels, registry=registry, buckets=spec.buckets)


class _StatusCollector(Collector):
    """Gauges, read at each scrape."""

    def __init__(self, labels: TableLabels) -> None:
        self._labels = labels
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
        whole: dict[str, list[TableStatus]] = {}
        few: list[tuple[str, TableStatus]] = []
        for table in status.tables:
            own = self._labels.of(table.name)
            if own == OTHER or self._labels.of_whole(table.name) == own:
                whole.setdefault(own, []).append(table)
            else:
                few.append((own, table))
        for table_gauge in TABLE_GAUGES:
            yield _table_family(table_gauge, whole, few, status.at)


def _service_family(gauge: ServiceGauge, status: ServiceStatus) -> GaugeMetricFamily:
    family = GaugeMetricFamily(gauge.spec.name, gauge.spec.help, labels=gauge.spec.labels)
    reading = gauge.read(status)
    values = reading if isinstance(reading, Mapping) else {(): float(reading)}
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _table_family(
    gauge: TableGauge, whole: Mapping[str, Sequence[TableStatus]], few: Sequence[tuple[str, TableStatus]], now: float
) -> GaugeMetricFamily:
    """
    Args:
        whole: tables with all series by their label, and under `other` those that share it.
        few: the others, each with its label.
    """
    family = GaugeMetricFamily(gauge.spec.name, gauge.spec.help, labels=gauge.spec.labels)
    for label, tables in whole.items():
        values: dict[tuple[str, ...], list[float]] = {}
        for table in tables:
            for labels, value in _labelled(gauge.read(table, now), label):
                values.setdefault(labels, []).append(value)
        for labels, found in values.items():
            family.add_metric(labels, gauge.combine(found))
    if (shown := gauge.spec.shown) is not Shown.WHOLE:
        always, samples, name = shown is Shown.ALWAYS, family.samples, gauge.spec.name
        for label, table in few:
            # Most say 0, and thousands are asked.
            reading = gauge.read(table, now)
            if reading is None or not (reading or always):
                continue
            if isinstance(reading, float | int):
                samples.append(Sample(name, {"table": label}, reading))
            else:
                for labels, value in _labelled(reading, label):
                    if value or always:
                        family.add_metric(labels, value)
    return family


def _labelled(reading: Reading, label: str) -> Iterable[tuple[tuple[str, ...], float]]:
    if reading is None:
        return ()
    if isinstance(reading, float | int):
        return (((label,), reading),)
    return [((label, second), value) for second, value in reading.items()]
