"""What a service measures: its metrics, which the daemon gathers and counts.

    MemoryGauge        read at each scrape, from what the service remembers of a table and has to do there
    JobCounter         counted when a job of the service ends, from its figures
    JobChecks          the same, of what the job verified: one value of the label `check`
    ProgressCounter    counted while a job runs, from what it reports

A metric that jobs of several services feed is declared here, and named by each of them.

Touches: nothing.
Keeps:   labels are bounded: values of enumerations, tables, and names that the configuration gives; never a file id,
         path or instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lakeward.protocol.job_report import JobFigures
from lakeward.protocol.progress import Count


class Shown(StrEnum):
    """Which tables have a series of their own of a metric. Those with few series are a dozen each; who has all is said
    by `metrics.tables`."""

    ALWAYS = "always"
    """Each table."""
    NOTABLE = "if not 0"
    """Each table that has something to say: an alert watches it."""
    WHOLE = "in full"
    """Tables with all series."""


Reading = float | Mapping[str, float] | None
"""A value, or one for each value of the second label; None where there is nothing to say."""


class MetricKind(StrEnum):
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One documented name."""

    name: str
    """The name in a scrape: a counter's ends with `_total`."""
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    shown: Shown = Shown.WHOLE
    """Which tables have their own series, where it has the label `table`."""
    notable: frozenset[str] = frozenset()
    """Values of the last label of a `NOTABLE` counter that have their own series; none: all."""


def counter(
    name: str, help_: str, *labels: str, shown: Shown = Shown.WHOLE, notable: frozenset[str] = frozenset()
) -> MetricSpec:
    return MetricSpec(name, MetricKind.COUNTER, help_, labels, shown=shown, notable=notable)


def gauge(name: str, help_: str, *labels: str, shown: Shown = Shown.WHOLE) -> MetricSpec:
    return MetricSpec(name, MetricKind.GAUGE, help_, labels, shown=shown)


@dataclass(frozen=True, slots=True)
class MemoryGauge:
    spec: MetricSpec
    read: Callable[[Any, Any, float], Reading]
    """The reading from what is remembered of a table, what there is to do (`service.ServiceDemand`), and the time now.
    The second is None where the table does not get the service, or was not planned yet."""
    combine: Callable[[Iterable[float]], float] = sum
    """What `other` says of the tables that share it."""


@dataclass(frozen=True, slots=True)
class JobCounter:
    spec: MetricSpec
    """Its labels are the table, and one more at most: `service` is the kind of the job, any other is in `read`."""
    read: Callable[[JobFigures], float | Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class JobChecks:
    check: str
    read: Callable[[JobFigures], tuple[int, int]]
    """How many passed, and how many did not."""


@dataclass(frozen=True, slots=True)
class ProgressCounter:
    spec: MetricSpec
    labels: Mapping[Count, str]
    """What is counted, each with the value of the second label."""


ServiceMetric = MemoryGauge | JobCounter | JobChecks | ProgressCounter


def demanded(figure: str) -> Callable[[Any, Any, float], Reading]:
    """A figure of what there is to do."""
    return lambda memory, demand, now: None if demand is None else float(getattr(demand, figure))


READ_BYTES = JobCounter(
    counter("lakeward_job_read_bytes_total", "Bytes of the files that jobs merged.", "table", "service"),
    lambda figures: figures.read_bytes,
)
WRITTEN_BYTES = JobCounter(
    counter("lakeward_job_written_bytes_total", "Bytes of the files that jobs published.", "table", "service"),
    lambda figures: figures.written_bytes,
)
DELETED_FILES = JobCounter(
    counter(
        "lakeward_deleted_files_total",
        "Files that jobs deleted: old file slices by a clean, what failed writes left by a rollback.",
        "table",
        "service",
    ),
    lambda figures: figures.files_deleted,
)
