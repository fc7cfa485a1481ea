"""Judge the result of one operation before anybody can see it: do the counts add up, did sampled keys merge right?

The digest says that the rows that won are written as they were read, since each brings the hash along that it had then.
It says nothing about the choice of the winners; that is checked here, on a sample of keys that are merged again by the
slow twin of the merge rules (`merge/rules/reference.py`).

Touches: nothing.
Keeps:   1. a mismatch raises `VerificationFailed`, which publishes nothing;
         2. the output is taken from the file that was written, not from the merge.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakeward.base.errors import VerificationFailed
from lakeward.base.named_key import named_key
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD, RECORD_KEY_FIELD, MergeRules
from lakeward.merge.rules.ordering_type import integer_fields
from lakeward.merge.rules.reference import Row, fold_key, merge_rows
from lakeward.read.query.sample import SampledKey, SampleTap, pick_rows
from lakeward.read.slice_input import MergeCounts


def check_counts(counts: MergeCounts, *, rows_written: int) -> None:
    """Raise unless the merge's counts fit each other and the file."""
    expected = counts.base_rows + counts.inserted - counts.deleted - counts.folded
    if counts.rows != expected:
        raise _failed(f"{counts.rows} rows came out where {expected} were due")
    if rows_written != counts.rows:
        raise _failed(f"the file has {rows_written} rows, the merge gave it {counts.rows}")
    if counts.updated + counts.deleted + counts.folded > counts.base_rows:
        raise _failed(f"{counts.updated} updates and {counts.deleted} deletes do not fit {counts.base_rows} base rows")
    if counts.updated + counts.deleted + counts.inserted > counts.log_keys:
        raise _failed(f"more rows changed than the {counts.log_keys} keys of the logs")
    if counts.log_keys > counts.log_records:
        raise _failed(f"{counts.log_keys} keys cannot come from {counts.log_records} log records")


def check_changes(*, changes_made: int, changes_written: int) -> None:
    """Raise unless the log of changes has one for every row that was replaced, added or removed."""
    if changes_written != changes_made:
        raise _failed(f"the log of changes has {changes_written} changes, {changes_made} were made")


def check_digest(*, merged: str, written: str) -> None:
    """Raise unless the file holds the rows that were merged."""
    if merged != written:
        raise _failed(f"the digest of the written rows is {written}, that of the merged ones {merged}")


def check_copied(difference: str | None) -> None:
    """Raise where row groups that were copied differ from those that they were copied from."""
    if difference is not None:
        raise _failed(difference)


class OutputSample:
    """Collects the rows of the sampled keys while the output is read back, or while it is merged.

    During the merge the sample may still lose keys, and gains those that only the base has before their rows come out.
    """

    def __init__(self, sample: SampleTap) -> None:
        self._sample = sample
        self._rows: list[dict[str, object]] = []

    def update(self, batch: pa.RecordBatch) -> None:
        keys = pa.array(sorted(self._sample.keys), type=pa.string())
        if len(keys):
            self._rows.extend(pick_rows(batch, keys))

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows of the keys that the sample has now."""
        keys = self._sample.keys
        return [row for row in self._rows if row[RECORD_KEY_FIELD] in keys]


def check_sample(
    sample: Mapping[str, SampledKey], output: Sequence[Row], *, rules: MergeRules, schema: pa.Schema
) -> None:
    """Merge the sampled keys again and raise unless the output has exactly their surviving rows."""
    integers = integer_fields(rules, schema)
    found: dict[str, list[Row]] = defaultdict(list)
    for row in output:
        found[str(row["_hoodie_record_key"])].append(row)
    for key, inputs in sample.items():
        due = merge_rows(inputs.base, inputs.logs, rules, integers=integers, positions=inputs.places)
        came = found[key]
        if len(due) != len(came):
            if len(due) > 1 or len(came) > 1:
                raise _failed(f"the key {named_key(key)} came out {len(came)} times where {len(due)} were due")
            raise _failed(f"the key {named_key(key)} {'should have been deleted' if came else 'is missing'}")
        for expected, actual in zip(due, came, strict=True):
            # A row that no other one fills holds null in the columns that it was written without.
            names = {**expected, **actual}.keys() - {FILE_NAME_FIELD}
            wrong = sorted(name for name in names if not _same(expected.get(name), actual.get(name)))
            if wrong:
                raise _failed(f"the key {named_key(key)} has another value in {', '.join(wrong)}")


def check_folded_counts(
    *, records: int, keys: int, written: int, records_read: int, instants_read: Sequence[str], instant: str
) -> None:
    """Raise unless the log has one record for each key of its sources and is read in place of all of them."""
    if keys > records:
        raise _failed(f"{keys} keys cannot come from {records} log records")
    if written != keys:
        raise _failed(f"{written} records were written for {keys} keys")
    if tuple(instants_read) != (instant,):
        raise _failed(f"beside its sources the output is read as {', '.join(instants_read)}, not as {instant} alone")
    if records_read != written:
        raise _failed(f"the file has {records_read} records, {written} were written")


def check_folded_sample(
    sample: Mapping[str, SampledKey], output: Mapping[str, SampledKey], *, rules: MergeRules, schema: pa.Schema
) -> None:
    """Fold the sampled keys of logs again and raise unless the log that came of them says of each just that.

    Keys are sampled by their hash alone, so equal keys give equal samples.
    """
    if sample.keys() != output.keys():
        raise _failed(f"the output has not the same keys: {sorted(sample.keys() ^ output.keys())[0]!r} is in one only")
    integers = integer_fields(rules, schema)
    for key, inputs in sample.items():
        if len(output[key].logs) != 1:
            raise _failed(f"the key {named_key(key)} came out {len(output[key].logs)} times")
        expected = fold_key(inputs.logs, rules, integers=integers)
        # Folding one record says what a reader makes of it: that a column declares it deleted, that null means 0.
        actual = fold_key(output[key].logs, rules, integers=integers)
        if (expected.row is None) != (actual.row is None):
            raise _failed(
                f"the key {named_key(key)} {'should have been deleted' if expected.row is None else 'was deleted'}"
            )
        rows = _without_file_name(expected.row), _without_file_name(actual.row)
        if not _same(*rows) or not _same(expected.ordering, actual.ordering):
            raise _failed(f"the key {named_key(key)} has other values")


def _without_file_name(row: Row | None) -> Row | None:
    """In a native log that is the file's id, whatever its sources say."""
    return None if row is None else {name: value for name, value in row.items() if name != FILE_NAME_FIELD}


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
