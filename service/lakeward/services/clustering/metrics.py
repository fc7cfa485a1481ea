"""What clustering measures."""

from __future__ import annotations

from typing import Any

from lakeward.services.metric import (
    READ_BYTES,
    WRITTEN_BYTES,
    JobCounter,
    MemoryGauge,
    ServiceMetric,
    Shown,
    counter,
    demanded,
    gauge,
)


def _waiting(memory: Any, demand: object, now: float) -> float | None:
    if memory is None:
        return None
    return 0.0 if memory.waiting_since is None else max(0.0, now - memory.waiting_since)


METRICS: tuple[ServiceMetric, ...] = (
    MemoryGauge(
        gauge(
            "lakeward_table_small_file_groups",
            "File groups that a clustering would pack into fewer, now or in the next pause of the writers.",
            "table",
        ),
        demanded("file_groups"),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_clustering_waiting_seconds",
            "Since when small file groups wait for a pause of the writers, or for the next try; 0 where none do.",
            "table",
            shown=Shown.NOTABLE,
        ),
        _waiting,
        max,
    ),
    JobCounter(
        counter("lakeward_clustered_file_groups_total", "File groups that were packed into fewer.", "table"),
        lambda figures: figures.groups_clustered,
    ),
    JobCounter(
        counter(
            "lakeward_clusterings_given_up_total",
            "Clusterings of which nothing was published because of writers: none left a pause, or one changed what was "
            "taken.",
            "table",
        ),
        lambda figures: figures.clusterings_given_up,
    ),
    READ_BYTES,
    WRITTEN_BYTES,
)
