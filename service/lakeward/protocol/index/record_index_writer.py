"""The record index in a table's folder, written: one commit of the table after the other, each one manifest.

    update      changes, sorted -> a delta for each bucket that they touch, a file or a block of its log (`bucket_logs`)
                -> the next manifest
    rollback    a manifest without the commit's files
    build       all locations, sorted -> a base file for each bucket -> the next manifest
    tidy        what was rolled back goes, what was archived settles, files are merged (`index/record/merge_choice`),
                full buckets grow (`scaling`), what no manifest names is deleted

Only what completed up to where the index goes is merged: with a later commit in, that of a writer which added itself,
one in between that comes after it would be taken for the older one. Buckets grow only when it is known of each commit
whether it counts, and all of them completed up to there: what comes afterwards goes to the new files, and is newer.

*Stopped anywhere*, files lie there that no manifest names.

Touches: the folder of the index, and its lock; spill files.
Keeps:   1. a change is there whole or not at all, and none is lost to another process's;
         2. a delta goes to the newest group and the open link of its bucket;
         3. a merge changes no answer;
         4. memory is bounded: what sorting takes, and a writer for each bucket that is touched;
         5. what tasks write is what this process would write, and goes with an attempt that fails.
See:     docs/decisions/0080-the-table-of-the-record-index.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from secrets import token_hex

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import AlreadyExists, BrokenFile, IndexMoved, Refused, Unsupported
from lakeward.base.paths import join
from lakeward.format.timeline.instant import comparable_time
from lakeward.index.index import Indexed, PartEffort, record_locations
from lakeward.index.key_changes.table_commits import newest_change
from lakeward.index.location import LOCATIONS, PARTITION_PATH, RECORD_KEY
from lakeward.index.manifest_form import DATA_FOLDER, list_manifests, manifest_path
from lakeward.index.record.bucket_hash import default_bucket_count
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.entry_sorter import EntrySorter
from lakeward.index.record.index_growth import grow
from lakeward.index.record.merge_choice import MERGE_OPTIONS, MergeDecision, MergeOptions, choose_merge
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile
from lakeward.index.record.record_index import BucketPart, RecordIndex, newest_first, visible_at
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest
from lakeward.index.record.record_options import LOOKUP_OPTIONS, LookupOptions
from lakeward.index.settlement import check_not_built, check_not_late, settled_first, undone_commits
from lakeward.protocol.creation import create_once
from lakeward.protocol.index.bucket_files import FilesOf, write_bucket_files
from lakeward.protocol.index.bucket_logs import BucketLogs, are_small, logs_to_append
from lakeward.protocol.index.bucket_tasks import (
    BucketSpread,
    BucketTask,
    entries_of,
    files_tasks,
    is_worth_tasks,
    merge_tasks,
    merged,
)
from lakeward.protocol.index.manifests import delete_unnamed, publish
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline import Timeline

_ENTRY_BYTES = 60
"""What an entry of an update takes in a stream, about: by that the engine of its tasks is chosen."""


class RecordIndexWriter:
    """One process at a time writes what completed; writers that add commits that they have yet to complete may come
    between."""

    can_index_log_files = True

    def __init__(
        self,
        storage: Storage,
        index: RecordIndex,
        *,
        merges: MergeOptions = MERGE_OPTIONS,
        spread: BucketSpread | None = None,
    ) -> None:
        """
        Args:
            spread: where work on many buckets runs; None: in this process.
        """
        self._storage = storage
        self._spread = spread
        self._index = index
        self._merges = merges
        self._token = token_hex(8)

    @classmethod
    def of(
        cls,
        storage: Storage,
        snapshot: TableSnapshot,
        folder: str,
        *,
        merges: MergeOptions = MERGE_OPTIONS,
        options: LookupOptions = LOOKUP_OPTIONS,
        spread: BucketSpread | None = None,
    ) -> RecordIndexWriter:
        """The index as of the snapshot. Raises what `RecordIndex.of` does."""
        return cls(storage, RecordIndex.of(storage, snapshot, folder, options=options), merges=merges, spread=spread)

    def __reduce__(self) -> str | tuple[object, ...]:
        """To tasks, which look keys up and write nothing, the index alone travels."""
        return self._index.__reduce__()

    @property
    def folder(self) -> str:
        return self._index.folder

    @property
    def is_global(self) -> bool:
        return self._index.is_global

    @property
    def count(self) -> int:
        """The index has so many parts."""
        return self._index.count

    def parts_of(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        return self._index.parts_of(keys)

    def parts(self, partitions: Collection[str] | None) -> Sequence[int] | Sequence[BucketPart]:
        return self._index.parts(partitions)

    def effort(self, part: int | BucketPart) -> PartEffort:
        return self._index.effort(part)

    def look_up(self, storage: Storage, part: int | BucketPart, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        return self._index.look_up(storage, part, keys)

    def indexed(self) -> Indexed:
        return self._index.indexed()

    def update(self, instant: str, changes: Iterable[pa.RecordBatch], *, completed: str | None) -> None:
        """Raises `Refused` for a commit that completed before one that is settled; `Unsupported` for one that has yet
        to complete and takes keys away without a partition, where the index needs that; `IndexMoved` where another
        process took in what completed meanwhile, or made buckets grow."""
        check_not_late(instant, completed, self._index.manifest.settled_through)
        located = (part for batch in changes for part in self._in_partitions(batch, instant, completed))
        with logs_to_append(self._storage, self._index.folder) as logs:
            self._put(instant, located, completed, logs)

    def _put(
        self, instant: str, located: Iterable[pa.RecordBatch], completed: str | None, logs: BucketLogs | None
    ) -> None:
        manifest, files = self._deltas(located, instant, logs)

        def change(newest: RecordManifest) -> RecordManifest:
            if logs is not None:
                logs.check(newest, files)
            if newest.groups not in (self._index.manifest.groups, manifest.groups):
                raise _faster("made its buckets grow")
            known = self._index.manifest.commits
            if completed is not None and any(newest.commits.get(each) for each in newest.commits.keys() - known.keys()):
                raise _faster("took in what completed")
            check_not_late(instant, completed, newest.settled_through)
            return replace(newest, groups=manifest.groups).with_commit(instant, completed, files)

        counted = {each: at for each, at in self._index.counted.items() if each != instant}
        if completed is not None:
            counted[instant] = completed
        self._publish(change, counted)

    def rollback(self, instant: str) -> None:
        if instant in self._index.manifest.commits:
            self._forget([instant])

    def build(self, instant: str, locations: Iterable[pa.RecordBatch], *, completed: str) -> None:
        check_not_built(self.indexed())
        with EntrySorter(self._index.manifest.scope) as sorter:
            for batch in locations:
                sorter.add(batch)
            manifest = self.shape_of_build(sorter.rows)
            files = self._written(manifest, sorter, FilesOf(FileKind.BASE, instant, completed))
        self.end_build(manifest, files, completed=completed)

    def shape_of_build(self, rows: int) -> RecordManifest:
        """What the index has, with the buckets into which a build puts so many rows. Raises `Refused` where it is built
        already."""
        check_not_built(self.indexed())
        manifest = self._index.manifest
        return manifest if manifest.groups else manifest.with_first_group(default_bucket_count(rows))

    def end_build(self, manifest: RecordManifest, files: Sequence[RecordFile], *, completed: str) -> None:
        """The index has the files of a build from now on. Raises `IndexMoved` where another process was faster.

        Args:
            manifest: that of `shape_of_build`.
            files: all that were written by it.
        """

        def change(newest: RecordManifest) -> RecordManifest:
            read = self._index.manifest
            if newest.numbered(read.number, by=read.by) != read:
                raise _faster("built it")
            return replace(newest, groups=manifest.groups).with_build(completed, files)

        self._publish(change, {})

    def tidy(self, timeline: Timeline, *, through: str) -> bool:
        number = self._index.manifest.number
        undone = undone_commits(self._index.manifest.commits, self._index.counted, timeline)
        if undone:
            self._forget(undone)
        counted = self._index.counted
        settled = {instant: counted[instant] for instant in settled_first(counted, timeline, through=through)}
        newest_one = newest_change(timeline)
        # Nothing that completed later was there when the index took that in: it is what the table was then.
        is_exact = newest_one is not None and comparable_time(newest_one.completed) == comparable_time(through)
        if settled or (is_exact and through not in self._index.manifest.exact_at):
            rest = {instant: at for instant, at in counted.items() if instant not in settled}

            def change(newest: RecordManifest) -> RecordManifest:
                settling = newest.with_settled(_still(settled, newest))
                return settling.with_exact(through) if is_exact else settling

            self._publish(change, rest)
        self._merge_all([one for one in self.merge_decisions(through=through) if one.type is not None])
        self._grow(through)
        delete_unnamed(self._storage, self._index.folder, RECORD_FORM)
        return self._index.manifest.number != number

    def merge_decisions(self, *, through: str) -> list[MergeDecision]:
        """What is to be merged, a decision for each file group of the index that has files.

        Args:
            through: the index has every commit that completed up to then.
        """
        index = self._index
        may_be: dict[IndexGroup, list[RecordFile]] = {}
        for file in newest_first(index.manifest, index.counted):
            completed = visible_at(file, index.counted)
            if completed is not None and comparable_time(completed) <= comparable_time(through):
                may_be.setdefault(file.of, []).append(file)
        return [choose_merge(files, self._merges) for _, files in sorted(may_be.items())]

    def _merge_all(self, decisions: Sequence[MergeDecision]) -> None:
        """Small merges become visible together: there may be one in each bucket."""
        tasks = self._tasks_for(
            len(decisions), sum(map(entries_of, decisions)), _bytes_of(decisions), is_streamed=False
        )
        for part in _published_together(decisions, self._merges.entries_published * tasks):
            if tasks == 1:
                into = [merged(self._storage, self._index, decision) for decision in part]
            else:
                into = self._run(merge_tasks(self._index, part, tasks), _bytes_of(part))
            self._publish_merges([file for decision in part for file in decision.files], into)

    def _publish_merges(self, files: Sequence[RecordFile], into: Sequence[RecordFile]) -> None:
        def change(manifest: RecordManifest) -> RecordManifest:
            if not {file.stretch for file in files} <= {file.stretch for file in manifest.files}:
                raise _faster("merged its files, or forgot one of their commits")
            return manifest.with_merged(files, into)

        self._publish(change, self._index.counted)

    def _grow(self, through: str) -> None:
        manifest = self._index.manifest
        settles = all(
            instant in self._index.counted and comparable_time(self._index.counted[instant]) <= comparable_time(through)
            for instant in manifest.commits
        )
        growth = grow(manifest.loads, manifest.scaling) if manifest.groups and settles else None
        if growth is None:
            return

        def change(newest: RecordManifest) -> RecordManifest:
            if newest.commits.keys() - manifest.commits.keys() or newest.groups != manifest.groups:
                raise _faster("wrote to it")
            return newest.with_growth(growth)

        self._publish(change, self._index.counted)

    def _forget(self, instants: Collection[str]) -> None:
        counted = {instant: at for instant, at in self._index.counted.items() if instant not in instants}
        self._publish(lambda newest: newest.without_commits(instants), counted)

    def _publish(self, change: Callable[[RecordManifest], RecordManifest], counted: Mapping[str, str]) -> None:
        index = self._index

        def still_here(newest: RecordManifest) -> RecordManifest:
            if newest.moved_to is not None or newest.is_dropped:
                raise _faster("built it again or dropped it")
            return change(newest)

        manifest = publish(self._storage, index.folder, RECORD_FORM, index.manifest, still_here, by=self._token)
        self._index = index.at(manifest, counted)

    def _in_partitions(self, changes: pa.RecordBatch, instant: str, completed: str | None) -> Iterator[pa.RecordBatch]:
        """The changes, where the index has a key once a partition with the partitions of those that are gone from all
        of the table."""
        if self._index.manifest.scope is KeyScope.GLOBAL or not changes.column(PARTITION_PATH).null_count:
            yield changes
            return
        if completed is None:
            raise Unsupported(
                f"The commit {instant} says that keys are gone, and names no partition of these keys.",
                why="The index is not global: it finds keys in one partition only, and until the commit completes "
                "others may move them.",
                remedy="Let `lakeward index update` take the commit in once it completed.",
            )
        is_named = changes.column(PARTITION_PATH).is_valid()
        yield changes.filter(is_named)
        keys = changes.filter(pa.compute.invert(is_named)).column(RECORD_KEY)
        for found in record_locations(self._storage, self._index, keys).combine_chunks().to_batches():
            gone = found.set_column(2, LOCATIONS.field(2), pa.nulls(found.num_rows, pa.string()))
            yield gone

    def _deltas(
        self, changes: Iterable[pa.RecordBatch], instant: str, logs: BucketLogs | None
    ) -> tuple[RecordManifest, list[RecordFile]]:
        """The delta files of a commit, and the manifest with the buckets that they are of."""
        manifest = self._index.manifest
        with EntrySorter(manifest.scope) as sorter:
            for batch in changes:
                sorter.add(batch)
            if not manifest.groups and sorter.rows:
                manifest = manifest.with_first_group(default_bucket_count(sorter.rows))
            return manifest, self._written(manifest, sorter, FilesOf(FileKind.DELTA, instant, None), logs)

    def _written(
        self, manifest: RecordManifest, sorter: EntrySorter, of: FilesOf, logs: BucketLogs | None = None
    ) -> list[RecordFile]:
        """A file for each bucket of the newest group that has an entry, or a block of its log."""
        if not sorter.rows:
            return []
        places = list(zip(*(column.to_pylist() for column in sorter.places.texts()), strict=True))
        entries = ((keys, locations.to_numpy()) for keys, locations in sorter.entries())
        folder, size = self._index.folder, sorter.rows * _ENTRY_BYTES
        tasks = self._tasks_for(min(manifest.groups[-1].buckets, sorter.rows), sorter.rows, size, is_streamed=True)
        if tasks == 1:
            appends = logs if are_small(sorter.rows, manifest.groups[-1].buckets) else None
            return write_bucket_files(self._storage, folder, manifest, entries, places, of, appends)
        divided = files_tasks(self._storage, folder, manifest, entries, places, of, tasks=tasks)
        try:
            return self._run(divided, size)
        finally:
            for task in divided:
                self._storage.delete(join(folder, task.stream.path))

    def _tasks_for(self, files: int, entries: int, size: int, *, is_streamed: bool) -> int:
        """The number of tasks for so many files of the index with so many entries."""
        worth = partial(is_worth_tasks, files=files, entries=entries, is_streamed=is_streamed)
        if self._spread is None or files < 2 or not worth(math.inf):  # before an engine is started for it
            return 1
        tasks = min(files, self._spread.at_once(size))
        return tasks if worth(tasks) else 1

    def _run(self, tasks: Sequence[BucketTask], size: int) -> list[RecordFile]:
        assert self._spread is not None, "one task is not divided"
        return [file for files in self._spread.run(tasks, size) for file in files]


def create_record_index(storage: Storage, folder: str, empty: RecordManifest) -> None:
    """An index without entries, with these settings. Raises `Refused` where there is one."""
    if end_drop(storage, folder) is not None:
        raise Refused(
            "The table has a record index already.",
            why=f"It is in {folder}.",
            remedy="Bring it up to date (`lakeward index update`), rebuild it (`rebuild`), or drop it first.",
        )
    storage.make_folder(folder)
    create_once(storage, manifest_path(folder, empty.number), RECORD_FORM.encode(empty))


def reshape_record_index(storage: Storage, folder: str, read: RecordManifest, empty: RecordManifest) -> None:
    """An index that has no commit yet has these settings from now on; nothing is written where it has them. Raises
    `IndexMoved` where another process built it meanwhile.

    Args:
        read: its newest manifest.
    """
    if empty.numbered(read.number, by=read.by) == read:
        return

    def change(newest: RecordManifest) -> RecordManifest:
        if newest.numbered(read.number, by=read.by) != read:
            raise _faster("built it")
        return empty

    publish(storage, folder, RECORD_FORM, read, change, by=token_hex(8))


def end_drop(storage: Storage, folder: str) -> RecordManifest | None:
    """The newest manifest. What was dropped, by a process that died over it, is deleted first, and leaves none."""
    newest = RECORD_FORM.read_newest(storage, folder)
    if newest is not None and newest.is_dropped:
        storage.delete_folder(folder)
        return None
    return newest


def drop_record_index(storage: Storage, folder: str) -> bool:
    """Take the index away, and leave nothing of it; False where there was none.

    A manifest says that it is dropped before anything is deleted: an index of which files are missing is never asked.
    It can also say so after one that is broken. Raises `IndexMoved` where another process changed it meanwhile.
    """
    try:
        newest = RECORD_FORM.read_newest(storage, folder)
    except BrokenFile:
        newest = None
        last = RecordManifest(max(list_manifests(storage, folder)) + 1, KeyScope.GLOBAL, is_dropped=True, by="drop")
        try:
            create_once(storage, manifest_path(folder, last.number), RECORD_FORM.encode(last))
        except AlreadyExists:
            raise _faster("changed it") from None
    if newest is not None and not newest.is_dropped:
        publish(storage, folder, RECORD_FORM, newest, lambda manifest: replace(manifest, is_dropped=True), by="drop")
    return storage.delete_folder(folder)


def moved_record_index(storage: Storage, folder: str, to: str) -> None:
    """Let the index be the one in the folder `to` below its own from now on, in one step; what was there before, if
    anything was, goes. Raises `Refused` where there is none in `to`, and `IndexMoved` where another process dropped the
    index or made the first one."""
    newest, target = RECORD_FORM.read_newest(storage, folder), RECORD_FORM.read_newest(storage, join(folder, to))
    if target is None:
        raise Refused(
            "The record index cannot be moved.",
            why=f"There is none in {join(folder, to)}.",
            remedy="Build it: `lakeward index build TABLE --type record`.",
        )
    if newest is None:
        first = RecordManifest(0, target.scope, target.hash_name, target.scaling, moved_to=to)
        try:
            create_once(storage, manifest_path(folder, first.number), RECORD_FORM.encode(first))
        except AlreadyExists:
            raise _faster("made one") from None
        return

    def change(manifest: RecordManifest) -> RecordManifest:
        if manifest.is_dropped:
            raise _faster("dropped it")
        return replace(manifest, moved_to=to, files=(), commits={})

    publish(storage, folder, RECORD_FORM, newest, change, by="move")
    storage.delete_folder(join(folder, newest.moved_to or DATA_FOLDER))


def _bytes_of(decisions: Iterable[MergeDecision]) -> int:
    return sum(file.size for decision in decisions for file in decision.files)


def _published_together(decisions: Iterable[MergeDecision], entries_max: int) -> Iterator[list[MergeDecision]]:
    """The merges in parts of so many entries or a merge more."""
    part, entries = list[MergeDecision](), 0
    for decision in decisions:
        part.append(decision)
        entries += entries_of(decision)
        if entries >= entries_max:
            yield part
            part, entries = [], 0
    if part:
        yield part


def _still(settled: Mapping[str, str], manifest: RecordManifest) -> dict[str, str]:
    return {instant: at for instant, at in settled.items() if instant in manifest.commits}


def _faster(what: str) -> IndexMoved:
    return IndexMoved(
        "The record index is not changed: another process was faster.",
        why=f"It {what} meanwhile.",
        remedy="Run the command again; what was indexed stays.",
    )
