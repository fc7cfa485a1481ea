"""Rows as JSON lines, one object a line: by the table's types where it has the column, else by the first rows.

A member that a row lacks is null. A column that the table has and none of the first rows has is not among those that
the rows bring, and a later row that has it, or one that no row had before, is refused: what is not known then is
whether the rows before it meant null.

Values as a column of a type that is known:

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

Touches: the files that it is given, each line once.
Keeps:   1. rows come in the order of their lines, each once; empty lines are none;
         2. no more than a batch of lines is in memory, and a line has no more than 64 MiB;
         3. an error names the file and the line, from 1;
         4. an object in which a key stands twice is refused, at every level: no value is passed over;
         5. a value that is not of its type is refused: no text becomes a number, and no number is cut.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from typing import Any, BinaryIO, Final

import numpy as np
import orjson
import pyarrow as pa
from pyarrow import types

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_size
from lakeward.format.parquet.batches import BATCH_ROWS

_BATCH_BYTES: Final = 16 * 1024 * 1024
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_END_OF_KEY: Final = re.compile(rb'"\s*:')
"""Each key of an object ends so; in texts it may stand, too."""


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


class _KeyTwice(Exception):
    """An object has a key twice."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """Some lines of one file, as objects."""

    file: str
    numbers: list[int]
    rows: list[dict[str, Any]]

    def place(self, row: int | None) -> str:
        if row is None:
            return f"Lines {self.numbers[0]} to {self.numbers[-1]} of {self.file}"
        return f"Line {self.numbers[row]} of {self.file}"


class JsonLines:
    """`RowSource` of JSON lines, which can be read once."""

    def __init__(
        self, files: Sequence[tuple[str, Callable[[], BinaryIO]]], table_columns: pa.Schema | None, *, all_columns: bool
    ) -> None:
        """
        Args:
            files: a name for errors, and what opens it.
            table_columns: the types of columns that are known.
            all_columns: the rows have all of these, and null where no row has one.
        """
        self._files = files
        self._known = table_columns if table_columns is not None else pa.schema([])
        self._all_columns = all_columns
        self._parse: Callable[[bytes], Any] = _parse
        if any(_has_decimal(field.type) for field in self._known):
            self._parse = partial(_parse_slowly, parse_float=Decimal)  # a double would lose digits
        self._chunks = self._read()

    @cached_property
    def _first(self) -> _Lines | None:
        return next(self._chunks, None)

    @cached_property
    def schema(self) -> pa.Schema:
        first = self._first
        if first is None:
            return self._known if self._all_columns else pa.schema([])
        names = dict.fromkeys(name for row in first.rows for name in row)
        known = [field for field in self._known if self._all_columns or field.name in names]
        new = [name for name in names if self._known.get_field_index(name) < 0]
        return pa.schema([*known, *(pa.field(name, _guess(first, name)) for name in new)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        schema = self.schema
        if self._first is not None:
            yield _batch(self._first, schema)
        for lines in self._chunks:
            yield _batch(lines, schema)

    def _read(self) -> Iterator[_Lines]:
        for name, opener in self._files:
            with opener() as content:
                yield from self._read_file(name, content)

    def _read_file(self, name: str, content: BinaryIO) -> Iterator[_Lines]:
        lines, size = _Lines(name, [], []), 0
        for number, line in enumerate(iter(partial(content.readline, _LINE_BYTES_MAX + 1), b""), 1):
            if len(line) > _LINE_BYTES_MAX:
                raise UsageError(
                    f"Line {number} of {name} is too long.",
                    why=f"It has more than {format_size(_LINE_BYTES_MAX)}.",
                    remedy="Give one object a line; an array of all of them is no JSON lines.",
                )
            if not line.strip():
                continue
            lines.rows.append(self._object(name, number, line))
            lines.numbers.append(number)
            size += len(line)
            if len(lines.rows) == BATCH_ROWS or size >= _BATCH_BYTES:
                yield lines
                lines, size = _Lines(name, [], []), 0
        if lines.rows:
            yield lines

    def _object(self, name: str, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = self._parse(line)
            why = f"It is a {type(row).__name__}."
        except _KeyTwice as error:
            raise UsageError(
                f"Line {number} of {name} has the key {error.args[0]!r} twice.",
                why="The two may have different values, and which of them is meant cannot be known.",
                remedy="Give each key of an object once.",
            ) from None
        except (ValueError, RecursionError) as error:
            row, why = None, f"{error}."
        if not isinstance(row, dict):
            raise UsageError(
                f"Line {number} of {name} is no JSON object.",
                why=why,
                remedy='Give one object a line, such as {"id": 1, "name": "a"}, in UTF-8.',
            )
        return row


def _parse(line: bytes) -> Any:
    """Raises `_KeyTwice`, and `ValueError` for what is no JSON."""
    parsed = orjson.loads(line)
    # The parser keeps the last of two values, and reports nothing.
    ends = line.count(b'":')
    if ends != line.count(b":"):  # a blank may stand between a key and its colon
        ends = len(_END_OF_KEY.findall(line))
    is_flat = isinstance(parsed, dict) and len(parsed) == ends
    if not is_flat and ends != _count_keys(parsed):
        _parse_slowly(line)
    return parsed


def _parse_slowly(line: bytes, *, parse_float: Callable[[str], Any] | None = None) -> Any:
    return json.loads(line, parse_float=parse_float, object_pairs_hook=_object_of)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _KeyTwice(key)
        found[key] = value
    return found


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(_count_keys(each) for each in value.values() if isinstance(each, (dict, list)))
    if isinstance(value, list):
        return sum(_count_keys(each) for each in value if isinstance(each, (dict, list)))
    return 0


def _batch(lines: _Lines, schema: pa.Schema) -> pa.RecordBatch:
    known = {*schema.names}
    for row, values in enumerate(lines.rows):
        if not known.issuperset(values):
            unknown = next(name for name in values if name not in known)
            raise UsageError(
                f"{lines.place(row)} has the column {unknown}, which none of the first rows has.",
                why="Whether the rows before it meant null cannot be known, and some may be on their way already.",
                remedy=f"Give {unknown} in one of the first rows, null too, or write these rows by themselves.",
            )
    columns = [_column(lines, field.name, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(lines: _Lines, name: str, of: pa.DataType) -> pa.Array:
    try:
        return json_column([row.get(name) for row in lines.rows], of, name)
    except NotOfItsType as error:
        raise UsageError(
            f"{lines.place(error.row)} has {_shown(error.value)} in {error.path}.",
            why=f"{error.path} is {error.of}.",
            remedy="Mend the value; docs/write/rows.md says how values of each type are given.",
        ) from None


def _guess(lines: _Lines, name: str) -> pa.DataType:
    """The type of a column that the table does not have yet, from the first rows."""
    values = [row.get(name) for row in lines.rows]
    try:
        found = pa.array(values).type
    except pa.ArrowException as error:
        found, why = pa.null(), f"{error}."
    else:
        why = "All of its values are null."
    if _has_null(found):
        raise UsageError(
            f"The type of the new column {name} cannot be inferred from {lines.place(None).lower()}.",
            why=why,
            remedy="Give values of one type, leave the column out, or give it as Parquet, where types are said.",
        )
    return found


def _has_null(of: pa.DataType) -> bool:
    return pa.types.is_null(of) or any(_has_null(of.field(at).type) for at in range(of.num_fields))


def _has_decimal(of: pa.DataType) -> bool:
    return pa.types.is_decimal(of) or any(_has_decimal(of.field(at).type) for at in range(of.num_fields))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
