"""What tasks of `lakeward.spark.record_locations` do, without Spark: here its shuffle and sort are made by hand."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward
from lakeward.index.index import HashedIndex, record_locations
from lakeward.index.overlay import current_index
from lakeward.spark import location_work
from lakeward.spark.location_work import KEY, LOCATED, NUMBERED, PART, SLOT, IndexWork, KeyNumbers, KeyScan
from lakeward.storage.local import LocalStorage
from lakeward.write.flow.slots import _spark_hash, numbers_into
from tests.golden_tables import copy_golden
from tests.our_reader import scan
from tests.write.own_record_index import built, opened, write_by
from tests.write.test_whole_write import CLOCK
from tests.write.writing import write

KEYS = [f"k{number:03}" for number in range(200)]


@pytest.mark.parametrize(("is_global", "tasks"), [(True, 2), (False, 7)], ids=["global", "partition"])
def test_the_answers_are_those_of_this_process(
    is_global: bool, tasks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that lacks the last commits. Keeps 1 and 2 of spark/location_work; 3 of spark/location_frame."""
    monkeypatch.setattr(location_work, "KEYS_BYTES", 100)
    base = built(tmp_path / "t", rows=[(key, 1, "p", "a") for key in KEYS[:120]], is_global=is_global, buckets=5)
    write_by(base, [(key, 2, "p", "b") for key in KEYS[100:150]], "upsert")
    write(base, [(key, 3, "p", "c") for key in KEYS[140:160]], clock=CLOCK)
    write(base, [(key, 4, "p", None) for key in KEYS[:10]], "delete", clock=CLOCK)
    index = current_index(LocalStorage(), scan(base), opened(base, scan(base)))
    assert isinstance(index, HashedIndex)
    asked = random.Random(1).sample([*KEYS, "no such"], 201)

    numbers = pickle.loads(pickle.dumps(KeyNumbers(index, numbers_into(tasks))))
    work = pickle.loads(pickle.dumps(IndexWork(str(base), index, tuple(index.parts(None)))))
    table = pa.Table.from_batches(numbers(pa.table({KEY: asked}).to_batches(7)), NUMBERED)
    slots = _spark_hash(table[SLOT].to_numpy().astype("int64")) % tasks
    found = []
    looked = []
    for slot in range(tasks):
        of_task = table.filter(pa.array(slots == slot)).sort_by([(PART, "ascending"), (KEY, "ascending")])
        looked += [(slot, part) for part, _ in location_work._some_keys(of_task.to_batches(3))]
        found += list(work(of_task.to_batches(3)))
    assert len({part for _, part in looked}) == len(set(looked)), "a part is the work of one task"
    assert len(looked) > 2 * index.count, "its keys come some at a time"
    expected = record_locations(LocalStorage(), index, pa.array(asked))
    rows = sorted(tuple(row.values()) for row in pa.Table.from_batches(found, LOCATED).to_pylist())
    assert rows == sorted(tuple(row.values()) for row in expected.to_pylist())
    assert len(rows) == 150 + 10 - 10


@pytest.mark.parametrize("version", ["v6", "v8", "hfile"])
def test_all_keys_of_slices(version: str, tmp_path: Path) -> None:
    """The rows that a query finds, with their commits, where no index is asked."""
    table = lakeward.Table(str(copy_golden(version, tmp_path / "t")), timezone="UTC")
    plan = table.scan(columns=["_hoodie_record_key", "_hoodie_commit_time"]).scan.plan
    work = pickle.loads(pickle.dumps(KeyScan(plan.shared, 2**29)))
    found = pa.Table.from_batches(work(plan.slices), LOCATED).to_pylist()
    rows = table.scan(columns=["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time"]).to_arrow()
    assert sorted((row[KEY], row["partition"], row["instant"]) for row in found) == sorted(
        tuple(row.values()) for row in rows.to_pylist()
    )
    assert {(row["partition"], row["file_id"]) for row in found} <= {each.group_id for each in plan.slices}
