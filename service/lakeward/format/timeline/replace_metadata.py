"""Plans of clustering: which file groups a pending `clustering` or `replacecommit` is about to replace.

What a completed one replaced is in its commit metadata (`commit_metadata.py`).

Touches: nothing.
Keeps:   names that could lead out of the table are refused (`UntrustedName`), not passed on.
"""

from __future__ import annotations

from lakeward.format.avro.container import read_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.file_name import check_file_id, check_relative_path


def read_clustered_groups(data: bytes, *, file: str) -> tuple[tuple[str, str], ...]:
    """(partition path, file id) of each file group in a requested plan, in its order.

    None for insert_overwrite and delete_partition, whose plans are empty. Raises `BrokenFile`, `UntrustedName`.
    """
    plan = RecordFields(read_record(data, file=file), file=file).record("clusteringPlan")
    if plan is None:
        return ()
    slices = [slice_ for group in plan.records("inputGroups") for slice_ in group.records("slices")]
    return tuple(
        (check_relative_path(slice_.text("partitionPath") or ""), check_file_id(slice_.text("fileId") or ""))
        for slice_ in slices
    )
