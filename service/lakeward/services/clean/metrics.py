"""What cleaning measures."""

from __future__ import annotations

import math
from typing import Any

from lakeward.services.metric import (
    DELETED_FILES,
    JobCounter,
    MemoryGauge,
    Reading,
    ServiceMetric,
    Shown,
    counter,
    demanded,
    gauge,
)


def _consumers(memory: Any, demand: object, now: float) -> Reading:
    if memory is None or memory.consumers is None:
        return None
    return {
        hold.consumer: math.inf if hold.seconds_behind is None else hold.seconds_behind for hold in memory.consumers
    }


METRICS: tuple[ServiceMetric, ...] = (
    MemoryGauge(
        gauge(
            "lakeward_table_overdue_clean_bytes",
            "Bytes of old file slices that could have gone for five commits; 0 where writers clean themselves.",
            "table",
            shown=Shown.ALWAYS,
        ),
        demanded("bytes"),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_quarantined_bytes",
            "Bytes that cleans took away and that can still be brought back.",
            "table",
        ),
        demanded("quarantined_bytes"),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_retired_log_bytes",
            "Bytes of merged logs that left the table's listing and are not deleted yet, for the queries that began "
            "before.",
            "table",
        ),
        demanded("retired_log_bytes"),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_consumer_behind_seconds",
            "From what a consumer of `clean.consumers` has read to the newest commit, as counted last; +Inf where that "
            "is not known. Cleaning keeps what it has not read.",
            "table",
            "consumer",
            shown=Shown.NOTABLE,
        ),
        _consumers,
        max,
    ),
    JobCounter(
        counter("lakeward_deleted_bytes_total", "Bytes of the old file slices that cleans deleted.", "table"),
        lambda figures: figures.bytes_deleted,
    ),
    JobCounter(
        counter(
            "lakeward_quarantine_capped_total",
            "Runs that were deleted from the quarantine before their time, since it held more than "
            "clean.quarantine_max.",
            "table",
            shown=Shown.NOTABLE,
        ),
        lambda figures: figures.runs_capped,
    ),
    DELETED_FILES,
)
