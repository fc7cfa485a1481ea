"""Rows onto the base file of a slice."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import Unsupported, VerificationFailed
from lakeward.engine.task.operation_spec import finished_operations
from lakeward.format.avro.schema import table_schema
from lakeward.format.parquet.base_file import BaseFileWriter, read_shape
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.format.timeline.commit_metadata import WriteStat
from lakeward.read.slice_input import SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.write.request import WriteOperation
from lakeward.write.target import HandleKind, TargetResult, WriteTarget
from tests.runs import runs
from tests.write.handles.targets import (
    COMMIT_TIME,
    EVENT_TIME,
    FILE_ID,
    INSTANT,
    PARTITION,
    SCHEMA,
    Row,
    context,
    key_changes,
    target,
    values_of,
    write,
)

BEFORE = "20261122000000000"
OLD_NAME = f"{FILE_ID}_0-1-1_{BEFORE}.parquet"
NAME = f"{FILE_ID}_3-7-2_{INSTANT}.parquet"


def onto(folder: Path, rows: list[Row], *, says_sorted: bool = True, **values: Any) -> WriteTarget:
    """A target with these rows in the base file, in this order."""
    place = folder / "table" / PARTITION
    place.mkdir(parents=True)
    schema = table_schema(SCHEMA)
    records = [
        {
            "_hoodie_commit_time": BEFORE,
            "_hoodie_commit_seqno": f"{BEFORE}_0_{number}",
            "_hoodie_record_key": key,
            "_hoodie_partition_path": PARTITION,
            "k": key,
            "ts": ts,
            "v": value,
        }
        for number, (key, ts, value) in enumerate(rows)
    ]
    plain = pa.schema([column for column in schema if column.name != "_hoodie_file_name"])
    batch = pa.RecordBatch.from_pylist(records, schema=pa.schema([pa.field(each.name, each.type) for each in plain]))
    with (
        (place / OLD_NAME).open("wb") as sink,
        BaseFileWriter(sink, schema, file_name=OLD_NAME, required=["k"]) as writer,
    ):
        writer.write(batch)
        writer.close(is_sorted=says_sorted)
    slice_ = SliceInput(
        partition_path=PARTITION,
        file_id=FILE_ID,
        base_file=f"{PARTITION}/{OLD_NAME}",
        log_files=(),
        base_path=str(folder / "table"),
        instant=BEFORE,
        schema=SCHEMA,
        rules=EVENT_TIME,
    )
    return target(HandleKind.MERGE, slice=slice_, prev_commit=BEFORE, **values)


def stored(folder: Path, result: TargetResult) -> list[dict[str, Any]]:
    (file,) = result.files
    rows: list[dict[str, Any]] = pq.read_table(folder / "attempt" / file.name).to_pylist()
    return rows


def is_sorted(folder: Path, result: TargetResult) -> bool:
    (file,) = result.files
    with (folder / "attempt" / file.name).open("rb") as source:
        return read_shape(source, name=file.name).is_sorted


def test_an_update_an_insert_a_delete_and_a_late_row(tmp_path: Path) -> None:
    """A tie is won by the row that comes, a smaller value loses, also as a delete; all rows have the new file's name.

    Keeps 1 of write/handles/merge: rows that did not change keep commit time and sequence number.
    """
    to = onto(tmp_path, [("k1", 5, "a"), ("k2", 5, "b"), ("k3", 5, "c"), ("k5", 5, "e"), ("k6", 5, "f")])
    rows: list[Row] = [("k2", 5, "B"), ("k3", 4, "late"), ("k4", 1, "D"), ("k5", 6, "gone"), ("k6", 4, "gone")]
    result = write(context(tmp_path), to, rows)
    found = stored(tmp_path, result)
    assert [(values_of(row), row["_hoodie_commit_time"] == INSTANT) for row in found] == [
        (("k1", 5, "a"), False),
        (("k2", 5, "B"), True),
        (("k3", 5, "c"), False),
        (("k4", 1, "D"), True),
        (("k6", 5, "f"), False),
    ]
    assert {row["_hoodie_file_name"] for row in found} == {NAME}
    assert [row["_hoodie_commit_seqno"] for row in found if row["_hoodie_commit_time"] == BEFORE] == [
        f"{BEFORE}_0_{number}" for number in (0, 2, 4)
    ]
    assert is_sorted(tmp_path, result)


def test_the_stat_of_a_merge(tmp_path: Path) -> None:
    """Field by field, as in the facts' example: writes are all rows, updates those that won, and late ones are none."""
    to = onto(tmp_path, [("k1", 5, "a"), ("k2", 5, "b"), ("k3", 5, "c")])
    (file,) = write(context(tmp_path), to, [("k1", 6, "A"), ("k2", 4, "late"), ("k3", 6, "gone"), ("k4", 1, "d")]).files
    size = (tmp_path / "attempt" / NAME).stat().st_size
    times = file.stat.runtime_stats
    assert times is not None and (times.total_scan_time, times.total_create_time) == (0, 0)
    assert file.replaces_base_file
    assert replace(file.stat, runtime_stats=None) == WriteStat(
        file_id=FILE_ID,
        path=f"{PARTITION}/{NAME}",
        prev_commit=BEFORE,
        num_writes=3,
        num_deletes=1,
        num_update_writes=1,
        total_write_bytes=size,
        total_write_errors=0,
        partition_path=PARTITION,
        total_log_records=0,
        total_updated_records_compacted=0,
        num_inserts=1,
        total_log_blocks=0,
        total_corrupt_log_block=0,
        total_rollback_blocks=0,
        file_size_in_bytes=size,
        prev_base_file=OLD_NAME,
        total_log_files_compacted=0,
        total_log_read_time_ms=0,
        total_log_size_compacted=0,
        num_updates=0,
    )
    assert finished_operations(LocalStorage().list(str(tmp_path / "attempt"))) == {3: 4}


