"""Keys that tasks look up, against those that are looked up in this process and against the rows."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Cancelled
from lakeward.engine.dispatch.dispatcher import Progress
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.index.index import HashedIndex, Index, record_locations
from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import IndexType
from lakeward.index.location import LOCATIONS
from lakeward.index.overlay import current_index
from lakeward.index.record.record_options import RecordOptions
from lakeward.services.indexing.run.lookup_job import look_up_by_job
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from tests.clocks import SkippingClock
from tests.index.following import truth
from tests.our_reader import scan
from tests.write.own_record_index import built, opened, write_by
from tests.write.test_whole_write import CLOCK
from tests.write.writing import Row, new_table, write

STORAGE = LocalStorage()
KEYS = [f"k{number:03}" for number in range(200)]


@dataclass
class Elsewhere(InProcessDispatcher):
    """Tasks get what they are given as bytes, as on another machine."""

    jobs: list[int] = field(default_factory=list)
    """How many tasks each job had."""
    task_bytes: int = 0
    """What each of them has of the index."""

    def run(
        self,
        task: Callable[[Any, int], Any],
        specs: Sequence[Any],
        *,
        description: str,
        on_progress: Callable[[Progress], None],
    ) -> Any:
        sent = pickle.dumps(task)
        self.jobs.append(len(specs))
        self.task_bytes = len(sent)
        of_task = [pickle.loads(pickle.dumps(spec)) for spec in specs]
        return super().run(pickle.loads(sent), of_task, description=description, on_progress=on_progress)


def by_job(
    base: Path, index: Index, keys: pa.Array, partitions: Collection[str] | None, on: Elsewhere, **words: Any
) -> pa.Table:
    assert isinstance(index, HashedIndex)
    return pa.Table.from_batches(look_up_by_job(str(base), index, keys, partitions, lambda _: on, **words), LOCATIONS)


def rows_of(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("is_global", [True, False], ids=["global", "partition"])
def test_the_answers_are_those_of_this_process(tmp_path: Path, is_global: bool) -> None:
    """An index has files of several commits, and lacks the last ones; what it lacks is not sent to tasks, which
    are as many as its files. Keeps 1 and 2 of services/indexing/run/lookup_job."""
    chance = random.Random(5)

    def some() -> list[Row]:
        keys = chance.sample(KEYS, 60)
        return [(key, 1, chance.choice("pqr") if is_global else "pqr"[KEYS.index(key) % 3], "") for key in keys]

    base = built(tmp_path / "t", "COPY_ON_WRITE", rows=some(), is_global=is_global, buckets=3)
    for operation in ("upsert", "delete", "upsert"):
        write_by(base, some(), operation, moves_rows=is_global and operation == "upsert")
    kind = IndexType.GLOBAL_SIMPLE if is_global else IndexType.SIMPLE
    write(base, some(), index=kind, moves_rows=is_global, clock=CLOCK)
    snapshot = scan(base)
    alone = opened(base, snapshot)
    index = current_index(STORAGE, snapshot, alone)
    files = len(alone._index.manifest.files)
    keys = pa.array([*KEYS, "no such", KEYS[0]])
    assert files > 6

    for partitions in (None, ["p", "q"]):
        for least, tasks in ((1, {files}), (20, {6, 7, 8, 9}), (10_000, {3})):
            on = Elsewhere()
            found = by_job(base, index, keys, partitions, on, run_keys_min=least)
            assert rows_of(found) == rows_of(record_locations(STORAGE, index, keys, partitions))
            assert len(on.jobs) == 1 and on.jobs[0] in tasks
            assert on.task_bytes < len(pickle.dumps(alone)) + 500
    assert [(key, at) for key, *at, _ in rows_of(by_job(base, index, keys, None, on))] == [
        (key, [*at]) for key, at in truth(base)
    ]


def test_by_the_record_index_of_hudi(tmp_path: Path) -> None:
    """Its file groups are the parts, and their files are counted."""
    base = new_table(tmp_path / "t", indexes=NewIndexes(finds_keys=NewIndex.METADATA))
    for step in range(3):
        rows: list[Row] = [(key, step, "pq"[number % 2], "") for number, key in enumerate(KEYS[step * 20 :][:60])]
        write(base, rows, index=IndexType.METADATA, clock=CLOCK)
    index = open_index(STORAGE, scan(base), IndexType.METADATA, clock=SkippingClock())
    on = Elsewhere()
    found = by_job(base, index, pa.array([*KEYS, "no such"]), None, on, run_keys_min=1)

    assert isinstance(index, HashedIndex)
    efforts = [index.effort(part) for part in index.parts(None)]
    assert on.jobs == [sum(max(1, each.files) for each in efforts)] and on.jobs[0] > len(efforts)
    assert all(each.bytes > 0 for each in efforts if each.files)
    assert [row[0] for row in rows_of(found)] == [key for key, _ in truth(base)]


def test_what_fails(tmp_path: Path) -> None:
    """An error of a task is the job's, and what the guard raises ends it."""
    base = built(tmp_path / "t", rows=[(key, 1, "p", "") for key in KEYS])
    index = current_index(STORAGE, scan(base), opened(base, scan(base)))

    def stop() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        by_job(base, index, pa.array(KEYS), None, Elsewhere(), guard=stop)
    for path in (Path(RecordOptions().folder(str(base))) / "data").iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BrokenFile, match="hfile"):
        by_job(base, index, pa.array(KEYS), None, Elsewhere())
