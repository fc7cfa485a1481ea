"""What the archiver would do to a table now. Nothing is written.

Touches: storage, reading only: the timelines, one listing a folder, and one read for each clean.
"""

from __future__ import annotations

from dataclasses import replace

from lakeward.base.clock import Clock
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.services.archive.plan.archive_plan import ArchivePlan
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archived_timeline import ArchivedTimeline, metadata_timeline, own_timeline
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot, take_snapshot


def preview_archive(
    storage: Storage, base_path: str, options: ArchiveOptions, *, clock: Clock, timezone: str | None
) -> ArchivePlan:
    """With what would go from the metadata table's timeline after that. Raises `Refused`."""
    snapshot = take_snapshot(storage, base_path, timezone=timezone, clock=clock)
    plan = archive_plan_of(storage, base_path, snapshot, options, clock=clock)
    gone = {instant.time for instant in plan.archived}
    metadata = metadata_timeline(storage, snapshot, options, clock=clock, archived=gone)
    return replace(plan, metadata=metadata.plan if isinstance(metadata, ArchivedTimeline) else metadata)


def archive_plan_of(
    storage: Storage, base_path: str, snapshot: TableSnapshot, options: ArchiveOptions, *, clock: Clock
) -> ArchivePlan:
    """What would go from the table's own timeline, of a scan of the whole table that was made just now. Raises
    `Refused`."""
    refuse(base_path, find_refusals(snapshot, TableService.ARCHIVING))
    return own_timeline(storage, snapshot, options, clock=clock).plan