def test_the_operation_delete_wins_always(tmp_path: Path) -> None:
    """Ordering values of the rows say nothing; keys that are not there change nothing."""
    to = onto(tmp_path, [("k1", 5, "a"), ("k2", 5, "b")])
    result = write(context(tmp_path, operation=WriteOperation.DELETE), to, [("k1", 1, "x"), ("k9", 1, "x")])
    assert [row["k"] for row in stored(tmp_path, result)] == ["k2"]
    assert (result.files[0].stat.num_writes, result.files[0].stat.num_deletes) == (1, 1)


def test_a_base_file_without_rows(tmp_path: Path) -> None:
    """All of them were deleted; rows come again, into a file that was said to be sorted."""
    result = write(context(tmp_path), onto(tmp_path, []), [("k1", 1, "x"), ("k2", 1, "gone")])
    assert [values_of(row) for row in stored(tmp_path, result)] == [("k1", 1, "x")]


def test_by_commit_time_the_row_that_comes_wins(tmp_path: Path) -> None:
    """Also with a smaller value, and as a delete."""
    to = onto(tmp_path, [("k1", 5, "a"), ("k2", 5, "b")])
    result = write(context(tmp_path, rules=COMMIT_TIME), to, [("k1", 1, "A"), ("k2", 1, "gone")])
    assert [values_of(row) for row in stored(tmp_path, result)] == [("k1", 1, "A")]


def test_a_row_without_an_ordering_value(tmp_path: Path) -> None:
    """It cannot be compared with one that has it: refused by its key, where Hudi fails without a name."""
    to = onto(tmp_path, [("k1", 5, "a")])
    with pytest.raises(Unsupported, match=r"'k1' has records with and without a value of ts"):
        write(context(tmp_path), to, [("k1", None, "A")])


