"""Work on buckets of the record index, wherever it runs: some merges, or a commit's files in some buckets.

    entries, by keys -> a stream for each task, in the folder of the index -> a task writes the files of its buckets
    merges           -> a task makes some of them, out of files that are there

What a task needs is a value; the files that it wrote are its answer, and the process that asked names them in the next
manifest. Files of a task that died, or of tasks that run for an attempt which is over, no manifest names: like all such
they go once none can (`protocol/index/manifests`), and streams with them.

Touches: the folder of the index, by new files.
Keeps:   1. tasks together write what one process writes: each entry once, in the bucket of its hash, and each merge;
         2. a stream that is not what was written is refused, and nothing is published of it.
Memory:  a batch of the stream and a writer for each of its buckets; of merges one at a time.
See:     docs/decisions/0162-how-updates-write-buckets.md
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import BinaryIO, Final, Protocol

import numpy as np
import pyarrow as pa

from lakeward.base.errors import BrokenFile
from lakeward.base.paths import join
from lakeward.index.record.bucket_hash import bucket_numbers
from lakeward.index.record.bucket_merge import merge_bucket_files
from lakeward.index.record.entry_codes import Codes
from lakeward.index.record.key_scope import split_entry_keys
from lakeward.index.record.merge_choice import MergeDecision, MergeType
from lakeward.index.record.record_file import FileKind, RecordFile, stream_path
from lakeward.index.record.record_index import RecordIndex, visible_at
from lakeward.index.record.record_manifest import RecordManifest
from lakeward.protocol.index.bucket_files import FilesOf, Place, new_path, open_new_file, write_bucket_files
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage

FILE_SECONDS: Final = 0.005
ENTRY_SECONDS: Final = 0.8e-6
STREAM_SECONDS: Final = 0.3e-6
"""What a bucket file, an entry in it, and an entry in a stream take on local disk, where they were measured (0162)."""
SPREAD_SECONDS: Final = 2.0
"""Tasks must save so many seconds: they begin later than the work would here."""
_READ_BYTES: Final = 1024 * 1024
_STREAM = pa.schema([pa.field("key", pa.string()), pa.field("location", pa.int32())])


@dataclass(frozen=True, slots=True)
class EntryStream:
    """The entries of one task, in a file."""

    path: str
    """Below the folder of the index."""
    rows: int
    size: int
    crc32: int


@dataclass(frozen=True, slots=True)
class FilesTask:
    """A commit's files in those buckets whose entries are in the stream."""

    folder: str
    """The folder of the index."""
    manifest: RecordManifest
    """Without files."""
    stream: EntryStream
    places: tuple[Place, ...]
    of: FilesOf


@dataclass(frozen=True, slots=True)
class MergesTask:
    """Merges, each of files of one file group."""

    folder: str
    manifest: RecordManifest
    """Without files."""
    counted: Mapping[str, str]
    """What `RecordIndex` takes."""
    decisions: tuple[MergeDecision, ...]


BucketTask = FilesTask | MergesTask


class BucketSpread(Protocol):
    """Tasks over buckets run there."""

    def at_once(self, input_bytes: int) -> int:
        """So many tasks run at the same time that read so many bytes; 1 where it is not worth to divide them."""

    def run(self, tasks: Sequence[BucketTask], input_bytes: int) -> list[tuple[RecordFile, ...]]:
        """The files of each task. Raises what a task raises, and `TaskFailed` for one that died."""


def run_bucket_task(storage: Storage, task: BucketTask, task_attempt: int) -> tuple[RecordFile, ...]:
    """Raises `BrokenFile`, and `NotFound` where files went meanwhile."""
    if isinstance(task, MergesTask):
        index = RecordIndex(task.folder, task.manifest, task.counted)
        return tuple(merged(storage, index, decision) for decision in task.decisions)
    entries = _read(storage, join(task.folder, task.stream.path), task.stream)
    return tuple(write_bucket_files(storage, task.folder, task.manifest, entries, task.places, task.of))


def run_bucket_task_at(location: str, task: BucketTask, task_attempt: int) -> tuple[RecordFile, ...]:
    """`run_bucket_task` on the storage of `location`."""
    storage, _ = open_storage(location)
    return run_bucket_task(storage, task, task_attempt)


def is_worth_tasks(tasks: float, *, files: int, entries: int, is_streamed: bool) -> bool:
    """Whether so many tasks at once are done earlier than this process alone.

    Args:
        files: that are written, with so many entries in all.
        is_streamed: this process writes the entries for the tasks first.
    """
    alone = files * FILE_SECONDS + entries * ENTRY_SECONDS
    return alone - alone / tasks - (entries * STREAM_SECONDS if is_streamed else 0.0) >= SPREAD_SECONDS


