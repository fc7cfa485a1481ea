"""New file groups: what is in their base files, and what their stats say."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import NotFound, VerificationFailed
from lakeward.engine.task.operation_spec import finished_operations
from lakeward.format.parquet.base_file import BaseFileWriter, read_shape
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.format.timeline.commit_metadata import WriteStat
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.write.handles.handle import write_target
from lakeward.write.request import FileSizes, WriteOperation
from lakeward.write.target import HandleKind, TargetResult
from tests.write.handles.targets import (
    FILE_ID,
    INSTANT,
    PARTITION,
    SCHEMA,
    Row,
    batches,
    context,
    key_changes,
    target,
    values_of,
    write,
)

CREATE = target(HandleKind.CREATE)
NAME = f"{FILE_ID}_3-7-2_{INSTANT}.parquet"


def rows_of(folder: Path, result: TargetResult) -> list[list[Row]]:
    return [
        [values_of(row) for row in pq.read_table(folder / "attempt" / file.name).to_pylist()] for file in result.files
    ]


def test_rows_of_a_new_file_group(tmp_path: Path) -> None:
    """Meta columns are those of the write; the footer has the range of keys, a bloom filter and that rows are sorted;
    a column that may hold no null is required in the file, too."""
    (file,) = write(context(tmp_path), CREATE, [("k2", 5, "b"), ("k1", 4, "a")]).files
    assert file.name == NAME and not file.replaces_base_file
    path = tmp_path / "attempt" / NAME
    assert pq.read_table(path).to_pylist() == [
        {
            "_hoodie_commit_time": INSTANT,
            "_hoodie_commit_seqno": f"{INSTANT}_3_{place}",
            "_hoodie_record_key": key,
            "_hoodie_partition_path": PARTITION,
            "_hoodie_file_name": NAME,
            "k": key,
            "ts": ts,
            "v": value,
            "_hoodie_is_deleted": False,
        }
        for place, (key, ts, value) in enumerate([("k1", 4, "a"), ("k2", 5, "b")])
    ]
    footer = pq.read_metadata(path)
    entries = footer.metadata
    assert entries[b"hoodie_min_record_key"] == b"k1" and entries[b"hoodie_max_record_key"] == b"k2"
    assert b"org.apache.hudi.bloomfilter" in entries
    required = [column.name for column in pq.read_schema(path) if not column.nullable]
    assert required == ["k"]
    with path.open("rb") as source:
        assert read_shape(source, name=NAME).is_sorted


def test_the_stat_of_a_new_file_group(tmp_path: Path) -> None:
    """Field by field: all rows are inserts, the commit before is the text null, numbers are 0 and not null."""
    (file,) = write(context(tmp_path), CREATE, [("k1", 4, "a"), ("k2", 5, "b"), ("k3", 1, "gone")]).files
    size = (tmp_path / "attempt" / NAME).stat().st_size
    times = file.stat.runtime_stats
    assert times is not None and (times.total_scan_time, times.total_upsert_time) == (0, 0)
    assert replace(file.stat, runtime_stats=None) == WriteStat(
        file_id=FILE_ID,
        path=f"{PARTITION}/{NAME}",
        prev_commit="null",
        num_writes=2,
        num_deletes=1,
        num_update_writes=0,
        total_write_bytes=size,
        total_write_errors=0,
        partition_path=PARTITION,
        total_log_records=0,
        total_updated_records_compacted=0,
        num_inserts=2,
        total_log_blocks=0,
        total_corrupt_log_block=0,
        total_rollback_blocks=0,
        file_size_in_bytes=size,
        total_log_files_compacted=0,
        total_log_read_time_ms=0,
        total_log_size_compacted=0,
        num_updates=0,
    )
    assert file.size_bytes == size


def test_the_stat_of_a_table_without_partitions(tmp_path: Path) -> None:
    """The path is the file's name."""
    rows = batches([("k1", 1, "a")], partition="")
    (file,) = write_target(LocalStorage(), context(tmp_path), replace(CREATE, partition_path=""), rows, 2).files
    assert (file.stat.path, file.stat.partition_path) == (NAME, "")


def test_deletes_of_unknown_keys_go_nowhere(tmp_path: Path) -> None:
    """There is no file where nothing but deletes comes; Hudi leaves one without rows."""
    result = write(context(tmp_path, wants_keys=True), CREATE, [("k1", 4, "gone")])
    assert (result.files, result.key_changes) == ((), None)
    assert list((tmp_path / "attempt").glob("*.parquet")) == []
    assert finished_operations(LocalStorage().list(str(tmp_path / "attempt"))) == {3: 0}


def test_rows_of_one_key_are_folded_where_the_operation_does(tmp_path: Path) -> None:
    """Else all of them are kept, by their place in the input, and the file does not say that it is sorted."""
    rows: list[Row] = [("k1", 4, "a"), ("k1", 3, "b"), ("k0", 1, "c")]
    folded = write(context(tmp_path / "folded"), CREATE, rows)
    assert rows_of(tmp_path / "folded", folded) == [[("k0", 1, "c"), ("k1", 4, "a")]]
    kept = write(context(tmp_path / "kept", deduplicates=False, operation=WriteOperation.INSERT), CREATE, rows)
    assert rows_of(tmp_path / "kept", kept) == [[("k0", 1, "c"), ("k1", 4, "a"), ("k1", 3, "b")]]
    for folder, is_sorted in (("folded", True), ("kept", False)):
        with (tmp_path / folder / "attempt" / NAME).open("rb") as source:
            assert read_shape(source, name=NAME).is_sorted is is_sorted


