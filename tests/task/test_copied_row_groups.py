"""An operation whose base file is sorted carries row groups over that no log touches."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.errors import BrokenFile, VerificationFailed
from lakeward.format.avro.schema import table_schema
from lakeward.format.parquet import base_file
from lakeward.format.parquet.base_file import BaseFileWriter
from lakeward.format.parquet.stored_row_groups import RowGroupCopies
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.merge import copy_through
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from lakeward.task.operation import run_operation
from lakeward.task.operation_spec import OperationResult, OperationSpec
from tests.read.log_files import TABLE_SCHEMA, data_block, delete_block, row

SCHEMA = json.dumps({**TABLE_SCHEMA, "fields": [*TABLE_SCHEMA["fields"], {"name": "d", "type": ["null", "double"]}]})
BASE = "fg_0-0-0_100.parquet"
ROWS = 8
"""A row group's; the base file has five."""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OperationSpec:
    for module in (base_file, copy_through):
        monkeypatch.setattr(module, "ROW_GROUP_ROWS", ROWS)
    write_base(tmp_path, [key(number) for number in range(5 * ROWS)])
    (tmp_path / "attempt").mkdir()
    # The second row group is updated, the fourth loses a row; one row is new between the second and the third.
    log(tmp_path, "200", data_block("200", [row(key(10), 20, "log"), row(f"{key(15)}+", 1, "new")]))
    log(tmp_path, "201", delete_block("201", [(key(25), None), (f"{key(25)}+", None)]))
    slice_input = SliceInput(
        partition_path="",
        file_id="fg",
        base_file=BASE,
        log_files=(log_name("200"), log_name("201")),
        base_path=str(tmp_path),
        instant="999",
        schema=SCHEMA,
        rules=MergeRules(MergeMode.EVENT_TIME_ORDERING, ("ts",)),
    )
    return OperationSpec(0, slice_input, attempt=1, attempt_folder=str(tmp_path / "attempt"), input_bytes=1)


def key(number: int) -> str:
    return f"ké {number:03}"


def write_base(folder: Path, keys: list[str], *, codec: str = "zstd") -> None:
    rows = [{**row(each, 10, "base"), "d": len(keys) - place} for place, each in enumerate(keys)]
    with (folder / BASE).open("wb") as sink:
        writer = BaseFileWriter(sink, table_schema(SCHEMA), file_name=BASE, codec=codec)
        writer.write(pa.RecordBatch.from_pylist(rows, table_schema(SCHEMA)))
        writer.close(is_sorted=True)


def log_name(instant: str) -> str:
    return f".fg_{instant}.log.1_0-0-0"


def log(folder: Path, instant: str, data: bytes) -> None:
    (folder / log_name(instant)).write_bytes(data)


def output(spec: OperationSpec, result: OperationResult) -> Path:
    return Path(spec.attempt_folder) / result.file_name


def rows_of(path: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(path).drop_columns("_hoodie_file_name").to_pylist())


def without_copying(
    spec: OperationSpec, monkeypatch: pytest.MonkeyPatch
) -> tuple[OperationResult, list[dict[str, Any]]]:
    with monkeypatch.context() as patch:
        patch.setattr("lakeward.read.file_slice.find_untouched", lambda *_, **__: ())
        result = run_operation(LocalStorage(), spec, 900)
    path = output(spec, result)
    return result, rows_of(path.rename(path.with_name("without copying")))


