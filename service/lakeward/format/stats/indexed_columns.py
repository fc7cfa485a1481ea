"""Which columns column_stats and partition_stats cover, and of what type each is.

    the columns that the index definitions name; without any, the first 32 of the table's columns that can have
    statistics, as Hudi takes them unless its writers say otherwise
    and always, where the table has meta columns: commit time, record key, partition path

Nested columns are named with dots and are covered only where the index definitions name them.

Touches: nothing.
Keeps:   equal schemas and definitions give the same columns in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.stats.stats_value import StatsVersion, ValueKind, ValueType, value_type_of

INDEXED_META_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
DEFAULT_COLUMNS_MAX = 32

# Hudi's own kinds of record and fixed, which have no order.
_UNORDERED_LOGICAL_TYPES = ("variant", "blob", "vector")
# A decimal of version 1 is kept with this many digits, these many of them behind the point.
_V1_DECIMAL = (30, 15)


def indexed_columns(
    schema_json: str,
    source_fields: Sequence[str],
    *,
    version: StatsVersion,
    has_meta_columns: bool = True,
) -> dict[str, Any]:
    """Column → its Avro type, with names of types resolved at the top.

    Args:
        schema_json: the table's, with or without meta columns.
        source_fields: of column_stats in the index definitions; empty where they do not name any.
        has_meta_columns: `hoodie.populate.meta.fields`.
    """
    try:
        record = json.loads(schema_json)
        fields = {field["name"]: field["type"] for field in record["fields"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BrokenFile("The table schema cannot be read.", why="It is not a record in JSON.") from None
    columns: dict[str, Any] = dict.fromkeys(INDEXED_META_COLUMNS, "string") if has_meta_columns else {}
    if source_fields:
        found = ((name, _find(fields, name)) for name in source_fields)
        return columns | {
            name: kind for name, kind in found if name not in INDEXED_META_COLUMNS and _has_statistics(kind, version)
        }
    own = [name for name in fields if name not in (*META_COLUMNS, "_hoodie_operation")]
    covered = [name for name in own if _has_statistics(fields[name], version)]
    return columns | {name: fields[name] for name in covered[:DEFAULT_COLUMNS_MAX]}


def _find(fields: dict[str, Any], column: str) -> Any:
    """The type of a column, maybe below others; None if it is not there."""
    if column in fields:
        return fields[column]
    name, dot, below = column.partition(".")
    kind = _not_null(fields.get(name))
    if not dot or not isinstance(kind, dict) or kind.get("type") != "record":
        return None
    return _find({field["name"]: field["type"] for field in kind.get("fields", ())}, below)


def _not_null(kind: Any) -> Any:
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        return others[0] if len(others) == 1 else None
    return kind


def _has_statistics(kind: Any, version: StatsVersion) -> bool:
    plain = _not_null(kind)
    if plain is None or (isinstance(plain, dict) and plain.get("logicalType") in _UNORDERED_LOGICAL_TYPES):
        return False
    try:
        found = value_type_of(plain, where="")
    except Unsupported:
        return False
    return version is StatsVersion.V2 or _fits_v1(found)


def _fits_v1(kind: ValueType) -> bool:
    if kind.kind is not ValueKind.DECIMAL:
        return True
    precision, scale = kind.precision or 0, kind.scale or 0
    return scale <= _V1_DECIMAL[1] and precision - scale <= _V1_DECIMAL[0] - _V1_DECIMAL[1]