@pytest.mark.parametrize("says_sorted", [True, False])
def test_a_base_file_that_is_not_sorted(tmp_path: Path, says_sorted: bool) -> None:
    """Its order is not relied on where it does not say so; where it says so and is not, that is found out, and all is
    merged once more from the rows that came: also their keys are reported once. Keeps 2 of write/handles/merge."""
    to = onto(tmp_path, [("k3", 5, "c"), ("k1", 5, "a"), ("k2", 5, "b")], says_sorted=says_sorted)
    result = write(context(tmp_path, wants_keys=True), to, [("k1", 6, "A"), ("k2", 7, "gone"), ("k4", 6, "d")])
    assert sorted(values_of(row) for row in stored(tmp_path, result)) == [
        ("k1", 6, "A"),
        ("k3", 5, "c"),
        ("k4", 6, "d"),
    ]
    assert not is_sorted(tmp_path, result)
    assert sorted(key_changes(result)) == [("k2", None), ("k4", FILE_ID)]


def test_keys_for_the_record_index(tmp_path: Path) -> None:
    """New keys and those that are gone; updates, late rows and deletes of unknown keys are neither."""
    to = onto(tmp_path, [("k1", 5, "a"), ("k2", 5, "b"), ("k3", 5, "c")])
    rows: list[Row] = [("k1", 6, "A"), ("k2", 6, "gone"), ("k3", 4, "gone"), ("k4", 1, "d"), ("k5", 1, "gone")]
    assert sorted(key_changes(write(context(tmp_path, wants_keys=True), to, rows))) == [("k2", None), ("k4", FILE_ID)]


def test_statistics_of_a_merge(tmp_path: Path) -> None:
    """They are those of the new file."""
    to = onto(tmp_path, [("k1", 5, "a"), ("k2", 3, "b")])
    indexed = IndexedColumns({"ts": "long"}, StatsVersion.V2)
    (file,) = write(context(tmp_path, indexed=indexed), to, [("k1", 9, "A")]).files
    assert [(each.min_value, each.max_value) for each in file.column_stats] == [(3, 9)]


def test_nothing_comes(tmp_path: Path) -> None:
    """Keeps 4 of write/handles/merge: the base file stays."""
    assert write(context(tmp_path), onto(tmp_path, [("k1", 5, "a")]), []).files == ()


@pytest.mark.parametrize("keeps_duplicates", [False, True])
def test_a_base_file_with_kinds_of_change(tmp_path: Path, keeps_duplicates: bool) -> None:
    """It is refused by name: what its rows have beside them, Lakeward's would not."""
    to = onto(tmp_path, [("k1", 5, "a")], keeps_duplicates=keeps_duplicates)
    path = tmp_path / "table" / PARTITION / OLD_NAME
    table = pq.read_table(path)
    pq.write_table(table.append_column("_hoodie_operation", pa.array(["I"])), path)
    with pytest.raises(Unsupported, match=f"{OLD_NAME} is not rewritten.*_hoodie_operation"):
        write(context(tmp_path), to, [("k1", 6, "A")])
    assert list((tmp_path / "attempt").iterdir()) == []


@pytest.mark.parametrize("keeps_duplicates", [False, True])
def test_a_merge_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_duplicates: bool) -> None:
    """Keeps 3 of write/handles/merge: a file that is not what was merged."""
    to = onto(tmp_path, [("k1", 5, "a"), ("k2", 3, "b")], keeps_duplicates=keeps_duplicates)

    def twice(self: BaseFileWriter, batch: pa.RecordBatch) -> None:
        genuine(self, batch)
        genuine(self, batch.slice(0, 1))

    genuine = BaseFileWriter.write
    monkeypatch.setattr(BaseFileWriter, "write", twice)
    with pytest.raises(VerificationFailed):
        write(context(tmp_path), to, [("k3", 9, "A")])
    assert finished_operations(LocalStorage().list(str(tmp_path / "attempt"))) == {}


def test_an_insert_stands_beside_what_is_there(tmp_path: Path) -> None:
    """The row of the key stays; both are in the file, in order, and it does not say that no key is in it twice."""
    to = onto(tmp_path, [("k1", 5, "a"), ("k3", 5, "c")], keeps_duplicates=True)
    of = context(tmp_path, operation=WriteOperation.INSERT, deduplicates=False, wants_keys=True)
    result = write(of, to, [("k3", 1, "C"), ("k2", 1, "B"), ("k0", 1, "gone")])
    found = [values_of(row) for row in stored(tmp_path, result)]
    assert found == [("k1", 5, "a"), ("k2", 1, "B"), ("k3", 5, "c"), ("k3", 1, "C")]
    assert not is_sorted(tmp_path, result)
    stat = result.files[0].stat
    assert (stat.num_writes, stat.num_inserts, stat.num_update_writes, stat.num_deletes) == (4, 2, 0, 1)
    assert (stat.prev_commit, stat.prev_base_file) == (BEFORE, OLD_NAME)
    assert key_changes(result) == [("k2", FILE_ID), ("k3", FILE_ID)]


