"""Whether Hudi's readers heed `_hoodie_operation` in a table: neither its properties nor its schema say so.

They ask the newest write that inserted or updated rows for the first file that it names with some: where that file has
the column they read it in all files, and fail on log blocks without it; else they take every row for a row.

Touches: storage, reading one commit (a few, where only deletes came since) and the head or foot of one file.
Keeps:   1. True only where that file has the column; one that is gone or cannot be read has not, as to them;
         2. logs that these readers would read otherwise than they are merged here, or not at all, are `Unsupported`.
Source:  Hudi 1.2.0, TableSchemaResolver.hasOperationField; tables of its own.
See:     docs/decisions/0052-rows-without-keys-and-rows-in-part.md
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.errors import BrokenFile, NotFound, Unsupported, UntrustedName
from lakeward.format.file_name import parse_any_log, resolve
from lakeward.format.log.block import LogBlock
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, read_commit_metadata
from lakeward.merge.rules.merge_rules import OPERATION_FIELD
from lakeward.read.logs.log_scan import read_heads
from lakeward.read.operation_column import data_blocks, has_operation
from lakeward.storage.storage import Storage, is_of_storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.instant_content import InstantContents


def heeds_operations(storage: Storage, snapshot: TableSnapshot) -> bool:
    """Whether readers of the newest state heed the column."""
    for commit in _writes(storage, snapshot):
        stats = [stat for of_partition in commit.partition_to_write_stats.values() for stat in of_partition]
        paths = [stat.path for stat in stats if stat.path and _has_rows(stat)]
        if paths:
            try:
                native = snapshot.config.version.has_native_logs
                said = (_has_column(storage, snapshot.base_path, path, native=native) for path in paths)
                return next((has_column for has_column in said if has_column is not None), False)
            except (NotFound, BrokenFile, UntrustedName):
                return False
    return False


def check_heeded(blocks: Iterable[LogBlock], *, heeds: Callable[[], bool]) -> None:
    """Raise `Unsupported` where rows of the blocks have the column and readers do not heed it, or the other way round.

    Args:
        heeds: asks what `heeds_operations` says of the table; not called where the blocks hold no rows.
    """
    for block in data_blocks(blocks):
        if has_operation(block) and not heeds():
            raise Unsupported(
                f"{block.where} has the column {OPERATION_FIELD}, and the newest file of the table has not.",
                why="Hudi's readers use the newest file: until the column is in it again they show rows that are "
                "marked as deleted, which a compaction would take away, or keep for good.",
                remedy="Let the writer that writes the column commit, or compact this file group with its engine.",
            )
        if not has_operation(block) and heeds():
            raise Unsupported(
                f"{block.where} has not the column {OPERATION_FIELD}, and the newest file of the table has.",
                why="Hudi's readers use the newest file and fail on this one; and once a compaction left a file "
                "without the column, they would show rows of other file groups that are marked as deleted.",
                remedy="Compact this file group with the engine of the writer that left the column out.",
            )


def _writes(storage: Storage, snapshot: TableSnapshot) -> Iterator[CommitMetadata]:
    """The newest completed write that says the schema, then all by when they began, latest first."""
    contents = InstantContents(storage, snapshot.base_path, snapshot.config, snapshot.timeline)
    known: dict[str, CommitMetadata | None] = {}

    def read(name: str) -> CommitMetadata | None:
        if name not in known:
            try:
                known[name] = read_commit_metadata(contents.read(name), file=name, layout=snapshot.config.layout)
            except (NotFound, BrokenFile):
                known[name] = None
        return known[name]

    writes = snapshot.timeline.completed_writes
    by_completion = sorted(writes, key=lambda each: each.completion_time or each.time, reverse=True)
    found = next((commit for each in by_completion if (commit := read(each.file_name)) and commit.schema), None)
    if found is not None:
        yield found
    for each in sorted(writes, key=lambda each: each.time, reverse=True):
        if (commit := read(each.file_name)) is not None:
            yield commit


def _has_rows(stat: WriteStat) -> bool:
    return (stat.num_inserts or 0) > 0 or (stat.num_update_writes or 0) > 0


def _has_column(storage: Storage, base_path: str, path: str, *, native: bool) -> bool | None:
    """None where the file is a log without rows."""
    full_path = resolve(base_path, path, native=native)
    if parse_any_log(posixpath.basename(path), native=native) is None:
        with storage.open_input(full_path) as file:
            try:
                return OPERATION_FIELD in pq.read_schema(file).names
            except (pa.ArrowException, OSError) as broken:
                if is_of_storage(broken):
                    raise
                return False
    blocks = (block for block, _ in read_heads(storage, base_path, path) if isinstance(block, LogBlock))
    said = [has_operation(block) for block in data_blocks(blocks)]
    return said[-1] if said else None
