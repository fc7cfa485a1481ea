"""The entries of partitions of the metadata table that say something of single files: filters, and ranges of columns.

    bloom_filters    the filter of each base file, as its footer has it
    column_stats     a record for each base file and indexed column, by its footer; of logs that a query reads by their
                     rows, also of those that later ones replaced or deleted

Hudi's writers make the range of a partition of the records that there are, and call it exact. So each file that counts
for one has records. Base files of all slices have entries, since a restore may make an older one the newest; of an
older slice's logs nothing is said, and a query that goes back to one reads it. A file that a clean takes while it is
read is passed over: no slice that a query reads has it any more.

Touches: the table, reading footers, where these say nothing columns, and logs.
Keeps:   1. each value that a file of a newest slice holds is in its range;
         2. a log whose columns are of other types than the table's is refused.
Source:  HoodieTableMetadataUtil.convertFilesToBloomFilterRecords, convertFilesToColumnStatsRecords (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from lakeward.base.errors import Conflict, NotFound, Refused
from lakeward.base.paths import join
from lakeward.format.avro.schema import table_schema
from lakeward.format.log.block import BlockType, CorruptBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.format.metadata.base_file_stats import read_bloom_filter, read_column_stats
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.key import bloom_filter_key, column_stats_key
from lakeward.format.metadata.log_stats import log_column_stats
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS
from lakeward.format.metadata.record import BloomFilterRecord, ColumnStatsRecord, MetadataRecord
from lakeward.format.stats.column_range import ColumnRange, ColumnRangeAccumulator, joined
from lakeward.format.stats.indexed_columns import indexed_columns
from lakeward.read.logs.log_scan import find_block_damage, read_heads
from lakeward.services.together.metadata_index.unit_entries import UnitEntries
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import damaged_error
from lakeward.table.file_group import BaseFile, LogFile
from lakeward.table.index_definitions import IndexedColumns, load_index_definitions
from lakeward.table.snapshot import TableSnapshot

File = tuple[str, str]
"""Partition path and name."""
DataFile = BaseFile | LogFile

_WITHOUT_ROWS: Final = (BlockType.COMMAND, BlockType.CDC_DATA, BlockType.DELETE)


class BloomFilterEntries(UnitEntries[File, BaseFile]):
    partition = BLOOM_FILTERS
    _base_path = ""

    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        return None

    def units(self, snapshot: TableSnapshot) -> Mapping[File, BaseFile]:
        self._base_path = snapshot.base_path
        return base_files(snapshot)

    def keys_of(self, unit: File) -> list[str]:
        return [bloom_filter_key(*unit)]

    def records_of(self, unit: File, state: BaseFile) -> Iterator[tuple[str, MetadataRecord]]:
        path = join(self._base_path, *unit)
        try:
            with self.storage.open_input(path) as source:
                found = read_bloom_filter(source, file_name=path)
        except NotFound:
            return
        if found is not None:
            yield (
                bloom_filter_key(*unit),
                BloomFilterRecord(type_code=found[0], timestamp=state.instant, bloom_filter=found[1]),
            )


class ColumnStatsEntries(UnitEntries[File, DataFile]):
    partition = COLUMN_STATS
    _base_path = ""

    def __init__(self, storage: Storage, *, guard: Callable[[], None], on_unit: Callable[[int, int], None]) -> None:
        super().__init__(storage, guard=guard, on_unit=on_unit)
        self._indexed: IndexedColumns | None = None
        self._table = pa.schema([])

    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        definitions = load_index_definitions(self.storage, snapshot.base_path, snapshot.config)
        if (defined := definitions.by_name.get(COLUMN_STATS)) is not None:
            return defined
        indexed = self._known
        version = int(indexed.version) if snapshot.config.version.has_typed_stats else None
        return IndexDefinition(COLUMN_STATS, COLUMN_STATS, COLUMN_STATS, tuple(indexed.columns), {}, version)

    def prepare(self, snapshot: TableSnapshot) -> None:
        config = snapshot.config
        if snapshot.schema is None:
            raise Refused(
                f"Column statistics of {snapshot.base_path} cannot be built.",
                why="No commit says which columns the table has.",
                remedy="Write to the table first; a table without rows needs none.",
            )
        definitions = load_index_definitions(self.storage, snapshot.base_path, config)
        version = definitions.stats_version(has_typed_stats=config.version.has_typed_stats)
        named = definitions.column_stats_columns
        columns = indexed_columns(snapshot.schema, named, version=version, has_meta_columns=config.populate_meta_fields)
        indexed = IndexedColumns(columns, version)
        if self._indexed not in (None, indexed):
            raise Conflict(
                "Column statistics are not published.",
                why="The table got other columns while they were built.",
                remedy="Run the command again.",
            )
        self._indexed, self._table = indexed, table_schema(snapshot.schema)

    def units(self, snapshot: TableSnapshot) -> Mapping[File, DataFile]:
        self._base_path = snapshot.base_path
        logs = {
            (log.partition_path, log.name.text): log
            for group in snapshot.file_groups
            for slice_ in group.read_slices
            for log in slice_.row_logs
        }
        return {**base_files(snapshot), **logs}

    def bytes_of(self, state: DataFile) -> int:
        return state.size if isinstance(state, LogFile) else super().bytes_of(state)

    def keys_of(self, unit: File) -> list[str]:
        return [column_stats_key(column, *unit) for column in self._known.columns]

    def records_of(self, unit: File, state: DataFile) -> Iterator[tuple[str, MetadataRecord]]:
        try:
            found = self._of_log(state) if isinstance(state, LogFile) else self._of_base_file(unit)
        except NotFound:
            return
        for record in found:
            yield column_stats_key(record.column or "", *unit), record

    def _of_base_file(self, unit: File) -> list[ColumnStatsRecord]:
        indexed, path = self._known, join(self._base_path, *unit)
        with self.storage.open_input(path) as source:
            return read_column_stats(source, indexed.columns, file_name=unit[1], version=indexed.version)

    def _of_log(self, log: LogFile) -> list[ColumnStatsRecord]:
        """Raises `Refused`, `BrokenFile` and `Unsupported`."""
        indexed, found = self._known, dict[str, ColumnRange]()
        wanted = {column.partition(".")[0] for column in indexed.columns}
        for block, file in read_heads(self.storage, self._base_path, log.path):
            if isinstance(block, CorruptBlock):
                raise damaged_error(list(find_block_damage(self.storage, self._base_path, log.path)))
            if block.type in _WITHOUT_ROWS:
                continue
            for batch in read_data_block(file, block, columns=wanted):
                self._check_types(batch.schema, log)
                ranges = ColumnRangeAccumulator(indexed.columns, batch.schema)
                ranges.add(batch)
                for column, of_batch in ranges.ranges.items():
                    found[column] = joined(found.get(column, ColumnRange()), of_batch)
        return log_column_stats(log.name.text, found, columns=indexed.columns, version=indexed.version)

    def _check_types(self, schema: pa.Schema, log: LogFile) -> None:
        for field in schema:
            at = self._table.get_field_index(field.name)
            if at >= 0 and _plain(field.type) != _plain(self._table.field(at).type):
                raise Refused(
                    f"Column statistics of {self._base_path} cannot be built now.",
                    why=f"The column {field.name} is of another type in the log {log.path} than in the table.",
                    remedy="Run `lakeward compact TABLE --type full` and then this command.",
                )

    @property
    def _known(self) -> IndexedColumns:
        assert self._indexed is not None, "it is prepared first"
        return self._indexed


def base_files(snapshot: TableSnapshot) -> dict[File, BaseFile]:
    """All base files of live file groups, in the order of their names. Raises `Refused` where some are not known."""
    check_groups_are_known(snapshot)
    bases = [
        slice_.base_file for group in snapshot.file_groups for slice_ in group.slices if slice_.base_file is not None
    ]
    return {(base.partition_path, base.name): base for base in sorted(bases, key=lambda each: each.path)}


def check_groups_are_known(snapshot: TableSnapshot) -> None:
    """Raises `Refused`."""
    for frozen in snapshot.frozen:
        raise Refused(
            f"The index of {snapshot.base_path} cannot be built.",
            why=f"Which files the file group {frozen.file_id} in partition {frozen.partition_path!r} has cannot be "
            f"known: {frozen.why}",
            remedy="See to that file group first (`lakeward inspect`).",
        )


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
