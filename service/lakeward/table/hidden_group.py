"""A file group whose slices cannot be known for as long as a write goes on: its base file lies on a slice to which
a log went meanwhile, and hides rows that are committed. One of the two gives up in the end, and nothing is wrong.

Touches: nothing.
"""

from __future__ import annotations

from lakeward.base.errors import TryLater
from lakeward.table.file_group import FrozenGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.timeline.timeline import Timeline


def hiding_write(timeline: Timeline, group: FrozenGroup) -> str | None:
    """The pending write that hides rows of the file group; None where it is frozen for its files."""
    return next((each.time for each in timeline.pending if each.time == group.instant), None)


def hidden_for_now(what: str, *, write: str, why: str, group: GroupId, left: str = "") -> TryLater:
    """
    Args:
        what: cannot be done to the file group.
        write: that of `hiding_write`.
        why: the group is frozen.
        left: a sentence on what was written until now.
    """
    return TryLater(
        f"{what} for now.",
        why=f"The write {write} has not ended, and its base file hides rows that were committed since: {why}.",
        remedy="Try again when it has ended; where its process is gone, `lakeward rollback` or the next writer of "
        "Hudi's rolls it back." + (f" {left}" if left else ""),
        file_group=group,
    )
