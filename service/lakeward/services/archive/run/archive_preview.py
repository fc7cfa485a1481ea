"""What the archiver would do to a table now. Nothing is written.

Touches: storage, reading only: the timelines, one listing a folder, and one read for each clean.
"""

from __future__ import annotations

from lakeward.base.clock import Clock
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.services.archive.plan.archive_plan import ArchivePlan, plan_archive
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.facts import read_archive_facts
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.timeline.archived import history_folder, load_history


def preview_archive(
    storage: Storage, base_path: str, options: ArchiveOptions, *, clock: Clock, timezone: str | None
) -> ArchivePlan:
    """Raises `Refused`."""
    snapshot = take_snapshot(storage, base_path, timezone=timezone, clock=clock)
    return archive_plan_of(storage, base_path, snapshot, options, clock=clock)


def archive_plan_of(
    storage: Storage, base_path: str, snapshot: TableSnapshot, options: ArchiveOptions, *, clock: Clock
) -> ArchivePlan:
    """The same of a scan of the whole table that was made just now. Raises `Refused`."""
    refuse(base_path, find_refusals(snapshot, TableService.ARCHIVING))
    history = load_history(storage, history_folder(base_path, snapshot.config))
    facts = read_archive_facts(storage, base_path, snapshot, history, clock=clock)
    return plan_archive(snapshot.timeline, facts, options)
