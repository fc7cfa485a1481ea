from __future__ import annotations

import dataclasses
import math
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import VerificationFailed
from lakeward.engine.task.verification import (
    OutputSample,
    check_counts,
    check_digest,
    check_folded_counts,
    check_folded_sample,
    check_sample,
)
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.merge.rules.reference import LogRecord
from lakeward.read.query.sample import SampledKey, SampleTap
from lakeward.read.slice_input import MergeCounts

COUNTS = MergeCounts(
    base_rows=10,
    log_files=1,
    log_blocks=1,
    corrupt_blocks=0,
    rollback_blocks=0,
    log_records=9,
    log_keys=8,
    updated=3,
    inserted=2,
    deleted=1,
    rows=11,
)
RULES = MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",))
SCHEMA = pa.schema(
    [("_hoodie_record_key", pa.string()), ("_hoodie_file_name", pa.string()), ("ts", pa.int64()), ("v", pa.float64())]
)


def test_counts_that_add_up():
    """rows = base + inserted - deleted, and as many in the file."""
    check_counts(COUNTS, rows_written=11)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 12},
        {"inserted": 3},
        {"updated": 9, "inserted": 0, "rows": 9},
        {"log_keys": 5},
        {"log_records": 7},
    ],
    ids=str,
)
def test_counts_that_do_not(wrong: dict[str, int]):
    """Each count is held against the others."""
    counts = dataclasses.replace(COUNTS, **wrong)
    with pytest.raises(VerificationFailed):
        check_counts(counts, rows_written=counts.rows)


def test_rows_lost_by_the_writer():
    """The file's own row count is held against the merge's (Hudi's issue 8132: a new base file had lost rows)."""
    with pytest.raises(VerificationFailed, match="10 rows"):
        check_counts(COUNTS, rows_written=10)


def test_digests():
    """Equal or nothing is published."""
    check_digest(merged="ab", written="ab")
    with pytest.raises(VerificationFailed, match="of the written rows is ac, that of the merged ones ab"):
        check_digest(merged="ab", written="ac")


def row(key: str, ts: int, v: float, name: str = "f") -> dict[str, Any]:
    return {"_hoodie_record_key": key, "_hoodie_file_name": name, "ts": ts, "v": v}


SAMPLE = {
    "updated": SampledKey([row("updated", 1, 1.0)], [LogRecord(row("updated", 2, 2.0))]),
    "late": SampledKey([row("late", 5, 1.0)], [LogRecord(row("late", 2, 2.0))]),
    "deleted": SampledKey([row("deleted", 5, 1.0)], [LogRecord(None)]),
    "inserted": SampledKey([], [LogRecord(row("inserted", 1, math.nan))]),
    "untouched": SampledKey([row("untouched", 1, 1.0)]),
    "apart": SampledKey([row("apart", 1, 1.0), row("apart", 1, 2.0)], [LogRecord(row("apart", 2, 3.0))]),
    "places": SampledKey(
        [row("places", 1, 1.0), row("places", 9, 2.0)],
        [LogRecord(row("places", 2, 3.0), position=0), LogRecord(row("places", 2, 4.0), position=5)],
        places=[0, 5],
    ),
}
OUTPUT = [
    row("updated", 2, 2.0, "new"),
    row("late", 5, 1.0, "new"),
    row("inserted", 1, math.nan, "new"),
    row("untouched", 1, 1.0, "new"),
    row("apart", 2, 3.0, "new"),
    row("apart", 1, 2.0, "new"),
    row("places", 2, 3.0, "new"),
    row("places", 9, 2.0, "new"),
]


def check(output: list[dict[str, Any]]) -> None:
    check_sample(SAMPLE, output, rules=RULES, schema=SCHEMA)


