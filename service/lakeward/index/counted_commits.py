"""Which commits count for an index of Lakeward, and since when each was visible.

    completed on the active timeline   counts, since its completion time
    pending there                      does not: its entries are there before readers see its rows
    archived                           counts, since the completion time that the history knows
    nowhere                            does not: it was rolled back

Rollbacks and restores are commits of an index, too: what they brought back is recorded with them.

Touches: storage, reading: the history of the timeline, for commits that are not on the active one.
"""

from __future__ import annotations

from collections.abc import Collection

from lakeward.base.errors import BrokenFile
from lakeward.index.key_changes.table_commits import CHANGING
from lakeward.storage.storage import Storage
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.archived import load_archived_times
from lakeward.table.timeline.timeline import Timeline


def counted_commits(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, instants: Collection[str]
) -> dict[str, str]:
    """Completion times of those of these commits that count. Raises `BrokenFile` where the history cannot be read, for
    then it is not known."""
    active = {
        each.time: each.completion_time or each.time
        for each in timeline.completed
        if each.comparable_action in CHANGING
    }
    pending = {each.time for each in timeline.pending}
    counted = {instant: active[instant] for instant in instants if instant in active}
    absent = [instant for instant in instants if instant not in active and instant not in pending]
    archived = load_archived_times(storage, base_path, config, absent, actions=CHANGING)
    if archived.problems:
        raise BrokenFile(
            "It is unknown which commits of an index count.",
            why=f"The history of the timeline cannot be read: {'; '.join(archived.problems)}",
            remedy="Repair the history, or build the index again.",
        )
    return counted | dict(archived.completion_times)
