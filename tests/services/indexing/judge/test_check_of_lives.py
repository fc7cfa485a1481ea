"""Lives of tables drawn by chance, whose record index our writer keeps: no check finds a fault, whatever was done and
died, and beside the simple index it is never the one that is wrong.

A seed is one life; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import IndexType
from lakeward.index.simple import SimpleIndex
from lakeward.services.indexing.judge.check import Moment, check_index
from lakeward.services.indexing.judge.check_result import CheckSize
from lakeward.services.indexing.judge.comparison import ComparedIndex, compare_indexes, draw_keys
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.runs import runs
from tests.write.test_histories import INDEXES
from tests.write.test_lives import Life
from tests.write.writing import new_table

STORAGE = LocalStorage()
EVERYTHING = CheckSize(0.001, 0.99, everything=True)


class CheckedLife(Life):
    """A life whose index is checked after each act."""

    def check(self) -> None:
        super().check()

        def moment_now() -> Moment:
            snapshot = self.snapshot()
            return Moment(snapshot, open_index(STORAGE, snapshot, IndexType.METADATA, clock=SkippingClock()))

        found = check_index(STORAGE, moment_now, EVERYTHING)
        assert found.faults == (), "\n".join(self.shown)
        assert found.rows.checked == len(self.rows) and found.is_complete, "\n".join(self.shown)
        snapshot, index = (lambda moment: (moment.snapshot, moment.index))(moment_now())
        compared = compare_indexes(
            STORAGE,
            snapshot,
            ComparedIndex("metadata", lambda storage: index),
            ComparedIndex("simple", lambda storage: SimpleIndex.of(snapshot)),
            draw_keys(STORAGE, snapshot, number=100, absent=5, seed=0),
            clock=SkippingClock(),
        )
        assert compared.first.judged.wrong == 0, "\n".join(self.shown)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(20)))])
def test_a_right_index_has_no_fault(tmp_path: Path, seed: int) -> None:
    """Each row is located where it is, and no entry is without a row; deaths in between included."""
    chance = random.Random(seed)
    ((index, indexes),) = [each for each in INDEXES if each[0]["index"] is IndexType.METADATA]
    version = chance.choice([9, 10])
    table_type = chance.choice(["MERGE_ON_READ", "COPY_ON_WRITE"])
    base = new_table(tmp_path / "t", version=version, table_type=table_type, indexes=indexes, has_metadata_table=True)
    life = CheckedLife(chance, base, table_type, True, index)
    life.shown.append(f"seed {seed}: version {version} {table_type}")
    acts = [life.upsert] * 5 + [life.delete] * 2 + [life.compact, life.compact_logs, life.clean, life.archive]
    acts += [life.insert, life.die, life.die]
    life.upsert()
    for _ in range(12 if seed else 4):
        chance.choice(acts)()
        life.check()
