"""The Avro types of text that Hudi's records of the timeline have in common: read as Java's String, and said to be so.

Touches: nothing.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string", "avro.java.string": "String"}
TEXTS = {"type": "array", "items": TEXT}


def by_key(values: Any) -> dict[str, Any]:
    """A map with keys of text."""
    return {"type": "map", "values": values, "avro.java.string": "String"}
