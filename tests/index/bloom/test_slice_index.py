"""The bloom index of file slices finds the rows that a query finds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from lakeward.base.clock import SystemClock
from lakeward.index.bloom.data_files import data_files
from lakeward.index.bloom.file_keys import read_file_keys
from lakeward.index.bloom.slice_index import SliceBloomIndex
from lakeward.index.index import record_locations
from lakeward.read.slice_keys import log_keys
from lakeward.table.snapshot import take_snapshot
from lakeward.write.request import FileSizes
from tests.golden_tables import copy_golden
from tests.index.bloom.caches import STORAGE, rebuilt, spoil_cache
from tests.index.following import truth
from tests.runs import runs
from tests.write.writing import BUCKETS, new_table, write

LETTERS = "ab\uffff\U00010000"


def scan(path):
    return take_snapshot(STORAGE, str(path), clock=SystemClock())


def without_base_files(snapshot, chosen):
    """The table as writers leave it that put new keys into logs: the chosen groups with logs have no base file."""
    groups = []
    for group in snapshot.file_groups:
        if group.slices[0].log_files and chosen(group):
            group = replace(group, slices=(replace(group.slices[0], base_file=None),))
        groups.append(group)
    return replace(snapshot, file_groups=tuple(groups))


def found(index, keys, partitions=None):
    rows = record_locations(STORAGE, index, pa.array(keys, pa.string()), partitions).to_pylist()
    return sorted(tuple(row.values())[:3] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(runs(3)))
@pytest.mark.parametrize("cache", ["none", "whole", "partial", "broken"])
def test_it_finds_the_rows_of_slices(tmp_path, seed, cache):
    """Keeps 1 and 2 of index/bloom/slice_index: in base files, in logs on them and in logs alone, and none that a log
    deleted; whatever the cache has, for keys that are there and others, in each partition."""
    print(f"seed {seed}")
    chance = Random(seed)
    keys = sorted({"".join(chance.choices(LETTERS, k=chance.randrange(1, 5))) for _ in range(80)})
    table = new_table(tmp_path / "table")
    how = BUCKETS if chance.random() < 0.5 else {"sizes": FileSizes(small_file=0)}
    for number in range(6):
        for part in chance.choice(["p", "q", "pq"]):
            some = chance.sample(keys, 20)
            write(table, [(key, number, part, "a") for key in some], "delete" if number % 3 == 2 else "upsert", **how)
        if number == 2:
            early = scan(table)
    snapshot = without_base_files(scan(table), lambda group: chance.random() < 0.4)
    if cache != "none":
        rebuilt(early if cache == "partial" else snapshot, with_logs=True, file_bytes=chance.choice([1, 10**6]))
    if cache == "broken":
        spoil_cache(table, chance)
    there = sorted((key, *place) for key, place in truth(table, snapshot))
    index = SliceBloomIndex.of(STORAGE, snapshot, clock=SystemClock())

    for wanted in (keys, chance.sample(keys, 4), ["no such"], []):
        expected = [row for row in there if row[0] in wanted]
        assert found(index, wanted) == expected
        assert found(index, wanted, ["q"]) == [row for row in expected if row[1] == "q"]
        for asked, some in index.narrowed(STORAGE, index.parts(None), pa.array(wanted, pa.string())):
            possible = index.possible(STORAGE, asked, some).to_pylist()
            assert {row[0] for row in expected if row[1:] == asked.slice_.group_id} <= {*possible} <= {*wanted}
    every = [batch for part in index.parts(None) for batch in index.look_up(STORAGE, part, None)]
    assert sorted(tuple(row.values())[:3] for batch in every for row in batch.to_pylist()) == there


def test_slices_that_no_file_rules_in_are_not_merged(tmp_path, monkeypatch):
    """The cache spares it: of slices with logs none is read that has none of the keys."""
    table = new_table(tmp_path / "table")
    for part in "pqr":
        for _ in range(2):
            write(table, [(f"{part}{number}", 1, part, "a") for number in range(4)])
    snapshot = without_base_files(scan(table), lambda group: group.partition_path != "r")
    rebuilt(snapshot, with_logs=True)
    index = SliceBloomIndex.of(STORAGE, snapshot, clock=SystemClock())
    assert [(part.base is None, len(part.logs)) for part in index.parts(None)] == [(True, 1), (True, 1), (False, 1)]
    asked = []

    def counted(storage, snapshot, slice_, *, among):
        asked.append(slice_.partition_path)
        return iter([pa.array(sorted(among))])

    monkeypatch.setattr("lakeward.index.bloom.slice_index.slice_keys", counted)
    assert [row[:2] for row in found(index, ["p1", "q9", "r2", "x"])] == [("p1", "p"), ("r2", "r")]
    assert sorted(asked) == ["p", "r"]


@pytest.mark.parametrize("name", ["v6", "v8", "v9_metadata"])
def test_filters_of_logs(tmp_path, name):
    """What is known of a log's keys rules none of them out, and those of no other key in; in logs of Hudi's."""
    snapshot = scan(copy_golden(name, tmp_path / "table"))
    logs = [file for file in data_files(snapshot, with_logs=True) if file.is_log]
    assert logs
    for log in logs:
        keys = sorted({key for batch in log_keys(STORAGE, snapshot, log.path) for key in batch.to_pylist()})
        known = read_file_keys(STORAGE, snapshot, log)
        assert known.possible(pa.array([*keys, "no such", "k55"])).to_pylist() == keys
        assert known.range is not None and (known.range.low, known.range.high) == (keys[0], keys[-1])
