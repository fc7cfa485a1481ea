"""What an Avro schema of Hudi means in Arrow: schema JSON in, types and Arrow schema out.

Commits carry the table's schema without meta columns, log blocks carry their writer's schema with them; both are Avro
records. Enums become text and plain fixed become bytes, as in Hudi's own compaction. Everything else that Spark cannot
put into a table (uuid as fixed, times of day, unions of more than null and one type, recursive records) is refused
naming the field, since nothing has proven yet that it survives a compaction.

Touches: nothing.
Keeps:   1. every column is nullable in Arrow, whatever the schema says: base files may be looser than their schema;
         2. the same schema always gives the same Arrow schema, so outputs of different executors agree;
         3. the value of a field in rows that were written without it (its default, and whether it may be null) is
            metadata of its Arrow field, at every level.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.column_names import META_COLUMNS, OPERATION_COLUMN

REQUIRED_KEY = b"lakeward.required"
"""The entry of a field's metadata that says that its values may not be null."""
DEFAULT_KEY = b"lakeward.default"
"""The entry with its default as JSON, where that is not null."""
NESTED_FLOATS_KEY = b"lakeward.nested.floats"
"""Marks a column in whose lists and maps floats of Parquet files must not become doubles (`keeping_nested_floats`)."""

_DEPTH_MAX = 64  # no writer nests deeper; it keeps a hostile schema from exhausting the stack
_TYPES_MAX = 20_000
"""Types of a schema, each as often as it occurs: by names two kilobytes of schema stand for millions of types."""
_DECIMAL_DIGITS_MAX = 38
_FIXED_BYTES_MAX = 1024 * 1024
_NO_BRANCH = -1
"""The branch for null of a union of one type, which has none."""


class AvroKind(StrEnum):
    """How a value is encoded in Avro binary."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    ENUM = "enum"
    FIXED = "fixed"
    DECIMAL_FIXED = "decimal as fixed"
    DECIMAL_BYTES = "decimal as bytes"
    RECORD = "record"
    ARRAY = "array"
    MAP = "map"
    UNION = "union"
    """One of several types, null among them. No column of a table is one; ordering values of deletes are."""


@dataclass(frozen=True, slots=True)
class AvroType:
    """One type of the schema with everything below it."""

    kind: AvroKind
    arrow: pa.DataType
    null_branch: int | None = None
    """Which branch of the union is null; None where the type is no union."""
    fixed_size: int = 0
    """Bytes of a fixed, also of a decimal as fixed."""
    symbols: tuple[str, ...] = ()
    """The values of an enum."""
    children: tuple[AvroField, ...] = ()
    """The fields of a record; the `element` of an array; `key` and `value` of a map; the branches of a union."""
    size: int = field(init=False, compare=False)
    """How many types it is made of, itself included, each as often as it occurs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(child.type.size for child in self.children))


@dataclass(frozen=True, slots=True)
class AvroField:
    name: str
    type: AvroType
    default: object = None
    """Its JSON in the schema; None where it is null, and where there is none."""

    @property
    def arrow(self) -> pa.Field:
        metadata = {REQUIRED_KEY: b""} if self.is_required else {}
        if self.default is not None:
            # Hudi makes no value of the default of a fixed, and of an enum's it is not known: null stands for that.
            default = None if self.type.kind in (AvroKind.FIXED, AvroKind.ENUM) else self.default
            metadata[DEFAULT_KEY] = json.dumps(default).encode()
        return pa.field(self.name, self.type.arrow, metadata=metadata or None)

    @property
    def is_required(self) -> bool:
        return self.type.null_branch in (None, _NO_BRANCH)


@dataclass(slots=True)
class _Names:
    """Named types seen so far, by full name; None while a type is still being read."""

    known: dict[str, AvroType | None] = field(default_factory=dict)


def table_schema(schema_json: str, *, where: str = "the table schema", has_operation: bool = False) -> pa.Schema:
    """The Arrow schema of a table's base files: the five meta columns, then the columns of the commit's schema.

    Args:
        has_operation: between the two there is a sixth meta column, the kind of change.
    """
    columns = [column for column in parse_schema(schema_json, where=where) if column.name not in META_COLUMNS]
    meta = [*META_COLUMNS, *([OPERATION_COLUMN] if has_operation else [])]
    return pa.schema([pa.field(name, pa.string()) for name in meta] + _fields(columns))


def without_meta_columns(schema_json: str) -> str:
    """The schema of rows as commits carry it, from that of files: both Avro JSON."""
    schema = json.loads(schema_json)
    schema["fields"] = [field for field in schema["fields"] if field["name"] not in META_COLUMNS]
    return json.dumps(schema, separators=(",", ":"))


