"""Compare what was scraped with what is documented, both ways."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from lakeward.daemon.metrics.specs import METRICS
from lakeward.services.metric import MetricKind, MetricSpec

CLIENT_PREFIXES = ("process_", "python_gc_")
"""Figures of the Prometheus client itself."""

Samples = dict[str, list[tuple[dict[str, str], float]]]


@dataclass(frozen=True, slots=True)
class Comparison:
    undocumented: frozenset[str]
    """Scraped families that the documentation does not have."""
    missing: frozenset[str]
    """Documented names of which nothing was scraped, not even that they exist."""
    silent: frozenset[str]
    """Documented names without a sample: nothing of the kind happened."""
    wrong: tuple[str, ...]
    """Names whose type, help or labels are not the documented ones."""


def compare(text: str) -> Comparison:
    """`text` is the answer of /metrics in the text format."""
    documented = {_family(spec): spec for spec in METRICS}
    undocumented, seen, sounding, wrong = set(), set(), set(), []
    for family in text_string_to_metric_families(text):
        if family.name.startswith(CLIENT_PREFIXES):
            continue
        spec = documented.get(family.name)
        if spec is None:
            undocumented.add(family.name)
            continue
        seen.add(spec.name)
        if family.samples:
            sounding.add(spec.name)
        if family.type != spec.kind.value:
            wrong.append(f"{spec.name} is a {family.type}")
        if family.documentation != spec.help:
            wrong.append(f"{spec.name} says {family.documentation!r}")
        for sample in family.samples:
            if set(sample.labels) - {"le"} != set(spec.labels):
                wrong.append(f"{spec.name} has the labels {sorted(sample.labels)}")
    names = {spec.name for spec in METRICS}
    return Comparison(frozenset(undocumented), frozenset(names - seen), frozenset(names - sounding), tuple(wrong))


def samples(text: str) -> Samples:
    """Maps a sample's name to the labels and value of each."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(text: str, name: str, **labels: str) -> float:
    """The value of the one sample with these labels."""
    matching = [number for found, number in samples(text).get(name, []) if found == labels]
    assert len(matching) == 1, f"{name}{labels} is there {len(matching)} times"
    return matching[0]


def _family(spec: MetricSpec) -> str:
    return spec.name.removesuffix("_total") if spec.kind is MetricKind.COUNTER else spec.name
