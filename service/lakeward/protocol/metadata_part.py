"""The metadata table's part of a commit, the same for a compaction, a clean, an undone clean and a write.

    prepare        no lock   what depends only on the files that come and go, into the attempt's folder
    participants   lock      a delta commit of the same instant, which is complete before the attempt's own commit

Touches: what `protocol/metadata/metadata_writer.py` touches; nothing where the table has no metadata table.
Keeps:   1. a table that has a metadata table under the lock gets a delta commit there, prepared or not;
         2. the writer and its compiled kernels are loaded only where there is a metadata table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.protocol.attempts.attempt import Attempt, StagedParticipant
from lakeward.protocol.lock.table_lock import Fence
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.protocol.metadata.changes import DeletedFile, NewFile
    from lakeward.protocol.metadata.key_changes import WriteChanges
    from lakeward.protocol.metadata.metadata_writer import DeltaCommitWriter
    from lakeward.table.index_definitions import IndexedColumns


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files that a commit brings and takes away, as the metadata table lists them."""

    new: Sequence[NewFile] = ()
    deleted: Sequence[DeletedFile] = ()
    write: WriteChanges | None = None
    """The rest of what a write of rows changes."""


class MetadataPart:
    def __init__(self, table: ServicedTable, attempt: Attempt, *, measured: IndexedColumns | None = None) -> None:
        """
        Args:
            measured: the columns of which the new files have statistics.
        """
        self._table = table
        self._attempt = attempt
        self._measured = measured
        self._writer: DeltaCommitWriter | None = None

    def prepare(self, snapshot: TableSnapshot, changes: Callable[[], FileChanges]) -> None:
        """Do what needs no lock. `snapshot` shows the partitions of the new files whole."""
        if has_metadata_table(snapshot.config):
            self._writer, of = self._open(), changes()
            self._writer.prepare(snapshot, of.new, deleted=of.deleted, write=of.write)

    def participants(
        self, snapshot: TableSnapshot, changes: Callable[[], FileChanges], *, fence: Fence
    ) -> Sequence[StagedParticipant]:
        """Stage the delta commit, by what is so under the lock. Raises `Conflict` as the writer does."""
        if not has_metadata_table(snapshot.config):
            return ()
        writer, of = self._writer or self._open(), changes()
        return (writer.stage(snapshot, of.new, deleted=of.deleted, write=of.write, fence=fence),)

    def _open(self) -> DeltaCommitWriter:
        from lakeward.protocol.metadata.metadata_writer import DeltaCommitWriter

        table, attempt = self._table, self._attempt
        return DeltaCommitWriter(
            table.storage,
            attempt.instant,
            folder=attempt.folder,
            number=table.owner.attempt,
            measured=self._measured,
            clock=table.clock,
        )
