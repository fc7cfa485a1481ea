"""An operation whose base file is sorted carries row groups over that no log touches."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile, VerificationFailed
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.avro.schema import table_schema
from lakeward.format.bloom_filter import BloomFilter
from lakeward.format.bloom_lookup import TYPE_CODE
from lakeward.format.parquet import base_file
from lakeward.format.parquet.base_file import BaseFileWriter
from lakeward.format.parquet.key_summary import BLOOM_KEY, BLOOM_TYPE_KEY, MAX_KEY, MIN_KEY, SealedKeys
from lakeward.format.parquet.stored_row_groups import RowGroupCopies
from lakeward.format.parquet.thrift_tree import read_struct
from lakeward.format.stats.stats_value import StatsVersion
from lakeward.merge import copy_through
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.read.slice_input import MergedBy, SliceInput
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import IndexedColumns
from tests.format.parquet.test_stored_row_groups import footer_of, with_footer
from tests.read.log_files import TABLE_SCHEMA, data_block, delete_block, row
from tests.runs import runs

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


def bloom_of(path: Path) -> BloomFilter:
    return BloomFilter.from_base64(pq.read_metadata(path).metadata[BLOOM_KEY.encode()], TYPE_CODE)


def without_seal(spec: OperationSpec) -> None:
    """The base file as a release without seals wrote it."""
    path = Path(spec.slice.base_path) / BASE
    path.write_bytes(path.read_bytes().replace(b"lakeward.seal", b"lakeward.none"))


def filters_taken_over(monkeypatch: pytest.MonkeyPatch) -> list[SealedKeys]:
    """Each time that a file begins with the filter of the one before."""
    found: list[SealedKeys] = []
    whole = BaseFileWriter.begin_with

    def counted(writer: BaseFileWriter, keys: SealedKeys) -> None:
        found.append(keys)
        whole(writer, keys)

    monkeypatch.setattr(BaseFileWriter, "begin_with", counted)
    return found


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[SealedKeys]:
    return filters_taken_over(monkeypatch)


def without_copying(
    spec: OperationSpec, monkeypatch: pytest.MonkeyPatch
) -> tuple[OperationResult, list[dict[str, Any]]]:
    with monkeypatch.context() as patch:
        patch.setattr("lakeward.read.file_slice.find_untouched", lambda *_, **__: ())
        result = run_operation(LocalStorage(), spec, 900)
    path = output(spec, result)
    return result, rows_of(path.rename(path.with_name("without copying")))


def test_the_output_is_that_of_a_merge_of_all_rows(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in their order, counts and range of keys; the filter has keys more that are gone.

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
    others = pq.read_metadata(Path(spec.attempt_folder) / "without copying").metadata
    assert entries.keys() == others.keys() >= {BLOOM_KEY.encode(), b"lakeward.sorted.by", b"lakeward.seal"}
    for name in (MIN_KEY, MAX_KEY, BLOOM_TYPE_KEY, "lakeward.sorted.by"):
        assert entries[name.encode()] == others[name.encode()]
    bloom = bloom_of(output(spec, result))
    assert bloom.has_all(pa.array([each["_hoodie_record_key"] for each in rows]))
    assert bloom.has_all(pa.array([key(number) for number in range(5 * ROWS)]))
    assert not bloom.has_all(pa.array(["another"]))


@pytest.mark.parametrize(("memory_mib", "copied"), [(4, 0), (64, 3)])
def test_a_footer_beyond_its_share_copies_nothing(
    spec: OperationSpec, monkeypatch: pytest.MonkeyPatch, memory_mib: int, copied: int
) -> None:
    """Its rows are encoded, and are the same: of 4 MiB it has a sixteenth."""
    spec = replace(spec, slice=replace(spec.slice, memory_bytes=memory_mib * 1024**2))
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.row_groups_copied == copied
    assert rows_of(output(spec, result)) == without_copying(spec, monkeypatch)[1]


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
    """A base file whose footer does not say it, of another form, or whose ranges are not exact."""
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


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_row_group_that_is_not_sorted_within(
    spec: OperationSpec, is_sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranges ascend, its keys do not: all is merged once more, without relying on any order.

    With a seal the keys of one row group are looked at, and within three instants it was this one.
    """
    keys = [key(number) for number in range(5 * ROWS)]
    keys[34], keys[35] = keys[35], keys[34]
    write_base(Path(spec.slice.base_path), keys)
    if not is_sealed:
        without_seal(spec)
    found = []
    for number in range(3 if is_sealed else 1):
        result = run_operation(LocalStorage(), with_instant(spec, f"{900 + number}"), number)
        found.append(result.counts.merged_by)
        assert sorted(each["id"] for each in rows_of(output(spec, result))) == sorted(
            {*keys, f"{key(15)}+"} - {key(25)}
        )
        assert (result.counts.row_groups_copied == 0) == (found[-1] is MergedBy.HASHES_AFTER_ORDER)
    assert MergedBy.HASHES_AFTER_ORDER in found
    assert not is_sealed or MergedBy.ORDER in found


def with_instant(spec: OperationSpec, instant: str) -> OperationSpec:
    return replace(spec, slice=replace(spec.slice, instant=instant))


