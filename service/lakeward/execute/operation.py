"""One operation on one file slice, as it runs in a Spark task or in process: FULL compaction of the slice.

    base file + log files --read, merged--> batches --written--> one new base file in the attempt's folder
                                               |                        |
                                             digest  == must be ==  digest of what reads back

This module and `read` are all that travels to executors, so they know neither SQL nor Spark.

Touches: reads the slice's files; writes one file into the attempt's folder.
Keeps:   1. a result is returned only for a file that reads back as what was merged;
         2. the folder is never created here: a task that wakes up after its attempt was undone or committed
            finds no folder and fails, instead of leaving a file behind.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.execute.verification import OutputSample, check_counts, check_digest, check_sample
from lakeward.format.base_file import BaseFileStats, BaseFileWriter, open_base_file
from lakeward.format.file_name import BaseFileName, WriteToken
from lakeward.merge.digest import Digest
from lakeward.read.file_slice import MergeCounts, MergedSlice, SliceInput, open_slice
from lakeward.storage.opening import open_storage
from lakeward.storage.storage import FileStatus, Storage, join


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """What a task needs to know; picklable."""

    index: int
    """Place in the plan, from 0."""
    slice: SliceInput
    attempt: int
    """The attempt's number, part of the write token."""
    attempt_folder: str
    input_bytes: int
    """Size of the slice's files."""
    codec: str = "zstd"
    verify: bool = True

    def file_name(self, task_attempt: int) -> str:
        """The new base file's name. Two attempts of a task never write to the same name."""
        token = WriteToken(self.index, self.attempt, task_attempt)
        return BaseFileName(self.slice.file_id, str(token), self.slice.instant).text


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What one operation made, before anybody can see it."""

    index: int
    partition_path: str
    file_id: str
    file_name: str
    size_bytes: int
    counts: MergeCounts
    digest: str
    """Hexadecimal, over the rows without `_hoodie_file_name`; empty without verification."""
    input_bytes: int
    seconds: float


def finished_operations(statuses: Iterable[FileStatus]) -> dict[int, int]:
    """From a listing of the attempt's folder: index of each finished operation → rows it wrote."""
    finished = {}
    for status in statuses:
        if (match := _DONE_NAME.fullmatch(status.name)) is not None:
            finished[int(match["index"])] = int(match["rows"])
    return finished


_DONE_NAME = re.compile(r"(?P<index>\d+)-\d+\.(?P<rows>\d+)-rows\.done")


def run_operation_at(location: str, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """`run_operation` on the storage of `location`; how executors, which share no objects with us, start."""
    storage, _ = open_storage(location)
    return run_operation(storage, spec, task_attempt)


def run_operation(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Merge the slice into one new base file. Raises `VerificationFailed` when the file is not what was merged."""
    started = time.monotonic()
    path = join(spec.attempt_folder, spec.file_name(task_attempt))
    digest = Digest()
    with open_slice(storage, spec.slice) as merged:
        stats = _write(storage, path, spec, merged, digest, task_attempt)
    if spec.verify:
        _verify(storage, path, spec, merged, stats, digest)
    # An empty file whose name says how far we are: whoever shows progress needs one listing and no read.
    storage.create(join(spec.attempt_folder, f"{spec.index}-{task_attempt}.{stats.rows}-rows.done"), b"")
    return OperationResult(
        index=spec.index,
        partition_path=spec.slice.partition_path,
        file_id=spec.slice.file_id,
        file_name=spec.file_name(task_attempt),
        size_bytes=stats.size_bytes,
        counts=merged.counts,
        digest=digest.hexdigest if spec.verify else "",
        input_bytes=spec.input_bytes,
        seconds=time.monotonic() - started,
    )


def _write(
    storage: Storage, path: str, spec: OperationSpec, merged: MergedSlice, digest: Digest, task_attempt: int
) -> BaseFileStats:
    with storage.open_output(path) as sink:
        writer = BaseFileWriter(
            sink,
            merged.schema,
            file_name=spec.file_name(task_attempt),
            codec=spec.codec,
            keys_expected=merged.fold_logs(),
        )
        for batch in merged.batches():
            if spec.verify:
                digest.update(batch)
            writer.write(batch)
        return writer.close()


def _verify(
    storage: Storage, path: str, spec: OperationSpec, merged: MergedSlice, stats: BaseFileStats, digest: Digest
) -> None:
    """Read the file back and judge it; raises `VerificationFailed`."""
    read_back = Digest()
    sample = OutputSample(merged.sample)
    with storage.open_input(path) as source:
        for batch in open_base_file(source, merged.schema, name=path):
            read_back.update(batch)
            sample.update(batch)
    check_digest(digest.hexdigest, read_back.hexdigest)
    check_counts(merged.counts, rows_written=stats.rows)
    check_sample(merged.sample.keys, sample.rows, rules=spec.slice.rules, schema=merged.schema)
