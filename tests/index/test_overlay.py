"""Overlays against dictionaries: commits that an index does not have are laid over what it says."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeward.base.errors import Refused
from lakeward.index.index import HashedIndex, PartEffort, record_locations
from lakeward.index.key_changes.marked_keys import CHANGES
from lakeward.index.location import LOCATIONS
from lakeward.index.overlay import FoldedCommit, fold, overlaid
from lakeward.storage.local import LocalStorage
from tests.index.memory_index import MemoryIndex
from tests.runs import runs

Change = tuple[str, tuple[str, str], bool]
GROUPS = [(f"p{number % 2}", f"g{number}-0") for number in range(4)]
KEYS = [f"k{number}" for number in range(12)]


def commit(order: int, changes: Sequence[Change], again: frozenset[tuple[str, str]] = frozenset()) -> FoldedCommit:
    rows = [(key, *group, is_there) for key, group, is_there in changes]
    columns: list[Any] = [list(each) for each in zip(*rows, strict=True)] or [[], [], [], []]
    arrays = [pa.array(each, of.type) for each, of in zip(columns, CHANGES, strict=True)]
    return FoldedCommit(f"{order}", [pa.RecordBatch.from_arrays(arrays, schema=CHANGES)], again)


def index_of(places: dict[Any, tuple[str, str]], *, is_global: bool) -> MemoryIndex:
    index = MemoryIndex(lambda instants: {each: each for each in instants}, is_global)
    index.commits["0"] = [(of if is_global else of[0], *place) for of, place in places.items()]
    return index


class Hashed(MemoryIndex):
    """It has two parts, by the last digit of keys."""

    count = 2

    def parts_of(self, keys: pa.Array) -> Any:
        return np.array([int(key[-1]) % 2 for key in keys.to_pylist()], np.int32)

    def effort(self, part: Any) -> PartEffort:
        return PartEffort(1, 1)

    def parts(self, partitions: Any) -> Any:
        return range(2) if partitions is None else [(number, frozenset(partitions)) for number in range(2)]

    def look_up(self, storage: object, part: Any, keys: pa.Array | None) -> Any:
        number, partitions = part if isinstance(part, tuple) else (part, None)
        for batch in super().look_up(LocalStorage(), partitions, keys):
            yield batch.filter(pa.array(self.parts_of(batch.column(0)) == number))


@pytest.mark.parametrize("seed", range(runs(30)))
def test_against_a_dictionary(seed: int) -> None:
    """Any commits over any index, global or not, in parts or not: no location is missed and none is false."""
    chance = random.Random(seed)
    is_global = chance.random() < 0.5

    def scope(key: str, group: tuple[str, str]) -> Any:
        return key if is_global else (key, group[0])

    places: dict[Any, tuple[str, str]] = {}
    for key in chance.sample(KEYS, chance.randrange(len(KEYS))):
        group = chance.choice(GROUPS)
        places[scope(key, group)] = group
    index = index_of(dict(places), is_global=is_global)
    if chance.random() < 0.5:
        index = Hashed(index.completion_times, is_global, None, index.commits)
    commits = []
    for order in range(1, chance.randrange(2, 8)):
        changes: list[Change] = []
        again = frozenset(chance.sample(GROUPS, chance.choice([0, 0, 0, 1])))
        for group in again:
            there = {key for key in KEYS if chance.random() < 0.3 and not any(c[0] == key for c in changes)}
            changes += [(key, group, True) for key in there]
            for of in [of for of, place in places.items() if place == group]:
                del places[of]
        for key in chance.sample(KEYS, chance.randrange(6)):
            if not any(change[0] == key for change in changes):
                changes.append((key, chance.choice(GROUPS), chance.random() < 0.6))
        for key, group, is_there in changes:
            if is_there:
                places[scope(key, group)] = group
            elif places.get(scope(key, group)) == group:
                del places[scope(key, group)]
        commits.append(commit(order, changes, again))
    live = chance.sample(GROUPS, 3)
    overlay = fold(commits, is_global=is_global, live=live, bytes_max=1 << 20)
    over = pickle.loads(pickle.dumps(overlaid(MemoryIndex(dict, is_global), overlay)))
    assert over.overlay.places == overlay.places
    asked = chance.sample(KEYS, chance.randrange(1, len(KEYS)))
    partitions = None if is_global or chance.random() < 0.5 else ["p1"]

    with_it = overlaid(index, overlay)
    found = record_locations(LocalStorage(), with_it, pa.array(asked), partitions)

    keys = {of: of if is_global else of[0] for of in places}
    expected = [
        (keys[of], *place)
        for of, place in places.items()
        if keys[of] in asked and place in live and (partitions is None or place[0] in partitions)
    ]
    assert isinstance(with_it, HashedIndex) == isinstance(index, Hashed)
    rows = zip(*(found.column(name).to_pylist() for name in LOCATIONS.names[:3]), strict=True)
    assert sorted(rows) == sorted(expected), f"{seed=}"


def test_too_much_is_refused():
    """What commits did to keys has a bound in bytes, and behind it the remedy is named."""
    commits = [commit(1, [(f"k{number}", GROUPS[0], True) for number in range(1000)])]

    with pytest.raises(Refused, match="lakeward index update"):
        fold(commits, is_global=True, live=GROUPS, bytes_max=1000)
