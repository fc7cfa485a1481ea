"""Keys that a commit put into a base file although a log of another file group has them: rows of which readers see two.

A writer whose index looks at base files alone does not find a key that is in logs alone, and inserts it again. So while
keys may be in logs alone (`index/log_inserts`) the base files of each commit are looked through, of any writer:

    keys that came with its base files   compaction moves none, and is passed over
    looked for                           in the file groups that have logs: in all partitions where the metadata table
                                         has a record index, for which a key is one in the table; else in their own

Touches: base files and slices with logs, reading; the cache of filters rules out logs where it has their keys.
Keeps:   1. a key is reported once its two rows are both live, and no more once one of them has gone;
         2. commits are looked through in the order in which they completed, none left out.
Memory:  a batch of keys, and what merging one slice takes.
See:     docs/decisions/0133-new-keys-in-logs.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import Indexed, record_locations
from lakeward.index.key_changes.group_changes import TableFiles, choose_changes
from lakeward.index.key_changes.key_reader import KeyReader
from lakeward.index.key_changes.marked_keys import IS_THERE
from lakeward.index.key_changes.table_commits import TableCommit, commits_behind
from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.read.newest_slice import newest_slice
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

_KEYS_AT_ONCE: Final = 50_000
_IN_LOGS: Final = "_in_logs"


@dataclass(frozen=True, slots=True)
class DoubledKey:
    key: str
    instant: str
    """The commit that put it into a base file."""
    inserted: GroupId
    """The file group of that base file,"""
    in_logs: GroupId
    """and the one whose logs have the key, too."""


@dataclass(frozen=True, slots=True)
class LookedThrough:
    """What was found of the next commits."""

    through: str | None
    """None of those that completed up to this time doubled a key."""
    commits: int
    """So many were looked through,"""
    left: int
    """and so many are still to be."""
    doubled: tuple[DoubledKey, ...] = ()
    """What the first commit doubled that doubled any."""


def look_through(storage: Storage, snapshot: TableSnapshot, *, after: str | None, clock: Clock) -> LookedThrough:
    """Look through the next commits that completed after that time, up to one that doubled keys. Raises what
    `commits_behind` and `KeyReader.changes` do."""
    behind = commits_behind(storage, snapshot, Indexed(after))
    through = after
    for done, commit in enumerate(behind.commits):
        doubled = tuple(_doubled(storage, snapshot, commit, clock))
        if doubled:
            return LookedThrough(through, done + 1, behind.count - done, doubled)
        through = commit.completed
    return LookedThrough(through, len(behind.commits), behind.count - len(behind.commits))


def _doubled(storage: Storage, snapshot: TableSnapshot, commit: TableCommit, clock: Clock) -> Iterator[DoubledKey]:
    bases = tuple(file for file in commit.files if not file.is_log)
    newest = {slice_.group_id: slice_ for group in snapshot.file_groups if (slice_ := newest_slice(group.slices))}
    with_logs = {group for group, slice_ in newest.items() if slice_.row_logs}
    if commit.is_compaction or not bases or not with_logs:
        return
    logs = _of_groups(storage, snapshot, with_logs, clock)
    own = _of_groups(storage, snapshot, {file.group for file in bases}, clock)
    is_global = RECORD_INDEX in snapshot.config.built_metadata_partitions
    partitions = None if is_global else sorted({path for path, _ in (file.group for file in bases)})
    scope = [RECORD_KEY] if is_global else [RECORD_KEY, PARTITION_PATH]
    for came in _came(storage, snapshot, replace(commit, files=bases), is_global=is_global):
        found = record_locations(storage, logs, came.column(RECORD_KEY), partitions)
        both = came.join(found, scope, join_type="inner", right_suffix=_IN_LOGS)
        # A key that came may have gone since, with a row that was deleted.
        there = record_locations(storage, own, pc.unique(both.column(RECORD_KEY)), None)
        both = both.join(there, [RECORD_KEY, PARTITION_PATH, FILE_ID], join_type="left semi")
        for row in both.to_pylist():
            inserted = (row[PARTITION_PATH], row[FILE_ID])
            in_logs = (row.get(f"{PARTITION_PATH}{_IN_LOGS}", row[PARTITION_PATH]), row[f"{FILE_ID}{_IN_LOGS}"])
            if inserted != in_logs:
                yield DoubledKey(row[RECORD_KEY], commit.instant, inserted, in_logs)


def _of_groups(storage: Storage, snapshot: TableSnapshot, groups: Collection[GroupId], clock: Clock) -> SliceBloomIndex:
    """Finds the keys of these file groups' rows."""
    kept = tuple(group for group in snapshot.file_groups if (group.partition_path, group.file_id) in groups)
    return SliceBloomIndex.of(storage, replace(snapshot, file_groups=kept), clock=clock)


def _came(storage: Storage, snapshot: TableSnapshot, commit: TableCommit, *, is_global: bool) -> Iterator[pa.Table]:
    """The keys that came with these base files, and where they are."""
    reader = KeyReader(storage, snapshot)
    held: list[pa.RecordBatch] = []
    (chosen,) = choose_changes([commit], TableFiles.of(snapshot), frozenset())
    for batch in reader.changes(chosen, is_global=is_global):
        held.append(batch.filter(batch.column(IS_THERE)).drop_columns([IS_THERE]))
        if sum(part.num_rows for part in held) >= _KEYS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