def test_a_file_that_grows_too_large_is_followed_by_another(tmp_path: Path) -> None:
    """The same uuid and token, the next number, sequence numbers from 0 on; each file has its stat, and its keys for
    the record index.

    Keeps 1 of write/handles/create: no key is in two files, and files follow each other.
    """
    rows: list[Row] = [(f"k{number // 3:05}", number, "x" * 50) for number in range(30_000)]
    of = context(
        tmp_path,
        deduplicates=False,
        operation=WriteOperation.BULK_INSERT,
        sizes=FileSizes(max_file=400_000),
        wants_keys=True,
    )
    result = write(of, CREATE, rows, at_once=20_000)
    uuid = FILE_ID.removesuffix("-0")
    assert len(result.files) > 2
    assert [file.name for file in result.files] == [
        f"{uuid}-{number}_3-7-2_{INSTANT}.parquet" for number in range(len(result.files))
    ]
    found = rows_of(tmp_path, result)
    assert [row for part in found for row in part] == rows
    for before, after in pairwise(found):
        assert before[-1][0] < after[0][0]
    for file, part in zip(result.files, found, strict=True):
        assert (file.stat.file_id, file.stat.num_inserts) == (file.name.partition("_")[0], len(part))
        numbers = pq.read_table(tmp_path / "attempt" / file.name, columns=["_hoodie_commit_seqno"]).to_pylist()
        assert numbers[0]["_hoodie_commit_seqno"] == f"{INSTANT}_3_0"
    expected = [(row[0], file.stat.file_id) for file, part in zip(result.files, found, strict=True) for row in part]
    assert key_changes(result) == expected


def test_a_bucket_is_one_file(tmp_path: Path) -> None:
    """It may be as large as it likes: two groups of one bucket are what no Hudi writer goes on with."""
    rows: list[Row] = [(f"k{number:05}", number, "x" * 50) for number in range(20_000)]
    assert (
        len(write(context(tmp_path, sizes=FileSizes(max_file=100_000)), replace(CREATE, rolls_over=False), rows).files)
        == 1
    )


def test_statistics_of_the_columns_that_are_indexed(tmp_path: Path) -> None:
    """They are those of the file, meta columns included."""
    indexed = IndexedColumns({"ts": "long", "_hoodie_record_key": "string"}, StatsVersion.V2)
    (file,) = write(context(tmp_path, indexed=indexed), CREATE, [("k1", 4, "a"), ("k2", None, "b")]).files
    found = {each.column: (each.min_value, each.max_value, each.null_count) for each in file.column_stats}
    assert found == {"ts": (4, 4, 1), "_hoodie_record_key": ("k1", "k2", 0)}


def test_a_file_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of write/handles/create: what was written is not what was to be written."""
    wrong = batches([("k1", 4, "a")])

    def write_another(self: BaseFileWriter, batch: object) -> None:
        genuine(self, batch.set_column(5, "ts", wrong[0].column("ts").cast("int64").slice(0, 1).fill_null(0)))  # type: ignore[attr-defined]

    genuine = BaseFileWriter.write
    monkeypatch.setattr(BaseFileWriter, "write", write_another)
    with pytest.raises(VerificationFailed):
        write(context(tmp_path), CREATE, [("k1", 5, "a")])
    assert finished_operations(LocalStorage().list(str(tmp_path / "attempt"))) == {}


def test_an_attempt_that_is_over(tmp_path: Path) -> None:
    """Its folder is gone: the task fails, and leaves nothing behind."""
    of = context(tmp_path)
    (tmp_path / "attempt").rmdir()
    with pytest.raises(NotFound):
        write(of, CREATE, [("k1", 5, "a")])
    assert not (tmp_path / "attempt").exists()


@pytest.mark.parametrize("kind", [HandleKind.CREATE, HandleKind.APPEND])
def test_statistics_of_floats_are_of_their_own_column(tmp_path: Path, kind: HandleKind) -> None:
    """Floats are measured as rows are written, and the last column is one, with another beside it."""
    schema = json.loads(SCHEMA)
    schema["fields"] += [{"name": name, "type": ["null", "double"], "default": None} for name in ("x", "y")]
    indexed = IndexedColumns({"x": "double", "y": "double"}, StatsVersion.V2)
    (batch,) = batches([("k1", 4, "a"), ("k2", 5, "b")])
    for name, values in (("x", [1.5, 2.5]), ("y", [-3.0, 7.0])):
        batch = batch.add_column(batch.num_columns - 1, pa.field(name, pa.float64()), pa.array(values, pa.float64()))
    of = context(tmp_path, indexed=indexed, schema=json.dumps(schema))
    (file,) = write_target(LocalStorage(), of, target(kind), [batch], task_attempt=2).files
    ranges = {record.column: (record.min_value, record.max_value) for record in file.column_stats}
    assert ranges == {"x": (1.5, 2.5), "y": (-3.0, 7.0)}
