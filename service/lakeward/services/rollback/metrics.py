"""What rolling back measures."""

from __future__ import annotations

from lakeward.services.metric import (
    DELETED_FILES,
    JobCounter,
    MemoryGauge,
    ServiceMetric,
    Shown,
    counter,
    demanded,
    gauge,
)

METRICS: tuple[ServiceMetric, ...] = (
    MemoryGauge(
        gauge(
            "lakeward_table_failed_writes",
            "Pending writes whose writers are dead, and services that were left unfinished, that have rested for "
            "ten minutes.",
            "table",
            shown=Shown.NOTABLE,
        ),
        demanded("instants"),
    ),
    JobCounter(
        counter("lakeward_rolled_back_writes_total", "Writes of dead writers that were rolled back.", "table"),
        lambda figures: figures.writes_rolled_back,
    ),
    DELETED_FILES,
)
