"""Inline logs on a slice: their blocks, and what their stats say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import Unsupported, VerificationFailed
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock, scan_blocks
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.delete_block import read_delete_block
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.format.timeline.commit_metadata import WriteStat
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.write.handles.handle import write_target
from lakeward.write.keyed_rows import keyed_schema
from lakeward.write.request import FileSizes, WriteOperation
from lakeward.write.target import HandleKind
from tests.write.handles.targets import (
    COLUMNS,
    COMMIT_TIME,
    EVENT_TIME,
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

APPEND = target(HandleKind.APPEND, prev_commit="20261122000000000")
NAME = f".{FILE_ID}_{INSTANT}.log.1_3-7-2"


def blocks_of(folder: Path) -> list[tuple[LogBlock, list[Any]]]:
    """The blocks with their rows, or their deletes as (key, ordering value)."""
    path = folder / "attempt" / NAME
    found: list[tuple[LogBlock, list[Any]]] = []
    with path.open("rb") as file:
        for block in scan_blocks(file, path.stat().st_size, name=NAME):
            assert isinstance(block, LogBlock)
            if block.type is BlockType.DELETE:
                (deletes,) = read_delete_block(file, block)
                values = [None] * len(deletes.keys) if deletes.ordering is None else deletes.ordering.to_pylist()
                found.append((block, list(zip(deletes.keys.to_pylist(), values, strict=True))))
            else:
                found.append((block, [row for batch in read_data_block(file, block) for row in batch.to_pylist()]))
    return found


def test_rows_and_then_deletes(tmp_path: Path) -> None:
    """One data block and one delete block, each with the instant and the schema and nothing else; rows have the file id
    as their file's name. Keeps 1 of write/handles/append and of write/handles/append."""
    rows: list[Row] = [("k3", 7, "c"), ("k4", 8, "gone"), ("k1", 5, "a"), ("k2", 6, "gone")]
    write(context(tmp_path), APPEND, rows)
    (data, written), (deletes, keys) = blocks_of(tmp_path)
    for block in (data, deletes):
        assert block.headers == {HeaderKey.INSTANT_TIME: INSTANT, HeaderKey.SCHEMA: log_block_schema(SCHEMA)}
    assert (data.type, deletes.type) == (BlockType.AVRO_DATA, BlockType.DELETE)
    assert [values_of(row) for row in written] == [("k1", 5, "a"), ("k3", 7, "c")]
    assert {row["_hoodie_file_name"] for row in written} == {FILE_ID}
    assert [row["_hoodie_commit_seqno"] for row in written] == [f"{INSTANT}_3_0", f"{INSTANT}_3_1"]
    assert keys == [("k2", 6), ("k4", 8)]


def test_the_stat_of_a_log(tmp_path: Path) -> None:
    """Field by field: the commit before is the write's own instant, rows count as updates, deletes are no writes."""
    (file,) = write(context(tmp_path), APPEND, [("k1", 5, "a"), ("k2", 6, "gone"), ("k3", 1, "c")]).files
    size = (tmp_path / "attempt" / NAME).stat().st_size
    times = file.stat.runtime_stats
    assert times is not None and (times.total_scan_time, times.total_create_time) == (0, 0)
    assert replace(file.stat, runtime_stats=None) == WriteStat(
        file_id=FILE_ID,
        path=f"{PARTITION}/{NAME}",
        prev_commit=INSTANT,
        num_writes=2,
        num_deletes=1,
        num_update_writes=2,
        total_write_bytes=size,
        total_write_errors=0,
        partition_path=PARTITION,
        total_log_records=0,
        total_updated_records_compacted=0,
        num_inserts=0,
        total_log_blocks=0,
        total_corrupt_log_block=0,
        total_rollback_blocks=0,
        file_size_in_bytes=size,
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(NAME,),
        total_log_files_compacted=0,
        total_log_read_time_ms=0,
        total_log_size_compacted=0,
        num_updates=0,
    )


@pytest.mark.parametrize("has_columns", [False, True])
def test_the_operation_delete(tmp_path: Path, has_columns: bool) -> None:
    """Its deletes have no ordering value, also where rows have one: they win always. Rows need no columns at all."""
    of = context(tmp_path, operation=WriteOperation.DELETE)
    schema = keyed_schema(COLUMNS if has_columns else pa.schema([]))
    rows = [part.select(schema.names) for part in batches([("k1", 5, "a"), ("k1", 6, "b")])]
    (file,) = write_target(LocalStorage(), of, APPEND, rows, 2).files
    ((_, keys),) = blocks_of(tmp_path)
    assert keys == [("k1", None)]
    assert (file.stat.num_writes, file.stat.num_deletes) == (0, 1)


