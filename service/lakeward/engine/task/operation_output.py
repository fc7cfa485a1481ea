"""The place at which an operation writes a file of its own, and what must be so before and after.

    file system     into the attempt's folder, which is never created here: a task that wakes up after its attempt was
                    rolled back or committed finds no folder and fails, instead of leaving a file behind
    object store    to its final place, since nothing can be moved there later. The marker comes first; the heartbeat
                    must name the attempt before the first byte, and again just before the upload ends

Touches: the file; in an object store its marker, too.
Keeps:   a file whose writing failed is not there, or is in no place that a reader lists.
See:     docs/decisions/0012-attempts-in-object-stores.md
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakeward.base.paths import join
from lakeward.format.file_name import WriteToken
from lakeward.format.metadata.base_file_stats import columns_to_watch, read_column_stats
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.stats.column_range import ColumnRangeAccumulator
from lakeward.protocol.attempts.attempt_files import Winner
from lakeward.protocol.attempts.fencing import fencing_of
from lakeward.storage.storage import Storage
from lakeward.table.index_definitions import IndexedColumns


@dataclass(frozen=True, slots=True)
class OutputPlace:
    base_path: str
    partition_path: str
    instant: str
    attempt: int
    """The attempt's number, part of the write token."""
    attempt_folder: str
    index: int
    """Place of the task's work among that of the attempt, from 0; part of the write token, too."""

    def token(self, task_attempt: int) -> str:
        """Two attempts of a task never write to the same name."""
        return str(WriteToken(self.index, self.attempt, task_attempt))

    def done_path(self, task_attempt: int, *, rows: int) -> str:
        """An empty file whose name says how far we are: a view of progress needs one listing and no read."""
        return join(self.attempt_folder, f"{self.index}-{task_attempt}.{rows}-rows.done")


def output_path(storage: Storage, place: OutputPlace, name: str) -> str:
    return fencing_of(storage).output_path(place.base_path, place.attempt_folder, place.partition_path, name)


def open_operation_output(
    storage: Storage, place: OutputPlace, name: str, *, replaces_base_file: bool = False
) -> AbstractContextManager[BinaryIO]:
    """Raises `AttemptLost` in an object store, `NotFound` in a file system, when the attempt is over."""
    output = Winner(place.partition_path, name, replaces_base_file)
    return fencing_of(storage).open_output(place.base_path, place.instant, place.attempt, place.attempt_folder, output)


_WEIGHINGS = 16
"""At most so often, and as often again as rows shrink by being encoded: each time waits for the encoder."""


class SizeWatch:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._unweighed_bytes = 0

    def add(self, size_bytes: int) -> None:
        """So much was written, before it is encoded."""
        self._unweighed_bytes += size_bytes

    def is_full(self, estimate_size: Callable[[], int]) -> bool:
        """The answer as far as it can be known.

        Args:
            estimate_size: about how many bytes the file would have if it were closed now.
        """
        if self._unweighed_bytes < self._bytes_max // _WEIGHINGS:
            return False
        self._unweighed_bytes = 0
        return estimate_size() >= self._bytes_max


class FileStatistics:
    """One file has one of these."""

    def __init__(self, indexed: IndexedColumns | None, schema: pa.Schema) -> None:
        """
        Args:
            indexed: None where the metadata table wants none.
            schema: of the rows.
        """
        self._indexed = indexed
        watched = columns_to_watch(indexed.columns, schema) if indexed is not None else ()
        tops = {column.partition(".")[0] for column in watched}
        self._watched = pa.schema([column for column in schema if column.name in tops])
        self._ranges = ColumnRangeAccumulator(watched, self._watched)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows that are written, all of them."""
        self._ranges.add(rows.select(self._watched.names))

    def records(self, storage: Storage, path: str) -> tuple[ColumnStatsRecord, ...]:
        """What the metadata table is to hold of the file, which is whole."""
        if self._indexed is None:
            return ()
        columns, version, name = self._indexed.columns, self._indexed.version, path.rpartition("/")[2]
        with storage.open_input(path) as source:
            found = read_column_stats(source, columns, file_name=name, version=version, seen=self._ranges.ranges)
        return tuple(found)
