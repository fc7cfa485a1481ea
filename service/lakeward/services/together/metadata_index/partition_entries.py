"""The entries of `partition_stats`: the range of each indexed column in each partition, over the files that count.

They follow from `column_stats`, so that is built first. A partition has no range of a column of which one of its files
has no statistics, and queries look into the partition. A base file without rows, as Hudi leaves one where all that it
was to insert is deleted, has none, and holds no value.

Touches: the metadata table, reading; the footers of base files without statistics.
Source:  HoodieTableMetadataUtil.convertFilesToPartitionStatsRecords (Hudi 1.2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused
from lakeward.base.paths import join
from lakeward.format.file_name import parse_any_log
from lakeward.format.metadata.index_definitions import IndexDefinition
from lakeward.format.metadata.key import column_stats_key, partition_stats_key
from lakeward.format.metadata.partition import COLUMN_STATS, PARTITION_STATS
from lakeward.format.metadata.partition_stats import partition_stats
from lakeward.format.metadata.record import ColumnStatsRecord, MetadataRecord
from lakeward.format.parquet.base_file import count_rows
from lakeward.protocol.metadata.changes import counting_names
from lakeward.services.together.metadata_index.file_entries import check_groups_are_known
from lakeward.services.together.metadata_index.unit_entries import UnitEntries
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import IndexedColumns, load_indexed_columns
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.snapshot import TableSnapshot


class PartitionStatsEntries(UnitEntries[str, tuple[str, ...]]):
    partition = PARTITION_STATS

    def __init__(
        self, storage: Storage, clock: Clock, *, guard: Callable[[], None], on_unit: Callable[[int, int], None]
    ) -> None:
        super().__init__(storage, guard=guard, on_unit=on_unit)
        self._clock = clock
        self._base_path = ""
        self._indexed: IndexedColumns | None = None
        self._reader: MetadataReader | None = None

    def definition(self, snapshot: TableSnapshot) -> IndexDefinition | None:
        return None

    def prepare(self, snapshot: TableSnapshot) -> None:
        config = snapshot.config
        what = f"Statistics of the partitions of {snapshot.base_path} cannot be built."
        if not config.partition_fields:
            raise Refused(what, why="The table has no partitions.", remedy="Nothing is to be done.")
        if COLUMN_STATS not in config.built_metadata_partitions:
            raise Refused(
                what,
                why="They are made of column_stats, which the metadata table has not.",
                remedy="Run the command with --kind column_stats first.",
            )
        self._base_path = snapshot.base_path
        self._indexed = load_indexed_columns(self.storage, snapshot.base_path, config, snapshot.schema)
        table = load_metadata_table(
            self.storage,
            snapshot.base_path,
            config,
            snapshot.timeline,
            clock=self._clock,
            partitions=[COLUMN_STATS],
        )
        self._reader = MetadataReader(self.storage, table)

    def units(self, snapshot: TableSnapshot) -> Mapping[str, tuple[str, ...]]:
        check_groups_are_known(snapshot)
        found: dict[str, list[str]] = {}
        for group in snapshot.file_groups:
            found.setdefault(group.partition_path, []).extend(counting_names(group))
        return {path: tuple(sorted(names)) for path, names in sorted(found.items())}

    def keys_of(self, unit: str) -> list[str]:
        assert self._indexed is not None, "it is prepared first"
        return [partition_stats_key(column, unit) for column in self._indexed.columns]

    def records_of(self, unit: str, state: tuple[str, ...]) -> Iterator[tuple[str, MetadataRecord]]:
        assert self._indexed is not None and self._reader is not None, "it is prepared first"
        columns, version = self._indexed.columns, self._indexed.version
        keys = [column_stats_key(column, unit, name) for name in state for column in columns]
        found = self._reader.lookup(COLUMN_STATS, keys).values()
        known = [each for each in found if isinstance(each, ColumnStatsRecord)]
        described = {each.file_name for each in known}
        names = [name for name in state if name in described or not self._is_empty(unit, name)]
        for record in partition_stats(unit, names, known, columns=columns, version=version):
            yield partition_stats_key(record.column or "", unit), record

    def _is_empty(self, partition_path: str, name: str) -> bool:
        if parse_any_log(name, native=True) is not None:
            return False
        path = join(self._base_path, partition_path, name)
        with self.storage.open_input(path) as source:
            return count_rows(source, name=path) == 0
