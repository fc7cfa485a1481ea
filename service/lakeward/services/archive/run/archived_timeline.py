"""The archiver shortens two timelines: a table's own, and that of its metadata table. Here each is read as it is now.

Hudi's writers archive the metadata table's own timeline at each commit. Where none of them writes it grows: each commit
of Lakeward's, each clean and each compaction adds to it. It follows the table's own timeline: it keeps one commit more
than that, or as many as cleans of the metadata table need, and nothing goes that is not older than all of the table's
active timeline, nor what the metadata table's last compaction has not merged.

Touches: storage, reading only.
Keeps:   what cannot be read of the metadata table, and what may not be changed of it, leaves the table's own timeline
         to be archived, and is a sentence.
Source:  HoodieMetadataWriteUtils, TimelineArchiverV2, TimelineUtils.getEarliestInstantForMetadataArchival (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound, Unsupported
from lakeward.protocol.refusals.eligibility import TableService, find_refusals
from lakeward.services.archive.plan.archive_plan import ArchiveFacts, ArchivePlan, plan_archive, table_begins
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.facts import metadata_archive_facts, read_archive_facts
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import has_metadata_table, load_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import History, history_folder, load_history
from lakeward.table.timeline.timeline import Timeline

_METADATA_CLEANED = 20
"""Commits that Hudi's cleaner of the metadata table retains at least; it counts those of the active timeline alone."""
_METADATA_DELTAS = 10
"""hoodie.metadata.compact.max.delta.commits"""


@dataclass(frozen=True, slots=True)
class ArchivedTimeline:
    """One of the two, and what the archiver must know of it."""

    base_path: str
    """The table's, or its metadata table's."""
    config: TableConfig
    timeline: Timeline
    facts: ArchiveFacts
    history: History
    options: ArchiveOptions

    @property
    def plan(self) -> ArchivePlan:
        return plan_archive(self.timeline, self.facts, self.options)


def own_timeline(
    storage: Storage, snapshot: TableSnapshot, options: ArchiveOptions, *, clock: Clock
) -> ArchivedTimeline:
    """The table's own, of a scan of the whole table. Raises `BrokenFile`, and `NotFound` where an archiver works."""
    base_path, config = snapshot.base_path, snapshot.config
    history = load_history(storage, history_folder(base_path, config))
    facts = read_archive_facts(storage, base_path, snapshot, history, clock=clock)
    return ArchivedTimeline(base_path, config, snapshot.timeline, facts, history, options)


def metadata_timeline(
    storage: Storage,
    snapshot: TableSnapshot,
    options: ArchiveOptions,
    *,
    clock: Clock,
    archived: Collection[str] = (),
) -> ArchivedTimeline | str | None:
    """That of the metadata table; why it stays as it is; None where there is no metadata table.

    Args:
        snapshot: of the table; its timeline is what counts.
        options: those for the table's own timeline.
        archived: times of instants that are going from the table's own timeline.
    """
    if not has_metadata_table(snapshot.config):
        return None
    if refusals := find_refusals(snapshot, TableService.METADATA):
        return f"{refusals[0].subject}: {refusals[0].why}"
    begins = table_begins(snapshot.timeline, archived)
    try:
        table = load_metadata_table(storage, snapshot.base_path, snapshot.config, snapshot.timeline, clock=clock)
        history = load_history(storage, history_folder(table.base_path, table.config))
        facts = metadata_archive_facts(storage, table, history, table_begins=begins)
    except (BrokenFile, NotFound, Unsupported) as error:
        return str(error)
    return ArchivedTimeline(table.base_path, table.config, table.timeline, facts, history, _for_metadata(options))


def _for_metadata(options: ArchiveOptions) -> ArchiveOptions:
    return replace(
        options,
        commits_min=options.commits_min + 1,
        commits_max=options.commits_max + 1,
        commits_cleaned=_METADATA_CLEANED,
        delta_commits=_METADATA_DELTAS,
    )
