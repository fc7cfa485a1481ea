"""A slice from before a clustering becomes a file group again: its merged rows, in the order in which they are read.

    digest    slices -> their rows, counted and hashed
    return    slice  -> a base file of a new file group

Touches: what `slice_rows` and `group_file` touch.
Keeps:   1. the new file reads back as the rows that a query finds in the slice, with their commit times and sequence
            numbers, in the slice's order; the file's name alone is another one;
         2. the digest of a slice is that of the rows which a query finds in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakeward.engine.task.peak_memory import use_tight_pool
from lakeward.engine.task.verification import check_digest
from lakeward.merge.digest import Digest
from lakeward.read.slice_input import SliceInput
from lakeward.services.clustering.run.group_file import WrittenGroup, write_group
from lakeward.services.clustering.run.slice_rows import Read, reading_slices
from lakeward.storage.storage import Storage
from lakeward.write.target import WriteContext, WriteTarget


@dataclass(frozen=True, slots=True)
class DigestSpec:
    slice: SliceInput


@dataclass(frozen=True, slots=True)
class SliceDigest:
    digest: str
    """Hexadecimal."""
    rows: int


@dataclass(frozen=True, slots=True)
class ReturnSpec:
    target: WriteTarget
    slice: SliceInput
    rows: int
    """So many has the slice."""


def digest_slice(storage: Storage, context: WriteContext, spec: DigestSpec, task_attempt: int) -> SliceDigest:
    use_tight_pool()

    def read_all(read: Read, _: int) -> SliceDigest:
        found = Digest()
        for batch in read(spec.slice):
            found.take_hashes(batch)
        return SliceDigest(found.hexdigest, found.rows)

    return reading_slices(storage, context, read_all, task_attempt)


def return_rows(storage: Storage, context: WriteContext, spec: ReturnSpec, task_attempt: int) -> WrittenGroup:
    use_tight_pool()
    written = reading_slices(storage, context, partial(_write, storage, context, spec), task_attempt)
    storage.create(context.place(spec.target).done_path(task_attempt, rows=spec.rows), b"")
    return written


def _write(storage: Storage, context: WriteContext, spec: ReturnSpec, read: Read, task_attempt: int) -> WrittenGroup:
    came = Digest()

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in read(spec.slice):
            if batch.num_rows:
                came.take_hashes(batch)
                yield batch

    written = write_group(storage, context, spec.target, rows(), task_attempt, rows_expected=lambda: spec.rows)
    check_digest(merged=came.hexdigest, written=written.digest)
    return written
