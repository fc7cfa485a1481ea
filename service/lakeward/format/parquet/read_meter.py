"""How much was read of files, as it is counted while they are: a tally that one read hands down to all its files.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ReadMeter:
    """One for a read, or for several that are reported together."""

    rows: int = 0
    """Rows that files gave out, of base files and of logs, whatever happened to them: without those that were left out
    for their keys."""
    row_groups: int = 0
    """Row groups of base files and of Parquet blocks that were read."""
    row_groups_skipped: int = 0
    """Row groups of which the footer said that nothing in them is wanted."""
    bytes_read: int = 0
    """Bytes of rows, as they are stored: those of column chunks and log blocks. Footers and heads are not counted."""
    bytes_stored: int = 0
    """Bytes of all column chunks and log blocks of these files: what a read of everything would have read."""

    def add(self, other: ReadMeter) -> None:
        self.rows += other.rows
        self.row_groups += other.row_groups
        self.row_groups_skipped += other.row_groups_skipped
        self.bytes_read += other.bytes_read
        self.bytes_stored += other.bytes_stored
