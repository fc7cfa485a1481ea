"""An index outside of a table, built at any moment of the table's life and kept up to date now and then, against the
rows.

A seed is one life of a table; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.overlay import current_index
from lakeward.services.indexing.run.index_build import build_index, update_and_tidy
from lakeward.services.indexing.table_indexes import OpenOwnIndex
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.faults import Killed
from tests.index.builds import in_process
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import places, truth
from tests.our_reader import scan
from tests.runs import runs
from tests.write.test_histories import KEYS
from tests.write.test_lives import Life
from tests.write.writing import new_table

STORAGE = LocalStorage()


def opened(entries: MemoryEntries, snapshot: TableSnapshot) -> ExternalIndex:
    return ExternalIndex.of(entries, STORAGE, snapshot, limit=RateLimit(None, clock=SkippingClock()))


@dataclass
class Indexing(Life):
    """A table with indexes that are built, and brought up to date, now and then."""

    indexes: list[OpenOwnIndex] = field(default_factory=list)
    built: int = 0

    def check(self) -> None:
        super().check()
        for number, opens in enumerate(self.indexes):
            self._holds(opens, f"index {number}")
            if opens(scan(self.base)).indexed() == Indexed():
                if self.chance.random() < 0.3:
                    self._build(opens, number)
            elif self.chance.random() < 0.4:
                self.shown.append(f"index {number} is brought up to date")
                update_and_tidy(STORAGE, opens, lambda: scan(self.base))
                assert not update_and_tidy(STORAGE, opens, lambda: scan(self.base)).commits
            self._holds(opens, f"index {number}, then")

    def _build(self, opens: OpenOwnIndex, number: int) -> None:
        stop = self.chance.choice([0, 1, 1000, 1000])
        self.shown.append(f"index {number} is built, stopped at file group {stop}")

        def on_group(done: int, of: int) -> None:
            if done == stop:
                raise Killed("the build")

        try:
            build_index(STORAGE, opens, lambda: scan(self.base), in_process(self.base, on_group=on_group))
        except Killed:
            return
        self.built += 1

    def _holds(self, opens: OpenOwnIndex, what: str) -> None:
        snapshot = scan(self.base)
        found = places(current_index(STORAGE, snapshot, opens(snapshot)), KEYS)
        assert found == truth(self.base, snapshot), "\n".join([*self.shown, what])


def in_memory(_: Path) -> list[OpenOwnIndex]:
    return [partial(opened, MemoryEntries(is_global=is_global)) for is_global in (True, False)]


def live(
    path: Path,
    seed: int,
    steps: int,
    make: Callable[[Path], list[OpenOwnIndex]] = in_memory,
    own: IndexType | None = None,
) -> Indexing:
    """
    Args:
        own: about half of the writes use the second of the indexes, which is one of this kind.
    """
    chance = random.Random(seed)
    table_type = chance.choice(["MERGE_ON_READ", "COPY_ON_WRITE"])
    base = new_table(path, version=chance.choice([9, 10]), table_type=table_type, ordering_fields=("ts",))
    life = Indexing(chance, base, table_type, True, {"index": IndexType.SIMPLE})
    life.indexes = make(base)
    life.shown.append(f"seed {seed}: {table_type}")
    acts = [life.upsert] * 6 + [life.delete] * 3 + [life.insert, life.overwrite, life.delete_partition]
    acts += [life.compact, life.compact_logs] * 2 + [life.clean] * 2 + [life.archive] * 3
    acts += [life.savepoint, life.restore, life.restore, life.die, life.die]
    for _ in range(steps):
        if own is not None:
            life.index = chance.choice([{"index": IndexType.SIMPLE}, {"index": own, "open_index": life.indexes[1]}])
        chance.choice(acts)()
        life.check()
    assert life.built or steps < 16
    return life


@pytest.mark.slow
@pytest.mark.turns(28)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(20)))])
def test_a_table_is_followed(tmp_path: Path, seed: int) -> None:
    """Keeps 1 of services/indexing/run/index_build: no key is missed and none is found where it is not, before a build,
    after one that was stopped, after one that was not and beside updates, whatever is done to the table: restores of
    what was built from, and archiving."""
    live(tmp_path / "t", seed, 16)
