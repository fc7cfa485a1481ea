"""The schemas of metadata table records by release, as Hudi's files carry them but for documentation and defaults."""

from __future__ import annotations

import json
from typing import Any

NAMESPACE = "org.apache.hudi.avro.model"
TEXT = {"type": "string", "avro.java.string": "String"}
RELEASES = ("0.15", "1.0", "1.2")

WRAPPERS = (
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", TEXT),
    ("DateWrapper", "int"),
    ("DecimalWrapper", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    ("TimeMicrosWrapper", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicrosWrapper", "long"),
    ("LocalDateWrapper", "int"),
)


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
    }


def nullable(kind: Any) -> list[Any]:
    return ["null", kind]


def metadata_schema(release: str = "1.2", *, meta_columns: bool = True) -> dict[str, Any]:
    """The schema, to be changed by the test that asked for it."""
    generation = RELEASES.index(release)
    count = len(WRAPPERS) - (generation == 0)
    wrappers = [record(name, value=kind) for name, kind in WRAPPERS[:count]]
    names = [name for name, _ in WRAPPERS[:count]]
    if generation == 2:
        wrappers.append(record("ArrayWrapper", wrappedValues=nullable({"type": "array", "items": ["null", *names]})))
        names.append("ArrayWrapper")
    stats = {
        "fileName": nullable(TEXT),
        "columnName": nullable(TEXT),
        "minValue": ["null", *wrappers],
        "maxValue": ["null", *names],
        "valueCount": nullable("long"),
        "nullCount": nullable("long"),
        "totalSize": nullable("long"),
        "totalUncompressedSize": nullable("long"),
        "isDeleted": "boolean",
    }
    record_index = {
        "partitionName": nullable(TEXT),
        "fileIdHighBits": nullable("long"),
        "fileIdLowBits": nullable("long"),
        "fileIndex": nullable("int"),
        "fileId": nullable(TEXT),
        "instantTime": nullable("long"),
        "fileIdEncoding": "int",
    }
    secondary: dict[str, Any] = {}
    if generation >= 1:
        stats["isTightBound"] = "boolean"
        record_index["position"] = nullable("long")
        secondary["SecondaryIndexMetadata"] = nullable(record("HoodieSecondaryIndexInfo", isDeleted="boolean"))
    if generation >= 2:
        value_type = record("HoodieValueTypeInfo", typeOrdinal="int", additionalInfo=nullable(TEXT))
        stats["valueType"] = nullable(value_type)
    file = record("HoodieMetadataFileInfo", size="long", isDeleted="boolean")
    bloom = record("HoodieMetadataBloomFilter", type=TEXT, timestamp=TEXT, bloomFilter="bytes", isDeleted="boolean")
    meta = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name") if meta_columns else ()
    whole = record(
        "HoodieMetadataRecord",
        **{f"_hoodie_{name}": nullable("string") for name in meta},
        key=TEXT,
        type="int",
        filesystemMetadata=nullable({"type": "map", "values": file, "avro.java.string": "String"}),
        BloomFilterMetadata=nullable(bloom),
        ColumnStatsMetadata=nullable(record("HoodieMetadataColumnStats", **stats)),
        recordIndexMetadata=nullable(record("HoodieRecordIndexInfo", **record_index)),
        **secondary,
    )
    return whole | {"namespace": NAMESPACE}


def metadata_schema_json(release: str = "1.2") -> str:
    return json.dumps(metadata_schema(release))
