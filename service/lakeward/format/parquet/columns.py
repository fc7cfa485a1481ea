"""The columns of a Parquet file of another program, as an Arrow schema and as Spark takes them.

Whatever the file says of nulls, each value may be one, inside of others too.
Spark and others write moments as INT96 unless configured otherwise, of which the library makes nanoseconds without a
zone; they are microseconds in UTC, which is what these programs meant and read.

Touches: the file.
Keeps:   a column of INT96, inside of others too, is a timestamp in UTC, and no other column is another one for it;
         all may be null but the keys of maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_MOMENT = pa.timestamp("us", "UTC")


def read_columns(file: Path) -> pa.Schema:
    """Raises what the library raises: `OSError`, `pa.ArrowException`."""
    with pq.ParquetFile(file) as parquet:
        leaves = (parquet.schema.column(index).physical_type for index in range(len(parquet.schema)))
        return pa.schema([_field(field, leaves) for field in parquet.schema_arrow])


def _field(field: pa.Field, leaves: Iterator[str]) -> pa.Field:
    return pa.field(field.name, _type(field.type, leaves))


def _type(of: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """The type whose leaves have these physical types, one after the other."""
    if pa.types.is_struct(of):
        return pa.struct([_field(field, leaves) for field in of])
    if pa.types.is_map(of):
        return pa.map_(_type(of.key_type, leaves), _field(of.item_field, leaves))
    if pa.types.is_list(of):
        return pa.list_(_field(of.value_field, leaves))
    return _MOMENT if next(leaves) == "INT96" else of
