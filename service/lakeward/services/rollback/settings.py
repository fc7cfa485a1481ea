"""How failed writes of a table are rolled back: the section `rollback` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.protocol.options import SILENT_AFTER_SECONDS
from lakeward.protocol.section import Duration, DurationOrOff, SettingsSection


@dataclass(frozen=True, slots=True)
class RollbackRules:
    quiet_seconds: float
    """The timeline has not changed for so long of a write that is rolled back."""


class RollbackSettings(SettingsSection):
    """Which failed writes the daemon rolls back, and since when services that were left unfinished count as dead."""

    after: Duration = 600.0
    """A pending write is looked at once nothing of it has changed on the timeline for so long, and rolled back if its
    writer is dead: docs/services/rollback.md says what counts as that. Hudi's own writers do so before each write
    or clean, so it leaves it to them as long as they come."""
    silent_after: DurationOrOff = SILENT_AFTER_SECONDS
    """A compaction, log compaction or clustering that another engine began, beside writers that share the lock, and
    that has no heartbeat, counts as dead once nothing of it has changed for so long, on the timeline or among its
    markers. It must be more than the longest that one file takes to be written. "none": never, unless writers are
    stopped. For commands that are given this file, too."""


SECTION = RollbackSettings