def test_the_output_is_that_of_a_merge_of_all_rows(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in their order, counts, filter and range of keys; only how many row groups were copied is told apart.

    Keeps 6 of read/file_slice.
    """
    result = run_operation(LocalStorage(), spec, 0)
    expected, rows = without_copying(spec, monkeypatch)
    assert result.counts == replace(expected.counts, row_groups_copied=3)
    assert expected.counts.row_groups_copied == 0
    assert rows_of(output(spec, result)) == rows
    assert {"log", "new", "base"} == {each["v"] for each in rows}
    names = pq.read_table(output(spec, result)).column("_hoodie_file_name")
    assert names.unique().to_pylist() == [result.file_name]
    entries = pq.read_metadata(output(spec, result)).metadata
    assert entries == pq.read_metadata(Path(spec.attempt_folder) / "without copying").metadata
    assert entries.keys() >= {b"org.apache.hudi.bloomfilter", b"hoodie_min_record_key", b"lakeward.sorted.by"}


def test_it_goes_on_from_one_compaction_to_the_next(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is made of copies is the base file of the next, whose copies are made of it."""
    folder = Path(spec.slice.base_path)
    for number in range(4):
        result = run_operation(LocalStorage(), spec, number)
        assert result.counts.row_groups_copied > 0
        assert rows_of(output(spec, result)) == without_copying(spec, monkeypatch)[1]
        (folder / BASE).write_bytes(output(spec, result).read_bytes())
        log(folder, "200", data_block("200", [row(key(10 * number), 30, f"{number}"), row(f"new {number}", 1, "new")]))


def test_statistics_of_columns_cover_the_copied_rows(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of floats, which no footer has, are read from the file."""
    columns = {"_hoodie_record_key": "string", "ts": "long", "d": "double"}
    indexed = replace(spec, indexed=IndexedColumns(columns, StatsVersion.V2))
    found = {record.column: record for record in run_operation(LocalStorage(), indexed, 0).column_stats}
    expected = {record.column: record for record in without_copying(indexed, monkeypatch)[0].column_stats}
    assert found.keys() == columns.keys()
    for name, record in found.items():
        assert (record.min_value, record.max_value, record.null_count, record.value_count) == (
            expected[name].min_value,
            expected[name].max_value,
            expected[name].null_count,
            expected[name].value_count,
        )
    assert (found["d"].min_value, found["d"].max_value) == (1.0, 5.0 * ROWS)


@pytest.mark.parametrize("change", ["not sorted", "another column", "another library", "a cut range"])
def test_where_it_cannot_be_proved_right_all_rows_are_merged(
    spec: OperationSpec, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base file without the word of its footer, of another form, or whose ranges are not exact."""
    path = Path(spec.slice.base_path) / BASE
    if change == "not sorted":
        path.write_bytes(path.read_bytes().replace(b"lakeward.sorted.by", b"lakeward.sorted.no"))
    elif change == "another column":
        fields = [*json.loads(SCHEMA)["fields"], {"name": "added", "type": ["null", "int"], "default": None}]
        spec = replace(spec, slice=replace(spec.slice, schema=json.dumps({**TABLE_SCHEMA, "fields": fields})))
    elif change == "another library":
        path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow version 2", b"parquet-cpp-arrow version 1"))
    else:
        write_base(path.parent, [f"{number}" * 5000 for number in range(9)] + [f"x{i}" for i in range(30)])
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.row_groups_copied == 0
    assert rows_of(output(spec, result)) == without_copying(spec, monkeypatch)[1]


def test_codecs_may_differ(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column chunk says how it is compressed."""
    write_base(Path(spec.slice.base_path), [key(number) for number in range(5 * ROWS)], codec="snappy")
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.row_groups_copied == 3
    assert rows_of(output(spec, result)) == without_copying(spec, monkeypatch)[1]


def test_a_row_group_that_is_not_sorted_within(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ranges ascend, its keys do not: all is merged once more, without relying on any order."""
    keys = [key(number) for number in range(5 * ROWS)]
    keys[34], keys[35] = keys[35], keys[34]
    write_base(Path(spec.slice.base_path), keys)
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.merged_by is MergedBy.HASHES_AFTER_ORDER
    assert result.counts.row_groups_copied == 0
    assert sorted(each["id"] for each in rows_of(output(spec, result))) == sorted({*keys, f"{key(15)}+"} - {key(25)})


def test_a_key_twice_in_a_row_group_that_is_copied(spec: OperationSpec) -> None:
    """Such a base file is refused, as where its rows are decoded."""
    keys = [key(number) for number in range(5 * ROWS)]
    keys[35] = keys[34]
    write_base(Path(spec.slice.base_path), keys)
    with pytest.raises(BrokenFile, match="more than once"):
        run_operation(LocalStorage(), spec, 0)


class Bent(RowGroupCopies):
    """A planted bug: a byte of what is copied changes on its way."""

    def copy(self, source: BinaryIO, *args: Any, **options: Any) -> None:
        at = pq.read_metadata(source).row_group(0).column(5).data_page_offset + 40
        data = bytearray(Path(source.name).read_bytes())
        data[at] ^= 1
        super().copy(io.BytesIO(bytes(data)), *args, **options)


def test_a_byte_that_changes_on_its_way_is_seen(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is published of it. Without the checks it gets through, so it is they that see it."""
    monkeypatch.setattr(base_file, "RowGroupCopies", Bent)
    with pytest.raises(VerificationFailed, match=r"copied from 0, has other bytes in the column id"):
        run_operation(LocalStorage(), spec, 0)
    assert run_operation(LocalStorage(), replace(spec, verify=False), 1).counts.row_groups_copied == 3
