"""What a completed clean says that it deleted: an Avro file in both layouts.

    partition path -> names of the files deleted, names of those that could not be, whether the partition went too

Touches: nothing.
Keeps:   1. names that could lead out of the table are refused (`UntrustedName`), not passed on;
         2. what is written is in the schema of Hudi 1.2, to the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import check_relative_path
from lakeward.format.timeline.avro_types import TEXT, TEXTS, by_key

VERSION = 2
"""In version 1 files are named by their paths."""

KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
"""The policy by which older slices stay that any of the last commits could still be read from."""


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    is_partition_deleted: bool = False


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    version: int | None
    partitions: Mapping[str, CleanedPartition] = field(default_factory=dict)
    instant: str = ""
    milliseconds: int = 0
    earliest_retained: str = ""
    """The instant as of which, and after which, everything can still be read; the next clean of Hudi begins there."""
    last_completed: str = ""
    """The last commit that the cleaner knew of."""
    policy: str = KEEP_LATEST_COMMITS
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    """The plan's, from which Hudi's next clean learns which savepoints there were."""


_VERSION = {"name": "version", "type": ["int", "null"], "default": 1}
_EXTRA = {**by_key(TEXT), "default": None}

_PARTITION = {
    "type": "record",
    "name": "HoodieCleanPartitionMetadata",
    "fields": [
        {"name": "partitionPath", "type": TEXT},
        {"name": "policy", "type": TEXT},
        {"name": "deletePathPatterns", "type": TEXTS},
        {"name": "successDeleteFiles", "type": TEXTS},
        {"name": "failedDeleteFiles", "type": TEXTS},
        {"name": "isPartitionDeleted", "type": ["null", "boolean"], "default": None},
    ],
}

_BY_PARTITION = by_key(_PARTITION)
_BOOTSTRAP = {**by_key(_PARTITION["name"]), "default": None}

_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieCleanMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "startCleanTime", "type": TEXT},
        {"name": "timeTakenInMillis", "type": "long"},
        {"name": "totalFilesDeleted", "type": "int"},
        {"name": "earliestCommitToRetain", "type": TEXT},
        {"name": "lastCompletedCommitTimestamp", "type": TEXT, "default": ""},
        {"name": "partitionMetadata", "type": _BY_PARTITION},
        _VERSION,
        {"name": "bootstrapPartitionMetadata", "type": ["null", _BOOTSTRAP], "default": None},
        {"name": "extraMetadata", "type": ["null", _EXTRA], "default": None},
    ],
}


def read_clean_metadata(data: bytes, *, file: str) -> CleanMetadata:
    """The content of a completed clean. Raises `BrokenFile`, `UntrustedName`."""
    fields = RecordFields(read_record(data, file=file), file=file)
    partitions = fields.record_by_key("partitionMetadata")
    policies = {each.text("policy") or "" for each in partitions.values()}
    return CleanMetadata(
        version=fields.integer("version"),
        partitions={
            check_relative_path(path): CleanedPartition(
                deleted=each.texts("successDeleteFiles"),
                failed=each.texts("failedDeleteFiles"),
                is_partition_deleted=each.boolean("isPartitionDeleted") or False,
            )
            for path, each in partitions.items()
        },
        instant=fields.text("startCleanTime") or "",
        milliseconds=fields.integer("timeTakenInMillis") or 0,
        earliest_retained=fields.text("earliestCommitToRetain") or "",
        last_completed=fields.text("lastCompletedCommitTimestamp") or "",
        policy=min(policies, default=KEEP_LATEST_COMMITS),
        extra_metadata=fields.text_by_key("extraMetadata"),
    )


def write_clean_metadata(metadata: CleanMetadata) -> bytes:
    """The bytes of a completed clean, in either layout."""
    assert metadata.version == VERSION, "older versions are read only"
    return write_record(
        _SCHEMA,
        {
            "startCleanTime": metadata.instant,
            "timeTakenInMillis": metadata.milliseconds,
            "totalFilesDeleted": sum(len(each.deleted) for each in metadata.partitions.values()),
            "earliestCommitToRetain": metadata.earliest_retained,
            "lastCompletedCommitTimestamp": metadata.last_completed,
            "partitionMetadata": {
                check_relative_path(path): {
                    "partitionPath": path,
                    "policy": metadata.policy,
                    "deletePathPatterns": [*each.deleted, *each.failed],
                    "successDeleteFiles": list(each.deleted),
                    "failedDeleteFiles": list(each.failed),
                    "isPartitionDeleted": each.is_partition_deleted,
                }
                for path, each in metadata.partitions.items()
            },
            "version": metadata.version,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": dict(metadata.extra_metadata),
        },
    )
