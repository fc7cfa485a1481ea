"""Plans of what replaces file groups: a clustering names those that a pending `clustering` or `replacecommit` is about
to replace, a write names none.

What a completed one replaced is in its commit metadata (`commit_metadata.py`).

Touches: nothing.
Keeps:   names that could lead out of the table are refused (`UntrustedName`), not passed on.
Source:  HoodieRequestedReplaceMetadata of Hudi 1.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import check_file_id, check_relative_path
from lakeward.format.timeline.avro_types import TEXT, by_key

_PLAN = {
    "type": "record",
    "name": "HoodieClusteringPlan",
    "fields": [{"name": "version", "type": ["int", "null"], "default": 1}],
}
_REQUESTED = {
    "type": "record",
    "name": "HoodieRequestedReplaceMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "operationType", "type": ["null", TEXT], "default": None},
        {"name": "clusteringPlan", "type": [_PLAN, "null"]},
        {"name": "extraMetadata", "type": ["null", by_key(TEXT)], "default": None},
        {"name": "version", "type": ["int", "null"], "default": 1},
    ],
}
"""The plan of a write, which is no clustering: the record of one is never written, and has one field of Hudi's."""


def requested_write(operation_type: str | None) -> bytes:
    """The plan of a write that replaces groups.

    Args:
        operation_type: None for insert_overwrite(_table), of which Hudi's plans say nothing at all.
    """
    is_said = operation_type is not None
    record: dict[str, Any] = {
        "operationType": operation_type,
        "clusteringPlan": None,
        "extraMetadata": {} if is_said else None,
        "version": 1 if is_said else None,
    }
    return write_record(_REQUESTED, record)


@dataclass(frozen=True, slots=True)
class RequestedGroup:
    """File groups that become new ones together."""

    file_groups: tuple[tuple[str, str], ...]
    """(partition path, file id), in the plan's order."""
    outputs: int


@dataclass(frozen=True, slots=True)
class RequestedClustering:
    groups: tuple[RequestedGroup, ...]
    strategy: str
    """The Java class that is to carry it out; empty where the plan names none."""
    parameters: Mapping[str, str]


def read_requested_clustering(data: bytes, *, file: str) -> RequestedClustering | None:
    """None for insert_overwrite and delete_partition, whose plans are empty. Raises `BrokenFile`, `UntrustedName`."""
    plan = RecordFields(read_record(data, file=file), file=file).record("clusteringPlan")
    if plan is None:
        return None
    groups = tuple(
        RequestedGroup(
            tuple(
                (check_relative_path(slice_.text("partitionPath") or ""), check_file_id(slice_.text("fileId") or ""))
                for slice_ in group.records("slices")
            ),
            group.integer("numOutputFileGroups") or 1,
        )
        for group in plan.records("inputGroups")
    )
    strategy = plan.record("strategy")
    if strategy is None:
        return RequestedClustering(groups, "", {})
    return RequestedClustering(groups, strategy.text("strategyClassName") or "", strategy.text_by_key("strategyParams"))


def read_clustered_groups(data: bytes, *, file: str) -> tuple[tuple[str, str], ...]:
    """(partition path, file id) of each file group in a requested plan, in its order.

    None for insert_overwrite and delete_partition. Raises `BrokenFile`, `UntrustedName`.
    """
    plan = read_requested_clustering(data, file=file)
    return () if plan is None else tuple(place for group in plan.groups for place in group.file_groups)
