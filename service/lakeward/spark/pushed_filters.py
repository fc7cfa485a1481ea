"""What Spark 4 pushes to a Python data source, in the words of a scan's filter.

A filter that has no such words is left to Spark, which asks all of them of the rows that come, those too that were
pushed: what is said here may spare reading and decides nothing else.

Touches: nothing.
Keeps:   no row is left out that Spark would choose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakeward.base.errors import UsageError
from lakeward.scan.filter_text import parse_filter

_OPERATORS: Final = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
"""The names are those of classes in `pyspark.sql.datasource`, which PySpark 3.5 does not have."""


def filter_words(filters: Iterable[Any], schema: pa.Schema) -> str | None:
    """The words of the filters that have some, joined so that all hold; None where none has.

    Args:
        schema: the table's.
    """
    found = [words for each in filters if (words := _words(each)) is not None and _is_understood(words, schema)]
    return " and ".join(found) or None


def _is_understood(words: str, schema: pa.Schema) -> bool:
    try:
        parse_filter(words, schema)
    except UsageError:
        return False
    return True


def _words(pushed: Any) -> str | None:
    kind = type(pushed).__name__
    if kind == "Not":
        inner = _words(pushed.child)
        return None if inner is None else f"not ({inner})"
    column = ".".join(f"`{part.replace('`', '``')}`" for part in pushed.attribute)
    if kind in ("IsNull", "IsNotNull"):
        return f"{column} is {'not ' if kind == 'IsNotNull' else ''}null"
    if kind == "In":
        values = [_literal(value) for value in pushed.value]
        return None if not values or None in values else f"{column} in ({', '.join(filter(None, values))})"
    value = _literal(pushed.value) if kind in _OPERATORS else None
    return None if value is None else f"{column} {_OPERATORS[kind]} {value}"


def _literal(value: Any) -> str | None:
    """The value as text; None for one whose meaning is not sure: a time, by the session's zone, or text with signs."""
    match value:
        case bool():
            return str(value).lower()
        case int() | Decimal():
            return str(value)
        case float() if math.isfinite(value):
            return str(Decimal(value))
        case str() if not {"'", "\\"} & set(value):
            return f"'{value}'"
        case date() if not isinstance(value, datetime):
            return f"'{value.isoformat()}'"
    return None
