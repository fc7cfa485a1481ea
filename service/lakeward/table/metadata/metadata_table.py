"""The metadata table of a table at one moment: its partitions, their file slices, and which log blocks count.

It is a merge-on-read table of its own below `.hoodie/metadata`, with a timeline of its own. What is written there for a
commit completes before the commit does, so a completed block counts only if its instant is

    completed on the data table's timeline, whatever its action
    or a completed delta commit of the metadata table that is not pending on the data table
    or one that a completed rollback or restore of the data table rolled back, later than the last compaction here
    or a rollback, restore or initial build of the metadata table

By the second rule an instant that the data table archived, or never had (an index build), counts; it is also why the
requested and inflight files of a commit that died must not simply be deleted.

    the data table's timeline (the caller's) -> properties, timeline, plans here -> files of the partitions

In this order a commit that completes in between is pending for us on the one timeline or unknown to it, so what it
brought is not read or belongs to an instant that no slice of the data table has.

Touches: storage, reading only: one listing of the timeline and of each partition asked for; of the data table, its
         rollbacks since the last compaction of the metadata table.
Keeps:   1. what is not understood is refused by name, and what is broken is an error: a reader that asks the metadata
            table instead of the storage must not get half a result;
         2. the file slices of a partition are in the order of their file ids, which is that of the hash of keys;
         3. under a pending compaction a slice holds the base file from before and the logs from before and after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotATable, Unsupported
from lakeward.base.paths import join
from lakeward.format.file_name import HFILE, check_relative_path, parse_any_log
from lakeward.format.metadata.partition import FILES
from lakeward.format.timeline.instant import comparable_time
from lakeward.storage.place import found_link
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.file_group import FileGroup, FileSlice
from lakeward.table.file_system_view import PartitionFiles, archived_instants, build_file_groups, sort_files
from lakeward.table.partition import files_of
from lakeward.table.table_config import TableConfig, hoodie_folder, load_table_config
from lakeward.table.timeline.archived import load_archived_times
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.rollbacks import rolled_back_by
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline, load_timeline
from lakeward.table.timeline.timeline_reader import TimelineContent, TimelineReader

FOLDER = "metadata"
"""The name of the folder below `.hoodie`."""

_PAYLOAD = "HoodieMetadataPayload"
_EPOCH = "00000000000000"
"""Initial builds have instants that start so."""


@dataclass(frozen=True, slots=True)
class MetadataTable:
    base_path: str
    config: TableConfig
    timeline: Timeline
    valid_instants: frozenset[str]
    slices: Mapping[str, tuple[FileSlice, ...]]
    """The newest slice of each file group, by file id, of each partition that was asked for."""
    groups: Mapping[str, tuple[FileGroup, ...]]
    """The same with all older slices, those of pending compactions by themselves."""
    uncommitted: tuple[str, ...] = ()
    """Paths of files in these partitions that no reader sees: their instants are pending, failed or rolled back."""


def has_metadata_table(config: TableConfig) -> bool:
    """Whether readers of this table may list its files from its metadata table."""
    return FILES in config.built_metadata_partitions


def metadata_base_path(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER)


def load_metadata_table(
    storage: Storage,
    base_path: str,
    config: TableConfig,
    timeline: Timeline,
    *,
    clock: Clock,
    partitions: Collection[str] | None = None,
) -> MetadataTable:
    """The metadata table of the table at `base_path`, whose properties and timeline the caller read before.

    Args:
        partitions: those that matter; all that readers may use unless it says otherwise.

    Raises `Unsupported`, `BrokenFile` and what storage raises.
    """
    _check_version(base_path, config)
    wanted = config.built_metadata_partitions if partitions is None else tuple(partitions)
    for partition in wanted:
        if partition not in config.metadata_partitions:
            raise _unsupported(base_path, f"The table's properties do not name its partition {partition!r}.")
        check_relative_path(partition)
    metadata_path = metadata_base_path(base_path)
    metadata_config = _load_config(storage, metadata_path, config, clock)
    metadata_timeline = _load_timeline(storage, metadata_path, metadata_config)
    reader = TimelineReader(storage, metadata_path, metadata_config, metadata_timeline)
    content = reader.read()
    if reader.broken:
        raise _broken(metadata_path, f"{reader.broken[0].file} cannot be read: {reader.broken[0].why}")
    native = metadata_config.version.has_native_logs
    files = [
        _sort_partition(metadata_path, path, storage.list(join(metadata_path, path)), native=native) for path in wanted
    ]
    valid = valid_instants(timeline, metadata_timeline)
    groups, uncommitted = _groups(storage, metadata_path, metadata_config, metadata_timeline, content, files)
    pending = set(content.pending_compactions.values())
    return MetadataTable(
        base_path=metadata_path,
        config=metadata_config,
        timeline=metadata_timeline,
        valid_instants=valid | _rolled_back(storage, base_path, config, timeline, metadata_timeline, valid),
        slices={partition: tuple(_merged_slice(group, pending) for group in of) for partition, of in groups.items()},
        groups=groups,
        uncommitted=uncommitted,
    )


def load_metadata_timeline(
    storage: Storage, base_path: str, config: TableConfig, *, clock: Clock
) -> tuple[TableConfig, Timeline]:
    """Properties and timeline of the metadata table alone: one file and one listing. Raises as `load_metadata_table`.

    Args:
        config: of the table at `base_path`.
    """
    _check_version(base_path, config)
    metadata_path = metadata_base_path(base_path)
    metadata_config = _load_config(storage, metadata_path, config, clock)
    return metadata_config, _load_timeline(storage, metadata_path, metadata_config)


def valid_instants(data: Timeline, metadata: Timeline) -> frozenset[str]:
    """The instants whose log blocks count, but for those that were rolled back later."""
    pending = {instant.time for instant in data.pending}
    valid = {instant.time for instant in data.completed}
    for instant in metadata.completed:
        if instant.comparable_action == "deltacommit":
            if instant.time not in pending or is_initial_build(instant.time):
                valid.add(instant.time)
        elif instant.action in ("rollback", "restore"):
            valid.add(instant.time)
    return frozenset(valid)


def is_initial_build(instant: str) -> bool:
    """Whether a partition of the metadata table was built at this instant of its timeline."""
    return instant.startswith(_EPOCH)


def latest_compaction(metadata: Timeline) -> str | None:
    """The instant of the last completed compaction of the metadata table."""
    compactions = [i.time for i in metadata.completed if i.comparable_action == "commit"]
    return max(compactions, key=comparable_time, default=None)


def _rolled_back(
    storage: Storage, base_path: str, config: TableConfig, data: Timeline, metadata: Timeline, valid: frozenset[str]
) -> frozenset[str]:
    """What rollbacks and restores of the data table rolled back since the metadata table was last compacted.

    It matters for a plan that was rolled back and stayed on the timeline: its instant is pending, and what its next
    attempt writes here counts from the moment it is complete here.
    """
    since = max(comparable_time(time) for time in (latest_compaction(metadata) or _EPOCH, min(valid, default=_EPOCH)))
    return frozenset(rolled_back_by(InstantContents(storage, base_path, config, data), data, since=since))


def _check_version(base_path: str, config: TableConfig) -> None:
    if not config.is_writable:
        raise _unsupported(base_path, f"The table has version {config.version} and timeline layout {config.layout}.")


def _load_config(storage: Storage, metadata_path: str, config: TableConfig, clock: Clock) -> TableConfig:
    try:
        found = load_table_config(storage, metadata_path, clock=clock).config
    except NotATable as error:
        raise _broken(metadata_path, "The table's properties say that it is there, and it is not.") from error
    if not found.is_writable:
        raise _unsupported(metadata_path, f"It has version {found.version} and timeline layout {found.layout}.")
    if found.base_file_format != "HFILE":
        raise _unsupported(metadata_path, f"Its base files are in the format {found.base_file_format}.")
    if (payload := (found.payload_class or "").rpartition(".")[2]) != _PAYLOAD:
        raise _unsupported(metadata_path, f"Its records are merged by {payload or 'no payload class'}.")
    return found


def _load_timeline(storage: Storage, metadata_path: str, config: TableConfig) -> Timeline:
    timeline = load_timeline(storage, metadata_path, config)
    if timeline.unknown:
        raise _unsupported(metadata_path, f"{timeline.unknown[0]} on its timeline is of an action that is not known.")
    for broken in timeline.broken:
        # An empty file of a clean or a rollback leaves nothing in doubt that a reader asks.
        if broken.instant.comparable_action in WRITE_ACTIONS:
            raise _broken(metadata_path, f"{broken.file} is broken: {broken.why}")
    _refuse_log_compaction(metadata_path, timeline)
    return timeline


def _refuse_log_compaction(metadata_path: str, timeline: Timeline) -> None:
    """Its output stands for older blocks, which would have to be left out."""
    since = comparable_time(latest_compaction(timeline) or _EPOCH)
    pending = {instant.time for instant in timeline.pending}
    for instant in timeline.instants:
        is_carried_out = instant.action == "logcompaction" and instant.time not in pending
        if is_carried_out and comparable_time(instant.time) > since:
            raise _unsupported(metadata_path, f"Its logs were compacted among themselves by {instant.time}.")


def _sort_partition(
    metadata_path: str, partition: str, entries: Iterable[FileStatus], *, native: bool
) -> PartitionFiles:
    files = files_of(entries)
    found = sort_files(partition, files, extension=HFILE, native=native)
    for link in found.links:
        raise found_link(join(metadata_path, link.path))
    strange = [file.name for file in files if _is_strange_log(file.name, native=native)]
    for name in (*found.unrecognised, *strange):
        raise _unsupported(metadata_path, f"The file name {name!r} in its partition {partition} is not understood.")
    if not found.base_files and not found.log_files:
        raise _broken(metadata_path, f"The table's properties name its partition {partition}, which holds no file.")
    return found


def _is_strange_log(name: str, *, native: bool) -> bool:
    """True for a log whose name is not understood, and for one of changes, which no metadata table has."""
    log = parse_any_log(name, native=native)
    if log is not None:
        return log.is_cdc
    # Hadoop's checksummed local file system keeps `.x.crc` beside `x`.
    return ".log." in name and not name.endswith(".crc")


def _groups(
    storage: Storage,
    metadata_path: str,
    config: TableConfig,
    timeline: Timeline,
    content: TimelineContent,
    files: list[PartitionFiles],
) -> tuple[dict[str, tuple[FileGroup, ...]], tuple[str, ...]]:
    archived = load_archived_times(storage, metadata_path, config, archived_instants(files, timeline))
    view = build_file_groups(
        files,
        timeline,
        layout=config.layout,
        archived=archived.completion_times,
        pending_compactions=content.pending_compactions,
        replaced=content.replaced,
    )
    for frozen in (*view.frozen, *content.planned_twice.values()):
        raise _broken(metadata_path, f"File group {frozen.file_id} cannot be read: {frozen.why}.")
    found: dict[str, list[FileGroup]] = {partition.partition_path: [] for partition in files}
    for group in sorted(view.groups, key=lambda group: group.file_id):
        found[group.partition_path].append(group)
    for partition, groups in found.items():
        if not groups:
            raise _broken(metadata_path, f"No file of its partition {partition} is committed.")
    return {partition: tuple(groups) for partition, groups in found.items()}, view.uncommitted


def _merged_slice(group: FileGroup, pending: Collection[str]) -> FileSlice:
    latest = group.slices[0]
    if latest.base_instant not in pending or len(group.slices) == 1:
        return latest
    before = group.slices[1]
    return replace(before, log_files=(*before.log_files, *latest.log_files))


def _unsupported(path: str, why: str) -> Unsupported:
    return Unsupported(
        f"The metadata table of {path.removesuffix(f'/.hoodie/{FOLDER}')} is not supported.",
        why=why,
        remedy="List the table's files from the storage, and service it with the Hudi release that wrote it.",
    )


def _broken(path: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The metadata table at {path} cannot be read.",
        why=why,
        remedy="Let a Hudi writer rebuild it: delete it by Hudi's own command, and write once with it on.",
    )
