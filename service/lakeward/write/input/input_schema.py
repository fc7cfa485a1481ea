"""The schema that a table has from a write on, and rows brought into its form.

    the rows have …                 the table's schema
    its columns in another order    stays
    a column that it lacks          gets it at its end, nullable; so does a struct inside of it
    no column that it has           stays: refused, or null where the caller wants that and it may be
    an int where it has long        stays; so does an int where it has double, and a decimal of fewer digits
    a long where it has int         becomes long; refused inside of structs, lists and maps, where Hudi's readers cannot
                                    read what was written before
    another type                    refused, also where Hudi would change the column's: numbers into texts, floats into
                                    doubles
    a new name that Hudi cannot     refused, at every level (`format/avro/column_names.py`); so is `_hoodie_is_deleted`
    load, or that it reserves       of another type than boolean, and a column that Lakeward keeps beside rows

A table without any schema takes that of its first rows, nulls as these have them.

Touches: nothing.
Keeps:   1. no value changes but by widening, and none is cut;
         2. what was written before can be read with the schema that is returned;
         3. a schema that does not change is returned as the text that it was;
         4. no schema is returned with a name that Hudi's readers cannot load, but what is alike in the table already.
Source:  what Hudi 1.2.0 wrote and read (`tests/interop/test_write_input.py`)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeward.base.errors import Refused, Unsupported, UsageError
from lakeward.format.avro.column_names import META_COLUMNS, NameFault, find_bad_names
from lakeward.format.avro.schema import REQUIRED_KEY, AvroField, AvroKind, block_schema, parse_schema
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.projection import project
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD
from lakeward.write.keyed_rows import IS_NEW, ORDER, PLACE, TARGET

_ROWS = "the rows"
_INTS = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class EvolvedSchema:
    schema_json: str
    """Avro JSON without Hudi's own columns."""
    changed: bool
    """It is another one than the table has, or the table has none."""


def evolve(
    table_schema: str | None, incoming: pa.Schema, *, table_name: str, fill_missing: bool = False
) -> EvolvedSchema:
    """The schema of the table once these rows are in it.

    Raises `Unsupported` for types that cannot go together, naming the column and both, `UsageError` for columns that
    are missing or have a name that a table of Hudi cannot have, and `Refused` where the table has such a name.

    Args:
        table_schema: Avro JSON, without Hudi's own columns; None for a table that has none yet.
        incoming: of the rows; Hudi's own columns in it are left out.
        fill_missing: columns that the rows lack are null.
    """
    fields = [field for field in incoming if field.name not in META_COLUMNS]
    _check_names(fields)
    if table_schema is None:
        _check_deleted(fields, [])
        new = schema_text(pa.schema(fields), table_name)
        _check_loadable(new, None)
        return EvolvedSchema(new, True)
    schema = json.loads(table_schema)
    evolution = _Evolution(table_name, fill_missing)
    known = list(block_schema(table_schema, where="the table"))
    evolution.record(schema, known, fields, ())
    _check_deleted(fields, known)
    if not evolution.changed:
        _check_loadable(table_schema, table_schema)
        return EvolvedSchema(table_schema, False)
    evolved = _text(schema)
    _check_loadable(evolved, table_schema)
    again = _Evolution(table_name, fill_missing)
    again.record(schema, list(block_schema(evolved, where="the table")), fields, ())
    assert not again.changed, "a change of one column was one of another, too"
    return EvolvedSchema(evolved, True)


