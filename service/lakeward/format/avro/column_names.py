"""Names of a schema's columns that keep Hudi's readers from loading the table, or that mean something else to them.

    no name in Avro         its parser, by which Hudi reads schemas, takes letters and digits of any script and _, not a
                            digit first, and looks at them in UTF-16: none beyond the basic plane is a letter to it
    alike but for case      of one record: Spark takes them for one column, with its default settings
    reserved                what Hudi and Spark put into rows or files by themselves

Names at all levels are looked at: of columns, of what is inside of structs, lists and maps, and of types.

Touches: nothing.
Keeps:   1. a name that Hudi takes is not found;
         2. what is found is the same whatever the rows came from, and names the path to it.
Source:  org.apache.avro.Schema.validateName, and what Hudi 1.2.0 loaded (`tests/interop/test_write_input.py`)
See:     docs/decisions/0090-names-of-columns.md
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)

OPERATION_COLUMN: Final = "_hoodie_operation"


_NAMED: Final = frozenset({"record", "error", "fixed", "enum"})
_LAST_OF_PLANE: Final = 0xFFFF
_RESERVED: Final = {
    OPERATION_COLUMN: "Hudi's writers put the kind of change there by themselves, and rows are merged by it",
    "_tmp_metadata_row_index": "Spark puts the number of a row there, in the place of the value",
}
"""Names of columns alone: inside of a struct they are like others."""


class NameFault(StrEnum):
    NO_NAME = "no name"
    ALIKE = "alike"
    RESERVED = "reserved"


@dataclass(frozen=True, slots=True)
class BadName:
    path: str
    """Through the names of structs to the one that is found, with dots."""
    fault: NameFault
    why: str
    """A sentence without its full stop."""

    @property
    def is_loadable(self) -> bool:
        """Hudi's readers load the table nevertheless, and take the column in a sense of their own."""
        return self.path == OPERATION_COLUMN


@lru_cache(maxsize=64)
def find_bad_names(schema_json: str) -> tuple[BadName, ...]:
    """What is found in the Avro JSON of a record; none where it is no such text."""
    try:
        return tuple(_of_type(json.loads(schema_json), "", is_table=True))
    except (ValueError, RecursionError):
        return ()


def is_loadable(schema_json: str) -> bool:
    """Whether it has columns, none of which keeps Hudi's readers from loading the table."""
    return has_columns(schema_json) and all(found.is_loadable for found in find_bad_names(schema_json))


@lru_cache(maxsize=64)
def has_columns(schema_json: str) -> bool:
    """Whether it is the Avro JSON of a record with fields."""
    try:
        schema = json.loads(schema_json)
    except (ValueError, RecursionError):
        return False
    return isinstance(schema, dict) and schema.get("type") == "record" and bool(schema.get("fields"))


def _of_type(node: Any, path: str, *, is_table: bool = False) -> Iterator[BadName]:
    if isinstance(node, list):
        for branch in node:
            yield from _of_type(branch, path)
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if not is_table and kind in _NAMED:
        # A struct's type has the name of its column, which is looked at as such.
        column = path.rpartition(".")[2]
        for name in str(node.get("name", "")).split("."):
            if name != column and (why := _why_no_name(name)) is not None:
                yield BadName(path, NameFault.NO_NAME, f"Its type is named {name!r}. {why}")
    if kind == "record":
        yield from _of_record(node, path, is_table=is_table)
    elif isinstance(kind, (dict, list)):
        yield from _of_type(kind, path, is_table=is_table)
    for inside in ("items", "values"):
        yield from _of_type(node.get(inside), path)


def _of_record(record: dict[str, Any], path: str, *, is_table: bool) -> Iterator[BadName]:
    known = {name.lower(): name for name in META_COLUMNS} if is_table else {}
    for field in record.get("fields") or ():
        if not isinstance(field, dict) or not isinstance(name := field.get("name"), str):
            continue
        at = f"{path}.{name}" if path else name
        if (why := _why_no_name(name)) is not None:
            yield BadName(at, NameFault.NO_NAME, why)
        elif is_table and name in _RESERVED:
            yield BadName(at, NameFault.RESERVED, _RESERVED[name])
        elif known.setdefault(name.lower(), name) != name:
            why = f"There is {known[name.lower()]}, too, which differs in case alone: to Spark the two are one column"
            yield BadName(at, NameFault.ALIKE, why)
        yield from _of_type(field.get("type"), at)


def _why_no_name(name: str) -> str | None:
    if not name:
        return "Hudi's schemas have no empty names"
    for character in name:
        if ord(character) > _LAST_OF_PLANE or not (character == "_" or character.isalpha() or character.isdecimal()):
            return f"In Hudi's schemas a name has letters, digits and _, and this one has {character!r}"
    return None if name[0] == "_" or name[0].isalpha() else "In Hudi's schemas a name does not begin with a digit"
