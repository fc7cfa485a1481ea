"""Values of JSON as a column of a type that is known.

    text                    text; a number is none
    whole numbers           numbers without a fraction, in the type's range
    float, double           numbers
    decimal                 numbers, and texts of numbers, with no more digits than the type has
    boolean                 true, false
    date                    "2024-03-04"
    timestamp               "2024-03-04T05:06:07.123456Z", with an offset or Z where the column is one in UTC, without
                            where it is local
    bytes                   base64, as Spark has it
    struct, list, map       object, array, object; a member of a struct that is not there is null

Touches: nothing.
Keeps:   a value that is not of its type is refused: no text becomes a number, and no number is cut.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types


class NotOfItsType(Exception):
    """A value is not of its column's type; the place in the values is there where it is known."""

    def __init__(self, path: str, of: pa.DataType, row: int | None, value: object) -> None:
        super().__init__(path, of, row, value)
        self.path = path
        self.of = of
        self.row = row
        self.value = value


def json_column(values: Sequence[Any], of: pa.DataType, path: str) -> pa.Array:
    """Raises `NotOfItsType`.

    Args:
        values: as a JSON parser gives them, None for null.
        path: names the column.
    """
    kinds = _kinds(of)
    if not kinds.issuperset(map(type, values)):
        row = next(row for row, value in enumerate(values) if type(value) not in kinds)
        raise NotOfItsType(path, of, row, values[row])
    if types.is_struct(of):
        return _structs(values, of, path)
    if types.is_list(of):
        return _lists(values, of, path)
    if types.is_map(of):
        return _maps(values, of, path)
    try:
        return _plain(values, of)
    except (pa.ArrowException, OverflowError, ValueError, InvalidOperation):
        if len(values) == 1:
            raise NotOfItsType(path, of, 0, values[0]) from None
    for row, value in enumerate(values):
        try:
            json_column([value], of, path)
        except NotOfItsType:
            raise NotOfItsType(path, of, row, value) from None
    raise NotOfItsType(path, of, None, None)


def _kinds(of: pa.DataType) -> frozenset[type]:
    """What a parser makes of the kind of JSON that the type's values are; their range and form are looked at later."""
    kinds: tuple[type, ...] = (str,)
    if types.is_boolean(of):
        kinds = (bool,)
    elif types.is_integer(of):
        kinds = (int,)
    elif types.is_floating(of):
        kinds = (int, float, Decimal)
    elif types.is_decimal(of):
        kinds = (int, Decimal, str)
    elif types.is_struct(of) or types.is_map(of):
        kinds = (dict,)
    elif types.is_list(of):
        kinds = (list,)
    return frozenset((*kinds, type(None)))


def _plain(values: Sequence[Any], of: pa.DataType) -> pa.Array:
    if types.is_floating(of):
        return pa.array([None if value is None else float(value) for value in values], of)
    if types.is_decimal(of):
        return pa.array([None if value is None else Decimal(value) for value in values], of)
    if types.is_binary(of):
        return pa.array([None if value is None else _from_base64(value) for value in values], of)
    if types.is_date(of) or types.is_timestamp(of):
        return pa.array(values, pa.string()).cast(of)
    return pa.array(values, of)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error


def _structs(values: Sequence[Any], of: pa.StructType, path: str) -> pa.Array:
    known = {field.name for field in of}
    for row, value in enumerate(values):
        if value is not None and not known.issuperset(value):
            unknown = min(value.keys() - known)
            raise NotOfItsType(f"{path}.{unknown}", of, row, value)
    children = [
        json_column(
            [None if value is None else value.get(field.name) for value in values], field.type, f"{path}.{field.name}"
        )
        for field in of
    ]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(of), mask=mask)


def _lists(values: Sequence[Any], of: pa.ListType, path: str) -> pa.Array:
    inside = [each for value in values if value is not None for each in value]
    children = _inside(inside, values, of.value_type, f"{path}.element")
    return pa.ListArray.from_arrays(_offsets(values), children, type=of)


def _maps(values: Sequence[Any], of: pa.MapType, path: str) -> pa.Array:
    keys = pa.array([key for value in values if value is not None for key in value], of.key_type)
    inside = [each for value in values if value is not None for each in value.values()]
    items = _inside(inside, values, of.item_type, f"{path}.value")
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=of)


def _inside(inside: Sequence[Any], values: Sequence[Any], of: pa.DataType, path: str) -> pa.Array:
    try:
        return json_column(inside, of, path)
    except NotOfItsType as error:
        ends = np.cumsum([len(value or ()) for value in values])
        row = None if error.row is None else int(np.searchsorted(ends, error.row, side="right"))
        raise NotOfItsType(error.path, error.of, row, error.value) from None


def _offsets(values: Sequence[Any]) -> pa.Array:
    """The place at which each list begins; null at a null, as the constructors of lists want it."""
    offsets: list[int | None] = []
    end = 0
    for value in values:
        offsets.append(None if value is None else end)
        end += len(value or ())
    return pa.array([*offsets, end], pa.int32())
