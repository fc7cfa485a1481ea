"""What the savepoints of a table cost, for the commands that show it.

Touches: the table, reading only: one read for each savepoint.
"""

from __future__ import annotations

from lakeward.cli.configured_table import ConfiguredTable
from lakeward.services.savepoint.plan import Pinned, pinned_by
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.savepoints import read_savepoints


def find_pinned(opened: ConfiguredTable, snapshot: TableSnapshot) -> list[Pinned]:
    """Oldest first; the snapshot is of the whole table."""
    savepoints = read_savepoints(opened.storage, opened.base_path, snapshot.config, snapshot.timeline)
    return pinned_by(savepoints, snapshot)
