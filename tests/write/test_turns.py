"""Ten tables, whose writers and the owner of their indexes take turns, also in the middle of each other's work.

A seed is one order of turns; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lakeward.index.index_type import IndexType
from lakeward.write.request import FileSizes
from tests.faults import FaultyStorage
from tests.index.following import truth
from tests.runs import runs
from tests.write.own_record_index import built, catch_up, located, opened
from tests.write.test_whole_write import CLOCK
from tests.write.writing import Row, write

KEYS = [f"k{number}" for number in range(12)]


class Turns(FaultyStorage):
    """A storage of a process, in whose calls others have their turns, now and then."""

    def __init__(self, chance: random.Random, turn: Callable[[], None]) -> None:
        super().__init__()
        self._chance = chance
        self._turn = turn

    def call(self, name: str, path: str, act: Callable[[], Any], tear: Any = None) -> Any:
        if self._chance.random() < 0.02:
            self._turn()
        return super().call(name, path, act, tear)

    _call = call


@dataclass
class Table:
    base: Path
    states: list[dict[str, str]] = field(default_factory=lambda: [{"k1": "p", "k2": "p", "k3": "q"}])
    """The partition of each key that the table has; while a write is half done before and after it."""

    def index(self) -> None:
        """The owner's turn."""
        catch_up(self.base)

    def look(self) -> None:
        found = located(self.base, KEYS)
        at = {key: path for key, (path, _) in found}
        assert at in self.states and len(found) == len(at)
        if len(self.states) > 1:
            assert found == truth(self.base)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(10)))])
def test_ten_tables(tmp_path: Path, seed: int) -> None:
    """Whatever came last, each lookup says of each key of each table where the dictionary has it: by an index that has
    all, by one that lacks what others wrote, and while a write or the bringing up to date of an index is half done."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    tables = []
    for each in range(10):
        table_type = ("MERGE_ON_READ", "COPY_ON_WRITE")[each % 2]
        tables.append(Table(built(tmp_path / f"t{each}", table_type, buckets=chance.choice([1, 3]))))
    for _ in range(25):
        table = chance.choice(tables)

        def other_turn(of: Table = table) -> None:
            chance.choice([of.index, of.look, chance.choice(tables).look])()

        _write(table, chance, Turns(chance, other_turn))
        chance.choice(tables).look()
        chance.choice(tables).index()
        table.look()
    for table in tables:
        assert located(table.base, KEYS) == truth(table.base)
        table.index()
        assert located(table.base, KEYS, bytes_max=0) == truth(table.base)


def _write(table: Table, chance: random.Random, storage: Turns) -> None:
    rows: list[Row] = [(key, 1, chance.choice("pqr"), "x") for key in chance.sample(KEYS, chance.randint(1, 5))]
    operation = chance.choice(["upsert", "upsert", "delete"])
    by: dict[str, Any] = {"index": IndexType.GLOBAL_SIMPLE}
    if chance.random() < 0.7:
        by = {"index": IndexType.RECORD, "open_index": lambda snapshot: opened(table.base, snapshot, storage)}
    (before,) = table.states
    named = {key: partition for key, _, partition, _ in rows}
    kept = {key: partition for key, partition in before.items() if key not in named}
    table.states = [before, kept if operation == "delete" else kept | named]
    by |= {"moves_rows": operation != "delete", "sizes": FileSizes(small_file=0), "clock": CLOCK}
    write(table.base, rows, operation, storage=storage, **by)
    table.states = table.states[1:]
