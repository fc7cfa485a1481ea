"""What the services of the metadata table measure."""

from __future__ import annotations

from typing import Any

from lakeward.protocol.progress import METADATA_COUNTS
from lakeward.services.metric import (
    READ_BYTES,
    WRITTEN_BYTES,
    MemoryGauge,
    ProgressCounter,
    Reading,
    ServiceMetric,
    Shown,
    counter,
    gauge,
)


def _delta_commits(memory: Any, demand: object, now: float) -> Reading:
    if demand is None or memory is None or memory.trigger is None:
        return None
    return float(memory.trigger.delta_commits)


METRICS: tuple[ServiceMetric, ...] = (
    MemoryGauge(
        gauge(
            "lakeward_table_metadata_delta_commits",
            "Delta commits of the metadata table since its last compaction; nothing where it is left to its writers.",
            "table",
        ),
        _delta_commits,
        max,
    ),
    ProgressCounter(
        counter(
            "lakeward_metadata_services_total",
            "Cleans and compactions of tables' metadata tables, and how often something prevented them.",
            "table",
            "kind",
            shown=Shown.NOTABLE,
            notable=frozenset({"left"}),
        ),
        {count: count.removeprefix("metadata_") for count in sorted(METADATA_COUNTS)},
    ),
    READ_BYTES,
    WRITTEN_BYTES,
)
