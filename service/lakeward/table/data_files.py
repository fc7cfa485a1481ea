"""All data files of a table, from one listing, and its file groups as they would be without some writes.

Touches: storage, reading only: what a scan reads of the timeline, and one listing a folder.
Keeps:   the timeline is listed before the files, as in `snapshot.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lakeward.base.clock import Clock
from lakeward.base.paths import join
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.file_system_view import (
    FileSystemView,
    PartitionFiles,
    archived_instants,
    build_file_groups,
    sort_files,
)
from lakeward.table.listing_source import find_table_partitions
from lakeward.table.quarantine import QuarantinedFile
from lakeward.table.retired_logs import LogCompactions, without_gone
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import ArchivedTimes, load_archived_times
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timeline_reader import TimelineContent, TimelineReader
from lakeward.table.written_files import WrittenBy, find_damage


@dataclass(frozen=True)
class DataFiles:
    timeline: Timeline
    layout: int
    content: TimelineContent
    files: tuple[PartitionFiles, ...]
    archived: ArchivedTimes
    log_compactions: LogCompactions
    """The log compactions of each group."""
    native: bool
    """The table's version has native logs."""

    def without(self, gone: Collection[str], written: Iterable[WrittenBy]) -> FileSystemView:
        """The newest file groups as they would be if these writes and plans had never been, and no file of them; those
        of which a file that a commit names would be missing are frozen.

        Args:
            written: what the completed writes of the timeline say of their files.
        """
        timeline = self.timeline.without(gone)
        files = [
            replace(
                each,
                base_files=tuple(base for base in each.base_files if base.instant not in gone),
                log_files=tuple(log for log in each.log_files if log.instant not in gone),
            )
            for each in self.files
        ]
        content = self.content
        damage = find_damage(
            files, (each for each in written if each.instant not in gone), timeline, native=self.native
        )
        return build_file_groups(
            files,
            timeline,
            layout=self.layout,
            archived=self.archived.completion_times,
            pending_compactions={group: at for group, at in content.pending_compactions.items() if at not in gone},
            replaced={group: at for group, at in content.replaced.items() if at not in gone},
            damage=without_gone(damage, files, _without(self.log_compactions, gone)),
        )

    def with_files(
        self, storage: Storage, base_path: str, config: TableConfig, more: Iterable[QuarantinedFile]
    ) -> DataFiles:
        """The same with these files in their places, too."""
        found = {each.partition_path: each for each in self.files}
        missing: dict[str, list[FileStatus]] = {}
        for file in more:
            if file.name not in self.sizes.get(file.partition_path, {}):
                status = FileStatus(join(base_path, file.path), file.size, 0.0, False)
                missing.setdefault(file.partition_path, []).append(status)
        for path, statuses in missing.items():
            added = sort_files(path, statuses, native=self.native)
            there = found.get(path, PartitionFiles(path, (), (), ()))
            base_files, log_files = (*there.base_files, *added.base_files), (*there.log_files, *added.log_files)
            found[path] = replace(
                there,
                base_files=tuple(sorted(base_files, key=lambda file: file.name)),
                log_files=tuple(sorted(log_files, key=lambda file: file.name.text)),
            )
        files = tuple(found[path] for path in sorted(found))
        archived = load_archived_times(storage, base_path, config, archived_instants(files, self.timeline))
        reader = TimelineReader(storage, base_path, config, self.timeline)
        compactions = reader.log_compactions(_log_instants(files), archived.plans)
        return replace(self, files=files, archived=archived, log_compactions=compactions)

    @cached_property
    def sizes(self) -> Mapping[str, Mapping[str, int]]:
        """Bytes of each, by partition path and name."""
        return {
            files.partition_path: {base.name: base.size for base in files.base_files}
            | {log.name.text: log.size for log in files.log_files}
            for files in self.files
        }


def list_data_files(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, *, clock: Clock
) -> DataFiles:
    """All that there are; `timeline` was listed before."""
    reader = TimelineReader(storage, base_path, config, timeline)
    content = reader.read()
    native = config.version.has_native_logs
    found = find_table_partitions(storage, base_path, config, timeline, clock=clock)
    files = tuple(sort_files(partition.path, partition.files, native=native) for partition in found.partitions)
    archived = load_archived_times(storage, base_path, config, archived_instants(files, timeline))
    compactions = reader.log_compactions(_log_instants(files), archived.plans)
    return DataFiles(timeline, config.layout, content, files, archived, compactions, native)


def _without(log_compactions: LogCompactions, gone: Collection[str]) -> LogCompactions:
    return {group: [each for each in of if each.instant not in gone] for group, of in log_compactions.items()}


def _log_instants(files: Iterable[PartitionFiles]) -> set[str]:
    return {log.instant for partition in files for log in partition.log_files}
