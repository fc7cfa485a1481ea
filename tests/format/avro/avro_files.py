"""Looking at Avro files and their schemas without the code under test."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

_CHANGE_NOTHING = {"doc", "avro.java.string"}
_HOLD_SCHEMAS = {"type", "fields", "items", "values"}


def avro_schema(data: bytes) -> Any:
    """The schema in the head of a container, as it is encoded there."""
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def semantics(schema: Any) -> Any:
    """A schema without what changes no byte and no reader: docs, Java's string class, defaults of no field."""
    if isinstance(schema, list):
        return [semantics(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = _CHANGE_NOTHING | ({"default"} if schema.get("type") in ("array", "map") else set())
    kept = {
        key: semantics(value) if key in _HOLD_SCHEMAS else value for key, value in schema.items() if key not in dropped
    }
    return kept["type"] if kept.keys() == {"type"} and isinstance(kept["type"], str) else kept