def required_columns(schema_json: str, *, where: str = "the table schema") -> frozenset[str]:
    """The columns that may hold no null; of what lies inside of a column nothing is said."""
    columns = parse_schema(schema_json, where=where)
    return frozenset(column.name for column in columns if column.is_required)


def block_schema(schema_json: str, *, where: str) -> pa.Schema:
    """The Arrow schema of the rows in a log block, exactly the columns its writer gave it."""
    return pa.schema(_fields(parse_schema(schema_json, where=where)))


def parse_schema(schema_json: str, *, where: str) -> tuple[AvroField, ...]:
    """The columns of a record schema. `where` is how errors call the place the schema was found."""
    try:
        schema = json.loads(schema_json)
    except (ValueError, RecursionError):
        raise _broken(where, "It is not JSON.") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _broken(where, "It is not a record.")
    record = _parse(schema, namespace="", path="", names=_Names(), where=where, depth=0)
    return record.children


def _fields(columns: list[AvroField] | tuple[AvroField, ...]) -> list[pa.Field]:
    return [column.arrow for column in columns]


def _parse(schema: Any, *, namespace: str, path: str, names: _Names, where: str, depth: int) -> AvroType:
    if depth > _DEPTH_MAX:
        raise _unsupported(where, path, f"is nested deeper than {_DEPTH_MAX} levels")
    if isinstance(schema, list):
        return _parse_union(schema, namespace=namespace, path=path, names=names, where=where, depth=depth)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        full_name = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        known = names.known.get(full_name, names.known.get(schema))
        if known is None:
            raise _unsupported(where, path, f"has the type {schema!r}")
        return known
    if not isinstance(schema, dict) or "type" not in schema:
        raise _broken(where, f"{_subject(path)} has no type.")
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _parse(kind, namespace=namespace, path=path, names=names, where=where, depth=depth + 1)
    if kind == "record":
        return _parse_record(schema, namespace=namespace, path=path, names=names, where=where, depth=depth)
    if kind == "array":
        element = _parse(
            schema.get("items"), namespace=namespace, path=f"{path}.element", names=names, where=where, depth=depth + 1
        )
        return AvroType(
            AvroKind.ARRAY, pa.list_(pa.field("element", element.arrow)), children=(AvroField("element", element),)
        )
    if kind == "map":
        value = _parse(
            schema.get("values"), namespace=namespace, path=f"{path}.value", names=names, where=where, depth=depth + 1
        )
        return AvroType(
            AvroKind.MAP,
            pa.map_(pa.string(), pa.field("value", value.arrow)),
            children=(AvroField("key", _PLAIN["string"]), AvroField("value", value)),
        )
    if kind in ("fixed", "enum"):
        parsed = (_parse_fixed if kind == "fixed" else _parse_enum)(schema, path=path, where=where)
        _, full_name = _full_name(schema, namespace)
        names.known[full_name] = parsed
        return parsed
    return _parse_primitive(schema, path=path, where=where)


def _parse_union(branches: list[Any], *, namespace: str, path: str, names: _Names, where: str, depth: int) -> AvroType:
    others = [branch for branch in branches if branch != "null"]
    if len(others) != 1 or not 1 <= len(branches) <= 2:
        raise _unsupported(where, path, f"is a union of {len(branches)} types")
    inner = _parse(others[0], namespace=namespace, path=path, names=names, where=where, depth=depth + 1)
    # A union of one type still has its branch number.
    null_branch = branches.index("null") if len(branches) == 2 else _NO_BRANCH
    return AvroType(
        kind=inner.kind,
        arrow=inner.arrow,
        null_branch=null_branch,
        fixed_size=inner.fixed_size,
        symbols=inner.symbols,
        children=inner.children,
    )


def _parse_record(
    schema: dict[str, Any], *, namespace: str, path: str, names: _Names, where: str, depth: int
) -> AvroType:
    inner_namespace, full_name = _full_name(schema, namespace)
    names.known[full_name] = None
    fields: list[AvroField] = []
    size = 1
    for entry in schema.get("fields") or ():
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise _broken(where, f"{_subject(path)} has an unnamed field.")
        name = entry["name"]
        child_path = f"{path}.{name}" if path else name
        child = _parse(
            entry.get("type"), namespace=inner_namespace, path=child_path, names=names, where=where, depth=depth + 1
        )
        size += child.size
        if size > _TYPES_MAX:
            raise _unsupported(where, path, f"is made of more than {_TYPES_MAX} types")
        fields.append(AvroField(name, child, entry.get("default")))
    if not fields:
        raise _unsupported(where, path, "is a record without fields")
    if len({child.name for child in fields}) != len(fields):
        raise _unsupported(where, path, "holds two fields of one name")
    parsed = AvroType(
        AvroKind.RECORD,
        pa.struct([child.arrow for child in fields]),
        children=tuple(fields),
    )
    names.known[full_name] = parsed
    return parsed


