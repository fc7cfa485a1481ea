"""What verification measures."""

from __future__ import annotations

from lakeward.services.metric import JobChecks, ServiceMetric

METRICS: tuple[ServiceMetric, ...] = (
    JobChecks(
        "sample", lambda figures: (figures.groups_verified - figures.groups_mismatched, figures.groups_mismatched)
    ),
)