def merged(storage: Storage, index: RecordIndex, decision: MergeDecision) -> RecordFile:
    """The file that the merge of these files makes. Raises `BrokenFile`."""
    files = decision.files
    of, newest = files[0].of, files[0]
    is_full = decision.type is MergeType.FULL
    is_oldest = of.group == 0 and of.link == 0
    completed = visible_at(newest, index.counted)
    unsettled = frozenset(index.manifest.commits)
    path = new_path(index.manifest, of, newest.instant)
    with open_new_file(storage, index.folder, path) as sink:
        stats = merge_bucket_files(
            [index.open_file(storage, file) for file in files],
            sink,
            scope=index.manifest.scope,
            keeps_tombstones=not (is_full and is_oldest),
            unsettled=unsettled,
            is_valid=index.counts,
        )
    named = frozenset[str]().union(*(file.names for file in files)) & unsettled
    kind = FileKind.BASE if is_full else FileKind.MERGED
    sizes = stats.size_bytes, stats.entries, stats.tombstones
    return RecordFile(of, kind, path, *sizes, newest.instant, completed, tuple(sorted(named)))


def merge_tasks(index: RecordIndex, decisions: Sequence[MergeDecision], tasks: int) -> list[MergesTask]:
    """The merges divided for so many tasks, about as many entries each."""
    shares: list[list[MergeDecision]] = [[] for _ in range(min(tasks, len(decisions)))]
    loads = [0] * len(shares)
    for decision in sorted(decisions, key=entries_of, reverse=True):
        lightest = loads.index(min(loads))
        shares[lightest].append(decision)
        loads[lightest] += entries_of(decision)
    manifest = replace(index.manifest, files=())
    return [MergesTask(index.folder, manifest, index.counted, tuple(share)) for share in shares]


def entries_of(decision: MergeDecision) -> int:
    return sum(file.entries for file in decision.files)


def files_tasks(
    storage: Storage,
    folder: str,
    manifest: RecordManifest,
    entries: Iterable[tuple[pa.Array, Codes]],
    places: Sequence[Place],
    of: FilesOf,
    *,
    tasks: int,
) -> list[FilesTask]:
    """A task for each share of the buckets that has entries, with its stream. The arguments are those of
    `write_bucket_files`."""
    group = manifest.groups[-1]
    slim = replace(manifest, files=())
    with ExitStack() as stack:
        writers: dict[int, tuple[str, _StreamWriter]] = {}
        for keys, locations in entries:
            record_keys, _ = split_entry_keys(keys, manifest.scope)
            shares = bucket_numbers(record_keys, hash_name=group.hash_name, count=group.buckets) % tasks
            for share in map(int, np.unique(shares)):
                if share not in writers:
                    path = stream_path(share, number=manifest.number, token=token_hex(4), instant=of.instant)
                    sink = stack.enter_context(open_new_file(storage, folder, path))
                    writers[share] = path, _StreamWriter(sink)
                rows = np.flatnonzero(shares == share)
                columns = [keys.take(pa.array(rows)), pa.array(locations[rows])]
                writers[share][1].add(pa.RecordBatch.from_arrays(columns, schema=_STREAM))
        streams = [writer.finish(path) for _, (path, writer) in sorted(writers.items())]
    return [FilesTask(folder, slim, each, tuple(places), of) for each in streams]


class _StreamWriter:
    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._rows = self._size = self._crc32 = 0
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._stream = pa.ipc.new_stream(pa.PythonFile(self, mode="w"), _STREAM, options=options)

    closed = False

    def write(self, data: bytes) -> int:
        """What Arrow asks of a file."""
        self._crc32 = zlib.crc32(data, self._crc32)
        self._size += len(data)
        self._sink.write(data)
        return len(data)

    def flush(self) -> None:
        """Closing the sink does it."""

    def add(self, batch: pa.RecordBatch) -> None:
        self._stream.write_batch(batch)
        self._rows += batch.num_rows

    def finish(self, path: str) -> EntryStream:
        self._stream.close()
        return EntryStream(path, self._rows, self._size, self._crc32)


class _StreamReader:
    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.size = self.crc32 = 0

    closed = False

    def read(self, size: int) -> bytes:
        """What Arrow asks of a file."""
        data = self._source.read(size)
        self.crc32 = zlib.crc32(data, self.crc32)
        self.size += len(data)
        return data


def _read(storage: Storage, path: str, stream: EntryStream) -> Iterator[tuple[pa.Array, Codes]]:
    rows = 0
    with storage.open_input(path) as source:
        checked = _StreamReader(source)
        try:
            for batch in pa.ipc.open_stream(pa.PythonFile(checked, mode="r")):
                rows += batch.num_rows
                yield batch.column(0), batch.column(1).to_numpy()
        except pa.ArrowException as error:
            raise _broken(path, str(error)) from None
        except OSError as error:  # of the storage, or of Arrow, which cannot decompress what it reads
            while checked.read(_READ_BYTES):
                pass
            if (checked.size, checked.crc32) == (stream.size, stream.crc32):
                raise
            raise _broken(path, str(error)) from None
    if (rows, checked.size, checked.crc32) != (stream.rows, stream.size, stream.crc32):
        raise _broken(path, f"It has {rows} entries in {checked.size} bytes, or a checksum of it is wrong")


def _broken(path: str, why: str) -> BrokenFile:
    return BrokenFile(
        f"The entries in {path}, which a task was to put into buckets of a record index, are not what was written.",
        why=f"{why}.",
        remedy="Run the command again; the index is as it was.",
    )
