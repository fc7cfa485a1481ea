"""How failed writes of a table are rolled back: the section `rollback` of the configuration.

Touches: nothing.
"""

from __future__ import annotations

from lakeward.protocol.options import SILENT_AFTER_SECONDS
from lakeward.protocol.section import DurationOrOff, SettingsSection


class RollbackSettings(SettingsSection):
    """Which failed writes the daemon rolls back, and since when services that were left unfinished count as dead."""

    silent_after: DurationOrOff = SILENT_AFTER_SECONDS
    """A compaction, log compaction or clustering that another engine began, beside writers that share the lock, and
    that has no heartbeat, counts as dead once nothing of it has changed for so long, on the timeline or among its
    markers. It must be more than the longest that one file takes to be written. "none": never, unless writers are
    stopped. For commands that are given this file, too."""


SECTION = RollbackSettings
