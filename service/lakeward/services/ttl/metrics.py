"""What partition TTL measures."""

from __future__ import annotations

from typing import Any

from lakeward.services.metric import JobCounter, MemoryGauge, ServiceMetric, Shown, counter, gauge


def _expired(memory: Any, demand: object, now: float) -> float | None:
    return None if memory is None or memory.look is None else float(memory.look.partitions)


def _noticed(memory: Any, demand: object, now: float) -> float | None:
    look = None if memory is None else memory.look
    return None if look is None else float(look.partitions if look.first_at is not None and look.first_at > now else 0)


METRICS: tuple[ServiceMetric, ...] = (
    MemoryGauge(
        gauge(
            "lakeward_table_ttl_expired_partitions", "Partitions that have expired and are not deleted yet.", "table"
        ),
        _expired,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_ttl_noticed_partitions",
            "Partitions that the first run of TTL on the table will delete, while its notice lasts; else 0.",
            "table",
            shown=Shown.NOTABLE,
        ),
        _noticed,
    ),
    JobCounter(
        counter("lakeward_ttl_deleted_partitions_total", "Partitions that TTL deleted.", "table"),
        lambda figures: figures.partitions_deleted,
    ),
)
