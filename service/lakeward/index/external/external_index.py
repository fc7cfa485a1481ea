"""An index of Lakeward in a store outside of the table: which of a key's entries is the answer.

    entries for a key                           the answer
    settled, of T1                              T1's
    settled, of T1; of T2, which counts         T2's
    settled, of T1; of T2, which was rolled     T1's: the location before is still there
      back, failed or is pending
    of T2, gone                                 none

The answer is the entry that counts whose commit became visible last, whatever the instants. A location whose
file group is not live is none: of groups that were replaced nothing is taken in, so that their keys' entries stay, and
a writer that went by one would write to where no reader looks.

Hudi's index in HBase holds one entry a key: one of a commit that does not count leaves a key that was located before
without any location, unless rollbacks are configured to write the older version back. Here both stay until the timeline
has decided.

Touches: the store, which only the process that plans and commits may use.
See:     docs/decisions/0077-an-index-in-postgresql.md
Source:  SparkHoodieHBaseIndex (Hudi 1.2); RFC-08
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.counted_commits import counted_commits
from lakeward.index.external.entry_store import ENTRIES, SETTLED, EntryStore
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Indexed
from lakeward.index.key_changes.table_commits import check_can_be_followed
from lakeward.index.location import (
    FILE_ID,
    INSTANT,
    LOCATIONS,
    PARTITION_PATH,
    RECORD_KEY,
    differs,
    group_names,
    names_of,
)
from lakeward.index.settlement import check_not_built, check_not_late, settled_first, undone_commits
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline

_ROWS_AT_ONCE = 20_000
"""Keys of one request, and rows of one batch of entries."""
_RANK = "_lakeward_rank"


class ExternalIndex:
    can_index_log_files = True

    def __init__(
        self, entries: EntryStore, counted: Mapping[str, str], groups: frozenset[GroupId], *, limit: RateLimit
    ) -> None:
        """
        Args:
            counted: of the commits in the store that are not settled those that count, with their completion times.
            groups: the live ones.
        """
        self._entries = entries
        self._counted = dict(counted)
        self._groups = names_of(groups)
        self._limit = limit

    @classmethod
    def of(cls, entries: EntryStore, storage: Storage, snapshot: TableSnapshot, *, limit: RateLimit) -> ExternalIndex:
        """The index as of the snapshot. Raises `Refused` for a table that no index of Lakeward can follow, and
        `BrokenFile`."""
        check_can_be_followed(snapshot)
        _, unsettled = entries.commits()
        counted = counted_commits(storage, snapshot.base_path, snapshot.config, snapshot.timeline, unsettled)
        return cls(entries, counted, snapshot.live_groups, limit=limit)

    def __reduce__(self) -> tuple[object, ...]:
        raise Unsupported(
            "An index in a database is looked up by the process that plans the write, not by Spark's tasks.",
            why="The tasks run on machines that have no credentials of the database, and would each connect to it.",
            remedy="Write in the process (`lakeward write --engine local`), or by another index.",
        )

    @property
    def is_global(self) -> bool:
        return self._entries.is_global

    def parts(self, partitions: Collection[str] | None) -> Sequence[frozenset[str] | None]:
        """One: the partitions that matter, where a key may be in several."""
        return [None if partitions is None or self.is_global else frozenset(partitions)]

    def look_up(self, storage: Storage, part: frozenset[str] | None, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        for entries in self._scan() if keys is None else self._get(keys):
            found = self._answers(pa.RecordBatch.from_arrays(entries.columns, schema=ENTRIES))
            if part is not None:
                found = found.filter(pc.is_in(found[PARTITION_PATH], pa.array(sorted(part), pa.string())))
            if found.num_rows:
                yield found

    def indexed(self) -> Indexed:
        return Indexed.of(*self._entries.commits())

    def update(self, instant: str, changes: Iterable[pa.RecordBatch], *, completed: str | None) -> None:
        """Raises `Refused` for a commit that completed before one that is settled. One without a completion time is no
        part of what the index goes through, also once it is complete: others may have completed before it."""
        through, _ = self._entries.commits()
        check_not_late(instant, completed, through)
        attempt = self._put(instant, changes, beside_others=completed is None)
        self._entries.finish(attempt, completed)
        self._counted.pop(instant, None)
        if completed is not None:
            self._counted[instant] = completed

    def build(self, instant: str, locations: Iterable[pa.RecordBatch], *, completed: str) -> None:
        check_not_built(self.indexed())
        self._entries.finish_settled(self._put(instant, locations), completed)

    def rollback(self, instant: str) -> None:
        self._entries.forget(instant)
        self._counted.pop(instant, None)

    def tidy(self, timeline: Timeline, *, through: str) -> bool:
        _, unsettled = self._entries.commits()
        put = {*unsettled, *self._entries.begun_beside_others()}
        undone = undone_commits(put, self._counted, timeline)
        for instant in undone:
            self.rollback(instant)
        settled = settled_first(self._counted, timeline, through=through)
        for instant in settled:
            self._entries.settle(instant, self._counted[instant])
        return bool(undone or settled)

    def _put(self, instant: str, changes: Iterable[pa.RecordBatch], *, beside_others: bool = False) -> int:
        attempt = self._entries.begin(instant, beside_others=beside_others)
        for batch in changes:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                piece = batch.slice(start, _ROWS_AT_ONCE)
                self._limit.take(piece.num_rows)
                self._entries.put(attempt, piece)
        return attempt

    def _get(self, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        wanted = keys.cast(pa.string()).unique()
        for start in range(0, len(wanted), _ROWS_AT_ONCE):
            chunk = wanted.slice(start, _ROWS_AT_ONCE)
            self._limit.take(len(chunk))
            yield self._entries.get(chunk)

    def _scan(self) -> Iterator[pa.RecordBatch]:
        for entries in self._entries.scan():
            self._limit.take(entries.num_rows)
            yield entries

    def _answers(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """The locations among these, of keys of which all entries are there."""
        ranks = self._ranks(entries)
        entries = entries.append_column(_RANK, pa.array(ranks)).filter(pa.array(ranks >= 0))
        if self.is_global:
            newest = _newest(entries, [RECORD_KEY])
        else:
            newest = _newest(_outlived(entries), [RECORD_KEY, PARTITION_PATH])
        found = newest.select(LOCATIONS.names).filter(pc.is_valid(newest[FILE_ID]))
        return found.filter(pc.is_in(group_names(found[PARTITION_PATH], found[FILE_ID]), self._groups))

    def _ranks(self, entries: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """A higher one is of a commit that became visible later; 0: settled; -1: it does not count."""
        by_time = sorted(self._counted, key=lambda instant: (comparable_time(self._counted[instant]), instant))
        known = pc.index_in(entries[INSTANT], pa.array(by_time, pa.string())).fill_null(-2).to_numpy()
        settled = entries[SETTLED].to_numpy(zero_copy_only=False)
        ranks: npt.NDArray[np.int64] = np.where(settled, 0, known.astype(np.int64) + 1)
        return ranks


def _outlived(entries: pa.RecordBatch) -> pa.RecordBatch:
    """Without those that are older than an entry that says that the key is gone from all of the table."""
    everywhere = entries.filter(pc.is_null(entries[PARTITION_PATH]))
    if not everywhere.num_rows:
        return entries
    gone = _newest(everywhere, [RECORD_KEY])
    gone_at = gone[_RANK].take(pc.index_in(entries[RECORD_KEY], gone[RECORD_KEY])).fill_null(-1)
    is_later = pc.greater_equal(entries[_RANK], gone_at)
    return entries.filter(pc.and_(is_later, pc.is_valid(entries[PARTITION_PATH])))


def _newest(entries: pa.RecordBatch, by: list[str]) -> pa.RecordBatch:
    """The entries with the highest rank of those that agree in these columns."""
    order = pc.sort_indices(entries, [*((name, "ascending") for name in by), (_RANK, "descending")])
    ordered = entries.take(order)
    is_first = np.logical_or.reduce([differs(ordered[name]) for name in by])
    return ordered.filter(pa.array(is_first))