@pytest.mark.parametrize("number", range(3))
def test_a_filter_that_has_not_all_keys(spec: OperationSpec, number: int, begun: list[SealedKeys]) -> None:
    """A planted bug of an earlier release, under a seal that holds: it is seen, and all keys are read again."""
    path = Path(spec.slice.base_path) / BASE
    with mock.patch.object(BloomFilter, "add"):
        write_base(path.parent, [key(number) for number in range(5 * ROWS)])
    result = run_operation(LocalStorage(), with_instant(spec, f"{900 + number}"), 0)
    assert len(begun) == 1
    assert result.counts.merged_by is MergedBy.HASHES_AFTER_ORDER
    assert bloom_of(output(spec, result)).has_all(pa.array([key(number) for number in range(25)]))


def test_a_key_twice_in_a_row_group_that_is_copied(spec: OperationSpec) -> None:
    """The file says that there is none: it is merged without relying on its order, and keeps both rows."""
    keys = [key(number) for number in range(5 * ROWS)]
    keys[35] = keys[34]
    write_base(Path(spec.slice.base_path), keys)
    without_seal(spec)
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.merged_by is MergedBy.HASHES_AFTER_ORDER and result.counts.row_groups_copied == 0
    written = pq.read_table(output(spec, result)).column("_hoodie_record_key").to_pylist()
    assert written.count(keys[34]) == 2


def test_a_file_that_another_writer_made_of_lakeward(spec: OperationSpec, begun: list[SealedKeys]) -> None:
    """It kept all entries of the footer, and has other keys: they are read, and the new filter has them."""
    path = Path(spec.slice.base_path) / BASE
    entries, _ = read_struct(footer_of(io.BytesIO(path.read_bytes())))
    write_base(path.parent, [key(number) for number in range(100, 100 + 5 * ROWS)])
    changed = with_footer(io.BytesIO(path.read_bytes()), lambda tree: tree.fields.update({5: entries.fields[5]}))
    path.write_bytes(changed.getvalue())
    result = run_operation(LocalStorage(), spec, 0)
    assert result.counts.row_groups_copied > 2
    assert begun == []
    written = pq.read_table(output(spec, result)).column("_hoodie_record_key").combine_chunks()
    assert bloom_of(output(spec, result)).has_all(written)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("column", ["_hoodie_record_key", "_hoodie_file_name", "ts"])
def test_a_damaged_row_group_is_not_copied(spec: OperationSpec, column: str, verify: bool) -> None:
    """A byte of it is not what it was when it was written. Keeps 5 of format/parquet/stored_row_groups."""
    path = Path(spec.slice.base_path) / BASE
    group = pq.read_metadata(path).row_group(4)
    (chunk,) = (each for each in map(group.column, range(group.num_columns)) if each.path_in_schema == column)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 1 - bool(chunk.has_dictionary_page)] ^= 1
    path.write_bytes(data)
    with pytest.raises(BrokenFile, match=r"row group 4 of the base file .* is damaged"):
        run_operation(LocalStorage(), replace(with_instant(spec, "900"), verify=verify), 0)


@pytest.mark.parametrize("seed", range(runs(2)))
def test_generations_of_copies(spec: OperationSpec, seed: int, begun: list[SealedKeys]) -> None:
    """Rows are those of a merge of all rows; the filter has every key, and of keys that are gone not too many."""
    folder, chance = Path(spec.slice.base_path), random.Random(seed)
    rows = {key(number): "base" for number in range(5 * ROWS)}
    generations = 8
    for number in range(generations):
        at = chance.randrange(0, 60)
        written = [f"{key(at + chance.randrange(3))}{chance.choice(['', '', '-', '+'])}" for _ in range(3)]
        gone = [f"{key(at + chance.randrange(3))}{chance.choice(['', '', '-', '+'])}" for _ in range(2)]
        log(folder, "200", data_block("200", [row(each, 100 + number, f"{number}") for each in sorted(set(written))]))
        log(folder, "201", delete_block("201", [(each, None) for each in sorted(set(gone))]))
        result = run_operation(LocalStorage(), with_instant(spec, f"9{number:03}"), number)
        rows = {each: v for each, v in (rows | dict.fromkeys(written, f"{number}")).items() if each not in gone}
        found = rows_of(output(spec, result))
        assert [(each["id"], each["v"]) for each in found] == sorted(rows.items())
        bloom = bloom_of(output(spec, result))
        assert bloom.has_all(pa.array(sorted(rows)))
        assert sum(bloom.has_all(pa.array([f"another {other}"])) for other in range(50)) == 0
        (folder / BASE).write_bytes(output(spec, result).read_bytes())
    assert 0 < len(begun) < generations


class Bent(RowGroupCopies):
    """A planted bug: a byte of what is copied changes on its way."""

    def copy(self, source: BinaryIO, *args: Any, **options: Any) -> None:
        at = pq.read_metadata(source).row_group(0).column(5).data_page_offset + 40
        data = bytearray(Path(source.name).read_bytes())
        data[at] ^= 1
        super().copy(io.BytesIO(bytes(data)), *args, **options)


def test_a_byte_that_changes_on_its_way_is_seen(spec: OperationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is published of it. Without the checks it gets through, so it is they that see it."""
    without_seal(spec)
    monkeypatch.setattr(base_file, "RowGroupCopies", Bent)
    with pytest.raises(VerificationFailed, match=r"copied from 0, has other bytes in the column id"):
        run_operation(LocalStorage(), spec, 0)
    assert run_operation(LocalStorage(), replace(spec, verify=False), 1).counts.row_groups_copied == 3
