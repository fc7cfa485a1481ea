"""How we write Parquet, be it a base file or a block of a log: what is asked of the library's writer.

Touches: the sink it is given.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.format.avro.column_names import META_COLUMNS

PAGE_BYTES = 1024 * 1024
"""What the library makes a page of."""
# The library looks at the size of a page only after so many values: with its 1,024, a page of wide rows was as large as
# the row group, and a page cannot be decoded in part. 64 cost some 3 % of the encoding.
VALUES_AT_ONCE_MAX = 64
_NAME_COLUMN = "_hoodie_file_name"
# Meta columns that repeat: one value per commit, per partition, per file.
_REPEATED_META_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")
_SAMPLE_ROWS = 16_384
_REPEATS_MIN = 8
_COMPRESSION_LEVELS = {"zstd": 1}


def open_writer(
    sink: BinaryIO | pa.NativeFile, schema: pa.Schema, *, codec: str, repeated: Sequence[str], values_at_once: int
) -> pq.ParquetWriter:
    """
    Args:
        repeated: the columns that get a dictionary.
        values_at_once: after so many the library looks at the size of a page.
    """
    return pq.ParquetWriter(
        sink,
        schema,
        compression=codec,
        compression_level=_COMPRESSION_LEVELS.get(codec),
        use_dictionary=list(repeated),
        use_compliant_nested_type=True,
        store_schema=False,
        version="2.6",
        data_page_version="1.0",
        write_batch_size=values_at_once,
    )


def values_of_a_page(rows: int, size_bytes: int) -> int:
    """How many values of rows that take so many bytes fill a page, all columns together; at least 1."""
    return max(1, PAGE_BYTES * rows // max(1, size_bytes))


def repeated_columns(table: pa.Table) -> list[str]:
    """The columns worth a dictionary, judged by the first rows: encoding the others twice costs a fifth of the time."""
    sample = table.slice(0, _SAMPLE_ROWS)
    repeated = list(_REPEATED_META_COLUMNS)
    for column in sample.schema:
        if column.name in META_COLUMNS or pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
            continue
        values = sample.column(column.name)
        if pa.types.is_dictionary(column.type):
            values = pc.unique(values).dictionary_decode()
        distinct = pc.count_distinct(values, mode="all").as_py()
        if distinct * _REPEATS_MIN <= sample.num_rows:
            repeated.append(column.name)
    return repeated


class FileNames:
    """Files with nothing but the column of a file's name, in so many rows; most row groups have as many."""

    def __init__(self, file_name: str, *, codec: str, nullable: bool) -> None:
        self._name = pa.array([file_name], type=pa.string())
        self._codec = codec
        self._schema = pa.schema([pa.field(_NAME_COLUMN, pa.dictionary(pa.int32(), pa.string()), nullable=nullable)])
        self._last = (0, io.BytesIO())

    def of(self, rows: int) -> BinaryIO:
        if self._last[0] != rows:
            names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), self._name)
            sink = io.BytesIO()
            writer = open_writer(
                sink, self._schema, codec=self._codec, repeated=[_NAME_COLUMN], values_at_once=VALUES_AT_ONCE_MAX
            )
            writer.write_table(pa.Table.from_arrays([names], schema=self._schema), row_group_size=rows)
            writer.close()
            self._last = (rows, sink)
        return self._last[1]
