"""Lives of tables whose writers use indexes of Lakeward's, each write by one that is drawn, against a dictionary of
rows: what an index heard, what it lacks, and what was undone since.

A seed is one life; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeward.index.index_type import IndexType
from lakeward.index.record.index_growth import Scaling, ScalingWay
from lakeward.index.record.merge_choice import MergeOptions
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.tagging.tagging_choice import OpenIndex
from tests.index.external.memory_entries import MemoryEntries
from tests.index.external.test_external_lives import Indexing
from tests.index.external.test_external_lives import opened as opened_outside
from tests.index.following import truth
from tests.index.record.reopened_record_index import new_record_index
from tests.runs import runs
from tests.write.writing import Row, new_table


@dataclass
class Indexed(Indexing):
    """A table that is written by its indexes."""

    is_global: bool = True
    """A key is one in the table, and goes where its rows belong; else it is one in its partition, and stays there."""
    stays: bool = False
    """Whether rows come for the partitions that have their keys."""
    ways: list[tuple[IndexType, OpenIndex]] = field(default_factory=list)

    def write(self, rows: list[Row], operation: str, **request: Any) -> None:
        kind, opens = self.chance.choice(self.ways)
        self.shown.append(f"by {kind}:")
        self.index = {"index": kind, "open_index": opens, "moves_rows": self.is_global}
        super().write(rows, operation, **request)

    def draw(self, keys: list[str]) -> list[Row]:
        rows = super().draw(keys)
        return [(key, ts, self._partition(key, path), value) for key, ts, path, value in rows]

    def overwrite(self) -> None:
        """Looks for no key, so that one which came for another partition would be there twice."""
        self.stays = True
        super().overwrite()
        self.stays = False

    def check(self) -> None:
        super().check()
        assert {key: path for key, (path, _) in truth(self.base)} == {key: row[2] for key, row in self.rows.items()}

    def record_index(self, snapshot: TableSnapshot) -> RecordIndexWriter:
        """What a process dies of is in its calls to the index, too."""
        folder = RecordOptions().folder(str(self.base))
        return RecordIndexWriter.of(self.storage, snapshot, folder, merges=MergeOptions(3, 0.3))

    def _partition(self, key: str, path: str) -> str:
        if not self.is_global:
            return path
        if self.stays and key in self.rows:
            return self.rows[key][2]
        return f"p{self.chance.randrange(3)}"


def live(path: Path, seed: int, kinds: list[IndexType], steps: int) -> None:
    chance = random.Random(f"{seed} {kinds}")
    table_type = chance.choice(["MERGE_ON_READ", "COPY_ON_WRITE"])
    is_global, by_event_time = chance.random() < 0.6, chance.random() < 0.7
    version, way = chance.choice([9, 10]), chance.choice(list(ScalingWay))
    ordering_fields = ("ts",) if by_event_time else ()
    base = new_table(path, version=version, table_type=table_type, ordering_fields=ordering_fields)
    folder = Path(RecordOptions().folder(str(base)))
    new_record_index(folder, is_global=is_global, buckets=2, scaling=Scaling(way, entries_max=8))
    life = Indexed(chance, base, table_type, by_event_time, {"index": IndexType.SIMPLE}, is_global=is_global)
    outside: OpenIndex = partial(opened_outside, MemoryEntries(is_global=is_global))
    ways: dict[IndexType, OpenIndex] = {IndexType.RECORD: life.record_index, IndexType.POSTGRES: outside}
    life.ways = [(kind, ways[kind]) for kind in kinds]
    life.indexes = [opens for _, opens in life.ways]  # type: ignore[misc]
    life.shown.append(f"seed {seed}: version {version} {table_type} {is_global=} {by_event_time=} {way}")
    acts = [life.upsert] * 6 + [life.delete] * 3 + [life.insert, life.overwrite, life.delete_partition]
    acts += [life.compact, life.compact_logs] * 2 + [life.clean, life.archive, life.restore] + [life.die] * 3
    for _ in range(steps):
        chance.choice(acts)()
        life.check()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [[IndexType.RECORD], [IndexType.RECORD, IndexType.POSTGRES]],
    ids=["record", "mixed"],
)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(2, runs(20)))])
@pytest.mark.turns(35)
def test_a_table_is_written_by_its_indexes(tmp_path: Path, seed: int, kinds: list[IndexType]) -> None:
    """Whatever the index had that a write went by, each key is where its last row belongs, once in its scope, and each
    index says so; with appends, deletes, moves, compactions, cleans, restores, and deaths in the middle of them."""
    live(tmp_path / "t", seed, kinds, 14)