def test_a_right_sample():
    """The file name is the writer's, everything else must be the winner's; NaN equals itself."""
    check(OUTPUT)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (OUTPUT[1:], "'updated' is missing"),
        ([row("updated", 1, 1.0), *OUTPUT[1:]], "'updated' has another value in ts, v"),
        ([*OUTPUT, row("deleted", 5, 1.0)], "'deleted' should have been deleted"),
        ([*OUTPUT, OUTPUT[0]], "'updated' came out 2 times where 1 were due"),
        ([*OUTPUT[:4], OUTPUT[5], *OUTPUT[6:]], "'apart' came out 1 times where 2 were due"),
        ([*OUTPUT[:6], row("places", 2, 4.0), OUTPUT[7]], "'places' has another value in v"),
        ([OUTPUT[0], row("late", 2, 2.0), *OUTPUT[2:]], "'late' has another value"),
    ],
    ids=["lost", "not updated", "not deleted", "twice", "one of two lost", "another place", "late row won"],
)
def test_a_wrong_sample(output: list[dict[str, Any]], why: str):
    """A merge that chose otherwise than its slow twin is found out."""
    with pytest.raises(VerificationFailed, match=why):
        check(output)


def test_the_output_is_picked_by_key():
    """The rows of sampled keys are kept, no others, from any number of batches."""
    tap = SampleTap()
    tap.see_log_data(pa.RecordBatch.from_pylist([row("a", 1, 1.0)], SCHEMA))
    output = OutputSample(tap)
    for keys in ("ab", "ca"):
        output.update(pa.RecordBatch.from_pylist([row(key, 1, 1.0) for key in keys], SCHEMA))
    assert [found["_hoodie_record_key"] for found in output.rows] == ["a", "a"]


def test_counts_of_a_log_that_add_up():
    """One record a key, and a reader finds them all under the output's instant."""
    check_folded_counts(**FOLDED)


FOLDED: dict[str, Any] = {
    "records": 9,
    "keys": 5,
    "written": 5,
    "records_read": 5,
    "instants_read": ("300",),
    "instant": "300",
}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"keys": 10, "written": 10, "records_read": 10}, "10 keys cannot come from 9"),
        ({"written": 4, "records_read": 4}, "4 records were written for 5 keys"),
        ({"records_read": 6}, "6 records, 5 were written"),
        ({"instants_read": ("300", "200")}, "read as 300, 200, not as 300 alone"),
        ({"instants_read": ("100", "200")}, "read as 100, 200"),
    ],
)
def test_counts_of_a_log_that_do_not(wrong: dict[str, Any], why: str):
    """A record lost, doubled, or a source that the output does not stand for."""
    with pytest.raises(VerificationFailed, match=why):
        check_folded_counts(**{**FOLDED, **wrong})


FOLDED_SAMPLE = {
    "row": SampledKey(logs=[LogRecord(row("row", 1, 1.0)), LogRecord(row("row", 2, math.nan))]),
    "gone": SampledKey(logs=[LogRecord(row("gone", 1, 1.0)), LogRecord(None, 3)]),
    "always": SampledKey(logs=[LogRecord(None)]),
}
FOLDED_OUTPUT = {
    "row": SampledKey(logs=[LogRecord(row("row", 2, math.nan))]),
    "gone": SampledKey(logs=[LogRecord(None, 3)]),
    "always": SampledKey(logs=[LogRecord(None)]),
}


def check_folded(changed: dict[str, SampledKey]) -> None:
    check_folded_sample(FOLDED_SAMPLE, FOLDED_OUTPUT | changed, rules=RULES, schema=SCHEMA)


def test_a_right_sample_of_a_log():
    """Each key has its winner, once: the row, or the delete with its ordering value."""
    check_folded({})


@pytest.mark.parametrize(
    ("key", "logs", "why"),
    [
        ("row", [LogRecord(row("row", 1, 1.0))], "'row' has other values"),
        ("row", [LogRecord(None, 2)], "'row' was deleted"),
        ("gone", [LogRecord(row("gone", 1, 1.0))], "'gone' should have been deleted"),
        ("gone", [LogRecord(None)], "'gone' has other values"),
        ("gone", [LogRecord(None, 4)], "'gone' has other values"),
        ("gone", [LogRecord(None, 3), LogRecord(None, 3)], "'gone' came out 2 times"),
        ("extra", [LogRecord(None)], "'extra' is in one only"),
    ],
)
def test_a_wrong_sample_of_a_log(key: str, logs: list[LogRecord], why: str):
    """A fold that chose otherwise than its slow twin, or lost an ordering value, is found out."""
    with pytest.raises(VerificationFailed, match=why):
        check_folded({key: SampledKey(logs=logs)})
