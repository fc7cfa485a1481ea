"""Write the metadata table's part of a commit: a delta commit of the same instant, complete before the commit itself.

    prepare   no lock     read the metadata table, write the log files that depend on nothing but the files that come
                          and go into the attempt's folder, read the statistics of the files beside the new ones and
                          join those of partitions
    stage     under lock  another snapshot; what was prepared for another table is prepared again; join the statistics
    of
                          partitions in which other files count by now, write them, and the commit
    publish   under lock  `protocol/metadata/delta_commit.py`

In memory are the statistics of the files in the touched partitions, one bloom filter at a time, and of a write of rows
the keys that are sorted at once (`key_sorter.py`).

Touches: the attempt's folder; of the metadata table, what another attempt at the instant left there is rolled back; of
         a write that brings columns, the index definitions (`indexed_by_write.py`).
Keeps:   1. what is written is for the partitions, file groups, columns and schema that the table has under the lock;
         2. a log file holds blocks of one instant, and no other file carries its name;
         3. every value that a write brings lies in its partition's range, as readers put the records together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC
from functools import partial
from itertools import chain

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.errors import Conflict
from lakeward.base.paths import join
from lakeward.format.avro.schema import without_meta_columns
from lakeward.format.file_name import WriteToken
from lakeward.format.metadata.base_file_stats import read_bloom_filter
from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.key import column_prefix, column_stats_key, hashed_secondary_value, partition_stats_key
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from lakeward.format.metadata.partition_stats import (
    can_be_joined,
    holds,
    over_both,
    partition_stats,
    written_partition_stats,
)
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    MetadataRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
    SecondaryIndexRecord,
)
from lakeward.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    write_commit_metadata,
)
from lakeward.format.timeline.instant import comparable_time, parse_instant_time
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.protocol.metadata.changes import (
    DeletedFile,
    NewFile,
    bloom_filter_sources,
    by_file_group,
    column_stats_records,
    counting_files,
    deleted_filters,
    deleted_ranges,
    deleted_stats,
    files_records,
    partition_stats_records,
)
from lakeward.protocol.metadata.delta_commit import COMMIT_FILE, DeltaCommit, StagedDeltaCommit, check_not_rolled_back
from lakeward.protocol.metadata.group_logs import GroupLogs, OpenLogs
from lakeward.protocol.metadata.indexed_by_write import name_columns
from lakeward.protocol.metadata.key_changes import WriteChanges, collect_key_changes, replaced_slices
from lakeward.protocol.metadata.key_sorter import KeySorter
from lakeward.protocol.metadata.secondary_pairs import SecondaryPairs
from lakeward.protocol.metadata.snapshot import MetadataSnapshot, take_metadata_snapshot
from lakeward.protocol.transition import MetadataAction, TimelineFiles
from lakeward.read.newest_slice import newest_slice
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.index_definitions import IndexedColumns
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.timeline import Timeline

_BRING_VALUES = ("commit", "deltacommit", "replacecommit")
"""What is pending under these names may put values into a partition that were not there; services do not."""
_HASHED_BY_VALUE = 2
"""The version of a secondary index in which the value alone says which file group a pair is in."""
_PREFIX_LENGTH = 24
"""Characters by which a key of column_stats says its column and partition."""


class DeltaCommitWriter:
    """The delta commit of one attempt at `instant`."""

    def __init__(
        self,
        storage: Storage,
        instant: str,
        *,
        folder: str,
        number: int,
        measured: IndexedColumns | None,
        clock: Clock,
    ) -> None:
        """
        Args:
            folder: the attempt's.
            number: the attempt's.
            measured: of which columns the new files have statistics.
        """
        self._storage = storage
        self._instant = instant
        self._folder = folder
        self._number = number
        self._measured = measured
        self._clock = clock
        self._prepared: tuple[object, ...] | None = None
        """The table and the files that the logs in the folder were written for."""
        self._logs: dict[str, WriteStat] = {}
        """Logs in the folder, by name."""
        self._known: dict[tuple[str, str], list[ColumnStatsRecord]] = {}
        """What column_stats has of a file, by partition path and name. Files never change, so neither does this."""
        self._joined: dict[str, tuple[Sequence[str], bool, Sequence[PartitionStatsRecord]]] = {}
        """The statistics of a partition behind the files that they are of, and whether no others count; for what was
        prepared."""

    def prepare(
        self,
        snapshot: TableSnapshot,
        files: Sequence[NewFile] = (),
        *,
        deleted: Sequence[DeletedFile] = (),
        write: WriteChanges | None = None,
    ) -> None:
        """Do what can be done before the table lock is held. `snapshot` shows the partitions of `files` whole.

        Args:
            write: of a write of rows, which goes about it like this:

                indexed = indexed_by_write(storage, snapshot, schema).indexed    for its `WriteContext`
                writer = DeltaCommitWriter(…, measured=indexed, …)
                changes = WriteChanges(schema, [ChangedKeys(result.partition_path, result.key_changes), …], …)
                writer.prepare(snapshot, files, write=changes)                   no lock
                participant = writer.stage(snapshot, files, write=changes, fence=fence)     under the lock

                `snapshot` is that of the table before the write, and shows the partitions of what is replaced whole,
                too. Raises `Refused` where the table has an index that we cannot write: `check_rows_can_be_written`
                says so before anything is written.
        """
        metadata = self._take(snapshot, write)
        self._write_logs(metadata, snapshot, files, deleted, write)
        if metadata.has_partition_stats:
            new, replaced = _new(files), write.replaced if write is not None else ()
            counting = counting_files(snapshot.file_groups, new, instant=self._instant, replaced=replaced)
            self._learn(metadata, counting, new, everything=True)
            self._partition_stats(metadata, snapshot, new, write)

    def stage(
        self,
        snapshot: TableSnapshot,
        files: Sequence[NewFile] = (),
        *,
        deleted: Sequence[DeletedFile] = (),
        write: WriteChanges | None = None,
        fence: Callable[[], None],
    ) -> StagedDeltaCommit:
        """Bring what was prepared up to date and write the rest. Under the lock; otherwise as `prepare`.

        Raises `Conflict` where the new files do not have what is needed now, or a later write was faster.
        """
        metadata = self._take(snapshot, write)
        if any(each.time == self._instant for each in metadata.table.timeline.instants):
            left = DeltaCommit(self._storage, snapshot.base_path, self._instant, self._clock)
            left.roll_back(by=self._number, fence=fence)
            metadata = self._take(snapshot, write)
        timeline = metadata.table.timeline
        folder = timeline_folder(metadata.table.base_path, metadata.table.config)
        check_not_rolled_back(self._storage, folder, self._instant, timeline)
        if _new(files) and metadata.indexed is not None and metadata.indexed != self._measured:
            raise Conflict(
                f"The indexed columns of {snapshot.base_path} changed while {self._instant} was merged.",
                why="Its new files were measured for others, and readers take what is missing for null.",
                remedy="Run the command again; nothing was published.",
            )
        if self._prepared != _shape(metadata, snapshot, files, deleted, write):
            self._write_logs(metadata, snapshot, files, deleted, write)
        if metadata.has_partition_stats:
            ranges = self._partition_stats(metadata, snapshot, _new(files), write)
            if write is not None:
                self._check_not_overtaken(metadata, ranges)
            self._write_log(metadata, PARTITION_STATS, _encoded(metadata, ranges))
        if metadata.by_write is not None:
            name_columns(self._storage, snapshot, metadata.by_write, fence=fence)
        commit = write_commit_metadata(_commit(metadata.schema_json, self._logs.values()))
        self._storage.create(join(self._folder, COMMIT_FILE), commit)
        return StagedDeltaCommit(
            storage=self._storage,
            files=TimelineFiles(self._storage, folder, self._instant, MetadataAction.DELTA_COMMIT),
            metadata_path=metadata.table.base_path,
            instant=self._instant,
            folder=self._folder,
            logs={stat.path or "": stat.file_size_in_bytes or 0 for stat in self._logs.values()},
        )

    def _take(self, snapshot: TableSnapshot, write: WriteChanges | None) -> MetadataSnapshot:
        schema = None if write is None else write.schema
        return take_metadata_snapshot(self._storage, snapshot, clock=self._clock, write_schema=schema)

    def _write_logs(
        self,
        metadata: MetadataSnapshot,
        snapshot: TableSnapshot,
        files: Sequence[NewFile],
        deleted: Sequence[DeletedFile],
        write: WriteChanges | None,
    ) -> None:
        """Write the logs of all partitions that depend on nothing but what comes and goes."""
        base_path = snapshot.base_path
        for name in self._logs:
            self._storage.delete(join(self._folder, name))
        self._logs.clear()
        self._joined.clear()
        self._write_log(metadata, FILES, _encoded(metadata, files_records(files, deleted, of_write=write is not None)))
        if COLUMN_STATS in metadata.table.slices:
            self._write_log(metadata, COLUMN_STATS, _encoded(metadata, column_stats_records(files)))
            columns = metadata.indexed.columns if metadata.indexed is not None else ()
            self._write_deletes(metadata, COLUMN_STATS, deleted_stats(deleted, columns))
        if BLOOM_FILTERS in metadata.table.slices:
            encode = metadata_codec(metadata.schema_json).encode
            filters = {
                key: partial(self._bloom_filter, base_path, file, encode)
                for key, file in bloom_filter_sources(files).items()
                if not file.is_brought_back or self._find_filter(base_path, file) is not None
            }
            self._write_log(metadata, BLOOM_FILTERS, filters)
            self._write_deletes(metadata, BLOOM_FILTERS, deleted_filters(deleted))
        if write is not None and metadata.indexed is not None and metadata.has_partition_stats:
            gone = deleted_ranges(write.deleted_partitions, metadata.indexed.columns)
            self._write_deletes(metadata, PARTITION_STATS, gone)
        if write is not None and RECORD_INDEX in metadata.table.slices:
            self._write_keys(metadata, snapshot, write)
        if write is not None:
            for definition in metadata.secondary_indexes:
                self._write_pairs(metadata, snapshot, files, write, definition)
        self._prepared = _shape(metadata, snapshot, files, deleted, write)

    def _write_keys(self, metadata: MetadataSnapshot, snapshot: TableSnapshot, write: WriteChanges) -> None:
        """A log file for each file group of the record index that a key entered or left: where the keys are that
        came, and behind that which are gone."""
        zone = snapshot.zone.zone
        assert zone is not None or not snapshot.timeline.completed, "eligibility refuses a table whose zone is unknown"
        encode, millis = metadata_codec(metadata.schema_json).encode, parse_instant_time(self._instant, zone or UTC)
        with KeySorter(len(metadata.table.slices[RECORD_INDEX])) as sorter:
            places = collect_key_changes(self._storage, snapshot, write, sorter).places
            values = [
                encode(RecordIndexRecord(partition=path, file_id=file_id, instant_millis=millis))
                for path, file_id in places
            ]
            for group in sorter.groups():
                with self._open_log(metadata, RECORD_INDEX, group) as log:
                    for run in sorter.written(group):
                        log.add_entries((key, values[place]) for key, place in run)
                    for keys in sorter.gone(group):
                        log.add_deletes(keys)

    def _write_pairs(
        self,
        metadata: MetadataSnapshot,
        snapshot: TableSnapshot,
        files: Sequence[NewFile],
        write: WriteChanges,
        definition: IndexDefinition,
    ) -> None:
        """A log file for each file group of the secondary index, as of the record index."""
        name, value = definition.name, metadata_codec(metadata.schema_json).encode(SecondaryIndexRecord())
        hashed = hashed_secondary_value if definition.version == _HASHED_BY_VALUE else str
        with KeySorter(len(metadata.table.slices[name]), hashed=hashed) as sorter:
            SecondaryPairs(self._storage, snapshot, self._folder, definition, write).add_to(sorter, files)
            for group in sorter.groups():
                with self._open_log(metadata, name, group) as log:
                    for run in sorter.written(group):
                        log.add_entries((key, value) for key, _ in run)
                    for keys in sorter.gone(group):
                        log.add_deletes(keys)

    def _write_log(
        self, metadata: MetadataSnapshot, partition: str, entries: Mapping[str, Callable[[], bytes]]
    ) -> None:
        """A log file for each file group of the partition that has entries."""
        for group, of_group in by_file_group(entries, len(metadata.table.slices[partition])).items():
            with self._open_log(metadata, partition, group) as log:
                log.add_entries((key, value()) for key, value in of_group)

    def _write_deletes(self, metadata: MetadataSnapshot, partition: str, keys: Sequence[str]) -> None:
        """A log file for each file group of the partition that has one of the keys."""
        groups = by_file_group(dict.fromkeys(keys), len(metadata.table.slices[partition]))
        for group, of_group in groups.items():
            with self._open_log(metadata, partition, group) as log:
                log.add_deletes(pa.array([key for key, _ in of_group], pa.string()))

    @contextmanager
    def _open_log(self, metadata: MetadataSnapshot, partition: str, group: int) -> Iterator[OpenLogs]:
        logs = GroupLogs(
            self._storage,
            self._folder,
            partition,
            metadata.table.slices[partition][group].file_id,
            self._instant,
            write_token=str(WriteToken(group, self._number, 0)),
            schema_json=metadata.schema_json,
            native=metadata.table.config.version.has_native_logs,
        )
        assert all((stat.partition_path, stat.file_id) != (partition, logs.file_id) for stat in self._logs.values()), (
            "a commit either adds to a partition or takes from it"
        )
        with logs.open() as opened:
            yield opened
        self._logs.update({(stat.path or "").rpartition("/")[2]: stat for stat in logs.written})

    def _bloom_filter(self, base_path: str, file: NewFile, encode: Callable[[MetadataRecord], bytes]) -> bytes:
        found = self._find_filter(base_path, file)
        assert found is not None, "every base file of Lakeward has one, and others were asked"
        return encode(
            BloomFilterRecord(type_code=found[0], timestamp=self._instant, bloom_filter=found[1], is_deleted=False)
        )

    def _find_filter(self, base_path: str, file: NewFile) -> tuple[str, bytes] | None:
        if file.is_brought_back:
            path = join(base_path, file.partition_path, file.name)
        else:
            path = fencing_of(self._storage).output_path(base_path, self._folder, file.partition_path, file.name)
        with self._storage.open_input(path) as source:
            return read_bloom_filter(source, file_name=path)

    def _partition_stats(
        self,
        metadata: MetadataSnapshot,
        snapshot: TableSnapshot,
        files: Sequence[NewFile],
        write: WriteChanges | None,
    ) -> dict[str, MetadataRecord]:
        assert metadata.indexed is not None, "column_stats is there"
        may_be_exact = not _has_earlier_write(snapshot.timeline, self._instant)
        if write is None and not may_be_exact:
            return {}
        replaced = write.replaced if write is not None else ()
        counting = counting_files(snapshot.file_groups, files, instant=self._instant, replaced=replaced)
        own: dict[str, list[str]] = {}
        for file in files:
            if not file.is_change_log:
                own.setdefault(file.partition_path, []).append(file.name)
        # Which files of a group count is unknown where its slices cannot be known.
        frozen = {group.partition_path for group in snapshot.frozen}
        if write is None:
            counting = {path: names for path, names in counting.items() if path not in frozen}
        self._learn(metadata, counting, files, everything=False)
        records: list[PartitionStatsRecord] = []
        for path, names in counting.items():
            is_known = may_be_exact and path not in frozen
            if path not in self._joined or self._joined[path][:2] != (names, is_known):
                stats = self._stats_of(path, names, files)
                columns, version = metadata.indexed.columns, metadata.indexed.version
                if write is None:
                    joined = partition_stats(path, names, stats, columns=columns, version=version)
                else:
                    joined = written_partition_stats(
                        path, names, own[path], stats, columns=columns, version=version, is_known=is_known
                    )
                self._joined[path] = names, is_known, joined
            records += self._joined[path][2]
        if write is not None:
            records = self._over_older_ranges(metadata, records, may_be_exact=may_be_exact)
        return partition_stats_records(records)

    def _stats_of(self, path: str, names: Sequence[str], files: Sequence[NewFile]) -> Iterator[ColumnStatsRecord]:
        own = {(file.partition_path, file.name): file.column_stats for file in files}
        return chain.from_iterable(
            own[path, name] if (path, name) in own else self._known.get((path, name), ()) for name in names
        )

    def _over_older_ranges(
        self, metadata: MetadataSnapshot, records: Sequence[PartitionStatsRecord], *, may_be_exact: bool
    ) -> list[PartitionStatsRecord]:
        """Records that are exact as they are, and of the others what must be said beside the older ones."""
        assert metadata.indexed is not None, "column_stats is there"
        loose = partition_stats_records(record for record in records if not record.is_tight)
        older = MetadataReader(self._storage, metadata.table).lookup(PARTITION_STATS, loose) if loose else {}
        found = []
        for record in records:
            existing = older.get(partition_stats_key(record.column or "", record.file_name or ""))
            if record.is_tight or not isinstance(existing, PartitionStatsRecord):
                found.append(record)
            elif may_be_exact:
                # Hudi joins ranges by an order of its own, in which some text and bytes fall out; so do it here.
                kind, version = metadata.indexed.columns[record.column or ""], metadata.indexed.version
                joined = over_both(existing, record, kind, version)
                found.append(replace(joined, is_tight=True) if joined is not None else record)
            elif can_be_joined(existing, record):
                found.append(record)
            else:
                raise Conflict(
                    f"The range of the column {record.column} in the partition {record.file_name!r} cannot be known.",
                    why="Its type changes by this write, and another write that began before is under way.",
                    remedy="Run the command again when that one is complete or rolled back; nothing was published.",
                )
        return found

    def _ranges_of(
        self, metadata: MetadataSnapshot, instants: Collection[str], keys: Collection[str]
    ) -> dict[str, PartitionStatsRecord]:
        """The statistics of the logs of these instants alone."""
        if not instants or not keys:
            return {}
        slices = tuple(
            replace(
                slice_,
                base_file=None,
                log_files=tuple(log for log in slice_.log_files if log.name.instant in instants),
            )
            for slice_ in metadata.table.slices[PARTITION_STATS]
        )
        reader = MetadataReader(self._storage, replace(metadata.table, slices={PARTITION_STATS: slices}))
        found = reader.lookup(PARTITION_STATS, keys).items()
        return {key: record for key, record in found if isinstance(record, PartitionStatsRecord)}

    def _check_not_overtaken(self, metadata: MetadataSnapshot, ranges: Mapping[str, MetadataRecord]) -> None:
        """Logs are read in the order of their instants, so a range that a later write set holds, not this one.

        t10 we begin; t20 a writer begins, and commits with the range of all files that it sees; t30 we commit: what
        we brought is in no range, and queries skip the partition until the next commit there.
        """
        mine = comparable_time(self._instant)
        slices = metadata.table.slices[PARTITION_STATS]
        later = {log.name.instant for slice_ in slices for log in slice_.log_files}
        later = {instant for instant in later if comparable_time(instant) > mine}
        exact = {
            key
            for instant in later
            for key, record in self._ranges_of(metadata, {instant}, ranges).items()
            if record.is_tight
        }
        for key, record in self._ranges_of(metadata, later, exact).items():
            own = ranges[key]
            assert isinstance(own, PartitionStatsRecord), "they are what is written to this partition"
            if not holds(record, own):
                raise Conflict(
                    f"A later write to the partition {own.file_name!r} of the table was faster than this one.",
                    why=f"It stated the range of the column {own.column} without the rows of this one, and readers "
                    "believe the later instant: queries would skip the partition.",
                    remedy="Run the command again, or with more retries; nothing was published.",
                )

    def _learn(
        self,
        metadata: MetadataSnapshot,
        counting: Mapping[str, Sequence[str]],
        new: Sequence[NewFile],
        *,
        everything: bool,
    ) -> None:
        """Find what is not known yet of the files that count: with `everything` by one pass over their partitions."""
        assert metadata.indexed is not None, "column_stats is there"
        wanted = {(path, name) for path, names in counting.items() for name in names}
        wanted -= self._known.keys() | {(file.partition_path, file.name) for file in new}
        if not wanted:
            return
        reader, columns = MetadataReader(self._storage, metadata.table), metadata.indexed.columns
        paths = {column_prefix(column, path): path for path, _ in wanted for column in columns}
        if everything:
            found = reader.with_prefixes(COLUMN_STATS, sorted(paths))
        else:
            keys = (column_stats_key(column, *file) for file in wanted for column in columns)
            found = iter(reader.lookup(COLUMN_STATS, keys).items())
        for key, record in found:
            if isinstance(record, ColumnStatsRecord):
                file = (paths[key[:_PREFIX_LENGTH]], record.file_name or "")
                if file in wanted:
                    self._known.setdefault(file, []).append(record)
        # The process that committed a file wrote its records before: what is not there now will not come.
        for file in wanted:
            self._known.setdefault(file, [])


def _shape(
    metadata: MetadataSnapshot,
    snapshot: TableSnapshot,
    files: Sequence[NewFile],
    deleted: Sequence[DeletedFile],
    write: WriteChanges | None,
) -> tuple[object, ...]:
    """What the logs in the folder depend on."""
    slices: tuple[FileSlice, ...] = ()
    if write is not None and RECORD_INDEX in metadata.table.slices:
        slices = tuple(replaced_slices(snapshot, write.replaced))
    if metadata.secondary_indexes:
        written = {(file.partition_path, file.file_id) for file in files}
        groups = (g for g in snapshot.file_groups if (g.partition_path, g.file_id) in written)
        slices += tuple(slice_ for group in groups if (slice_ := newest_slice(group.slices)) is not None)
    return (metadata.shape, tuple(files), tuple(deleted), write, slices)


def _new(files: Iterable[NewFile]) -> list[NewFile]:
    """The files that are in newest slices."""
    return [file for file in files if not file.is_brought_back]


def _has_earlier_write(timeline: Timeline, instant: str) -> bool:
    """Whether a write that began before `instant` may commit after it.

    t10 a writer begins; t20 we plan; t30 we commit; t40 it commits, with the range of all that is in the partition.
    Log files are read in the order of their instants, so a range of Lakeward would take the place of its, without what
    it brought, and queries would skip the partition. The range from before still holds: we put no value there.
    """
    return any(
        each.action in _BRING_VALUES and comparable_time(each.time) < comparable_time(instant)
        for each in timeline.pending
    )


_Entries = dict[str, Callable[[], bytes]]


def _encoded(metadata: MetadataSnapshot, records: Mapping[str, MetadataRecord]) -> _Entries:
    encode = metadata_codec(metadata.schema_json).encode
    return {key: partial(encode, record) for key, record in records.items()}


def _commit(schema_json: str, stats: Iterable[WriteStat]) -> CommitMetadata:
    by_partition: dict[str, list[WriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path or "", []).append(stat)
    return CommitMetadata(
        partition_to_write_stats={partition: tuple(each) for partition, each in by_partition.items()},
        compacted=False,
        extra_metadata={"schema": without_meta_columns(schema_json)},
        operation_type="UPSERT_PREPPED",
    )
