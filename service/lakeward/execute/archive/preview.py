"""What the archiver would do to a table now. Nothing is written.

Touches: storage, reading only: the timelines, one listing a folder, and one read for each clean.
"""

from __future__ import annotations

from collections import Counter

from lakeward.clock import Clock
from lakeward.format.file_name import parse_data_file
from lakeward.plan.archiving import ArchiveFacts, ArchiveOptions, ArchivePlan, plan_archive
from lakeward.plan.eligibility import TableService, find_refusals
from lakeward.plan.refusal import refuse
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileGroup
from lakeward.table.metadata.metadata_table import has_metadata_table, latest_compaction, load_metadata_table
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.timeline.cleans import read_cleans


def preview_archive(
    storage: Storage, base_path: str, options: ArchiveOptions, *, clock: Clock, timezone: str | None
) -> ArchivePlan:
    """Raises `Refused`."""
    snapshot = take_snapshot(storage, base_path, timezone=timezone, clock=clock)
    refuse(base_path, find_refusals(snapshot, TableService.ARCHIVING))
    config, timeline = snapshot.config, snapshot.timeline
    compacted = None
    if has_metadata_table(config):
        metadata = load_metadata_table(storage, base_path, config, timeline, clock=clock, partitions=())
        compacted = latest_compaction(metadata.timeline)
    facts = ArchiveFacts(
        is_merge_on_read=config.table_type == "MERGE_ON_READ",
        cleans=read_cleans(storage, base_path, config, timeline),
        has_metadata_table=has_metadata_table(config),
        metadata_compacted=compacted,
        replaced_left=_replaced_left(snapshot),
        uncommitted=[(_instant_of(path), path) for path in snapshot.uncommitted_files],
    )
    return plan_archive(timeline, facts, options)


def _replaced_left(snapshot: TableSnapshot) -> dict[str, int]:
    """Files of replaced groups that are still there; at least one for a group whose slices cannot be told apart."""
    left: Counter[str] = Counter()
    for group in snapshot.replaced_groups:
        slices = group.slices if isinstance(group, FileGroup) else ()
        files = sum((slice_.base_file is not None) + len(slice_.log_files) for slice_ in slices)
        left[snapshot.replaced[group.partition_path, group.file_id]] += max(1, files)
    return dict(left)


def _instant_of(path: str) -> str:
    name = path.rpartition("/")[2]
    parsed = parse_data_file(name)
    assert parsed is not None, "it was sorted by its name"
    return parsed.instant
