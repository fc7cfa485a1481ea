"""An index that follows a table which others write, against the table's rows: what it does not have yet is covered by a
lookup, and an update brings it to the same.

A seed is one life of a table; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.index.external.external_index import ExternalIndex
from lakeward.index.external.rate_limit import RateLimit
from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.table_commits import commits_behind
from lakeward.read.logs.log_scan import NEWEST
from lakeward.storage.storage import Storage
from tests.clocks import SkippingClock
from tests.faults import Killed
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import STORAGE, memory_index, shown, truth, update
from tests.index.memory_index import MemoryIndex
from tests.our_reader import scan
from tests.runs import runs
from tests.write.test_histories import KEYS
from tests.write.test_lives import Life
from tests.write.writing import BUCKETS, new_table

Found = list[tuple[str, tuple[str, str]]]


@dataclass
class OutsideOfTheTable:
    """An index whose entries are kept elsewhere, opened again whenever it is asked, as another process opens it."""

    base: Path
    entries: MemoryEntries = field(default_factory=lambda: MemoryEntries(is_global=True))

    is_global = True
    can_index_log_files = True

    @property
    def now(self) -> ExternalIndex:
        return ExternalIndex.of(self.entries, STORAGE, scan(self.base), limit=RateLimit(None, clock=SkippingClock()))

    def indexed(self) -> Indexed:
        return self.now.indexed()

    def update(self, instant: str, changes: Iterable[pa.RecordBatch], *, completed: str | None) -> None:
        self.now.update(instant, changes, completed=completed)

    def rollback(self, instant: str) -> None:
        self.now.rollback(instant)

    def parts(self, partitions: Collection[str] | None) -> Sequence[Any]:
        return self.now.parts(partitions)

    def look_up(self, storage: Storage, part: Any, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        return self.now.look_up(storage, part, keys)

    def settle(self) -> None:
        snapshot = scan(self.base)
        behind = commits_behind(STORAGE, snapshot, self.indexed()).commits
        self.now.tidy(snapshot.timeline, through=behind[0].completed if behind else NEWEST)


@dataclass
class Followed(Life):
    """A table, and indexes that are brought up to date now and then."""

    indexes: list[MemoryIndex | OutsideOfTheTable] = field(default_factory=list)
    pace: float = 0.5
    """How often an index is brought up to date."""

    def follow(self, index: MemoryIndex | OutsideOfTheTable) -> None:
        """An update, which may be stopped at any commit."""
        left = self.chance.choice([0, 1, 2, 100, 100])

        def guard() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed("the update")

        self.shown.append(f"update of {self.indexes.index(index)}, stopped before commit {left}")
        try:
            update(self.base, index, guard=guard, at_once=self.chance.choice([1, 2, 64]))
        except Killed:
            return
        assert not update(self.base, index).commits, "\n".join(self.shown)

    def check(self) -> None:
        super().check()
        rows = truth(self.base)
        for index in self.indexes:
            assert shown(self.base, index, KEYS) == rows, "\n".join([*self.shown, "not indexed"])
            if self.chance.random() < self.pace:
                self.follow(index)
                if self.chance.random() < 0.3:
                    index.settle()
                assert shown(self.base, index, KEYS) == rows, "\n".join([*self.shown, "indexed"])


def live(path: Path, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    version = chance.choice([9, 10, 10])
    table_type = chance.choice(["MERGE_ON_READ", "MERGE_ON_READ", "COPY_ON_WRITE"])
    by_event_time = chance.random() < 0.7
    index: dict[str, Any] = chance.choice([{"index": IndexType.SIMPLE}, BUCKETS])
    is_lsm_tree = version == 10 and chance.random() < 0.3
    base = new_table(
        path,
        version=version,
        table_type=table_type,
        ordering_fields=("ts",) if by_event_time else (),
        has_metadata_table=chance.random() < 0.3,
        is_lsm_tree=is_lsm_tree,
    )
    life = Followed(chance, base, table_type, by_event_time, index)
    life.pace = chance.choice([0.1, 0.5, 1.0])
    life.indexes = [memory_index(base), memory_index(base, is_global=False), OutsideOfTheTable(base)]
    life.shown.append(f"seed {seed}: version {version} {table_type} {by_event_time=} {is_lsm_tree=} {index}")
    acts = [life.upsert] * 6 + [life.delete] * 3 + [life.insert, life.overwrite, life.delete_partition]
    acts += [life.compact, life.compact_logs, life.compact_by_the_rules] * 2
    acts += [life.clean] * 3 + [life.archive] * 2 + [life.savepoint, life.restore, life.restore]
    acts += [life.change_version, life.convert] + [life.die] * 3
    for _ in range(steps):
        chance.choice(acts)()
        life.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(20)))])
def test_a_table_is_followed(tmp_path: Path, seed: int) -> None:
    """No key is missed and none is found where it is not, after whatever was done to the table, with an index that lags
    behind and one that does not, stopped anywhere: Keeps 1, 2 and 3 of services/indexing/run/index_update."""
    live(tmp_path / "t", seed, 16)
