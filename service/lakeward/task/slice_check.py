"""Read one file slice as a query does and judge what comes out, as it runs in a Spark task or in process.

    files as their commits say? -> merge once: which keys, how many rows -> merge again: the same rows, no key twice,
    and of a sample of keys exactly what the slow twin of the merge rules makes of the slice's records

Like `task/operation.py` this travels to executors and knows neither SQL nor Spark.

Touches: reads the slice's files, twice; writes nothing.
Keeps:   1. a problem is told only of what was read; what this release cannot merge is no problem but is said;
         2. memory holds eight bytes a row beside what the merge needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.errors import BrokenFile, NotFound, Unsupported, VerificationFailed
from lakeward.merge.digest import Digest
from lakeward.merge.key_index import hash_keys
from lakeward.merge.merge_rules import RECORD_KEY_FIELD
from lakeward.read.file_slice import open_slice
from lakeward.read.slice_input import SliceInput
from lakeward.storage.storage import Storage, join
from lakeward.task.slice_check_spec import CheckedSlice, SliceCheck
from lakeward.task.verification import OutputSample, check_counts, check_sample

DUPLICATES_TOLD = 3


def check_slice(storage: Storage, check: SliceCheck, task_attempt: int) -> CheckedSlice:
    """Look for what is wrong with a slice. Raises nothing that only says so."""
    problems = list(_check_files(storage, check))
    if problems:
        return CheckedSlice(0, 0, tuple(problems))  # of a slice with such files the merge says nothing new
    try:
        first = _FirstMerge(storage, check.slice)
        problems += _check_rows(storage, check, first)
    except (NotFound, BrokenFile) as error:
        return CheckedSlice(0, 0, (str(error),))
    except Unsupported as error:
        return CheckedSlice(0, 0, (), not_merged=error.what)
    return CheckedSlice(first.rows, len(first.merged.sample.keys), tuple(problems))


def _check_files(storage: Storage, check: SliceCheck) -> Iterator[str]:
    for file in check.files:
        status = storage.stat(join(check.slice.base_path, file.path))
        if status is None:
            yield f"{file.path} is missing"
        elif file.size_bytes is not None and status.size != file.size_bytes:
            yield f"{file.path} has {status.size} bytes, its commit says {file.size_bytes}"


class _FirstMerge:
    """Everything that one pass over the merged rows can tell."""

    def __init__(self, storage: Storage, slice_input: SliceInput) -> None:
        self.digest = Digest()
        hashes: list[npt.NDArray[np.uint64]] = []
        with open_slice(storage, slice_input) as self.merged:
            for batch in self.merged.batches():
                hashes.append(hash_keys(batch.column(RECORD_KEY_FIELD)))
                self.digest.update(batch)
        all_hashes = np.sort(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
        self.rows = len(all_hashes)
        self.hashes_twice = np.unique(all_hashes[1:][all_hashes[1:] == all_hashes[:-1]])


def _check_rows(storage: Storage, check: SliceCheck, first: _FirstMerge) -> Iterator[str]:
    for file in check.files:
        if file.rows is not None and file.rows != first.merged.counts.base_rows:
            yield f"{file.path} has {first.merged.counts.base_rows} rows, its commit says {file.rows}"
    try:
        check_counts(first.merged.counts, rows_written=first.rows)
    except VerificationFailed as error:
        yield error.why
    digest, sample, keys = Digest(), OutputSample(first.merged.sample), Counter[str]()
    with open_slice(storage, check.slice) as again:
        for batch in again.batches():
            digest.update(batch)
            sample.update(batch)
            if len(first.hashes_twice):
                keys.update(_keys_of(batch, first.hashes_twice))
    twice = sorted(key for key, number in keys.items() if number > 1)
    if twice:
        some = ", ".join(map(repr, twice[:DUPLICATES_TOLD]))
        yield f"record keys come out more than once, {len(twice)} of them, such as {some}"
    if digest.hexdigest != first.digest.hexdigest:
        yield "two reads of the same files gave different rows"
    try:
        check_sample(first.merged.sample.keys, sample.rows, rules=check.slice.rules, schema=first.merged.schema)
    except VerificationFailed as error:
        yield error.why


def _keys_of(batch: pa.RecordBatch, hashes: npt.NDArray[np.uint64]) -> list[str]:
    """The keys of a batch whose hash is one of these."""
    keys = batch.column(RECORD_KEY_FIELD)
    found: list[str] = keys.filter(pa.array(np.isin(hash_keys(keys), hashes))).to_pylist()
    return found
