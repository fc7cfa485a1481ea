"""Lakeward's record index: for each key the place that the newest commit put it, out of HFiles by hash buckets.

    <table>/.hoodie/.lakeward/index/record/     or a folder below a configured location
        manifest-…17.json                       which files the index has (`index/record/record_manifest`)
        data/0-3-0_16-5f3a…_20261127….hfile     group 0, bucket 3: what a commit said of its keys
        built-5f3a…/                            the same once more, where the index was rebuilt

A key is in its bucket of each group of buckets, and the newest file there that has an entry of it decides: of files by
when their commits became visible, which the table's timeline says. A file of a commit that does not count is passed
over, so that entries of a write are found from the moment on in which its rows are, and never if it fails.

    part 0, 1, …    the buckets of the first group. For given keys the part has those of its bucket, wherever they are
                    in later groups; for all it has what these buckets hold, and in later groups each bucket that is
                    the part's by its number

Locations in file groups that are not live are answers, too: `index/overlay`, which lays over the index what it does not
have yet, knows which those are.

Touches: storage, reading: the index's folder, and for `of` the history of the timeline.
Keeps:   1. a key is found where the newest commit that counts put it, and is not where that commit took it away;
         2. it travels to tasks without what it has in memory;
         3. no more than `OPEN_MAX` buckets are open, and blocks are held up to a bound;
         4. asked as of a moment, it answers as of that, or refuses;
         5. files that went because the index is another one by now do not count as lost files.
See:     docs/decisions/0080-the-table-of-the-record-index.md
Source:  RFC-08
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import BrokenFile, IndexMoved, LakewardError, NotFound, Refused
from lakeward.base.paths import join
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.counted_commits import counted_commits
from lakeward.index.index import Indexed, PartEffort
from lakeward.index.key_changes.table_commits import check_can_be_followed
from lakeward.index.location import PARTITION_PATH, RECORD_KEY
from lakeward.index.record.block_cache import CACHE_BYTES, BlockCache
from lakeward.index.record.bucket import NOTHING_SEEN, Bucket, Seen
from lakeward.index.record.bucket_file import BucketFile
from lakeward.index.record.bucket_hash import bucket_numbers
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.record_file import FileKind, RecordFile
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest, open_manifest
from lakeward.index.record.record_options import LOOKUP_OPTIONS, LookupOptions
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

OPEN_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class BucketPart:
    """One bucket of the first group, of whose answers these partitions alone matter."""

    number: int
    partitions: frozenset[str]


class RecordIndex:
    can_index_log_files = True

    def __init__(
        self,
        folder: str,
        manifest: RecordManifest,
        counted: Mapping[str, str],
        *,
        options: LookupOptions = LOOKUP_OPTIONS,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """
        Args:
            folder: where the manifest is.
            counted: of the commits in it that are not settled those that count, with their completion times.
        """
        self.folder = folder
        self.manifest = manifest
        self.counted = dict(counted)
        self._options = options
        self._cache_bytes = cache_bytes
        self._cache = BlockCache(cache_bytes)
        self._open: OrderedDict[tuple[int, int], Bucket] = OrderedDict()
        self._files: dict[tuple[int, int], list[RecordFile]] = {}
        for file in newest_first(manifest, counted):
            self._files.setdefault((file.of.group, file.of.bucket), []).append(file)

    @classmethod
    def of(
        cls,
        storage: Storage,
        snapshot: TableSnapshot,
        folder: str,
        *,
        options: LookupOptions = LOOKUP_OPTIONS,
        cache_bytes: int = CACHE_BYTES,
    ) -> RecordIndex:
        """The index as of the snapshot. Raises `Refused` where there is none, or the table is one that no index of
        Lakeward can follow, `BrokenFile` and `Unsupported`."""
        check_can_be_followed(snapshot)
        at, manifest = open_manifest(storage, folder)
        config, timeline = snapshot.config, snapshot.timeline
        counted = counted_commits(storage, snapshot.base_path, config, timeline, manifest.commits)
        return cls(at, manifest, counted, options=options, cache_bytes=cache_bytes)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.folder, self.manifest, self.counted, self._options, self._cache_bytes)

    @property
    def is_global(self) -> bool:
        return self.manifest.scope is KeyScope.GLOBAL

    @property
    def count(self) -> int:
        """The buckets of the first group."""
        return self.manifest.groups[0].buckets if self.manifest.groups else 1

    def indexed(self) -> Indexed:
        return self.manifest.indexed

    def parts_of(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        if not self.manifest.groups:
            return np.zeros(len(keys), dtype=np.int32)
        return self._buckets_of(keys, 0)

    def parts(self, partitions: Collection[str] | None) -> Sequence[int] | Sequence[BucketPart]:
        if partitions is None or self.is_global:
            return range(self.count)
        return [BucketPart(number, frozenset(partitions)) for number in range(self.count)]

    def effort(self, part: int | BucketPart) -> PartEffort:
        """The files of the buckets that are the part's by their numbers."""
        number = part if isinstance(part, int) else part.number
        files = [file for buckets in self._buckets_by_number(number) for file in self.files_of(*buckets)]
        return PartEffort(len(files), sum(file.size for file in files))

    def look_up(self, storage: Storage, part: int | BucketPart, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """Raises `IndexMoved` where files went since it was opened, and `BrokenFile`."""
        number, partitions = (part, None) if isinstance(part, int) else (part.number, part.partitions)
        try:
            for found in self._all(storage, number) if keys is None else self._some(storage, number, keys):
                if partitions is not None:
                    asked = pa.array(sorted(partitions), pa.string())
                    found = found.filter(pc.is_in(found.column(PARTITION_PATH), asked))
                if found.num_rows:
                    yield found
        except NotFound as gone:
            raise self._gone(storage, gone) from gone

    def as_of(self, completed: str) -> RecordIndex:
        """What the index said when all had completed that completed up to then, and nothing else. Raises `Refused`
        where it is not known any more, or not yet."""
        at, exact = comparable_time(completed), self.manifest.exact_at
        times = [each for each in (self.indexed().through, *exact) if each is not None]
        through = max(times, key=comparable_time, default=None)
        if at not in map(comparable_time, exact):
            if through is None or comparable_time(through) < at:
                raise Refused(
                    f"The index does not know yet where keys were at {completed}.",
                    why=f"It has what completed until {through}.",
                    remedy="Bring it up to date (`lakeward index update`).",
                )
            raise Refused(
                f"The index does not know any more where keys were at {completed}.",
                why="Files of it were merged since, or it took that in when more had completed, of which some may have "
                "replaced file groups that nothing was read of any more.",
                remedy="`lakeward index changes` shows what commits did"
                + (f"; it knows where keys were at {', '.join(exact)}." if exact else "."),
            )
        counted = {instant: time for instant, time in self.counted.items() if comparable_time(time) <= at}
        files = tuple(
            file
            for file in self.manifest.files
            if file.completed is None or file.kind is not FileKind.DELTA or comparable_time(file.completed) <= at
        )
        return self.at(replace(self.manifest, files=files), counted)

    def at(self, manifest: RecordManifest, counted: Mapping[str, str]) -> RecordIndex:
        """The index by another manifest, with what it has in memory of files."""
        other = RecordIndex(self.folder, manifest, counted, options=self._options, cache_bytes=self._cache_bytes)
        other._cache = self._cache
        return other

    def files_of(self, group: int, bucket: int) -> Sequence[RecordFile]:
        """The files of a bucket that lookups ask, newest first."""
        return self._files.get((group, bucket), ())

    def open_file(self, storage: Storage, file: RecordFile) -> BucketFile:
        """Raises `BrokenFile`, and `NotFound`."""
        path = join(self.folder, file.path)
        opened = BucketFile(
            storage.open_input(path),
            offset=file.offset,
            length=file.size,
            name=path,
            instant=file.instant,
            cache=self._cache,
        )
        if opened.entry_count != file.entries or opened.scope is not self.manifest.scope:
            raise opened.broken(f"the manifest counts {file.entries} entries of it, and it has {opened.entry_count}")
        return opened

    def counts(self, instant: str) -> bool:
        """Whether entries since this commit count, of a merged file."""
        return instant in self.counted or instant in self.manifest.settled

    def _gone(self, storage: Storage, gone: NotFound) -> LakewardError:
        try:
            newest = RECORD_FORM.read_newest(storage, self.folder)
        except NotFound:
            newest = None
        if newest is not None and newest.number == self.manifest.number:
            return BrokenFile(
                f"The record index in {self.folder} lacks a file.",
                why=f"Its newest manifest names it: {gone}",
                remedy="Build the index again: it is made of the table alone.",
            )
        return IndexMoved(
            "The record index cannot be asked as it was when it was opened: its files are gone.",
            why="Other processes changed it, or built it again, and what nothing names any more is deleted after an "
            f"hour. {gone}",
            remedy="Run the command again.",
        )

    def _some(self, storage: Storage, number: int, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        left = keys.cast(pa.string()).unique()
        left = left.filter(pa.array(self.parts_of(left) == number))
        seen = NOTHING_SEEN
        for group in reversed(range(len(self.manifest.groups))):
            found, left, seen = self._answers(storage, group, left, seen)
            yield from found
            if len(left) == 0:
                return

    def _all(self, storage: Storage, number: int) -> Iterator[pa.RecordBatch]:
        for group, bucket in self._buckets_by_number(number):
            for found in self._bucket(storage, group, bucket).entries():
                yield self._without_newer(storage, group, found)

    def _buckets_by_number(self, number: int) -> Iterator[tuple[int, int]]:
        """The buckets of each group, the newest first, that are the part's by their numbers."""
        for group in reversed(range(len(self.manifest.groups))):
            for bucket in range(number, self.manifest.groups[group].buckets, self.count):
                yield group, bucket

    def _without_newer(self, storage: Storage, group: int, found: pa.RecordBatch) -> pa.RecordBatch:
        """Without the keys of which a newer group has an entry."""
        for newer in range(group + 1, len(self.manifest.groups)):
            partitions = None if self.is_global else found.column(PARTITION_PATH)
            numbers = self._buckets_of(found.column(RECORD_KEY), newer)
            kept = []
            for bucket in np.unique(numbers):
                rows = np.flatnonzero(numbers == bucket)
                chosen = pa.array(rows)
                answer = self._bucket(storage, newer, int(bucket)).answer(
                    found.column(RECORD_KEY).take(chosen), None if partitions is None else partitions.take(chosen)
                )
                kept.append(rows[answer.left])
            found = found.take(pa.array(np.sort(np.concatenate(kept)))) if kept else found
        return found

    def _answers(
        self, storage: Storage, group: int, keys: pa.Array, seen: Seen
    ) -> tuple[list[pa.RecordBatch], pa.Array, Seen]:
        """(locations, keys that are left to older groups, keys of entries that these must leave out)."""
        numbers = self._buckets_of(keys, group)
        found, left, chunks = [], [], list(seen.chunks)
        for bucket in np.unique(numbers):
            asked = keys.filter(pa.array(numbers == bucket))
            answer = self._bucket(storage, group, int(bucket)).answer(asked, seen=seen)
            found.append(answer.locations)
            left.append(asked.take(pa.array(answer.left)))
            chunks += answer.seen.chunks[seen.num_chunks :]
        rest = pa.concat_arrays(left) if left else keys.slice(0, 0)
        return found, rest, pa.chunked_array(chunks, pa.binary())

    def _buckets_of(self, keys: pa.Array, group: int) -> npt.NDArray[np.int32]:
        of = self.manifest.groups[group]
        return bucket_numbers(keys, hash_name=of.hash_name, count=of.buckets)

    def _bucket(self, storage: Storage, group: int, bucket: int) -> Bucket:
        held = self._open.get((group, bucket))
        if held is not None:
            self._open.move_to_end((group, bucket))
            return held
        files = [self.open_file(storage, file) for file in self.files_of(group, bucket)]
        opened = Bucket(files, scope=self.manifest.scope, is_valid=self.counts, options=self._options)
        self._open[group, bucket] = opened
        while len(self._open) > OPEN_MAX:
            self._open.popitem(last=False)
        return opened


def newest_first(manifest: RecordManifest, counted: Mapping[str, str]) -> list[RecordFile]:
    """The files whose entries count, or some of whose do, in the order in which they are asked."""

    def rank(file: RecordFile) -> tuple[int, bool, str, str]:
        is_base = file.kind is FileKind.BASE
        return file.of.link, not is_base, comparable_time(visible_at(file, counted) or ""), file.instant

    return sorted((file for file in manifest.files if visible_at(file, counted) is not None), key=rank, reverse=True)


def visible_at(file: RecordFile, counted: Mapping[str, str]) -> str | None:
    """When the newest commit in the file became visible; None for a file of one that does not count."""
    return counted.get(file.instant, file.completed) if file.kind is FileKind.DELTA else file.completed


def _again(
    folder: str, manifest: RecordManifest, counted: Mapping[str, str], options: LookupOptions, cache_bytes: int
) -> RecordIndex:
    return RecordIndex(folder, manifest, counted, options=options, cache_bytes=cache_bytes)
