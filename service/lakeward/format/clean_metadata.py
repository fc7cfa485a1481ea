"""What a completed clean says that it deleted: an Avro file in both layouts.

    partition path -> names of the files deleted, names of those that could not be, whether the partition went too

Touches: nothing.
Keeps:   names that could lead out of the table are refused (`UntrustedName`), not passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.format.avro_container import read_record
from lakeward.format.file_name import check_relative_path
from lakeward.format.record_fields import RecordFields

VERSION = 2
"""In version 1 files are named by their paths."""


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    is_partition_deleted: bool = False


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    version: int | None
    partitions: Mapping[str, CleanedPartition] = field(default_factory=dict)


def read_clean_metadata(data: bytes, *, file: str) -> CleanMetadata:
    """The content of a completed clean. Raises `BrokenFile`, `UntrustedName`."""
    fields = RecordFields(read_record(data, file=file), file=file)
    return CleanMetadata(
        version=fields.integer("version"),
        partitions={
            check_relative_path(path): CleanedPartition(
                deleted=each.texts("successDeleteFiles"),
                failed=each.texts("failedDeleteFiles"),
                is_partition_deleted=each.boolean("isPartitionDeleted") or False,
            )
            for path, each in fields.record_by_key("partitionMetadata").items()
        },
    )
