"""The rows of one target as they come in."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lakeward.base.errors import Unsupported
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.write.handles.incoming_rows import incoming_rows
from tests.runs import runs
from tests.write.handles.targets import COMMIT_TIME, EVENT_TIME, Row, batches, values_of

BY_TEXT = replace(EVENT_TIME, ordering_fields=("v",))


def folded(rows: list[Row], rules: MergeRules, *, at_once: int = 100) -> list[Row]:
    parts = incoming_rows(batches(rows, at_once=at_once), rules, all_are_deletes=False, folds=True)
    return [values_of(row) for part in parts for row in part.batch.to_pylist()]


def test_the_greatest_ordering_value_wins() -> None:
    """The row that came last does among equal ones; by commit time the last one, whatever its value."""
    rows: list[Row] = [("k", 12, "first"), ("k", 11, "second"), ("k", 12, "third"), ("k", 10, "fourth")]
    assert folded(rows, EVENT_TIME) == [("k", 12, "third")]
    assert folded(rows, COMMIT_TIME) == [("k", 10, "fourth")]
    assert folded(rows, BY_TEXT) == [("k", 12, "third")]


def test_a_delete_wins_by_its_value() -> None:
    """A later delete of a smaller value is none; one of a greater value stays a delete."""
    for last, is_delete in ((3, False), (7, True)):
        (part,) = incoming_rows(
            batches([("k", 5, "a"), ("k", last, "gone")]), EVENT_TIME, all_are_deletes=False, folds=True
        )
        assert part.is_delete.tolist() == [is_delete]


def test_rows_of_one_key_with_and_without_a_value() -> None:
    """They cannot be ordered, and the error names the key; alone a row without a value passes."""
    assert folded([("k", None, "a")], EVENT_TIME) == [("k", None, "a")]
    for at_once in (1, 2):
        with pytest.raises(Unsupported, match="'k2' has records with and without a value of ts"):
            folded([("k1", 1, "a"), ("k2", None, "a"), ("k2", 1, "b")], EVENT_TIME, at_once=at_once)


def test_rows_that_are_not_sorted() -> None:
    """Keeps 1 of write/handles/incoming_rows: a broken order is an assertion, within a batch and across two."""
    one, other = batches([("k1", 1, "a"), ("k2", 1, "a")], at_once=1)
    for wrong in ([other, one], [batches([("k1", 1, "a"), ("k2", 1, "a")])[0].take([1, 0])]):
        with pytest.raises(AssertionError, match="not sorted"):
            list(incoming_rows(wrong, EVENT_TIME, all_are_deletes=False, folds=False))


@pytest.mark.parametrize("seed", range(runs(10)))
def test_folding_as_a_dictionary_does(seed: int) -> None:
    """Keeps 2 of write/handles/incoming_rows: however rows are cut into batches."""
    chance = random.Random(seed)
    rules = chance.choice([EVENT_TIME, COMMIT_TIME, BY_TEXT])
    rows: list[Row] = [
        (f"k{chance.randrange(8)}é", chance.randrange(5), chance.choice(["a", "b", "ä", "gone"]))
        for _ in range(chance.randrange(60))
    ]
    expected: dict[str, Row] = {}
    for row in rows:
        old = expected.get(row[0])
        value = {EVENT_TIME: 1, BY_TEXT: 2, COMMIT_TIME: 0}[rules]
        if old is None or row[value] >= old[value]:  # type: ignore[operator]
            expected[row[0]] = row
    found = folded(rows, rules, at_once=chance.choice([1, 2, 7, 100]))
    assert found == [expected[key] for key in sorted(expected, key=str.encode)], f"seed {seed}"
