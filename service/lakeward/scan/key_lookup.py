"""The file groups that may have rows of certain record keys, through the best index that the table has.

    buckets of the table          the hash of a key says its bucket in each partition; nothing is read
    Hudi's record index           leads to the file group of each key in all of the table. It may have lost a key that
                                  came back after its delete, so that of a key which it does not have nothing is known
    Lakeward's record index       the same of the keys that are left, with what was committed since; what it does not
                                  have is nowhere
    ranges and bloom filters      of base files, from Lakeward's cache or the metadata table; of logs, from the cache or
                                  their tails, which are read, and the footer of the base file with them. A file group
                                  with a log of which nothing is known may have every key
    nothing of these              every file group is read, by what its footers say

Each is asked for the keys that those before it left. An index only chooses what is read: rows come from file slices.

Touches: storage, reading: indexes below the table, once for each table at one moment, and entries of keys.
Keeps:   1. a file group that has rows of these keys as of the snapshot is among the answers, unless Hudi's record
            index leads to another one;
         2. an index that has other commits than the snapshot, cannot be read, or is out of use is not asked, and the
            reason is kept.
See:     docs/decisions/0125-rows-by-their-keys.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.clock import Clock
from lakeward.base.errors import LakewardError, Refused
from lakeward.base.paths import join
from lakeward.base.quantities import format_count, format_size
from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import HashedIndex
from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import newest_change
from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY, locations_of
from lakeward.index.metadata_record_index import MetadataRecordIndex, check_record_index
from lakeward.index.record.record_index import RecordIndex
from lakeward.index.record.record_options import RECORD_OPTIONS, RecordOptions
from lakeward.index.simple_bucket import bucket_numbers, bucket_of
from lakeward.scan.query_keys import KeyPlaces, QueryKeys
from lakeward.storage.metered import MeteredStorage
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.metadata.metadata_table import is_initial_build, latest_compaction
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import OTHER_BUCKETS, hoodie_folder
from lakeward.table.timeline.timeline import Timeline

BUCKETS: Final = "buckets"
HUDI: Final = "record index of the metadata table"
LAKEWARD: Final = "record index of Lakeward"
FILTERS: Final = "ranges and bloom filters"


_Opened = HashedIndex | SliceBloomIndex
_Found = tuple[frozenset[GroupId], pa.Array]
"""File groups, and the keys of which nothing is known."""


class KeyLookup:
    """The indexes of a table as of its snapshot, opened when they are asked first."""

    def __init__(
        self, storage: Storage, snapshot: TableSnapshot, *, clock: Clock, record: RecordOptions = RECORD_OPTIONS
    ) -> None:
        """
        Args:
            record: where Lakeward's record index is.
        """
        self._storage = MeteredStorage(storage)
        self._snapshot = snapshot
        self._clock = clock
        self._record = record
        self._opened: dict[str, _Opened | Refused] = {}

    def places(self, of: QueryKeys, *, bases_alone: bool) -> KeyPlaces:
        """
        Args:
            bases_alone: rows of base files are asked for, wherever newer versions of them are.
        """
        notes: list[str] = []
        left = None if of.keys is None else pa.array(dict.fromkeys(of.keys), pa.string())
        groups: frozenset[GroupId] = frozenset()
        if of.in_buckets is not None:
            found = self._ask(BUCKETS, partial(self._in_buckets, of.in_buckets), notes)
            if found is not None:
                return KeyPlaces(of.keys, found[0], tuple(notes))
        if left is None:
            return KeyPlaces(None, None, tuple(notes))
        if bases_alone:
            notes.append("other indexes: not asked, for they lead to the newest rows, and base files alone are read")
            return KeyPlaces(of.keys, None, tuple(notes))
        for name, ask in ((HUDI, self._by_hudi), (LAKEWARD, self._by_lakeward), (FILTERS, self._by_filters)):
            if not len(left):
                notes.append(f"{name}: not asked, every key is settled")
            elif name != FILTERS and self._snapshot.read_until is not None:
                notes.append(f"{name}: not asked, it leads to the newest rows, and an earlier moment is read")
            elif (found := self._ask(name, partial(ask, left), notes)) is not None:
                groups, left = groups | found[0], found[1]
        return KeyPlaces(of.keys, None if len(left) else groups, tuple(notes))

    def _ask(self, name: str, ask: Callable[[], _Found], notes: list[str]) -> _Found | None:
        before = self._storage.bytes_read
        try:
            found = ask()
        except LakewardError as error:
            notes.append(f"{name}: {'not asked' if isinstance(error, Refused) else 'failed'}, {_reason(error)}")
            return None
        read = format_size(self._storage.bytes_read - before)
        unknown = f"; {format_count(len(found[1]), 'key')} left to others" if len(found[1]) else ""
        notes.append(f"{name}: {format_count(len(found[0]), 'file group')}, {read} read{unknown}")
        return found

    def _in_buckets(self, texts: Collection[str]) -> _Found:
        config = self._snapshot.config
        if config.index_type != "BUCKET" or config.buckets is None:
            raise Refused("the table does not say that its rows lie in buckets, and in how many")
        if self._storage.list(join(hoodie_folder(self._snapshot.base_path), OTHER_BUCKETS)):
            raise Refused("its partitions differ in their number of buckets, or hash consistently")
        numbers = {group_id: bucket_of(group_id[1]) for group_id in self._live}
        if beyond := [number for number in numbers.values() if number is None or number >= config.buckets]:
            raise Refused(f"the table has file groups that are in none of its buckets: {len(beyond):,}")
        fields = config.bucket_fields or config.record_key_fields
        keys = pa.array(sorted(set(texts)), pa.string())
        wanted = set(bucket_numbers(keys, fields, config.buckets).tolist())
        return frozenset(group_id for group_id, number in numbers.items() if number in wanted), keys.slice(0, 0)

    def _by_hudi(self, keys: pa.Array) -> _Found:
        index: MetadataRecordIndex = self._open(HUDI, self.open_hudi)
        found = self._located(index, keys)
        return _groups_of(found), keys.filter(pc.invert(pc.is_in(keys, found.column(RECORD_KEY).combine_chunks())))

    def open_hudi(self) -> MetadataRecordIndex:
        """Raises an error of Lakeward where the index is not of the moment of the snapshot, or not there."""
        check_record_index(self._storage, self._snapshot)
        index = MetadataRecordIndex.of(self._storage, self._snapshot, clock=self._clock)
        if (why := other_moment(self._snapshot.timeline, index.table.timeline)) is not None:
            raise Refused(why)
        return index

    def _by_lakeward(self, keys: pa.Array) -> _Found:
        index: HashedIndex = self._open(LAKEWARD, self.open_lakeward)
        return _groups_of(self._located(index, keys)), keys.slice(0, 0)

    def open_lakeward(self) -> HashedIndex:
        """Raises what `open_hudi` does."""
        folder = self._record.folder(self._snapshot.base_path)
        if not self._storage.list(folder):
            raise Refused("the table has none")
        through = RecordIndex.of(self._storage, self._snapshot, folder, options=self._record.lookup).indexed().through
        newest = newest_change(self._snapshot.timeline)
        if through is not None and (newest is None or is_before(newest.completed, through)):
            raise Refused("it has commits that completed after the moment that is read")
        index = open_index(self._storage, self._snapshot, IndexType.RECORD, clock=self._clock, record=self._record)
        assert isinstance(index, HashedIndex)
        return index

    def _by_filters(self, keys: pa.Array) -> _Found:
        index: SliceBloomIndex = self._open(FILTERS, self._open_filters)
        parts = index.parts(None)
        found = {
            part.slice_.group_id
            for part, some in index.narrowed(self._storage, parts, keys)
            if len(index.possible(self._storage, part, some))
        }
        unknown = self._live - {part.slice_.group_id for part in parts}
        return frozenset(found) | unknown, keys.slice(0, 0)

    def _open_filters(self) -> SliceBloomIndex:
        if not self._snapshot.config.populate_meta_fields:
            raise Refused("rows carry no keys")
        index = SliceBloomIndex.of(self._storage, self._snapshot, clock=self._clock)
        if index.bloom.cache is None and index.bloom.metadata is None and not index.reads_tails:
            raise Refused("neither Lakeward's cache nor the metadata table has them; footers say them")
        return index

    def _open(self, name: str, opens: Callable[[], _Opened]) -> Any:
        """The index, opened once; a refusal holds as long as the moment that is read."""
        if name not in self._opened:
            try:
                self._opened[name] = opens()
            except Refused as error:
                self._opened[name] = error
        found = self._opened[name]
        if isinstance(found, Refused):
            raise found
        return found

    def _located(self, index: HashedIndex, keys: pa.Array) -> pa.Table:
        """Places that the index has for the keys, in file groups that there are."""
        numbers = index.parts_of(keys)
        parts = index.parts(None)
        batches = [
            batch
            for number in np.unique(numbers)
            for batch in index.look_up(self._storage, parts[number], keys.filter(pa.array(numbers == number)))
        ]
        found = locations_of(batches)
        is_live = [each in self._live for each in _group_ids(found)]
        return found.filter(pa.array(is_live, pa.bool_()))

    @cached_property
    def _live(self) -> frozenset[GroupId]:
        return self._snapshot.live_groups


def other_moment(data: Timeline, metadata: Timeline) -> str | None:
    """Why the metadata table is not of the moment of the data's timeline: it has commits that this has not, or lacks
    some. None where it is. Hudi writes a commit into the metadata table before it completes the commit."""
    known = {instant.time for instant in data.instants}
    pending = {instant.time for instant in data.pending}
    first = min(known, key=comparable_time, default="")
    written = {
        instant.time
        for instant in metadata.completed
        if instant.comparable_action == "deltacommit" and not is_initial_build(instant.time)
    }
    compacted = latest_compaction(metadata)
    for time in sorted(written, key=comparable_time):
        if time not in known and not is_before(time, first) and not data.is_archived(time):
            return f"it has the commit {time}, which the moment that is read does not have"
        if time in pending and compacted is not None and is_before(time, compacted):
            return f"it may have the commit {time}, which was not completed at the moment that is read"
    oldest = min(written, key=comparable_time, default=None)
    builds = [each.completion_time for each in metadata.completed if is_initial_build(each.time)]
    built = max((time for time in builds if time is not None), key=comparable_time, default=None)
    for instant in data.completed_writes:
        if oldest is not None:
            is_due = is_before(oldest, instant.time)
        else:
            completed = instant.completion_time
            is_due = built is not None and completed is not None and is_before(built, completed)
        if is_due and instant.time not in written:
            return f"it lacks the commit {instant.time}"
    return None


def _groups_of(found: pa.Table) -> frozenset[GroupId]:
    return frozenset(_group_ids(found))


def _group_ids(found: pa.Table) -> list[GroupId]:
    return list(zip(found.column(PARTITION_PATH).to_pylist(), found.column(FILE_ID).to_pylist(), strict=True))


def _reason(error: LakewardError) -> str:
    text = " ".join(part for part in (error.what, error.why) if part)
    return (text[0].lower() + text[1:]).removesuffix(".") if text else type(error).__name__
