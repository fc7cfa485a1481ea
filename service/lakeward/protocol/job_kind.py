"""The kinds of jobs that a daemon does, as a configuration names them.

Touches: nothing.
Keeps:   the values stand in the store and in metrics, so they never change their meaning.
"""

from __future__ import annotations

from enum import StrEnum


class JobKind(StrEnum):
    """What a job does."""

    RECOVERY = "recovery"
    """Roll back or forward what a dead attempt left, Lakeward's or another's; the first job after a lease was
    gained.
    """
    PLAN_EXPIRY = "plan-expiry"
    """Unschedule pending plans that are too old, so that no file group is hostage to one."""
    ROLLBACK = "rollback"
    """Roll back writes whose writer died."""
    COMPACTION = "compaction"
    """Finish pending plans, plan again under the lock, carry out."""
    CLUSTERING = "clustering"
    """Pack small file groups into larger ones, in a pause of the writers."""
    INDEX = "index"
    """Hold a sample of the table's rows against its indexes, and of their entries against the rows."""
    TTL = "ttl"
    """Delete partitions that expired; before the first time on a table, give notice of it."""
    CLEAN = "clean"
    """End pending cleans, then delete the old file slices that nothing needs any more."""
    ARCHIVE = "archive"
    """Move the oldest instants from the active timeline into the archive."""
    METADATA_CLEAN = "metadata-clean"
    """Delete the files of the metadata table that its compactions replaced and no reader needs any more."""
    METADATA_COMPACTION = "metadata-compaction"
    """Compact the metadata table before its writers have to."""
    VERIFICATION = "verification"
    """Merge a sample again and compare."""
