"""Make the files of a record index that is built, some buckets a task: as it runs in a task or in process.

    checkpoints -> the keys of the task's buckets, merged -> each key with its last place -> a file for each bucket

Each task reads all checkpoints, and goes on with its own keys alone: reading them costs a small part of merging and
writing, and no file has to be made for each pair of a file group and a bucket. So there are no more tasks than
`TASKS_MAX`, however many buckets there are.

Touches: the folder of the build, reading, as `merged_keys` does; the folder of the index, by new files; spill files.
Keeps:   1. all tasks together write each key of the checkpoints once, in the bucket of its hash;
         2. a key that several file groups have is in the last of them.
See:     docs/decisions/0085-builds-that-go-on.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.index.key_checkpoints import KeyCheckpoint
from lakeward.index.location import differs
from lakeward.index.record.bucket_hash import bucket_numbers
from lakeward.index.record.entry_codes import Codes
from lakeward.index.record.record_file import FileKind, RecordFile
from lakeward.index.record.record_manifest import RecordManifest
from lakeward.protocol.index.bucket_files import FilesOf, write_bucket_files
from lakeward.services.indexing.run.merged_keys import placed_keys
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.file_system_view import GroupId

TASKS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """What a task needs to know."""

    folder: str
    """The index's."""
    manifest: RecordManifest
    """With the buckets of the build."""
    build_folder: str
    made: tuple[tuple[GroupId, KeyCheckpoint], ...]
    """All checkpoints."""
    instant: str
    completed: str
    """When that commit became visible."""
    part: int
    """The task has the buckets whose numbers leave this rest,"""
    parts: int
    """divided by so many."""


def bucket_specs(spec: BucketSpec, tasks: int) -> list[BucketSpec]:
    """The same work divided for so many tasks at once.

    Args:
        spec: of all buckets.
        tasks: that run at the same time.
    """
    parts = min(tasks, spec.manifest.groups[-1].buckets, TASKS_MAX)
    return [replace(spec, part=part, parts=parts) for part in range(parts)]


def write_buckets(storage: Storage, spec: BucketSpec, task_attempt: int) -> tuple[RecordFile, ...]:
    """Raises `NotFound` for a checkpoint that went or is broken, `Unsupported`, and `SpillFailed`."""
    use_tight_pool()
    group = spec.manifest.groups[-1]

    def is_own(keys: pa.Array) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (
            bucket_numbers(keys, hash_name=group.hash_name, count=group.buckets) % spec.parts == spec.part
        )
        return found

    placed = placed_keys(
        storage, spec.build_folder, [each for _, each in spec.made], is_own if spec.parts > 1 else None
    )
    of = FilesOf(FileKind.BASE, spec.instant, spec.completed)
    places = [place for place, _ in spec.made]
    return tuple(write_bucket_files(storage, spec.folder, spec.manifest, _entries(placed), places, of))


def write_buckets_at(location: str, spec: BucketSpec, task_attempt: int) -> tuple[RecordFile, ...]:
    """`write_buckets` on the storage of `location`."""
    storage, _ = open_storage(location)
    return write_buckets(storage, spec, task_attempt)


def _entries(placed: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Array, Codes]]:
    """Each key once, with the code of its last place."""
    for rows in placed:
        keys, places = rows.columns
        begins = np.flatnonzero(differs(keys))
        ends = np.append(begins[1:], len(keys)) - 1
        codes = places.to_numpy()[ends] + np.int32(1)
        yield (keys if len(begins) == len(keys) else keys.take(pa.array(begins))), codes
