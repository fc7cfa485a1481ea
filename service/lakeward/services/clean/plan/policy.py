"""How much of a table's past a clean keeps, in Hudi's three ways.

    commits    KEEP_LATEST_COMMITS          what can be read as of the last N completed commits
    hours      KEEP_LATEST_BY_HOURS         the same as of the commits that were requested in the last N hours
    versions   KEEP_LATEST_FILE_VERSIONS    the N newest slices of each file group, whenever they were written

Whatever the way, queries that are running are waited for (`services/clean/plan/reader_protection.py`), which Hudi
leaves to its users: they are to retain more commits than complete while their longest query runs.

They stand apart from what they mean (`services/clean/plan/planner.py`, `services/clean/plan/planner.py`)
because `--help` lists them, and answers before anything that plans is loaded.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
