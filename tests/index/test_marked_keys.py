"""Marked keys against dictionaries: what came, what went, in the order of the keys, within bounded memory."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.index.key_changes.marked_keys import CHANGES, Mark, MarkedKeys
from tests.runs import runs

G, H, OTHER = ("p", "g-0"), ("p", "h-0"), ("q", "o-0")
Reported = list[tuple[str, str, str, bool]]


def shown(
    marks: list[tuple[str, tuple[str, str], Mark]], *, is_global: bool = True, memory_bytes: int = 1 << 20
) -> Reported:
    with MarkedKeys(is_global=is_global, memory_bytes=memory_bytes) as keys:
        for key, group, mark in marks:
            keys.add(pa.array([key]), group, mark)
        batches = list(keys.changes())
    assert all(batch.schema == CHANGES for batch in batches)
    return [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]


@pytest.mark.parametrize(
    ("marks", "comes_to"),
    [
        ([(G, Mark.AFTER)], [(*G, True)]),
        ([(G, Mark.BEFORE)], [(*G, False)]),
        ([(G, Mark.BEFORE), (G, Mark.AFTER)], []),
        ([(G, Mark.MIGHT)], [(*G, False)]),
        ([(G, Mark.MIGHT), (G, Mark.AFTER)], [(*G, True)]),
        ([(G, Mark.TOUCHED)], [(*G, False)]),
        ([(G, Mark.TOUCHED), (G, Mark.THERE)], [(*G, True)]),
        ([(G, Mark.THERE)], []),
        ([(G, Mark.BEFORE), (H, Mark.AFTER)], [(*H, True)]),
        ([(G, Mark.BEFORE), (H, Mark.BEFORE)], [(*G, False), (*H, False)]),
        ([(G, Mark.BEFORE), (H, Mark.BEFORE), (H, Mark.AFTER)], [(*H, True)]),
        ([(G, Mark.BEFORE), (G, Mark.AFTER), (H, Mark.THERE)], []),
    ],
)
def test_what_marks_come_to(marks, comes_to):
    """A key that moved is where it arrived; one that stays is given with where it went from another file group, too."""
    assert shown([("k", *each) for each in marks]) == [("k", *each) for each in comes_to]


def test_partitions_that_are_not_one():
    """A key goes from one partition and stays in another, where it is one in its partition alone."""
    marks = [("k", G, Mark.BEFORE), ("k", OTHER, Mark.AFTER)]

    assert shown(marks) == [("k", *OTHER, True)]
    assert shown(marks, is_global=False) == [("k", *G, False), ("k", *OTHER, True)]


@pytest.mark.parametrize("seed", range(runs(6)))
def test_against_a_dictionary(tmp_path: Path, seed: int) -> None:
    """Any marks, in any order, many runs: as of a dictionary, and by the bytes of keys."""
    chance = random.Random(seed)
    is_global = chance.random() < 0.5
    groups = [(f"p{number % 3}", f"g{number}-0") for number in range(5)]
    names = [chance.choice(["", "a", "é", "\U0001f600", "\uffff"]) + str(number) for number in range(200)]
    drawn = [
        (chance.choice(names), chance.choice(groups), chance.choice(list(Mark)))
        for _ in range(chance.randrange(1, 1500))
    ]
    sets: dict[tuple[str, str], dict[tuple[str, str], set[Mark]]] = defaultdict(lambda: defaultdict(set))
    for key, group, mark in drawn:
        sets[key, "" if is_global else group[0]][group].add(mark)
    expected = set()
    for (key, _), of in sets.items():
        came, stays, gone = [], [], []
        for group, marks in of.items():
            if Mark.TOUCHED in marks:
                (came if Mark.THERE in marks else gone).append(group)
            elif Mark.AFTER in marks:
                (stays if Mark.BEFORE in marks else came).append(group)
            elif marks & {Mark.BEFORE, Mark.MIGHT}:
                gone.append(group)
        if came or (stays and gone):
            expected.add((key, frozenset(came or stays), True))
        elif gone and not stays:
            expected |= {(key, frozenset([group]), False) for group in gone}

    found = shown(drawn, is_global=is_global, memory_bytes=chance.choice([4_000, 20_000, 1 << 20]))

    assert [row[0].encode() for row in found] == sorted(row[0].encode() for row in found)
    assert len(found) == len(expected), f"{seed=}"
    for key, path, file_id, is_there in found:
        assert any(
            (key, is_there) == (each[0], each[2])
            and (path, file_id) in each[1]
            and (is_global or {path} == {of for of, _ in each[1]})
            for each in expected
        ), f"{seed=} {key!r}"
