"""The options of a clean: how much of a table's past it keeps, in Hudi's three ways, and for which readers.

    commits    KEEP_LATEST_COMMITS          what can be read as of the last N completed commits
    hours      KEEP_LATEST_BY_HOURS         the same as of the commits that were requested in the last N hours
    versions   KEEP_LATEST_FILE_VERSIONS    the N newest slices of each file group, whenever they were written

Whatever the way, queries that are running are waited for (`services/clean/plan/reader_protection.py`), which Hudi
leaves to its users: they are to retain more commits than complete while their longest query runs.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakeward.services.clean.plan.consumer import WatermarkPlace


class CleanPolicyKind(StrEnum):
    """The three ways, in the words of the command line; `HUDI_NAMES` has Hudi's."""

    COMMITS = "commits"
    VERSIONS = "versions"
    HOURS = "hours"


HUDI_NAMES = {
    CleanPolicyKind.COMMITS: "KEEP_LATEST_COMMITS",
    CleanPolicyKind.VERSIONS: "KEEP_LATEST_FILE_VERSIONS",
    CleanPolicyKind.HOURS: "KEEP_LATEST_BY_HOURS",
}

RETAINED_BY_DEFAULT = {CleanPolicyKind.COMMITS: 10, CleanPolicyKind.VERSIONS: 3, CleanPolicyKind.HOURS: 24}
"""Hudi's defaults."""

READER_WINDOW_SECONDS = 3600.0
"""The longest query that is waited for. With Hudi's ten commits one that runs for ten minutes loses its files where a
commit completes each minute. An hour is more than most queries take; what was superseded within it is what it costs."""


@dataclass(frozen=True, slots=True)
class CleanPolicy:
    kind: CleanPolicyKind = CleanPolicyKind.COMMITS
    retain: int = RETAINED_BY_DEFAULT[CleanPolicyKind.COMMITS]
    """Commits, versions or hours."""

    @property
    def hudi_name(self) -> str:
        return HUDI_NAMES[self.kind]

    @property
    def milliseconds(self) -> int:
        assert self.kind is CleanPolicyKind.HOURS, "only hours are a time"
        return self.retain * 3_600_000


@dataclass(frozen=True, slots=True)
class CleanOptions:
    policy: CleanPolicy | None = None
    """None: Hudi's default, or what the table's own writers keep, if that is more
    (`services/clean/plan/adopted.py`)."""
    reader_window: float = READER_WINDOW_SECONDS
    """Seconds for which a query may run."""
    consumers: Mapping[str, WatermarkPlace] = field(default_factory=dict)
    """Names of the incremental consumers, each with the place of its watermark."""
    is_incremental: bool = True
    """Only what was written to since an earlier clean is looked at, where that one left nothing."""
    retires_by_anchors: bool = False
    """Merged logs retire in the layout `default`, too, where one log of each output stays as its anchor."""
