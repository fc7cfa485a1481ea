"""Deletes that wait for others on their way into a log, since they come a few at a time, and each time they are written
makes a block.

Touches: the writer that it is given.
"""

from __future__ import annotations

from lakeward.format.log.log_writer import LogFileWriter
from lakeward.merge.rules.tombstones import Tombstones


class WaitingDeletes:
    """`write` them at the end, or those that wait are lost."""

    def __init__(self, writer: LogFileWriter, *, partition_path: str, bytes_max: int) -> None:
        self._writer = writer
        self._partition_path = partition_path
        self._bytes_max = bytes_max
        self._waiting: list[Tombstones] = []
        self._bytes = 0

    def add(self, tombstones: Tombstones) -> None:
        self._waiting.append(tombstones)
        self._bytes += tombstones.nbytes
        if self._bytes > self._bytes_max:
            self.write()

    def write(self) -> None:
        if self._waiting:
            found = Tombstones.joined(self._waiting)
            self._writer.write_deletes(found.keys, found.ordering, partition_path=self._partition_path)
        self._waiting, self._bytes = [], 0