def test_deletes_by_a_column_in_a_table_by_commit_time(tmp_path: Path) -> None:
    """They have no ordering value either."""
    write(context(tmp_path, rules=replace(COMMIT_TIME, ordering_fields=("ts",))), APPEND, [("k1", 5, "gone")])
    assert [keys for _, keys in blocks_of(tmp_path)] == [[("k1", None)]]


def test_the_tables_own_mark_of_deletion(tmp_path: Path) -> None:
    """A row that has it is a delete: in a log as a row it would come back in Hudi's queries."""
    rules = replace(EVENT_TIME, delete_field="v", delete_marker="D")
    write(context(tmp_path, rules=rules), APPEND, [("k1", 5, "D"), ("k2", 6, "E"), ("k3", 7, None)])
    (_, rows), (_, deletes) = blocks_of(tmp_path)
    assert ([row["k"] for row in rows], deletes) == (["k2", "k3"], [("k1", 5)])


def test_one_record_of_a_key(tmp_path: Path) -> None:
    """Also where the operation folds nothing: a row of a key that stood beside a delete of it would lose to it."""
    of = context(tmp_path, deduplicates=False, operation=WriteOperation.INSERT)
    write(of, APPEND, [("k1", 5, "a"), ("k1", 6, "gone"), ("k1", 7, "b")])
    assert [[values_of(row) for row in rows] for _, rows in blocks_of(tmp_path)] == [[("k1", 7, "b")]]


def test_keys_for_the_record_index(tmp_path: Path) -> None:
    """Deletes leave it. Rows of keys that were found change nothing there; of rows of a bucket it is not known."""
    rows: list[Row] = [("k1", 5, "a"), ("k2", 6, "gone")]
    assert key_changes(write(context(tmp_path / "found", wants_keys=True), APPEND, rows)) == [("k2", None)]
    to = replace(APPEND, counts_as_updates=True)
    assert sorted(key_changes(write(context(tmp_path / "bucket", wants_keys=True), to, rows))) == [
        ("k1", FILE_ID),
        ("k2", None),
    ]


def test_statistics_of_a_log(tmp_path: Path) -> None:
    """They are those of its rows, without sizes; a log of deletes has records of nothing."""
    indexed = IndexedColumns({"ts": "long"}, StatsVersion.V2)
    (file,) = write(context(tmp_path / "rows", indexed=indexed), APPEND, [("k1", 5, "a"), ("k2", 9, "gone")]).files
    ((found),) = file.column_stats
    assert (found.min_value, found.max_value, found.value_count, found.total_size) == (5, 5, 1, 0)
    (file,) = write(context(tmp_path / "none", indexed=indexed), APPEND, [("k2", 9, "gone")]).files
    ((found),) = file.column_stats
    assert (found.min_value, found.value_count) == (None, 0)


def test_many_rows_are_many_blocks(tmp_path: Path) -> None:
    """Each of them about as large as asked for, and still in order."""
    rows: list[Row] = [(f"k{number:04}", number, "x" * 100) for number in range(1_000)]
    write(context(tmp_path, sizes=FileSizes(log_block=20_000)), APPEND, rows, at_once=300)
    found = blocks_of(tmp_path)
    assert len(found) > 5
    assert [values_of(row) for _, part in found for row in part] == rows


def test_nothing_comes(tmp_path: Path) -> None:
    """Then there is no file. Keeps 3 of write/handles/append."""
    assert write(context(tmp_path), APPEND, []).files == ()
    assert not (tmp_path / "attempt" / NAME).exists()


def test_a_log_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of write/handles/append and of write/handles/append: rows or deletes that are not those that came."""

    def lose_one(self: LogFileWriter, keys: pa.Array, ordering: pa.Array, *, partition_path: str) -> None:
        genuine(self, keys[1:], ordering[1:], partition_path=partition_path)

    genuine = LogFileWriter.write_deletes
    monkeypatch.setattr(LogFileWriter, "write_deletes", lose_one)
    with pytest.raises(VerificationFailed):
        write(context(tmp_path), APPEND, [("k1", 5, "gone"), ("k2", 6, "gone")])


def test_a_row_that_no_log_can_hold(tmp_path: Path) -> None:
    """The error names the key and says what can be done about it by the writer."""
    required = SCHEMA.replace(
        '{"name": "v", "type": ["null", "string"], "default": null}', '{"name": "v", "type": "string"}'
    )
    with pytest.raises(Unsupported, match=r"key 'k1' cannot be written to a log\..*Correct the row"):
        write(context(tmp_path, schema=required), APPEND, [("k1", 5, None)])
