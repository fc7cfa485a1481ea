"""Read one file slice as a query does and judge what comes out, as it runs in a Spark task or in process.

    files as their commits say? -> merge: the rows that are due, no key in more rows than the base file has it in, or
    in one, and of a sample of keys exactly what the slow twin of the merge rules makes of the slice's records -> the
    same versions of the sample when it is read by its keys alone, as readers do that skip row groups by their footers

Like `engine/task/operation.py` this travels to executors and knows neither SQL nor Spark.

Touches: reads the slice's files, and once more what may hold the sampled keys; writes nothing.
Keeps:   1. a problem is reported only in what was read; what this release cannot merge is no problem but is said;
         2. memory holds eight bytes a row beside what the merge needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.errors import BrokenFile, NotFound, Unsupported, VerificationFailed
from lakeward.base.named_key import named_key
from lakeward.base.paths import join
from lakeward.engine.task.slice_check_spec import CheckedSlice, SliceCheck
from lakeward.engine.task.verification import OutputSample, check_counts, check_sample
from lakeward.format.avro.schema import table_schema
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.merge.logs.key_index import hash_keys
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.rules.reference import Row
from lakeward.read.file_slice import open_slice
from lakeward.read.query.predicate import keys_among
from lakeward.read.query.sample import plain_rows
from lakeward.read.query.slice_query import SliceQuery
from lakeward.read.slice_input import SliceInput
from lakeward.read.slice_keys import base_keys
from lakeward.storage.storage import Storage

DUPLICATES_REPORTED = 3
_VERSION = (RECORD_KEY_FIELD, "_hoodie_commit_time", "_hoodie_commit_seqno")
"""The columns that tell versions of a record apart."""


def check_slice(storage: Storage, check: SliceCheck, task_attempt: int) -> CheckedSlice:
    """Look for what is wrong with a slice. Raises nothing that only says so."""
    problems = list(_check_files(storage, check))
    if problems:
        return CheckedSlice(0, 0, tuple(problems))  # of a slice with such files the merge says nothing new
    try:
        first = _FirstMerge(storage, check.slice)
        meter = ReadMeter()
        problems += _check_rows(storage, check, first, meter)
        meter.add(first.merged.meter)
    except (NotFound, BrokenFile) as error:
        return CheckedSlice(0, 0, (str(error),))
    except Unsupported as error:
        return CheckedSlice(0, 0, (), not_merged=error.what)
    return CheckedSlice(first.rows, len(first.merged.sample.keys), tuple(problems), read=meter)


def _check_files(storage: Storage, check: SliceCheck) -> Iterator[str]:
    for file in check.files:
        status = storage.stat(join(check.slice.base_path, file.path))
        if status is None:
            yield f"{file.path} is missing"
        elif file.size_bytes is not None and status.size != file.size_bytes:
            yield f"{file.path} has {status.size} bytes, its commit says {file.size_bytes}"


class _FirstMerge:
    """Everything that one pass over the merged rows finds out."""

    def __init__(self, storage: Storage, slice_input: SliceInput) -> None:
        hashes: list[npt.NDArray[np.uint64]] = []
        with open_slice(storage, slice_input, query=SliceQuery(takes_sample=True)) as self.merged:
            self.output = OutputSample(self.merged.sample)
            for batch in self.merged.batches():
                hashes.append(hash_keys(batch.column(RECORD_KEY_FIELD)))
                self.output.update(batch)
        all_hashes = np.sort(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
        self.rows = len(all_hashes)
        self.hashes_twice = np.unique(all_hashes[1:][all_hashes[1:] == all_hashes[:-1]])


def _check_rows(storage: Storage, check: SliceCheck, first: _FirstMerge, meter: ReadMeter) -> Iterator[str]:
    for file in check.files:
        if file.rows is not None and file.rows != first.merged.counts.base_rows:
            yield f"{file.path} has {first.merged.counts.base_rows} rows, its commit says {file.rows}"
    if first.merged.out_of_order is not None:
        yield f"{first.merged.out_of_order} is not in the order of its keys, as files of the layout lsm_tree must be"
    try:
        check_counts(first.merged.counts, rows_written=first.rows)
    except VerificationFailed as error:
        yield error.why
    if len(first.hashes_twice):
        yield from _check_keys(storage, check.slice, first.hashes_twice, meter)
    sample = first.merged.sample.keys
    try:
        check_sample(sample, first.output.rows, rules=first.merged.rules, schema=first.merged.schema)
    except VerificationFailed as error:
        yield error.why
    if sample:
        yield from _check_by_keys(storage, check.slice, frozenset(sample), first.output.rows, meter)


def _check_keys(
    storage: Storage, slice_input: SliceInput, hashes: npt.NDArray[np.uint64], meter: ReadMeter
) -> Iterator[str]:
    """Equal hashes are most likely equal keys, which the keys themselves decide. A base file may have a key in several
    rows, where writers looked for none."""
    keys = Counter[str]()
    with open_slice(storage, slice_input, query=SliceQuery([RECORD_KEY_FIELD])) as again:
        for batch in again.batches():
            keys.update(_some_of(batch.column(RECORD_KEY_FIELD), hashes))
    meter.add(again.meter)
    of_base = Counter(key for each in _base_keys(storage, slice_input) for key in _some_of(each, hashes))
    twice = sorted(key for key, number in keys.items() if number > max(1, of_base[key]))
    if twice:
        some = ", ".join(map(repr, twice[:DUPLICATES_REPORTED]))
        yield f"record keys come out more than once, {len(twice)} of them, such as {some}"


def _base_keys(storage: Storage, slice_input: SliceInput) -> Iterator[pa.StringArray]:
    name = slice_input.base_file
    if name is not None:
        table = table_schema(slice_input.schema)
        made_of = pa.schema([table.field(each) for each in slice_input.key_fields])
        yield from base_keys(storage, join(slice_input.base_path, name), name=name, key_columns=made_of)


def _check_by_keys(
    storage: Storage, slice_input: SliceInput, keys: frozenset[str], expected: Sequence[Row], meter: ReadMeter
) -> Iterator[str]:
    """Whether a read of these keys alone, which uses footers, finds the versions that a read of everything found."""
    with open_slice(storage, slice_input, query=SliceQuery(_VERSION, keys_among(keys))) as again:
        rows = [row for batch in again.batches() for row in plain_rows(batch)]
    meter.add(again.meter)
    found, wanted = (Counter(tuple(row[name] for name in _VERSION) for row in each) for each in (rows, expected))
    if different := (found - wanted) + (wanted - found):
        key = min(str(version[0]) for version in different)
        wrong = f"the key {named_key(key)} is another"
        yield f"rows that are asked for by their keys are not those of the whole slice: {wrong}"


def _some_of(keys: pa.StringArray, hashes: npt.NDArray[np.uint64]) -> list[str]:
    """The keys whose hash is one of these."""
    found: list[str] = keys.filter(pa.array(np.isin(hash_keys(keys), hashes))).to_pylist()
    return found
