"""The types of a table's columns in Spark, as Hudi's own reader has them, and Arrow batches that Spark takes for them.

    Avro                       Spark
    a required field           not nullable, in structs, lists and maps, too
    timestamp-millis, -micros  timestamp: a moment, which the session's time zone shows
    local-timestamp-…          timestamp_ntz
    enum, fixed                string, binary

Spark does not look whether a value is null where its type says that none is, and would take what lies there for a
value. So a null in a required field ends the read with an error.

Touches: nothing.
Keeps:   1. the schema is the one that Hudi's reader gives, without its mark on the meta columns;
         2. no null goes out where the schema has none.
Source:  HoodieSparkSchemaConverters (Hudi 1.2.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.schema import AvroField, AvroKind, AvroType, parse_schema

Columns = Mapping[str, tuple[AvroType, bool]]
"""The type of each column, and whether it is required. One that is not named is text, which may be null."""


def column_types(schema: str) -> Columns:
    """The columns of a table.

    Args:
        schema: Avro JSON.
    """
    return {each.name: (each.type, each.is_required) for each in parse_schema(schema, where="the table schema")}


def image_types(changes: pa.Schema, schema: str) -> Columns:
    """The columns of changes: the rows before and after have the columns of the table, each of which may be null.

    Args:
        changes: the columns that come, structs and text.
        schema: Avro JSON of the table.
    """
    table = column_types(schema)
    structs = [each for each in changes if pa.types.is_struct(each.type)]
    return {each.name: (_image_type(each.type, table), False) for each in structs}


def _image_type(image: pa.StructType, table: Columns) -> AvroType:
    fields = tuple(AvroField(each.name, replace(table[each.name][0], null_branch=0)) for each in image)
    return AvroType(AvroKind.RECORD, image, children=fields)


def spark_types(rows: pa.Schema, known: Columns) -> StructType:
    """What columns are in Spark.

    Args:
        rows: the columns.
    """
    return StructType([_column(name, known) for name in rows.names])


def _column(name: str, known: Columns) -> StructField:
    if name not in known:
        return StructField(name, StringType())
    kind, is_required = known[name]
    return StructField(name, _spark_type(kind), nullable=not is_required)


def _spark_type(kind: AvroType) -> DataType:
    match kind.kind:
        case AvroKind.RECORD:
            return StructType(
                [StructField(field.name, _spark_type(field.type), not field.is_required) for field in kind.children]
            )
        case AvroKind.ARRAY:
            (element,) = kind.children
            return ArrayType(_spark_type(element.type), containsNull=not element.is_required)
        case AvroKind.MAP:
            _, value = kind.children
            return MapType(StringType(), _spark_type(value.type), valueContainsNull=not value.is_required)
    return from_arrow_type(kind.arrow, prefer_timestamp_ntz=True)


class SparkBatches:
    """Batches of columns as Spark takes them."""

    def __init__(self, rows: pa.Schema, known: Columns) -> None:
        """
        Args:
            rows: the columns that come.
        """
        self._known = known
        self._schema = pa.schema([pa.field(each.name, _in_micros(each.type)) for each in rows])

    def of(self, batch: pa.RecordBatch, *, where: str) -> pa.RecordBatch:
        """Raises `BrokenFile` for a null in a field that is required."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._known:
                kind, is_required = self._known[name]
                _check_nulls(column, kind, is_required=is_required, path=name, where=where)
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _in_micros(kind: pa.DataType) -> pa.DataType:
    """The type with times in microseconds, in which alone Spark takes them."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_in_micros(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_micros(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_in_micros(kind.item_type)))
    return kind


def _check_nulls(array: Any, kind: AvroType, *, is_required: bool, path: str, where: str) -> None:
    if is_required and array.null_count:
        raise BrokenFile(
            f"{where} has rows without a value in {path!r}.",
            why="The table's schema says that each row has one, and Spark would make one up.",
            remedy="Read other columns; or read the table with `lakeward.Table`, which gives nulls.",
        )
    match kind.kind:
        case AvroKind.RECORD:
            there = array.filter(array.is_valid()) if array.null_count else array
            for place, child in enumerate(kind.children):
                of_child = f"{path}.{child.name}"
                values = pc.struct_field(there, place)
                _check_nulls(values, child.type, is_required=child.is_required, path=of_child, where=where)
        case AvroKind.ARRAY:
            (element,) = kind.children
            _check_nulls(array.flatten(), element.type, is_required=element.is_required, path=path, where=where)
        case AvroKind.MAP:
            _, value = kind.children
            # `items` has the values of rows that are null, and of other slices of the array, too.
            entries = pa.struct([array.type.key_field, array.type.item_field])
            values = array.cast(pa.list_(entries)).flatten().field(1)
            _check_nulls(values, value.type, is_required=value.is_required, path=path, where=where)
