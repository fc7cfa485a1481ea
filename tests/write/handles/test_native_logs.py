"""Native logs on a slice, read by the second reader: which files there are, what they hold, what their stats say."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Unsupported, VerificationFailed
from lakeward.format.log.log_writer import log_block_schema
from lakeward.format.log.native_log.data_file import NativeDataWriter, NativeLogStats
from lakeward.format.log.native_log.delete_file import NativeDeleteWriter
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.format.timeline.commit_metadata import RuntimeStats
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.write.handles import append
from lakeward.write.handles.handle import write_target
from lakeward.write.keyed_rows import keyed_schema
from lakeward.write.request import FileSizes, WriteOperation
from lakeward.write.target import HandleKind, TargetResult, WriteContext, WriteTarget
from tests import native_log_judge as judge
from tests.write.handles.targets import (
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
    write,
)

APPEND = target(HandleKind.APPEND, prev_commit="20261122000000000")
ROWS: list[Row] = [("k3", 7, "c"), ("k4", 8, "gone"), ("k1", 5, "a"), ("k2", 6, "gone")]


def native(folder: Path, **values: Any) -> WriteContext:
    return context(folder, has_native_logs=True, **values)


def name(version: int, kind: str) -> str:
    return f"{FILE_ID}_3-7-2_{INSTANT}_{version}.{kind}.parquet"


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "attempt").iterdir() if "_" in path.name}


def records(folder: Path, ordering: tuple[str, ...] = ("ts",)) -> dict[str, list[tuple[str, Any]]]:
    """Keys of each file in its order, with `v`, or the ordering value of a delete."""
    return {
        each: [
            (key, version.row["v"] if version.row else version.ordering)
            for key, version in judge.versions(each, data, list(ordering))
        ]
        for each, data in written(folder).items()
    }


def test_rows_and_deletes_are_files_of_one_version(tmp_path: Path) -> None:
    """Each with the instant and the schema in its footer and nothing else. Keeps 4 of write/handles/append."""
    write(native(tmp_path), APPEND, ROWS)
    assert records(tmp_path) == {
        name(1, "log"): [("k1", "a"), ("k3", "c")],
        name(1, "deletes"): [("k2", (6,)), ("k4", (8,))],
    }
    said = {"VERSION": "2", "INSTANT_TIME": INSTANT, "SCHEMA": log_block_schema(SCHEMA)}
    assert [judge.footer(data) for data in written(tmp_path).values()] == [said, said]


def test_a_flush_has_the_files_that_it_needs(tmp_path: Path) -> None:
    """Keeps 1 of engine/task/native_log_output, and Keeps 3 of write/handles/append for native logs."""
    write(native(tmp_path / "rows"), APPEND, [("k1", 5, "a")])
    assert list(written(tmp_path / "rows")) == [name(1, "log")]
    write(native(tmp_path / "deletes"), APPEND, [("k1", 5, "gone")])
    assert list(written(tmp_path / "deletes")) == [name(1, "deletes")]
    assert write(native(tmp_path / "none"), APPEND, []).files == ()
    assert not written(tmp_path / "none")


def test_the_operation_delete(tmp_path: Path) -> None:
    """Its deletes have no ordering value. Rows need no columns at all."""
    of = native(tmp_path, operation=WriteOperation.DELETE)
    schema = keyed_schema(pa.schema([]))
    rows = [part.select(schema.names) for part in batches([("k1", 5, "a"), ("k2", 6, "b")])]
    (file,) = write_target(LocalStorage(), of, APPEND, rows, 2).files
    assert records(tmp_path) == {name(1, "deletes"): [("k1", judge.UNCONDITIONAL), ("k2", judge.UNCONDITIONAL)]}
    assert (file.stat.num_writes, file.stat.num_deletes) == (0, 2)


def test_deletes_in_a_table_by_commit_time(tmp_path: Path) -> None:
    """There is no ordering column, also where the table names one."""
    write(native(tmp_path, rules=replace(COMMIT_TIME, ordering_fields=("ts",))), APPEND, [("k1", 5, "gone")])
    assert records(tmp_path, ()) == {name(1, "deletes"): [("k1", judge.UNCONDITIONAL)]}


def test_a_stat_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an inline log has in one stat is in two, and the second names both files. Keeps 7 of
    write/handles/append."""
    monkeypatch.setattr(append, "time", SimpleNamespace(monotonic=count(step=3).__next__))
    rows, deletes = write(native(tmp_path), APPEND, ROWS).files
    files = written(tmp_path)
    for file, counts in ((rows, (2, 2, 0)), (deletes, (0, 0, 2))):
        stat, size = file.stat, len(files[file.name])
        assert (stat.num_writes, stat.num_update_writes, stat.num_deletes) == counts
        assert (stat.num_inserts, stat.num_updates, stat.total_write_errors) == (0, 0, 0)
        assert (stat.path, stat.file_id, stat.partition_path) == (f"{PARTITION}/{file.name}", FILE_ID, PARTITION)
        assert (file.size_bytes, stat.file_size_in_bytes, stat.total_write_bytes) == (size, size, size)
        assert (stat.log_version, stat.log_offset, stat.base_file, stat.prev_commit) == (1, 0, "", INSTANT)
    assert [file.stat.runtime_stats for file in (rows, deletes)] == [RuntimeStats(0, 0, 3_000), RuntimeStats(0, 0, 0)]
    assert rows.stat.log_files == (name(1, "log"),)
    assert deletes.stat.log_files == (name(1, "log"), name(1, "deletes"))


