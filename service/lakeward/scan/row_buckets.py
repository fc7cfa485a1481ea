"""Rows of two sides in buckets by their keys: rows with one key, of either side, are in one bucket.

    batches -> key's hash -> one of 64 files for each side -> bucket after bucket; one that is too large is split again

Touches: temporary files outside of the tables. They have no names, so they are gone with the process, however it ends.
Keeps:   1. each row comes back once, in a bucket with all rows of its key;
         2. both sides of a bucket fit the memory that was given, unless the rows of one key do not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling

KEY_HASH = "lakeward key one"
"""The column by which rows are put into buckets: words of 64 bits of which all are spread."""

_BITS = 6
_BUCKETS = 1 << _BITS
_SPLITS_MAX = 64 // _BITS

Side = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class RowBuckets:
    schema: pa.Schema
    bucket_bytes: int
    """What both sides of a bucket may take as Arrow has them."""
    folder: str | None = None
    """For the files; None is the system's folder for temporary files."""

    def buckets(self, before: Side, after: Side, *, splits: int = 0) -> Iterator[tuple[pa.Table, pa.Table]]:
        """The rows of both sides, bucket by bucket. Raises `SpillFailed`, and what the sides do."""
        with ExitStack() as files:
            first = self._spill(before, splits, files)
            second = self._spill(after, splits, files)
            for one, other in zip(first, second, strict=True):
                rows = one.bytes + other.bytes
                if rows and rows > self.bucket_bytes and splits + 1 < _SPLITS_MAX:
                    yield from self.buckets(one.batches(), other.batches(), splits=splits + 1)
                elif rows:
                    yield one.read(), other.read()
                one.close()
                other.close()

    def _spill(self, side: Side, splits: int, files: ExitStack) -> list[_SpilledRows]:
        with spilling("rows of a comparison", self.folder):
            spilled = [_SpilledRows(files.enter_context(self._file()), self.schema) for _ in range(_BUCKETS)]
        for rows in self._gathered(side):
            hashes = rows.column(KEY_HASH).to_numpy(zero_copy_only=False)
            shift = np.uint64(64 - _BITS * (splits + 1))
            numbers = ((hashes >> shift) & np.uint64(_BUCKETS - 1)).astype(np.int64)
            order = np.argsort(numbers, kind="stable")
            ends = np.cumsum(np.bincount(numbers, minlength=_BUCKETS))
            sorted_rows = rows.take(pa.array(order))
            start = 0
            with spilling("rows of a comparison", self.folder):
                for bucket, end in zip(spilled, ends.tolist(), strict=True):
                    if end > start:
                        bucket.write(sorted_rows.slice(start, end - start))
                    start = end
        with spilling("rows of a comparison", self.folder):
            for bucket in spilled:
                bucket.finish()
        return spilled

    def _gathered(self, side: Side) -> Iterator[pa.RecordBatch]:
        """The rows in batches that are worth being cut into so many parts."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in side:
            if batch.num_rows == 0:
                continue
            waiting.append(batch)
            size += batch.nbytes
            if size >= self.bucket_bytes // 4:
                yield _one_batch(waiting, self.schema)
                waiting, size = [], 0
        if waiting:
            yield _one_batch(waiting, self.schema)

    def _file(self) -> IO[bytes]:
        return tempfile.TemporaryFile(prefix=SPILL_PREFIX, dir=self.folder)


class _SpilledRows:
    """The rows of one side in one bucket."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file
        self._schema = schema
        self._writer = pa.ipc.new_stream(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        self.bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)
        self.bytes += rows.nbytes

    def finish(self) -> None:
        self._writer.close()
        self._file.flush()

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._file.seek(0)
        with pa.ipc.open_stream(self._file) as reader:
            yield from reader

    def read(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self._schema)

    def close(self) -> None:
        self._file.close()


def _one_batch(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return rows[0] if len(rows) == 1 else pa.concat_batches(rows)