def _parse_fixed(schema: dict[str, Any], *, path: str, where: str) -> AvroType:
    size, logical = schema.get("size"), schema.get("logicalType")
    if logical is None and isinstance(size, int) and 1 <= size <= _FIXED_BYTES_MAX:
        return AvroType(AvroKind.FIXED, pa.binary(), fixed_size=size)
    if logical != "decimal":
        raise _unsupported(where, path, f"has the type 'fixed' of {size} bytes and the logical type {logical!r}")
    if not isinstance(size, int) or not 1 <= size <= 16:
        raise _unsupported(where, path, f"is a decimal of {size} bytes")
    return AvroType(AvroKind.DECIMAL_FIXED, _decimal(schema, path=path, where=where), fixed_size=size)


def _parse_enum(schema: dict[str, Any], *, path: str, where: str) -> AvroType:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
        raise _unsupported(where, path, "is an enum without symbols")
    return AvroType(AvroKind.ENUM, pa.string(), symbols=tuple(symbols))


def _parse_primitive(schema: dict[str, Any], *, path: str, where: str) -> AvroType:
    kind = schema["type"]
    logical = schema.get("logicalType")
    if logical is None or (kind == "string" and logical == "uuid"):
        if kind in _PLAIN:
            return _PLAIN[kind]
        raise _unsupported(where, path, f"has the type {kind!r}")
    if kind == "bytes" and logical == "decimal":
        return AvroType(AvroKind.DECIMAL_BYTES, _decimal(schema, path=path, where=where))
    if (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    raise _unsupported(where, path, f"has the logical type {logical!r} on {kind!r}")


def _decimal(schema: dict[str, Any], *, path: str, where: str) -> pa.DataType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise _unsupported(where, path, "is a decimal without precision")
    if not 1 <= precision <= _DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        raise _unsupported(where, path, f"is a decimal({precision}, {scale})")
    return pa.decimal128(precision, scale)


def _full_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """(the namespace for types inside, the full name) of a named type."""
    name = str(schema.get("name", ""))
    if "." in name:
        return name.rpartition(".")[0], name
    inner = str(schema.get("namespace") or namespace)
    return inner, f"{inner}.{name}" if inner else name


def _subject(path: str) -> str:
    return f"The field {path}" if path else "The record"


def _broken(where: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The Avro schema of {where} cannot be read.",
        why=why,
        remedy="Restore the file that holds it, or roll back the commit that wrote it.",
    )


def _unsupported(where: str, path: str, why: str) -> Unsupported:
    return Unsupported(
        f"The Avro schema of {where} holds a type that is not supported.",
        why=f"{_subject(path)} {why}.",
        remedy="Compact this table with Hudi itself.",
    )


_PLAIN = {
    "boolean": AvroType(AvroKind.BOOLEAN, pa.bool_()),
    "int": AvroType(AvroKind.INT, pa.int32()),
    "long": AvroType(AvroKind.LONG, pa.int64()),
    "float": AvroType(AvroKind.FLOAT, pa.float32()),
    "double": AvroType(AvroKind.DOUBLE, pa.float64()),
    "bytes": AvroType(AvroKind.BYTES, pa.binary()),
    "string": AvroType(AvroKind.STRING, pa.string()),
}
_LOGICAL = {
    ("int", "date"): AvroType(AvroKind.INT, pa.date32()),
    ("long", "timestamp-millis"): AvroType(AvroKind.LONG, pa.timestamp("ms", "UTC")),
    ("long", "timestamp-micros"): AvroType(AvroKind.LONG, pa.timestamp("us", "UTC")),
    ("long", "local-timestamp-millis"): AvroType(AvroKind.LONG, pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): AvroType(AvroKind.LONG, pa.timestamp("us")),
}


def keeping_nested_floats(schema: pa.Schema) -> pa.Schema:
    """The schema for a table whose readers widen floats in lists and maps of Parquet files to the nearest double.

    So do those of Hudi 1.0 (version 8); those of 1.1 and later use the digits, as all of them do for floats elsewhere.
    """
    return pa.schema([each.with_metadata({**(each.metadata or {}), NESTED_FLOATS_KEY: b""}) for each in schema])