def roll_over(folder: Path, to: WriteTarget = APPEND, count: int = 2_000) -> TargetResult:
    """One row of ten is a delete, and a batch has a hundred."""
    rows: list[Row] = [(f"k{n:05}", n, "gone" if n % 10 == 9 else f"{n}" * 40) for n in range(count)]
    return write(native(folder, sizes=FileSizes(max_file=16_000)), to, rows, at_once=100)


def test_files_that_grow_too_large(tmp_path: Path) -> None:
    """Both end, and the next ones have the next version; all together have each key once. Keeps 2 of
    engine/task/native_log_output."""
    result = roll_over(tmp_path)
    found = records(tmp_path)
    versions = sorted({int(judge.name_parts(each)["version"]) for each in found})
    assert len(versions) > 2 and versions == list(range(1, len(versions) + 1))
    assert [file.name for file in result.files] == [
        name(version, kind) for version in versions for kind in ("log", "deletes") if name(version, kind) in found
    ]
    keys = [key for of in found.values() for key, _ in of]
    assert len(keys) == 2_000 == len(set(keys))
    stats = [file.stat for file in result.files]
    assert [stat.log_version for stat in stats] == [
        int(judge.name_parts(file.name)["version"]) for file in result.files
    ]
    assert stats[-1].log_files == tuple(file.name for file in result.files)
    assert sum(stat.num_writes or 0 for stat in stats) == 1_800


def test_one_file_of_each_kind_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush ends before the next one begins. Keeps 4 of engine/task/native_log_output."""
    shown: list[str] = []
    begin, end = NativeDataWriter.__init__, NativeDataWriter.close

    def begins(self: NativeDataWriter, *values: Any, **named: Any) -> None:
        shown.append("begins")
        begin(self, *values, **named)

    def ends(self: NativeDataWriter) -> NativeLogStats:
        shown.append("ends")
        return end(self)

    monkeypatch.setattr(NativeDataWriter, "__init__", begins)
    monkeypatch.setattr(NativeDataWriter, "close", ends)
    roll_over(tmp_path)
    assert shown == ["begins", "ends"] * (len(shown) // 2) and len(shown) > 4


def test_statistics_of_each_file(tmp_path: Path) -> None:
    """A file of rows has what its footer says, one of deletes empty ranges. Keeps 3 of
    engine/task/native_log_output."""
    indexed = IndexedColumns({"ts": "long", "v": "string"}, StatsVersion.V2)
    rows, deletes = write(native(tmp_path, indexed=indexed), APPEND, ROWS).files
    ts, v = rows.column_stats
    assert (ts.column, ts.min_value, ts.max_value, ts.value_count, v.min_value) == ("ts", 5, 7, 2, "a")
    assert ts.total_size > 0 and {each.file_name for each in rows.column_stats} == {rows.name}
    assert [(each.column, each.min_value, each.value_count, each.file_name) for each in deletes.column_stats] == [
        ("ts", None, 0, deletes.name),
        ("v", None, 0, deletes.name),
    ]


def test_keys_for_the_record_index(tmp_path: Path) -> None:
    """They are those of inline logs."""
    rows: list[Row] = [("k1", 5, "a"), ("k2", 6, "gone")]
    to = replace(APPEND, counts_as_updates=True)
    assert sorted(key_changes(write(native(tmp_path, wants_keys=True), to, rows))) == [("k1", FILE_ID), ("k2", None)]


@pytest.mark.parametrize("lost", ["deletes", "rows"])
def test_native_logs_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """Keeps 8 of write/handles/append: deletes or rows that are not those that came."""
    if lost == "deletes":
        genuine = NativeDeleteWriter.write
        monkeypatch.setattr(
            NativeDeleteWriter, "write", lambda self, keys, ordering: genuine(self, keys[1:], ordering[1:])
        )
    else:
        of_rows = NativeDataWriter.write
        monkeypatch.setattr(NativeDataWriter, "write", lambda self, rows, **more: of_rows(self, rows.slice(1)))
    with pytest.raises(VerificationFailed):
        write(native(tmp_path), APPEND, ROWS)


def test_several_ordering_fields(tmp_path: Path) -> None:
    """A delete has a value in each, or it is refused: Hudi would read 0 in all of them."""
    rules = replace(EVENT_TIME, ordering_fields=("ts", "v"), delete_field="k", delete_marker="D")
    write(native(tmp_path / "values", rules=rules), APPEND, [("D", 5, "x")])
    assert records(tmp_path / "values", ("ts", "v")) == {name(1, "deletes"): [("D", (5, "x"))]}
    with pytest.raises(Unsupported, match="no value in v"):
        write(native(tmp_path / "null", rules=rules), APPEND, [("D", 5, None)])
    assert not written(tmp_path / "null")


def test_a_row_that_cannot_be_written(tmp_path: Path) -> None:
    """Then there is no footer, whatever was written before, so nothing reads the file as a whole one."""
    required = SCHEMA.replace(
        '{"name": "v", "type": ["null", "string"], "default": null}', '{"name": "v", "type": "string"}'
    )
    with pytest.raises(BrokenFile, match="would hold a null"):
        write(native(tmp_path, schema=required), APPEND, [("k0", 1, "gone"), ("k1", 5, None)])
    assert not any(data.endswith(b"PAR1") for data in written(tmp_path).values())
