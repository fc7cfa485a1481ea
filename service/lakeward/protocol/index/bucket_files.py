"""The files of a commit, or of a build, in buckets of the record index: sorted entries in, a file for each bucket that
has some out. The next manifest names them, or nothing ever reads them.

Touches: the folder of the index, by new files, or blocks at the end of logs.
Memory:  a writer for each bucket, and 2,048 entries of each, up to 262,144 in all.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from secrets import token_hex
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.paths import join
from lakeward.index.manifest_form import DATA_FOLDER
from lakeward.index.record.bucket_hash import bucket_numbers
from lakeward.index.record.bucket_writer import BucketFileWriter
from lakeward.index.record.entry_codes import Codes
from lakeward.index.record.key_scope import split_entry_keys
from lakeward.index.record.record_file import FileKind, IndexGroup, RecordFile, file_path
from lakeward.index.record.record_manifest import RecordManifest
from lakeward.protocol.index.bucket_logs import BucketLogs
from lakeward.storage.storage import Storage

Place = tuple[str | None, str | None]
"""A partition path and a file id."""


_ROWS_A_BUCKET = 2048
_ROWS_MAX = 262_144


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
    logs: BucketLogs | None = None,
) -> list[RecordFile]:
    """A file for each bucket of the newest group that has an entry, or a block of its log.

    Args:
        folder: of the index.
        manifest: what the index has; the buckets of its newest group count.
        entries: (keys of entries, codes of their locations), by the bytes of the keys, each key once.
        places: those of the codes from 1 on; code 0 says that a key is gone.
        logs: blocks are appended to these, and all of them are held until then; None: each is a file of its own.
    """
    number = len(manifest.groups) - 1
    group = manifest.groups[number]
    known: list[Place] = [(None, None), *places]
    with ExitStack() as stack:
        writers: dict[int, tuple[str, BinaryIO, BucketFileWriter]] = {}
        for keys, locations in _long_batches(entries, _ROWS_A_BUCKET * group.buckets):
            record_keys, _ = split_entry_keys(keys, manifest.scope)
            numbers = bucket_numbers(record_keys, hash_name=group.hash_name, count=group.buckets)
            order = np.argsort(_narrow(numbers), kind="stable")
            ends = np.cumsum(np.bincount(numbers, minlength=group.buckets))
            for bucket in map(int, np.unique(numbers)):
                if bucket not in writers:
                    at = IndexGroup(number, bucket, group.links[bucket])
                    path = "" if logs is not None else new_path(manifest, at, of.instant)
                    sink = io.BytesIO() if logs is not None else open_new_file(storage, folder, path)
                    stack.enter_context(sink)
                    writers[bucket] = path, sink, BucketFileWriter(sink, scope=manifest.scope, with_instants=False)
                writer = writers[bucket][2]
                rows = order[0 if bucket == 0 else ends[bucket - 1] : ends[bucket]]
                distinct, codes = _distinct(locations[rows], len(known))
                named = writer.places.intern(known[code] for code in distinct)
                writer.add_codes(keys.take(pa.array(rows)).cast(pa.binary()), named[codes], None)
        found = []
        for bucket, (path, sink, writer) in sorted(writers.items()):
            stats = writer.finish()
            at = IndexGroup(number, bucket, group.links[bucket])
            offset = 0
            if logs is not None:
                assert isinstance(sink, io.BytesIO), "it was made so"
                path, offset = logs.append(at, of.instant, sink.getvalue())
            sizes = stats.size_bytes, stats.entries, stats.tombstones
            found.append(RecordFile(at, of.kind, path, *sizes, of.instant, of.completed, offset=offset))
    return found


def _distinct(codes: Codes, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(the codes that occur, ascending; which of them each one is). All are less than `count`."""
    if count > len(codes):
        return np.unique(codes, return_inverse=True)
    found = np.flatnonzero(np.bincount(codes, minlength=count))
    numbers = np.empty(count, dtype=np.int64)
    numbers[found] = np.arange(len(found))
    return found, numbers[codes]


def _narrow(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32] | npt.NDArray[np.uint16]:
    """Numbers of 16 bits are sorted in one pass."""
    return numbers.astype(np.uint16) if int(numbers.max()) <= np.iinfo(np.uint16).max else numbers


def _long_batches(entries: Iterable[tuple[pa.Array, Codes]], rows_min: int) -> Iterator[tuple[pa.Array, Codes]]:
    """The entries in batches of about so many rows or more, but no more than `_ROWS_MAX` of short ones: each bucket's
    part of a batch costs a call."""
    held, rows = list[tuple[pa.Array, Codes]](), 0
    for keys, locations in entries:
        held.append((keys, locations))
        rows += len(keys)
        if rows >= min(rows_min, _ROWS_MAX):
            yield _joined(held)
            held, rows = [], 0
    if held:
        yield _joined(held)


def _joined(held: Sequence[tuple[pa.Array, Codes]]) -> tuple[pa.Array, Codes]:
    if len(held) == 1:
        return held[0]
    return pa.concat_arrays([keys for keys, _ in held]), np.concatenate([codes for _, codes in held])


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
