"""The file slices of a table as of any of its commits, from one listing.

A snapshot shows what readers read now. As of an older commit there are also the file groups that were replaced since,
and of each group the slices at or before that commit.

Touches: storage, reading only: what a scan reads of the timeline, and one listing a folder.
Keeps:   1. the timeline is listed before the files, as in `snapshot.py`;
         2. groups whose slices cannot be told apart are named, not left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lakeward.format.timeline.instant import comparable_time
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import (
    FileSystemView,
    PartitionFiles,
    archived_log_instants,
    build_file_groups,
    sort_files,
)
from lakeward.table.partition import find_partitions
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import ArchivedTimes, load_archived_times
from lakeward.table.timeline.reader import TimelineContent, TimelineReader
from lakeward.table.timeline.timeline import Timeline


@dataclass(frozen=True)
class PastSlices:
    timeline: Timeline
    layout: int
    content: TimelineContent
    files: tuple[PartitionFiles, ...]
    archived: ArchivedTimes

    def view(self, as_of: str | None = None) -> FileSystemView:
        """The file groups with all of their slices; those that had been replaced as of then, or now, are left out."""
        replaced = self.content.replaced
        if as_of is not None:
            replaced = {group: at for group, at in replaced.items() if comparable_time(at) <= comparable_time(as_of)}
        return build_file_groups(
            self.files,
            self.timeline,
            layout=self.layout,
            archived=self.archived.completion_times,
            pending_compactions=self.content.pending_compactions,
            replaced=replaced,
        )

    @cached_property
    def sizes(self) -> Mapping[str, Mapping[str, int]]:
        """Bytes of every data file that there is, by partition path and name."""
        return {
            files.partition_path: {base.name: base.size for base in files.base_files}
            | {log.name.text: log.size for log in files.log_files}
            for files in self.files
        }


def scan_past_slices(storage: Storage, base_path: str, config: TableConfig, timeline: Timeline) -> PastSlices:
    """All slices that there are; `timeline` was listed before."""
    content = TimelineReader(storage, base_path, config, timeline).read()
    found = find_partitions(storage, base_path)
    files = tuple(sort_files(partition.path, partition.files) for partition in found.partitions)
    archived = load_archived_times(storage, base_path, config, archived_log_instants(files, timeline))
    return PastSlices(timeline, config.layout, content, files, archived)
