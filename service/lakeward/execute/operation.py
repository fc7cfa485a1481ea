"""One operation on one file slice, as it runs in a Spark task or in process; here FULL compaction of the slice.

    base file + log files --read, merged--> batches --written--> one new base file in the attempt's folder
                                               |                        |
                                             digest  == must be ==  digest of what reads back

A LOG operation is `execute/log_operation.py`'s. These modules and `read` are all that travels to executors, so they
know neither SQL nor Spark.

Touches: reads the slice's files; writes one file into the attempt's folder.
Keeps:   1. a result is returned only for a file that reads back as what was merged;
         2. the folder is never created here: a task that wakes up after its attempt was undone or committed
            finds no folder and fails, instead of leaving a file behind.
"""

from __future__ import annotations

import time

from lakeward.execute.log_operation import run_log_operation
from lakeward.execute.operation_spec import OperationKind, OperationResult, OperationSpec
from lakeward.execute.peak_memory import PeakMemory
from lakeward.execute.verification import OutputSample, check_counts, check_digest, check_sample
from lakeward.format.base_file import BaseFileStats, BaseFileWriter, open_base_file
from lakeward.merge.digest import Digest
from lakeward.read.file_slice import MergedSlice, open_slice
from lakeward.storage.storage import Storage, join


def run_operation(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Carry the operation out. Raises `VerificationFailed` when the file it wrote is not what was merged."""
    if spec.kind is OperationKind.LOG:
        return run_log_operation(storage, spec, task_attempt)
    return run_full_operation(storage, spec, task_attempt)


def run_full_operation(storage: Storage, spec: OperationSpec, task_attempt: int) -> OperationResult:
    """Merge the slice into one new base file."""
    started = time.monotonic()
    memory = PeakMemory()
    path = join(spec.attempt_folder, spec.file_name(task_attempt))
    digest = Digest()
    with open_slice(storage, spec.slice) as merged:
        stats = _write(storage, path, spec, merged, digest, task_attempt)
    if spec.verify:
        _verify(storage, path, spec, merged, stats, digest)
    storage.create(spec.done_path(task_attempt, rows=stats.rows), b"")
    return OperationResult(
        kind=spec.kind,
        index=spec.index,
        partition_path=spec.slice.partition_path,
        file_id=spec.slice.file_id,
        file_name=spec.file_name(task_attempt),
        size_bytes=stats.size_bytes,
        counts=merged.counts,
        digest=digest.hexdigest if spec.verify else "",
        input_bytes=spec.input_bytes,
        seconds=time.monotonic() - started,
        peak_memory_bytes=memory.peak_bytes(),
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
