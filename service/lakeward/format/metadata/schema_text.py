"""The Avro schema of a new metadata table's records, as JSON: what `format/metadata/record_schema.py` knows, written
out.

Types, names and defaults are those of Hudi 1.2.0, and of 1.0.2 for a table of version 8; the sentences of Hudi's
schema, which no reader asks for, are not there.

Touches: nothing.
Keeps:   the text is one that `parse_metadata_schema` and Hudi's own code take for the release's schema.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.metadata.record_schema import (
    ARRAY_WRAPPER,
    BLOOM_FILTER,
    FILE,
    RECORD_INDEX,
    SECONDARY_INDEX,
    WRAPPERS,
    Shape,
    stats_fields,
)

_TYPED_STATS: Final = "valueType"
_LOGICAL: Final = {"TimeMicrosWrapper": "time-micros"}
_NO_DEFAULT: Final = object()
_DEFAULTS: Final = {"filesystemMetadata": _NO_DEFAULT, "isTightBound": False, "fileIdEncoding": 0}
"""The defaults of fields that have another one than null, where they may be null."""


@cache
def metadata_schema(*, has_typed_stats: bool) -> str:
    """The schema with the meta columns in front, as files have it; the metadata of commits has it without.

    Args:
        has_typed_stats: from table version 9 on, column statistics say their type, and may be of arrays.
    """
    written: set[str] = set()
    wrappers: list[Shape] = [("record", name, (("value", shape),)) for name, shape in WRAPPERS]
    if has_typed_stats:
        items = ("union", "null", *((("record", name, ()) for name, _ in WRAPPERS)))
        wrappers.append(("record", ARRAY_WRAPPER, (("wrappedValues", ("union", "null", ("array", items))),)))
    values: Shape = ("union", "null", *wrappers)
    stats = [
        field
        for field in stats_fields((("", ""), ("", ""), ("minValue", values)))
        if field[0] != _TYPED_STATS or has_typed_stats
    ]
    sections = {
        "BloomFilterMetadata": ("HoodieMetadataBloomFilter", BLOOM_FILTER),
        "ColumnStatsMetadata": ("HoodieMetadataColumnStats", stats),
        "recordIndexMetadata": ("HoodieRecordIndexInfo", RECORD_INDEX),
        "SecondaryIndexMetadata": ("HoodieSecondaryIndexInfo", SECONDARY_INDEX),
    }
    fields = [
        ("key", "string"),
        ("type", "int"),
        ("filesystemMetadata", ("union", "null", ("map", FILE))),
        *((name, ("union", "null", ("record", *section))) for name, section in sections.items()),
    ]
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]
    record = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [*meta, *(_field(name, shape, written) for name, shape in fields)],
    }
    return json.dumps(record, separators=(",", ":"))


def _field(name: str, shape: Shape, written: set[str]) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": _type(shape, written)}
    default = _DEFAULTS.get(name, None if shape[:2] == ("union", "null") else _NO_DEFAULT)
    return field if default is _NO_DEFAULT else {**field, "default": default}


def _type(shape: Shape, written: set[str]) -> Any:
    """The type of a shape; a record that was written before is its name alone."""
    match shape:
        case "string":
            return {"type": "string", "avro.java.string": "String"}
        case str():
            return shape
        case ("union", *branches):
            return [_type(branch, written) for branch in branches]
        case ("array", items):
            return {"type": "array", "items": _type(items, written)}
        case ("map", values):
            return {"type": "map", "values": _type(values, written), "avro.java.string": "String"}
        case ("decimal", precision, scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    _, name, fields = shape
    if name in written:
        return name
    written.add(name)
    of_fields = [_field(field, kind, written) for field, kind in fields]
    if name in _LOGICAL:
        of_fields[0]["type"] = {"type": of_fields[0]["type"], "logicalType": _LOGICAL[name]}
    return {"type": "record", "name": name, "fields": of_fields}
