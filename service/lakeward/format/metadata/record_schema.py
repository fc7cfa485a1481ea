"""The Avro schema of metadata table records, which every base file and log block carries: text in, its layout out.

    _hoodie_* columns | key | type | filesystemMetadata | BloomFilterMetadata | ColumnStatsMetadata |
    recordIndexMetadata | SecondaryIndexMetadata

Releases only ever added fields to the end of a record, and wrappers to the end of a union. So a schema is described by
how much of the one that we know it has; nullable fields behind those are a newer release's, and can be known to be
null.

Touches: nothing.
Keeps:   a schema whose known part differs in anything but documentation and defaults is refused, so that the codec may
         take the layout for granted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from lakeward.base.errors import Unsupported

_DEPTH_MAX = 16

Shape = Any
"""A primitive's name, or a tuple that begins with what it is."""
Fields = tuple[tuple[str, Shape], ...]


def _nullable(shape: Shape) -> Shape:
    return ("union", "null", shape)


def _record(name: str, *fields: tuple[str, Shape]) -> Shape:
    return ("record", name, fields)


_DECIMAL = ("decimal", 30, 15)
WRAPPERS = (
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", "string"),
    ("DateWrapper", "int"),
    ("DecimalWrapper", _DECIMAL),
    ("TimeMicrosWrapper", "long"),
    ("TimestampMicrosWrapper", "long"),
    ("LocalDateWrapper", "int"),
)
ARRAY_WRAPPER = "ArrayWrapper"
"""The last one. What it wraps does not matter: no column with statistics is an array."""

FILE = _record("HoodieMetadataFileInfo", ("size", "long"), ("isDeleted", "boolean"))
VALUE_TYPE = _record("HoodieValueTypeInfo", ("typeOrdinal", "int"), ("additionalInfo", _nullable("string")))
BLOOM_FILTER: Fields = (
    ("type", "string"),
    ("timestamp", "string"),
    ("bloomFilter", "bytes"),
    ("isDeleted", "boolean"),
)
RECORD_INDEX: Fields = (
    ("partitionName", _nullable("string")),
    ("fileIdHighBits", _nullable("long")),
    ("fileIdLowBits", _nullable("long")),
    ("fileIndex", _nullable("int")),
    ("fileId", _nullable("string")),
    ("instantTime", _nullable("long")),
    ("fileIdEncoding", "int"),
    ("position", _nullable("long")),  # 1.0
)
SECONDARY_INDEX: Fields = (("isDeleted", "boolean"),)

_SECTIONS: tuple[tuple[str, str, Fields | None, int], ...] = (
    ("BloomFilterMetadata", "HoodieMetadataBloomFilter", BLOOM_FILTER, 4),
    ("ColumnStatsMetadata", "HoodieMetadataColumnStats", None, 9),
    ("recordIndexMetadata", "HoodieRecordIndexInfo", RECORD_INDEX, 7),
    ("SecondaryIndexMetadata", "HoodieSecondaryIndexInfo", SECONDARY_INDEX, 1),
)
"""Field, record, its fields (None: `stats_fields` says), and how many of them every release since 0.14 has."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The layout of a record inside of the metadata record."""

    fields: int
    """How many of those that we know it has."""
    others: int = 0
    """How many nullable ones behind those."""


@dataclass(frozen=True, slots=True)
class MetadataSchema:
    """How much of the schema that we know a schema has. Layouts are None where the whole record is missing."""

    meta_columns: int
    bloom_filter: RecordLayout | None
    stats: RecordLayout | None
    wrappers: int
    """Wrappers of the values in `stats`."""
    record_index: RecordLayout | None
    secondary_index: RecordLayout | None
    others: int
    """Nullable fields behind all of those."""


def parse_metadata_schema(schema_json: str) -> MetadataSchema:
    """Raises `Unsupported` for a schema that is not a metadata table's as we know it."""
    try:
        name, fields = _record_of(_Shapes().shape(orjson.loads(schema_json), 0))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unsupported(f"It cannot be understood: {error}.") from None
    if name != "HoodieMetadataRecord":
        raise _unsupported(f"It is of records called {name!r}.")
    meta_columns = 0
    while fields and fields[0][0].startswith("_hoodie_"):
        if fields[0][1] != _nullable("string"):
            raise _unsupported(f"Its column {fields[0][0]} is not a nullable string.")
        fields = fields[1:]
        meta_columns += 1
    files = _nullable(("map", FILE))
    for expected in (("key", "string"), ("type", "int"), ("filesystemMetadata", files)):
        if fields[:1] != (expected,):
            raise _unsupported(f"Its field {expected[0]} is not where or what it should be.")
        fields = fields[1:]

    layouts: list[RecordLayout | None] = []
    wrappers = 0
    for field, record, known, fields_min in _SECTIONS:
        if not fields or fields[0][0] != field:
            layouts.append(None)
            continue
        nested = _nested(field, fields[0][1], record)
        if known is None:
            wrappers = _count_wrappers(nested)
        layouts.append(_layout(field, nested, known or stats_fields(nested), fields_min))
        fields = fields[1:]
    return MetadataSchema(
        meta_columns=meta_columns,
        bloom_filter=layouts[0],
        stats=layouts[1],
        wrappers=wrappers,
        record_index=layouts[2],
        secondary_index=layouts[3],
        others=_count_others("It", fields),
    )


