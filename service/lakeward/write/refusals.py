"""What is asked of a write that the table, or its operation, does not go with.

What prevents any write to a table is in `protocol/refusals/eligibility.py`.

Touches: nothing.
Keeps:   1. the columns of a table that has commits are never guessed from the rows that come;
         2. no delete without ordering values goes into a native log of a table with several ordering fields;
         3. no file of a table of the layout `lsm_tree` is asked to hold a key twice;
         4. what a caller says in the commit takes the place of nothing that Hudi or Lakeward says there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakeward.base.errors import Refused, UsageError
from lakeward.format.timeline.commit_metadata import LATEST_SCHEMA
from lakeward.merge.rules.merge_rules import MergeMode
from lakeward.read.table_rules import merge_rules
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.request import WriteOperation, WriteRequest

_RESERVED: Final = {
    "schema": "Readers and writers take the table's columns from it",
    LATEST_SCHEMA: "Readers and writers take the table's columns, with their ids, from it",
    "_hudi_streaming_sink_checkpoint": "A streaming query of Spark leaves out the batches that it names",
}
"""Entries of a commit's extra metadata that are not the caller's. The checkpoints of Hudi's Streamer are not among
them: other writers carry these on where the Streamer takes turns with them."""
_RESERVED_PREFIX: Final = "lakeward."


def check_request(snapshot: TableSnapshot, request: WriteRequest) -> None:
    """Raises `Refused`, and `UsageError` for the request."""
    _check_table(snapshot)
    _check_commit_metadata(request.extra_metadata)
    names_partitions = request.operation is WriteOperation.DELETE_PARTITION
    if names_partitions != bool(request.partitions):
        raise UsageError(
            "delete_partition takes the paths of partitions, and no other operation does.",
            remedy="Name them for delete_partition; else leave them out.",
        )
    if request.operation is WriteOperation.DELETE:
        _check_deletes(snapshot)
    if request.deduplicate is False and snapshot.config.is_lsm_tree:
        raise UsageError(
            "Rows of one key cannot be kept side by side in a table of the layout lsm_tree.",
            why="Its files are merged by their order, and a key has one row in each; the next merge would fold them.",
            remedy="Leave --keep-duplicates out.",
        )


def _check_commit_metadata(keys: Iterable[str]) -> None:
    for key in keys:
        why = "It is Lakeward's own" if key.startswith(_RESERVED_PREFIX) else _RESERVED.get(key)
        if why is not None:
            raise UsageError(
                f"The commit metadata {key} cannot be given.",
                why=f"{why}.",
                remedy="Give what is said under another key.",
            )


def _check_deletes(snapshot: TableSnapshot) -> None:
    config, rules = snapshot.config, merge_rules(snapshot)
    is_ordered = rules.mode is MergeMode.EVENT_TIME_ORDERING and len(rules.ordering_fields) > 1
    if config.version.has_native_logs and config.is_merge_on_read and is_ordered:
        fields = ", ".join(rules.ordering_fields)
        raise Refused(
            f"Rows of {snapshot.base_path} cannot be deleted by their keys alone.",
            why=f"The table is ordered by {fields}, and Hudi reads a delete without values in a native log as one "
            "that has 0 in each.",
            remedy="Upsert rows that have these values, and true in _hoodie_is_deleted.",
        )


def _check_table(snapshot: TableSnapshot) -> None:
    # A table whose first write died, and was rolled back, has no columns but those that it was made with.
    if snapshot.schema is None and any(each.action != "rollback" for each in snapshot.timeline.completed):
        raise Refused(
            f"Rows cannot be written to {snapshot.base_path}.",
            why="No completed write on the active timeline says what the table's columns are.",
            remedy="Let any Hudi writer commit once.",
        )
