"""Keyed rows as rows of the table: the five meta columns, then the table's own.

    _hoodie_commit_time      the write's instant
    _hoodie_commit_seqno     <instant>_<index of the target>_<n>, n from 0 on
    _hoodie_file_name        in a log the file id; a base file's writer sets it

Touches: nothing.
Source:  seen on tables of Hudi 1.2.0 and 1.0.2. Nothing reads the last number of a sequence number; it makes it unique.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.avro.schema import table_schema
from lakeward.format.projection import project
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD
from lakeward.read.large_rows import check_row_sizes
from lakeward.write.keyed_rows import PARTITION_PATH, RECORD_KEY
from lakeward.write.target import WriteContext, WriteTarget

COMMIT_TIME = "_hoodie_commit_time"
SEQUENCE_NUMBER = "_hoodie_commit_seqno"

_WHERE = "the rows that are written"
ONE_VALUE = (COMMIT_TIME, PARTITION_PATH)
"""The columns with one value in all rows of a target."""


class TableRows:
    """Numbers the rows that it makes, over all batches."""

    def __init__(
        self,
        context: WriteContext,
        target: WriteTarget,
        *,
        with_dictionaries: bool = False,
        with_file_name: bool = False,
    ) -> None:
        """
        Args:
            with_dictionaries: the columns `ONE_VALUE` come as such.
            with_file_name: as in a log.
        """
        self.schema = table_schema(context.schema)
        """The table's."""
        self._instant = context.instant
        self._row_bytes_max = context.budget.row
        self._target = target
        self._with_dictionaries = with_dictionaries
        self._with_file_name = with_file_name
        self._next = 0

    def of(self, keyed: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch in `handled_schema`. Raises `Unsupported` where a column is not of the table's type, and
        for a row that could not be written within the memory."""
        check_row_sizes(keyed, self._row_bytes_max, where=_WHERE)
        partitions = keyed.column(PARTITION_PATH)
        assert not pc.any(pc.not_equal(partitions, self._target.partition_path)).as_py(), "rows of another partition"
        columns = {
            COMMIT_TIME: self._one_value(self._instant, keyed.num_rows),
            SEQUENCE_NUMBER: self._numbers(keyed.num_rows),
            RECORD_KEY: keyed.column(RECORD_KEY),
            PARTITION_PATH: self._one_value(self._target.partition_path, keyed.num_rows),
        }
        if self._with_file_name:
            columns[FILE_NAME_FIELD] = pa.repeat(self._target.file_id, keyed.num_rows)
        own = pa.schema([column for column in self.schema if column.name not in META_COLUMNS])
        rows = project(keyed.select(own.names), own, where=_WHERE)
        names = [*columns, *own.names]
        return pa.RecordBatch.from_arrays([*columns.values(), *rows.columns], names=names)

    def _one_value(self, value: str, rows: int) -> pa.Array:
        if not self._with_dictionaries:
            return pa.repeat(value, rows)
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array([value]))

    def _numbers(self, rows: int) -> pa.Array:
        numbers = pa.array(np.arange(self._next, self._next + rows)).cast(pa.string())
        self._next += rows
        return pc.binary_join_element_wise(f"{self._instant}_{self._target.index}", numbers, "_")
