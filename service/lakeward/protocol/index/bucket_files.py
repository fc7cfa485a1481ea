"""The files of a commit, or of a build, in buckets of the record index: sorted entries in, a file for each bucket that
has some out. The next manifest names them, or nothing ever reads them.

Touches: the folder of the index, by new files.
Memory:  a writer for each bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from secrets import token_hex
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from lakeward.base.paths import join
from lakeward.index.manifest_form import DATA_FOLDER
from lakeward.index.record.bucket_hash import bucket_numbers
from lakeward.index.record.bucket_writer import BucketFileWriter
from lakeward.index.record.entry_codes import Codes
from lakeward.index.record.key_scope import split_entry_keys
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile, file_path
from lakeward.index.record.record_manifest import RecordManifest
from lakeward.storage.storage import Storage

Place = tuple[str | None, str | None]
"""A partition path and a file id."""


@dataclass(frozen=True, slots=True)
class FilesOf:
    """What files are of."""

    kind: FileKind
    instant: str
    completed: str | None


def write_bucket_files(
    storage: Storage,
    folder: str,
    manifest: RecordManifest,
    entries: Iterable[tuple[pa.Array, Codes]],
    places: Sequence[Place],
    of: FilesOf,
) -> list[RecordFile]:
    """A file for each bucket of the newest group that has an entry.

    Args:
        folder: of the index.
        manifest: what the index has; the buckets of its newest group count.
        entries: (keys of entries, codes of their locations), by the bytes of the keys, each key once.
        places: those of the codes from 1 on; code 0 says that a key is gone.
    """
    number = len(manifest.groups) - 1
    group = manifest.groups[number]
    ends: list[Place] = [(None, None), *places]
    with ExitStack() as stack:
        writers: dict[int, tuple[str, BucketFileWriter]] = {}
        for keys, locations in entries:
            record_keys, _ = split_entry_keys(keys, manifest.scope)
            numbers = bucket_numbers(record_keys, hash_name=group.hash_name, count=group.buckets)
            for bucket in map(int, np.unique(numbers)):
                if bucket not in writers:
                    at = IndexGroup(number, bucket, group.links[bucket])
                    path = new_path(manifest, at, of.instant)
                    sink = stack.enter_context(open_new_file(storage, folder, path))
                    writers[bucket] = path, BucketFileWriter(sink, scope=manifest.scope, with_instants=False)
                writer = writers[bucket][1]
                rows = np.flatnonzero(numbers == bucket)
                distinct, codes = np.unique(locations[rows], return_inverse=True)
                named = writer.places.intern(ends[code] for code in distinct)
                writer.add_codes(keys.take(pa.array(rows)).cast(pa.binary()), named[codes], None)
        found = []
        for bucket, (path, writer) in sorted(writers.items()):
            stats = writer.finish()
            at = IndexGroup(number, bucket, group.links[bucket])
            sizes = stats.size_bytes, stats.entries, stats.tombstones
            found.append(RecordFile(at, of.kind, path, *sizes, of.instant, of.completed))
    return found


def new_path(manifest: RecordManifest, of: IndexGroup, instant: str) -> str:
    """The path of a new file below the folder of the index."""
    return file_path(of, number=manifest.number, token=token_hex(4), instant=instant)


def open_new_file(storage: Storage, folder: str, path: str) -> BinaryIO:
    """
    Args:
        folder: of the index.
        path: below it.
    """
    storage.make_folder(join(folder, DATA_FOLDER))
    return storage.open_output(join(folder, path))
