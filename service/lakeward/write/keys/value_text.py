"""A column's values as texts, as Hudi puts them into record keys and partition paths.

    text                    itself
    whole numbers           digits
    boolean                 true, false
    float, double           the fewest digits that mean it: 1.5, 1.0E10
    decimal                 with all digits of its scale: 12.50; below 0.000001 with an exponent: 1E-7, 0E-10
    date                    2024-03-04
    timestamp               the number that the column stores: microseconds since 1970, in milliseconds those

Null stays null. Before Java 19 large and very small floats had more digits than need be, so that the text hangs on the
writer's Java: these are refused, as are infinity and what is no number.

Hudi's own bulk_insert gives timestamps otherwise than its other operations do; here is what those do.

Touches: nothing.
Keeps:   a type, or a value of it, of which it is not known how Hudi has it as text is refused.
Source:  HoodieAvroUtils.getNestedFieldValAsString of Hudi 1.x, on tables of 1.2.0; Double.toString of Java 17 and 25
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeward.base.errors import Unsupported

_FIRST_DAY: Final = -719_162
"""0001-01-01; before, and after 9999, Java writes years otherwise."""
_LAST_DAY: Final = 2_932_896
_SURE_FLOATS: Final = (2.0**-26, 2.0**24)
"""From and to: of what lies between each release of Java writes the same digits, and of 0."""
_SURE_DOUBLES: Final = (2.0**-50, 2.0**53)
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
        return column.cast(pa.string()) if of.scale <= _PLAIN_SCALE_MAX else _by_distinct_values(column, decimal_text)
    if types.is_float32(of) or types.is_float64(of):
        _check_floats(column, name)
        return _by_distinct_values(column, float_text)
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


def _by_distinct_values(column: pa.Array, text: Callable[[Any], str]) -> pa.StringArray:
    encoded = column.dictionary_encode()
    texts = [text(value) for value in encoded.dictionary.to_numpy(zero_copy_only=False)]
    return pa.array(texts, pa.string()).take(encoded.indices)


def decimal_text(value: decimal.Decimal) -> str:
    """Java's BigDecimal.toString has the rules of Python's text of it."""
    return str(value)


def float_text(value: np.floating[Any]) -> str:
    """Java's text of a float or double: from 0.001 to 10,000,000 without an exponent."""
    sign, coefficient, exponent = decimal.Decimal(str(value)).as_tuple()
    assert isinstance(exponent, int), "neither infinite nor no number"
    written = "".join(map(str, coefficient))
    digits = written.rstrip("0") or "0"
    point = len(written) + exponent  # its place, from the first digit on
    if value == 0:
        plain = "0.0"
    elif 0 < point <= 7:
        plain = f"{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    elif -3 < point <= 0:
        plain = f"0.{'0' * -point}{digits}"
    else:
        plain = f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    return f"-{plain}" if sign else plain


def _check_floats(column: pa.Array, name: str) -> None:
    first, last = _SURE_FLOATS if types.is_float32(column.type) else _SURE_DOUBLES
    sizes = pc.abs(column)
    is_sure = pc.or_(pc.and_(pc.greater_equal(sizes, first), pc.less(sizes, last)), pc.equal(sizes, 0))
    if pc.any(pc.invert(is_sure)).as_py():
        value = column.filter(pc.invert(is_sure))[0].as_py()
        raise Unsupported(
            f"The column {name} holds {value}, which cannot be part of keys or partition paths.",
            why="Releases of Java write such numbers with different digits, and Hudi uses these.",
            remedy="Write this table with Hudi itself, or make keys and partitions of decimals or texts.",
        )


def _check_days(column: pa.Array, name: str) -> None:
    days = pc.min_max(column.cast(pa.int32()))
    first, last = days["min"].as_py(), days["max"].as_py()
    if first is not None and (first < _FIRST_DAY or last > _LAST_DAY):
        raise Unsupported(
            f"The column {name} holds a date that is not between the years 1 and 9999.",
            why=f"It lies {first if first < _FIRST_DAY else last} days from 1970-01-01.",
            remedy="Mend the row; such dates are mostly mistakes of a conversion.",
        )
