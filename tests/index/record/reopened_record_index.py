"""A record index in a folder that is opened for each call, as each process does that uses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from lakeward.index.index import Indexed, PartEffort
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.index_growth import Scaling
from lakeward.index.record.merge_choice import MERGE_OPTIONS, MergeOptions
from lakeward.index.record.record_index import BucketPart, RecordIndex
from lakeward.index.record.record_manifest import RecordManifest, open_manifest
from lakeward.protocol.index.bucket_tasks import BucketSpread
from lakeward.protocol.index.record_index_writer import RecordIndexWriter, create_record_index
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.timeline.timeline import Timeline
from tests.index.memory_index import CompletionTimes


def new_record_index(
    folder: Path,
    *,
    is_global: bool = True,
    buckets: int | None = None,
    scaling: Scaling | None = None,
    storage: Storage | None = None,
) -> None:
    scope = KeyScope.GLOBAL if is_global else KeyScope.PARTITION
    empty = RecordManifest(0, scope, scaling=scaling or Scaling())
    empty = empty if buckets is None else empty.with_first_group(buckets)
    create_record_index(storage or LocalStorage(), str(folder), empty)


class ReopenedRecordIndex:
    can_index_log_files = True

    def __init__(
        self,
        folder: Path,
        times: CompletionTimes,
        *,
        storage: Storage | None = None,
        merges: MergeOptions = MERGE_OPTIONS,
        spread: BucketSpread | None = None,
    ) -> None:
        self.folder = str(folder)
        self.storage = storage or LocalStorage()
        self._times = times
        self._merges = merges
        self._spread = spread

    @property
    def is_global(self) -> bool:
        return self.open().is_global

    @property
    def count(self) -> int:
        return self.open().count

    def parts_of(self, keys: pa.Array):
        return self.open().parts_of(keys)

    def parts(self, partitions: Collection[str] | None) -> Sequence[int] | Sequence[BucketPart]:
        return self.open().parts(partitions)

    def effort(self, part: int | BucketPart) -> PartEffort:
        return self.open().effort(part)

    def look_up(self, storage: Storage, part: int | BucketPart, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        return self.open().look_up(self.storage, part, keys)

    def indexed(self) -> Indexed:
        return self.open().indexed()

    def update(self, instant: str, changes: Iterable[pa.RecordBatch], *, completed: str | None) -> None:
        self.writer().update(instant, changes, completed=completed)

    def rollback(self, instant: str) -> None:
        self.writer().rollback(instant)

    def build(self, instant: str, locations: Iterable[pa.RecordBatch], *, completed: str) -> None:
        self.writer().build(instant, locations, completed=completed)

    def tidy(self, timeline: Timeline, *, through: str) -> bool:
        return self.writer().tidy(timeline, through=through)

    def open(self) -> RecordIndex:
        at, manifest = open_manifest(self.storage, self.folder)
        return RecordIndex(at, manifest, self._times(manifest.commits.keys()))

    def writer(self) -> RecordIndexWriter:
        return RecordIndexWriter(self.storage, self.open(), merges=self._merges, spread=self._spread)
