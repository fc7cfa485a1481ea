"""What the savepoints of a table cost, for the commands that show it.

Touches: the table, reading only: one listing of its timeline, and of its folders where there is a savepoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakeward.cli.configured_table import open_table
from lakeward.clock import SystemClock
from lakeward.plan.savepointing import Pinned, pinned_by
from lakeward.table.past_slices import scan_past_slices
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.savepoints import read_savepoints
from lakeward.table.timeline.timeline import load_timeline


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    savepoints: tuple[Pinned, ...]
    begun: tuple[str, ...]
    """Instants of savepoints that are not completed, and so keep nothing."""
    now: float
    """Seconds since the epoch, for their ages."""


def find_pinned_files(table: str, config: Path | None) -> PinnedFiles:
    opened, clock = open_table(table, config), SystemClock()
    properties = load_table_config(opened.storage, opened.base_path, clock=clock).config
    timeline = load_timeline(opened.storage, opened.base_path, properties)
    savepoints = read_savepoints(opened.storage, opened.base_path, properties, timeline)
    pinned: list[Pinned] = []
    if savepoints:
        past = scan_past_slices(opened.storage, opened.base_path, properties, timeline)
        pinned = pinned_by(savepoints, past.view(), past.sizes)
    begun = tuple(each.time for each in timeline.pending if each.action == "savepoint")
    return PinnedFiles(tuple(pinned), begun, clock.now())