def conform(batch: pa.RecordBatch, schema_json: str, *, rows_before: int = 0) -> pa.RecordBatch:
    """Rows in the columns, the order and the types of a schema: the one that `evolve` returned for them, or a part of
    the table's, for rows that are only to be found.

    Raises `UsageError` for a null where the schema has none and a number that its type does not hold, with the number
    of the row from 1, and `Unsupported` for types that cannot go together.

    Args:
        rows_before: how many rows of the input came before these.
    """
    target = _columns(schema_json)
    columns = [
        _fitting(_usual(column), target, name, rows_before)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    conformed = project(pa.RecordBatch.from_arrays(columns, names=batch.schema.names), target, where=_ROWS)
    rows = None
    for field, column in zip(_fields(schema_json), conformed.columns, strict=True):
        if _has_required(field):
            rows = pa.array(np.arange(batch.num_rows)) if rows is None else rows
            _check_nulls(field, column, rows, field.name, rows_before)
    return conformed


def _fitting(column: pa.Array, target: pa.Schema, name: str, rows_before: int) -> pa.Array:
    index = target.get_field_index(name)
    if index < 0:
        return column
    of = target.field(index).type
    if types.is_int32(of) and types.is_int64(column.type):
        is_far = pc.or_(pc.less(column, _INTS.min), pc.greater(column, _INTS.max))
        _check_rows(is_far, rows_before, f"a number in {name} that is no int, as the column is in the table")
        return column.cast(of)
    _check_fits(of, column.type, (name,))
    return column


def _check_fits(of: pa.DataType, given: pa.DataType, path: tuple[str, ...]) -> None:
    if types.is_struct(of) and types.is_struct(given):
        inner = {field.name: field.type for field in of}
        for field in given:
            if field.name in inner:
                _check_fits(inner[field.name], field.type, (*path, field.name))
    elif types.is_list(of) and types.is_list(given):
        _check_fits(of.value_type, given.value_type, path)
    elif types.is_map(of) and types.is_map(given):
        _check_fits(of.key_type, given.key_type, path)
        _check_fits(of.item_type, given.item_type, path)
    elif not _holds(of, given):
        raise _unfit(path, of=of, given=given)


def _unfit(path: tuple[str, ...], *, of: pa.DataType, given: pa.DataType) -> Unsupported:
    return Unsupported(
        f"The column {'.'.join(path)} of the rows does not fit the table's.",
        why=f"The table has {of}, the rows have {given}, and that is no change that is known to be safe.",
        remedy="Convert the column in the input, or write it under another name.",
    )


@lru_cache(maxsize=8)
def _columns(schema_json: str) -> pa.Schema:
    return block_schema(schema_json, where="the table")


@lru_cache(maxsize=8)
def _fields(schema_json: str) -> tuple[AvroField, ...]:
    return parse_schema(schema_json, where="the table")


class _Evolution:
    """Changes a schema's JSON in place; `path` leads to what is looked at through the names of structs."""

    def __init__(self, table_name: str, fill_missing: bool) -> None:
        self._table_name = table_name
        self._fill_missing = fill_missing
        self.changed = False

    def record(
        self, record: dict[str, Any], fields: list[pa.Field], incoming: list[pa.Field], path: tuple[str, ...]
    ) -> None:
        found = {field.name: field for field in incoming}
        for entry, field in zip(record["fields"], fields, strict=True):
            if (given := found.pop(field.name, None)) is None:
                self._check_missing(field, path)
            else:
                inner = (*path, field.name)
                entry["type"] = self._type(entry["type"], field.type, given.type, inner, is_column=not path)
        for given in found.values():
            record["fields"].append(self._added(given, path))
            self.changed = True

    def _type(
        self, node: Any, of: pa.DataType, given: pa.DataType, path: tuple[str, ...], *, is_column: bool = False
    ) -> Any:
        """What the Avro type is from now on, where the table has `of` and rows have `given`."""
        given = _usual_type(given)
        if isinstance(node, list):
            return [each if each == "null" else self._type(each, of, given, path, is_column=is_column) for each in node]
        if isinstance(node, dict) and isinstance(node["type"], (dict, list)):
            return {**node, "type": self._type(node["type"], of, given, path, is_column=is_column)}
        if types.is_struct(of) and types.is_struct(given):
            if isinstance(node, str):
                self._check_shared(of, given, path)
            else:
                self.record(node, list(of), list(given), path)
            return node
        if types.is_list(of) and types.is_list(given):
            return {**node, "items": self._type(node["items"], of.value_type, given.value_type, path)}
        if types.is_map(of) and types.is_map(given) and types.is_string(given.key_type):
            return {**node, "values": self._type(node["values"], of.item_type, given.item_type, path)}
        if _holds(of, given):
            return node
        if is_column and types.is_int32(of) and types.is_int64(given):
            self.changed = True
            return "long"
        raise _unfit(path, of=of, given=given)

    def _check_shared(self, of: pa.StructType, given: pa.StructType, path: tuple[str, ...]) -> None:
        """A type that is defined elsewhere in the schema stays as it is: a change would be one of all its uses."""
        names = {field.name: field for field in given}
        for field in of:
            other = names.pop(field.name, None)
            if other is None:
                self._check_missing(field, path)
            elif not _holds(field.type, _usual_type(other.type)):
                names[field.name] = other
        if names:
            raise Unsupported(
                f"The column {'.'.join(path)} of the rows does not fit the table's.",
                why=f"{', '.join(names)} in it would change a type that several of the table's columns share.",
                remedy="Let Hudi write the first rows that change it.",
            )

    def _check_missing(self, field: pa.Field, path: tuple[str, ...]) -> None:
        is_required = REQUIRED_KEY in (field.metadata or {})
        if self._fill_missing and not is_required:
            return
        name = ".".join((*path, field.name))
        raise UsageError(
            f"The rows have no column {name}, which the table has.",
            why="It may not be null." if is_required else "Hudi refuses such rows by default, and so does Lakeward.",
            remedy="Give rows with all columns of the table."
            if is_required
            else "Give rows with all columns of the table, or say that missing ones are null with --fill-missing.",
        )

    def _added(self, field: pa.Field, path: tuple[str, ...]) -> dict[str, Any]:
        """The entry of a new field, named as Hudi names types that lie there."""
        whole = pa.field(field.name, field.type)
        for name in reversed(path):
            whole = pa.field(name, pa.struct([whole]), nullable=False)
        entry = json.loads(schema_text(pa.schema([whole]), self._table_name))["fields"][0]
        for _ in path:
            entry = entry["type"]["fields"][0]
        return dict(entry)


def _holds(of: pa.DataType, given: pa.DataType) -> bool:
    """A column of the first type has room for every value of the second, and keeps its type."""
    if of == given:
        return True
    if types.is_signed_integer(of) and types.is_signed_integer(given):
        return bool(of.bit_width >= given.bit_width)
    if types.is_float64(of) and types.is_signed_integer(given):
        return bool(given.bit_width <= _INTS.bits)
    if types.is_decimal128(of) and types.is_decimal128(given):
        return bool(of.scale >= given.scale and of.precision - of.scale >= given.precision - given.scale)
    if types.is_timestamp(of) and types.is_timestamp(given):
        units = ("s", "ms", "us")
        is_finer = of.unit in units and given.unit in units and units.index(of.unit) >= units.index(given.unit)
        return is_finer and (of.tz is None) == (given.tz is None)
    return False


def _usual_type(of: pa.DataType) -> pa.DataType:
    """The type that stands for its larger, shorter or coded forms."""
    if types.is_dictionary(of):
        return _usual_type(of.value_type)
    if types.is_large_string(of) or of == pa.string_view():
        return pa.string()
    if types.is_large_binary(of) or types.is_fixed_size_binary(of) or of == pa.binary_view():
        return pa.binary()
    if types.is_large_list(of) or types.is_fixed_size_list(of) or types.is_list(of):
        return pa.list_(_usual_field(of.value_field))
    if types.is_map(of):
        return pa.map_(_usual_type(of.key_type), _usual_field(of.item_field))
    if types.is_struct(of):
        return pa.struct([_usual_field(field) for field in of])
    return of


def _usual_field(field: pa.Field) -> pa.Field:
    return field.with_type(_usual_type(field.type))


def _usual(column: pa.Array) -> pa.Array:
    usual = _usual_type(column.type)
    return column if column.type == usual else column.cast(usual)


def _check_loadable(evolved: str, before: str | None) -> None:
    known = set() if before is None else {*find_bad_names(before)}
    for found in find_bad_names(evolved):
        if found not in known:
            raise UsageError(
                f"The rows have a column that the table cannot have: {found.path!r}.",
                why=f"{found.why}.",
                remedy="Give the column another name in the input, or leave it out.",
            )
        if found.fault is NameFault.NO_NAME:
            raise Refused(
                f"The table has a column {found.path!r}, and Hudi cannot load it.",
                why=f"{found.why}.",
                remedy="`lakeward verify` names the commit that the table can go back to.",
            )


def _check_deleted(fields: list[pa.Field], known: list[pa.Field]) -> None:
    if any(field.name == IS_DELETED_FIELD for field in known):
        return
    for field in fields:
        if field.name == IS_DELETED_FIELD and not types.is_boolean(field.type):
            raise UsageError(
                f"The new column {IS_DELETED_FIELD} has the type {field.type}.",
                why="True in it deletes a row, and a value of another type than boolean deletes none.",
                remedy="Give it as a boolean, in JSON lines or Parquet; in CSV a new column is one of texts.",
            )


def _check_names(fields: list[pa.Field]) -> None:
    names = [field.name for field in fields]
    for name in names:
        if name in (ORDER, PLACE, IS_NEW, TARGET):
            raise UsageError(
                f"The rows have a column {name}.",
                why="Lakeward keeps what it needs for a write beside the rows under this name.",
                remedy="Give the column another name in the input, or leave it out.",
            )
        if names.count(name) > 1:
            raise UsageError(
                f"The rows have two columns {name}.",
                remedy="Give rows whose columns have names of their own.",
            )


def _has_required(field: AvroField) -> bool:
    return field.is_required or any(_has_required(child) for child in field.type.children)


def _check_nulls(field: AvroField, values: pa.Array, rows: pa.Array, path: str, rows_before: int) -> None:
    """
    Args:
        rows: the row of each value, from 0.
    """
    if field.is_required and values.null_count:
        row = rows_before + rows.filter(values.is_null())[0].as_py() + 1
        raise UsageError(
            f"Row {row} has no value in {path}.",
            why="The table's schema says that it may not be null.",
            remedy="Fill the value in, or leave the row out.",
        )
    if field.type.kind is AvroKind.RECORD:
        rows, values = rows.filter(values.is_valid()), values.drop_null()
        for index, child in enumerate(field.type.children):
            _check_nulls(child, values.field(index), rows, f"{path}.{child.name}", rows_before)
    elif field.type.kind in (AvroKind.ARRAY, AvroKind.MAP):
        if field.type.kind is AvroKind.MAP:
            values = pa.ListArray.from_arrays(values.offsets, values.items)
        inside = rows.take(pc.list_parent_indices(values))
        element = field.type.children[-1]
        _check_nulls(element, values.flatten(), inside, f"{path}.{element.name}", rows_before)


def _check_rows(is_wrong: pa.Array, rows_before: int, what: str) -> None:
    if pc.any(is_wrong).as_py():
        row = rows_before + pc.index(is_wrong, pa.scalar(True)).as_py() + 1
        raise UsageError(f"Row {row} has {what}.", remedy="Mend the value, or leave the row out.")


def _text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))
