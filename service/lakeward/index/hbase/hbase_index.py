"""Hudi's index in HBase, read as Hudi's writers tag by it, so that its keys can go to another index.

    entry of a commit that is complete, or before the timeline's start    its place, if the file group is there
    of one that is pending, was rolled back or is unknown                 none: the key counts as new
    of a file group that is not there                                     none; Hudi's writers fail on such a key

Hudi has had no index in HBase since 1.1: it is read, and not written. A write of Lakeward's would have to put entries
through a protocol that no maintained client of Python speaks, beside writers that no release of Hudi has any more.

Touches: HBase, reading.
Keeps:   an entry that is passed over is counted, with its reason.
See:     docs/decisions/0166-an-index-in-hbase-is-read.md
Source:  SparkHoodieHBaseIndex, TimelineUtils (Hudi 1.0.2); the index overview
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.index.counted_commits import counted_commits
from lakeward.index.hbase.hbase_entries import HBaseEntries
from lakeward.index.key_changes.table_commits import CHANGING
from lakeward.index.location import FILE_ID, INSTANT, LOCATIONS, PARTITION_PATH, group_names, names_of
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot


@dataclass(slots=True)
class PassedOver:
    """Entries that were looked at and say no place."""

    uncommitted: int = 0
    without_file_group: int = 0

    def __str__(self) -> str:
        return (
            f"{self.uncommitted:,} entries of commits that are not complete, and {self.without_file_group:,} of file "
            "groups that are not there, count as no location."
        )


@dataclass
class HBaseSource:
    """An index in HBase that a command was given the place of."""

    entries: HBaseEntries
    passed_over: PassedOver


class HBaseIndex:
    is_global = True
    can_index_log_files = True

    def __init__(self, source: HBaseSource, storage: Storage, snapshot: TableSnapshot) -> None:
        self._source = source
        self._storage = storage
        self._snapshot = snapshot
        self._counts: dict[str, bool] = {}
        completed = [each.time for each in snapshot.timeline.completed if each.comparable_action in CHANGING]
        self._start = min(completed, key=comparable_time, default=None)
        self._groups = names_of(snapshot.live_groups)

    def __reduce__(self) -> tuple[object, ...]:
        raise Unsupported(
            "An index in HBase is looked up by one process, not by Spark's tasks.",
            why="It is read once, to be migrated from.",
            remedy="Leave --engine out, or migrate it first: `lakeward index migrate TABLE --from hbase --to record`.",
        )

    def parts(self, partitions: Collection[str] | None) -> Sequence[None]:
        """One, whatever the partitions: a key has one place in all of the table."""
        return [None]

    def look_up(self, storage: Storage, part: None, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """Raises `StoreUnavailable` where HBase does not answer, `NotFound` without the table, and `BrokenFile`."""
        source = self._source.entries
        for entries in source.scan() if keys is None else source.get(keys):
            found = self._located(entries)
            if found.num_rows:
                yield found

    def _located(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        whole = self._counted(entries[INSTANT].unique().to_pylist())
        counting = pa.array([instant for instant in whole if whole[instant]], pa.string())
        committed = entries.filter(pc.is_in(entries[INSTANT], counting))
        names = group_names(committed[PARTITION_PATH], committed[FILE_ID])
        located = committed.filter(pc.is_in(names, self._groups))
        self._source.passed_over.uncommitted += entries.num_rows - committed.num_rows
        self._source.passed_over.without_file_group += committed.num_rows - located.num_rows
        return located.select(LOCATIONS.names)

    def _counted(self, instants: list[str]) -> Mapping[str, bool]:
        """Whether each of these commits counts."""
        if unknown := [each for each in instants if each not in self._counts]:
            snapshot = self._snapshot
            counted = counted_commits(self._storage, snapshot.base_path, snapshot.config, snapshot.timeline, unknown)
            for each in unknown:
                # Hudi asks no history: whatever is before its timeline's start is taken for complete.
                self._counts[each] = each in counted or (self._start is not None and is_before(each, self._start))
        return self._counts
