"""An Arrow schema as the Avro JSON that Hudi's Spark writer gives a table, named as it names types.

    a table "t"      record t_record, namespace hoodie.t
    a struct "s"     record s, namespace hoodie.t.t_record; what is inside of it has the namespace hoodie.t.t_record.s
    a decimal "d"    fixed of the name fixed, namespace hoodie.t.t_record.d, of as few bytes as its digits need

Items of a list and values of a map are named by their column. What may be null is a union with null first, which is
the default of a field.

Touches: nothing.
Keeps:   1. `parse_schema` of the text has the columns of the schema: their names, their order, and types that hold the
            same values;
         2. of the types that Spark has, the text is the one that Hudi's writer would make;
         3. a type of which it is not known how Hudi stores it is refused, with the path to the column.
Source:  org.apache.spark.sql.avro.SchemaConverters of Hudi 1.x
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyarrow import types

from lakeward.base.errors import Unsupported

_PLAIN = (
    (types.is_boolean, "boolean"),
    (lambda each: types.is_int8(each) or types.is_int16(each) or types.is_int32(each), "int"),
    (types.is_int64, "long"),
    (types.is_float32, "float"),
    (types.is_float64, "double"),
    (lambda each: types.is_string(each) or types.is_large_string(each), "string"),
    (lambda each: types.is_binary(each) or types.is_large_binary(each) or types.is_fixed_size_binary(each), "bytes"),
)
_LIST = (types.is_list, types.is_large_list, types.is_fixed_size_list)


def schema_text(schema: pa.Schema, table_name: str) -> str:
    """Raises `Unsupported`.

    Args:
        schema: of the rows, without Hudi's own columns. A column that may not be null stays so.
    """
    record = f"{table_name}_record"
    return json.dumps(_record(schema, record, namespace=f"hoodie.{table_name}", path=""), separators=(",", ":"))


def _record(fields: pa.Schema | pa.StructType, name: str, *, namespace: str, path: str) -> dict[str, Any]:
    inner = f"{namespace}.{name}"
    columns = [_field(field, namespace=inner, path=f"{path}{field.name}") for field in fields]
    return {"type": "record", "name": name, "namespace": namespace, "fields": columns}


def _field(field: pa.Field, *, namespace: str, path: str) -> dict[str, Any]:
    of = _type(field.type, field.name, namespace=namespace, path=path)
    if not field.nullable:
        return {"name": field.name, "type": of}
    return {"name": field.name, "type": ["null", of], "default": None}


def _type(of: pa.DataType, name: str, *, namespace: str, path: str) -> str | dict[str, Any]:
    if types.is_dictionary(of):
        return _type(of.value_type, name, namespace=namespace, path=path)
    for is_it, plain in _PLAIN:
        if is_it(of):
            return plain
    if types.is_date32(of):
        return {"type": "int", "logicalType": "date"}
    if types.is_timestamp(of) and of.unit != "ns":
        return {"type": "long", "logicalType": "timestamp-micros" if of.tz else "local-timestamp-micros"}
    if types.is_decimal128(of) and 0 <= of.scale <= of.precision:
        kind = {"type": "fixed", "name": "fixed", "namespace": f"{namespace}.{name}", "size": _bytes_of(of.precision)}
        return {**kind, "logicalType": "decimal", "precision": of.precision, "scale": of.scale}
    if any(is_it(of) for is_it in _LIST):
        return {"type": "array", "items": _element(of.value_field, name, namespace=namespace, path=path)}
    if types.is_map(of) and (types.is_string(of.key_type) or types.is_large_string(of.key_type)):
        return {"type": "map", "values": _element(of.item_field, name, namespace=namespace, path=path)}
    if types.is_struct(of) and of.num_fields:
        return _record(of, name, namespace=namespace, path=f"{path}.")
    raise Unsupported(
        f"The column {path} has a type that tables of Hudi do not hold.",
        why=f"Its type is {of}.",
        remedy="Give it another one: microseconds for nanoseconds, numbers with a sign, texts as keys of maps.",
    )


def _element(field: pa.Field, name: str, *, namespace: str, path: str) -> Any:
    of = _type(field.type, name, namespace=namespace, path=f"{path}.element")
    return ["null", of] if field.nullable else of


def _bytes_of(precision: int) -> int:
    """The fewest bytes whose two's complement holds every number of so many decimal digits."""
    greatest: int = 10**precision - 1
    return (greatest.bit_length() + 8) // 8