def _record_of(shape: Shape) -> tuple[str, Fields]:
    match shape:
        case ("record", str(name), tuple(fields)):
            return name, fields
    raise ValueError("it is no record")


def _nested(field: str, shape: Shape, record: str) -> Fields:
    match shape:
        case ("union", "null", ("record", name, tuple(fields))) if name == record:
            return fields
    raise _unsupported(f"Its field {field} is not a nullable {record}.")


def stats_fields(fields: Fields) -> Fields:
    """All that we know, with values as they are: `_count_wrappers` judges those."""
    values = fields[2][1]
    return (
        ("fileName", _nullable("string")),
        ("columnName", _nullable("string")),
        ("minValue", values),
        ("maxValue", values),
        ("valueCount", _nullable("long")),
        ("nullCount", _nullable("long")),
        ("totalSize", _nullable("long")),
        ("totalUncompressedSize", _nullable("long")),
        ("isDeleted", "boolean"),
        ("isTightBound", "boolean"),  # 1.0
        ("valueType", _nullable(VALUE_TYPE)),  # 1.1
    )


def _count_wrappers(fields: Fields) -> int:
    """How many wrappers a value may lie in."""
    match fields:
        case (_, _, ("minValue", ("union", "null", *wrappers)), *_):
            plain = tuple(_record(name, ("value", shape)) for name, shape in WRAPPERS)
            arrays = wrappers[len(plain) :]
            if tuple(wrappers[: len(plain)]) == plain[: len(wrappers)] and (
                not arrays or (len(arrays) == 1 and arrays[0][:2] == ("record", ARRAY_WRAPPER))
            ):
                return len(wrappers)
    raise _unsupported("The values of its column statistics lie in wrappers that this release does not know.")


def _layout(field: str, fields: Fields, known: Fields, fields_min: int) -> RecordLayout:
    count = 0
    while count < min(len(fields), len(known)) and fields[count] == known[count]:
        count += 1
    if count < fields_min:
        raise _unsupported(f"Its field {field} differs from what this release knows.")
    return RecordLayout(fields=count, others=_count_others(f"Its field {field}", fields[count:]))


def _count_others(what: str, fields: Fields) -> int:
    for name, shape in fields:
        if not isinstance(shape, tuple) or shape[:2] != ("union", "null"):
            raise _unsupported(f"{what} has a field {name!r} that this release does not know.")
    return len(fields)


class _Shapes:
    """Schemas without documentation and defaults; names are replaced by what they name."""

    def __init__(self) -> None:
        self._records: dict[str, Shape] = {}

    def shape(self, schema: Any, depth: int) -> Shape:
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        match schema:
            case "null" | "boolean" | "int" | "long" | "float" | "double" | "bytes" | "string":
                return schema
            case str():
                return self._records[schema.rpartition(".")[2]]
            case list():
                return ("union", *(self.shape(branch, depth + 1) for branch in schema))
            case {"type": "record", "name": str(name), "fields": list(fields)}:
                short = name.rpartition(".")[2]
                of_fields = tuple((str(field["name"]), self.shape(field["type"], depth + 1)) for field in fields)
                self._records[short] = ("record", short, of_fields)
                return self._records[short]
            case {"type": "map", "values": values}:
                return ("map", self.shape(values, depth + 1))
            case {"type": "array", "items": items}:
                return ("array", self.shape(items, depth + 1))
            case {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}:
                return ("decimal", precision, scale)
            case {"type": inner}:
                return self.shape(inner, depth + 1)
        raise ValueError("it holds something that is no type")


def _unsupported(why: str) -> Unsupported:
    return Unsupported(
        "The schema of the metadata table's records is not supported.",
        why=why,
        remedy="Use the Hudi release that wrote the metadata table, or have one that this release supports rebuild it.",
    )
