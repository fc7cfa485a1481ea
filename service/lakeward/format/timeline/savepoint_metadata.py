"""What a completed savepoint says: which files it keeps, and for whom. Avro in both layouts.

    partition path -> names of the files as of the commit that the savepoint is of

Touches: nothing.
Keeps:   1. read_savepoint_metadata(write_savepoint_metadata(metadata)) == metadata;
         2. names that could lead out of the table are refused (`UntrustedName`), not passed on;
         3. what is written is in the schema of Hudi 1.2, to the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import check_plain_name, check_relative_path
from lakeward.format.timeline.avro_types import TEXT, TEXTS, by_key

VERSION = 1


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    user: str
    comment: str
    files: Mapping[str, tuple[str, ...]]
    """Names of the files that it keeps, by partition path."""
    milliseconds: int = 0
    """When it was made, since the epoch. Hudi writes 0."""


_PARTITION = {
    "type": "record",
    "name": "HoodieSavepointPartitionMetadata",
    "fields": [
        {"name": "partitionPath", "type": TEXT},
        {"name": "savepointDataFile", "type": TEXTS},
    ],
}

_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieSavepointMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "savepointedBy", "type": TEXT},
        {"name": "savepointedAt", "type": "long"},
        {"name": "comments", "type": TEXT},
        {"name": "partitionMetadata", "type": by_key(_PARTITION)},
        {"name": "version", "type": ["int", "null"], "default": 1},
    ],
}


def read_savepoint_metadata(data: bytes, *, file: str) -> SavepointMetadata:
    """The content of a completed savepoint. Raises `BrokenFile`, `UntrustedName`."""
    fields = RecordFields(read_record(data, file=file), file=file)
    return SavepointMetadata(
        user=fields.text("savepointedBy") or "",
        comment=fields.text("comments") or "",
        files={
            check_relative_path(path): tuple(check_plain_name(name) for name in each.texts("savepointDataFile"))
            for path, each in fields.record_by_key("partitionMetadata").items()
        },
        milliseconds=fields.integer("savepointedAt") or 0,
    )


def write_savepoint_metadata(metadata: SavepointMetadata) -> bytes:
    """The bytes of a completed savepoint, in either layout."""
    return write_record(
        _SCHEMA,
        {
            "savepointedBy": metadata.user,
            "savepointedAt": metadata.milliseconds,
            "comments": metadata.comment,
            "partitionMetadata": {
                check_relative_path(path): {"partitionPath": path, "savepointDataFile": list(names)}
                for path, names in metadata.files.items()
            },
            "version": VERSION,
        },
    )
