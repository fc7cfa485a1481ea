"""Which names, labels and label values of Lakeward a PromQL expression uses: a reader for our own, no parser."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakeward.daemon.metrics.specs import CHECKS, METRICS, CheckResult, PollOutcome, WatchedStep
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import JobEnd, SparkState
from lakeward.protocol.job_kind import JobKind
from lakeward.services.metric import MetricKind

SCRAPED = frozenset({"job", "instance"})
"""Labels that Prometheus adds."""

NOT_OWN = frozenset({"process_resident_memory_bytes", "process_cpu_seconds_total", "up", "ALERTS"})

VALUES = {
    "service": frozenset(JobKind),
    "end": frozenset(JobEnd),
    "check": frozenset(CHECKS),
    "step": frozenset(WatchedStep),
    "change": frozenset({"gained", "lost"}),
}
STATES = {"lakeward_spark_session": frozenset(SparkState)}
RESULTS = {
    "lakeward_polls_total": frozenset(PollOutcome),
    "lakeward_verifications_total": frozenset(CheckResult),
    "lakeward_config_reloads_total": frozenset({"applied", "refused"}),
}


@dataclass(frozen=True, slots=True)
class Use:
    name: str
    matchers: tuple[tuple[str, str, str], ...]
    """(label, operator, value)"""


def series_of_lakeward() -> dict[str, frozenset[str]]:
    """Every scraped name with its labels."""
    series: dict[str, frozenset[str]] = {}
    for spec in METRICS:
        labels = frozenset(spec.labels) | SCRAPED
        if spec.kind is MetricKind.HISTOGRAM:
            series |= {f"{spec.name}_sum": labels, f"{spec.name}_count": labels, f"{spec.name}_bucket": labels | {"le"}}
        else:
            series[spec.name] = labels
    return series


def uses_in(expression: str) -> list[Use]:
    found = []
    for name, selector in re.findall(r"\b((?:lakeward|process)_[a-z_]+|up|ALERTS)\b(?:\{([^}]*)\})?", expression):
        matchers = re.findall(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"', selector)
        found.append(Use(name, tuple(matchers)))
    return found


def problems_of(expression: str) -> list[str]:
    """What the expression names that nothing ever scrapes."""
    series = series_of_lakeward()
    problems = []
    together: set[str] = set(SCRAPED)
    for use in uses_in(expression):
        if use.name in NOT_OWN:
            continue
        if use.name not in series:
            problems.append(f"there is no metric {use.name}")
            continue
        together |= series[use.name]
        for label, operator, value in use.matchers:
            if label not in series[use.name]:
                problems.append(f"{use.name} has no label {label}")
            allowed = _values_of(use.name, label)
            for one in value.split("|") if operator in ("=~", "!~") else [value]:
                if allowed is not None and one not in allowed and not one.startswith("$"):
                    problems.append(f"{use.name} never has {label}={one}")
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        problems += [
            f"nothing here has a label {label}" for label in re.split(r",\s*", labels) if label not in together
        ]
    return problems


def labels_of_result(expression: str) -> frozenset[str] | None:
    """The labels that are left: those of the outermost `by`, or all of the only series; None where we cannot say."""
    if by := re.match(r"\w+ by \(([^)]*)\)", expression):
        return frozenset(re.split(r",\s*", by[1]))
    if expression.startswith("histogram_quantile"):
        labels = re.search(r"by \(([^)]*)\)", expression)
        return None if labels is None else frozenset(re.split(r",\s*", labels[1])) - {"le"}
    series = series_of_lakeward()
    names = {use.name for use in uses_in(expression) if use.name in series}
    return series[names.pop()] if len(names) == 1 else None


def _values_of(name: str, label: str) -> frozenset[str] | None:
    if label == "state":
        return STATES.get(name, frozenset(TableState))
    if label == "result":
        return RESULTS[name]
    return VALUES.get(label)
