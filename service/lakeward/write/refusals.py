"""What is asked of a write that the table, or its operation, does not go with.

What stands against any write to a table is in `plan/eligibility.py`.

Touches: nothing.
Keeps:   the columns of a table that has commits are never guessed from the rows that come.
"""

from __future__ import annotations

from lakeward.errors import Refused, UsageError
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.request import WriteOperation, WriteRequest


def check_request(snapshot: TableSnapshot, request: WriteRequest) -> None:
    """Raises `Refused`, and `UsageError` for the request."""
    _check_table(snapshot)
    names_partitions = request.operation is WriteOperation.DELETE_PARTITION
    if names_partitions != bool(request.partitions):
        raise UsageError(
            "delete_partition takes the paths of partitions, and no other operation does.",
            remedy="Name them for delete_partition; else leave them out.",
        )


def _check_table(snapshot: TableSnapshot) -> None:
    if snapshot.schema is None and snapshot.timeline.completed:
        raise Refused(
            f"Rows cannot be written to {snapshot.base_path}.",
            why="No completed write on the active timeline says what the table's columns are.",
            remedy="Let any Hudi writer commit once.",
        )