@pytest.mark.parametrize("seed", range(runs(10)))
def test_inserts_beside_what_is_there(tmp_path: Path, seed: int) -> None:
    """Whatever the base file's order, and however rows are cut into batches, none is lost; the file is sorted where no
    key came twice and the base file was."""
    chance = random.Random(seed)
    says_sorted = chance.random() < 0.7
    base: list[Row] = [(f"k{chance.randrange(500):03}", 1, "a") for _ in range(chance.randrange(1, 60))]
    base = list({row[0]: row for row in base}.values())
    if says_sorted:
        base.sort()
    rows: list[Row] = [(f"k{chance.randrange(500):03}", 2, "b") for _ in range(chance.randrange(1, 60))]
    of = context(tmp_path, operation=WriteOperation.INSERT, deduplicates=False)
    to = onto(tmp_path, base, says_sorted=says_sorted, keeps_duplicates=True)
    result = write(of, to, rows, at_once=chance.choice([1, 3, 20]))
    found = [values_of(row) for row in stored(tmp_path, result)]
    assert sorted(found) == sorted([*base, *rows]), f"seed {seed}"
    keys = [row[0] for row in found]
    if says_sorted:
        assert keys == sorted(keys), f"seed {seed}"
    assert is_sorted(tmp_path, result) == (keys == sorted(set(keys))), f"seed {seed}"


@pytest.mark.parametrize("seed", range(runs(10)))
def test_merging_as_a_dictionary_does(tmp_path: Path, seed: int) -> None:
    """The rows of one write after another, whatever the table's order and that of its base file."""
    chance = random.Random(seed)
    rules = chance.choice([EVENT_TIME, COMMIT_TIME])
    base: list[Row] = [(f"k{number:02}", chance.randrange(9), "old") for number in range(0, 40, chance.choice([1, 2]))]
    says_sorted = chance.random() < 0.7
    if not says_sorted:
        chance.shuffle(base)
    rows: list[Row] = [
        (f"k{chance.randrange(50):02}", chance.randrange(9), chance.choice(["new", "newer", "gone"]))
        for _ in range(chance.randrange(1, 60))
    ]
    is_delete = chance.random() < 0.2
    state = {row[0]: row for row in base}
    last: dict[str, Row] = {}
    for row in rows:
        old = last.get(row[0])
        if old is None or rules is COMMIT_TIME or is_delete or row[1] >= old[1]:  # type: ignore[operator]
            last[row[0]] = row
    for key, row in last.items():
        old = state.get(key)
        if is_delete or (row[2] == "gone" and (old is None or rules is COMMIT_TIME or row[1] >= old[1])):  # type: ignore[operator]
            state.pop(key, None)
        elif row[2] != "gone" and (old is None or rules is COMMIT_TIME or row[1] >= old[1]):  # type: ignore[operator]
            state[key] = row
    operation = WriteOperation.DELETE if is_delete else WriteOperation.UPSERT
    to = onto(tmp_path, base, says_sorted=says_sorted)
    of = context(tmp_path, rules=rules, operation=operation, wants_keys=True)
    result = write(of, to, rows, at_once=chance.choice([1, 7, 100]))
    found = [values_of(row) for row in stored(tmp_path, result)]
    assert sorted(found) == sorted(state.values()), f"seed {seed}"
    before = {row[0] for row in base}
    expected = {(key, FILE_ID) for key in state.keys() - before} | {(key, None) for key in before - state.keys()}
    changes = key_changes(result) if result.key_changes else []
    assert set(changes) == expected and len(changes) == len(expected), f"seed {seed}"
