"""Judge the result of one operation before anybody can see it: do the counts add up, did sampled keys merge right?

The digest says that what was merged is what was written. It says nothing about the choice of the winners; that is
checked here, on a sample of keys that are merged again by the slow twin of the merge rules (`merge/reference.py`).

Touches: nothing.
Keeps:   1. a mismatch raises `VerificationFailed`, which publishes nothing;
         2. the output is taken from the file that was written, not from the merge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakeward.errors import VerificationFailed
from lakeward.merge.merge_rules import FILE_NAME_FIELD, MergeRules, default_is_comparable
from lakeward.merge.reference import Row, merge_key
from lakeward.read.file_slice import MergeCounts
from lakeward.read.sample import SampledKey, SampleTap, pick_rows


def check_counts(counts: MergeCounts, *, rows_written: int) -> None:
    """Raise unless the merge's counts fit each other and the file."""
    expected = counts.base_rows + counts.inserted - counts.deleted
    if counts.rows != expected:
        raise _failed(f"{counts.rows} rows came out where {expected} were due")
    if rows_written != counts.rows:
        raise _failed(f"the file has {rows_written} rows, the merge gave it {counts.rows}")
    if counts.updated + counts.deleted > counts.base_rows:
        raise _failed(f"{counts.updated} updates and {counts.deleted} deletes do not fit {counts.base_rows} base rows")
    if counts.updated + counts.deleted + counts.inserted > counts.log_keys:
        raise _failed(f"more rows changed than the {counts.log_keys} keys of the logs")
    if counts.log_keys > counts.log_records:
        raise _failed(f"{counts.log_keys} keys cannot come from {counts.log_records} log records")


def check_digest(merged: str, written: str) -> None:
    """Raise unless the file holds the rows that were merged."""
    if merged != written:
        raise _failed(f"the digest of the written rows is {written}, that of the merged ones {merged}")


class OutputSample:
    """Collects the rows of the sampled keys while the output is read back."""

    def __init__(self, sample: SampleTap) -> None:
        self._keys = pa.array(sorted(sample.keys), type=pa.string())
        self.rows: list[dict[str, object]] = []

    def update(self, batch: pa.RecordBatch) -> None:
        if len(self._keys):
            self.rows.extend(pick_rows(batch, self._keys))


def check_sample(
    sample: Mapping[str, SampledKey], output: Sequence[Row], *, rules: MergeRules, schema: pa.Schema
) -> None:
    """Merge the sampled keys again and raise unless the output has exactly their surviving rows."""
    integer_ordering = default_is_comparable(rules.ordering_type(schema))
    found: dict[str, Row] = {}
    for row in output:
        key = str(row["_hoodie_record_key"])
        if key in found:
            raise _failed(f"the key {key!r} came out twice")
        found[key] = row
    for key, inputs in sample.items():
        expected = merge_key(inputs.base, inputs.logs, rules, integer_ordering=integer_ordering)
        actual = found.get(key)
        if expected is None and actual is None:
            continue
        if expected is None or actual is None:
            raise _failed(f"the key {key!r} {'is missing' if actual is None else 'should have been deleted'}")
        wrong = [name for name in expected if name != FILE_NAME_FIELD and not _same(expected[name], actual.get(name))]
        if wrong:
            raise _failed(f"the key {key!r} has another value in {', '.join(wrong)}")


def _same(left: object, right: object) -> bool:
    """Equality that holds for NaN, also inside of lists, maps and structs."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return left == right


def _failed(why: str) -> VerificationFailed:
    return VerificationFailed(
        "The result of the merge was checked and found wrong; nothing was published.",
        why=f"{why[0].upper()}{why[1:]}.",
        remedy="Report this, it is a fault of the service or of the machine it ran on.",
    )
