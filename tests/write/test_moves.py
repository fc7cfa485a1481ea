"""Rows that come for another partition than the one that has their key, in tables where a key is one.

Histories are drawn by chance, against a dictionary; a seed is one, and LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, Unsupported
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.metadata.partition import RECORD_INDEX
from lakeward.index.index import record_locations
from lakeward.index.index_type import IndexType
from lakeward.index.location import PARTITION_PATH, RECORD_KEY
from lakeward.index.metadata_record_index import MetadataRecordIndex
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.write.request import FileSizes
from tests.clocks import SkippingClock
from tests.crash.compacting import compact
from tests.crash.metadata_compacting import check_agrees
from tests.faults import FaultyStorage
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.write.writing import COLUMNS, Row, new_table, rows_of, write

KEYS = [f"k{number:02}" for number in range(16)]
PARTITIONS = ["p0", "p1", "p2"]
BY_RECORD = NewIndexes(finds_keys=NewIndex.METADATA)
INDEXES = {
    IndexType.GLOBAL_SIMPLE: NewIndexes(),
    IndexType.METADATA: BY_RECORD,
    IndexType.GLOBAL_BLOOM: NewIndexes(bloom_filters=True),
}


def with_deletes(rows: list[Row], deleted: list[bool]) -> pa.RecordBatch:
    return rows_of(rows).append_column("_hoodie_is_deleted", pa.array(deleted, pa.bool_()))


def found(base: Path) -> dict[str, tuple[str, int, str, Any]]:
    """Each key with its partition and row; one that is there twice is an error."""
    rows = read_rows(base)
    there = {row["id"]: (row["_hoodie_partition_path"], row["ts"], row["part"], row["v"]) for row in rows}
    assert len(rows) == len(there), [(row["id"], row["_hoodie_partition_path"]) for row in rows]
    return there


def indexed(base: Path) -> dict[str, str]:
    """The partition of each key by the record index."""
    index = MetadataRecordIndex.of(LocalStorage(), scan(base), clock=SkippingClock())
    there = record_locations(LocalStorage(), index, pa.array(KEYS)).to_pylist()
    assert len({row[RECORD_KEY] for row in there}) == len(there)
    return {row[RECORD_KEY]: row[PARTITION_PATH] for row in there}


@dataclass
class History:
    """A table, and what is in it by key: the partition that has it, and its ordering value, partition and value."""

    chance: random.Random
    base: Path
    by_event_time: bool
    moves: bool
    index: IndexType
    rows: dict[str, tuple[str, int, str, Any]] = field(default_factory=dict)
    clock: SkippingClock = field(default_factory=SkippingClock)
    shown: list[str] = field(default_factory=list)

    def upsert(self) -> None:
        keys = self.chance.choices(KEYS, k=self.chance.randint(1, 20))
        rows = [
            (key, self.chance.randrange(6), self.chance.choice(PARTITIONS), f"v{self.chance.randrange(1000)}")
            for key in keys
        ]
        deleted = [self.chance.random() < 0.15 for _ in rows]
        if not self.write(with_deletes(rows, deleted), "upsert", f"{rows} {deleted}"):
            return
        last: dict[str, tuple[Row, bool]] = {}
        for row, is_delete in zip(rows, deleted, strict=True):
            if row[0] not in last or not self.by_event_time or row[1] >= last[row[0]][0][1]:
                last[row[0]] = row, is_delete
        for key, (row, is_delete) in last.items():
            old = self.rows.get(key)
            if old is not None and self.by_event_time and row[1] < old[1]:
                continue
            if is_delete:
                self.rows.pop(key, None)
            else:
                self.rows[key] = (row[2] if old is None or self.moves else old[0], *row[1:])

    def delete(self) -> None:
        keys = self.chance.sample(KEYS, self.chance.randint(1, 4))
        rows = [(key, 0, self.chance.choice(PARTITIONS), None) for key in keys]
        if self.write(with_deletes(rows, [False] * len(rows)), "delete", str(rows)):
            for key in keys:
                self.rows.pop(key, None)

    def compact(self) -> None:
        if any(slice_.row_logs for slice_ in scan(self.base).latest_slices):
            self.shown.append("compact")
            compact(self.base, FaultyStorage(), ScriptedProcesses(), clock=self.clock)

    def write(self, batch: pa.RecordBatch, operation: str, what: str) -> bool:
        """False where it is refused, since no row of a base file lies in its own partition (`write/assignment`)."""
        sizes = FileSizes(small_file=self.chance.choice([0, 2_000_000]), max_file=self.chance.choice([1, 100_000_000]))
        self.shown.append(f"{operation} {what} {sizes.small_file}")
        of_index = {"index": self.index, "moves_rows": self.moves}
        try:
            write(self.base, batch, operation, sizes=sizes, clock=self.clock, **of_index)
        except Refused as error:
            assert not self.moves and "partition paths are not made" in str(error)
            return False
        return True

    def check(self) -> None:
        assert found(self.base) == self.rows, "\n".join(self.shown)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < 4 else pytest.mark.wide) for seed in range(runs(100))]
)
def test_a_history_of_moves(tmp_path: Path, seed: int) -> None:
    """After each write every key is where the dictionary has it, once, and the record index says the same. Keeps 1
    and 2 of write/flow/one_place."""
    chance = random.Random(seed)
    index = list(INDEXES)[seed % 3]
    table_type = chance.choice(["MERGE_ON_READ", "MERGE_ON_READ", "COPY_ON_WRITE"])
    by_event_time, moves, version = chance.random() < 0.7, chance.random() < 0.8, chance.choice([9, 9, 10])
    base = new_table(
        tmp_path / "t",
        version=version,
        table_type=table_type,
        ordering_fields=("ts",) if by_event_time else (),
        indexes=INDEXES[index] if chance.random() < 0.7 else BY_RECORD,
        is_lsm_tree=version == 10 and table_type == "MERGE_ON_READ" and chance.random() < 0.5,
    )
    history = History(chance, base, by_event_time, moves, index)
    history.shown.append(f"seed {seed}: version {version} {table_type} {by_event_time=} {moves=} {index}")
    for _ in range(8):
        chance.choice([history.upsert] * 5 + [history.delete, history.compact])()
        history.check()
    if scan(base).config.built_metadata_partitions.count(RECORD_INDEX):
        assert indexed(base) == {key: row[0] for key, row in history.rows.items()}, "\n".join(history.shown)
    if all(
        list(folder.glob("*.parquet")) for folder in base.glob("p*")
    ):  # deletes of unknown keys open partitions, too
        check_agrees(base)


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_what_a_move_writes(tmp_path: Path, table_type: str) -> None:
    """The group that is left counts a delete, and the new partition an insert; a row that loses is in no file."""
    base = new_table(tmp_path / "t", table_type=table_type)
    by = {"index": IndexType.GLOBAL_SIMPLE, "moves_rows": True}
    write(base, [("k1", 5, "p0", "a"), ("k2", 5, "p0", "a")], **by)

    moved = write(base, [("k1", 6, "p1", "b"), ("k2", 4, "p1", "late")], **by)

    (left, came) = sorted(moved.results, key=lambda result: result.partition_path)
    assert (left.partition_path, came.partition_path) == ("p0", "p1")
    assert [(file.stat.num_deletes, file.stat.num_update_writes) for file in left.files] == [(1, 0)]
    assert [(file.stat.num_inserts, file.stat.num_deletes) for file in came.files] == [(1, 0)]
    assert found(base) == {"k1": ("p1", 6, "p1", "b"), "k2": ("p0", 5, "p0", "a")}
    lost = write(base, [("k2", 4, "p1", "late")], **by)
    assert not lost.files and found(base)["k2"] == ("p0", 5, "p0", "a")


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("index", INDEXES)
def test_a_key_that_is_in_several_partitions(tmp_path: Path, index: IndexType, table_type: str) -> None:
    """It leaves all that the index knows, but for the one that it goes to; the record index knows one of them. Where it
    is in two partitions Hudi makes two rows of it in the one that it goes to."""
    base = new_table(tmp_path / "t", table_type=table_type, indexes=BY_RECORD)
    for partition in PARTITIONS:
        write(base, [("k1", 1, partition, partition)], "insert", index=IndexType.SIMPLE)
    if index is IndexType.METADATA:
        write(base, [("k1", 2, "p9", "b")], index=index, moves_rows=True)
        there = [(row["_hoodie_partition_path"], row["v"]) for row in read_rows(base)]
        assert sorted(there) == [("p0", "p0"), ("p1", "p1"), ("p9", "b")]
        return
    write(base, [("k1", 2, "p1", "b")], index=index, moves_rows=True)
    assert found(base) == {"k1": ("p1", 2, "p1", "b")}
    # The record index knew it in p2, and knows it in p1 now.
    write(base, [("k1", 3, "p1", "c")], index=IndexType.METADATA, sizes=FileSizes(small_file=0))
    assert found(base) == {"k1": ("p1", 3, "p1", "c")}


def test_a_key_that_a_log_deleted(tmp_path: Path) -> None:
    """The group that it left is not written again, whether rows move or not; there the key would live again. Keeps 2
    of write/flow/one_place."""
    base = new_table(tmp_path / "t")
    no_merge = {"sizes": FileSizes(small_file=0), "index": IndexType.GLOBAL_SIMPLE}
    write(base, [("k1", 1, "p0", "a"), ("k2", 1, "p0", "a")], **no_merge)
    write(base, [("k1", 2, "p1", "b")], moves_rows=True, **no_merge)
    for moves in (False, True):
        write(base, [("k1", 3, "p1", f"{moves}")], moves_rows=moves, **no_merge)
        assert found(base)["k1"] == ("p1", 3, "p1", f"{moves}")
    write(base, [("k1", 4, "p0", "back")], moves_rows=True, **no_merge)
    assert found(base) == {"k1": ("p0", 4, "p0", "back"), "k2": ("p0", 1, "p0", "a")}


@pytest.mark.parametrize("moves", [False, True])
def test_a_late_delete_leaves_the_key_in_the_record_index(tmp_path: Path, moves: bool) -> None:
    """The row lives on, and the next one of the key finds it."""
    base = new_table(tmp_path / "t", indexes=BY_RECORD)
    by = {"index": IndexType.METADATA, "moves_rows": moves}
    write(base, with_deletes([("k1", 5, "p0", "a"), ("k2", 5, "p0", "a")], [False, False]), **by)

    write(base, with_deletes([("k1", 4, "p0", "late"), ("k2", 6, "p0", "")], [True, True]), **by)
    write(base, with_deletes([("k1", 6, "p0", "b"), ("k2", 1, "p1", "new")], [False, False]), **by)

    assert found(base) == {"k1": ("p0", 6, "p0", "b"), "k2": ("p1", 1, "p1", "new")}


@pytest.mark.parametrize("version", [9, 10])
def test_several_ordering_fields(tmp_path: Path, version: int) -> None:
    """They are compared one after the other. A native log cannot hold the delete, and nothing is written."""
    columns = pa.schema([*COLUMNS, ("nr", pa.int64())])
    base = new_table(tmp_path / "t", version=version, ordering_fields=("ts", "nr"), schema=schema_text(columns, "t"))
    by = {"index": IndexType.GLOBAL_SIMPLE, "moves_rows": True, "sizes": FileSizes(small_file=0)}

    def rows(*of: tuple[str, int, str, str, int]) -> pa.RecordBatch:
        return rows_of(of, columns)

    write(base, rows(("k1", 1, "p0", "a", 5), ("k2", 1, "p0", "a", 5)), **by)
    if version == 10:
        with pytest.raises(Unsupported, match="'k1' cannot leave its partition"):
            write(base, rows(("k1", 1, "p1", "b", 6)), **by)
        assert found(base)["k1"] == ("p0", 1, "p0", "a")
        return
    write(base, rows(("k1", 1, "p1", "b", 6), ("k2", 1, "p1", "b", 4)), **by)
    assert found(base) == {"k1": ("p1", 1, "p1", "b"), "k2": ("p0", 1, "p0", "a")}
