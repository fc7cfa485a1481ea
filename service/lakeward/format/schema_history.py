"""Versions of a table's schema where schema on read is in use: Hudi's JSON in, columns by id out; and what changed.

A file of `.hoodie/.schema` holds all versions so far, newest first; a commit holds the one that it was written by, as
`latest_schema`. In each, every field at every level has an id, which it keeps when it is renamed or moved; a column
that is added again gets another one. Names of fields within structs have dots, elements of lists are `element`, keys
and values of maps `key` and `value`.

Touches: nothing.
Keeps:   what is not understood is `BrokenFile`, never passed over: a field that is left out could hide a change.
Source:  Hudi 1.2.0, SerDeHelper and InternalSchema; tables of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lakeward.base.errors import BrokenFile

_DEPTH_MAX = 64
META_NAMES = frozenset(
    f"_hoodie_{name}"
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name", "operation")
)
"""Columns that are Hudi's; a write that changes the schema names them in the table's schema, too."""


@dataclass(frozen=True, slots=True)
class FieldVersion:
    id: int
    type: str
    """The name of a plain type with its parameters; `record`, `array` or `map`."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    id: int
    """The instant from which on it counts; 0 for the first."""
    fields: Mapping[str, FieldVersion]
    """What each full name is, in the table's order, meta columns first."""

    @property
    def columns(self) -> frozenset[str]:
        """The names of the table's own columns."""
        return frozenset(name for name in self.fields if "." not in name) - META_NAMES


def read_schema_history(data: bytes, *, file: str) -> tuple[SchemaVersion, ...]:
    """All versions in a file of `.hoodie/.schema`, newest first."""
    try:
        versions = orjson.loads(data)["schemas"]
        return tuple(_version(each) for each in versions)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(file, error) from None


def read_schema_version(text: str, *, where: str) -> SchemaVersion:
    """The version that a commit holds."""
    try:
        return _version(orjson.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(where, error) from None


def find_change_of_names(versions: Sequence[SchemaVersion]) -> str | None:
    """Why columns of files that these versions were written by must not be matched by name, in a few words; None where
    that is the same as matching them by id."""
    names: dict[int, str] = {}
    ids: dict[str, int] = {}
    for version in reversed(versions):
        for name, field in version.fields.items():
            if names.setdefault(field.id, name) != name:
                return f"{names[field.id]} was renamed to {name}, or moved there"
            if ids.setdefault(name, field.id) != field.id:
                return f"{name} was dropped, and another column of the name added"
    return None


def find_change_of_types(versions: Sequence[SchemaVersion]) -> str | None:
    """A change of type that Hudi's readers of such tables may carry out otherwise than we do, in a few words."""
    types: dict[str, str] = {}
    for version in reversed(versions):
        for name, field in version.fields.items():
            before = types.get(name, field.type)
            if before != field.type and (before, field.type) != ("int", "long"):
                return f"{name} became {field.type}, and was {before}"
            types[name] = field.type
    return None


def _version(found: Mapping[str, Any]) -> SchemaVersion:
    fields: dict[str, FieldVersion] = {}
    for name, field in _fields(found, "", 0):
        if name in fields:
            raise ValueError(f"{name} is there twice")
        fields[name] = field
    return SchemaVersion(int(found["version_id"]), fields)


def _fields(record: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, FieldVersion]]:
    if record["type"] != "record" or depth > _DEPTH_MAX:
        raise ValueError(f"{path or 'the schema'} is no record, or nested too deep")
    for field in record["fields"]:
        yield from _type(field["type"], field["id"], f"{path}{field['name']}", depth)


def _type(kind: Any, number: object, name: str, depth: int) -> Iterator[tuple[str, FieldVersion]]:
    if not isinstance(number, int):
        raise ValueError(f"{name} has no id")
    if isinstance(kind, str):
        yield name, FieldVersion(number, kind)
        return
    yield name, FieldVersion(number, kind["type"])
    match kind["type"]:
        case "record":
            yield from _fields(kind, f"{name}.", depth + 1)
        case "array":
            yield from _type(kind["element"], kind["element_id"], f"{name}.element", depth + 1)
        case "map":
            yield from _type(kind["key"], kind["key_id"], f"{name}.key", depth + 1)
            yield from _type(kind["value"], kind["value_id"], f"{name}.value", depth + 1)
        case other:
            raise ValueError(f"{name} has the type {other}")


def _broken(where: str, why: Exception) -> BrokenFile:
    return BrokenFile(
        f"The schema history in {where} cannot be read.",
        why=f"{why}.",
        remedy="Restore it, or let a Hudi writer with schema on read change the schema once more.",
    )
