"""The column statistics of a Parquet file of rows that a task writes: what it sees of them beside what the footer says.

Touches: the file, by reading its footer.
"""

from __future__ import annotations

import pyarrow as pa

from lakeward.format.metadata.base_file_stats import columns_to_watch, read_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import IndexedColumns


class FileStatistics:
    """One file has one of these."""

    def __init__(self, indexed: IndexedColumns | None, schema: pa.Schema) -> None:
        """
        Args:
            indexed: None where the metadata table wants none.
            schema: of the rows.
        """
        self._indexed = indexed
        watched = columns_to_watch(indexed.columns, schema) if indexed is not None else ()
        tops = {column.partition(".")[0] for column in watched}
        self._watched = pa.schema([column for column in schema if column.name in tops])
        self._ranges = ColumnRangeAccumulator(watched, self._watched)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that are written, all of them."""
        self._ranges.add(rows.select(self._watched.names))

    def records(self, storage: Storage, path: str) -> tuple[ColumnStatsRecord, ...]:
        """What the metadata table is to hold of the file, which is whole."""
        if self._indexed is None:
            return ()
        columns, version, name = self._indexed.columns, self._indexed.version, path.rpartition("/")[2]
        with storage.open_input(path) as source:
            found = read_column_stats(source, columns, file_name=name, version=version, seen=self._ranges.ranges)
        return tuple(found)
