"""What a table's ordering values are: the column that orders its records, and how Hudi compares its values.

Hudi compares ordering values as Java objects. Two facts follow for us: a missing ordering value is the constant
Integer 0 (the *default*), so in an int column 0 and null are the default; and values of different classes are never
compared, Java throws.

Touches: nothing.
"""

from __future__ import annotations

import pyarrow as pa

from lakeward.errors import Unsupported
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules


def ordering_type(rules: MergeRules, schema: pa.Schema) -> pa.DataType | None:
    """The type of the column that orders records, None where only the order of the log does.

    Raises `Unsupported` for a column that is missing or whose values we cannot compare as Hudi does.
    """
    if rules.mode is MergeMode.COMMIT_TIME_ORDERING or rules.ordering_field is None:
        return None
    position = schema.get_field_index(rules.ordering_field)
    if position < 0:
        raise Unsupported(
            f"The ordering field {rules.ordering_field} is not a column of the table.",
            why="Nested ordering fields and fields that were dropped are not supported.",
            remedy="Compact this table with Hudi itself.",
        )
    kind = schema.field(position).type
    if ordering_wrappers(kind) is None:
        raise Unsupported(
            f"The ordering field {rules.ordering_field} has the type {kind}.",
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


def default_is_comparable(kind: pa.DataType | None) -> bool:
    """Whether the default, Integer 0, compares with the column's values: it does where they are Integers too."""
    return kind is None or pa.types.is_int8(kind) or pa.types.is_int16(kind) or pa.types.is_int32(kind)
