"""Plans of indexings: which partitions of the metadata table a requested indexing is going to build.

Touches: nothing.
Source:  HoodieIndexPlan (Hudi 1.2).
"""

from __future__ import annotations

from lakeward.format.avro.container import read_record
from lakeward.format.avro.record_fields import RecordFields


def read_indexed_partitions(data: bytes, *, file: str) -> tuple[str, ...]:
    """The names of the partitions. `file` names the plan in errors. Raises `BrokenFile`."""
    plan = RecordFields(read_record(data, file=file), file=file)
    names = (each.text("metadataPartitionPath") for each in plan.records("indexPartitionInfos"))
    return tuple(name for name in names if name)
