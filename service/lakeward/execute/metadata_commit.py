"""Where a service meets the metadata table: what it must know before it merges, and its part of what is published.

A table without one costs nothing here; what writes it is imported only for a table that has one, because it needs the
compiled kernels that a daemon otherwise leaves to its tasks.

Touches: the metadata table, through `commit`.
Keeps:   nothing is scheduled or begun on a table whose metadata table we cannot write to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.commit.metadata_publication import create_announced, publish_by_moving
from lakeward.execute.operation_spec import OperationResult
from lakeward.execute.serviced_table import Fence, ServicedTable
from lakeward.format.instant import comparable_time
from lakeward.storage.storage import RenamingStorage, Storage
from lakeward.table.index_definitions import IndexedColumns, load_indexed_columns
from lakeward.table.metadata_table import has_metadata_table
from lakeward.table.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.commit.metadata_changes import NewFile
    from lakeward.commit.metadata_publication import StagedCommit
    from lakeward.commit.metadata_writer import MetadataCommit
    from lakeward.execute.claim import Claim


def indexed_columns_of(table: ServicedTable, snapshot: TableSnapshot) -> IndexedColumns | None:
    """Of which columns new files need statistics. Raises `Unsupported` and `BrokenFile`."""
    if not has_metadata_table(snapshot.config) or snapshot.schema is None:
        return None
    return load_indexed_columns(table.storage, table.base_path, snapshot.config, snapshot.schema)


def latest_time(table: ServicedTable, snapshot: TableSnapshot) -> str | None:
    """The greatest time on both timelines. Raises `Unsupported` and `BrokenFile` where we could not write to the
    metadata table."""
    if not has_metadata_table(snapshot.config) or snapshot.schema is None:
        return snapshot.timeline.latest_time
    from lakeward.commit.metadata_look import look_at_metadata

    look = look_at_metadata(table.storage, snapshot, clock=table.clock)
    return later(snapshot.timeline.latest_time, look.table.timeline.latest_time)


def later(*times: str | None) -> str | None:
    return max((time for time in times if time is not None), key=comparable_time, default=None)


def open_metadata_commit(table: ServicedTable, claim: Claim) -> MetadataCommit:
    from lakeward.commit.metadata_writer import MetadataCommit

    return MetadataCommit(
        table.storage,
        claim.instant,
        folder=claim.attempt.folder,
        number=table.owner.attempt,
        measured=claim.indexed,
        clock=table.clock,
    )


def publish_metadata(
    storage: RenamingStorage, claim: Claim, staged: StagedCommit, completion_time: str, fence: Fence
) -> None:
    """In a file system, where the data table's commit is on its own."""
    publish_by_moving(storage, staged, completion_time, is_pending=claim.files.is_inflight, fence=fence)


def announce_with_metadata(
    storage: Storage, claim: Claim, staged: StagedCommit, completion_time: str, fence: Fence, completed: str
) -> None:
    """In an object store: announce the metadata table's commit and the data table's, and make the former."""
    name = staged.files.completed(completion_time).rpartition("/")[2]
    claim.heartbeat.announce(completed, metadata=name)
    create_announced(
        storage,
        staged.files,
        name,
        instant=claim.instant,
        metadata_path=staged.metadata_path,
        folder=staged.folder,
        fence=fence,
    )
    fence()


def new_files(results: Sequence[OperationResult]) -> list[NewFile]:
    from lakeward.commit.metadata_changes import NewFile

    return [
        NewFile(result.partition_path, result.file_id, result.file_name, result.size_bytes, result.column_stats)
        for result in results
    ]
