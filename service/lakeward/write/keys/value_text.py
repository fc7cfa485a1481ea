"""A column's values as texts, as Hudi puts them into record keys and partition paths.

    text                    itself
    whole numbers           digits
    boolean                 true, false
    decimal                 with all digits of its scale: 12.50; below 0.000001 with an exponent: 1E-7, 0E-10
    date                    2024-03-04
    timestamp               the number that the column stores: microseconds since 1970, in milliseconds those

Null stays null. Hudi's own bulk_insert gives timestamps otherwise than its other operations do; theirs is what is here.

Touches: nothing.
Keeps:   a type, or a value of it, of which it is not known how Hudi has it as text is refused.
Source:  HoodieAvroUtils.getNestedFieldValAsString of Hudi 1.x, on tables of 1.2.0
"""

from __future__ import annotations

import decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeward.errors import Unsupported

_FIRST_DAY: Final = -719_162
"""0001-01-01; before, and after 9999, Java writes years otherwise."""
_LAST_DAY: Final = 2_932_896
_PLAIN_SCALE_MAX: Final = 6
"""A decimal of more digits after the point may have an exponent."""


def value_text(column: pa.Array, name: str) -> pa.StringArray:
    """Raises `Unsupported` naming the column.

    Args:
        name: of the column, for errors.
    """
    of = column.type
    if types.is_dictionary(of):
        return value_text(column.dictionary_decode(), name)
    if types.is_string(of):
        return column
    if types.is_large_string(of) or types.is_integer(of) or types.is_boolean(of):
        return column.cast(pa.string())
    if types.is_decimal128(of):
        return column.cast(pa.string()) if of.scale <= _PLAIN_SCALE_MAX else _by_distinct_values(column)
    if types.is_date32(of):
        _check_days(column, name)
        return column.cast(pa.string())
    if types.is_timestamp(of) and of.unit in ("us", "ms"):
        return column.cast(pa.int64()).cast(pa.string())
    raise Unsupported(
        f"The column {name} cannot be part of keys or partition paths.",
        why=f"Its type is {of}, and it is not known how Hudi has its values as text.",
        remedy="Write this table with Hudi itself, or make keys and partitions of other columns.",
    )


def _by_distinct_values(column: pa.Array) -> pa.StringArray:
    encoded = column.dictionary_encode()
    texts = [decimal_text(value.as_py()) for value in encoded.dictionary]
    return pa.array(texts, pa.string()).take(encoded.indices)


def decimal_text(value: decimal.Decimal) -> str:
    """Java's BigDecimal.toString has the rules of Python's text of it."""
    return str(value)


def _check_days(column: pa.Array, name: str) -> None:
    days = pc.min_max(column.cast(pa.int32()))
    first, last = days["min"].as_py(), days["max"].as_py()
    if first is not None and (first < _FIRST_DAY or last > _LAST_DAY):
        raise Unsupported(
            f"The column {name} holds a date that is not between the years 1 and 9999.",
            why=f"It lies {first if first < _FIRST_DAY else last} days from 1970-01-01.",
            remedy="Mend the row; such dates are mostly mistakes of a conversion.",
        )
