"""What archiving measures."""

from __future__ import annotations

from lakeward.services.metric import JobCounter, MemoryGauge, ServiceMetric, counter, demanded, gauge

METRICS: tuple[ServiceMetric, ...] = (
    MemoryGauge(
        gauge(
            "lakeward_table_overdue_archive_instants",
            "Instants that could be archived, on a timeline that is longer than it may be by five commits.",
            "table",
        ),
        demanded("instants"),
    ),
    JobCounter(
        counter("lakeward_archived_instants_total", "Instants that left the active timeline for the archive.", "table"),
        lambda figures: figures.instants_archived,
    ),
)
