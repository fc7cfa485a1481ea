"""What a table's ordering values are: the columns that order its records, and how Hudi compares their values.

Hudi compares ordering values as Java objects. Two facts follow for us: a missing ordering value is the constant
Integer 0 (the *default*), so in an int column 0 and null are the default; and values of different classes are never
compared, Java throws.

Where several columns order a table, an ordering value is a struct of them, compared field by field (ArrayComparable).
A null in it is Integer 0, too, and meets with the same two facts; but the struct as a whole is never the default, which
only a delete block's delete can have.

Touches: nothing.
"""

from __future__ import annotations

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules


def ordering_type(rules: MergeRules, schema: pa.Schema) -> pa.DataType | None:
    """The type of the column that orders records, a struct of several, None where only the order of the log does.

    Raises `Unsupported` for a column that is missing or whose values we cannot compare as Hudi does.
    """
    if rules.mode is MergeMode.COMMIT_TIME_ORDERING or not rules.ordering_fields:
        return None
    fields = [pa.field(name, _column_type(name, schema)) for name in rules.ordering_fields]
    return pa.struct(fields) if len(fields) > 1 else fields[0].type


def ordering_columns(rules: MergeRules, schema: pa.Schema) -> pa.Schema:
    """The columns that order records, none where only the order of the log does. Raises as `ordering_type` does."""
    if ordering_type(rules, schema) is None:
        return pa.schema([])
    return pa.schema([schema.field(name) for name in rules.ordering_fields])


def is_ordered_by_text(rules: MergeRules, schema: pa.Schema) -> bool:
    """Whether a column that orders records is one of text. Raises `Unsupported` as `ordering_type` does."""
    kind = ordering_type(rules, schema)
    if kind is None:
        return False
    kinds = [field.type for field in kind] if pa.types.is_struct(kind) else [kind]
    return any(pa.types.is_string(each) or pa.types.is_large_string(each) for each in kinds)


def _column_type(name: str, schema: pa.Schema) -> pa.DataType:
    position = schema.get_field_index(name)
    if position < 0:
        raise Unsupported(
            f"The ordering field {name} is not a column of the table.",
            why="Nested ordering fields and fields that were dropped are not supported.",
            remedy="Compact this table with Hudi itself.",
        )
    kind = schema.field(position).type
    if ordering_wrappers(kind) is None:
        raise Unsupported(
            f"The ordering field {name} has the type {kind}.",
            why="Values of this type cannot be compared the way Hudi does.",
            remedy="Compact this table with Hudi itself.",
        )
    return kind


def ordering_wrappers(kind: pa.DataType) -> frozenset[str] | None:
    """The classes under which a delete block stores ordering values of a column; None: not a type for ordering."""
    if pa.types.is_int8(kind) or pa.types.is_int16(kind) or pa.types.is_int32(kind):
        return frozenset({"IntWrapper"})
    if pa.types.is_int64(kind):
        return frozenset({"LongWrapper"})
    if pa.types.is_float32(kind):
        return frozenset({"FloatWrapper"})
    if pa.types.is_float64(kind):
        return frozenset({"DoubleWrapper"})
    if pa.types.is_boolean(kind):
        return frozenset({"BooleanWrapper"})
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return frozenset({"StringWrapper"})
    if pa.types.is_decimal128(kind):
        return frozenset({"DecimalWrapper"})
    if pa.types.is_date32(kind):
        return frozenset({"DateWrapper"})
    if pa.types.is_timestamp(kind):
        # Spark's rows hold timestamps as a long, and so do the delete blocks that Spark writers leave.
        return frozenset({"LongWrapper", "TimestampMicrosWrapper"})
    return None


def integer_fields(rules: MergeRules, schema: pa.Schema) -> tuple[str, ...]:
    """The ordering fields in which a missing value is a value, 0."""
    if ordering_type(rules, schema) is None:
        return ()
    return tuple(name for name in rules.ordering_fields if default_is_comparable(schema.field(name).type))


def default_is_comparable(kind: pa.DataType | None) -> bool:
    """Whether the default, Integer 0, compares with the column's values: it does where they are Integers too."""
    return kind is None or pa.types.is_int8(kind) or pa.types.is_int16(kind) or pa.types.is_int32(kind)
